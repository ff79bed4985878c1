#!/usr/bin/python3
"""Runs one PyTorch rank for bench/trainer: trains dlrun-trainer's network on the same files.

usage: bench/trainer_torch.py [--data DIR] --model mlp|cnn|resnet50 --batch N [--threads T]
                              [--epochs E] [--device cpu|cuda] [--precision float32|bf16]
                              [--samples N]

DIR has the training files of MNIST (IDX); all models except resnet50 need --data. --samples is for
resnet50. Prints the samples per second of all ranks, over all epochs except the first, which warms
up. RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT describe the ranks; several ranks train with
DistributedDataParallel over Gloo. The program is tuned as far as users of PyTorch can tune it: it
flushes denormals, uses no data loader but holds the data as bytes in memory, sets gradients to None
and does not read the loss back. resnet50 gets random patches in the shape of BigEarthNet instead of
files, because speed does not depend on their content.
"""

import argparse
import contextlib
import os
import time

import numpy
import torch
from torch import nn


PATCH, BANDS, LABELS = 120, 12, 19


def random_patches(samples):
    """Returns random images and labels in the shape of BigEarthNet."""
    random = torch.Generator().manual_seed(1)
    return (torch.randint(0, 256, (samples, BANDS, PATCH, PATCH), dtype=torch.uint8,
                          generator=random),
            torch.randint(0, 2, (samples, LABELS), generator=random).float())


def read_idx(path, offset):
    """Returns the bytes of an IDX file after its header of `offset` bytes."""
    return torch.from_numpy(numpy.fromfile(path, dtype=numpy.uint8)[offset:].copy())


class Bottleneck(nn.Module):
    """Equals torchvision's Bottleneck, which has the stride in the 3x3 convolution."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        self.branch = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width))
        self.shortcut = nn.Identity()
        if stride > 1 or inputs != 4 * width:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, 4 * width, 1, stride, bias=False),
                                          nn.BatchNorm2d(4 * width))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        out = self.branch(x)
        out += self.shortcut(x)
        return self.relu(out)


def resnet50(bands, labels):
    layers = [nn.Conv2d(bands, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
              nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            layers.append(Bottleneck(inputs, width, stride if block == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, labels))


def network(name):
    if name == "resnet50":
        return resnet50(BANDS, LABELS)
    if name == "mlp":
        return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 10))
    return nn.Sequential(nn.Unflatten(1, (1, 28)), nn.Conv2d(1, 32, 3), nn.ReLU(),
                         nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Dropout(0.25), nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(),
                         nn.Dropout(0.5), nn.Linear(128, 10))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data")
    parser.add_argument("--samples", type=int, default=64, help="number of patches for resnet50")
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
    torch.backends.cudnn.allow_tf32 = False  # dlrun-trainer uses no TF32 either.
    torch.manual_seed(1)
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if args.model == "resnet50":
        images, labels = (array.to(args.device) for array in random_patches(args.samples))
        # NHWC is the faster layout for this network on CPUs and GPUs.
        images = images.contiguous(memory_format=torch.channels_last)
    else:
        images = read_idx(f"{args.data}/train-images-idx3-ubyte", 16)
        images = images.reshape(-1, 784).to(args.device)
        labels = read_idx(f"{args.data}/train-labels-idx1-ubyte", 8).long().to(args.device)
    model = network(args.model).to(args.device)
    if args.model == "resnet50":
        model = model.to(memory_format=torch.channels_last)
    if args.model == "cnn":
        images = images.reshape(-1, 28, 28)
    if size > 1:
        torch.distributed.init_process_group("gloo", rank=rank, world_size=size)
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss_of = nn.BCEWithLogitsLoss() if args.model == "resnet50" else nn.CrossEntropyLoss()

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
