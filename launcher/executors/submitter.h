#pragma once
// Adds to the job's environment what sbatch reads from the submitting process (umask,
// resource limits, priority, folder) and what slurmd and srun expect there. Needed if a job
// is submitted without sbatch.

#include <string>

#include "common/env.h"

namespace dlrun {

/// Adds SLURM_SUBMIT_DIR, SLURM_SUBMIT_HOST, SLURM_PRIO_PROCESS, SLURM_UMASK, and SLURM_RLIMIT_*
/// for the limits that slurm.conf propagates (PropagateResourceLimits,
/// PropagateResourceLimitsExcept); for all limits if there is no slurm.conf.
void add_submitter(Env& job, const std::string& directory, const Env& own);

}  // namespace dlrun
