#!/bin/bash
#SBATCH --job-name=loop --nodes=1 --time=00:05:00
for epochs in 4 8 12; do
    srun python -u train.py --epochs "$epochs"
done
