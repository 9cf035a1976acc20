"""Functions along an axis: softmax and its relatives, norms and distances."""

from __future__ import annotations

import numpy as np

from jitcore.nn.arrays import Array, DTypeLike
from jitcore.nn.functional.activation import sigmoid
from jitcore.nn.generator import generator

__all__ = [
    "cosine_similarity",
    "glu",
    "gumbel_softmax",
    "log_softmax",
    "normalize",
    "pairwise_distance",
    "pdist",
    "softmax",
    "softmin",
]


def softmax(input: Array, dim: int | None = None, dtype: DTypeLike | None = None) -> Array:
    """``exp(input)`` divided by its sum along an axis.

    Parameters
    ----------
    input : array
    dim : int, optional
        The axis; without it axis 0 of inputs with 0, 1 or 3 axes, and axis 1 of others.
    dtype : dtype, optional
        What the input is converted to before.

    Returns
    -------
    array of the input's shape
    """
    values = input if dtype is None else input.astype(dtype)
    axis = _default_axis(input) if dim is None else dim
    powers = np.exp(values - _largest(values, axis))
    return powers / np.sum(powers, axis=axis, keepdims=True)


def log_softmax(input: Array, dim: int | None = None, dtype: DTypeLike | None = None) -> Array:
    """``log(softmax(input))``; see ``softmax``."""
    values = input if dtype is None else input.astype(dtype)
    axis = _default_axis(input) if dim is None else dim
    shifted = values - _largest(values, axis)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


def softmin(input: Array, dim: int | None = None, dtype: DTypeLike | None = None) -> Array:
    """``softmax(-input)``."""
    return softmax(-input, dim, dtype)


def _largest(values: Array, axis: int) -> Array:
    """The maximum along an axis; an empty axis of floats has one that nothing reads."""
    if values.dtype.kind != "f":
        return np.max(values, axis=axis, keepdims=True)
    return np.max(values, axis=axis, keepdims=True, initial=-np.inf)


def _default_axis(input: Array) -> int:
    return 0 if input.ndim in (0, 1, 3) else 1


def gumbel_softmax(logits: Array, tau: float = 1.0, hard: bool = False, *, dim: int = -1) -> Array:
    """A random sample of categories, or a smooth approximation of one.

    Jang et al., "Categorical Reparameterization with Gumbel-Softmax" (2017).

    Parameters
    ----------
    logits : array
        Unnormalized log probabilities.
    tau : float
        The temperature.
    hard : bool
        Give a one-hot array.
    dim : int
        The axis of the categories.
    """
    noise = generator().gumbel(size=logits.shape).astype(logits.dtype)
    soft = softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    chosen = np.expand_dims(np.argmax(soft, axis=dim), dim)
    result = np.zeros_like(soft)
    np.put_along_axis(result, chosen, 1, axis=dim)
    return result


def glu(input: Array, dim: int = -1) -> Array:
    """The first half along an axis, times ``sigmoid`` of the second half."""
    if input.shape[dim] % 2:
        raise ValueError(f"glu: axis {dim} must have even extent, found shape {input.shape}")
    first, gate = np.split(input, 2, axis=dim)
    return first * sigmoid(gate)


def normalize(input: Array, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Array:
    """``input`` divided by its ``p``-norm along an axis, or by ``eps`` where that is larger."""
    return input / np.maximum(_norm(input, p, dim, keepdims=True), eps)


def pairwise_distance(
    x1: Array, x2: Array, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Array:
    """The ``p``-norm of ``x1 - x2 + eps`` along the last axis."""
    return _norm(x1 - x2 + eps, p, -1, keepdims=keepdim)


def pdist(input: Array, p: float = 2.0) -> Array:
    """The ``p``-distances of all pairs of rows, in the order of ``scipy``'s ``pdist``.

    Parameters
    ----------
    input : (N, M) array
    p : float

    Returns
    -------
    (N * (N - 1) / 2,) array
    """
    if input.ndim != 2:
        raise ValueError(f"pdist: expected input of shape (N, M), found {input.shape}")
    first, second = np.triu_indices(len(input), 1)
    return _norm(input[first] - input[second], p, -1, keepdims=False)


def _norm(input: Array, p: float, axis: int, *, keepdims: bool) -> Array:
    if p == 2.0:
        return np.sqrt(np.sum(input * input, axis=axis, keepdims=keepdims))
    if p == float("inf"):
        return np.max(np.abs(input), axis=axis, keepdims=keepdims)
    if p == 1.0:
        return np.sum(np.abs(input), axis=axis, keepdims=keepdims)
    if p == 0.0:
        count = np.count_nonzero(input, axis=axis, keepdims=keepdims)
        return np.asarray(count).astype(input.dtype)
    powers = np.sum(np.abs(input) ** p, axis=axis, keepdims=keepdims)
    return powers ** (1.0 / p)


def cosine_similarity(x1: Array, x2: Array, dim: int = 1, eps: float = 1e-8) -> Array:
    """The cosine of the angle between ``x1`` and ``x2`` along an axis.

    Each norm counts as at least ``eps``.
    """
    first, second = np.broadcast_arrays(x1, x2)
    lengths1 = np.maximum(_norm(first, 2.0, dim, keepdims=True), eps)
    lengths2 = np.maximum(_norm(second, 2.0, dim, keepdims=True), eps)
    product = (first / lengths1) * (second / lengths2)
    return np.sum(product, axis=dim)
