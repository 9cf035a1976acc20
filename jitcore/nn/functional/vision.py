"""Pixels moved: shuffles, and samples of images on a grid."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from jitcore.ir.ops.pixel_weights import cubic_weights
from jitcore.nn.arrays import Array

__all__ = ["affine_grid", "channel_shuffle", "grid_sample", "pixel_shuffle", "pixel_unshuffle"]


def pixel_shuffle(input: Array, upscale_factor: int) -> Array:
    """(..., C * r * r, H, W) as (..., C, H * r, W * r)."""
    r = upscale_factor
    if input.ndim < 3 or input.shape[-3] % (r * r):
        raise ValueError(
            f"pixel_shuffle: expected input of shape (..., C * {r * r}, H, W), found {input.shape}"
        )
    outer, (channels, height, width) = input.shape[:-3], input.shape[-3:]
    count = len(outer)
    split = input.reshape(*outer, channels // (r * r), r, r, height, width)
    order = (*range(count), count, count + 3, count + 1, count + 4, count + 2)
    return split.transpose(order).reshape(*outer, channels // (r * r), height * r, width * r)


def pixel_unshuffle(input: Array, downscale_factor: int) -> Array:
    """(..., C, H * r, W * r) as (..., C * r * r, H, W)."""
    r = downscale_factor
    if input.ndim < 3 or input.shape[-2] % r or input.shape[-1] % r:
        raise ValueError(
            f"pixel_unshuffle: expected input of shape (..., C, H * {r}, W * {r}), found "
            f"{input.shape}"
        )
    outer, (channels, height, width) = input.shape[:-3], input.shape[-3:]
    count = len(outer)
    split = input.reshape(*outer, channels, height // r, r, width // r, r)
    order = (*range(count), count, count + 2, count + 4, count + 1, count + 3)
    return split.transpose(order).reshape(*outer, channels * r * r, height // r, width // r)


def channel_shuffle(input: Array, groups: int) -> Array:
    """The channels of (N, C, ...) dealt out to groups in turn."""
    if input.ndim < 3 or input.shape[1] % groups:
        raise ValueError(
            f"channel_shuffle: expected input of shape (N, C * {groups}, ...), found {input.shape}"
        )
    split = input.reshape(input.shape[0], groups, input.shape[1] // groups, *input.shape[2:])
    return split.swapaxes(1, 2).reshape(input.shape)


def affine_grid(theta: Array, size: Sequence[int], align_corners: bool | None = None) -> Array:
    """Where each pixel of an affine map's result comes from, for ``grid_sample``.

    Parameters
    ----------
    theta : (N, 2, 3) or (N, 3, 4) array
    size : sequence of int
        (N, C, H, W) or (N, C, D, H, W) of the result.
    align_corners : bool, optional
        The corners -1 and 1 are the centres of the outermost pixels rather than their edges.

    Returns
    -------
    (N, H, W, 2) or (N, D, H, W, 3) array
    """
    rank = len(size) - 2
    if rank not in (2, 3) or theta.shape != (size[0], rank, rank + 1):
        raise ValueError(
            "affine_grid: expected theta of shape (N, 2, 3) with a size of 4, or (N, 3, 4) with a "
            f"size of 5, found {theta.shape} and {tuple(size)}"
        )
    axes = [
        _centres(extent, bool(align_corners)).astype(theta.dtype) for extent in reversed(size[2:])
    ]
    grids = np.meshgrid(*reversed(axes), indexing="ij")
    points = np.stack((*reversed(grids), np.ones(size[2:], theta.dtype)), axis=-1)
    result = np.matmul(points.reshape(-1, rank + 1), theta.swapaxes(1, 2))
    return result.reshape(size[0], *size[2:], rank)


def _centres(extent: int, align_corners: bool) -> Array:
    if extent <= 1:
        return np.zeros(extent)
    ends = np.linspace(-1, 1, extent)
    return ends if align_corners else ends * ((extent - 1) / extent)


def grid_sample(
    input: Array,
    grid: Array,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Array:
    """An image at the places of a grid.

    Parameters
    ----------
    input : (N, C, H, W) or (N, C, D, H, W) array
    grid : (N, H', W', 2) or (N, D', H', W', 3) array
        Places: x, y and z from -1 to 1.
    mode : str
        ``"bilinear"``, ``"nearest"``, or for images ``"bicubic"``.
    padding_mode : str
        What lies outside: ``"zeros"``, ``"border"`` or ``"reflection"``.
    align_corners : bool, optional
        -1 and 1 are the centres of the outermost pixels rather than their edges.

    Returns
    -------
    (N, C, H', W') or (N, C, D', H', W') array
    """
    _check_grid(input, grid, mode, padding_mode)
    extents = input.shape[2:]
    aligned = bool(align_corners)
    # Grids name the last axis first.
    places = [
        _unnormalized(grid[..., -1 - axis], extent, aligned) for axis, extent in enumerate(extents)
    ]
    if mode != "bicubic":
        places = [
            _bounded(place, extent, padding_mode, aligned)
            for place, extent in zip(places, extents, strict=True)
        ]
    if mode == "nearest":
        return _pixels(input, [np.rint(place).astype(np.int64) for place in places])
    floors = [np.floor(place) for place in places]
    result = np.zeros((*input.shape[:2], *grid.shape[1:-1]), input.dtype)
    taps = range(-1, 3) if mode == "bicubic" else range(2)
    weights = [
        cubic_weights(place - floor) if mode == "bicubic" else (1 - (place - floor), place - floor)
        for place, floor in zip(places, floors, strict=True)
    ]
    for tap in np.ndindex(*(len(taps),) * len(extents)):
        at = [floor + taps[t] for floor, t in zip(floors, tap, strict=True)]
        if mode == "bicubic":
            at = [
                _bounded(place, extent, padding_mode, aligned)
                for place, extent in zip(at, extents, strict=True)
            ]
        factor = weights[0][tap[0]]
        for axis in range(1, len(extents)):
            factor = factor * weights[axis][tap[axis]]
        pixels = _pixels(input, [place.astype(np.int64) for place in at])
        result += pixels * factor[:, np.newaxis].astype(input.dtype)
    return result


def _check_grid(input: Array, grid: Array, mode: str, padding_mode: str) -> None:
    rank = input.ndim - 2
    if rank not in (2, 3) or grid.ndim != rank + 2 or grid.shape[-1] != rank:
        raise ValueError(
            "grid_sample: expected input of shape (N, C, H, W) with a grid of (N, H', W', 2), or "
            f"the same with one axis more, found {input.shape} and {grid.shape}"
        )
    if 0 in input.shape[2:]:
        raise ValueError(f"grid_sample: input of shape {input.shape} has no pixels")
    if grid.shape[0] != input.shape[0]:
        raise ValueError(f"grid_sample: a grid of shape {grid.shape} has not a part for each image")
    if mode not in ("bilinear", "nearest", "bicubic") or (mode == "bicubic" and rank == 3):
        raise ValueError(f"grid_sample: mode {mode!r} does not exist for {rank} spatial axes")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            "grid_sample: padding_mode must be 'zeros', 'border' or 'reflection', found "
            f"{padding_mode!r}"
        )


def _unnormalized(place: Array, extent: int, align_corners: bool) -> Array:
    if align_corners:
        return (place + 1) / 2 * (extent - 1)
    return ((place + 1) * extent - 1) / 2


def _bounded(place: Array, extent: int, padding_mode: str, align_corners: bool) -> Array:
    """Places inside the image, where outside of it is not zero."""
    if padding_mode == "zeros":
        return place
    if padding_mode == "border":
        return np.clip(place, 0, extent - 1)
    low, span = (0.0, extent - 1.0) if align_corners else (-0.5, float(extent))
    if span == 0:
        return np.zeros_like(place)
    distance = np.abs(place - low)
    turns = np.floor(distance / span)
    rest = distance - turns * span
    reflected = np.where(turns % 2 == 0, rest + low, span - rest + low)
    return np.clip(reflected, 0, extent - 1)


def _pixels(input: Array, places: list[Array]) -> Array:
    """The pixels at these places, and zeros outside: (N, C, *places)."""
    inside = np.ones(places[0].shape, np.bool)
    flat = np.zeros(places[0].shape, np.int64)
    for place, extent in zip(places, input.shape[2:], strict=True):
        inside = inside & (place >= 0) & (place < extent)
        flat = flat * extent + np.clip(place, 0, extent - 1)
    pixels = input.reshape(*input.shape[:2], math.prod(input.shape[2:]))
    count = math.prod(flat.shape[1:])
    chosen = np.take_along_axis(pixels, flat.reshape(len(flat), 1, count), axis=2)
    shaped = chosen.reshape(*input.shape[:2], *places[0].shape[1:])
    return np.where(inside[:, np.newaxis], shaped, input.dtype.type(0))
