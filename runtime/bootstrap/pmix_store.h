#pragma once
// A store over PMIx, for ranks without an agent: ranks that `srun --mpi=pmix` or Open MPI's mpirun
// has started.

#include "common/env.h"
#include "runtime/bootstrap/memory_store.h"
#include "runtime/bootstrap/pmix_client.h"
#include "runtime/bootstrap/store.h"
#include "runtime/bootstrap/world.h"

namespace dlrun {

/// PMIx has no common table, but one table for each rank. So each key belongs to one rank, and only
/// this rank may put it: the rank whose number is at the end of the key ("gloo/world/3"), or rank 0
/// if there is no number ("nccl/world/id"). The launcher's daemon on a rank's node holds the values
/// of this rank. The values may be lost when the rank ends, because the daemon may then also end.
class PmixStore final : public Store {
 public:
  /// Fails as load_pmix() and PmixModule::connect() do, and with kInvalid if the launcher's rank or
  /// size differs from that of `world`.
  [[nodiscard]] static Result<std::unique_ptr<PmixStore>> open(const World& world);

  explicit PmixStore(std::unique_ptr<PmixClient> client) : client_(std::move(client)) {}

  /// Fails as Store::put() does, and with kInvalid if the key belongs to another rank.
  [[nodiscard]] Result<> put(std::string_view key, std::string_view value) override;
  [[nodiscard]] Result<std::string> get(std::string_view key,
                                        std::chrono::milliseconds wait) override;

  /// Returns the local IP address that this node uses to reach the first other node of the job;
  /// empty if all ranks are on one node. Fails with kUnavailable if the name of that node cannot be
  /// resolved or resolves to a loopback address, if there is no route to that node, or if the
  /// launcher reports an error.
  [[nodiscard]] Result<std::string> own_address() override;

 private:
  /// Returns the rank to which the key belongs. Fails with kInvalid if the key is empty or too
  /// long, or if the number at its end is not a rank of the world.
  [[nodiscard]] Result<int> owner_of(std::string_view key) const;

  std::unique_ptr<PmixClient> client_;
  MemoryStore own_;  ///< keys and values that this rank has put
};

/// Loads the module `pmix`. Fails with kUnavailable if this installation does not have the module,
/// if the module is from another build, or if libpmix is missing.
[[nodiscard]] Result<const PmixModule*> load_pmix();

/// Returns true if env has the variables of a launcher with PMIx.
[[nodiscard]] bool has_pmix(const Env& env);

}  // namespace dlrun
