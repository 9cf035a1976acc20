"""Normalizations: subtract a mean, divide by a deviation, scale and shift."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from jitcore.nn.arrays import Array
from jitcore.nn.functional.checks import check_dtype
from jitcore.nn.functional.windows import pad_spatial, windows

__all__ = [
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "local_response_norm",
    "rms_norm",
]


def batch_norm(
    input: Array,
    running_mean: Array | None,
    running_var: Array | None,
    weight: Array | None = None,
    bias: Array | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Array:
    """Normalize each channel over the batch and all positions.

    Ioffe and Szegedy, "Batch Normalization" (2015).

    Parameters
    ----------
    input : (N, C, ...) array
    running_mean, running_var : (C,) array or None
        What is used outside of training.  In training both move toward the batch's mean and
        unbiased variance, in place.
    weight, bias : (C,) array, optional
    training : bool
        Use the mean and the variance of the batch.
    momentum : float
        The batch's part in the running statistics.
    eps : float
        Added to the variance.

    Returns
    -------
    array of the input's shape

    Raises
    ------
    ValueError
        Shapes do not fit, statistics are missing, or a training batch has one value a channel.
    """
    _check_affine("batch_norm", input, weight, bias)
    mean, variance = running_mean, running_var
    if training:
        mean, variance = _batch_statistics(input, running_mean, running_var, momentum)
    if mean is None or variance is None:
        raise ValueError("batch_norm: running_mean and running_var are needed outside of training")
    if mean.shape != (input.shape[1],):
        raise ValueError(
            f"batch_norm: expected {mean.size} channels on axis 1, found input of shape "
            f"{input.shape}"
        )
    return _affine(_standardized(input, mean, variance, eps), weight, bias)


def _check_affine(what: str, input: Array, weight: Array | None, bias: Array | None) -> None:
    if input.ndim < 2:
        raise ValueError(f"{what}: expected input of shape (N, C, ...), found {input.shape}")
    for name, values in (("weight", weight), ("bias", bias)):
        check_dtype(what, input, values, name)
        if values is not None and values.shape != (input.shape[1],):
            raise ValueError(
                f"{what}: expected {values.size} channels on axis 1 for {name} of shape "
                f"{values.shape}, found input of shape {input.shape}"
            )


def _batch_statistics(
    input: Array, running_mean: Array | None, running_var: Array | None, momentum: float
) -> tuple[Array, Array]:
    count = input.size // max(input.shape[1], 1)
    if count <= 1:
        raise ValueError(
            "batch_norm: training needs more than one value for each channel, found input of "
            f"shape {input.shape}"
        )
    axes = (0,) + tuple(range(2, input.ndim))  # noqa: RUF005  # compiled code has no starred tuple
    mean = np.mean(input, axis=axes)
    variance = np.var(input, axis=axes)
    if running_mean is not None:
        running_mean[:] = momentum * mean + (1 - momentum) * running_mean
    if running_var is not None:
        unbiased = variance * (count / (count - 1))
        running_var[:] = momentum * unbiased + (1 - momentum) * running_var
    return mean, variance


def _standardized(input: Array, mean: Array, variance: Array, eps: float) -> Array:
    scale = 1 / np.sqrt(variance + eps)
    return (input - _by_channel(mean, input)) * _by_channel(scale, input)


def _affine(values: Array, weight: Array | None, bias: Array | None) -> Array:
    scaled = values if weight is None else values * _by_channel(weight, values)
    return scaled if bias is None else scaled + _by_channel(bias, scaled)


def _by_channel(values: Array, input: Array) -> Array:
    """One value a channel, in a shape that broadcasts against (N, C, ...)."""
    return values.reshape(-1, *(1,) * (input.ndim - 2))


def instance_norm(
    input: Array,
    running_mean: Array | None = None,
    running_var: Array | None = None,
    weight: Array | None = None,
    bias: Array | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Array:
    """Normalize each channel of each sample over its positions.

    Parameters
    ----------
    input : (N, C, ...) array
    running_mean, running_var : (C,) array or None
        Used without ``use_input_stats``, and moved toward the batch's mean ones with it.
    weight, bias : (C,) array, optional
    use_input_stats : bool
    momentum, eps : float

    Returns
    -------
    array of the input's shape
    """
    _check_affine("instance_norm", input, weight, bias)
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    axes = tuple(range(2, input.ndim))
    count = math.prod(input.shape[2:])
    if count <= 1:
        raise ValueError(
            "instance_norm: more than one position is needed for each channel, found input of "
            f"shape {input.shape}"
        )
    mean = np.mean(input, axis=axes, keepdims=True)
    variance = np.var(input, axis=axes, keepdims=True)
    if running_mean is not None:
        new_mean = np.mean(mean, axis=0).reshape(-1)
        running_mean[:] = momentum * new_mean + (1 - momentum) * running_mean
    if running_var is not None:
        unbiased = np.mean(variance, axis=0).reshape(-1) * (count / (count - 1))
        running_var[:] = momentum * unbiased + (1 - momentum) * running_var
    return _affine((input - mean) * (1 / np.sqrt(variance + eps)), weight, bias)


def group_norm(
    input: Array,
    num_groups: int,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
) -> Array:
    """Normalize groups of channels of each sample.

    Wu and He, "Group Normalization" (2018).

    Parameters
    ----------
    input : (N, C, ...) array
    num_groups : int
        Divides C.
    weight, bias : (C,) array, optional
    eps : float

    Returns
    -------
    array of the input's shape
    """
    _check_affine("group_norm", input, weight, bias)
    if input.shape[1] % num_groups:
        raise ValueError(
            f"group_norm: {num_groups} groups do not divide {input.shape[1]} channels of input of "
            f"shape {input.shape}"
        )
    members = input.size // max(input.shape[0] * num_groups, 1)
    if input.size == num_groups:
        raise ValueError(
            "group_norm: more than one value is needed for each group, found input of shape "
            f"{input.shape}"
        )
    groups = input.reshape(input.shape[0], num_groups, members)
    mean = np.mean(groups, axis=2, keepdims=True)
    variance = np.var(groups, axis=2, keepdims=True)
    normal = (groups - mean) * (1 / np.sqrt(variance + eps))
    return _affine(normal.reshape(input.shape), weight, bias)


def layer_norm(
    input: Array,
    normalized_shape: Sequence[int],
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
) -> Array:
    """Normalize over the last axes.

    Ba et al., "Layer Normalization" (2016).

    Parameters
    ----------
    input : (..., *normalized_shape) array
    normalized_shape : sequence of int
    weight, bias : (*normalized_shape,) array, optional
    eps : float

    Returns
    -------
    array of the input's shape
    """
    axes = _last_axes("layer_norm", input, normalized_shape)
    check_dtype("layer_norm", input, weight)
    check_dtype("layer_norm", input, bias, "bias")
    mean = np.mean(input, axis=axes, keepdims=True)
    variance = np.var(input, axis=axes, keepdims=True)
    normal = (input - mean) * (1 / np.sqrt(variance + eps))
    scaled = normal if weight is None else normal * weight
    return scaled if bias is None else scaled + bias


def rms_norm(
    input: Array,
    normalized_shape: Sequence[int],
    weight: Array | None = None,
    eps: float | None = None,
) -> Array:
    """Divide by the root of the mean square over the last axes.

    Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019).

    Parameters
    ----------
    input : (..., *normalized_shape) array
    normalized_shape : sequence of int
    weight : (*normalized_shape,) array, optional
    eps : float, optional
        Added to the mean square; the machine epsilon of the input's dtype by default.

    Returns
    -------
    array of the input's shape
    """
    axes = _last_axes("rms_norm", input, normalized_shape)
    check_dtype("rms_norm", input, weight)
    added = float(np.finfo(input.dtype).eps) if eps is None else eps
    square = np.mean(input * input, axis=axes, keepdims=True)
    normal = input * (1 / np.sqrt(square + added))
    return normal if weight is None else normal * weight


def _last_axes(what: str, input: Array, shape: Sequence[int]) -> tuple[int, ...]:
    expected = tuple(shape)
    if not expected or input.shape[-len(expected) :] != expected:
        raise ValueError(
            f"{what}: expected input of shape (..., {', '.join(map(str, expected))}), found "
            f"{input.shape}"
        )
    return tuple(range(input.ndim - len(expected), input.ndim))


def local_response_norm(
    input: Array, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Array:
    """Divide by a power of the mean square of the neighbouring channels.

    Krizhevsky et al., "ImageNet Classification with Deep Convolutional Neural Networks" (2012).

    Parameters
    ----------
    input : (N, C, ...) array
    size : int
        How many channels count.
    alpha, beta, k : float
        The divisor is ``(k + alpha * mean square) ** beta``.

    Returns
    -------
    array of the input's shape
    """
    if input.ndim < 3:
        raise ValueError(
            f"local_response_norm: expected input with 3 or more axes, found {input.shape}"
        )
    if input.size == 0:
        return input.copy()
    flat = (input * input).reshape(input.shape[0], 1, input.shape[1], math.prod(input.shape[2:]))
    padded = pad_spatial(flat, (size // 2, 0), ((size - 1) // 2, 0))
    neighbours = windows(padded, (size, 1), (1, 1), (1, 1))
    mean = np.sum(neighbours, axis=(2, 3)) / size
    return input / (mean.reshape(input.shape) * alpha + k) ** beta
