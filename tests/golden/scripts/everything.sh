#!/bin/bash
#SBATCH --job-name=everything             # name
#SBATCH --clusters=inter                  # resources.clusters
#SBATCH --partition=gpu,dgx               # resources.partition
#SBATCH --account=proj-1                  # resources.account
#SBATCH --qos=high                        # resources.qos
#SBATCH --reservation=course              # resources.reservation
#SBATCH --nodes=2-4                       # resources.nodes
#SBATCH --ntasks=8                        # resources.ntasks
#SBATCH --ntasks-per-node=4               # resources.tasks_per_node
#SBATCH --cpus-per-task=10                # resources.cpus_per_task
#SBATCH --gpus-per-node=a100:4            # resources.gpus_per_node
#SBATCH --mem=64G                         # resources.mem
#SBATCH --time=1-12:00:00                 # resources.time
#SBATCH --begin=now+1hour                 # resources.begin
#SBATCH --constraint="[a100|v100]"        # resources.constraint
#SBATCH --nodelist="n[1-3]"               # resources.nodelist
#SBATCH --exclude=n7                      # resources.exclude
#SBATCH --exclusive                       # resources.exclusive
#SBATCH --licenses=foo:2                  # resources.licenses
#SBATCH --threads-per-core=1              # resources.threads_per_core
#SBATCH --distribution=block:cyclic       # resources.distribution
#SBATCH --dependency=afterok:12,afterok:13_4,afterany:14,afternotok:15  # after
#SBATCH --kill-on-invalid-dep=yes         # after
#SBATCH --mail-type=BEGIN,END             # slurm
#SBATCH --mail-user=me@example.org        # slurm
#SBATCH --contiguous                      # slurm
#SBATCH --nice=100                        # slurm
#SBATCH --chdir=/home/user/exp-1          # the spec's folder
#SBATCH --output="/home/user/exp-1/logs/out 100%_%j.txt"  # resources.output
#SBATCH --error=/abs/err-%j.txt           # resources.error
#SBATCH --signal=B:USR1@120               # checkpoint.signal_before
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
dlrun_lead=(
  --signal-before 120                     # checkpoint.signal_before
)
trap 'exec "$dlrun_agent" lead --runs /scratch/runs --name everything "${dlrun_lead[@]}" --never-started "$?" -- "$BASH_COMMAND"' EXIT
trap : USR1

if ! type module >/dev/null 2>&1; then
  for dlrun_init in "${LMOD_PKG:-/usr/share/lmod/lmod}/init/bash" "${MODULESHOME:-/usr/share/modules}/init/bash" \
    /usr/share/Modules/init/bash /etc/profile.d/lmod.sh /etc/profile.d/modules.sh; do
    if [[ -r $dlrun_init ]]; then . "$dlrun_init" && break; fi
  done
fi
module purge                              # environment.modules.purge
module use /home/user/exp-1/modulefiles   # environment.modules.use
module load GCC/8.3.0                     # environment.modules.load
module load 'a b'                         # environment.modules.load
dlrun_conda=$(type -P conda || true)
for dlrun_conda in "$dlrun_conda" "${CONDA_EXE:-}" ~/{miniforge3,miniconda3,mambaforge,anaconda3}/bin/conda /opt/conda/bin/conda; do
  if [[ -x $dlrun_conda ]]; then break; fi
done
if [[ ! -x $dlrun_conda ]]; then
  echo "dlrun: $(uname -n) has no conda on the PATH, in \$CONDA_EXE or in a usual folder; name its module in environment.conda.module" >&2
  false
fi
dlrun_hook=$("$dlrun_conda" shell.bash hook)
eval "$dlrun_hook"
conda activate /home/user/exp-1/env       # environment.conda
export NVIDIA_VISIBLE_DEVICES=all         # container: GPUs
export PLAIN=4                            # environment.vars
export QUOTED='it'\''s $HOME `id` \ "x" # not a comment'  # environment.vars
export MULTI='one
two
'                                         # environment.vars
export EMPTY=''                           # environment.vars
# container: GPUs. The parts of NVIDIA's driver that the image asks for; else those that CUDA needs.
dlrun_image_files=$(mktemp -d)
unsquashfs -no-progress -dest "$dlrun_image_files/image" /home/user/exp-1/image.sqsh etc/environment >/dev/null 2>&1 || true
if ! grep -qs ^NVIDIA_DRIVER_CAPABILITIES= "$dlrun_image_files/image/etc/environment"; then
  export NVIDIA_DRIVER_CAPABILITIES=compute,utility
fi
rm -rf "$dlrun_image_files"
# environment.setup
nvidia-smi -L
echo "$SLURM_JOB_ID"

# environment.setup_node: once on every node. A job may have more CPUs on one node than on
# another; the step uses the smallest of these numbers on each node.
dlrun_least=0
for dlrun_cpus in ${SLURM_JOB_CPUS_PER_NODE//,/ }; do # 16(x3),8
  dlrun_cpus=${dlrun_cpus%%"("*}
  if ((dlrun_least == 0 || dlrun_cpus < dlrun_least)); then dlrun_least=$dlrun_cpus; fi
done
srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 --cpus-per-task="$dlrun_least" --export=ALL --mpi=none \
  --kill-on-bad-exit=1 bash -eo pipefail -c 'cp -r "$SCRATCH/it'\''s" /tmp/
'

dlrun_step=(
  srun
  --export=ALL                            # what this script exports reaches the ranks
  --kill-on-bad-exit=1                    # a rank that is lost ends the step
  --cpus-per-task=10                      # resources.cpus_per_task
  --mpi=pmi2                              # launch.mpi
  --cpu-bind=cores                        # launch.cpu_bind
  --gpu-bind=closest                      # launch.gpu_bind
  --unbuffered                            # launch.srun
  --container-image=/home/user/exp-1/image.sqsh  # container.image
  --container-name=keep                   # container.name
  --container-mounts=/home/user/exp-1/data:/data:ro+rprivate,/scratch/x:/scratch/x,/etc/x:/etc/x,/scratch/runs:/scratch/runs  # container.mounts, folders that dlrun mounts
  --container-workdir=/workspace          # container.workdir
  --container-mount-home                  # container.mount_home
  --container-remap-root                  # container.remap_root
  --container-entrypoint                  # container.entrypoint
  --container-writable                    # container.writable
  --container-env=PLAIN,QUOTED,MULTI,EMPTY,RANK,WORLD_SIZE,LOCAL_RANK,LOCAL_WORLD_SIZE,NODE_RANK,MASTER_ADDR,MASTER_PORT,DLRUN_RUN,DLRUN_JOB,DLRUN_ATTEMPT,DLRUN_LEAD,DLRUN_SECRET,WANDB_MODE  # these override the image's variables
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
  --secret WANDB_API_KEY                  # environment.secrets
  --secret HF_TOKEN                       # environment.secrets
)
dlrun_program=(
  # launch.command
  python
  -u
  'train it.py'
  ''
  'line
break'
  --name
  'a long argument that makes this command line exceed one line of text'
)
exec "$dlrun_agent" lead --runs /scratch/runs --name everything "${dlrun_lead[@]}" --forward-usr1 -- "${dlrun_step[@]}" "${dlrun_rank[@]}" -- "${dlrun_program[@]}"
