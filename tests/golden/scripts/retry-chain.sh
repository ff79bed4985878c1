#!/bin/bash
#SBATCH --job-name=long                   # name
#SBATCH --nodes=1                         # resources.nodes
#SBATCH --ntasks-per-node=2               # resources.tasks_per_node
#SBATCH --cpus-per-task=4                 # resources.cpus_per_task
#SBATCH --time=1-00:00:00                 # resources.time
#SBATCH --chdir="/home/user/exp 1"        # the spec's folder
#SBATCH --output=/scratch/runs/long-%j.out  # resources.output
#SBATCH --signal=B:USR1@300               # checkpoint.signal_before
#SBATCH --open-mode=append                # a requeue keeps the log
#SBATCH --requeue                         # retry.on
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
dlrun_lead=(
  --signal-before 300                     # checkpoint.signal_before
  --retry 5                               # retry.max
  --retry-on timeout,preemption,node_failure  # retry.on
  --chain 4                               # retry.chain
)
trap 'exec "$dlrun_agent" lead --runs /scratch/runs --name long "${dlrun_lead[@]}" --never-started "$?" -- "$BASH_COMMAND"' EXIT
trap : USR1

dlrun_step=(
  srun
  --export=ALL                            # what this script exports reaches the ranks
  --kill-on-bad-exit=1                    # a rank that is lost ends the step
  --cpus-per-task=4                       # resources.cpus_per_task
)
dlrun_rank=(
  "$dlrun_agent" rank
  --env 'RANK={rank}'                     # launch.preset: torch
  --env 'WORLD_SIZE={world_size}'         # launch.preset: torch
  --env 'LOCAL_RANK={local_rank}'         # launch.preset: torch
  --env 'LOCAL_WORLD_SIZE={local_world_size}'  # launch.preset: torch
  --env 'NODE_RANK={node_rank}'           # launch.preset: torch
  --env 'MASTER_ADDR={master_addr}'       # launch.preset: torch
  --env 'MASTER_PORT={master_port}'       # launch.preset: torch
)
dlrun_program=(
  python train.py                         # launch.command
)
exec "$dlrun_agent" lead --runs /scratch/runs --name long "${dlrun_lead[@]}" --forward-usr1 -- "${dlrun_step[@]}" "${dlrun_rank[@]}" -- "${dlrun_program[@]}"
