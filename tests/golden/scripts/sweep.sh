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
#
# Rendered by dlrun; edit it as you like. Submit it with sbatch or `dlrun submit`.
# shellcheck disable=SC1090,SC1091,SC2016,SC2054
set -eo pipefail

dlrun_agent=/scratch/runs/.agents/3f2a/dlrun-agent
if [[ ! -x $dlrun_agent ]]; then
  echo "dlrun: $(uname -n) does not have $dlrun_agent: does it see the runs' folder? 'dlrun submit' puts the agent there (again)" >&2
  exit 127
fi
if [[ ! -O $dlrun_agent || ! -O ${dlrun_agent%/*} ]]; then
  echo "dlrun: $dlrun_agent belongs to another user than $(id -un), so it is not started; run 'dlrun submit' to install your own copy" >&2
  exit 126
fi
trap 'exec "$dlrun_agent" lead --runs /scratch/runs --name lr-search --never-started "$?" -- "$BASH_COMMAND"' EXIT

# resources.cpus_per_task is not given: each task gets its share of the node's allocated CPUs.
dlrun_tasks=${SLURM_TASKS_PER_NODE%%[!0-9]*}
dlrun_cpus=${SLURM_CPUS_PER_TASK:-$((SLURM_CPUS_ON_NODE / dlrun_tasks))}
[[ -v PMIX_MCA_gds ]] || export PMIX_MCA_gds=hash  # launch.preset: trainer
dlrun_step=(
  srun
  --export=ALL                            # what this script exports reaches the ranks
  --kill-on-bad-exit=1                    # a rank that is lost ends the step
  --mpi=pmix                              # launch.preset: trainer
  --cpus-per-task="$((dlrun_cpus > 0 ? dlrun_cpus : 1))"  # srun does not take this number from the job since Slurm 22.05
)
dlrun_rank=(
  "$dlrun_agent" rank
  --bundled                               # the program is dlrun's own
)
dlrun_program=(
  /scratch/runs/.agents/3f2a/dlrun-trainer  # launch.preset: trainer
  --dataset digits                        # train.data.dataset
  --model mlp                             # train.model
  --lr 0.1                                # train.lr
  --batch 32                              # train.batch
  --backend mpi                           # train.backend
)
exec "$dlrun_agent" lead --runs /scratch/runs --name lr-search -- "${dlrun_step[@]}" "${dlrun_rank[@]}" -- "${dlrun_program[@]}"
