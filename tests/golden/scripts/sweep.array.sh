#!/bin/bash
#SBATCH --job-name=lr-search              # name
#SBATCH --partition=gpu                   # resources.partition
#SBATCH --nodes=2                         # resources.nodes
#SBATCH --ntasks-per-node=2               # resources.gpus_per_node
#SBATCH --gpus-per-node=2                 # resources.gpus_per_node
#SBATCH --time=00:30:00                   # resources.time
#SBATCH --chdir="/home/user/exp 1"        # the spec's folder
#SBATCH --output=/scratch/runs/lr-search-%j.out  # resources.output
#SBATCH --open-mode=append                # a requeue keeps the log
#SBATCH --no-requeue                      # no retry
#SBATCH --array=0-3%4                     # sweep, sweep.max_parallel
#
# Rendered by dlrun: a sweep. Each task of this array is one point. The task runs job.sh in the point's run
# directory, which `dlrun submit` creates. You can edit that job.sh and submit it with `dlrun resubmit`.
set -eo pipefail
dlrun_sweep=${DLRUN_RUN:?is not set: submit this array with dlrun submit, which creates its points}
export DLRUN_RUN=$dlrun_sweep/$SLURM_ARRAY_TASK_ID
if [[ ! -r $DLRUN_RUN/job.sh ]]; then
  echo "dlrun: $(uname -n) cannot read $DLRUN_RUN/job.sh: does it see the runs' folder?" >&2
  exit 127
fi
exec bash "$DLRUN_RUN/job.sh"
