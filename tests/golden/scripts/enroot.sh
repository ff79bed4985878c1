#!/bin/bash
#SBATCH --job-name=enroot                 # name
#SBATCH --nodes=2                         # resources.nodes
#SBATCH --ntasks-per-node=2               # resources.tasks_per_node
#SBATCH --cpus-per-task=4                 # resources.cpus_per_task
#SBATCH --time=00:10:00                   # resources.time
#SBATCH --chdir="/home/user/exp 1"        # the spec's folder
#SBATCH --output=/scratch/runs/enroot-%j.out  # resources.output
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
trap 'exec "$dlrun_agent" lead --runs /scratch/runs --name enroot --never-started "$?" ${dlrun_container_error:+--container-error "$dlrun_container_error"} -- "$BASH_COMMAND"' EXIT

export NVIDIA_VISIBLE_DEVICES=void        # container: GPUs
export PLAIN=4                            # environment.vars
export LINES_OF_TEXT='one
two {three}
'                                         # environment.vars

# container.runtime: enroot without pyxis. Every node makes the container and holds it until the job is over; every
# task enters it.
dlrun_image='/home/user/exp 1/pytorch.sqsh'  # container.image
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
  trap 'true' TERM
  echo ready
  cat <&0 >/dev/null & # ends after the job's last program; TERM interrupts the wait
  wait "$!" || kill "$!" 2>/dev/null
  # Programs of the job may still be ending.
  while others >/dev/null; do sleep 0.5; done
  # Slurm may send TERM to enroot, too, which would then leave a part of the container.
  trap '' TERM
  enroot remove --force "$name"
}
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
coproc dlrun_holders {
  # srun reads the job's GPU requests from these variables, and they would contradict --gres=none.
  unset SLURM_GPUS SLURM_GPUS_PER_NODE SLURM_GPUS_PER_SOCKET SLURM_GPUS_PER_TASK SLURM_NTASKS_PER_GPU SLURM_TRES_PER_TASK
  exec srun --overlap --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 --cpus-per-task=1 \
    --mem=0 --gres=none --mpi=none --export=ALL bash -c "$(declare -f tell_failure hold_container); hold_container \"\$@\"" hold_container "$dlrun_image"
}
# Keeps the holders' standard input open until the job's last program ends. Opens it anew through /proc: bash closes copies of a coprocess's descriptors when the script calls exec.
# shellcheck disable=SC2034
exec {dlrun_made_on}<&"${dlrun_holders[0]}" {dlrun_held}>"/proc/self/fd/${dlrun_holders[1]}"
for ((dlrun_node = 0; dlrun_node < SLURM_JOB_NUM_NODES; dlrun_node++)); do
  dlrun_made=''
  read -r -u "$dlrun_made_on" dlrun_made || dlrun_made='srun ended'
  if [[ $dlrun_made != ready ]]; then
    # shellcheck disable=SC2034
    dlrun_container_error=$dlrun_made
    echo "dlrun: the container could not be made: $dlrun_made" >&2 && exit 1
  fi
done
exec {dlrun_made_on}<&-

[[ -v PMIX_MCA_gds ]] || export PMIX_MCA_gds=hash  # launch.preset: mpi
dlrun_step=(
  srun
  --export=ALL                            # what this script exports reaches the ranks
  --kill-on-bad-exit=1                    # a rank that is lost ends the step
  --cpus-per-task=4                       # resources.cpus_per_task
  --mpi=pmix                              # launch.preset: mpi
)
dlrun_enter=(
  bash -c "$(declare -f enter_container); enter_container \"\$@\"" enter_container  # container.runtime
  --mount '/home/user/exp\0401/data:/data:x-create=auto,rbind,ro,rprivate'  # container.mounts
  --mount /scratch/x:/scratch/x           # container.mounts
  --mount /scratch/runs:/scratch/runs     # folders that dlrun mounts
  --
  sh -c 'cd "$0" && exec "$@"' /workspace  # container.workdir
)
dlrun_rank=(
  "$dlrun_agent" rank
  --env 'LINES_OF_TEXT=one
two {{three}}
'                                         # environment.vars
)
dlrun_program=(
  ./train --fast                          # launch.command
)
exec "$dlrun_agent" lead --runs /scratch/runs --name enroot -- "${dlrun_step[@]}" "${dlrun_enter[@]}" "${dlrun_rank[@]}" -- "${dlrun_program[@]}"
