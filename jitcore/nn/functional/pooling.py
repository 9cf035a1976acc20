"""Pooling: a maximum, a mean or a norm of every window."""

from __future__ import annotations

import math

import numpy as np

from jitcore.nn.arrays import Array, ArrayOrPair, Size
from jitcore.nn.functional.checks import IMAGE_FORMS, check_axes, sizes
from jitcore.nn.functional.windows import pad_spatial, windows

__all__ = [
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
]


_Sizes = tuple[int, ...]


def max_pool1d(
    input: Array,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> ArrayOrPair:
    """The largest of every window of one axis; see ``max_pool2d``."""
    return _max_pool(
        "max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices
    )


def max_pool2d(
    input: Array,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> ArrayOrPair:
    """The largest of every window of images; NaN wins.

    Parameters
    ----------
    input : (N, C, H, W) or (C, H, W) array
    kernel_size : int or two
    stride : int or two, optional
        ``kernel_size`` by default.
    padding : int or two
        How much smallest values are put around the image; at most half the window.
    dilation : int or two
    ceil_mode : bool
        Also use windows that begin inside and end outside.
    return_indices : bool
        Give the places as well, numbered through each image.

    Returns
    -------
    (N, C, H', W') or (C, H', W') array, or two of them

    Raises
    ------
    ValueError
        Shapes do not fit.
    """
    return _max_pool(
        "max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices
    )


def max_pool3d(
    input: Array,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> ArrayOrPair:
    """The largest of every window of volumes; see ``max_pool2d``."""
    return _max_pool(
        "max_pool3d", 3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices
    )


def _max_pool(
    what: str,
    rank: int,
    input: Array,
    kernel_size: Size,
    stride: Size | None,
    padding: Size,
    dilation: Size,
    ceil_mode: bool,
    return_indices: bool,
) -> ArrayOrPair:
    batched = check_axes(what, input, rank + 1, IMAGE_FORMS[rank - 1])
    kernel = sizes(kernel_size, rank, f"{what}: kernel_size")
    steps = _steps(what, stride, kernel)
    frame = sizes(padding, rank, f"{what}: padding")
    spread = sizes(dilation, rank, f"{what}: dilation")
    images = input if batched else input[np.newaxis]
    after = _frame_after(what, images.shape[2:], kernel, steps, frame, spread, ceil_mode)
    padded = pad_spatial(images, frame, after, smallest(input))
    columns = _columns(padded, kernel, steps, spread)
    result = np.max(columns, axis=2)
    pooled = result if batched else result[0]
    if not return_indices:
        return pooled
    inside = pad_spatial(np.ones((1, 1, *images.shape[2:]), np.bool), frame, after, False)
    taps = _first_hits(columns, result, _columns(inside, kernel, steps, spread))
    places = _flat_places(taps, images.shape[2:], kernel, steps, frame, spread)
    return pooled, places if batched else places[0]


def smallest(input: Array) -> float:
    """The smallest value of the input's dtype."""
    if input.dtype.kind == "f":
        return -math.inf
    return np.iinfo(input.dtype).min


def _steps(what: str, stride: Size | None, kernel: _Sizes) -> _Sizes:
    return kernel if stride is None else sizes(stride, len(kernel), f"{what}: stride")


def _frame_after(
    what: str,
    extents: _Sizes,
    kernel: _Sizes,
    stride: _Sizes,
    padding: _Sizes,
    dilation: _Sizes,
    ceil_mode: bool,
) -> _Sizes:
    """How much is added after each axis: the padding, and what the last window needs besides."""
    after = []
    for n, k, s, p, d in zip(extents, kernel, stride, padding, dilation, strict=True):
        span = d * (k - 1) + 1
        if p < 0 or 2 * p > span:
            raise ValueError(
                f"{what}: padding must be from 0 to half of the window {kernel}, found {padding}"
            )
        positions = _positions(n + 2 * p - span, n + p, s, ceil_mode)
        if positions < 1:
            raise ValueError(
                f"{what}: a window of {kernel} is larger than the padded input of {extents}"
            )
        after.append(max(p, (positions - 1) * s + span - n - p))
    return tuple(after)


def _positions(room: int, end: int, stride: int, ceil_mode: bool) -> int:
    if not ceil_mode:
        return room // stride + 1
    positions = -(-room // stride) + 1
    # A window that would begin in the padding after the input is left out.
    return positions - 1 if (positions - 1) * stride >= end else positions


def _columns(padded: Array, kernel: _Sizes, stride: _Sizes, dilation: _Sizes) -> Array:
    """A copy of the windows (N, C, taps, *positions).

    NumPy reduces one axis outside of a long one much faster than several short ones inside.
    """
    view = windows(padded, kernel, stride, dilation)
    return view.reshape(*view.shape[:2], math.prod(kernel), *view.shape[2 + len(kernel) :])


def _first_hits(columns: Array, largest: Array, inside: Array) -> Array:
    """The number, inside its window, of the first element that is the largest or NaN."""
    hits = ((columns == largest[:, :, np.newaxis]) | np.isnan(columns)) & inside
    return np.argmax(hits, axis=2)


def _flat_places(
    taps: Array,
    extents: _Sizes,
    kernel: _Sizes,
    stride: _Sizes,
    padding: _Sizes,
    dilation: _Sizes,
) -> Array:
    """Numbers inside windows as numbers inside images."""
    result = np.zeros_like(taps)
    rest = taps
    scale = 1
    for axis in reversed(range(len(extents))):
        shape = (-1, *(1,) * (len(extents) - 1 - axis))
        starts = np.arange(taps.shape[2 + axis]) * stride[axis] - padding[axis]
        offset = rest % kernel[axis] * dilation[axis]
        result = result + (starts.reshape(shape) + offset) * scale
        rest = rest // kernel[axis]
        scale = scale * extents[axis]
    return result


def avg_pool1d(
    input: Array,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Array:
    """The mean of every window of one axis; see ``avg_pool2d``."""
    return _avg_pool(
        "avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None
    )


def avg_pool2d(
    input: Array,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    """The mean of every window of images.

    Parameters
    ----------
    input : (N, C, H, W) or (C, H, W) array
    kernel_size : int or two
    stride : int or two, optional
        ``kernel_size`` by default.
    padding : int or two
        How many zeros are put around the image; at most half the window.
    ceil_mode : bool
        Also use windows that begin inside and end outside.
    count_include_pad : bool
        Count the padding's zeros.
    divisor_override : int, optional
        What sums are divided by, instead of the count.

    Returns
    -------
    (N, C, H', W') or (C, H', W') array
    """
    return _avg_pool(
        "avg_pool2d",
        2,
        input,
        kernel_size,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
    )


def avg_pool3d(
    input: Array,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    """The mean of every window of volumes; see ``avg_pool2d``."""
    return _avg_pool(
        "avg_pool3d",
        3,
        input,
        kernel_size,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
    )


def _avg_pool(
    what: str,
    rank: int,
    input: Array,
    kernel_size: Size,
    stride: Size | None,
    padding: Size,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Array:
    batched = check_axes(what, input, rank + 1, IMAGE_FORMS[rank - 1])
    kernel = sizes(kernel_size, rank, f"{what}: kernel_size")
    steps = _steps(what, stride, kernel)
    frame = sizes(padding, rank, f"{what}: padding")
    if divisor_override == 0:
        raise ValueError(f"{what}: divisor_override must not be zero")
    images = input if batched else input[np.newaxis]
    dense = (1,) * rank
    after = _frame_after(what, images.shape[2:], kernel, steps, frame, dense, ceil_mode)
    columns = _columns(pad_spatial(images, frame, after), kernel, steps, dense)
    total = np.sum(columns, axis=2, dtype=input.dtype)
    if divisor_override is not None:
        result = total / divisor_override
    else:
        border = frame if count_include_pad else (0,) * rank
        result = total / _counts(images, columns.shape[3:], kernel, steps, frame, border)
    return result if batched else result[0]


def _counts(
    images: Array,
    positions: _Sizes,
    kernel: _Sizes,
    stride: _Sizes,
    padding: _Sizes,
    border: _Sizes,
) -> Array:
    """How many elements of each window lie inside the image and its border."""
    result = np.ones((1,) * len(kernel), images.dtype)
    for axis, extent in enumerate(images.shape[2:]):
        starts = np.arange(positions[axis]) * stride[axis] - padding[axis]
        first = np.maximum(starts, -border[axis])
        last = np.minimum(starts + kernel[axis], extent + border[axis])
        shape = (-1, *(1,) * (len(kernel) - 1 - axis))
        result = result * (last - first).astype(images.dtype).reshape(shape)
    return result


def lp_pool1d(
    input: Array,
    norm_type: float,
    kernel_size: Size,
    stride: Size | None = None,
    ceil_mode: bool = False,
) -> Array:
    """The power norm of every window of one axis; see ``lp_pool2d``."""
    powers = avg_pool1d(input**norm_type, kernel_size, stride, 0, ceil_mode)
    return _root(powers, norm_type, math.prod(sizes(kernel_size, 1, "lp_pool1d: kernel_size")))


def lp_pool2d(
    input: Array,
    norm_type: float,
    kernel_size: Size,
    stride: Size | None = None,
    ceil_mode: bool = False,
) -> Array:
    """The ``norm_type``-th root of the sum of powers of every window of images.

    A negative sum has no root: where ``norm_type`` is odd the result can be NaN.

    Parameters
    ----------
    input : (N, C, H, W) or (C, H, W) array
    norm_type : float
    kernel_size : int or two
    stride : int or two, optional
        ``kernel_size`` by default.
    ceil_mode : bool
        Also use windows that begin inside and end outside.

    Returns
    -------
    (N, C, H', W') or (C, H', W') array
    """
    powers = avg_pool2d(input**norm_type, kernel_size, stride, 0, ceil_mode)
    return _root(powers, norm_type, math.prod(sizes(kernel_size, 2, "lp_pool2d: kernel_size")))


def lp_pool3d(
    input: Array,
    norm_type: float,
    kernel_size: Size,
    stride: Size | None = None,
    ceil_mode: bool = False,
) -> Array:
    """The power norm of every window of volumes; see ``lp_pool2d``."""
    powers = avg_pool3d(input**norm_type, kernel_size, stride, 0, ceil_mode)
    return _root(powers, norm_type, math.prod(sizes(kernel_size, 3, "lp_pool3d: kernel_size")))


def _root(mean_powers: Array, norm_type: float, count: int) -> Array:
    return (mean_powers * count) ** (1.0 / norm_type)
