#include "runtime/bootstrap/world.h"

#include <optional>
#include <string>
#include <vector>

#include "common/text.h"

namespace dlrun {
namespace {

constexpr int kMaxRanks = 1 << 24;  // a larger number means that the variable is wrong

/// Reads a variable that must be a whole number in [least, kMaxRanks].
Result<int> number(const Env& env, std::string_view name, int least) {
  const auto text = env.get(name);
  if (!text) return fail(Errc::kInvalid, "{} is not set, but related variables are", name);
  const auto value = parse_int(*text);
  if (!value || *value < least || *value > kMaxRanks) {
    return fail(Errc::kInvalid, "{}='{}' is not a whole number from {} to {}", name,
                printable(*text), least, kMaxRanks);
  }
  return static_cast<int>(*value);
}

Result<int> number_or(const Env& env, std::string_view name, int least, int fallback) {
  if (!env.has(name)) return fallback;
  return number(env, name, least);
}

/// Returns the number of tasks on a node, from Slurm's form "2(x3),1": 2 tasks on each of three
/// nodes, then 1 on the fourth.
Result<int> tasks_on_node(std::string_view name, std::string_view text, int node) {
  std::int64_t nodes_so_far = 0;  // in the groups up to this one
  for (const auto group : split(text, ',')) {
    const auto open = group.find("(x");
    const auto tasks = parse_int(group.substr(0, open));
    std::optional<std::int64_t> repeats = 1;
    if (open != std::string_view::npos) {
      repeats = group.ends_with(')') ? parse_int(group.substr(open + 2, group.size() - open - 3))
                                     : std::nullopt;
    }
    if (!tasks || *tasks < 0 || *tasks > kMaxRanks || !repeats || *repeats < 1 ||
        *repeats > kMaxRanks) {
      return fail(Errc::kInvalid, "{}='{}' is not of Slurm's form 'TASKS[(xNODES)],...'", name,
                  printable(text));
    }
    nodes_so_far += *repeats;
    if (node < nodes_so_far) return static_cast<int>(*tasks);
  }
  return fail(Errc::kInvalid, "{}='{}' has no node {}", name, printable(text), node);
}

/// Returns world. Fails with kInvalid if its six numbers contradict each other.
Result<World> checked(const World& world) {
  const auto source = to_string(world.source);
  if (world.rank >= world.size) {
    return fail(Errc::kInvalid, "{}: rank {} is not below the world size {}", source, world.rank,
                world.size);
  }
  if (world.local_rank >= world.local_size) {
    return fail(Errc::kInvalid, "{}: local rank {} is not below the {} ranks of this node", source,
                world.local_rank, world.local_size);
  }
  if (world.local_size > world.size) {
    return fail(Errc::kInvalid, "{}: {} ranks on this node, but only {} in the world", source,
                world.local_size, world.size);
  }
  if (world.node_rank >= world.nnodes) {
    return fail(Errc::kInvalid, "{}: node rank {} is not below the {} nodes", source,
                world.node_rank, world.nnodes);
  }
  return world;
}

Result<World> of_dlrun(const Env& env) {
  World world{.source = WorldSource::kDlrun};
  DLRUN_TRY_ASSIGN(world.rank, number(env, "DLRUN_RANK", 0));
  DLRUN_TRY_ASSIGN(world.size, number(env, "DLRUN_WORLD_SIZE", 1));
  DLRUN_TRY_ASSIGN(world.local_rank, number_or(env, "DLRUN_LOCAL_RANK", 0, world.rank));
  DLRUN_TRY_ASSIGN(world.local_size, number_or(env, "DLRUN_LOCAL_WORLD_SIZE", 1, world.size));
  DLRUN_TRY_ASSIGN(world.node_rank, number_or(env, "DLRUN_NODE_RANK", 0, 0));
  DLRUN_TRY_ASSIGN(world.nnodes, number_or(env, "DLRUN_NNODES", 1, 1));
  return checked(world);
}

Result<World> of_slurm(const Env& env) {
  World world{.source = WorldSource::kSlurm};
  DLRUN_TRY_ASSIGN(world.rank, number(env, "SLURM_PROCID", 0));
  DLRUN_TRY_ASSIGN(
      world.size,
      number(env, env.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS", 1));
  DLRUN_TRY_ASSIGN(world.local_rank, number(env, "SLURM_LOCALID", 0));
  DLRUN_TRY_ASSIGN(world.node_rank, number(env, "SLURM_NODEID", 0));
  const std::string_view nodes =
      env.has("SLURM_STEP_NUM_NODES") ? "SLURM_STEP_NUM_NODES" : "SLURM_NNODES";
  DLRUN_TRY_ASSIGN(world.nnodes, number_or(env, nodes, 1, 1));
  const std::string_view tasks =
      env.has("SLURM_STEP_TASKS_PER_NODE") ? "SLURM_STEP_TASKS_PER_NODE" : "SLURM_TASKS_PER_NODE";
  if (const auto counts = env.get(tasks)) {
    DLRUN_TRY_ASSIGN(world.local_size, tasks_on_node(tasks, *counts, world.node_rank));
  } else if (world.nnodes == 1) {
    world.local_size = world.size;
  } else {
    return fail(Errc::kInvalid, "{} is not set, but related variables are", tasks);
  }
  return checked(world);
}

Result<World> of_open_mpi(const Env& env) {
  World world{.source = WorldSource::kOpenMpi};
  DLRUN_TRY_ASSIGN(world.rank, number(env, "OMPI_COMM_WORLD_RANK", 0));
  DLRUN_TRY_ASSIGN(world.size, number(env, "OMPI_COMM_WORLD_SIZE", 1));
  DLRUN_TRY_ASSIGN(world.local_rank, number_or(env, "OMPI_COMM_WORLD_LOCAL_RANK", 0, world.rank));
  DLRUN_TRY_ASSIGN(world.local_size, number_or(env, "OMPI_COMM_WORLD_LOCAL_SIZE", 1, world.size));
  // Open MPI does not number nodes. Assume the usual case: every node has the same number of
  // consecutive ranks. A rank has no way to check this.
  world.nnodes = (world.size + world.local_size - 1) / world.local_size;
  world.node_rank = world.rank / world.local_size;
  return checked(world);
}

Result<World> of_pmi(const Env& env) {
  World world{.source = WorldSource::kPmi};
  DLRUN_TRY_ASSIGN(world.rank, number(env, "PMI_RANK", 0));
  DLRUN_TRY_ASSIGN(world.size, number(env, "PMI_SIZE", 1));
  DLRUN_TRY_ASSIGN(world.local_rank, number_or(env, "MPI_LOCALRANKID", 0, world.rank));
  DLRUN_TRY_ASSIGN(world.local_size, number_or(env, "MPI_LOCALNRANKS", 1, world.size));
  // PMI does not number nodes either; see of_open_mpi().
  world.nnodes = (world.size + world.local_size - 1) / world.local_size;
  world.node_rank = world.rank / world.local_size;
  return checked(world);
}

/// Returns true if SLURM_STEP_ID is the id of a step. Without SLURM_STEP_ID, returns true if
/// SLURM_STEP_NUM_TASKS is set. Ids below 0, and their unsigned forms from 0xffff0000 on, do not
/// belong to steps: from Slurm 26.05 on, a batch script has the id -5.
bool is_in_a_step(const Env& env) {
  constexpr std::int64_t kFirstSpecialId = 0xffff'0000;
  if (!env.has("SLURM_STEP_ID")) return env.has("SLURM_STEP_NUM_TASKS");
  const auto id = parse_int(env.get_or("SLURM_STEP_ID", ""));
  return id && *id >= 0 && *id < kFirstSpecialId;
}

bool is_task_of_a_step(const Env& env) {
  return env.has("SLURM_PROCID") && is_in_a_step(env);
}

}  // namespace

Result<World> read_world(const Env& env, ProcessKind process) {
  if (process == ProcessKind::kRankAgent && is_task_of_a_step(env)) return of_slurm(env);
  if (env.has("DLRUN_RANK")) return of_dlrun(env);
  if (is_task_of_a_step(env)) return of_slurm(env);
  if (env.has("OMPI_COMM_WORLD_RANK")) return of_open_mpi(env);
  if (env.has("PMI_RANK")) return of_pmi(env);
  return World{};
}

std::string_view to_string(WorldSource source) {
  switch (source) {
    case WorldSource::kDlrun:
      return "DLRUN_*";
    case WorldSource::kSlurm:
      return "SLURM_*";
    case WorldSource::kOpenMpi:
      return "OMPI_COMM_WORLD_*";
    case WorldSource::kPmi:
      return "PMI_*";
    case WorldSource::kSingle:
      return "no launcher";
  }
  return "";
}

}  // namespace dlrun
