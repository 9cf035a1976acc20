"""Padding layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from jitcore.nn import functional as F
from jitcore.nn.arrays import Array, Size
from jitcore.nn.module import Module

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class _Pad(Module):
    """Pads the last axes.

    Parameters
    ----------
    padding : int or sequence of int
        The same on all sides, or before and after the last axis, then the axis before it, and so
        on.
    """

    _rank: ClassVar[int]
    _mode: ClassVar[str]

    def __init__(self, padding: Size) -> None:
        super().__init__()
        if isinstance(padding, (int, np.integer)):
            self.padding: tuple[int, ...] = (int(padding),) * (2 * self._rank)
        else:
            self.padding = _checked(self._get_name(), padding, 2 * self._rank)

    def forward(self, input: Array) -> Array:
        if input.ndim < self._rank + 1:
            raise ValueError(
                f"{self._get_name()}: expected input with {self._rank + 1} or more axes, found "
                f"{input.shape}"
            )
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


def _checked(name: str, padding: Sequence[int], count: int) -> tuple[int, ...]:
    if len(padding) != count:
        raise ValueError(f"{name}: padding must be an int or {count} ints, found {padding}")
    return tuple(padding)


class CircularPad1d(_Pad):
    """The last axis goes on with its other end."""

    _rank = 1
    _mode = "circular"


class CircularPad2d(_Pad):
    """The last two axes go on with their other ends."""

    _rank = 2
    _mode = "circular"


class CircularPad3d(_Pad):
    """The last three axes go on with their other ends."""

    _rank = 3
    _mode = "circular"


class ReflectionPad1d(_Pad):
    """The last axis is mirrored at its ends."""

    _rank = 1
    _mode = "reflect"


class ReflectionPad2d(_Pad):
    """The last two axes are mirrored at their ends."""

    _rank = 2
    _mode = "reflect"


class ReflectionPad3d(_Pad):
    """The last three axes are mirrored at their ends."""

    _rank = 3
    _mode = "reflect"


class ReplicationPad1d(_Pad):
    """The ends of the last axis are repeated."""

    _rank = 1
    _mode = "replicate"


class ReplicationPad2d(_Pad):
    """The ends of the last two axes are repeated."""

    _rank = 2
    _mode = "replicate"


class ReplicationPad3d(_Pad):
    """The ends of the last three axes are repeated."""

    _rank = 3
    _mode = "replicate"


class ZeroPad1d(_Pad):
    """Zeros at the ends of the last axis."""

    _rank = 1
    _mode = "constant"


class ZeroPad2d(_Pad):
    """Zeros at the ends of the last two axes."""

    _rank = 2
    _mode = "constant"


class ZeroPad3d(_Pad):
    """Zeros at the ends of the last three axes."""

    _rank = 3
    _mode = "constant"


class _ConstantPad(_Pad):
    _mode = "constant"

    def __init__(self, padding: Size, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Array) -> Array:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """One value at the ends of the last axis."""

    _rank = 1


class ConstantPad2d(_ConstantPad):
    """One value at the ends of the last two axes."""

    _rank = 2


class ConstantPad3d(_ConstantPad):
    """One value at the ends of the last three axes."""

    _rank = 3
