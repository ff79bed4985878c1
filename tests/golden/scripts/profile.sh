#!/bin/bash
#SBATCH --job-name=profile                # name
#SBATCH --nodes=1                         # resources.nodes
#SBATCH --ntasks-per-node=4               # resources.gpus_per_node
#SBATCH --cpus-per-task=8                 # resources.cpus_per_task
#SBATCH --gpus-per-node=4                 # resources.gpus_per_node
#SBATCH --time=00:30:00                   # resources.time
#SBATCH --chdir="/home/user/exp 1"        # the spec's folder
#SBATCH --output=/scratch/runs/profile-%j.out  # resources.output
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
trap 'exec "$dlrun_agent" lead --runs /scratch/runs --name profile --never-started "$?" -- "$BASH_COMMAND"' EXIT

if ! type module >/dev/null 2>&1; then
  for dlrun_init in "${LMOD_PKG:-/usr/share/lmod/lmod}/init/bash" "${MODULESHOME:-/usr/share/modules}/init/bash" \
    /usr/share/Modules/init/bash /etc/profile.d/lmod.sh /etc/profile.d/modules.sh; do
    if [[ -r $dlrun_init ]]; then . "$dlrun_init" && break; fi
  done
fi
module load Nsight-Systems                # environment.modules.load

dlrun_step=(
  srun
  --export=ALL                            # what this script exports reaches the ranks
  --kill-on-bad-exit=1                    # a rank that is lost ends the step
  --cpus-per-task=8                       # resources.cpus_per_task
)
dlrun_rank=(
  "$dlrun_agent" rank
  --profile nsys                          # profile.tool
  --profile-ranks 0                       # profile.ranks
  --profile-delay 120                     # profile.delay
  --profile-for 30                        # profile.for
  --env 'RANK={rank}'                     # launch.preset: torch
  --env 'WORLD_SIZE={world_size}'         # launch.preset: torch
  --env 'LOCAL_RANK={local_rank}'         # launch.preset: torch
  --env 'LOCAL_WORLD_SIZE={local_world_size}'  # launch.preset: torch
  --env 'NODE_RANK={node_rank}'           # launch.preset: torch
  --env 'MASTER_ADDR={master_addr}'       # launch.preset: torch
  --env 'MASTER_PORT={master_port}'       # launch.preset: torch
)
dlrun_program=(
  python -u train.py                      # launch.command
)
exec "$dlrun_agent" lead --runs /scratch/runs --name profile -- "${dlrun_step[@]}" "${dlrun_rank[@]}" -- "${dlrun_program[@]}"
