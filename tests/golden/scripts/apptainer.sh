#!/bin/bash
#SBATCH --job-name=apptainer              # name
#SBATCH --nodes=2                         # resources.nodes
#SBATCH --ntasks-per-node=4               # resources.gpus_per_node
#SBATCH --cpus-per-task=8                 # resources.cpus_per_task
#SBATCH --gpus-per-node=4                 # resources.gpus_per_node
#SBATCH --time=00:10:00                   # resources.time
#SBATCH --chdir="/home/user/exp 1"        # the spec's folder
#SBATCH --output=/scratch/runs/apptainer-%j.out  # resources.output
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
trap 'exec "$dlrun_agent" lead --runs /scratch/runs --name apptainer --never-started "$?" -- "$BASH_COMMAND"' EXIT

export NVIDIA_VISIBLE_DEVICES=all         # container: GPUs
export NVIDIA_DRIVER_CAPABILITIES=compute,utility  # container: GPUs
export OMP_NUM_THREADS=4                  # environment.vars

# container.runtime: apptainer. Every task starts its own container.
dlrun_image='/home/user/exp 1/pytorch.sif'  # container.image
enter_container() { # IMAGE APPTAINER-OPTIONS... -- COMMAND...
  local dlrun_name dlrun_image=$1 dlrun_options=()
  if ! type -P apptainer >/dev/null; then echo "dlrun: container: apptainer is not installed on $SLURMD_NODENAME" >&2 && exit 127; fi
  shift
  # apptainer passes on all variables of the job. The variables below also override the image's variables.
  for dlrun_name in OMP_NUM_THREADS DLRUN_RUN DLRUN_JOB; do
    if [[ -v $dlrun_name ]]; then export "APPTAINERENV_$dlrun_name=${!dlrun_name}"; fi
  done
  # Tasks in separate user namespaces cannot read each other's memory: Open MPI 4 would wait forever for large messages.
  export OMPI_MCA_btl_vader_single_copy_mechanism="${OMPI_MCA_btl_vader_single_copy_mechanism:-none}"
  if [[ -d ${PMIX_SERVER_TMPDIR:-} ]]; then dlrun_options+=(--bind "$PMIX_SERVER_TMPDIR"); fi
  while [[ $1 != -- ]]; do dlrun_options+=("$1") && shift; done
  cd / # apptainer would mount the home directory if a task started in it
  exec apptainer exec "${dlrun_options[@]}" "$dlrun_image" "${@:2}"
}

dlrun_step=(
  srun
  --export=ALL                            # what this script exports reaches the ranks
  --kill-on-bad-exit=1                    # a rank that is lost ends the step
  --cpus-per-task=8                       # resources.cpus_per_task
)
dlrun_enter=(
  bash -c "$(declare -f enter_container); enter_container \"\$@\"" enter_container "$dlrun_image"  # container.runtime
  --bind '/home/user/exp 1/data:/data:ro'  # container.mounts
  --bind /scratch/runs:/scratch/runs      # folders that dlrun mounts
  --no-home                               # container.mount_home
  --writable-tmpfs                        # container.writable
  --nv                                    # NVIDIA's driver, where the node has one
  --pwd /workspace                        # container.workdir
  --
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
  python train.py                         # launch.command
)
exec "$dlrun_agent" lead --runs /scratch/runs --name apptainer -- "${dlrun_step[@]}" "${dlrun_enter[@]}" "${dlrun_rank[@]}" -- "${dlrun_program[@]}"
