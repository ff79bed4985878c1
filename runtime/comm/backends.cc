// The table of backends, the choice that "auto" makes, and the store that a backend needs.

#include <array>

#include "common/env.h"
#include "common/processors.h"
#include "common/text.h"
#include "runtime/bootstrap/pmix_store.h"
#include "runtime/comm/guarded.h"
#include "runtime/comm/make_communicator.h"
#include "runtime/comm/module.h"
#include "runtime/comm/shm.h"
#include "runtime/comm/single.h"

namespace dlrun {

namespace {

/// One backend. If `connect` is nullptr, the backend is in a module that is loaded on request.
struct Row {
  std::string_view name;
  Result<std::unique_ptr<Communicator>> (*connect)(const CommunicatorOptions& options);
};
constexpr std::array kRows{
    Row{"single", make_single_communicator},
    Row{"shm", make_shm_communicator},
    Row{"mpi", nullptr},
    Row{"gloo", nullptr},
    Row{"nccl", nullptr},
    Row{"rccl", nullptr},
};
constexpr auto kNames = [] {
  std::array<std::string_view, kRows.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kRows[i].name;
  return names;
}();

Result<std::unique_ptr<Communicator>> connect(const Row& row, const CommunicatorOptions& options) {
  auto connect_function = row.connect;
  if (connect_function == nullptr) {
    DLRUN_TRY_ASSIGN(const auto module, load_comm_backend(row.name));
    connect_function = module->connect;
  }
  CommunicatorOptions with_processors = options;
  with_processors.processors = usable_processors();
  auto connected = connect_function(with_processors);
  if (!connected) {
    return fail(connected.error().code, "{}: connecting rank {} of {}: {}", row.name,
                options.world.rank, options.world.size, connected.error().message);
  }
  return make_guarded(std::move(*connected), options.calls_to_check);
}

bool is_one_node(const World& world) {
  return world.nnodes == 1 && world.local_size == world.size;
}

/// Returns the backend for "auto". All ranks must choose the same backend. The options on which the
/// choice depends are equal on all ranks; the module of MPI must be present on all nodes or on
/// none.
Result<std::string_view> choose(const CommunicatorOptions& options) {
  if (options.world.size == 1) return "single";
  if (is_one_node(options.world) && options.store != nullptr) return "shm";
  if (options.is_under_mpi_launcher) {
    const auto mpi = load_comm_backend("mpi");
    if (mpi) return "mpi";
    if (options.store == nullptr) return tl::unexpected(mpi.error());
  }
  if (options.store != nullptr) return "gloo";
  return fail(Errc::kUnavailable,
              "no way to reach the other {} ranks: neither an MPI launcher (srun --mpi=pmix, "
              "mpirun) nor dlrun-agent started this process, and DLRUN_STORE is not set",
              options.world.size - 1);
}

}  // namespace

Result<std::unique_ptr<Communicator>> make_communicator(std::string_view backend,
                                                        const CommunicatorOptions& options) {
  if (options.world.size < 1 || options.world.rank < 0 ||
      options.world.rank >= options.world.size) {
    return fail(Errc::kInvalid, "rank {} of a world of {} does not exist", options.world.rank,
                options.world.size);
  }
  if (backend == "auto") {
    DLRUN_TRY_ASSIGN(backend, choose(options));
  }
  for (const Row& row : kRows) {
    if (row.name == backend) return connect(row, options);
  }
  const auto near = nearest(backend, kNames);
  return fail(Errc::kUsage, "no collective backend is called '{}'; {}", printable(backend),
              near ? fmt::format("did you mean '{}'?", *near)
                   : std::string("there are auto, single, shm, mpi, gloo, nccl and rccl"));
}

Result<std::unique_ptr<Store>> open_store_for(std::string_view backend, const World& world,
                                              const Env& env) {
  if (const auto where = env.get("DLRUN_STORE"); where && !where->empty())
    return open_store(*where);
  const bool is_auto = backend == "auto";
  if (backend == "single" || backend == "mpi" || !has_pmix(env)) return nullptr;
  if (is_auto && (world.size == 1 || (!is_one_node(world) && load_comm_backend("mpi"))))
    return nullptr;
  if (is_auto && !load_pmix()) return nullptr;
  DLRUN_TRY_ASSIGN(auto store, PmixStore::open(world));
  return store;
}

bool is_under_mpi_launcher(const Env& env) {
  return env.has("PMIX_NAMESPACE") || env.has("OMPI_COMM_WORLD_SIZE");
}

std::span<const std::string_view> communicator_backends() {
  return kNames;
}

}  // namespace dlrun
