#pragma once
// Adds properties of the submitting process to the job's environment, where slurmd and srun expect
// them: umask, resource limits, nice value, host and folder. sbatch adds these properties itself;
// slurmrestd does not.

#include <string>

#include "common/env.h"

namespace dlrun {

/// Adds SLURM_SUBMIT_DIR, SLURM_SUBMIT_HOST, SLURM_PRIO_PROCESS, SLURM_UMASK, and SLURM_RLIMIT_*
/// for the limits that slurm.conf propagates (PropagateResourceLimits,
/// PropagateResourceLimitsExcept). Without these keys or without a slurm.conf, adds all limits.
/// own_env: the environment of this process, which locates slurm.conf.
void add_properties_of_submitter(Env& job_env, const std::string& directory, const Env& own_env);

}  // namespace dlrun
