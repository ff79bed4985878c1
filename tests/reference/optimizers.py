#!/usr/bin/env python3
"""Prints optimizers.inc: the results that each optimizer must give, from independent
implementations.

The results of SGD, Nesterov, RMSprop, Adam, AdamW and the clipping are from PyTorch (Debian's
python3-torch 1.13) in double. PyTorch has neither LARS nor LAMB nor NovoGrad nor Lion, so this
script implements them line by line from their papers, in Python's doubles.

The model has a weight of six numbers and a bias of two. It takes ten steps with learning rate 0.01.

  python3 tests/reference/optimizers.py > tests/reference/optimizers.inc
"""

import math

import torch

STEPS = 10
RATE = 0.01
WEIGHT = slice(0, 6)
BIAS = slice(6, 8)
INITIAL = [0.1 * (i - 3) for i in range(8)]


def gradient(i, t):
    """Returns a gradient that depends only on element and step, with zeros and several magnitudes.
    """
    return 0.0 if (i + t) % 5 == 0 else math.sin(1.7 * i + 0.3 * t) * 10.0 ** (i % 4 - 2)


def gradients(t, clip):
    """Returns all eight gradients, with a global norm of at most `clip` (0: no limit)."""
    tensors = [torch.nn.Parameter(torch.zeros(2, 3, dtype=torch.float64)), torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))]
    flat = [gradient(i, t) for i in range(8)]
    tensors[0].grad = torch.tensor(flat[WEIGHT], dtype=torch.float64).reshape(2, 3)
    tensors[1].grad = torch.tensor(flat[BIAS], dtype=torch.float64)
    if clip > 0:
        torch.nn.utils.clip_grad_norm_(tensors, clip)
    return [x for tensor in tensors for x in tensor.grad.flatten().tolist()]


def parameters_by_torch(make, clip):
    """Returns the parameters after all steps. make: returns an optimizer of PyTorch for a list of
    parameters."""
    p = torch.nn.Parameter(torch.tensor(INITIAL, dtype=torch.float64))
    optimizer = make([p])
    for t in range(1, STEPS + 1):
        p.grad = torch.tensor(gradients(t, clip), dtype=torch.float64)
        optimizer.step()
    return p.detach().tolist()


def norm(x):
    return math.sqrt(sum(value * value for value in x))


def lars(momentum, decay, trust, clip):
    """Follows You, Gitman & Ginsburg 2017, "Large Batch Training of Convolutional Networks",
    Algorithm 1. The bias has the global rate and no decay."""
    w = list(INITIAL)
    v = [0.0] * 8
    for t in range(1, STEPS + 1):
        g = gradients(t, clip)
        for part in (WEIGHT, BIAS):
            is_weight = part is WEIGHT
            beta = decay if is_weight else 0.0
            local = trust * norm(w[part]) / (norm(g[part]) + beta * norm(w[part])) if is_weight else 1.0
            for i in range(8)[part]:
                v[i] = momentum * v[i] + RATE * local * (g[i] + beta * w[i])
            for i in range(8)[part]:
                w[i] = w[i] - v[i]
    return w


def lamb(decay, clip, beta1=0.9, beta2=0.999, eps=1e-6):
    """Follows You et al. 2020, "Large Batch Optimization for Deep Learning", Algorithm 2 with
    phi(z) = z. The bias has the global rate and no decay."""
    x = list(INITIAL)
    m = [0.0] * 8
    v = [0.0] * 8
    for t in range(1, STEPS + 1):
        g = gradients(t, clip)
        for part in (WEIGHT, BIAS):
            is_weight = part is WEIGHT
            u = []
            for i in range(8)[part]:
                m[i] = beta1 * m[i] + (1 - beta1) * g[i]
                v[i] = beta2 * v[i] + (1 - beta2) * g[i] ** 2
                m_hat = m[i] / (1 - beta1**t)
                v_hat = v[i] / (1 - beta2**t)
                r = m_hat / (math.sqrt(v_hat) + eps)
                u.append(r + (decay if is_weight else 0.0) * x[i])
            ratio = norm(x[part]) / norm(u) if is_weight else 1.0
            for i, direction in zip(range(8)[part], u):
                x[i] = x[i] - RATE * ratio * direction
    return x


def novograd(decay, clip, beta1=0.95, beta2=0.98, eps=1e-8):
    """Follows Ginsburg et al. 2019, "Stochastic Gradient Methods with Layer-wise Adaptive Moments",
    Algorithm 1, but also adds eps in the first step, as NVIDIA's implementation does. The bias
    counts as a separate layer, and decays."""
    w = list(INITIAL)
    m = [0.0] * 8
    v = {}
    for t in range(1, STEPS + 1):
        g = gradients(t, clip)
        for name, part in (("weight", WEIGHT), ("bias", BIAS)):
            square = sum(value * value for value in g[part])
            v[name] = square if t == 1 else beta2 * v[name] + (1 - beta2) * square
            for i in range(8)[part]:
                m[i] = beta1 * m[i] + (g[i] / (math.sqrt(v[name]) + eps) + decay * w[i])
                w[i] = w[i] - RATE * m[i]
    return w


def lion(decay, clip, beta1=0.9, beta2=0.99):
    """Follows Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms", Algorithm 2. The
    bias decays, too."""
    w = list(INITIAL)
    m = [0.0] * 8
    for t in range(1, STEPS + 1):
        g = gradients(t, clip)
        for i in range(8):
            c = beta1 * m[i] + (1 - beta1) * g[i]
            sign = (c > 0) - (c < 0)
            w[i] = w[i] - RATE * (sign + decay * w[i])
            m[i] = beta2 * m[i] + (1 - beta2) * g[i]
    return w


def main():
    optim = torch.optim
    cases = []
    for momentum, decay, clip in ((0.0, 0.0, 0.0), (0.9, 0.0, 0.0), (0.9, 0.1, 0.0), (0.9, 0.1, 2.0)):
        make = lambda p: optim.SGD(p, lr=RATE, momentum=momentum, weight_decay=decay)
        cases.append(("sgd", momentum, decay, clip, parameters_by_torch(make, clip)))
    for decay, clip in ((0.0, 0.0), (0.1, 2.0)):
        make = lambda p: optim.SGD(p, lr=RATE, momentum=0.9, weight_decay=decay, nesterov=True)
        cases.append(("nesterov", 0.9, decay, clip, parameters_by_torch(make, clip)))
    for momentum, decay, clip in ((0.0, 0.0, 0.0), (0.9, 0.1, 0.0), (0.0, 0.1, 2.0)):
        make = lambda p: optim.RMSprop(p, lr=RATE, alpha=0.99, eps=1e-8, momentum=momentum, weight_decay=decay)
        cases.append(("rmsprop", momentum, decay, clip, parameters_by_torch(make, clip)))
    for name, kind in (("adam", optim.Adam), ("adamw", optim.AdamW)):
        for decay, clip in ((0.0, 0.0), (0.1, 0.0), (0.1, 2.0)):
            make = lambda p: kind(p, lr=RATE, betas=(0.9, 0.999), eps=1e-8, weight_decay=decay)
            cases.append((name, 0.0, decay, clip, parameters_by_torch(make, clip)))
    for decay, clip in ((0.0, 0.0), (0.1, 0.0), (0.1, 2.0)):
        cases.append(("lars", 0.9, decay, clip, lars(0.9, decay, 0.05, clip)))
    for decay, clip in ((0.0, 0.0), (0.1, 0.0), (0.1, 2.0)):
        cases.append(("lamb", 0.0, decay, clip, lamb(decay, clip)))
    for decay, clip in ((0.0, 0.0), (0.1, 0.0), (0.1, 2.0)):
        cases.append(("novograd", 0.0, decay, clip, novograd(decay, clip)))
    for decay, clip in ((0.0, 0.0), (0.1, 0.0), (0.1, 2.0)):
        cases.append(("lion", 0.0, decay, clip, lion(decay, clip)))
    print(f"// Made by optimizers.py: parameters after {STEPS} steps with learning rate {RATE}; lars has trust 0.05.")
    print("// name, momentum, weight decay, the gradients' largest global norm (0: no limit), parameters")
    for name, momentum, decay, clip, p in cases:
        print(f'{{"{name}", {momentum}, {decay}, {clip}, {{{", ".join(repr(x) for x in p)}}}}},')


main()
