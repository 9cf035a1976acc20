"""Activations that work element by element; ``softmax.py`` has those along an axis."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from jitcore.nn.arrays import Array
from jitcore.nn.functional.checks import check_dtype, written
from jitcore.nn.generator import generator

__all__ = [
    "celu",
    "elu",
    "gelu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "logsigmoid",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "rrelu",
    "selu",
    "sigmoid",
    "silu",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
]

# Klambauer et al., "Self-Normalizing Neural Networks" (2017), equation 14.
_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946


def threshold(input: Array, threshold: float, value: float, inplace: bool = False) -> Array:
    """``input`` where it is above the threshold, ``value`` elsewhere; NaN stays."""
    return written(np.where(input <= threshold, _as(value, input), input), input, inplace)


def relu(input: Array, inplace: bool = False) -> Array:
    """``max(input, 0)``."""
    return written(np.maximum(input, 0), input, inplace)


def relu6(input: Array, inplace: bool = False) -> Array:
    """``min(max(input, 0), 6)``."""
    return hardtanh(input, 0.0, 6.0, inplace)


def hardtanh(
    input: Array, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Array:
    """``input`` limited to ``min_val`` and ``max_val``."""
    return written(np.clip(input, _as(min_val, input), _as(max_val, input)), input, inplace)


def leaky_relu(input: Array, negative_slope: float = 0.01, inplace: bool = False) -> Array:
    """``input`` where it is positive, ``negative_slope * input`` elsewhere."""
    return written(np.where(input > 0, input, input * negative_slope), input, inplace)


def prelu(input: Array, weight: Array) -> Array:
    """``leaky_relu`` with a slope for each channel (axis 1), or one for all."""
    check_dtype("prelu", input, weight)
    if weight.size == 1:
        slope = weight.reshape((1,) * input.ndim)
    else:
        channels = input.shape[1] if input.ndim > 1 else 1
        if weight.size != channels:
            raise ValueError(
                f"prelu: expected 1 or {channels} slopes for input of shape {input.shape}, found "
                f"{weight.size}"
            )
        slope = weight.reshape(-1, *(1,) * (input.ndim - 2))
    return np.where(input > 0, input, input * slope)


def rrelu(
    input: Array,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Array:
    """``leaky_relu`` with random slopes in training, and their mean otherwise."""
    if lower > upper:
        raise ValueError(f"rrelu: lower must not be above upper, found {lower} and {upper}")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    slopes = generator().uniform(lower, upper, input.shape).astype(input.dtype)
    return written(np.where(input >= 0, input, input * slopes), input, inplace)


def elu(input: Array, alpha: float = 1.0, inplace: bool = False) -> Array:
    """``input`` where it is positive, ``alpha * (exp(input) - 1)`` elsewhere."""
    return written(_exponential(input, alpha, 1.0, 1.0), input, inplace)


def celu(input: Array, alpha: float = 1.0, inplace: bool = False) -> Array:
    """``input`` where it is positive, ``alpha * (exp(input / alpha) - 1)`` elsewhere."""
    if alpha == 0:
        raise ValueError("celu: alpha must not be zero")
    return written(_exponential(input, alpha, 1.0, 1.0 / alpha), input, inplace)


def selu(input: Array, inplace: bool = False) -> Array:
    """``elu`` with the scales that keep mean 0 and variance 1."""
    return written(_exponential(input, _SELU_ALPHA, _SELU_SCALE, 1.0), input, inplace)


def _exponential(input: Array, alpha: float, scale: float, rate: float) -> Array:
    # The minimum keeps expm1 from overflowing where its result is not used.
    below = np.expm1(np.minimum(input, 0) * rate) * (alpha * scale)
    return np.where(input > 0, input * scale, below)


def gelu(input: Array, approximate: str = "none") -> Array:
    """``input`` times the normal distribution's probability of less than it.

    Parameters
    ----------
    input : array of floats
    approximate : str
        ``"none"`` for the error function, ``"tanh"`` for the approximation by a hyperbolic
        tangent.  Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016), section 2.
    """
    if approximate == "none":
        error = special.erf(input * math.sqrt(0.5)).astype(input.dtype, copy=False)
        return input * 0.5 * (1 + error)
    if approximate != "tanh":
        raise ValueError(f"gelu: approximate must be 'none' or 'tanh', found {approximate!r}")
    inner = math.sqrt(2 / math.pi) * (input + 0.044715 * (input * input * input))
    return input * 0.5 * (1 + np.tanh(inner))


def sigmoid(input: Array) -> Array:
    """``1 / (1 + exp(-input))``."""
    # Of the magnitude, so that exp cannot overflow.
    decayed = np.exp(-np.abs(input))
    return np.where(input >= 0, 1, decayed) / (1 + decayed)


def logsigmoid(input: Array) -> Array:
    """``log(sigmoid(input))``."""
    return np.minimum(input, 0) - np.log1p(np.exp(-np.abs(input)))


def silu(input: Array, inplace: bool = False) -> Array:
    """``input * sigmoid(input)``."""
    return written(input * sigmoid(input), input, inplace)


def softplus(input: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """``log(1 + exp(beta * input)) / beta``, or ``input`` where it is far above zero.

    Parameters
    ----------
    input : array of floats
    beta : float
    threshold : float
        ``beta * input`` above it counts as far above zero.
    """
    scaled = input * beta
    smooth = (np.maximum(scaled, 0) + np.log1p(np.exp(-np.abs(scaled)))) / beta
    return np.where(scaled > threshold, input, smooth)


def mish(input: Array, inplace: bool = False) -> Array:
    """``input * tanh(softplus(input))``."""
    return written(input * np.tanh(softplus(input)), input, inplace)


def hardsigmoid(input: Array, inplace: bool = False) -> Array:
    """``(input + 3) / 6`` limited to 0 and 1."""
    return written(np.clip(input + 3, 0, 6) / 6, input, inplace)


def hardswish(input: Array, inplace: bool = False) -> Array:
    """``input * hardsigmoid(input)``."""
    return written(input * np.clip(input + 3, 0, 6) / 6, input, inplace)


def hardshrink(input: Array, lambd: float = 0.5) -> Array:
    """Zero where the magnitude is at most ``lambd``."""
    return np.where((input >= -lambd) & (input <= lambd), _as(0, input), input)


def softshrink(input: Array, lambd: float = 0.5) -> Array:
    """``input`` moved toward zero by ``lambd``."""
    if lambd < 0:
        raise ValueError(f"softshrink: lambd must not be negative, found {lambd}")
    return np.where(
        input > lambd, input - lambd, np.where(input < -lambd, input + lambd, input * 0)
    )


def tanh(input: Array) -> Array:
    """The hyperbolic tangent."""
    return np.tanh(input)


def tanhshrink(input: Array) -> Array:
    """``input - tanh(input)``."""
    return input - np.tanh(input)


def softsign(input: Array) -> Array:
    """``input / (1 + abs(input))``."""
    return input / (1 + np.abs(input))


def _as(value: float, input: Array) -> Array:
    """A number in the input's dtype: an array of ints is not to become one of floats."""
    return input.dtype.type(value)
