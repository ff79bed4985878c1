#!/bin/bash
#SBATCH --job-name=stage                  # name
#SBATCH --nodes=2                         # resources.nodes
#SBATCH --ntasks-per-node=4               # resources.tasks_per_node
#SBATCH --cpus-per-task=2                 # resources.cpus_per_task
#SBATCH --time=01:00:00                   # resources.time
#SBATCH --chdir="/home/user/exp 1"        # the spec's folder
#SBATCH --output=/scratch/runs/stage-%j.out  # resources.output
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
trap 'exec "$dlrun_agent" lead --runs /scratch/runs --name stage --never-started "$?" -- "$BASH_COMMAND"' EXIT

export DLRUN_DOWNLOADS='/home/user/exp 1/data'  # download.path
export LOCAL=/local/user                  # environment.vars
mkdir -p -- /archive/traces               # outputs

dlrun_step=(
  srun
  --export=ALL                            # what this script exports reaches the ranks
  --kill-on-bad-exit=1                    # a rank that is lost ends the step
  --cpus-per-task=2                       # resources.cpus_per_task
)
dlrun_rank=(
  "$dlrun_agent" rank
  --stage '{"from":"/home/user/exp 1/image'\''s net.tar","to":"$TMPDIR/data","unpack":true}'  # stage
  --stage '{"from":"/home/user/exp 1/data","to":"$LOCAL/weights"}'  # stage
  --output '{"from":"$TMPDIR/ckpt","to":"out","every_s":600,"limit_s":600}'  # outputs
  --output '{"from":"$TMPDIR/traces","to":"/archive/traces","limit_s":3600}'  # outputs
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
exec "$dlrun_agent" lead --runs /scratch/runs --name stage -- "${dlrun_step[@]}" "${dlrun_rank[@]}" -- "${dlrun_program[@]}"
