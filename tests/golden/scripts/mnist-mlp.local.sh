#!/bin/bash
# Rendered by dlrun for this machine, without Slurm; edit it as you like. bash runs it as it is.
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
trap 'exec "$dlrun_agent" lead --local 2 --runs /scratch/runs --name mnist-mlp --never-started "$?" -- "$BASH_COMMAND"' EXIT

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
  --backend shm                           # train.backend
  --checkpoint-every 0                    # checkpoint.every
  --checkpoint-keep 3                     # checkpoint.keep
)
exec "$dlrun_agent" lead --local 2 --runs /scratch/runs --name mnist-mlp -- "${dlrun_rank[@]}" -- "${dlrun_program[@]}"
