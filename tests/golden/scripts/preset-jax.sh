#!/bin/bash
#SBATCH --job-name=preset-jax             # name
#SBATCH --nodes=2                         # resources.nodes
#SBATCH --ntasks-per-node=4               # resources.gpus_per_node
#SBATCH --cpus-per-task=10                # resources.cpus_per_task
#SBATCH --gpus-per-node=4                 # resources.gpus_per_node
#SBATCH --time=00:10:00                   # resources.time
#SBATCH --chdir="/home/user/exp 1"        # the spec's folder
#SBATCH --output=/scratch/runs/preset-jax-%j.out  # resources.output
#SBATCH --open-mode=append                # a requeue keeps the log
#SBATCH --no-requeue                      # no retry
#
# Rendered by dlrun; edit it as you like. sbatch takes it as it is, and so does `dlrun submit`.
# shellcheck disable=SC1090,SC1091,SC2016,SC2054
set -eo pipefail

agent=/scratch/runs/.agents/3f2a/dlrun-agent
if [[ ! -x $agent ]]; then
  echo "dlrun: $(uname -n) does not have $agent: does it see the runs' folder? 'dlrun submit' puts the agent there (again)" >&2
  exit 127
fi
trap 'exec "$agent" lead --runs /scratch/runs --name preset-jax --never-started "$?" -- "$BASH_COMMAND"' EXIT

step=(
  srun
  --export=ALL                            # what this script exports reaches the ranks
  --kill-on-bad-exit=1                    # a rank that is lost ends the step
  --cpus-per-task=10                      # resources.cpus_per_task
)
rank=(
  "$agent" rank
  --env 'JAX_COORDINATOR_ADDRESS={master}'  # launch.preset: jax
  --env 'JAX_NUM_PROCESSES={world_size}'  # launch.preset: jax
  --env 'JAX_PROCESS_ID={rank}'           # launch.preset: jax
)
program=(
  python -u train.py                      # launch.command
)
exec "$agent" lead --runs /scratch/runs --name preset-jax -- "${step[@]}" "${rank[@]}" -- "${program[@]}"
