#!/bin/bash
# shellcheck disable=SC1090,SC1091,SC2016,SC2054
set -eo pipefail
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
"${dlrun_enter[@]}" sh -c 'command -v bash >/dev/null && exec bash -i; exec sh -i'
# called by:
# salloc
# --job-name=apptainer
# --nodes=2
# --ntasks-per-node=4
# --cpus-per-task=8
# --gpus-per-node=4
# --time=00:10:00
# --chdir=/home/user/exp 1
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
