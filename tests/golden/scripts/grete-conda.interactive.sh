#!/bin/bash
# shellcheck disable=SC1090,SC1091,SC2016,SC2054
[[ -r ~/.bashrc ]] && . ~/.bashrc
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
# called by:
# salloc
# --job-name=custom-name
# --nodes=2
# --ntasks-per-node=1
# --cpus-per-task=2
# --mem-per-cpu=4GB
# --time=00:01:00
# --mail-type=all
# --mail-user=me@example.org
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
# --rcfile
# /scratch/runs/s.sh
# -i
