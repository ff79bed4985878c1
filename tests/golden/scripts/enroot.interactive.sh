#!/bin/bash
# shellcheck disable=SC1090,SC1091,SC2016,SC2054
set -eo pipefail
export NVIDIA_VISIBLE_DEVICES=void        # container: GPUs
export PLAIN=4                            # environment.vars
export LINES_OF_TEXT='one
two {three}
'                                         # environment.vars
dlrun_image='/home/user/exp 1/pytorch.sqsh'  # container.image
enter_container() { # ENROOT-OPTIONS... -- COMMAND...
  local dlrun_name dlrun_options=()
  if ! type -P enroot >/dev/null; then echo "dlrun: container: enroot is not installed on $SLURMD_NODENAME" >&2 && exit 127; fi
  # container.entrypoint: the command runs instead of the image's entry point.
  local dlrun_own=/tmp/dlrun-$UID dlrun_conf
  mkdir -m 700 "$dlrun_own" 2>/dev/null || true
  if [[ ! -O $dlrun_own || -L $dlrun_own ]]; then echo "dlrun: container: $dlrun_own on $SLURMD_NODENAME is not yours" >&2 && exit 1; fi
  dlrun_conf=$dlrun_own/command-alone.conf
  if [[ ! -s $dlrun_conf ]]; then
    printf '%s\n' 'hooks() {' '  local rc=$ENROOT_ROOTFS/etc/rc.local own='\''exec "$@"'\''' '  [ "$(cat "$rc" 2>/dev/null)" = "$own" ] || { mkdir -p "${rc%/*}" && echo "$own" >"$rc"; }' '}' >"$dlrun_conf.$$" && mv "$dlrun_conf.$$" "$dlrun_conf"
  fi
  # enroot reads this configuration only for this start
  dlrun_options+=(--conf "$dlrun_conf")
  export ENROOT_MOUNT_HOME=n ENROOT_REMAP_ROOT=n ENROOT_ROOTFS_WRITABLE=y  # container.mount_home, remap_root, writable
  # The image lacks the host's configuration of PMIx, so these variables select the same modules.
  if [[ -v PMIX_SECURITY_MODE ]]; then export PMIX_MCA_psec="${PMIX_MCA_psec:-$PMIX_SECURITY_MODE}"; fi
  if [[ -v PMIX_GDS_MODULE ]]; then export PMIX_MCA_gds="${PMIX_MCA_gds:-$PMIX_GDS_MODULE}"; fi
  if [[ -v PMIX_PTL_MODULE ]]; then export PMIX_MCA_ptl="${PMIX_MCA_ptl:-$PMIX_PTL_MODULE}"; fi
  # Tasks in separate user namespaces cannot read each other's memory: Open MPI 4 would wait forever for large messages.
  export OMPI_MCA_btl_vader_single_copy_mechanism="${OMPI_MCA_btl_vader_single_copy_mechanism:-none}"
  # enroot passes on only the variables that --env names.
  for dlrun_name in $(compgen -e); do
    case $dlrun_name in
    SLURM* | PMI* | DLRUN_* | OMPI_* | UCX_* | NCCL_* | GLOO_* | CUDA_VISIBLE_DEVICES | NVIDIA_* | GPU_DEVICE_ORDINAL | ROCR_VISIBLE_DEVICES | PLAIN) dlrun_options+=(--env "$dlrun_name") ;;
    esac
  done
  # The task reaches its PMIx server through this directory.
  if [[ -d ${PMIX_SERVER_TMPDIR:-} ]]; then dlrun_options+=(--mount "$PMIX_SERVER_TMPDIR:$PMIX_SERVER_TMPDIR"); fi
  while [[ $1 != -- ]]; do dlrun_options+=("$1") && shift; done
  exec enroot start "${dlrun_options[@]}" "dlrun-$SLURM_JOB_ID-$SLURMD_NODENAME" "${@:2}"
}
tell_failure() { # MESSAGES-FILE
  local dlrun_error
  dlrun_error=$(sed -n 's/^\[ERROR\] *//p' "$1" | head -n 1)
  cat "$1" >&2
  echo "failed on $SLURMD_NODENAME: ${dlrun_error:-$(tail -n 1 "$1")}"
  rm -f "$1"
  exit 1
}
hold_container() { # IMAGE
  local name="dlrun-$SLURM_JOB_ID-$SLURMD_NODENAME" jobs old dlrun_messages
  # scontrol lists process -1 for a step without processes. The first grep removes that line, because kill would signal all processes.
  others() { scontrol listpids "$SLURM_JOB_ID" | grep -E "^ *[0-9]" | grep -Ev "^ *[0-9]+ +[0-9]+ +($SLURM_STEP_ID|batch|extern|interactive) "; }
  dlrun_messages=$(mktemp)
  trap 'trap "" TERM; kill -- "-$!" 2>/dev/null; wait; enroot remove --force "$name"; rm -f "$dlrun_messages"; exit 143' TERM
  # Remove containers that killed jobs left behind, and the container of an earlier attempt of this job.
  if jobs=$(squeue --noheader --user="$(id -u)" --states=PD,CF,R,S,ST,CG --format=%A); then
    for old in $(enroot list </dev/null); do
      if [[ $old =~ ^dlrun-([0-9]+)-"$SLURMD_NODENAME"$ ]]; then
        if [[ $old == "$name" ]] || ! grep -qx "${BASH_REMATCH[1]}" <<<"$jobs"; then enroot remove --force "$old" </dev/null || true; fi
      fi
    done
  fi
  set -m # starts enroot in a process group of its own, which the trap ends
  enroot create --name "$name" "$1" </dev/null >"$dlrun_messages" 2>&1 &
  set +m
  if ! wait "$!"; then
    enroot remove --force "$name" </dev/null >/dev/null 2>&1
    tell_failure "$dlrun_messages"
  fi
  rm -f "$dlrun_messages"
  trap 'trap "" TERM; others | sed "s/^ *//;s/ .*//" | xargs --no-run-if-empty kill -HUP; enroot remove --force "$name"; exit 143' TERM
  echo ready
  cat <&0 >/dev/null & # ends after the job's last program; TERM interrupts the wait
  wait "$!" || kill "$!" 2>/dev/null
  # Programs of the job may still be ending.
  while others >/dev/null; do sleep 0.5; done
  # Slurm may send TERM to enroot, too, which would then leave a part of the container.
  trap '' TERM
  enroot remove --force "$name"
}
coproc dlrun_holders {
  # srun reads the job's GPU requests from these variables, and they would contradict --gres=none.
  unset SLURM_GPUS SLURM_GPUS_PER_NODE SLURM_GPUS_PER_SOCKET SLURM_GPUS_PER_TASK SLURM_NTASKS_PER_GPU SLURM_TRES_PER_TASK
  exec srun --overlap --nodes=1 --ntasks=1 --nodelist="$SLURMD_NODENAME" --cpus-per-task=1 \
    --mem=0 --gres=none --mpi=none --export=ALL bash -c "$(declare -f tell_failure hold_container); hold_container \"\$@\"" hold_container "$dlrun_image"
}
# Keeps the holders' standard input open until the job's last program ends. Opens it anew through /proc: bash closes copies of a coprocess's descriptors when the script calls exec.
# shellcheck disable=SC2034
exec {dlrun_made_on}<&"${dlrun_holders[0]}" {dlrun_held}>"/proc/self/fd/${dlrun_holders[1]}"
for ((dlrun_node = 0; dlrun_node < 1; dlrun_node++)); do
  dlrun_made=''
  read -r -u "$dlrun_made_on" dlrun_made || dlrun_made='srun ended'
  if [[ $dlrun_made != ready ]]; then
    # shellcheck disable=SC2034
    dlrun_container_error=$dlrun_made
    echo "dlrun: the container could not be made: $dlrun_made" >&2 && exit 1
  fi
done
exec {dlrun_made_on}<&-
dlrun_enter=(
  bash -c "$(declare -f enter_container); enter_container \"\$@\"" enter_container  # container.runtime
  --mount '/home/user/exp\0401/data:/data:x-create=auto,rbind,ro,rprivate'  # container.mounts
  --mount /scratch/x:/scratch/x           # container.mounts
  --mount /scratch/runs:/scratch/runs     # folders that dlrun mounts
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
