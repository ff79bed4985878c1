#!/bin/bash
#SBATCH --job-name=lrz-enroot             # name
#SBATCH --partition=dgx                   # resources.partition
#SBATCH --ntasks=8                        # resources.ntasks
#SBATCH --gres=gpu:8                      # resources.gres
#SBATCH --time=01:00:00                   # resources.time
#SBATCH --chdir="/home/user/exp 1"        # the spec's folder
#SBATCH --output=/scratch/runs/lrz-enroot-%j.out  # resources.output
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
trap 'exec "$dlrun_agent" lead --runs /scratch/runs --name lrz-enroot --never-started "$?" ${dlrun_container_error:+--container-error "$dlrun_container_error"} -- "$BASH_COMMAND"' EXIT

export NVIDIA_VISIBLE_DEVICES=all         # container: GPUs
# container: GPUs. The parts of NVIDIA's driver that the image asks for; else those that CUDA needs.
dlrun_image_files=$(mktemp -d)
unsquashfs -no-progress -dest "$dlrun_image_files/image" '/home/user/exp 1/ubuntu.sqsh' etc/environment >/dev/null 2>&1 || true
if ! grep -qs ^NVIDIA_DRIVER_CAPABILITIES= "$dlrun_image_files/image/etc/environment"; then
  export NVIDIA_DRIVER_CAPABILITIES=compute,utility
fi
rm -rf "$dlrun_image_files"

# container.runtime: enroot without pyxis. Every node without the container makes it, and it stays; every task
# enters it.
dlrun_image='/home/user/exp 1/ubuntu.sqsh'  # container.image
tell_failure() { # MESSAGES-FILE
  local dlrun_error
  dlrun_error=$(sed -n 's/^\[ERROR\] *//p' "$1" | head -n 1)
  cat "$1" >&2
  echo "failed on $SLURMD_NODENAME: ${dlrun_error:-$(tail -n 1 "$1")}"
  rm -f "$1"
  exit 1
}
hold_container() { # IMAGE
  local name=ubuntu dlrun_data dlrun_messages dlrun_making
  dlrun_messages=$(mktemp)
  enroot remove --force dlrun-no-such-container </dev/null >"$dlrun_messages" 2>&1 || true
  dlrun_data=$(sed -n 's|^[^/]*\(/.*\)/dlrun-no-such-container$|\1|p' "$dlrun_messages")
  if [[ ! -d $dlrun_data ]]; then tell_failure "$dlrun_messages"; fi
  dlrun_making=$dlrun_data/.dlrun-making-$name
  if ! exec 9>"$dlrun_data/.dlrun-lock-$name" || ! flock 9 2>"$dlrun_messages"; then tell_failure "$dlrun_messages"; fi
  # Remove the half-made container of a job that was killed.
  if [[ -e $dlrun_making ]]; then enroot remove --force "$name" </dev/null >/dev/null 2>&1 || true; fi
  if ! enroot list </dev/null | grep -Fqx -- "$name"; then
    : >"$dlrun_making"
    if ! enroot create --name "$name" "$1" </dev/null >"$dlrun_messages" 2>&1; then
      enroot remove --force "$name" </dev/null >/dev/null 2>&1
      rm -f "$dlrun_making"
      tell_failure "$dlrun_messages"
    fi
  fi
  rm -f "$dlrun_making" "$dlrun_messages"
  exec 9>&-
  echo ready
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
  export ENROOT_MOUNT_HOME=n ENROOT_REMAP_ROOT=n ENROOT_ROOTFS_WRITABLE=n  # container.mount_home, remap_root, writable
  # The image lacks the host's configuration of PMIx, so these variables select the same modules.
  if [[ -v PMIX_SECURITY_MODE ]]; then export PMIX_MCA_psec="${PMIX_MCA_psec:-$PMIX_SECURITY_MODE}"; fi
  if [[ -v PMIX_GDS_MODULE ]]; then export PMIX_MCA_gds="${PMIX_MCA_gds:-$PMIX_GDS_MODULE}"; fi
  if [[ -v PMIX_PTL_MODULE ]]; then export PMIX_MCA_ptl="${PMIX_MCA_ptl:-$PMIX_PTL_MODULE}"; fi
  # Tasks in separate user namespaces cannot read each other's memory: Open MPI 4 would wait forever for large messages.
  export OMPI_MCA_btl_vader_single_copy_mechanism="${OMPI_MCA_btl_vader_single_copy_mechanism:-none}"
  # enroot passes on only the variables that --env names.
  for dlrun_name in $(compgen -e); do
    case $dlrun_name in
    SLURM* | PMI* | DLRUN_* | OMPI_* | UCX_* | NCCL_* | GLOO_* | CUDA_VISIBLE_DEVICES | NVIDIA_* | GPU_DEVICE_ORDINAL | ROCR_VISIBLE_DEVICES) dlrun_options+=(--env "$dlrun_name") ;;
    esac
  done
  # The task reaches its PMIx server through this directory.
  if [[ -d ${PMIX_SERVER_TMPDIR:-} ]]; then dlrun_options+=(--mount "$PMIX_SERVER_TMPDIR:$PMIX_SERVER_TMPDIR"); fi
  while [[ $1 != -- ]]; do dlrun_options+=("$1") && shift; done
  exec enroot start "${dlrun_options[@]}" ubuntu "${@:2}"
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

# resources.cpus_per_task is not given: each task gets its share of the node's allocated CPUs.
dlrun_tasks=${SLURM_TASKS_PER_NODE%%[!0-9]*}
dlrun_cpus=${SLURM_CPUS_PER_TASK:-$((SLURM_CPUS_ON_NODE / dlrun_tasks))}
[[ -v PMIX_MCA_gds ]] || export PMIX_MCA_gds=hash  # launch.preset: mpi
dlrun_step=(
  srun
  --export=ALL                            # what this script exports reaches the ranks
  --kill-on-bad-exit=1                    # a rank that is lost ends the step
  --mpi=pmix                              # launch.preset: mpi
  --cpus-per-task="$((dlrun_cpus > 0 ? dlrun_cpus : 1))"  # srun does not take this number from the job since Slurm 22.05
)
dlrun_enter=(
  bash -c "$(declare -f enter_container); enter_container \"\$@\"" enter_container  # container.runtime
  --mount '/home/user/exp\0401/data-test:/mnt/data-test'  # container.mounts
  --mount /scratch/runs:/scratch/runs     # folders that dlrun mounts
  --
)
dlrun_rank=(
  "$dlrun_agent" rank
)
dlrun_program=(
  python3 train.py                        # launch.command
)
exec "$dlrun_agent" lead --runs /scratch/runs --name lrz-enroot -- "${dlrun_step[@]}" "${dlrun_enter[@]}" "${dlrun_rank[@]}" -- "${dlrun_program[@]}"
