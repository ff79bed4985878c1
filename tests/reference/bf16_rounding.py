#!/usr/bin/env python3
"""Prints how far mlp and cnn in bfloat16 are from float32 after one forward and backward pass.

PyTorch (Debian's python3-torch 1.13) computes both on the CPU. As in dlrun-trainer --precision
bf16, the inputs of products and convolutions are rounded to bfloat16, forward and backward, and so
are the results of convolutions; sums are float32. Each printed figure is |a - b| / |b| over all
numbers of an array, in the Euclidean norm, for the worst of twelve seeds.
tests/ranks/trainer_cuda_layers_test.cc allows the GPU twice these figures.

  python3 tests/reference/bf16_rounding.py
"""

import torch
from torch.nn import functional

BATCH = 12
SEEDS = 12
SHAPES = {"mlp": [(512, 784), (512,), (10, 512), (10,)],
          "cnn": [(32, 1, 3, 3), (32,), (64, 32, 3, 3), (64,), (128, 9216), (128,), (10, 128),
                  (10,)]}


class Rounded(torch.autograd.Function):
    """Rounds a number to bfloat16 on its way forward; its gradient passes unchanged."""

    @staticmethod
    def forward(ctx, x):
        return x.to(torch.bfloat16).float()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class RoundedGradient(torch.autograd.Function):
    """Rounds a gradient to bfloat16; the number passes unchanged."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient.to(torch.bfloat16).float()


def parameters(model):
    """Returns random initial values like dlrun-trainer's: uniform weights of variance 2 / inputs,
    and biases of 0."""
    made = []
    for shape in SHAPES[model]:
        inputs = torch.Size(shape[1:]).numel()
        values = torch.zeros(shape)
        if len(shape) > 1:
            values.uniform_(-(6 / inputs) ** 0.5, (6 / inputs) ** 0.5)
        made.append(values.requires_grad_())
    return made


def outputs(model, p, images, masks, is_rounded):
    """Returns the network's outputs. p: parameters(model). masks: the factors of cnn's dropouts.
    is_rounded: computes as --precision bf16 does, otherwise in float32."""
    rounded = Rounded.apply if is_rounded else lambda x: x
    rounded_gradient = RoundedGradient.apply if is_rounded else lambda x: x

    def dense(x, weight, bias):
        return rounded_gradient(functional.linear(rounded(x), rounded(weight))) + bias

    def convolution(x, weight, bias):
        result = rounded_gradient(functional.conv2d(rounded(x), rounded(weight)))
        return rounded(result) + bias.view(1, -1, 1, 1)

    if model == "mlp":
        return dense(functional.relu(dense(images.flatten(1), p[0], p[1])), p[2], p[3])
    x = functional.relu(convolution(images, p[0], p[1]))
    x = functional.max_pool2d(functional.relu(convolution(x, p[2], p[3])), 2) * masks[0]
    x = functional.relu(dense(x.flatten(1), p[4], p[5])) * masks[1]
    return dense(x, p[6], p[7])


def first_step(model, seed, is_rounded):
    """Returns the outputs and the gradients of the first step, as flat arrays by name."""
    torch.manual_seed(seed)
    p = parameters(model)
    images = torch.rand(BATCH, 1, 28, 28)
    labels = torch.randint(0, 10, (BATCH,))
    masks = [(torch.rand(BATCH, 64, 12, 12) >= 0.25) / 0.75, (torch.rand(BATCH, 128) >= 0.5) / 0.5]
    result = outputs(model, p, images, masks, is_rounded)
    gradients = torch.autograd.grad(functional.cross_entropy(result, labels), p)
    return {"output": result.detach().flatten(),
            "gradients": torch.cat([gradient.flatten() for gradient in gradients])}


for name in SHAPES:
    worst = {}
    for seed in range(SEEDS):
        exact, rounded = (first_step(name, seed, is_rounded) for is_rounded in (False, True))
        for array, values in exact.items():
            error = float((rounded[array] - values).norm() / values.norm())
            worst[array] = max(worst.get(array, 0), error)
    print(name, {array: round(error, 4) for array, error in worst.items()})
