#!/bin/bash
#SBATCH --job-name=packed                 # name
#SBATCH --partition=gpu                   # resources.partition
#SBATCH --nodes=1                         # resources.nodes
#SBATCH --ntasks-per-node=4               # resources.tasks_per_node
#SBATCH --cpus-per-task=8                 # resources.cpus_per_task
#SBATCH --gpus-per-node=4                 # resources.gpus_per_node
#SBATCH --mem=128G                        # resources.mem
#SBATCH --time=02:00:00                   # resources.time
#SBATCH --chdir="/home/user/exp 1"        # the spec's folder
#SBATCH --output=/scratch/runs/packed-%j.out  # resources.output
#SBATCH --open-mode=append                # a requeue keeps the log
#SBATCH --no-requeue                      # no retry
#SBATCH --array=0-1%2                     # sweep, sweep.max_parallel, sweep.pack
#
# Rendered by dlrun: a sweep. Each task of this array runs 4 points side by side: it runs job.sh
# in the run directory of each point, which `dlrun submit` creates.
set -eo pipefail
dlrun_sweep=${DLRUN_RUN:?is not set: submit this array with dlrun submit, which creates its points}
dlrun_first=$((SLURM_ARRAY_TASK_ID * 4)) dlrun_end=$((dlrun_first + 4))  # sweep.pack
((dlrun_end <= 6)) || dlrun_end=6
# The share of one point, which srun reads from these variables.
export SLURM_EXACT=1
export SLURM_CPUS_ON_NODE=$((SLURM_CPUS_ON_NODE / 4))
export SLURM_JOB_CPUS_PER_NODE=$SLURM_CPUS_ON_NODE
export SLURM_NTASKS=1                     # resources.gpus_per_node
export SLURM_NPROCS=1                     # resources.gpus_per_node
export SLURM_NTASKS_PER_NODE=1            # resources.gpus_per_node
export SLURM_TASKS_PER_NODE=1             # resources.gpus_per_node
export SLURM_GPUS_PER_NODE=1              # resources.gpus_per_node
export SLURM_MEM_PER_NODE=32G             # resources.mem
dlrun_pids=()
trap 'kill -USR1 "${dlrun_pids[@]}" 2>/dev/null || true' USR1
trap 'kill -TERM "${dlrun_pids[@]}" 2>/dev/null || true' TERM
for ((dlrun_point = dlrun_first; dlrun_point < dlrun_end; dlrun_point++)); do
  export DLRUN_RUN=$dlrun_sweep/$dlrun_point
  if [[ -e $DLRUN_RUN/resubmitted ]]; then continue; fi # now a job of its own
  dlrun_log=$DLRUN_RUN/slurm-${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID.out
  bash "$DLRUN_RUN/job.sh" >>"$dlrun_log" 2>&1 &
  dlrun_pids+=("$!")
done
dlrun_code=0
for dlrun_pid in "${dlrun_pids[@]}"; do
  dlrun_point_code=0
  wait "$dlrun_pid" || dlrun_point_code=$?
  while kill -0 "$dlrun_pid" 2>/dev/null; do # a signal ended the wait
    dlrun_point_code=0
    wait "$dlrun_pid" || dlrun_point_code=$?
  done
  if ((dlrun_code == 0)); then dlrun_code=$dlrun_point_code; fi
done
exit "$dlrun_code"
