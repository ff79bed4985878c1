#!/bin/bash
#SBATCH --job-name=hello --nodes=2 --ntasks-per-node=2 --time=00:05:00
mkdir -p out
srun python3 train.py
