#!/bin/bash
#SBATCH --job-name=deepspeed              # name
#SBATCH --nodes=2                         # resources.nodes
#SBATCH --ntasks-per-node=4               # resources.gpus_per_node
#SBATCH --cpus-per-task=8                 # resources.cpus_per_task
#SBATCH --gpus-per-node=4                 # resources.gpus_per_node
#SBATCH --mem=200G                        # resources.mem
#SBATCH --time=08:00:00                   # resources.time
#SBATCH --chdir="/home/user/exp 1"        # the spec's folder
#SBATCH --output=/scratch/runs/deepspeed-%j.out  # resources.output
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
  --retry 3                               # retry.max
  --retry-on timeout,node_failure         # retry.on
)
trap 'exec "$dlrun_agent" lead --runs /scratch/runs --name deepspeed "${dlrun_lead[@]}" --never-started "$?" -- "$BASH_COMMAND"' EXIT
trap : USR1

dlrun_step=(
  srun
  --export=ALL                            # what this script exports reaches the ranks
  --kill-on-bad-exit=1                    # a rank that is lost ends the step
  --cpus-per-task=8                       # resources.cpus_per_task
)
dlrun_rank=(
  "$dlrun_agent" rank
  --env 'RANK={rank}'                     # launch.preset: deepspeed
  --env 'WORLD_SIZE={world_size}'         # launch.preset: deepspeed
  --env 'LOCAL_RANK={local_rank}'         # launch.preset: deepspeed
  --env 'LOCAL_WORLD_SIZE={local_world_size}'  # launch.preset: deepspeed
  --env 'NODE_RANK={node_rank}'           # launch.preset: deepspeed
  --env 'MASTER_ADDR={master_addr}'       # launch.preset: deepspeed
  --env 'MASTER_PORT={master_port}'       # launch.preset: deepspeed
  --env 'LOCAL_SIZE={local_world_size}'   # launch.preset: deepspeed
  --env 'CROSS_RANK={node_rank}'          # launch.preset: deepspeed
  --env 'CROSS_SIZE={nnodes}'             # launch.preset: deepspeed
)
dlrun_program=(
  python -u train.py --deepspeed --deepspeed_config zero3.json  # launch.command
)
exec "$dlrun_agent" lead --runs /scratch/runs --name deepspeed "${dlrun_lead[@]}" --forward-usr1 -- "${dlrun_step[@]}" "${dlrun_rank[@]}" -- "${dlrun_program[@]}"
