"""The functions whose graphs and kernels are kept in ``tests/golden``.

A golden file names lines of this file: add new functions at its end.
"""

# The functions are plain NumPy, as users write them.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np


def chain(x, y):
    z = (x + y) * x - 1.5
    return np.sqrt(np.abs(z)) / y


def broadcast(table, row, column):
    return (table - row) * column


def choice(x, limit):
    return np.where(x > limit, limit, np.maximum(x, -limit))


def mixed_dtypes(x, count):
    return (x * 2 + count).astype(np.float32)


def strided(x):
    return x[1:, ::2] - x[:-1, ::2]


def store_in_place(x, y):
    x[1:-1] += 0.5 * y[1:-1]
    x[0] = y[-1]


def reduction(x, y):
    difference = x - y
    return np.sum(difference * difference, axis=1)


def softmax(x):
    shifted = np.exp(x - x.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def layer_norm(x, weight, bias):
    mean = x.mean(axis=-1, keepdims=True)
    variance = x.var(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * weight + bias


def heat(u, steps):
    for _ in range(steps):
        u[1:-1] = u[1:-1] + 0.25 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return u


def complex_power(z):
    return (z * z.conj()).real + z.imag


def floor_division(x, divisor):
    return x // divisor + x % divisor


def newton(number):
    guess = 1.0
    while abs(guess * guess - number) > 1e-9:
        guess = (guess + number / guess) / 2
    return guess


def two_results(x):
    doubled = x + x
    return doubled, doubled > 1
