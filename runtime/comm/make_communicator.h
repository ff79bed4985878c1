#pragma once
// From a backend's name to a connected communicator.

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/result.h"
#include "runtime/bootstrap/world.h"
#include "runtime/comm/communicator.h"

namespace dlrun {

class Store;

struct CommunicatorOptions {
  /// rank and size; local_rank chooses the GPU where this process sees several (nccl); local_size
  /// ranks share this node's cores (mpi).
  World world;
  /// On how many processors this process may run. make_communicator finds it out.
  int processors = 0;
  bool has_mpi_launcher =
      false;  ///< has_mpi_launcher(Env::of_process()); decides what "auto" takes

  /// Where ranks find each other; not owned, must outlive the communicator. mpi and single need
  /// none.
  Store* store = nullptr;
  /// Distinguishes several communicators over one store; the same on every rank.
  std::string prefix = "world";
  /// This rank's IP literal, as other ranks reach it (DLRUN_ADDR); empty: as the store knows it,
  /// else the loopback address, for one machine (gloo).
  std::string address;

  /// Bound on connecting, and on each collective (shm, gloo, nccl). An MPI rank that waits for a
  /// dead peer is ended by the launcher.
  std::chrono::milliseconds timeout{std::chrono::minutes(10)};

  /// The first so many calls are compared among ranks before they run, so that a rank that calls
  /// something else, or the same with another size, is named instead of hanging all. A check costs
  /// one 16-byte all-reduce and stops overlap.
  std::uint64_t checked_calls = kCheckedCallsDefault;

#ifdef NDEBUG
  static constexpr std::uint64_t kCheckedCallsDefault = 64;
#else
  static constexpr std::uint64_t kCheckedCallsDefault = ~std::uint64_t{0};
#endif
};

/// backend: "single", "shm" (the ranks of one node), "mpi", "gloo", "nccl", or "auto": single for a
/// world of one, shm on one node where there is a store, mpi where an MPI launcher or PMIx started
/// this process and this build has it, else gloo over the store. Blocks until all ranks are
/// connected. Fails with kUsage (no such backend), kUnavailable (not in this installation, or a
/// library is missing: which), kInvalid (the world that the backend finds is not options'),
/// kTimeout or kPeer.
[[nodiscard]] Result<std::unique_ptr<Communicator>> make_communicator(
    std::string_view backend, const CommunicatorOptions& options);

/// The store in which ranks that were started with env meet for backend: DLRUN_STORE's, else PMIx's
/// under `srun
/// --mpi=pmix` and mpirun; nullptr where there is none, or no need of one. "auto" goes on without
/// where this installation has no PMIx. Fails as open_store and PmixStore::open do.
[[nodiscard]] Result<std::unique_ptr<Store>> open_store_for(std::string_view backend,
                                                            const World& world, const Env& env);

/// True when PMIx or Open MPI's launcher started this process: MPI_Init will then find the other
/// ranks. PMI 1 and 2 (srun --mpi=pmi2, hydra) do not count, since Open MPI as packaged does not
/// speak them and would start worlds of one: an MPI library that does is asked for by name.
[[nodiscard]] bool has_mpi_launcher(const Env& env);

/// Every name that make_communicator knows, except "auto".
[[nodiscard]] std::span<const std::string_view> communicator_backends();

}  // namespace dlrun
