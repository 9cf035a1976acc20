"""Copies of a call's arguments that overlap in memory exactly as the originals do."""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

__all__ = ["arrays_in", "copy_arguments"]

Array = np.ndarray[Any, Any]
_CACHE_LINE = 64
"""Copies lie at the same place within a cache line, so that alignment is the same."""


def arrays_in(value: Any) -> Iterator[Array]:
    """All arrays in a value, those in tuples, lists and dicts too."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from arrays_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from arrays_in(item)


def copy_arguments(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copy arguments: what is one object, or shares memory, does so in the copy.

    Arrays keep their strides and whether they may be written; tuples, lists and dicts are copied;
    anything else is passed on as it is.
    """
    found = {id(array): array for array in arrays_in(args)}
    copies: dict[int, Any] = {}
    for group in _overlapping(list(found.values())):
        copies.update(_copy_group(group))
    return tuple(_rebuild(arg, copies) for arg in args)


def _overlapping(arrays: list[Array]) -> list[list[Array]]:
    """The arrays in groups; arrays whose memory lies within common bounds are in one group."""
    groups: list[list[Array]] = []
    end = -1
    for array in sorted(arrays, key=lambda one: byte_bounds(one)[0]):
        low, high = byte_bounds(array)
        if groups and low < end:
            groups[-1].append(array)
        else:
            groups.append([array])
        end = max(end, high)
    return groups


def _copy_group(group: list[Array]) -> dict[int, Array]:
    if len(group) == 1:
        (array,) = group
        if array.dtype.hasobject or type(array) is not np.ndarray or array.size == 0:
            return {id(array): copy.deepcopy(array)}
        if array.flags.owndata and (array.flags.c_contiguous or array.flags.f_contiguous):
            twin = array.copy(order="K")
            twin.flags.writeable = array.flags.writeable
            return {id(array): twin}
    return _copy_memory(group)


def _copy_memory(group: list[Array]) -> dict[int, Array]:
    low = min(byte_bounds(array)[0] for array in group)
    high = max(byte_bounds(array)[1] for array in group)
    area = np.empty(high - low + 2 * _CACHE_LINE, np.uint8)
    shift = (low - area.ctypes.data) % _CACHE_LINE
    area[shift : shift + high - low] = np.frombuffer(ctypes.string_at(low, high - low), np.uint8)
    copies: dict[int, Array] = {}
    for array in group:
        offset = array.__array_interface__["data"][0] - low + shift
        twin = np.ndarray(array.shape, array.dtype, area, offset, array.strides)
        twin.flags.writeable = array.flags.writeable
        copies[id(array)] = twin
    return copies


def _rebuild(value: Any, copies: dict[int, Any]) -> Any:
    if id(value) in copies:
        return copies[id(value)]
    result = value
    if type(value) is tuple:
        result = tuple(_rebuild(item, copies) for item in value)
    elif isinstance(value, tuple):
        result = type(value)(*(_rebuild(item, copies) for item in value))
    elif type(value) is list:
        result = [_rebuild(item, copies) for item in value]
    elif type(value) is dict:
        result = {key: _rebuild(item, copies) for key, item in value.items()}
    if result is not value:
        copies[id(value)] = result
    return result
