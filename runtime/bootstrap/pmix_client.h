#pragma once
// The interface of the module `pmix` (shared_module.h), which exports one object,
// `dlrun_pmix_module`. Through PMIx the ranks that a launcher (srun --mpi=pmix, Open MPI's mpirun)
// started find each other. MPI libraries use PMIx, too.

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

  /// Returns the name of the node of a rank.
  [[nodiscard]] virtual Result<std::string> host_of(int rank) = 0;

  /// Gives the launcher a value for this rank and key. key: at most 500 bytes without a zero byte.
  [[nodiscard]] virtual Result<> put(const std::string& key, std::string_view value) = 0;

  /// Waits for the value that `rank` has put under key and returns it. That rank need not take
  /// part. Fails with kTimeout if the value is not there within `wait`, and with kUnavailable if
  /// the launcher reports an error.
  [[nodiscard]] virtual Result<std::string> get(int rank, const std::string& key,
                                                std::chrono::milliseconds wait) = 0;

 protected:
  PmixClient() = default;
  PmixClient(const PmixClient&) = default;
  PmixClient& operator=(const PmixClient&) = default;
};

struct PmixModule {
  /// Version, and hash of the headers that program and module share.
  const char* interface = nullptr;
  /// Connects to the launcher. Fails with kUnavailable if no launcher answers.
  Result<std::unique_ptr<PmixClient>> (*connect)() = nullptr;
};

}  // namespace dlrun
