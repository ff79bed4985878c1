#!/bin/bash
#SBATCH --job-name=agentless-torch        # name
#SBATCH --nodes=2                         # resources.nodes
#SBATCH --ntasks-per-node=4               # resources.gpus_per_node
#SBATCH --cpus-per-task=10                # resources.cpus_per_task
#SBATCH --gpus-per-node=4                 # resources.gpus_per_node
#SBATCH --time=00:10:00                   # resources.time
#SBATCH --chdir="/home/user/exp 1"        # the spec's folder
#SBATCH --output=/scratch/runs/agentless-torch-%j.out  # resources.output
#SBATCH --open-mode=append                # a requeue keeps the log
#SBATCH --no-requeue                      # no retry
#
# Rendered by dlrun; edit it as you like. Submit it with sbatch or `dlrun submit`.
# shellcheck disable=SC1090,SC1091,SC2016,SC2054
set -eo pipefail
trap 'echo "dlrun: the job script ended with code $? at: $BASH_COMMAND; the ranks were not started" >&2' EXIT

dlrun_step=(
  srun
  --export=ALL                            # what this script exports reaches the ranks
  --kill-on-bad-exit=1                    # a rank that is lost ends the step
  --cpus-per-task=10                      # resources.cpus_per_task
)
dlrun_program=(
  python -u train.py                      # launch.command
)
# A port for rank 0's program, which runs on this node. The port is unused, is outside the
# kernel's own range, and is locked against other jobs of this kind until this job ends. A shell
# cannot keep the port reserved until the program binds it; dlrun's agent can. The lock files are
# in a folder of this user, because another user could put files or links directly into /tmp.
dlrun_locks=/tmp/dlrun-ports-$UID
mkdir -m 700 "$dlrun_locks" 2>/dev/null || true
if [[ -L $dlrun_locks || ! -d $dlrun_locks || ! -O $dlrun_locks ]]; then dlrun_locks=$(mktemp -d); fi
for ((dlrun_try = 0; dlrun_try < 1000; dlrun_try++)); do
  dlrun_port=$((10000 + (RANDOM * 32768 + RANDOM) % 20000))
  printf -v dlrun_in_use ': [0-9A-F]*:%04X ' "$dlrun_port"
  if grep -qs "$dlrun_in_use" /proc/net/tcp /proc/net/tcp6; then continue; fi
  { exec {dlrun_lock}>>"$dlrun_locks/$dlrun_port"; } 2>/dev/null || continue
  if flock --nonblock "$dlrun_lock"; then break; fi
  exec {dlrun_lock}>&-
done
if ((dlrun_try == 1000)); then
  echo "dlrun: no free port was found for rank 0" >&2
  exit 70
fi
export DLRUN_MASTER_PORT=$dlrun_port
# launch.agent: false. What each task does before it becomes the program.
read -r -d '' dlrun_task <<'SH' || true
# dlrun_tasks: the number of tasks of this node, from a list such as 2(x3),1
dlrun_node=$SLURM_NODEID dlrun_tasks=
for dlrun_group in $(echo "${SLURM_STEP_TASKS_PER_NODE:-$SLURM_TASKS_PER_NODE}" | tr , ' '); do
  dlrun_tasks=${dlrun_group%%"("*} dlrun_nodes=1
  case $dlrun_group in *x*) dlrun_nodes=${dlrun_group#*x} dlrun_nodes=${dlrun_nodes%")"} ;; esac
  if [ "$dlrun_node" -lt "$dlrun_nodes" ]; then break; fi
  dlrun_node=$((dlrun_node - dlrun_nodes))
done
export DLRUN_RANK="$SLURM_PROCID" DLRUN_WORLD_SIZE="${SLURM_STEP_NUM_TASKS:-$SLURM_NTASKS}"
export DLRUN_LOCAL_RANK="$SLURM_LOCALID" DLRUN_LOCAL_WORLD_SIZE="$dlrun_tasks"
export DLRUN_NODE_RANK="$SLURM_NODEID" DLRUN_NNODES="${SLURM_STEP_NUM_NODES:-$SLURM_NNODES}"
export DLRUN_MASTER_ADDR="$SLURM_LAUNCH_NODE_IPADDR"
export RANK="$DLRUN_RANK"                 # launch.preset: torch
export WORLD_SIZE="$DLRUN_WORLD_SIZE"     # launch.preset: torch
export LOCAL_RANK="$DLRUN_LOCAL_RANK"     # launch.preset: torch
export LOCAL_WORLD_SIZE="$DLRUN_LOCAL_WORLD_SIZE"  # launch.preset: torch
export NODE_RANK="$DLRUN_NODE_RANK"       # launch.preset: torch
export MASTER_ADDR="$DLRUN_MASTER_ADDR"   # launch.preset: torch
export MASTER_PORT="$DLRUN_MASTER_PORT"   # launch.preset: torch
exec "$@"
SH
exec "${dlrun_step[@]}" sh -c "$dlrun_task" sh "${dlrun_program[@]}"
