#pragma once
// The interface of the module `pmix` (shared_module.h), which exports one object,
// `dlrun_pmix_module`. Ranks that a launcher (srun --mpi=pmix, Open MPI's mpirun) has started find
// each other through PMIx. MPI libraries also use PMIx.

#include <chrono>
#include <memory>
#include <string>

#include "common/result.h"

namespace dlrun {

/// This process as a client of the launcher. Every function may be called from any thread.
class PmixClient {
 public:
  virtual ~PmixClient() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;

  /// Returns the name of the node of a rank; empty if the launcher's answer is not a text. Fails
  /// with kUnavailable if the launcher reports an error.
  [[nodiscard]] virtual Result<std::string> host_of(int rank) = 0;

  /// Stores a value for this rank and key in the launcher. `key` has at most 500 bytes and no zero
  /// byte. Fails with kUnavailable if the launcher reports an error.
  [[nodiscard]] virtual Result<> put(const std::string& key, std::string_view value) = 0;

  /// Waits until `rank` has put a value under `key`, and returns the value. Fails with kTimeout
  /// if there is no value within `wait`, and with kUnavailable if the launcher reports an error.
  /// The process of that rank need not call anything meanwhile.
  [[nodiscard]] virtual Result<std::string> get(int rank, const std::string& key,
                                                std::chrono::milliseconds wait) = 0;

 protected:
  PmixClient() = default;
  PmixClient(const PmixClient&) = default;
  PmixClient& operator=(const PmixClient&) = default;
};

struct PmixModule {
  /// The version of dlrun, and a hash of the headers that program and module share.
  const char* interface = nullptr;
  /// Connects to the launcher. Fails with kUnavailable if no launcher answers, and with kInternal
  /// if the number of ranks in its answer has another type than expected.
  Result<std::unique_ptr<PmixClient>> (*connect)() = nullptr;
};

}  // namespace dlrun
