#!/bin/bash
#SBATCH --job-name=lrz-horovod            # name
#SBATCH --partition=dgx                   # resources.partition
#SBATCH --ntasks=8                        # resources.ntasks
#SBATCH --gres=gpu:8                      # resources.gres
#SBATCH --time=01:00:00                   # resources.time
#SBATCH --chdir=/home/user/exp-1          # the spec's folder
#SBATCH --output=/scratch/runs/lrz-horovod-%j.out  # resources.output
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
trap 'exec "$dlrun_agent" lead --runs /scratch/runs --name lrz-horovod --never-started "$?" -- "$BASH_COMMAND"' EXIT

export NVIDIA_VISIBLE_DEVICES=all         # container: GPUs
export NVIDIA_DRIVER_CAPABILITIES=all     # container: GPUs

# resources.cpus_per_task is not given: each task gets its share of the node's allocated CPUs.
dlrun_tasks=${SLURM_TASKS_PER_NODE%%[!0-9]*}
dlrun_cpus=${SLURM_CPUS_PER_TASK:-$((SLURM_CPUS_ON_NODE / dlrun_tasks))}
[[ -v PMIX_MCA_gds ]] || export PMIX_MCA_gds=hash  # launch.preset: mpi
dlrun_step=(
  srun
  --export=ALL                            # what this script exports reaches the ranks
  --kill-on-bad-exit=1                    # a rank that is lost ends the step
  --mpi=pmix                              # launch.preset: mpi
  --container-image=horovod/horovod+0.16.4-tf1.12.0-torch1.1.0-mxnet1.4.1-py3.5  # container.image
  --container-name=horovod                # container.name
  --container-mounts=/home/user/exp-1/data-test:/mnt/data-test,/scratch/runs:/scratch/runs  # container.mounts, folders that dlrun mounts
  --no-container-mount-home               # container.mount_home
  --no-container-remap-root               # container.remap_root
  --no-container-entrypoint               # container.entrypoint
  --container-readonly                    # container.writable
  --container-env=PMIX_MCA_gds,DLRUN_RUN,DLRUN_JOB,DLRUN_ATTEMPT,DLRUN_LEAD,DLRUN_SECRET  # these override the image's variables
  --cpus-per-task="$((dlrun_cpus > 0 ? dlrun_cpus : 1))"  # srun does not take this number from the job since Slurm 22.05
)
dlrun_rank=(
  "$dlrun_agent" rank
)
dlrun_program=(
  python train.py                         # launch.command
)
exec "$dlrun_agent" lead --runs /scratch/runs --name lrz-horovod -- "${dlrun_step[@]}" "${dlrun_rank[@]}" -- "${dlrun_program[@]}"
