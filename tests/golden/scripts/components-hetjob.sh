#!/bin/bash
#SBATCH --job-name=parts                  # name
#SBATCH --partition=gpu,dgx               # resources.partition
#SBATCH --account=proj-1                  # resources.account
#SBATCH --nodes=2                         # resources.nodes
#SBATCH --ntasks-per-node=4               # resources.gpus_per_node
#SBATCH --cpus-per-task=8                 # resources.cpus_per_task
#SBATCH --gpus-per-node=a100:4            # resources.gpus_per_node
#SBATCH --mem=100G                        # resources.mem
#SBATCH --time=01:00:00                   # resources.time
#SBATCH --exclude=n7                      # resources.exclude
#SBATCH --chdir=/home/user/exp-1          # the spec's folder
#SBATCH --output=/scratch/runs/parts-%j.out  # resources.output
#SBATCH --signal=B:USR1@120               # checkpoint.signal_before
#SBATCH --open-mode=append                # a requeue keeps the log
#SBATCH --requeue                         # retry.on
#SBATCH hetjob
#SBATCH --partition=cpu                   # resources.partition
#SBATCH --account=proj-1                  # resources.account
#SBATCH --nodes=3                         # resources.nodes
#SBATCH --ntasks-per-node=1               # resources.tasks_per_node
#SBATCH --cpus-per-task=16                # resources.cpus_per_task
#SBATCH --mem-per-cpu=2G                  # resources.mem_per_cpu
#SBATCH --time=01:00:00                   # resources.time
#SBATCH --exclude=n7                      # resources.exclude
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
  --signal-before 120                     # checkpoint.signal_before
  --retry 2                               # retry.max
  --retry-on timeout,failure              # retry.on
)
trap 'exec "$dlrun_agent" lead --runs /scratch/runs --name parts "${dlrun_lead[@]}" --never-started "$?" -- "$BASH_COMMAND"' EXIT
trap : USR1

export SHARED=1                           # environment.vars
export MODE=all                           # environment.vars
export NVIDIA_VISIBLE_DEVICES=all         # container: GPUs
export NVIDIA_DRIVER_CAPABILITIES=all     # container: GPUs

# A component's step requests its own resources, not those of the whole job.
unset SLURM_NTASKS SLURM_NPROCS SLURM_NTASKS_PER_NODE SLURM_TASKS_PER_NODE SLURM_CPUS_PER_TASK \
  SLURM_GRES SLURM_TRES_PER_TASK SLURM_DISTRIBUTION SLURM_EXACT SLURM_OVERLAP \
  "${!SLURM_GPUS@}" "${!SLURM_MEM_PER_@}"

# component Workers
dlrun_component_workers=(
  --component Workers                     # Workers: name
  --role main                             # Workers: role
  --after param-server                    # Workers: after
  --component-nodes 2
  --component-ranks 8
  --het-group 0
)
dlrun_step_workers=(
  --export=ALL                            # what this script exports reaches the ranks
  --kill-on-bad-exit=1                    # a rank that is lost ends the step
  --nodes=2                               # Workers: nodes
  --ntasks=8
  --ntasks-per-node=4                     # resources.tasks_per_node
  --cpus-per-task=8                       # Workers: cpus_per_task
  --gres=gpu:a100:4                       # Workers: gpus_per_node
  --mem=100G                              # Workers: mem
  --cpu-bind=cores                        # launch.cpu_bind
  --unbuffered                            # launch.srun
  --container-image=ubuntu:24.04          # container.image
  --container-name=keep-Workers           # container.name
  --container-mounts=/scratch/runs:/scratch/runs  # container.mounts, folders that dlrun mounts
  --no-container-mount-home               # container.mount_home
  --no-container-remap-root               # container.remap_root
  --no-container-entrypoint               # container.entrypoint
  --container-readonly                    # container.writable
  --container-env=SHARED,MODE,RANK,WORLD_SIZE,LOCAL_RANK,LOCAL_WORLD_SIZE,NODE_RANK,MASTER_ADDR,MASTER_PORT,DLRUN_RUN,DLRUN_JOB,DLRUN_ATTEMPT,DLRUN_LEAD,DLRUN_SECRET  # these override the image's variables
)
dlrun_rank_workers=(
  "$dlrun_agent" rank
  --env 'RANK={rank}'                     # launch.preset: torch
  --env 'WORLD_SIZE={world_size}'         # launch.preset: torch
  --env 'LOCAL_RANK={local_rank}'         # launch.preset: torch
  --env 'LOCAL_WORLD_SIZE={local_world_size}'  # launch.preset: torch
  --env 'NODE_RANK={node_rank}'           # launch.preset: torch
  --env 'MASTER_ADDR={master_addr}'       # launch.preset: torch
  --env 'MASTER_PORT={master_port}'       # launch.preset: torch
  --secret WANDB_API_KEY                  # environment.secrets
)
dlrun_program_workers=(
  python train.py                         # launch.command
)

# component param-server
dlrun_component_param_server=(
  --component param-server                # param-server: name
  --role service                          # param-server: role
  --ready-tcp                             # param-server: ready.tcp
  --component-nodes 3
  --component-ranks 3
  --het-group 1
  --port-count 1
)
dlrun_step_param_server=(
  --export=ALL                            # what this script exports reaches the ranks
  --kill-on-bad-exit=1                    # a rank that is lost ends the step
  --nodes=3                               # param-server: nodes
  --ntasks=3
  --ntasks-per-node=1                     # resources.tasks_per_node
  --cpus-per-task=16                      # param-server: cpus_per_task
  --gpus-per-node=0                       # resources.gpus_per_node
  --mem-per-cpu=2G                        # resources.mem_per_cpu
  --container-image=ubuntu:24.04          # container.image
  --container-name=keep-param-server      # container.name
  --container-mounts=/scratch/runs:/scratch/runs  # container.mounts, folders that dlrun mounts
  --no-container-mount-home               # container.mount_home
  --no-container-remap-root               # container.remap_root
  --no-container-entrypoint               # container.entrypoint
  --container-readonly                    # container.writable
  --container-env=SHARED,DLRUN_RUN,DLRUN_JOB,DLRUN_ATTEMPT,DLRUN_LEAD,DLRUN_SECRET  # these override the image's variables
)
dlrun_rank_param_server=(
  "$dlrun_agent" rank
  --env 'MODE=it'\''s {{one}}'            # param-server: MODE
  --secret WANDB_API_KEY                  # environment.secrets
)
dlrun_program_param_server=(
  python serve.py --port '{port}'         # launch.command
)

exec "$dlrun_agent" lead --runs /scratch/runs --name parts "${dlrun_lead[@]}" --forward-usr1 \
  "${dlrun_component_workers[@]}" -- "${dlrun_step_workers[@]}" "${dlrun_rank_workers[@]}" -- "${dlrun_program_workers[@]}" \
  +++ "${dlrun_component_param_server[@]}" -- "${dlrun_step_param_server[@]}" "${dlrun_rank_param_server[@]}" -- "${dlrun_program_param_server[@]}"
