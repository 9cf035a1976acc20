"""bfloat16, the upper half of a float32, which NumPy has where ml_dtypes was imported.

Compiled code keeps arrays of it and computes in float32, rounding after each operation, as
ml_dtypes does.  A typed graph has bfloat16 in casts from and to float32, and in what moves elements
from one place to another.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from jitcore.ir.types import SUPPORTED

__all__ = ["bfloat16", "computed_in", "is_bfloat16", "is_stored"]

_CHAR, _NAME = "E", "bfloat16"


def bfloat16() -> np.dtype[Any]:
    """The dtype.

    Raises
    ------
    TypeError
        There is no ml_dtypes; the message says what to install.
    """
    if _NAME not in np.sctypeDict:
        try:
            importlib.import_module("ml_dtypes")
        except ImportError as error:
            raise TypeError(
                "NumPy has bfloat16 by ml_dtypes; install it with pip install ml_dtypes, or "
                "convert the array before"
            ) from error
    return np.dtype(_NAME)


def is_bfloat16(dtype: np.dtype[Any]) -> bool:
    return dtype.char == _CHAR and dtype.name == _NAME


def is_stored(dtype: np.dtype[Any]) -> bool:
    """Whether compiled code for some target can keep arrays of a dtype."""
    return (dtype.char in SUPPORTED and dtype.isnative) or is_bfloat16(dtype)


def computed_in(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype that numbers of a dtype are computed in."""
    return np.dtype(np.float32) if is_bfloat16(dtype) else dtype
