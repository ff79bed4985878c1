#pragma once
// Removes variables of the submitter's environment that must not reach the job or Slurm's commands
// (sbatch, salloc and others).
//
// dlrun-agent does not apply this deny-list: inside the allocation Slurm has set variables of these
// names for the job itself, and without them srun would start a second job.

#include "common/env.h"

namespace dlrun {

/// Returns env without three kinds of variables: those of an outer job, those of other launchers,
/// and the user's defaults for Slurm's commands. Examples: SBATCH_* overrides the #SBATCH lines,
/// SQUEUE_STATES hides running jobs, PYXIS_CONTAINER_IMAGE starts the batch script itself in the
/// image, and an inherited SLURM_CPU_BIND pins every rank to the outer job's cores. Keeps
/// SLURM_CONF and SLURM_CLUSTERS, which locate Slurm. Keeps SLURM_JWT only if this machine has no
/// munge: it is then the only way to authenticate. Removes the name of the log file from DLRUN_LOG.
/// has_munge: munge_is_available().
[[nodiscard]] Env scrubbed_for_slurm(const Env& env, bool has_munge);

/// Returns true if munged's socket exists on this machine.
[[nodiscard]] bool munge_is_available();

/// Returns true if env belongs to a process inside a Slurm job.
[[nodiscard]] inline bool is_inside_job(const Env& env) {
  return env.has("SLURM_JOB_ID");
}

}  // namespace dlrun
