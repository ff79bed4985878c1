#!/bin/bash
#SBATCH --job-name=ray                    # name
#SBATCH --nodes=3                         # components
#SBATCH --ntasks-per-node=1               # components
#SBATCH --cpus-per-task=20                # components
#SBATCH --gpus-per-node=4                 # components
#SBATCH --mem=80G                         # components
#SBATCH --time=02:00:00                   # resources.time
#SBATCH --chdir="/home/user/exp 1"        # the spec's folder
#SBATCH --output=/scratch/runs/ray-%j.out  # resources.output
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
trap 'exec "$dlrun_agent" lead --runs /scratch/runs --name ray --never-started "$?" -- "$BASH_COMMAND"' EXIT

. '/home/user/exp 1/venv/bin/activate'    # environment.venv

# A component's step requests its own resources, not those of the whole job.
unset SLURM_NTASKS SLURM_NPROCS SLURM_NTASKS_PER_NODE SLURM_TASKS_PER_NODE SLURM_CPUS_PER_TASK \
  SLURM_GRES SLURM_TRES_PER_TASK SLURM_DISTRIBUTION SLURM_EXACT SLURM_OVERLAP \
  "${!SLURM_GPUS@}" "${!SLURM_MEM_PER_@}"

# component head
dlrun_component_head=(
  --component head                        # head: name
  --role service                          # head: role
  --ready-tcp                             # head: ready.tcp
  --component-nodes 1
  --component-ranks 1
  --component-first-node 0
  --port-count 1
)
dlrun_step_head=(
  --export=ALL                            # what this script exports reaches the ranks
  --kill-on-bad-exit=1                    # a rank that is lost ends the step
  --exact                                 # the step leaves the rest of its nodes to others
  --nodes=1                               # resources.nodes
  --ntasks=1
  --ntasks-per-node=1                     # resources.tasks_per_node
  --cpus-per-task=16                      # resources.cpus_per_task
  --gres=gpu:4                            # head: gpus_per_node
  --mem=64G                               # resources.mem
)
dlrun_rank_head=(
  "$dlrun_agent" rank
  --nproc-per-node 4                      # resources.gpus_per_node
  --word sh                               # launch.preset: ray
  --word -c                               # launch.preset: ray
  --word 'p=$1; shift; if [ "$DLRUN_COMPONENT" = head ]; then set -- --head --port="$p" "$@"; else set -- --address="$DLRUN_COMPONENT_HEAD_ADDR" "$@"; fi; exec ray start --block --node-ip-address="$DLRUN_ADDR" --num-cpus="$SLURM_CPUS_PER_TASK" "$@"'  # launch.preset: ray
  --word ray                              # launch.preset: ray
  --word '{port}'                         # launch.preset: ray
)
dlrun_program_head=(
  --disable-usage-stats                   # launch.command
)

# component worker
dlrun_component_worker=(
  --component worker                      # worker: name
  --role service                          # worker: role
  --after head                            # worker: after
  --component-nodes 2
  --component-ranks 2
  --component-first-node 1
  --port-count 1
)
dlrun_step_worker=(
  --export=ALL                            # what this script exports reaches the ranks
  --kill-on-bad-exit=1                    # a rank that is lost ends the step
  --exact                                 # the step leaves the rest of its nodes to others
  --nodes=2                               # worker: nodes
  --ntasks=2
  --ntasks-per-node=1                     # resources.tasks_per_node
  --cpus-per-task=16                      # resources.cpus_per_task
  --gres=gpu:4                            # worker: gpus_per_node
  --mem=64G                               # resources.mem
)
dlrun_rank_worker=(
  "$dlrun_agent" rank
  --nproc-per-node 4                      # resources.gpus_per_node
  --word sh                               # launch.preset: ray
  --word -c                               # launch.preset: ray
  --word 'p=$1; shift; if [ "$DLRUN_COMPONENT" = head ]; then set -- --head --port="$p" "$@"; else set -- --address="$DLRUN_COMPONENT_HEAD_ADDR" "$@"; fi; exec ray start --block --node-ip-address="$DLRUN_ADDR" --num-cpus="$SLURM_CPUS_PER_TASK" "$@"'  # launch.preset: ray
  --word ray                              # launch.preset: ray
  --word '{port}'                         # launch.preset: ray
)
dlrun_program_worker=(
  --disable-usage-stats                   # launch.command
)

# component driver
dlrun_component_driver=(
  --component driver                      # driver: name
  --role main                             # driver: role
  --after head                            # driver: after
  --after worker                          # driver: after
  --component-nodes 1
  --component-ranks 1
  --component-first-node 0                # driver: shares
)
dlrun_step_driver=(
  --export=ALL                            # what this script exports reaches the ranks
  --kill-on-bad-exit=1                    # a rank that is lost ends the step
  --exact                                 # the step leaves the rest of its nodes to others
  --nodes=1                               # resources.nodes
  --ntasks=1
  --ntasks-per-node=1                     # resources.tasks_per_node
  --cpus-per-task=4                       # driver: cpus_per_task
  --gpus-per-node=0                       # resources.gpus_per_node
  --mem=16G                               # driver: mem
)
dlrun_rank_driver=(
  "$dlrun_agent" rank
)
dlrun_program_driver=(
  python tune.py                          # launch.command
)

exec "$dlrun_agent" lead --runs /scratch/runs --name ray \
  "${dlrun_component_head[@]}" -- "${dlrun_step_head[@]}" "${dlrun_rank_head[@]}" -- "${dlrun_program_head[@]}" \
  +++ "${dlrun_component_worker[@]}" -- "${dlrun_step_worker[@]}" "${dlrun_rank_worker[@]}" -- "${dlrun_program_worker[@]}" \
  +++ "${dlrun_component_driver[@]}" -- "${dlrun_step_driver[@]}" "${dlrun_rank_driver[@]}" -- "${dlrun_program_driver[@]}"
