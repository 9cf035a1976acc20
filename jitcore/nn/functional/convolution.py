"""Convolutions as one matrix product of the kernels with the windows of the input."""

from __future__ import annotations

import math

import numpy as np

from jitcore.nn.arrays import Array, Size
from jitcore.nn.functional.checks import IMAGE_FORMS, check_axes, check_channels, check_dtype, sizes
from jitcore.nn.functional.windows import overlap_add, pad_spatial, windows

__all__ = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "fold",
    "unfold",
]


def conv1d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Array:
    """Cross-correlation over one axis; see ``conv2d``."""
    return _convolution("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Array:
    """Cross-correlation of images with kernels.

    Parameters
    ----------
    input : (N, C, H, W) or (C, H, W) array
    weight : (out, C / groups, height, width) array
        Of the input's dtype.
    bias : (out,) array, optional
    stride, dilation : int or two
    padding : int, two ints, ``"valid"`` or ``"same"``
        Zeros around the image.  ``"same"`` keeps its size and takes no stride.
    groups : int
        How many parts the channels are split into; each part of the output sees one of the input.

    Returns
    -------
    (N, out, H', W') or (out, H', W') array

    Raises
    ------
    ValueError
        Shapes do not fit.
    TypeError
        The dtypes differ.
    """
    return _convolution("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Array:
    """Cross-correlation over three axes; see ``conv2d``."""
    return _convolution("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


def _convolution(
    what: str,
    rank: int,
    input: Array,
    weight: Array,
    bias: Array | None,
    stride: Size,
    padding: Size | str,
    dilation: Size,
    groups: int,
) -> Array:
    batched = check_axes(what, input, rank + 1, IMAGE_FORMS[rank - 1])
    _check_weight(what, rank, input, weight)
    _check_bias(what, input, bias, weight.shape[0])
    check_channels(what, input, input.ndim - rank - 1, weight.shape[1] * groups)
    if weight.shape[0] % groups:
        raise ValueError(f"{what}: {groups} groups do not divide {weight.shape[0]} output channels")
    steps = sizes(stride, rank, f"{what}: stride")
    spread = sizes(dilation, rank, f"{what}: dilation")
    kernel = weight.shape[2:]
    before, after = _frame(what, padding, kernel, steps, spread)
    images = input if batched else input[np.newaxis]
    padded = pad_spatial(images, before, after)
    _check_extents(what, padded.shape[2:], kernel, spread)
    view = windows(padded, kernel, steps, spread)
    batch, extents = view.shape[0], view.shape[2 + rank :]
    taps, positions = weight[0].size, math.prod(extents)
    columns = view.reshape(batch, groups, taps, positions)
    kernels = weight.reshape(groups, weight.shape[0] // groups, taps)
    result = np.matmul(kernels, columns).reshape(batch, weight.shape[0], *extents)
    if bias is not None:
        result = result + bias.reshape(-1, *(1,) * rank)
    return result if batched else result[0]


def _check_weight(what: str, rank: int, input: Array, weight: Array) -> None:
    if weight.ndim != rank + 2:
        raise ValueError(f"{what}: expected weight with {rank + 2} axes, found {weight.shape}")
    check_dtype(what, input, weight)


def _check_bias(what: str, input: Array, bias: Array | None, channels: int) -> None:
    check_dtype(what, input, bias, "bias")
    if bias is not None and bias.shape != (channels,):
        raise ValueError(f"{what}: expected bias of shape {(channels,)}, found {bias.shape}")


def _frame(
    what: str,
    padding: Size | str,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How much is added before and after each axis."""
    if not isinstance(padding, str):
        both = sizes(padding, len(kernel), f"{what}: padding")
        if min(both) < 0:
            raise ValueError(f"{what}: padding must not be negative, found {both}")
        return both, both
    if padding == "valid":
        return (0,) * len(kernel), (0,) * len(kernel)
    if padding != "same":
        raise ValueError(f"{what}: padding must be ints, 'same' or 'valid', found {padding!r}")
    if max(stride) > 1:
        raise ValueError(f"{what}: padding='same' takes no stride, found {stride}")
    total = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    return tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)


def _check_extents(
    what: str, extents: tuple[int, ...], kernel: tuple[int, ...], dilation: tuple[int, ...]
) -> None:
    for extent, k, d in zip(extents, kernel, dilation, strict=True):
        if extent < d * (k - 1) + 1:
            raise ValueError(
                f"{what}: a kernel of {kernel} with dilation {dilation} is larger than the padded "
                f"input of {extents}"
            )


def conv_transpose1d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
) -> Array:
    """Transposed convolution over one axis; see ``conv_transpose2d``."""
    moves = (stride, padding, output_padding, dilation)
    return _transposed("conv_transpose1d", 1, input, weight, bias, moves, groups)


def conv_transpose2d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
) -> Array:
    """The adjoint of ``conv2d``: every pixel adds its kernel to the result.

    Parameters
    ----------
    input : (N, C, H, W) or (C, H, W) array
    weight : (C, out / groups, height, width) array
    bias : (out,) array, optional
    stride, dilation : int or two
    padding : int or two
        How much is cut off on both sides.
    output_padding : int or two
        How much is added at the end; less than stride or dilation.
    groups : int

    Returns
    -------
    (N, out, H', W') or (out, H', W') array

    Raises
    ------
    ValueError
        Shapes do not fit.
    TypeError
        The dtypes differ.
    """
    moves = (stride, padding, output_padding, dilation)
    return _transposed("conv_transpose2d", 2, input, weight, bias, moves, groups)


def conv_transpose3d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
) -> Array:
    """Transposed convolution over three axes; see ``conv_transpose2d``."""
    moves = (stride, padding, output_padding, dilation)
    return _transposed("conv_transpose3d", 3, input, weight, bias, moves, groups)


def _transposed(
    what: str,
    rank: int,
    input: Array,
    weight: Array,
    bias: Array | None,
    moves: tuple[Size, Size, Size, Size],
    groups: int,
) -> Array:
    stride, padding, output_padding, dilation = moves
    batched = check_axes(what, input, rank + 1, IMAGE_FORMS[rank - 1])
    _check_weight(what, rank, input, weight)
    _check_bias(what, input, bias, weight.shape[1] * groups)
    check_channels(what, input, input.ndim - rank - 1, weight.shape[0])
    if weight.shape[0] % groups:
        raise ValueError(f"{what}: {groups} groups do not divide {weight.shape[0]} channels")
    steps = sizes(stride, rank, f"{what}: stride")
    cut = sizes(padding, rank, f"{what}: padding")
    spread = sizes(dilation, rank, f"{what}: dilation")
    extra = sizes(output_padding, rank, f"{what}: output_padding")
    for e, s, d in zip(extra, steps, spread, strict=True):
        if e >= max(s, d):
            raise ValueError(
                f"{what}: output_padding must be less than stride or dilation, found {extra} with "
                f"stride {steps} and dilation {spread}"
            )
    images = input if batched else input[np.newaxis]
    batch, kernel, positions = images.shape[0], weight.shape[2:], images.shape[2:]
    pixels = images.reshape(batch, groups, weight.shape[0] // groups, math.prod(positions))
    kernels = weight.reshape(groups, weight.shape[0] // groups, weight[0].size)
    columns = np.matmul(kernels.swapaxes(1, 2), pixels)
    channels = weight.shape[1] * groups
    columns = columns.reshape(batch, channels, *kernel, *positions)
    full = tuple(
        (n - 1) * s + d * (k - 1) + 1 + e
        for n, s, d, k, e in zip(positions, steps, spread, kernel, extra, strict=True)
    )
    if any(n <= 2 * c for n, c in zip(full, cut, strict=True)):
        raise ValueError(f"{what}: padding {cut} leaves nothing of an output of {full}")
    whole = overlap_add(columns, full, steps, spread)
    inside = [slice(c, n - c) for c, n in zip(cut, full, strict=True)]
    result = whole[(slice(None), slice(None), *inside)]
    if bias is not None:
        result = result + bias.reshape(-1, *(1,) * rank)
    return np.ascontiguousarray(result if batched else result[0])


def unfold(
    input: Array, kernel_size: Size, dilation: Size = 1, padding: Size = 0, stride: Size = 1
) -> Array:
    """The windows of images as columns.

    Parameters
    ----------
    input : (N, C, H, W) or (C, H, W) array
    kernel_size, dilation, padding, stride : int or two

    Returns
    -------
    (N, C * height * width, positions) or (C * height * width, positions) array
    """
    batched = check_axes("unfold", input, 3, IMAGE_FORMS[1])
    kernel = sizes(kernel_size, 2, "unfold: kernel_size")
    frame = sizes(padding, 2, "unfold: padding")
    spread = sizes(dilation, 2, "unfold: dilation")
    padded = pad_spatial(input if batched else input[np.newaxis], frame, frame)
    _check_extents("unfold", padded.shape[2:], kernel, spread)
    view = windows(padded, kernel, sizes(stride, 2, "unfold: stride"), spread)
    rows, positions = math.prod(view.shape[1:4]), math.prod(view.shape[4:])
    columns = np.empty((view.shape[0], rows, positions), view.dtype)
    columns.reshape(view.shape)[...] = view
    return columns if batched else columns[0]


def fold(
    input: Array,
    output_size: Size,
    kernel_size: Size,
    dilation: Size = 1,
    padding: Size = 0,
    stride: Size = 1,
) -> Array:
    """The adjoint of ``unfold``: add columns up to images of ``output_size``.

    Parameters
    ----------
    input : (N, C * height * width, positions) or (C * height * width, positions) array
    output_size, kernel_size, dilation, padding, stride : int or two

    Returns
    -------
    (N, C, *output_size) or (C, *output_size) array
    """
    batched = check_axes("fold", input, 2, "(C * taps, positions), with a batch axis or without")
    extents = sizes(output_size, 2, "fold: output_size")
    kernel = sizes(kernel_size, 2, "fold: kernel_size")
    spread = sizes(dilation, 2, "fold: dilation")
    frame = sizes(padding, 2, "fold: padding")
    steps = sizes(stride, 2, "fold: stride")
    padded = tuple(n + 2 * p for n, p in zip(extents, frame, strict=True))
    positions = tuple(
        (n - d * (k - 1) - 1) // s + 1
        for n, d, k, s in zip(padded, spread, kernel, steps, strict=True)
    )
    taps = math.prod(kernel)
    if input.shape[-2] % taps or input.shape[-1] != math.prod(positions):
        raise ValueError(
            f"fold: expected input of shape (..., C * {taps}, {math.prod(positions)}), found "
            f"{input.shape}"
        )
    columns = input if batched else input[np.newaxis]
    channels = input.shape[-2] // taps
    columns = columns.reshape(len(columns), channels, *kernel, *positions)
    whole = overlap_add(columns, padded, steps, spread)
    result = whole[:, :, frame[0] : frame[0] + extents[0], frame[1] : frame[1] + extents[1]]
    return np.ascontiguousarray(result if batched else result[0])
