#!/usr/bin/env python3
"""Makes optimizers.inc: what Adam and SGD must give, computed by the papers' formulas in Python's doubles.

An implementation independent of runtime/trainer/optim: written from the papers, step by step, with the
bias-corrected moments m_hat and v_hat that ours folds into two coefficients.

  python3 tests/reference/optimizers.py > tests/reference/optimizers.inc
"""

import math


def gradient(i, t):
    """A gradient that depends on nothing but element and step, with zeros and several magnitudes."""
    return 0.0 if (i + t) % 5 == 0 else math.sin(1.7 * i + 0.3 * t) * 10.0 ** (i % 4 - 2)


def adam(p, steps, lr, beta1, beta2, eps, decay):
    """Kingma & Ba 2015, Algorithm 1; weight decay as L2."""
    p = list(p)
    m = [0.0] * len(p)
    v = [0.0] * len(p)
    for t in range(1, steps + 1):
        for i in range(len(p)):
            g = gradient(i, t) + decay * p[i]
            m[i] = beta1 * m[i] + (1 - beta1) * g
            v[i] = beta2 * v[i] + (1 - beta2) * g**2
            m_hat = m[i] / (1 - beta1**t)
            v_hat = v[i] / (1 - beta2**t)
            p[i] -= lr * m_hat / (math.sqrt(v_hat) + eps)
    return p


def sgd(p, steps, lr, momentum, decay):
    """Sutskever et al. 2013 as frameworks write it: v = mu v + g, p = p - lr v."""
    p = list(p)
    v = [0.0] * len(p)
    for t in range(1, steps + 1):
        for i in range(len(p)):
            v[i] = momentum * v[i] + gradient(i, t) + decay * p[i]
            p[i] -= lr * v[i]
    return p


def main():
    first = [0.1 * (i - 3) for i in range(8)]
    cases = [
        ("adam", 0.0, 0.0, adam(first, 10, 0.01, 0.9, 0.999, 1e-8, 0.0)),
        ("adam", 0.0, 0.1, adam(first, 10, 0.01, 0.9, 0.999, 1e-8, 0.1)),
        ("sgd", 0.0, 0.0, sgd(first, 10, 0.01, 0.0, 0.0)),
        ("sgd", 0.9, 0.0, sgd(first, 10, 0.01, 0.9, 0.0)),
        ("sgd", 0.9, 0.1, sgd(first, 10, 0.01, 0.9, 0.1)),
    ]
    print("// Made by optimizers.py: parameters after 10 steps with learning rate 0.01.")
    print("// name, momentum, weight decay, parameters")
    for name, momentum, decay, p in cases:
        print(f'{{"{name}", {momentum}, {decay}, {{{", ".join(repr(x) for x in p)}}}}},')


main()
