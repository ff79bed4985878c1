#!/bin/bash
#SBATCH --job-name=HOROVOD_KERAS_MNIST    # name
#SBATCH --partition=develgpus             # resources.partition
#SBATCH --nodes=2                         # resources.nodes
#SBATCH --ntasks=8                        # resources.ntasks
#SBATCH --ntasks-per-node=4               # resources.tasks_per_node
#SBATCH --gres=gpu:4                      # resources.gres
#SBATCH --time=00:10:00                   # resources.time
#SBATCH --mail-type=ALL                   # slurm
#SBATCH --mail-user=me@example.org        # slurm
#SBATCH --chdir="/home/user/exp 1"        # the spec's folder
#SBATCH --output="/home/user/exp 1/output_%j.out"  # resources.output
#SBATCH --error="/home/user/exp 1/error_%j.er"  # resources.error
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
trap 'exec "$dlrun_agent" lead --runs /scratch/runs --name HOROVOD_KERAS_MNIST --never-started "$?" -- "$BASH_COMMAND"' EXIT

if ! type module >/dev/null 2>&1; then
  for dlrun_init in "${LMOD_PKG:-/usr/share/lmod/lmod}/init/bash" "${MODULESHOME:-/usr/share/modules}/init/bash" \
    /usr/share/Modules/init/bash /etc/profile.d/lmod.sh /etc/profile.d/modules.sh; do
    if [[ -r $dlrun_init ]]; then . "$dlrun_init" && break; fi
  done
fi
module load GCC/8.3.0                     # environment.modules.load
module load TensorFlow/1.13.1-GPU-Python-3.6.8  # environment.modules.load
module load Keras/2.2.4-GPU-Python-3.6.8  # environment.modules.load
export GLOO_SOCKET_IFNAME=ib0             # site juwels
export NCCL_SOCKET_IFNAME=ib0             # site juwels

# resources.cpus_per_task is not given: each task gets its share of the node's allocated CPUs.
dlrun_tasks=${SLURM_TASKS_PER_NODE%%[!0-9]*}
dlrun_cpus=${SLURM_CPUS_PER_TASK:-$((SLURM_CPUS_ON_NODE / dlrun_tasks))}
[[ -v PMIX_MCA_gds ]] || export PMIX_MCA_gds=hash  # launch.preset: mpi
dlrun_step=(
  srun
  --export=ALL                            # what this script exports reaches the ranks
  --kill-on-bad-exit=1                    # a rank that is lost ends the step
  --cpus-per-task="$((dlrun_cpus > 0 ? dlrun_cpus : 1))"  # srun does not take this number from the job since Slurm 22.05
)
dlrun_rank=(
  "$dlrun_agent" rank
)
dlrun_program=(
  python -u mnist.py                      # launch.command
)
exec "$dlrun_agent" lead --runs /scratch/runs --name HOROVOD_KERAS_MNIST -- "${dlrun_step[@]}" "${dlrun_rank[@]}" -- "${dlrun_program[@]}"
