#!/bin/bash
# shellcheck disable=SC1090,SC1091,SC2016,SC2054
set -eo pipefail
export PMIX_MCA_gds=hash                  # launch.preset: mpi
export PLAIN=4                            # environment.vars
export LINES_OF_TEXT='one
two {three}
'                                         # environment.vars
dlrun_image='/home/user/exp 1/pytorch.sqsh'  # container.image
enter_container() { # ENROOT-OPTIONS... -- COMMAND...
  local dlrun_name dlrun_options=()
  # The command alone is started, not the image's entry point: container.entrypoint.
  local dlrun_own=/tmp/dlrun-$UID
  mkdir -m 700 "$dlrun_own" 2>/dev/null || true
  if [[ ! -O $dlrun_own || -L $dlrun_own ]]; then echo "dlrun: $dlrun_own on $SLURMD_NODENAME is not yours" >&2 && exit 1; fi
  if [[ ! -s $dlrun_own/rc ]]; then echo 'exec "$@"' >"$dlrun_own/rc.$$" && mv "$dlrun_own/rc.$$" "$dlrun_own/rc"; fi
  dlrun_options+=(--rc "$dlrun_own/rc")
  export ENROOT_MOUNT_HOME=n ENROOT_REMAP_ROOT=n ENROOT_ROOTFS_WRITABLE=y  # container.mount_home, remap_root, writable
  # The host's files that say this to PMIx are not in the image.
  if [[ -v PMIX_SECURITY_MODE ]]; then export PMIX_MCA_psec="${PMIX_MCA_psec:-$PMIX_SECURITY_MODE}"; fi
  if [[ -v PMIX_GDS_MODULE ]]; then export PMIX_MCA_gds="${PMIX_MCA_gds:-$PMIX_GDS_MODULE}"; fi
  if [[ -v PMIX_PTL_MODULE ]]; then export PMIX_MCA_ptl="${PMIX_MCA_ptl:-$PMIX_PTL_MODULE}"; fi
  # Each task has a user namespace of its own: none may read another's memory.
  export OMPI_MCA_btl_vader_single_copy_mechanism="${OMPI_MCA_btl_vader_single_copy_mechanism:-none}"
  # enroot takes nothing of the task's environment along but what is named.
  for dlrun_name in $(compgen -e); do
    case $dlrun_name in
    SLURM* | PMI* | DLRUN_* | OMPI_* | UCX_* | NCCL_* | GLOO_* | CUDA_VISIBLE_DEVICES | NVIDIA_* | GPU_DEVICE_ORDINAL | ROCR_VISIBLE_DEVICES | PLAIN) dlrun_options+=(--env "$dlrun_name") ;;
    esac
  done
  # The task's own MPI server.
  if [[ -d ${PMIX_SERVER_TMPDIR:-} ]]; then dlrun_options+=(--mount "$PMIX_SERVER_TMPDIR:$PMIX_SERVER_TMPDIR"); fi
  while [[ $1 != -- ]]; do dlrun_options+=("$1") && shift; done
  exec enroot start "${dlrun_options[@]}" "dlrun-$SLURM_JOB_ID-$SLURMD_NODENAME" "${@:2}"
}
trap 'exit 129' HUP
trap 'exit 143' TERM
trap 'enroot remove --force "dlrun-$SLURM_JOB_ID-$SLURMD_NODENAME"' EXIT
enroot create --name "dlrun-$SLURM_JOB_ID-$SLURMD_NODENAME" "$dlrun_image" </dev/null >&2
dlrun_enter=(
  bash -c "$(declare -f enter_container); enter_container \"\$@\"" enter_container  # container.runtime
  --mount '/home/user/exp\0401/data:/data:x-create=auto,rbind,ro,rprivate'  # container.mounts
  --mount /scratch/x:/scratch/x           # container.mounts
  --mount /scratch/runs:/scratch/runs     # the run's and the agent's folders
  --
  sh -c 'cd "$0" && exec "$@"' /workspace  # container.workdir
)
"${dlrun_enter[@]}" env 'LINES_OF_TEXT=one
two {three}
' sh -c 'command -v bash >/dev/null && exec bash -i; exec sh -i'
# called by:
# salloc
# --job-name=enroot
# --nodes=2
# --ntasks-per-node=2
# --cpus-per-task=4
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
