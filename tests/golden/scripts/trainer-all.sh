#!/bin/bash
#SBATCH --job-name=trainer-all            # name
#SBATCH --nodes=1                         # resources.nodes
#SBATCH --ntasks-per-node=2               # resources.tasks_per_node
#SBATCH --gpus=2                          # resources.gpus
#SBATCH --cpus-per-gpu=4                  # resources.cpus_per_gpu
#SBATCH --mem-per-gpu=8G                  # resources.mem_per_gpu
#SBATCH --time=00:10:00                   # resources.time
#SBATCH --chdir=/home/user/exp-1          # the spec's folder
#SBATCH --output=/scratch/runs/trainer-all-%j.out  # resources.output
#SBATCH --signal=B:USR2@30                # resources.signal
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
trap 'exec "$dlrun_agent" lead --runs /scratch/runs --name trainer-all --never-started "$?" -- "$BASH_COMMAND"' EXIT

export NVIDIA_VISIBLE_DEVICES=all         # container: GPUs
export NVIDIA_DRIVER_CAPABILITIES=all     # container: GPUs

dlrun_step=(
  srun
  --export=ALL                            # what this script exports reaches the ranks
  --kill-on-bad-exit=1                    # a rank that is lost ends the step
  --cpus-per-gpu=4                        # resources.cpus_per_gpu
  '--container-image=registry.example.org:5000#team/trainer:1'  # container.image
  --container-mounts=/scratch/runs:/scratch/runs,/home/user/data-sets:/home/user/data-sets,/scratch/ckpt:/scratch/ckpt  # container.mounts, folders that dlrun mounts
  --no-container-mount-home               # container.mount_home
  --no-container-remap-root               # container.remap_root
  --no-container-entrypoint               # container.entrypoint
  --container-readonly                    # container.writable
  --container-env=DLRUN_RUN,DLRUN_JOB,DLRUN_ATTEMPT,DLRUN_LEAD,DLRUN_SECRET  # these override the image's variables
)
dlrun_rank=(
  "$dlrun_agent" rank
  --bundled                               # the program is dlrun's own
)
dlrun_program=(
  /scratch/runs/.agents/3f2a/dlrun-trainer  # launch.preset: trainer
  --dataset idx                           # train.data.dataset
  --data /home/user/data-sets             # train.data.path
  --train-samples 1000                    # train.data.train_samples
  --test-samples 100                      # train.data.test_samples
  --model mlp                             # train.model
  --hidden 512,256                        # train.hidden
  --loss softmax                          # train.loss
  --optimizer lars                        # train.optimizer.name
  --momentum 0.9                          # train.optimizer.momentum
  --weight-decay 0.0001                   # train.optimizer.weight_decay
  --beta1 0.8                             # train.optimizer.beta1
  --beta2 0.99                            # train.optimizer.beta2
  --epsilon 1e-06                         # train.optimizer.epsilon
  --alpha 0.9                             # train.optimizer.alpha
  --trust 0.01                            # train.optimizer.trust
  --optimizer-state whole                 # train.optimizer.state
  --compression bf16                      # train.compression
  --local-steps 8                         # train.local_steps
  --local-after 0.5                       # train.local_after
  --clip-norm 1.5                         # train.clip_norm
  --lr 0.1                                # train.lr
  --lr-scaling linear                     # train.lr_scaling
  --lr-decay step                         # train.lr_decay
  --lr-steps 1,2                          # train.lr_steps
  --lr-step-factor 0.2                    # train.lr_step_factor
  --lr-power 3                            # train.lr_power
  --warmup-epochs 1                       # train.warmup_epochs
  --batch 64                              # train.batch
  --micro-batch 16                        # train.micro_batch
  --epochs 2                              # train.epochs
  --augment 'flip,shift 2'                # train.augment
  --shard epoch                           # train.shard
  --seed 7                                # train.seed
  --backend auto                          # train.backend
  --device cpu                            # train.device
  --precision float32                     # train.precision
  --cuda-graphs false                     # train.cuda_graphs
  --trace-steps 20                        # train.trace_steps
  --threads 2                             # train.threads
  --checkpoint-dir /scratch/ckpt          # checkpoint.dir
  --checkpoint-every 500                  # checkpoint.every
  --checkpoint-keep 2                     # checkpoint.keep
  --resume                                # checkpoint.resume
)
exec "$dlrun_agent" lead --runs /scratch/runs --name trainer-all -- "${dlrun_step[@]}" "${dlrun_rank[@]}" -- "${dlrun_program[@]}"
