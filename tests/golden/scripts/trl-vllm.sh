#!/bin/bash
#SBATCH --job-name=trl-vllm               # name
#SBATCH --nodes=2                         # components
#SBATCH --ntasks-per-node=1               # components
#SBATCH --cpus-per-task=32                # components
#SBATCH --gpus-per-node=4                 # components
#SBATCH --mem=400G                        # components
#SBATCH --time=08:00:00                   # resources.time
#SBATCH --chdir="/home/user/exp 1"        # the spec's folder
#SBATCH --output=/scratch/runs/trl-vllm-%j.out  # resources.output
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
trap 'exec "$dlrun_agent" lead --runs /scratch/runs --name trl-vllm --never-started "$?" -- "$BASH_COMMAND"' EXIT

# A component's step requests its own resources, not those of the whole job.
unset SLURM_NTASKS SLURM_NPROCS SLURM_NTASKS_PER_NODE SLURM_TASKS_PER_NODE SLURM_CPUS_PER_TASK \
  SLURM_GRES SLURM_TRES_PER_TASK SLURM_DISTRIBUTION SLURM_EXACT SLURM_OVERLAP \
  "${!SLURM_GPUS@}" "${!SLURM_MEM_PER_@}"

# component server
dlrun_component_server=(
  --component server                      # server: name
  --role service                          # server: role
  --ready-http /health/                   # server: ready.http
  --ready-timeout 1200                    # server: ready.timeout
  --component-nodes 1
  --component-ranks 1
  --component-first-node 0
  --port-count 1
)
dlrun_step_server=(
  --export=ALL                            # what this script exports reaches the ranks
  --kill-on-bad-exit=1                    # a rank that is lost ends the step
  --exact                                 # the step leaves the rest of its nodes to others
  --nodes=1                               # resources.nodes
  --ntasks=1
  --ntasks-per-node=1                     # resources.tasks_per_node
  --cpus-per-task=16                      # server: cpus_per_task
  --gres=gpu:4                            # server: gpus_per_node
  --mem=200G                              # server: mem
)
dlrun_rank_server=(
  "$dlrun_agent" rank
)
dlrun_program_server=(
  trl vllm-serve --model Qwen/Qwen2.5-7B --tensor-parallel-size 4 --host 0.0.0.0 --port '{port}'  # launch.command
)

# component trainer
dlrun_component_trainer=(
  --component trainer                     # trainer: name
  --role main                             # trainer: role
  --after server                          # trainer: after
  --component-nodes 1
  --component-ranks 4
  --component-first-node 1
)
dlrun_step_trainer=(
  --export=ALL                            # what this script exports reaches the ranks
  --kill-on-bad-exit=1                    # a rank that is lost ends the step
  --exact                                 # the step leaves the rest of its nodes to others
  --nodes=1                               # resources.nodes
  --ntasks=4
  --ntasks-per-node=4                     # resources.tasks_per_node
  --cpus-per-task=8                       # trainer: cpus_per_task
  --gres=gpu:4                            # trainer: gpus_per_node
  --mem=400G                              # trainer: mem
)
dlrun_rank_trainer=(
  "$dlrun_agent" rank
  --env 'RANK={rank}'                     # launch.preset: accelerate
  --env 'WORLD_SIZE={world_size}'         # launch.preset: accelerate
  --env 'LOCAL_RANK={local_rank}'         # launch.preset: accelerate
  --env 'LOCAL_WORLD_SIZE={local_world_size}'  # launch.preset: accelerate
  --env 'NODE_RANK={node_rank}'           # launch.preset: accelerate
  --env 'MASTER_ADDR={master_addr}'       # launch.preset: accelerate
  --env 'MASTER_PORT={master_port}'       # launch.preset: accelerate
)
dlrun_program_trainer=(
  python -u train.py                      # launch.command
)

exec "$dlrun_agent" lead --runs /scratch/runs --name trl-vllm \
  "${dlrun_component_server[@]}" -- "${dlrun_step_server[@]}" "${dlrun_rank_server[@]}" -- "${dlrun_program_server[@]}" \
  +++ "${dlrun_component_trainer[@]}" -- "${dlrun_step_trainer[@]}" "${dlrun_rank_trainer[@]}" -- "${dlrun_program_trainer[@]}"
