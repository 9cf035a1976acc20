"""What methods and slices of lists do, as loops over the array that holds the elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitcore.ir.ops import array_lists
from jitcore.ir.ops.library_functions import EQUAL_BY_IDENTITY
from jitcore.ir.reference import require

__all__ = [
    "LEFT_TO_PYTHON",
    "NOT_FINITE",
    "SMALL_PHASE",
    "count_of",
    "count_places",
    "end_place",
    "equal",
    "first_place",
    "index_of",
    "put_places",
    "require_count",
    "require_length",
    "require_numbers",
    "require_room",
    "require_truths",
    "require_type",
    "require_unchanged",
    "reordered",
    "repeated",
    "reverse",
    "sort",
    "sorted_places",
    "table",
    "taken",
]

_RUN = 16
"""So many elements are sorted by insertion before sorted runs are merged."""

MAX_SHARED = 2**26
"""So many elements may lie in each part of a heap of lists."""

_TOO_MANY = "shared lists with too many elements"
_MORE_OR_FEWER = "a list with more or fewer elements is unpacked"
_NEGATIVE = "__len__() should return >= 0"
_SHORTER = "a list gets shorter while it is visited"
_OTHER_TYPE = "an element of another type"
_RAGGED = "an array of lists of several lengths"
_NAN_COMPARED = "a NaN in a list that is compared is equal to itself"
_NO_TRUTHS = "a list of bools without elements as a subscript"
NOT_FINITE = "a function of cmath of an infinity or NaN"
SMALL_PHASE = "a phase that is nearly zero"
LEFT_TO_PYTHON = array_lists.LEFT_TO_PYTHON | {
    *(
        _TOO_MANY,
        _MORE_OR_FEWER,
        _SHORTER,
        _OTHER_TYPE,
        _RAGGED,
        _NAN_COMPARED,
        _NO_TRUTHS,
        NOT_FINITE,
        SMALL_PHASE,
        EQUAL_BY_IDENTITY,
    )
}
"""What only happens where Python can still begin anew."""

_IS_NAN = "a NaN in a list of floats is found by its identity, which only Python knows"


def first_place(start: int | None, length: int, step: int) -> int:
    """Where a slice begins: the first number in ``slice.indices``."""
    lowest = 0 if step > 0 else -1
    highest = length if step > 0 else length - 1
    if start is None:
        return lowest if step > 0 else highest
    if start < 0:
        return max(start + length, lowest)
    return min(start, highest)


def end_place(stop: int | None, length: int, step: int) -> int:
    """Where a slice ends: the second number in ``slice.indices``."""
    lowest = 0 if step > 0 else -1
    highest = length if step > 0 else length - 1
    if stop is None:
        return highest if step > 0 else lowest
    if stop < 0:
        return max(stop + length, lowest)
    return min(stop, highest)


def count_places(first: int, end: int, step: int) -> int:
    """How many places a slice selects."""
    require(step != 0, "ValueError", "slice step cannot be zero")
    if step > 0:
        return max((end - first + step - 1) // step, 0)
    return max((first - end - step - 1) // -step, 0)


def taken(items: Any, first: int, step: int, count: int) -> Any:
    """The elements at these places."""
    found = np.empty(count, items.dtype)
    for number in range(count):
        found[number] = items[first + number * step]
    return found


def table(references: Any, count: int, rows: Any, items: Any) -> Any:
    """The array of lists that all have one length, which is not 0."""
    length = rows[references[0] + 1] if count > 0 else 0
    require(length > 0, "NotImplementedError", _RAGGED)
    made = np.empty((count, length), items.dtype)
    for number in range(count):
        start = rows[references[number]]
        require(rows[references[number] + 1] == length, "NotImplementedError", _RAGGED)
        made[number] = items[start : start + length]
    return made


def repeated(items: Any, count: int) -> Any:
    """``items * count`` of a list."""
    size = items.size
    made = np.empty(size * max(count, 0), items.dtype)
    for number in range(count):
        made[number * size : (number + 1) * size] = items
    return made


def equal(items: Any, others: Any) -> bool:
    """``items == others`` of lists."""
    if items.size != others.size:
        return False
    for number in range(items.size):
        require(items[number] == items[number], "NotImplementedError", _NAN_COMPARED)
        if items[number] != others[number]:
            return False
    return True


def put_places(buffer: Any, first: int, step: int, count: int, items: Any, given: int) -> None:
    """Write the elements at these places."""
    require(given == count, "ValueError", "attempt to assign to an extended slice")
    for number in range(count):
        buffer[first + number * step] = items[number]


def reverse(items: Any) -> None:
    """``list.reverse``."""
    last = items.size - 1
    for number in range(items.size // 2):
        item = items[number]
        items[number] = items[last - number]
        items[last - number] = item


def index_of(items: Any, wanted: Any) -> int:
    """``list.index``."""
    require(wanted == wanted, "NotImplementedError", _IS_NAN)
    for number in range(items.size):
        if items[number] == wanted:
            return number
    require(False, "ValueError", "the value is not in list")
    return -1


def count_of(items: Any, wanted: Any) -> int:
    """``list.count``."""
    require(wanted == wanted, "NotImplementedError", _IS_NAN)
    found = 0
    for number in range(items.size):
        found += int(items[number] == wanted)
    return found


def require_numbers(items: Any) -> None:
    """Where a NaN comes to stand depends on the comparisons that are made."""
    for number in range(items.size):
        require(items[number] == items[number], "NotImplementedError", "a NaN is sorted")


def require_room(total: int) -> None:
    """Lists that are dropped stay where they are until the function ends."""
    require(total <= MAX_SHARED, "NotImplementedError", _TOO_MANY)


def require_length(count: int) -> None:
    """What ``__len__`` gives."""
    require(count >= 0, "ValueError", _NEGATIVE)


def require_count(length: int, count: int) -> None:
    """Unpacking."""
    require(length == count, "ValueError", _MORE_OR_FEWER)


def require_type(is_it: bool) -> None:
    """The sum of nothing is an int, also where all others are floats."""
    require(is_it, "NotImplementedError", _OTHER_TYPE)


def require_truths(count: int) -> None:
    """An empty list as a subscript selects nothing, by whichever elements it might have."""
    require(count > 0, "NotImplementedError", _NO_TRUTHS)


def require_unchanged(is_there: bool) -> None:
    """Where an iterator goes on after its list has become shorter is left to Python."""
    require(is_there, "NotImplementedError", _SHORTER)


def sorted_places(columns: Any, descending: bool) -> Any:
    """Where the elements of a list of tuples stand in their order, by a column for each number."""
    places = np.arange(columns[0].size)
    sort(places, descending, columns)
    return places


def reordered(items: Any, places: Any) -> None:
    """Put the elements of these places one after the other."""
    before = items.copy()
    for number in range(items.size):
        items[number] = before[places[number]]


def sort(items: Any, descending: bool, columns: Any) -> None:
    """``list.sort``: a stable merge sort, of numbers or of places in columns, if there are any."""
    size = items.size
    for low in range(0, size, _RUN):
        for number in range(low + 1, min(low + _RUN, size)):
            item = items[number]
            place = number
            while place > low and _precedes(item, items[place - 1], descending, columns):
                items[place] = items[place - 1]
                place -= 1
            items[place] = item
    if size > _RUN:
        _merge_runs(items, size, descending, columns)


def _merge_runs(items: Any, size: int, descending: bool, columns: Any) -> None:
    """Merge sorted runs, two by two, until there is one."""
    source = items.copy()
    target = np.empty_like(source)
    width = _RUN
    while width < size:
        for low in range(0, size, 2 * width):
            middle, high = min(low + width, size), min(low + 2 * width, size)
            _merge(source, target, (low, middle, high), descending, columns)
        source, target = target, source
        width *= 2
    items[:] = source


def _precedes(first: Any, second: Any, descending: bool, columns: Any) -> Any:
    """Whether one element comes before another one that stood before it."""
    if descending:
        first, second = second, first
    if len(columns) == 0:
        return first < second
    for column in columns:
        if column[first] != column[second]:
            return column[first] < column[second]
    return False


def _merge(source: Any, target: Any, ends: Any, descending: bool, columns: Any) -> None:
    """Merge two sorted runs, which end where the next one begins."""
    low, middle, high = ends
    left, right = low, middle
    for place in range(low, high):
        is_right = left >= middle
        if not is_right and right < high:
            is_right = _precedes(source[right], source[left], descending, columns)
        if is_right:
            target[place] = source[right]
            right += 1
        else:
            target[place] = source[left]
            left += 1
