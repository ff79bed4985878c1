#pragma once
// What the module `pmix` (shared_module.h) exports: one object, `dlrun_pmix_module`. PMIx is how a
// launcher (srun
// --mpi=pmix, Open MPI's mpirun) lets the ranks that it started find each other; MPI libraries use
// the same.

#include <chrono>
#include <memory>
#include <string>

#include "common/result.h"

namespace dlrun {

/// This process as one of the launcher's. Every function may be called from any thread.
class PmixClient {
 public:
  virtual ~PmixClient() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;

  /// The name of the node of a rank.
  [[nodiscard]] virtual Result<std::string> host_of(int rank) = 0;

  /// Hands value to the launcher, under this rank's name and key; key is a C string of at most 500
  /// bytes.
  [[nodiscard]] virtual Result<> put(const std::string& key, std::string_view value) = 0;

  /// What rank has put under key. Waits for it, without that rank's help; fails with kTimeout when
  /// it is not there within wait, with kUnavailable when the launcher has no answer.
  [[nodiscard]] virtual Result<std::string> get(int rank, const std::string& key,
                                                std::chrono::milliseconds wait) = 0;

 protected:
  PmixClient() = default;
  PmixClient(const PmixClient&) = default;
  PmixClient& operator=(const PmixClient&) = default;
};

struct PmixModule {
  const char* interface =
      nullptr;  ///< version and hash of the headers that program and module share
  /// Fails with kUnavailable where no launcher answers.
  Result<std::unique_ptr<PmixClient>> (*connect)() = nullptr;
};

}  // namespace dlrun
