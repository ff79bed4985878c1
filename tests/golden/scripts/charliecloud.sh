#!/bin/bash
#SBATCH --job-name=charliecloud           # name
#SBATCH --nodes=2                         # resources.nodes
#SBATCH --ntasks-per-node=4               # resources.gpus_per_node
#SBATCH --cpus-per-task=8                 # resources.cpus_per_task
#SBATCH --gpus-per-node=4                 # resources.gpus_per_node
#SBATCH --time=00:10:00                   # resources.time
#SBATCH --chdir="/home/user/exp 1"        # the spec's folder
#SBATCH --output=/scratch/runs/charliecloud-%j.out  # resources.output
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
trap 'exec "$dlrun_agent" lead --runs /scratch/runs --name charliecloud --never-started "$?" -- "$BASH_COMMAND"' EXIT

export OMP_NUM_THREADS=4                  # environment.vars

# container.runtime: charliecloud. Every task starts its own container.
dlrun_image='/home/user/exp 1/pytorch'  # container.image
make_mount_point() { # IMAGE SOURCE TARGET: makes TARGET in the folder IMAGE; fails if that is not possible
  local dlrun_root dlrun_point
  dlrun_root=$(realpath -- "$1") dlrun_point=$(realpath -m -- "$1$3")
  if [[ ! -d $dlrun_root || $dlrun_point != "$dlrun_root"/* ]]; then return 1; fi # IMAGE is no folder, or a link leads out of it
  if [[ -e $dlrun_point ]]; then return; fi
  if [[ -d $2 ]]; then mkdir -p -- "$dlrun_point"; else mkdir -p -- "${dlrun_point%/*}" && : >>"$dlrun_point"; fi 2>/dev/null
}
enter_container() { # IMAGE CH-RUN-OPTIONS... -- COMMAND...
  local dlrun_name dlrun_image=$1 dlrun_options=() dlrun_from dlrun_writable=y dlrun_needs_layer=y
  if ! type -P ch-run >/dev/null; then echo "dlrun: container: charliecloud (ch-run) is not installed on $SLURMD_NODENAME" >&2 && exit 127; fi
  shift
  export USER="${USER:-$(id -un)}" # ch-run does not start without it
  # Sets the image's variables, then the job's variables, which override them. Only the names of variables are on the command line, because other users can read command lines.
  if [[ ! -d $dlrun_image || -e $dlrun_image/ch/environment ]]; then dlrun_options+=(--set-env); fi
  for dlrun_name in OMP_NUM_THREADS DLRUN_RUN DLRUN_JOB; do
    if [[ -v $dlrun_name ]]; then
      export "DLRUN_KEPT_$dlrun_name=${!dlrun_name}"
      dlrun_options+=("--set-env=$dlrun_name=\$DLRUN_KEPT_$dlrun_name")
    fi
  done
  dlrun_options+=('--unset-env=DLRUN_KEPT_*')
  # Tasks in separate user namespaces cannot read each other's memory: Open MPI 4 would wait forever for large messages.
  export OMPI_MCA_btl_vader_single_copy_mechanism="${OMPI_MCA_btl_vader_single_copy_mechanism:-none}"
  if [[ -d ${PMIX_SERVER_TMPDIR:-} ]]; then set -- "--bind=${PMIX_SERVER_TMPDIR%/*}:${PMIX_SERVER_TMPDIR%/*}" "$@"; fi
  while [[ $1 != -- ]]; do
    dlrun_options+=("$1")
    if [[ $1 == --bind=* ]]; then
      dlrun_from=${1#--bind=}
      make_mount_point "$dlrun_image" "${dlrun_from%:*}" "${dlrun_from##*:}" || dlrun_needs_layer=y
    fi
    shift
  done
  if [[ $dlrun_needs_layer == y && $(ch-run --help 2>&1) == *--write-fake* ]]; then
    dlrun_options+=(--write-fake)
  elif [[ $dlrun_writable == y ]]; then
    echo "dlrun: container: container.writable needs charliecloud 0.36 or newer; $SLURMD_NODENAME has $(ch-run --version 2>&1)" >&2 && exit 127
  fi
  exec ch-run "${dlrun_options[@]}" "$dlrun_image" -- "${@:2}"
}

dlrun_step=(
  srun
  --export=ALL                            # what this script exports reaches the ranks
  --kill-on-bad-exit=1                    # a rank that is lost ends the step
  --cpus-per-task=8                       # resources.cpus_per_task
)
dlrun_enter=(
  bash -c "$(declare -f make_mount_point enter_container); enter_container \"\$@\"" enter_container "$dlrun_image"  # container.runtime
  '--bind=/home/user/exp 1/data:/data'    # container.mounts
  --bind=/scratch/runs:/scratch/runs      # folders that dlrun mounts
  --home                                  # container.mount_home
  --uid=0 --gid=0                         # container.remap_root
  --cd=/workspace                         # container.workdir
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
exec "$dlrun_agent" lead --runs /scratch/runs --name charliecloud -- "${dlrun_step[@]}" "${dlrun_enter[@]}" "${dlrun_rank[@]}" -- "${dlrun_program[@]}"
