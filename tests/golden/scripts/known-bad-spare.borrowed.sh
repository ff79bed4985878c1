#!/bin/bash
#SBATCH --job-name=spare                  # name
#SBATCH --nodes=3                         # resources.nodes, resources.spare_nodes
#SBATCH --ntasks-per-node=2               # resources.tasks_per_node
#SBATCH --cpus-per-task=1                 # resources.cpus_per_task
#SBATCH --gpus-per-node=2                 # resources.gpus_per_node
#SBATCH --time=01:00:00                   # resources.time
#SBATCH --exclude="n[7-8]"                # resources.exclude
#SBATCH --chdir="/home/user/exp 1"        # the spec's folder
#SBATCH --output=/scratch/runs/spare-%j.out  # resources.output
#SBATCH --open-mode=append                # a requeue keeps the log
#SBATCH --no-requeue                      # no retry
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
  --idle-gpu-after 1800                   # health.idle_gpu_after
  --end-idle-gpus                         # health.idle_gpu
  --known-bad /shared/known-bad.jsonl     # health.known_bad.file
  --known-bad-for 259200                  # health.known_bad.for
  --borrowed                              # the allocation belongs to another script or shell
  --retry 2                               # retry.max
  --retry-on node_failure,hang            # retry.on
  --exclude-bad-nodes                     # retry.exclude_bad_nodes
  --min-nodes 2                           # resources.nodes
  --step-nodes 2                          # resources.spare_nodes
)
trap 'exec "$dlrun_agent" lead --runs /scratch/runs --name spare "${dlrun_lead[@]}" --never-started "$?" -- "$BASH_COMMAND"' EXIT

dlrun_step=(
  srun
  --export=ALL                            # what this script exports reaches the ranks
  --kill-on-bad-exit=1                    # a rank that is lost ends the step
  --ntasks-per-node=2                     # resources.tasks_per_node
  --gpus-per-node=2                       # resources.gpus_per_node
  '--exclude=n[7-8]'                      # resources.exclude
  --no-kill                               # lead restarts the ranks on the other nodes
  --nodes=2                               # resources.nodes
  --ntasks=4                              # resources.tasks_per_node
  --cpus-per-task=1                       # resources.cpus_per_task
)
dlrun_rank=(
  "$dlrun_agent" rank
)
dlrun_program=(
  ./train                                 # launch.command
)
exec "$dlrun_agent" lead --runs /scratch/runs --name spare "${dlrun_lead[@]}" -- "${dlrun_step[@]}" "${dlrun_rank[@]}" -- "${dlrun_program[@]}"
