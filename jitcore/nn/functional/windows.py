"""Sliding windows over the spatial axes, which convolution and pooling share."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from jitcore.nn.arrays import Array

__all__ = ["overlap_add", "pad_spatial", "windows"]


def windows(
    input: Array, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]
) -> Array:
    """A read-only view of all positions of a window.

    Parameters
    ----------
    input : (N, C, *spatial) array
        At least as large as a window.
    kernel, stride, dilation : tuple of int
        One number for each spatial axis.

    Returns
    -------
    (N, C, *kernel, *positions) array
    """
    rank = len(kernel)
    spans = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True))
    every = sliding_window_view(input, spans, axis=tuple(range(2, 2 + rank)))
    steps = [slice(None, None, s) for s in stride] + [slice(None, None, d) for d in dilation]
    chosen = every[(slice(None), slice(None), *steps)]
    inside = tuple(range(2 + rank, 2 + 2 * rank))
    return chosen.transpose((0, 1, *inside, *range(2, 2 + rank)))


def pad_spatial(
    input: Array, before: tuple[int, ...], after: tuple[int, ...], value: float = 0.0
) -> Array:
    """The input (N, C, *spatial) in a frame of one value; itself where there is no frame."""
    if not any(before) and not any(after):
        return input
    widths = tuple((b, a) for b, a in zip(before, after, strict=True))
    return np.pad(input, ((0, 0), (0, 0), *widths), constant_values=value)


def overlap_add(
    columns: Array,
    extents: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> Array:
    """The adjoint of ``windows``: add every window to the place it was taken from.

    Parameters
    ----------
    columns : (N, C, *kernel, *positions) array
    extents : tuple of int
        The spatial extents of the result.
    stride, dilation : tuple of int

    Returns
    -------
    (N, C, *extents) array
    """
    rank = len(extents)
    kernel = columns.shape[2 : 2 + rank]
    positions = columns.shape[2 + rank :]
    result = np.zeros((*columns.shape[:2], *extents), columns.dtype)
    for tap in np.ndindex(*kernel):
        place = tuple(
            slice(t * d, t * d + (count - 1) * s + 1, s)
            for t, d, s, count in zip(tap, dilation, stride, positions, strict=True)
        )
        result[(slice(None), slice(None), *place)] += columns[(slice(None), slice(None), *tap)]
    return result
