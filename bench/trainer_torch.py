#!/usr/bin/python3
"""Runs one rank of the peer of bench/trainer: PyTorch trains the same network on the same files.

usage: bench/trainer_torch.py --data DIR --model mlp|cnn --batch N --threads T --epochs E
                              --device cpu|cuda --precision float32|bf16

Prints samples per second over all epochs except the first, which warms up. RANK, WORLD_SIZE,
MASTER_ADDR and MASTER_PORT describe the ranks; more than one rank trains with
DistributedDataParallel over Gloo. The program is tuned as far as PyTorch's users can: it flushes
denormals, holds the data as bytes in memory without a loader, sets gradients to None and does not
read the loss back.
"""

import argparse
import contextlib
import os
import time

import numpy
import torch
from torch import nn


def idx(path, offset):
    return torch.from_numpy(numpy.fromfile(path, dtype=numpy.uint8)[offset:].copy())


def network(name):
    if name == "mlp":
        return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 10))
    return nn.Sequential(nn.Unflatten(1, (1, 28)), nn.Conv2d(1, 32, 3), nn.ReLU(),
                         nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Dropout(0.25), nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(),
                         nn.Dropout(0.5), nn.Linear(128, 10))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", choices=("float32", "bf16"), default="float32")
    args = parser.parse_args()
    if args.epochs < 2:
        parser.error("--epochs: expected at least 2, because the first is not measured")

    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    torch.backends.cudnn.allow_tf32 = False  # Both sides compute in float32.
    torch.manual_seed(1)
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    images = idx(f"{args.data}/train-images-idx3-ubyte", 16).reshape(-1, 784).to(args.device)
    labels = idx(f"{args.data}/train-labels-idx1-ubyte", 8).long().to(args.device)
    model = network(args.model).to(args.device)
    if args.model == "cnn":
        images = images.reshape(-1, 28, 28)
    if size > 1:
        torch.distributed.init_process_group("gloo", rank=rank, world_size=size)
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss_of = nn.CrossEntropyLoss()

    precision = (torch.autocast(args.device, dtype=torch.bfloat16) if args.precision == "bf16"
                 else contextlib.nullcontext())

    seconds = 0.0
    samples = 0
    for epoch in range(args.epochs):
        order = torch.randperm(
            len(labels),
            generator=torch.Generator().manual_seed(epoch))[rank::size].to(args.device)
        start = time.perf_counter()
        for batch in order.split(args.batch):
            x = images[batch].float() / 255
            with precision:
                loss = loss_of(model(x), labels[batch])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        if args.device == "cuda":
            torch.cuda.synchronize()
        if epoch > 0:
            seconds += time.perf_counter() - start
            samples += len(labels)
    if rank == 0:
        print(f"{samples / seconds:.1f}")


main()
