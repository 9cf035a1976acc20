"""Images in another size."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from jitcore.ir.ops.pixel_weights import (
    aligned_ratio,
    inner_cubic,
    mixed_pixels,
    nearest_pixels,
    nearest_ratio,
    outer_cubic,
)
from jitcore.nn.arrays import Array
from jitcore.nn.functional.adaptive import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
)

__all__ = ["interpolate"]

Scale = float | Sequence[float]

# Keys' softer value, which PyTorch has where it filters against aliasing.
_SOFT = -0.5


def interpolate(
    input: Array,
    size: int | Sequence[int] | None = None,
    scale_factor: Scale | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Array:
    """An image in another size.

    Parameters
    ----------
    input : (N, C, ...) array
        With one to three spatial axes.
    size : int or sequence of int, optional
        The new extents; either this or ``scale_factor`` must be given.
    scale_factor : float or sequence of float, optional
        What the extents are multiplied by.
    mode : str
        ``"nearest"``, ``"nearest-exact"``, ``"area"``, and by the number of spatial axes
        ``"linear"``, ``"bilinear"`` or ``"bicubic"``, ``"trilinear"``.
    align_corners : bool, optional
        The centres of the outermost pixels stay in place; otherwise the edges do.
    recompute_scale_factor : bool, optional
        Use the ratio of the rounded extents rather than ``scale_factor``.
    antialias : bool
        Average when making smaller, with ``"bilinear"`` and ``"bicubic"``.

    Returns
    -------
    (N, C, ...) array

    Raises
    ------
    ValueError
        The mode does not fit the input, or the sizes are not given once.
    """
    rank = input.ndim - 2
    _check_mode(input, mode, align_corners, antialias)
    extents, factors = _target(input, size, scale_factor)
    if mode == "area":
        return _area(input, extents)
    if extents == input.shape[2:] and _stays(mode, antialias):
        return input.copy()
    aligned = bool(align_corners)
    result = input
    for axis in range(rank):
        length = input.shape[2 + axis]
        ratio = length / extents[axis]
        if factors is not None and not recompute_scale_factor:
            ratio = 1 / factors[axis]
        result = _axis(result, 2 + axis, extents[axis], ratio, mode, aligned, antialias)
    return result


def _check_mode(input: Array, mode: str, align_corners: bool | None, antialias: bool) -> None:
    axes = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}
    if mode not in axes and mode not in ("nearest", "nearest-exact", "area"):
        raise ValueError(f"interpolate: there is no mode {mode!r}")
    if input.ndim not in (3, 4, 5) or 0 in input.shape[2:]:
        raise ValueError(
            "interpolate: expected input of shape (N, C, ...) with 1 to 3 spatial axes that are "
            f"not empty, found {input.shape}"
        )
    if mode in axes and axes[mode] != input.ndim - 2:
        raise ValueError(
            f"interpolate: mode {mode!r} is for {axes[mode]} spatial axes, found input of shape "
            f"{input.shape}"
        )
    if mode not in axes and align_corners is not None:
        raise ValueError(f"interpolate: mode {mode!r} takes no align_corners")
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ValueError(f"interpolate: mode {mode!r} takes no antialias")


def _target(
    input: Array, size: int | Sequence[int] | None, scale_factor: Scale | None
) -> tuple[tuple[int, ...], tuple[float, ...] | None]:
    """The new extents, and the factors where those were given."""
    rank = input.ndim - 2
    if (size is None) == (scale_factor is None):
        raise ValueError("interpolate: give either size or scale_factor")
    if size is not None:
        extents = (int(size),) * rank if isinstance(size, (int, np.integer)) else tuple(size)
        if len(extents) != rank or min(extents) < 1:
            raise ValueError(f"interpolate: expected {rank} positive extents, found {size}")
        return extents, None
    if isinstance(scale_factor, Sequence):
        factors = tuple(float(factor) for factor in scale_factor)
    else:
        assert scale_factor is not None
        factors = (float(scale_factor),) * rank
    if len(factors) != rank:
        raise ValueError(f"interpolate: expected {rank} factors, found {scale_factor}")
    scaled = tuple(math.floor(n * f) for n, f in zip(input.shape[2:], factors, strict=True))
    if min(scaled) < 1:
        raise ValueError(
            f"interpolate: scale_factor {scale_factor} leaves nothing of input {input.shape}"
        )
    return scaled, factors


def _area(input: Array, extents: tuple[int, ...]) -> Array:
    if len(extents) == 1:
        return adaptive_avg_pool1d(input, extents)
    if len(extents) == 2:
        return adaptive_avg_pool2d(input, extents)
    return adaptive_avg_pool3d(input, extents)


def _axis(
    input: Array, axis: int, extent: int, ratio: float, mode: str, aligned: bool, antialias: bool
) -> Array:
    """One axis in another extent; ``ratio`` is how far apart the new pixels stand."""
    length = input.shape[axis]
    if extent == length and _stays(mode, antialias):
        return input
    if mode in ("nearest", "nearest-exact"):
        if mode == "nearest" and input.ndim == 4:
            ratio = nearest_ratio(length, extent, ratio)
        shift = 0.5 if mode == "nearest-exact" else 0.0
        return np.take(input, nearest_pixels(extent, length, ratio, shift), axis=axis)
    if antialias:
        if aligned:
            ratio = aligned_ratio(length, extent)
        members, weights = _filter(extent, length, ratio, mode)
        return _weighted(input, axis, members, weights.astype(input.dtype))
    taps = 4 if mode == "bicubic" else 2
    members, weights = mixed_pixels(extent, length, ratio, taps, aligned, input.dtype)
    return _weighted(input, axis, members, weights)


def _stays(mode: str, antialias: bool) -> bool:
    """Whether an axis that keeps its extent stays as it is, whatever ``scale_factor`` says.

    A factor near 1 would move the pixels a little.  Which modes do so is PyTorch's choice.
    """
    return antialias or mode in ("linear", "bilinear", "trilinear")


def _weighted(input: Array, axis: int, members: Array, weights: Array) -> Array:
    """Along one axis, the sum of these elements times their weights, both (extent, taps)."""
    shape = (-1, *(1,) * (input.ndim - 1 - axis))
    result = np.take(input, members[:, 0], axis=axis) * weights[:, 0].reshape(shape)
    for tap in range(1, members.shape[1]):
        pixels = np.take(input, members[:, tap], axis=axis)
        result = result + pixels * weights[:, tap].reshape(shape)
    return result


def _filter(extent: int, length: int, ratio: float, mode: str) -> tuple[Array, Array]:
    """Elements and weights of a filter as wide as the new pixels, without those off the image."""
    centres = (np.arange(extent) + 0.5) * ratio
    stretch = max(ratio, 1.0)
    reach = stretch * (2 if mode == "bicubic" else 1)
    first = np.maximum(np.floor(centres - reach + 0.5), 0)
    last = np.minimum(np.floor(centres + reach + 0.5), length)
    members = first[:, np.newaxis] + np.arange(int(np.max(last - first)))
    distance = np.abs((members + 0.5 - centres[:, np.newaxis]) / stretch)
    if mode == "bicubic":
        outer = np.where(distance < 2, outer_cubic(distance, _SOFT), 0)
        weights = np.where(distance < 1, inner_cubic(distance, _SOFT), outer)
    else:
        weights = np.maximum(1 - distance, 0)
    weights = np.where(members < last[:, np.newaxis], weights, 0)
    numbers = np.minimum(members, length - 1).astype(np.int64)
    return numbers, weights / np.sum(weights, axis=1, keepdims=True)
