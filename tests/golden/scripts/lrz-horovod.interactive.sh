#!/bin/bash
# shellcheck disable=SC1090,SC1091,SC2016,SC2054
set -eo pipefail
export NVIDIA_VISIBLE_DEVICES=all         # container: GPUs
export NVIDIA_DRIVER_CAPABILITIES=all     # container: GPUs
exec srun --cpus-per-task="$SLURM_CPUS_ON_NODE" --overlap --nodes=1 --ntasks=1 --export=ALL --mpi=none --pty --container-image=horovod/horovod+0.16.4-tf1.12.0-torch1.1.0-mxnet1.4.1-py3.5 --container-name=horovod --container-mounts=/home/user/exp-1/data-test:/mnt/data-test,/scratch/runs:/scratch/runs --no-container-mount-home --no-container-remap-root --no-container-entrypoint --container-readonly --container-env=PMIX_MCA_gds,DLRUN_RUN,DLRUN_JOB,DLRUN_ATTEMPT,DLRUN_LEAD,DLRUN_SECRET sh -c 'command -v bash >/dev/null && exec bash -i; exec sh -i'
# called by:
# salloc
# --job-name=lrz-horovod
# --partition=dgx
# --ntasks=8
# --gres=gpu:8
# --time=01:00:00
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
