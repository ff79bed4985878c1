#pragma once
// Creates communicators from the names of backends, and connects them.

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
  /// Rank and size. nccl and rccl use local_rank to choose a GPU if this process sees several. If
  /// local_size is above `processors`, ranks share cores, and mpi lets a waiting rank yield its
  /// core.
  World world;
  /// Number of processors this process may run on. make_communicator() sets it.
  int processors = 0;
  /// Result of is_under_mpi_launcher(Env::of_process()); "auto" depends on it.
  bool is_under_mpi_launcher = false;

  /// Store where the ranks find each other. The caller owns the store, which must outlive the
  /// communicator. mpi and single do not need one.
  Store* store = nullptr;
  /// A part of this communicator's keys in the store. Must be equal on every rank, and different
  /// for each communicator that uses the store.
  std::string prefix = "world";
  /// This rank's numeric IP address for the other ranks, from DLRUN_ADDR. Only gloo uses it. If
  /// `address` is empty, gloo uses Store::own_address(). If own_address() is also empty, gloo uses
  /// the loopback address, which works on one machine only.
  std::string address;

  /// Time limit of shm, gloo, nccl and rccl for connecting and for each collective. mpi has no
  /// limit: its launcher ends a rank that waits for a dead rank.
  std::chrono::milliseconds timeout{std::chrono::minutes(10)};

  /// The ranks compare each of the first calls_to_check calls before it runs. If the calls differ
  /// in operation, reduction, type, size or root, all ranks get an error that lists the calls of
  /// all ranks, and no rank hangs. Each check costs one all-reduce of 16 bytes and prevents overlap
  /// with computation. Default: 64 calls in a release build, and all calls in a build with
  /// assertions.
  std::uint64_t calls_to_check = kDefaultCallsToCheck;

#ifdef NDEBUG
  static constexpr std::uint64_t kDefaultCallsToCheck = 64;
#else
  static constexpr std::uint64_t kDefaultCallsToCheck = ~std::uint64_t{0};
#endif
};

/// Creates a communicator and blocks until all ranks are connected. The backend is "single", "shm"
/// (ranks of one node), "mpi", "gloo", "nccl", "rccl" (the GPUs of AMD) or "auto". "auto" selects
/// the first backend that fits:
/// - single for a world of one rank;
/// - shm for one node with a store;
/// - mpi if an MPI launcher or PMIx started this process and the module of mpi can be loaded;
/// - gloo with a store.
///
/// Fails with
/// - kUsage: unknown backend;
/// - kUnavailable: backend not installed, or a library, a GPU or the store is missing;
/// - kInvalid: the rank or the world in `options` does not fit the backend;
/// - kIo: shared memory, or the socket over which rank 0 passes it on, could not be created;
/// - kInternal: an error of CUDA or HIP, or MPI was started and ended before;
/// - kTimeout or kPeer: another rank is missing or failed, or MPI reports an error.
[[nodiscard]] Result<std::unique_ptr<Communicator>> make_communicator(
    std::string_view backend, const CommunicatorOptions& options);

/// Opens the store where the ranks find each other: the store in DLRUN_STORE if this variable is
/// set, otherwise a PmixStore (under `srun --mpi=pmix` and mpirun). Without DLRUN_STORE, returns
/// nullptr
/// - if has_pmix(env) is false;
/// - for "single" and "mpi", which need no store;
/// - for "auto" with one rank;
/// - for "auto" with several nodes, if the module of mpi can be loaded;
/// - for "auto", if the module of PMIx cannot be loaded.
///
/// Fails as open_store() and PmixStore::open() do.
[[nodiscard]] Result<std::unique_ptr<Store>> open_store_for(std::string_view backend,
                                                            const World& world, const Env& env);

/// Returns true if PMIx or Open MPI's launcher started this process, so that MPI_Init finds the
/// other ranks. PMI 1 and 2 (srun --mpi=pmi2, hydra) do not count: packaged builds of Open MPI do
/// not support them and would start worlds of one rank. Users of an MPI library that supports them
/// choose "mpi" by name.
[[nodiscard]] bool is_under_mpi_launcher(const Env& env);

/// Returns all names that make_communicator() accepts, except "auto".
[[nodiscard]] std::span<const std::string_view> communicator_backends();

}  // namespace dlrun
