"""What functions check of their arguments, and the errors that say what was expected."""

from __future__ import annotations

import numpy as np

from jitcore.nn.arrays import Array, Size

__all__ = [
    "IMAGE_FORMS",
    "check_axes",
    "check_channels",
    "check_dtype",
    "reduced",
    "sizes",
    "written",
]

IMAGE_FORMS = (
    "(C, L) or (N, C, L)",
    "(C, H, W) or (N, C, H, W)",
    "(C, D, H, W) or (N, C, D, H, W)",
)
"""The shapes of images with one, two and three spatial axes."""


def sizes(value: Size, rank: int, what: str) -> tuple[int, ...]:
    """One number for each of ``rank`` axes.

    Parameters
    ----------
    value : int or sequence of int
    rank : int
    what : str
        The function and its argument, for the error: ``"conv2d: stride"``.

    Raises
    ------
    ValueError
        There are neither one nor ``rank`` numbers.
    """
    if isinstance(value, (int, np.integer)):
        return (int(value),) * rank
    if len(value) == 1:
        return (int(value[0]),) * rank
    if len(value) != rank:
        raise ValueError(f"{what} must be an int or {rank} ints, found {value}")
    return tuple(value)


def check_axes(what: str, input: Array, axes: int, form: str) -> bool:
    """Whether the input has a batch axis before the ``axes`` that it must have.

    Raises
    ------
    ValueError
        It has neither ``axes`` nor ``axes + 1`` axes.
    """
    if input.ndim != axes and input.ndim != axes + 1:
        raise ValueError(f"{what}: expected input of shape {form}, found {input.shape}")
    return input.ndim == axes + 1


def check_channels(what: str, input: Array, axis: int, channels: int) -> None:
    """Raise unless the input has this many channels on this axis."""
    if input.shape[axis] != channels:
        raise ValueError(
            f"{what}: expected {channels} channels on axis {axis}, found input of shape "
            f"{input.shape}"
        )


def check_dtype(what: str, input: Array, weight: Array | None, name: str = "weight") -> None:
    """Raise unless input and weight have one dtype.

    NumPy would compute in the wider one: a float64 input then makes a float32 model twice as slow
    from there on, and nothing says so.
    """
    if weight is not None and input.dtype != weight.dtype:
        raise TypeError(
            f"{what}: the input is {input.dtype} and {name} is {weight.dtype}; convert one with "
            f"input.astype(np.{weight.dtype}) or module.to(np.{input.dtype})"
        )


def written(result: Array, input: Array, inplace: bool) -> Array:
    """The result, or the input with the result written into it."""
    if inplace:
        input[...] = result
        return input
    return result


def reduced(values: Array, reduction: str, what: str) -> Array:
    """A loss from its elements: ``"none"``, ``"mean"`` or ``"sum"`` of them."""
    if reduction == "mean":
        return np.mean(values)  # type: ignore[return-value]
    if reduction == "sum":
        return np.sum(values)
    if reduction != "none":
        raise ValueError(f"{what}: reduction must be 'none', 'mean' or 'sum', found {reduction!r}")
    return values
