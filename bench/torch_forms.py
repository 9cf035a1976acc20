"""The programs for PyTorch: its own layers where it has them, else the same source.

`bench.peers` runs each eagerly, through ``torch.jit`` and through ``torch.compile``.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import torch
from torch.nn import functional

from bench.programs import MANDELBROT_STEPS
from bench.translated import programs_with

PROGRAMS = programs_with(torch, torch.special)

# Products of float32 are float32 by default, but those of convolutions are not.
torch.backends.cudnn.allow_tf32 = False


def gelu_tanh(x):
    return functional.gelu(x, approximate="tanh")


def gelu_erf(x):
    return functional.gelu(x)


def silu(x):
    return functional.silu(x)


def convolution_relu(x, weight, bias):
    return functional.relu(functional.conv2d(x, weight, bias, padding=1))


def linear_relu(x, weight, bias):
    return functional.relu(functional.linear(x, weight, bias))


def lstm_cell(gates, cell):
    i, f, g, o = gates[0], gates[1], gates[2], gates[3]
    cell = cell * torch.sigmoid(f) + torch.tanh(g) * torch.sigmoid(i)
    return torch.tanh(cell) * torch.sigmoid(o), cell


def softmax(x):
    return functional.softmax(x, dim=1)


def layer_norm(x, weight, bias):
    return functional.layer_norm(x, weight.shape, weight, bias)


def rms_norm(x, weight):
    return functional.rms_norm(x, weight.shape, weight, 1e-5)


def logsumexp(x):
    return torch.logsumexp(x, dim=1)


def normalized_columns(x):
    variance, mean = torch.var_mean(x, dim=0, correction=0)
    return (x - mean) / torch.sqrt(variance)


def mandelbrot(re, im):
    x, y = re, im
    count = torch.zeros_like(re, dtype=torch.int32)
    for _ in range(MANDELBROT_STEPS):
        x_squared, y_squared = x * x, y * y
        inside = x_squared + y_squared <= 4.0
        count = count + inside
        y = torch.where(inside, 2.0 * x * y + im, y)
        x = torch.where(inside, x_squared - y_squared + re, x)
    return count


def masked_statistics(x):
    chosen = x[x > 0.5]
    return chosen.mean(), chosen.std(correction=0), chosen.max()
