#!/bin/bash
#SBATCH --job-name=torch-ddp              # name
#SBATCH --nodes=2                         # resources.nodes
#SBATCH --ntasks-per-node=4               # resources.gpus_per_node
#SBATCH --cpus-per-task=10                # resources.cpus_per_task
#SBATCH --gpus-per-node=4                 # resources.gpus_per_node
#SBATCH --mem=64G                         # resources.mem
#SBATCH --time=01:30:00                   # resources.time
#SBATCH --chdir=/home/user/exp-1          # the spec's folder
#SBATCH --output=/scratch/runs/torch-ddp-%j.out  # resources.output
#SBATCH --signal=B:USR1@120               # checkpoint.signal_before
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
dlrun_lead=(
  --signal-before 120                     # checkpoint.signal_before
)
trap 'exec "$dlrun_agent" lead --runs /scratch/runs --name torch-ddp "${dlrun_lead[@]}" --never-started "$?" -- "$BASH_COMMAND"' EXIT
trap : USR1

export NVIDIA_VISIBLE_DEVICES=all         # container: GPUs
export OMP_NUM_THREADS=10                 # environment.vars
export NCCL_DEBUG=WARN                    # environment.vars
export NVIDIA_DRIVER_CAPABILITIES=all     # container: GPUs

dlrun_step=(
  srun
  --export=ALL                            # what this script exports reaches the ranks
  --kill-on-bad-exit=1                    # a rank that is lost ends the step
  --cpus-per-task=10                      # resources.cpus_per_task
  '--container-image=nvcr.io#nvidia/pytorch:24.05-py3'  # container.image
  --container-mounts=/home/user/exp-1:/workspace,/home/user/exp-1/data:/data:ro,/scratch/runs:/scratch/runs  # container.mounts, folders that dlrun mounts
  --container-workdir=/workspace          # container.workdir
  --no-container-mount-home               # container.mount_home
  --no-container-remap-root               # container.remap_root
  --no-container-entrypoint               # container.entrypoint
  --container-readonly                    # container.writable
  --container-env=OMP_NUM_THREADS,NCCL_DEBUG,RANK,WORLD_SIZE,LOCAL_RANK,LOCAL_WORLD_SIZE,NODE_RANK,MASTER_ADDR,MASTER_PORT,DLRUN_RUN,DLRUN_JOB,DLRUN_ATTEMPT,DLRUN_LEAD,DLRUN_SECRET  # these override the image's variables
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
  python -u train.py --data /data --epochs 12  # launch.command
)
exec "$dlrun_agent" lead --runs /scratch/runs --name torch-ddp "${dlrun_lead[@]}" --forward-usr1 -- "${dlrun_step[@]}" "${dlrun_rank[@]}" -- "${dlrun_program[@]}"
