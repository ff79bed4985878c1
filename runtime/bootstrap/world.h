#pragma once
// The world of a process: its rank, the number of ranks, and its node, read from the environment.

#include <string_view>

#include "common/env.h"
#include "common/result.h"

namespace dlrun {

/// The source of a world.
enum class WorldSource {
  kDlrun,    ///< DLRUN_RANK and related variables, set by the agent
  kSlurm,    ///< SLURM_PROCID and related variables, set by srun for each task
  kOpenMpi,  ///< OMPI_COMM_WORLD_*, set by Open MPI's mpirun
  kPmi,      ///< PMI_RANK and PMI_SIZE, set by mpiexec.hydra
  kSingle,   ///< none of these variables: one rank
};

struct World {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  ///< rank among the ranks of this node
  int local_size = 1;  ///< ranks on this node
  int node_rank = 0;   ///< index of this node
  int nnodes = 1;
  WorldSource source = WorldSource::kSingle;

  friend bool operator==(const World&, const World&) = default;
};

/// The kind of process that calls read_world(). A program uses DLRUN_* first, which its rank agent
/// has set. A rank agent under srun uses SLURM_* first, because DLRUN_RANK could only come from an
/// outer job.
enum class ProcessKind { kProgram, kRankAgent };

/// Reads the world of this process from the first source that env has: for a program in the order
/// of WorldSource, for a rank agent in the order that ProcessKind describes. Fails with kInvalid if
/// the variables of this source are incomplete or contradict each other; the message contains the
/// variable and its value, or the source and the numbers that contradict each other.
///
/// Slurm's variables count only in a task of a step. Slurm also sets them in a batch script, where
/// SLURM_PROCID is 0 and SLURM_NTASKS is the number of tasks of the whole job. A batch script is a
/// world of one rank nevertheless, unless variables of another source are set.
[[nodiscard]] Result<World> read_world(const Env& env, ProcessKind process);

/// Returns text such as "SLURM_*" for messages.
[[nodiscard]] std::string_view to_string(WorldSource source);

}  // namespace dlrun
