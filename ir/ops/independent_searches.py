"""Searches for devices, where each thread looks for a key of its own.

NumPy begins each search where the one before has ended.  In sorted arrays that leads to the same
places; in others it decides what is found, and Python is left to search them.  Once something has
been written, that cannot be, and such an array is an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitcore.ir.reference import require

__all__ = ["digitized", "first_above", "first_not_below", "interpolated"]


def _require_order(array: Any) -> None:
    before, after = array[:-1], array[1:]
    # NaN come last.
    falls = (after < before) | ((before != before) & (after == after))
    require(not falls.any(), "NotImplementedError", "a search on a device in an unsorted array")


def _place_not_below(array: Any, key: Any) -> Any:
    low, high = 0, array.size
    while low < high:
        middle = low + (high - low >> 1)
        value = array[middle]
        if value < key or (key != key and value == value):
            low = middle + 1
        else:
            high = middle
    return low


def _place_above(array: Any, key: Any) -> Any:
    low, high = 0, array.size
    while low < high:
        middle = low + (high - low >> 1)
        value = array[middle]
        if key < value or (value != value and key == key):
            high = middle
        else:
            low = middle + 1
    return low


def first_not_below(array: Any, wanted: Any) -> Any:
    """``np.searchsorted`` on the left, of keys in an array of their dtype."""
    _require_order(array)
    found = np.empty(wanted.shape, np.intp)
    places, keys = found.reshape(-1), wanted.ravel()
    for number in range(keys.size):
        places[number] = _place_not_below(array, keys[number])
    return found


def first_above(array: Any, wanted: Any) -> Any:
    """``np.searchsorted`` on the right."""
    _require_order(array)
    found = np.empty(wanted.shape, np.intp)
    places, keys = found.reshape(-1), wanted.ravel()
    for number in range(keys.size):
        places[number] = _place_above(array, keys[number])
    return found


def digitized(x: Any, bins: Any, doubles: Any, side: Any) -> Any:
    """``np.digitize``; NumPy compares the bins with each other as float64."""
    before, after = doubles[:-1], doubles[1:]
    rises, falls = (before < after).any(), (before > after).any()
    require(
        not (rises and falls),
        "ValueError",
        "bins must be monotonically increasing or decreasing",
    )
    known = not (doubles != doubles).any()
    require(known, "NotImplementedError", "np.digitize on a device with bins that are NaN")
    if falls:
        return len(bins) - np.searchsorted(bins[::-1], x, side)
    return np.searchsorted(bins, x, side)


def interpolated(wanted: Any, xp: Any, fp: Any, left: Any, right: Any) -> Any:
    """``np.interp`` of float64."""
    size = len(xp)
    require(size == len(fp), "ValueError", "fp and xp are not of the same length.")
    require(size > 0, "ValueError", "array of sample points is empty")
    _require_order(xp)
    require(xp[size - 1] == xp[size - 1], "NotImplementedError", "np.interp on a device from NaN")
    found = np.empty(wanted.shape)
    values, keys = found.reshape(-1), wanted.ravel()
    before = fp[0] if left is None else left
    after = fp[size - 1] if right is None else right
    for number in range(keys.size):
        key = keys[number]
        values[number] = _value_at(key, xp, fp, before, after)
    return found


def _value_at(key: Any, xp: Any, fp: Any, before: Any, after: Any) -> Any:
    """NumPy's own choice between the lines through both samples (``compiled_base.c``)."""
    last = len(xp) - 1
    if key != key:
        return fp[0] if last == 0 else key
    if key > xp[last]:
        return after
    place = _place_above(xp, key) - 1
    if place < 0:
        return before
    if place == last or xp[place] == key:
        return fp[place]
    slope = (fp[place + 1] - fp[place]) / (xp[place + 1] - xp[place])
    value = slope * (key - xp[place]) + fp[place]
    if value != value:
        value = slope * (key - xp[place + 1]) + fp[place + 1]
        if value != value and fp[place] == fp[place + 1]:
            value = fp[place]
    return value
