"""Results of native functions: arrays in the places of their shadows."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from jitcore.cuda.array import Array
from jitcore.cuda.pool import Block

__all__ = ["new_array", "with_replaced"]

_SEVERAL = (tuple, list)


def with_replaced(
    value: Any, kind: type, change: Callable[[Any], Any], made: dict[int, Any] | None = None
) -> Any:
    """A result with something else in the place of each object of a type, in tuples and lists, too.

    An object that stands there twice is replaced by one.
    """
    type_ = type(value)
    if type_ is kind:
        if made is None:
            return change(value)
        if id(value) not in made:
            made[id(value)] = change(value)
        return made[id(value)]
    if not isinstance(value, _SEVERAL):
        return value
    known = {} if made is None else made
    items = [with_replaced(item, kind, change, known) for item in value]
    if type_ is tuple:
        return tuple(items)
    if isinstance(value, tuple):
        return type_(*items)
    # Lists that are results are new, and those that are arguments hold none of these.
    if any(map(operator.is_not, items, value)):
        value[:] = items
    return value


def new_array(device: int, shadow: np.ndarray[Any, Any]) -> Array:
    """The array of a shadow whose base is the array's block."""
    block: Any = shadow.base
    assert type(block) is Block
    strides = None if shadow.flags.c_contiguous else shadow.strides
    made = Array(block.address, shadow.shape, strides, shadow.dtype, block, device)
    made.take_shadow(shadow)
    return made
