#pragma once
// Which rank of how many this process is, read from the environment.

#include <string_view>

#include "common/env.h"
#include "common/result.h"

namespace dlrun {

/// Where a world was read from.
enum class WorldSource {
  kDlrun,    ///< DLRUN_RANK and its companions, set by the agent
  kSlurm,    ///< SLURM_PROCID and its companions, set by srun for each task
  kOpenMpi,  ///< OMPI_COMM_WORLD_*, set by Open MPI's mpirun
  kPmi,      ///< PMI_RANK and PMI_SIZE, set by mpiexec.hydra
  kSingle,   ///< nothing of the above: one rank
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

/// Who reads. A program takes DLRUN_* first: its rank agent set them. A rank agent under srun takes
/// SLURM_* first: its DLRUN_RANK could only be inherited from an outer job.
enum class WorldReader { kProgram, kRankAgent };

/// Fails with kInvalid when the variables of the first source that is present are incomplete or
/// contradict each other; the message names the variable and its value. A batch script is no task
/// of a step (SLURM_PROCID is 0 there too, and SLURM_NTASKS the whole job's): it is a world of one.
[[nodiscard]] Result<World> read_world(const Env& env, WorldReader reader);

/// "SLURM_*", for messages.
[[nodiscard]] std::string_view to_string(WorldSource source);

}  // namespace dlrun
