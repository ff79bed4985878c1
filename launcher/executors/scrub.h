#pragma once
// What of the submitter's environment must not reach sbatch, salloc, the queries and so the job.
//
// A deny-list, applied on the submit side only: inside the allocation nothing is scrubbed, or srun
// would start a second job.

#include "common/env.h"

namespace dlrun {

/// env without what belongs to an outer job, to another launcher or to Slurm's own defaults:
/// SBATCH_* beats the #SBATCH lines, SQUEUE_STATES hides running jobs, PYXIS_CONTAINER_IMAGE puts
/// the batch script itself into the image, an inherited SLURM_CPU_BIND pins every rank to the
/// submitter's cores. SLURM_CONF and SLURM_CLUSTERS stay: they say where Slurm is. SLURM_JWT stays
/// only when it is the sole way to prove who asks, that is without munge here.
[[nodiscard]] Env scrubbed_for_slurm(const Env& env, bool munge_is_available);

/// True where munged's socket exists on this machine.
[[nodiscard]] bool munge_is_available();

/// True when env is that of a process inside a Slurm job.
[[nodiscard]] inline bool is_inside_job(const Env& env) {
  return env.has("SLURM_JOB_ID");
}

}  // namespace dlrun
