#pragma once
// A store without an agent: over PMIx, where `srun --mpi=pmix` or Open MPI's mpirun started the
// ranks.

#include "common/env.h"
#include "runtime/bootstrap/memory_store.h"
#include "runtime/bootstrap/pmix_client.h"
#include "runtime/bootstrap/store.h"
#include "runtime/bootstrap/world.h"

namespace dlrun {

/// PMIx has no table of all, but one of each rank. So a key says whose it is: the rank that the
/// number at its end is
/// ("gloo/world/3"), rank 0 where it ends otherwise ("nccl/world/id"). Only that rank may put it.
/// What a rank has put may be lost once it has ended: the daemon of its node may have ended with
/// it.
class PmixStore final : public Store {
 public:
  /// Fails with kUnavailable (as load_pmix(), or no launcher answers) and kInvalid (the launcher's
  /// rank and size are not world's).
  [[nodiscard]] static Result<std::unique_ptr<PmixStore>> open(const World& world);

  explicit PmixStore(std::unique_ptr<PmixClient> client) : client_(std::move(client)) {}

  /// Fails with kInvalid when key is another rank's.
  [[nodiscard]] Result<> put(std::string_view key, std::string_view value) override;
  [[nodiscard]] Result<std::string> get(std::string_view key,
                                        std::chrono::milliseconds wait) override;

  /// The address that this node takes towards the first other node of the job.
  [[nodiscard]] Result<std::string> own_address() override;

 private:
  /// The rank whose key it is. Fails with kInvalid: no rank of this world, or too long.
  [[nodiscard]] Result<int> owner_of(std::string_view key) const;

  std::unique_ptr<PmixClient> client_;
  MemoryStore own_;  ///< what this rank has put
};

/// The module. Fails with kUnavailable: this installation has none, it is of another build, libpmix
/// is missing.
[[nodiscard]] Result<const PmixModule*> load_pmix();

/// Whether a launcher that speaks PMIx started this process, by its variables.
[[nodiscard]] bool has_pmix(const Env& env);

}  // namespace dlrun
