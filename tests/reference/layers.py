#!/usr/bin/env python3
"""Prints layers.inc: the results that batch normalisation and the sigmoid loss must give, from an
independent implementation.

All results are from PyTorch (Debian's python3-torch 1.13) in double: BatchNorm2d on three
consecutive batches in training and then in evaluation, and BCEWithLogitsLoss from small to huge
logits. The arrays are images x rows x columns x channels, as in dlrun.

  python3 tests/reference/layers.py > tests/reference/layers.inc
"""

import math

import torch

N, H, W, C = 5, 3, 2, 4  # images, rows, columns, channels
BATCHES = 3


def value(i, seed):
    """Returns a number that depends only on index and seed; channels differ in mean and spread."""
    channel = i % C
    return math.sin(1.3 * i + seed) * 10.0 ** (channel - 2) + channel - 1.5


def nchw_tensor(make):
    """Returns PyTorch's images x channels x rows x columns. make: gives the number at an index of
    dlrun's array."""
    flat = torch.tensor([make(i) for i in range(N * H * W * C)], dtype=torch.float64)
    return flat.reshape(N, H, W, C).permute(0, 3, 1, 2).contiguous()


def print_array(name, tensor):
    """Prints a C++ array. A tensor of four dimensions is printed in dlrun's order."""
    if tensor.dim() == 4:
        tensor = tensor.permute(0, 2, 3, 1)
    print(f"const std::vector<double> k{name}{{{', '.join(repr(x) for x in tensor.flatten().tolist())}}};")


def main():
    layer = torch.nn.BatchNorm2d(C).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([1.5, -0.5, 2.0, 0.25]))
        layer.bias.copy_(torch.tensor([0.1, 0.2, -0.3, 0.0]))
    for batch in range(BATCHES):
        x = nchw_tensor(lambda i: value(i, batch)).requires_grad_()
        layer.zero_grad()
        y = layer(x)
        y.backward(nchw_tensor(lambda i: math.cos(0.7 * i)))
    print(f"// Made by layers.py: BatchNorm2d's output and gradients for the last of {BATCHES} batches of {N} x {H} x {W} x {C}, and")
    print("// then its running statistics and its output for the same batch in evaluation.")
    print_array("Y", y.detach())
    print_array("InputGradient", x.grad)
    print_array("WeightGradient", layer.weight.grad)
    print_array("BiasGradient", layer.bias.grad)
    print_array("RunningMean", layer.running_mean)
    print_array("RunningVariance", layer.running_var)
    layer.eval()
    print_array("Evaluated", layer(x).detach())
    logits = torch.tensor([[0.0, 1.5, -2.25, 30.0], [-40.0, 800.0, -800.0, 1e-9], [3.0, -0.125, 50.0, -50.0]],
                          dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([[1, 0, 1, 0], [0, 1, 1, 0], [1, 1, 0, 0]], dtype=torch.float64)
    loss = torch.nn.BCEWithLogitsLoss()(logits, labels)
    loss.backward()
    print("// BCEWithLogitsLoss of 3 samples and 4 classes: its mean, and its gradient.")
    print_array("Logits", logits.detach())
    print_array("Labels", labels)
    print_array("SigmoidLoss", loss.detach())
    print_array("SigmoidGradient", logits.grad)


main()
