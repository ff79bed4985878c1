#!/bin/bash
#SBATCH --job-name=mnist-mlp              # name
#SBATCH --nodes=4                         # resources.nodes
#SBATCH --ntasks-per-node=2               # resources.tasks_per_node
#SBATCH --cpus-per-task=1                 # resources.cpus_per_task
#SBATCH --time=00:10:00                   # resources.time
#SBATCH --chdir="/home/user/exp 1"        # the spec's folder
#SBATCH --output=/scratch/runs/mnist-mlp-%j.out  # resources.output
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
trap 'exec "$dlrun_agent" lead --runs /scratch/runs --name mnist-mlp --never-started "$?" -- "$BASH_COMMAND"' EXIT

[[ -v PMIX_MCA_gds ]] || export PMIX_MCA_gds=hash  # launch.preset: trainer
dlrun_step=(
  srun
  --export=ALL                            # what this script exports reaches the ranks
  --kill-on-bad-exit=1                    # a rank that is lost ends the step
  --cpus-per-task=1                       # resources.cpus_per_task
  --mpi=pmix                              # launch.preset: trainer
)
dlrun_rank=(
  "$dlrun_agent" rank
  --bundled                               # the program is dlrun's own
)
dlrun_program=(
  /scratch/runs/.agents/3f2a/dlrun-trainer  # launch.preset: trainer
  --dataset mnist                         # train.data.dataset
  --data /data/mnist                      # train.data.path
  --model mlp                             # train.model
  --optimizer adam                        # train.optimizer.name
  --lr 0.001                              # train.lr
  --lr-scaling sqrt                       # train.lr_scaling
  --batch 32                              # train.batch
  --epochs 4                              # train.epochs
  --seed 1                                # train.seed
  --backend mpi                           # train.backend
  --checkpoint-every 0                    # checkpoint.every
  --checkpoint-keep 3                     # checkpoint.keep
)
exec "$dlrun_agent" lead --runs /scratch/runs --name mnist-mlp -- "${dlrun_step[@]}" "${dlrun_rank[@]}" -- "${dlrun_program[@]}"
