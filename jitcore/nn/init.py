"""Initial values of parameters, written into arrays.

Every function takes an array (or a ``Parameter``), writes into it, and gives it back.  Random
numbers come from ``generator``, or from the one that ``manual_seed`` starts anew.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
from scipy import special

from jitcore.nn.arrays import Array
from jitcore.nn.generator import generator as default_generator
from jitcore.nn.generator import manual_seed
from jitcore.nn.parameter import Parameter

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "manual_seed",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

Tensor = Array | Parameter
Generator = np.random.Generator | None


def _array(tensor: Tensor) -> Array:
    return tensor.data if isinstance(tensor, Parameter) else tensor


def _random(generator: Generator) -> np.random.Generator:
    return default_generator() if generator is None else generator


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps the variance through a nonlinearity.

    Parameters
    ----------
    nonlinearity : str
        ``"linear"``, ``"conv2d"`` and so on, ``"sigmoid"``, ``"tanh"``, ``"relu"``,
        ``"leaky_relu"`` or ``"selu"``.
    param : float, optional
        The slope of ``"leaky_relu"``; 0.01 by default.

    Raises
    ------
    ValueError
        There is no such nonlinearity.
    """
    convolutions = [f"conv{t}{rank}d" for t in ("", "_transpose") for rank in (1, 2, 3)]
    if nonlinearity in ("linear", "sigmoid", *convolutions):
        return 1.0
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ValueError(f"there is no nonlinearity {nonlinearity!r}")


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator = None) -> Array:
    """Fill with numbers between ``a`` and ``b``, all equally likely."""
    array = _array(tensor)
    array[...] = _random(generator).uniform(a, b, array.shape)
    return array


def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator = None
) -> Array:
    """Fill with normally distributed numbers."""
    array = _array(tensor)
    array[...] = _random(generator).normal(mean, std, array.shape)
    return array


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator = None,
) -> Array:
    """Fill with normally distributed numbers, of which only those from ``a`` to ``b`` count."""
    array = _array(tensor)
    low, high = special.ndtr((a - mean) / std), special.ndtr((b - mean) / std)
    quantiles = _random(generator).uniform(low, high, array.shape)
    array[...] = np.clip(special.ndtri(quantiles) * std + mean, a, b)
    return array


def constant_(tensor: Tensor, val: float) -> Array:
    """Fill with one number."""
    array = _array(tensor)
    array[...] = val
    return array


def ones_(tensor: Tensor) -> Array:
    """Fill with ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Array:
    """Fill with zeros."""
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Array:
    """Fill a matrix with the identity."""
    array = _array(tensor)
    if array.ndim != 2:
        raise ValueError(f"eye_: expected a matrix, found shape {array.shape}")
    array[...] = np.eye(*array.shape)
    return array


def dirac_(tensor: Tensor, groups: int = 1) -> Array:
    """Fill the weight of a convolution so that channels pass unchanged, as far as there are any.

    Parameters
    ----------
    tensor : (out, in / groups, ...) array
        With one to three spatial axes.
    groups : int
        Divides the output channels.
    """
    array = _array(tensor)
    if array.ndim not in (3, 4, 5):
        raise ValueError(f"dirac_: expected an array of 3, 4 or 5 axes, found shape {array.shape}")
    if array.shape[0] % groups:
        raise ValueError(f"dirac_: {groups} groups do not divide {array.shape[0]} output channels")
    array[...] = 0
    outputs = array.shape[0] // groups
    centre = tuple(extent // 2 for extent in array.shape[2:])
    for group in range(groups):
        for channel in range(min(outputs, array.shape[1])):
            array[(group * outputs + channel, channel, *centre)] = 1
    return array


def _fans(array: Array, what: str) -> tuple[int, int]:
    """How many numbers go into each output, and how many come from each input."""
    if array.ndim < 2:
        raise ValueError(f"{what}: expected an array of 2 or more axes, found shape {array.shape}")
    taps = math.prod(array.shape[2:])
    return array.shape[1] * taps, array.shape[0] * taps


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator = None) -> Array:
    """Fill uniformly, so that the variance stays the same forward and backward on average.

    Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks"
    (2010), equation 16.
    """
    fan_in, fan_out = _fans(_array(tensor), "xavier_uniform_")
    bound = gain * math.sqrt(6.0 / (fan_in + fan_out))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator = None) -> Array:
    """``xavier_uniform_`` with a normal distribution of the same variance."""
    fan_in, fan_out = _fans(_array(tensor), "xavier_normal_")
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / (fan_in + fan_out)), generator)


def _kaiming_std(array: Array, a: float, mode: str, nonlinearity: str, what: str) -> float:
    fan_in, fan_out = _fans(array, what)
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"{what}: mode must be 'fan_in' or 'fan_out', found {mode!r}")
    gain = calculate_gain(nonlinearity, a)
    return gain / math.sqrt(fan_in if mode == "fan_in" else fan_out)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator = None,
) -> Array:
    """Fill uniformly, so that the variance stays the same through rectifiers.

    He et al., "Delving Deep into Rectifiers" (2015).

    Parameters
    ----------
    tensor : (out, in, ...) array
    a : float
        The slope of ``"leaky_relu"`` below zero.
    mode : str
        ``"fan_in"`` keeps the variance forward, ``"fan_out"`` backward.
    nonlinearity : str
        See ``calculate_gain``.
    generator : numpy.random.Generator, optional
    """
    array = _array(tensor)
    if array.size == 0:
        warnings.warn("an array without elements has no initial values", stacklevel=2)
        return array
    bound = math.sqrt(3.0) * _kaiming_std(array, a, mode, nonlinearity, "kaiming_uniform_")
    return uniform_(array, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator = None,
) -> Array:
    """``kaiming_uniform_`` with a normal distribution of the same variance."""
    array = _array(tensor)
    if array.size == 0:
        warnings.warn("an array without elements has no initial values", stacklevel=2)
        return array
    std = _kaiming_std(array, a, mode, nonlinearity, "kaiming_normal_")
    return normal_(array, 0.0, std, generator)


def orthogonal_(tensor: Tensor, gain: float = 1.0, generator: Generator = None) -> Array:
    """Fill with a random matrix of orthonormal rows or columns.

    Saxe et al., "Exact solutions to the nonlinear dynamics of learning in deep linear neural
    networks" (2013).  Axes after the first count as one.
    """
    array = _array(tensor)
    if array.ndim < 2:
        raise ValueError(
            f"orthogonal_: expected an array of 2 or more axes, found shape {array.shape}"
        )
    if array.size == 0:
        return array
    rows, columns = array.shape[0], array.size // array.shape[0]
    normal = _random(generator).normal(size=(max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(normal)
    # With the signs of the diagonal all orthogonal matrices are equally likely.
    q = q * np.sign(np.diag(r))
    array[...] = (q if rows >= columns else q.T).reshape(array.shape) * gain
    return array


def sparse_(
    tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator = None
) -> Array:
    """Fill a matrix with normally distributed numbers, but a part of each column with zeros."""
    array = _array(tensor)
    if array.ndim != 2:
        raise ValueError(f"sparse_: expected a matrix, found shape {array.shape}")
    normal_(array, 0.0, std, generator)
    zeros = math.ceil(sparsity * array.shape[0])
    random = _random(generator)
    for column in range(array.shape[1]):
        array[random.permutation(array.shape[0])[:zeros], column] = 0
    return array
