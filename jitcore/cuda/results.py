"""Results of native functions: arrays in the places of their shadows."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from jitcore.cuda.array import Array
from jitcore.cuda.pool import Block

__all__ = ["new_array", "with_replaced"]


def with_replaced(
    value: Any, kind: type, change: Callable[[Any], Any], made: dict[int, Any] | None = None
) -> Any:
    """A result with something else in the place of each object of a type, in tuples and lists, too.

    An object that stands there twice is replaced by one.
    """
    if type(value) is kind:
        known = {} if made is None else made
        if id(value) not in known:
            known[id(value)] = change(value)
        return known[id(value)]
    if not isinstance(value, tuple | list):
        return value
    made = {} if made is None else made
    items = [with_replaced(item, kind, change, made) for item in value]
    if isinstance(value, list):
        # Those that are results are new, and those that are arguments hold none of these.
        if any(map(operator.is_not, items, value)):
            value[:] = items
        return value
    return tuple(items) if type(value) is tuple else type(value)(*items)


def new_array(device: int, shadow: np.ndarray[Any, Any]) -> Array:
    """The array of a shadow whose base is the array's block."""
    block: Any = shadow.base
    assert type(block) is Block
    strides = None if shadow.flags.c_contiguous else shadow.strides
    made = Array(block.address, shadow.shape, strides, shadow.dtype, block, device)
    made.take_shadow(shadow)
    return made
