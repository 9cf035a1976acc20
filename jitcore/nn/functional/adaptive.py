"""Adaptive pooling: as many windows as the output has elements, of nearly equal extents."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from jitcore.nn.arrays import Array, ArrayOrPair
from jitcore.nn.functional.checks import IMAGE_FORMS, check_axes

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
]


OutputSize = int | Sequence[int | None]


def adaptive_avg_pool1d(input: Array, output_size: OutputSize) -> Array:
    """Means of windows of one axis; see ``adaptive_avg_pool2d``."""
    return _adaptive_avg("adaptive_avg_pool1d", 1, input, output_size)


def adaptive_avg_pool2d(input: Array, output_size: OutputSize) -> Array:
    """Means of as many windows of images as the output has elements.

    Element ``i`` of an axis stands for the input from ``floor(i * in / out)`` to before
    ``ceil((i + 1) * in / out)``.

    Parameters
    ----------
    input : (N, C, H, W) or (C, H, W) array
    output_size : int or two
        None is the input's extent.

    Returns
    -------
    (N, C, *output_size) or (C, *output_size) array
    """
    return _adaptive_avg("adaptive_avg_pool2d", 2, input, output_size)


def adaptive_avg_pool3d(input: Array, output_size: OutputSize) -> Array:
    """Means of windows of volumes; see ``adaptive_avg_pool2d``."""
    return _adaptive_avg("adaptive_avg_pool3d", 3, input, output_size)


def adaptive_max_pool1d(
    input: Array, output_size: OutputSize, return_indices: bool = False
) -> ArrayOrPair:
    """The largest of windows of one axis; see ``adaptive_max_pool2d``."""
    return _adaptive_max("adaptive_max_pool1d", 1, input, output_size, return_indices)


def adaptive_max_pool2d(
    input: Array, output_size: OutputSize, return_indices: bool = False
) -> ArrayOrPair:
    """The largest of as many windows of images as the output has elements.

    Parameters
    ----------
    input : (N, C, H, W) or (C, H, W) array
    output_size : int or two
        None is the input's extent.
    return_indices : bool
        Give the places as well, numbered through each image.

    Returns
    -------
    (N, C, *output_size) or (C, *output_size) array, or two of them
    """
    return _adaptive_max("adaptive_max_pool2d", 2, input, output_size, return_indices)


def adaptive_max_pool3d(
    input: Array, output_size: OutputSize, return_indices: bool = False
) -> ArrayOrPair:
    """The largest of windows of volumes; see ``adaptive_max_pool2d``."""
    return _adaptive_max("adaptive_max_pool3d", 3, input, output_size, return_indices)


def _adaptive_avg(what: str, rank: int, input: Array, output_size: OutputSize) -> Array:
    extents = _output_extents(what, rank, input, output_size)
    if extents == input.shape[-rank:]:
        return input.copy()
    result = input
    for offset, extent in enumerate(extents):
        result = _axis_mean(result, input.ndim - rank + offset, extent)
    return result


def _axis_mean(input: Array, axis: int, extent: int) -> Array:
    """Means along one axis: those of boxes are means of means."""
    length = input.shape[axis]
    if extent == length:
        return input
    if extent > 0 and length % extent == 0:
        split = (*input.shape[:axis], extent, length // extent, *input.shape[axis + 1 :])
        return np.mean(input.reshape(split), axis=axis + 1)
    members, inside = _members(length, extent)
    gathered = np.take(input, members, axis=axis)
    shape = (*inside.shape, *(1,) * (input.ndim - axis - 1))
    kept = np.where(inside.reshape(shape), gathered, input.dtype.type(0))
    counts = np.sum(inside, axis=1).astype(input.dtype).reshape(-1, *shape[2:])
    return np.sum(kept, axis=axis + 1) / counts


def _members(length: int, extent: int) -> tuple[Array, Array]:
    """The elements of every window, as many for each, and which of them belong to it.

    The others repeat the window's last element.
    """
    numbers = np.arange(extent)
    starts = numbers * length // max(extent, 1)
    ends = -(-(numbers + 1) * length // max(extent, 1))
    width = int(np.max(ends - starts, initial=0))
    members = starts[:, np.newaxis] + np.arange(width)
    last = ends[:, np.newaxis] - 1
    return np.minimum(members, last), members <= last


def _adaptive_max(
    what: str, rank: int, input: Array, output_size: OutputSize, return_indices: bool
) -> ArrayOrPair:
    extents = _output_extents(what, rank, input, output_size)
    first = input.ndim - rank
    gathered = input
    places = np.zeros((1,) * (2 * rank), np.int64)
    for offset, extent in enumerate(extents):
        members, _ = _members(input.shape[first + offset], extent)
        gathered = np.take(gathered, members, axis=first + 2 * offset)
        after = (1,) * (2 * (rank - 1 - offset))
        scale = math.prod(input.shape[first + offset + 1 :])
        places = places + (members * scale).reshape(*members.shape, *after)
    outer = tuple(range(first, first + 2 * rank, 2))
    inner = tuple(range(first + 1, first + 2 * rank, 2))
    result = np.max(gathered, axis=inner)
    if not return_indices:
        return result
    order = (*range(first), *outer, *inner)
    members = math.prod(gathered.shape[axis] for axis in inner)
    flat = gathered.transpose(order).reshape(*input.shape[:first], *extents, members)
    best = np.argmax(flat, axis=-1)
    numbered = places.transpose(*range(0, 2 * rank, 2), *range(1, 2 * rank, 2))
    numbered = np.broadcast_to(numbered.reshape(*extents, members), flat.shape)
    return result, np.take_along_axis(numbered, best[..., np.newaxis], axis=-1)[..., 0]


def _output_extents(what: str, rank: int, input: Array, output_size: OutputSize) -> tuple[int, ...]:
    check_axes(what, input, rank + 1, IMAGE_FORMS[rank - 1])
    if isinstance(output_size, (int, np.integer)):
        asked: Sequence[int | None] = (int(output_size),) * rank
    else:
        asked = output_size
    if len(asked) != rank:
        raise ValueError(f"{what}: output_size must be an int or {rank} ints, found {output_size}")
    spatial = input.shape[-rank:]
    extents = tuple(
        n if size is None else int(size) for size, n in zip(asked, spatial, strict=True)
    )
    if min(extents) < 0 or 0 in spatial:
        raise ValueError(f"{what}: cannot pool input of shape {input.shape} to {extents}")
    return extents
