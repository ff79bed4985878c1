#!/bin/bash
#SBATCH --job-name=retry                  # name
#SBATCH --nodes=2-4                       # resources.nodes
#SBATCH --ntasks-per-node=2               # resources.tasks_per_node
#SBATCH --cpus-per-task=1                 # resources.cpus_per_task
#SBATCH --gpus-per-node=2                 # resources.gpus_per_node
#SBATCH --time=01:00:00                   # resources.time
#SBATCH --chdir="/home/user/exp 1"        # the spec's folder
#SBATCH --output=/scratch/runs/retry-%j.out  # resources.output
#SBATCH --signal=B:USR1@120               # checkpoint.signal_before
#SBATCH --open-mode=append                # a requeue keeps the log
#SBATCH --requeue                         # retry.on
#SBATCH --no-kill                         # retry.on: node_failure, resources.nodes
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
dlrun_lead=(
  --hang-after 900                        # health.hang_after
  --signal-before 120                     # checkpoint.signal_before
  --retry 5                               # retry.max
  --retry-on timeout,preemption,node_failure,hang,failure  # retry.on
  --no-progress 2                         # retry.no_progress
  --exclude-bad-nodes                     # retry.exclude_bad_nodes
  --min-nodes 2                           # resources.nodes
)
trap 'exec "$dlrun_agent" lead --runs /scratch/runs --name retry "${dlrun_lead[@]}" --never-started "$?" -- "$BASH_COMMAND"' EXIT
trap : USR1

dlrun_step=(
  srun
  --export=ALL                            # what this script exports reaches the ranks
  --kill-on-bad-exit=1                    # a rank that is lost ends the step
  --no-kill                               # lead restarts the ranks on the other nodes
  --cpus-per-task=1                       # resources.cpus_per_task
)
dlrun_rank=(
  "$dlrun_agent" rank
  --preflight gpu,nccl,disk,clock         # health.preflight
)
dlrun_program=(
  ./train                                 # launch.command
)
exec "$dlrun_agent" lead --runs /scratch/runs --name retry "${dlrun_lead[@]}" --forward-usr1 -- "${dlrun_step[@]}" "${dlrun_rank[@]}" -- "${dlrun_program[@]}"
