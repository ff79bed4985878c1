#pragma once
// What sbatch reads off the submitting process and puts into the job's environment, where slurmd
// and srun look for it: umask, resource limits, priority, where it was called. Whoever submits
// without sbatch has to do the same.

#include <string>

#include "common/env.h"

namespace dlrun {

/// Adds SLURM_SUBMIT_DIR, SLURM_SUBMIT_HOST, SLURM_PRIO_PROCESS, SLURM_UMASK and the SLURM_RLIMIT_*
/// that slurm.conf's PropagateResourceLimits and PropagateResourceLimitsExcept let through; all of
/// them where there is no slurm.conf.
void add_submitter(Env& job, const std::string& directory, const Env& own);

}  // namespace dlrun
