#!/bin/bash
# shellcheck disable=SC1090,SC1091,SC2016,SC2054
set -eo pipefail
export NVIDIA_VISIBLE_DEVICES=all         # container: GPUs
export OMP_NUM_THREADS=10                 # environment.vars
export NCCL_DEBUG=WARN                    # environment.vars
export NVIDIA_DRIVER_CAPABILITIES=all     # container: GPUs
exec srun --cpus-per-task="$SLURM_CPUS_ON_NODE" --overlap --nodes=1 --ntasks=1 --export=ALL --mpi=none --pty '--container-image=nvcr.io#nvidia/pytorch:24.05-py3' --container-mounts=/home/user/exp-1:/workspace,/home/user/exp-1/data:/data:ro,/scratch/runs:/scratch/runs --container-workdir=/workspace --no-container-mount-home --no-container-remap-root --no-container-entrypoint --container-readonly --container-env=OMP_NUM_THREADS,NCCL_DEBUG,RANK,WORLD_SIZE,LOCAL_RANK,LOCAL_WORLD_SIZE,NODE_RANK,MASTER_ADDR,MASTER_PORT,DLRUN_RUN,DLRUN_JOB,DLRUN_ATTEMPT,DLRUN_LEAD,DLRUN_SECRET sh -c 'command -v bash >/dev/null && exec bash -i; exec sh -i'
# called by:
# salloc
# --job-name=torch-ddp
# --nodes=2
# --ntasks-per-node=4
# --cpus-per-task=10
# --gpus-per-node=4
# --mem=64G
# --time=01:30:00
# --chdir=/home/user/exp-1
# bash
# -c
# exec srun --cpus-per-task="${SLURM_JOB_CPUS_PER_NODE%%[!0-9]*}" "$@"
# srun
# --overlap
# --nodes=1
# --ntasks=1
# --export=ALL
# --mpi=none
# --pty
# bash
# /scratch/runs/s.sh
