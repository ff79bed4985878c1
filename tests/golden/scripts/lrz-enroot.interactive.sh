#!/bin/bash
# shellcheck disable=SC1090,SC1091,SC2016,SC2054
set -eo pipefail
export PMIX_MCA_gds=hash                  # launch.preset: mpi
export NVIDIA_VISIBLE_DEVICES=all         # container on GPUs
export NVIDIA_DRIVER_CAPABILITIES=compute,utility  # container on GPUs
dlrun_image='/home/user/exp 1/ubuntu.sqsh'  # container.image
enter_container() { # ENROOT-OPTIONS... -- COMMAND...
  local dlrun_name dlrun_options=()
  # The command alone is started, not the image's entry point: container.entrypoint.
  local dlrun_own=/tmp/dlrun-$UID
  mkdir -m 700 "$dlrun_own" 2>/dev/null || true
  if [[ ! -O $dlrun_own || -L $dlrun_own ]]; then echo "dlrun: $dlrun_own on $SLURMD_NODENAME is not yours" >&2 && exit 1; fi
  if [[ ! -s $dlrun_own/rc ]]; then echo 'exec "$@"' >"$dlrun_own/rc.$$" && mv "$dlrun_own/rc.$$" "$dlrun_own/rc"; fi
  dlrun_options+=(--rc "$dlrun_own/rc")
  export ENROOT_MOUNT_HOME=n ENROOT_REMAP_ROOT=n ENROOT_ROOTFS_WRITABLE=n  # container.mount_home, remap_root, writable
  # The host's files that say this to PMIx are not in the image.
  if [[ -v PMIX_SECURITY_MODE ]]; then export PMIX_MCA_psec="${PMIX_MCA_psec:-$PMIX_SECURITY_MODE}"; fi
  if [[ -v PMIX_GDS_MODULE ]]; then export PMIX_MCA_gds="${PMIX_MCA_gds:-$PMIX_GDS_MODULE}"; fi
  if [[ -v PMIX_PTL_MODULE ]]; then export PMIX_MCA_ptl="${PMIX_MCA_ptl:-$PMIX_PTL_MODULE}"; fi
  # Each task has a user namespace of its own: none may read another's memory.
  export OMPI_MCA_btl_vader_single_copy_mechanism="${OMPI_MCA_btl_vader_single_copy_mechanism:-none}"
  # enroot takes nothing of the task's environment along but what is named.
  for dlrun_name in $(compgen -e); do
    case $dlrun_name in
    SLURM* | PMI* | DLRUN_* | OMPI_* | UCX_* | NCCL_* | GLOO_* | CUDA_VISIBLE_DEVICES | NVIDIA_* | GPU_DEVICE_ORDINAL | ROCR_VISIBLE_DEVICES) dlrun_options+=(--env "$dlrun_name") ;;
    esac
  done
  # The task's own MPI server.
  if [[ -d ${PMIX_SERVER_TMPDIR:-} ]]; then dlrun_options+=(--mount "$PMIX_SERVER_TMPDIR:$PMIX_SERVER_TMPDIR"); fi
  while [[ $1 != -- ]]; do dlrun_options+=("$1") && shift; done
  exec enroot start "${dlrun_options[@]}" ubuntu "${@:2}"
}
hold_container() { # IMAGE
  local name=ubuntu locks=/tmp/dlrun-$UID
  mkdir -m 700 "$locks" 2>/dev/null || true
  if [[ ! -O $locks || -L $locks ]]; then echo "failed: $locks on $SLURMD_NODENAME is not yours" && exit 1; fi
  exec 9>"$locks/container-$name"
  flock 9
  if ! enroot list </dev/null | grep -Fqx -- "$name" && ! enroot create --name "$name" "$1" </dev/null >&2; then
    enroot remove --force "$name" </dev/null >/dev/null 2>&1
    echo "failed on $SLURMD_NODENAME" && exit 1
  fi
  exec 9>&-
  echo ready
}
(hold_container "$dlrun_image") >&2
dlrun_enter=(
  bash -c "$(declare -f enter_container); enter_container \"\$@\"" enter_container  # container.runtime
  --mount '/home/user/exp\0401/data-test:/mnt/data-test'  # container.mounts
  --mount /scratch/runs:/scratch/runs     # the run's and the agent's folders
  --
)
"${dlrun_enter[@]}" sh -c 'command -v bash >/dev/null && exec bash -i; exec sh -i'
# called by:
# salloc
# --job-name=lrz-enroot
# --partition=dgx
# --ntasks=8
# --gres=gpu:8
# --time=01:00:00
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
