"""The annotations that layers and functions share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

__all__ = ["Array", "ArrayOrPair", "DTypeLike", "Size"]

Array = npt.NDArray[Any]
"""An array, or a NumPy scalar where a reduction gives one."""

ArrayOrPair = Any
"""An array, or a tuple of two where places are asked for besides."""

DTypeLike = npt.DTypeLike

Size = int | Sequence[int]
"""One number for every spatial axis, or one for each."""
