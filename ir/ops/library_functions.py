"""Functions of Python's ``heapq`` and ``bisect``, and its deques, as work on lists.

A heap is the list of its elements, in which no element is greater than those at ``2 * i + 1`` and
``2 * i + 2`` (J. W. J. Williams, Algorithm 232, Communications of the ACM 7, 1964).  Where elements
stand is seen in the list, so these make the steps that Python makes: what is taken from the top is
replaced by the last element, which goes down along the smaller ones to the end, then up to its
place.
"""

from __future__ import annotations

import bisect
import collections
import heapq
from collections.abc import Callable
from typing import Any

from jitcore.ir.reference import require

__all__ = ["DEFINITIONS", "EQUAL_BY_IDENTITY", "Deque"]

EQUAL_BY_IDENTITY = "a NaN in a tuple that is compared is equal to itself"
"""What only happens where Python can still begin anew."""


def precedes(first: Any, second: Any) -> Any:
    """``first < second``, of tuples by their first elements that differ."""
    if isinstance(first, tuple) and type(first).__lt__ is tuple.__lt__:
        for one, other in zip(first, second):  # noqa: B905
            require(one == one, "NotImplementedError", EQUAL_BY_IDENTITY)
            if not one == other:  # noqa: SIM201  # what a class says of ``!=`` does not count
                return one < other
        return len(first) < len(second)
    return first < second


def _put_up(heap: Any, item: Any, place: int, top: int) -> None:
    """Put an element to a place, or above, where greater ones go down for it."""
    while place > top:
        above = (place - 1) >> 1
        other = heap[above]
        if not precedes(item, other):
            break
        heap[place] = other
        place = above
    heap[place] = item


def _put_down(heap: Any, item: Any, top: int) -> None:
    """Put an element below a free place: smaller ones go up to the end, then it is put up."""
    place, count = top, len(heap)
    below = 2 * top + 1
    while below < count:
        if below + 1 < count and not precedes(heap[below], heap[below + 1]):
            below += 1
        heap[place] = heap[below]
        place = below
        below = 2 * place + 1
    _put_up(heap, item, place, top)


def heappush(heap: Any, item: Any) -> None:
    heap.append(item)
    _put_up(heap, item, len(heap) - 1, 0)


def heappop(heap: Any) -> Any:
    require(len(heap) > 0, "IndexError", "index out of range")
    last = heap.pop()
    if len(heap) == 0:
        return last
    found = heap[0]
    _put_down(heap, last, 0)
    return found


def heapreplace(heap: Any, item: Any) -> Any:
    require(len(heap) > 0, "IndexError", "index out of range")
    found = heap[0]
    _put_down(heap, item, 0)
    return found


def heappushpop(heap: Any, item: Any) -> Any:
    if len(heap) == 0:
        return item
    found = heap[0]
    if not precedes(found, item):
        return item
    _put_down(heap, item, 0)
    return found


def heapify(heap: Any) -> None:
    for number in range(len(heap) // 2):
        place = len(heap) // 2 - 1 - number
        _put_down(heap, heap[place], place)


def bisect_left(a: Any, x: Any, lo: int = 0, hi: int | None = None) -> int:
    low, high = _bounds(a, lo, hi)
    while low < high:
        middle = (low + high) // 2
        if precedes(a[middle], x):
            low = middle + 1
        else:
            high = middle
    return low


def bisect_right(a: Any, x: Any, lo: int = 0, hi: int | None = None) -> int:
    low, high = _bounds(a, lo, hi)
    while low < high:
        middle = (low + high) // 2
        if precedes(x, a[middle]):
            high = middle
        else:
            low = middle + 1
    return low


def _bounds(a: Any, lo: int, hi: int | None) -> tuple[int, int]:
    require(lo >= 0, "ValueError", "lo must be non-negative")
    # That is what stands for None in Python's own code.
    return lo, len(a) if hi is None or hi == -1 else hi


def insort_left(a: Any, x: Any, lo: int = 0, hi: int | None = None) -> None:
    a.insert(bisect_left(a, x, lo, hi), x)


def insort_right(a: Any, x: Any, lo: int = 0, hi: int | None = None) -> None:
    a.insert(bisect_right(a, x, lo, hi), x)


class Deque:
    """``collections.deque``: a list, of which the first elements may have been taken away."""

    def __init__(self, iterable: Any = (), maxlen: int | None = None) -> None:
        self.items = list(iterable)
        self.first = 0
        self.maxlen = maxlen
        if maxlen is not None:
            require(maxlen >= 0, "ValueError", "maxlen must be non-negative")
            if len(self.items) > maxlen:
                del self.items[: len(self.items) - maxlen]

    def append(self, item: Any) -> None:
        self.items.append(item)
        if self.maxlen is not None and len(self.items) - self.first > self.maxlen:
            self._drop_first()

    def appendleft(self, item: Any) -> None:
        if self.first == 0:
            items = [item]
            for _ in range(len(self.items) + _ROOM):
                items.append(item)
            self.first = len(items)
            items.extend(self.items)
            self.items = items
        self.first -= 1
        self.items[self.first] = item
        if self.maxlen is not None and len(self.items) - self.first > self.maxlen:
            self.items.pop()

    def extend(self, iterable: Any) -> None:
        for item in iterable:
            self.append(item)

    def pop(self) -> Any:
        require(self.first < len(self.items), "IndexError", "pop from an empty deque")
        return self.items.pop()

    def popleft(self) -> Any:
        require(self.first < len(self.items), "IndexError", "pop from an empty deque")
        item = self.items[self.first]
        self._drop_first()
        return item

    def _drop_first(self) -> None:
        """Each element is moved once at most, since more have gone than are left."""
        self.first += 1
        if 2 * self.first > len(self.items):
            del self.items[: self.first]
            self.first = 0

    def clear(self) -> None:
        self.items.clear()
        self.first = 0

    def __len__(self) -> int:
        return len(self.items) - self.first

    def __getitem__(self, index: int) -> Any:
        return self.items[self._place(index)]

    def __setitem__(self, index: int, item: Any) -> None:
        self.items[self._place(index)] = item

    def _place(self, index: int) -> int:
        count = len(self.items) - self.first
        place = index + count if index < 0 else index
        require(0 <= place < count, "IndexError", "deque index out of range")
        return self.first + place


_ROOM = 4
"""For so many elements a short deque has room at its beginning, once it needs some."""

DEFINITIONS: dict[int, tuple[Any, Callable[..., Any]]] = {
    id(one): (one, definition)
    for one, definition in (
        (heapq.heappush, heappush),
        (heapq.heappop, heappop),
        (heapq.heapreplace, heapreplace),
        (heapq.heappushpop, heappushpop),
        (heapq.heapify, heapify),
        (bisect.bisect_left, bisect_left),
        (bisect.bisect_right, bisect_right),
        (bisect.insort_left, insort_left),
        (bisect.insort_right, insort_right),
        (collections.deque, Deque),
    )
}
"""What there is, by its identity since other callables need not be hashable, and what it does."""
