"""Rows of a table by number."""

from __future__ import annotations

import numpy as np

from jitcore.nn.arrays import Array

__all__ = ["embedding", "embedding_bag", "one_hot"]


def embedding(
    input: Array,
    weight: Array,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Array:
    """Rows of a table.

    Parameters
    ----------
    input : (...) array of ints
        Numbers of rows.
    weight : (rows, columns) array
    padding_idx : int, optional
        A row without a gradient.
    max_norm : float, optional
        Rows that are used and have a larger norm are scaled down to it, in ``weight`` itself.
    norm_type : float
        Which norm that is.
    scale_grad_by_freq, sparse : bool
        Steer gradients in PyTorch; nothing here depends on them.

    Returns
    -------
    (..., columns) array

    Raises
    ------
    IndexError
        There is no such row.
    TypeError
        The numbers are no ints.
    """
    _check_numbers("embedding", input, weight)
    _padding_row("embedding", padding_idx, weight)
    if max_norm is not None:
        _limit_norms(input, weight, max_norm, norm_type)
    return np.take(weight, input, axis=0)


def _check_numbers(what: str, input: Array, weight: Array) -> None:
    if input.dtype.kind not in "iu":
        raise TypeError(f"{what}: the input must be ints, numbers of rows, found {input.dtype}")
    if weight.ndim != 2:
        raise ValueError(f"{what}: expected weight with 2 axes, found {weight.shape}")
    if input.size > 0 and (np.min(input) < 0 or np.max(input) >= weight.shape[0]):
        raise IndexError(
            f"{what}: the input has numbers from {np.min(input)} to {np.max(input)}, and weight "
            f"has {weight.shape[0]} rows"
        )


def _padding_row(what: str, padding_idx: int | None, weight: Array) -> int:
    """The number of the padding row from the start, or -1 for none."""
    if padding_idx is None:
        return -1
    rows = weight.shape[0]
    if not -rows <= padding_idx < rows:
        raise ValueError(f"{what}: padding_idx must be one of {rows} rows, found {padding_idx}")
    return padding_idx % rows


def _limit_norms(input: Array, weight: Array, max_norm: float, norm_type: float) -> None:
    used = np.unique(input)
    rows = weight[used]
    norms = np.linalg.norm(rows, ord=norm_type, axis=1, keepdims=True)
    scale = np.where(norms > max_norm, max_norm / (norms + 1e-7), 1)
    weight[used] = rows * scale.astype(weight.dtype)


def embedding_bag(
    input: Array,
    weight: Array,
    offsets: Array | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Array | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Array:
    """Sums, means or maxima of rows of a table.

    Parameters
    ----------
    input : (bags, n) array of ints, or (n,) with offsets
        Numbers of rows.
    weight : (rows, columns) array
    offsets : (bags,) array of ints, optional
        Where each bag starts; the first is 0.
    max_norm, norm_type : float
        As in ``embedding``.
    scale_grad_by_freq, sparse : bool
        Steer gradients in PyTorch; nothing here depends on them.
    mode : str
        ``"sum"``, ``"mean"`` or ``"max"``.
    per_sample_weights : array of the input's shape, optional
        Factors of the rows, with ``"sum"``.
    include_last_offset : bool
        The last offset is the end of the last bag.
    padding_idx : int, optional
        A row that does not count.

    Returns
    -------
    (bags, columns) array
        Empty bags give zeros.
    """
    _check_numbers("embedding_bag", input, weight)
    padding = _padding_row("embedding_bag", padding_idx, weight)
    numbers, bags, count = _bags(input, offsets, include_last_offset)
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"embedding_bag: mode must be 'sum', 'mean' or 'max', found {mode!r}")
    if max_norm is not None:
        _limit_norms(input, weight, max_norm, norm_type)
    rows = np.take(weight, numbers, axis=0)
    if per_sample_weights is not None:
        if mode != "sum" or per_sample_weights.shape != input.shape:
            raise ValueError(
                "embedding_bag: per_sample_weights need mode 'sum' and the input's shape "
                f"{input.shape}, found {mode!r} and {per_sample_weights.shape}"
            )
        rows = rows * per_sample_weights.reshape(-1, 1)
    counted = numbers != padding
    members = np.bincount(bags[counted], minlength=count)[:, np.newaxis]
    if mode == "max":
        largest = np.full((count, weight.shape[1]), -np.inf, weight.dtype)
        np.maximum.at(largest, bags[counted], rows[counted])
        return np.where(members > 0, largest, weight.dtype.type(0))
    total = np.zeros((count, weight.shape[1]), weight.dtype)
    np.add.at(total, bags[counted], rows[counted])
    return total if mode == "sum" else total / np.maximum(members, 1).astype(weight.dtype)


def _bags(
    input: Array, offsets: Array | None, include_last_offset: bool
) -> tuple[Array, Array, int]:
    """All row numbers, the bag of each, and how many bags there are."""
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError("embedding_bag: input with 2 axes takes no offsets")
        count = input.shape[0]
        return input.reshape(-1), np.repeat(np.arange(count), input.shape[1]), count
    if input.ndim != 1 or offsets is None or offsets.ndim != 1:
        raise ValueError(
            "embedding_bag: expected input of shape (bags, n), or (n,) with offsets of shape "
            f"(bags,), found input of shape {input.shape} and offsets {offsets}"
        )
    ends = offsets[1:] if include_last_offset else np.append(offsets[1:], len(input))
    starts = offsets[:-1] if include_last_offset else offsets
    lengths = ends - starts
    if (starts.size > 0 and starts[0] != 0) or np.any(lengths < 0) or np.any(ends > len(input)):
        raise ValueError(
            "embedding_bag: offsets must start at 0, not decrease, and end inside the input of "
            f"{len(input)} numbers, found {offsets}"
        )
    numbers = input[: ends[-1]] if ends.size > 0 else input[:0]
    return numbers, np.repeat(np.arange(len(starts)), lengths), len(starts)


def one_hot(tensor: Array, num_classes: int = -1) -> Array:
    """Ones at the places that numbers say, zeros elsewhere.

    Parameters
    ----------
    tensor : (...) array of ints
        From 0 to below ``num_classes``.
    num_classes : int
        One more than the largest number by default.

    Returns
    -------
    (..., num_classes) array of int64

    Raises
    ------
    ValueError
        Numbers are outside of the classes, or there are none to tell how many classes there are.
    """
    if tensor.dtype.kind not in "iu":
        raise TypeError(f"one_hot: expected an array of ints, found {tensor.dtype}")
    if tensor.size == 0 and num_classes <= 0:
        raise ValueError("one_hot: num_classes must be given for an empty array")
    classes = int(np.max(tensor)) + 1 if num_classes == -1 else num_classes
    if tensor.size > 0 and (np.min(tensor) < 0 or np.max(tensor) >= classes):
        raise ValueError(
            f"one_hot: expected numbers from 0 to below {classes}, found {np.min(tensor)} to "
            f"{np.max(tensor)}"
        )
    return (tensor[..., np.newaxis] == np.arange(classes)).astype(np.int64)
