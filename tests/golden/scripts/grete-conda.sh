#!/bin/bash
#SBATCH --job-name=custom-name            # name
#SBATCH --nodes=2                         # resources.nodes
#SBATCH --ntasks-per-node=1               # resources.tasks_per_node
#SBATCH --cpus-per-task=2                 # resources.cpus_per_task
#SBATCH --mem-per-cpu=4GB                 # resources.mem_per_cpu
#SBATCH --time=00:01:00                   # resources.time
#SBATCH --mail-type=all                   # slurm
#SBATCH --mail-user=me@example.org        # slurm
#SBATCH --chdir="/home/user/exp 1"        # the spec's folder
#SBATCH --output=/scratch/runs/custom-name-%j.out  # resources.output
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
trap 'exec "$dlrun_agent" lead --runs /scratch/runs --name custom-name --never-started "$?" -- "$BASH_COMMAND"' EXIT

if ! type module >/dev/null 2>&1; then
  for dlrun_init in "${LMOD_PKG:-/usr/share/lmod/lmod}/init/bash" "${MODULESHOME:-/usr/share/modules}/init/bash" \
    /usr/share/Modules/init/bash /etc/profile.d/lmod.sh /etc/profile.d/modules.sh; do
    if [[ -r $dlrun_init ]]; then . "$dlrun_init" && break; fi
  done
fi
module load anaconda3/2021.05             # environment.conda.module
dlrun_conda=$(type -P conda || true)
for dlrun_conda in "$dlrun_conda" "${CONDA_EXE:-}" ~/{miniforge3,miniconda3,mambaforge,anaconda3}/bin/conda /opt/conda/bin/conda; do
  if [[ -x $dlrun_conda ]]; then break; fi
done
if [[ ! -x $dlrun_conda ]]; then
  echo "dlrun: $(uname -n) has no conda on the PATH, in \$CONDA_EXE or in a usual folder; the module of environment.conda.module does not provide it" >&2
  false
fi
dlrun_hook=$("$dlrun_conda" shell.bash hook)
eval "$dlrun_hook"
conda activate custom-env                 # environment.conda

dlrun_step=(
  srun
  --export=ALL                            # what this script exports reaches the ranks
  --kill-on-bad-exit=1                    # a rank that is lost ends the step
  --cpus-per-task=2                       # resources.cpus_per_task
)
dlrun_rank=(
  "$dlrun_agent" rank
)
dlrun_program=(
  python custom-script.py                 # launch.command
)
exec "$dlrun_agent" lead --runs /scratch/runs --name custom-name -- "${dlrun_step[@]}" "${dlrun_rank[@]}" -- "${dlrun_program[@]}"
