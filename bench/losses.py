"""Losses whose gradients the benchmark takes, as a user of NumPy would write them.

`bench.gradients` runs the same source with other libraries in NumPy's place.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np


def classifier(w1, b1, w2, b2, x, y):
    """A network with one hidden layer and the cross entropy of its scores; ``y`` is one-hot."""
    hidden = np.tanh(x @ w1 + b1)
    scores = hidden @ w2 + b2
    shifted = scores - np.log(np.sum(np.exp(scores), axis=1, keepdims=True))
    return -np.mean(np.sum(y * shifted, axis=1))


def pointwise(w, b, x, y):
    """One value for each element, of which all is fused."""
    p = 1 / (1 + np.exp(-(w * x + b)))
    return np.mean(np.sqrt((p - y) ** 2 + 1e-3) * np.exp(-y * y))


def recurrence(w, u, h, x):
    """A recurrent network over the rows of ``x``."""
    for t in range(x.shape[0]):
        h = np.tanh(w @ h + u @ x[t])
    return np.sum(h * h)
