#!/bin/bash
#SBATCH --job-name=few                    # name
#SBATCH --nodes=3                         # components
#SBATCH --ntasks-per-node=1               # components
#SBATCH --cpus-per-task=8                 # components
#SBATCH --time=00:10:00                   # resources.time
#SBATCH --chdir="/home/user/exp 1"        # the spec's folder
#SBATCH --output=/scratch/runs/few-%j.out  # resources.output
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
trap 'exec "$dlrun_agent" lead --runs /scratch/runs --name few --never-started "$?" -- "$BASH_COMMAND"' EXIT

# A component's step requests its own resources, not those of the whole job.
unset SLURM_NTASKS SLURM_NPROCS SLURM_NTASKS_PER_NODE SLURM_TASKS_PER_NODE SLURM_CPUS_PER_TASK \
  SLURM_GRES SLURM_TRES_PER_TASK SLURM_DISTRIBUTION SLURM_EXACT SLURM_OVERLAP \
  "${!SLURM_GPUS@}" "${!SLURM_MEM_PER_@}"

# component store
dlrun_component_store=(
  --component store                       # store: name
  --role service                          # store: role
  --ready-timeout 30                      # store: ready.timeout
  --component-nodes 1
  --component-ranks 1
  --component-first-node 0
  --port-count 1
)
dlrun_step_store=(
  --export=ALL                            # what this script exports reaches the ranks
  --kill-on-bad-exit=1                    # a rank that is lost ends the step
  --exact                                 # the step leaves the rest of its nodes to others
  --nodes=1                               # store: nodes
  --ntasks=1
  --ntasks-per-node=1                     # resources.tasks_per_node
  --cpus-per-task=2                       # resources.cpus_per_task
  --mpi=none                              # launch.mpi
)
dlrun_rank_store=(
  "$dlrun_agent" rank
)
dlrun_program_store=(
  ./store '--listen=0.0.0.0:{port}' '--alternative={port}'  # launch.command
)

# component work
dlrun_component_work=(
  --component work                        # work: name
  --role main                             # work: role
  --after store                           # work: after
  --component-nodes 2
  --component-ranks 8
  --component-first-node 1
)
dlrun_step_work=(
  --export=ALL                            # what this script exports reaches the ranks
  --kill-on-bad-exit=1                    # a rank that is lost ends the step
  --exact                                 # the step leaves the rest of its nodes to others
  --nodes=2                               # resources.nodes
  --ntasks=8
  --ntasks-per-node=4                     # work: tasks_per_node
  --cpus-per-task=2                       # resources.cpus_per_task
)
dlrun_rank_work=(
  "$dlrun_agent" rank
)
dlrun_program_work=(
  hostname                                # launch.command
)

exec "$dlrun_agent" lead --runs /scratch/runs --name few \
  "${dlrun_component_store[@]}" -- "${dlrun_step_store[@]}" "${dlrun_rank_store[@]}" -- "${dlrun_program_store[@]}" \
  +++ "${dlrun_component_work[@]}" -- "${dlrun_step_work[@]}" "${dlrun_rank_work[@]}" -- "${dlrun_program_work[@]}"
