"""What NumPy makes of lists of arrays whose length only a run tells, as loops over the list."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.ops.op import Call, Untypable
from jitcore.ir.reference import require
from jitcore.ir.types import LocalListType, TensorType, is_array

__all__ = [
    "LEFT_TO_PYTHON",
    "have_same_extents",
    "joined",
    "long_list",
    "rank_in",
    "stacked",
]

_NOTHING_JOINED = "no arrays become one"
_SHAPES_DIFFER = "arrays of several shapes become one"
LEFT_TO_PYTHON = frozenset({_NOTHING_JOINED, _SHAPES_DIFFER})
"""What Python raises when it begins anew."""


def long_list(call: Call, name: str) -> Value | None:
    """The operand of this name where it is a list of so many arrays as only a run tells."""
    items = call.value(name)
    if not isinstance(items.type, LocalListType) or items.type.count is not None:
        return None
    if not is_array(items.type.element):
        raise Untypable(f"a list of {items.type.element} becomes one array")
    if any(one.name == "dtype" for one in call.parameters) and call.static("dtype") is not None:
        raise Untypable("a list of arrays becomes one of another dtype")
    return items


def rank_in(items: Value) -> int:
    """The rank of the arrays in such a list."""
    assert isinstance(items.type, LocalListType)
    element = items.type.element
    assert isinstance(element, TensorType) and element.rank is not None
    return element.rank


def have_same_extents(items: Any, others: Any) -> bool:
    """Whether arrays at the same places of two lists have the same shapes."""
    is_same = True
    for number in range(min(len(items), len(others))):
        is_same = is_same and items[number].shape == others[number].shape
    return is_same


def stacked(items: Any, axis: int) -> Any:
    """``np.stack(items, axis)``."""
    require(len(items) > 0, "NotImplementedError", _NOTHING_JOINED)
    shape = items[0].shape
    extents = shape[:axis] + (len(items),) + shape[axis:]  # noqa: RUF005  # a list, for us
    made = np.empty(extents, items[0].dtype)
    places = np.moveaxis(made, axis, 0)
    for number in range(len(items)):
        item = items[number]
        require(item.shape == shape, "NotImplementedError", _SHAPES_DIFFER)
        places[number] = item
    return made


def joined(items: Any, axis: int) -> Any:
    """``np.concatenate(items, axis)``."""
    require(len(items) > 0, "NotImplementedError", _NOTHING_JOINED)
    shape = items[0].shape
    length = 0
    for item in items:
        length += item.shape[axis]
    extents = shape[:axis] + (length,) + shape[axis + 1 :]  # noqa: RUF005  # a list, for us
    made = np.empty(extents, items[0].dtype)
    places = np.moveaxis(made, axis, 0)
    start = 0
    for item in items:
        part = np.moveaxis(item, axis, 0)
        require(part.shape[1:] == places.shape[1:], "NotImplementedError", _SHAPES_DIFFER)
        places[start : start + part.shape[0]] = part
        start += part.shape[0]
    return made
