"""What ``sort``, ``sorted``, ``min`` and ``max`` do with a ``key``, as work on lists.

Keys are sorted together with the places of their elements.  Places that count down where the order
is descending keep elements of one key in the order that they had, as Python does.
"""

from __future__ import annotations

from typing import Any

from jitcore.ir.reference import require

__all__ = ["greatest_by", "least_by", "sort_by", "sort_down_by", "sorted_by", "sorted_down_by"]


def sorted_by(values: Any, key: Any) -> Any:
    items = list(values)
    keys = []
    for place in range(len(items)):
        keys.append((key(items[place]), place))
    keys.sort()
    return [items[place] for _, place in keys]


def sorted_down_by(values: Any, key: Any) -> Any:
    items = list(values)
    keys = []
    for place in range(len(items)):
        keys.append((key(items[place]), -place))
    keys.sort(reverse=True)
    return [items[-place] for _, place in keys]


def sort_by(values: Any, key: Any) -> None:
    items = values[:]
    # Python's list is empty while it asks for keys.
    values.clear()
    found = sorted_by(items, key)
    require(len(values) == 0, "ValueError", "list modified during sort")
    values.extend(found)


def sort_down_by(values: Any, key: Any) -> None:
    items = values[:]
    values.clear()
    found = sorted_down_by(items, key)
    require(len(values) == 0, "ValueError", "list modified during sort")
    values.extend(found)


def least_by(values: Any, key: Any) -> Any:
    items = list(values)
    require(len(items) > 0, "ValueError", "min() iterable argument is empty")
    best = items[0]
    least = key(best)
    for place in range(1, len(items)):
        found = key(items[place])
        if found < least:
            best = items[place]
            least = found
    return best


def greatest_by(values: Any, key: Any) -> Any:
    items = list(values)
    require(len(items) > 0, "ValueError", "max() iterable argument is empty")
    best = items[0]
    most = key(best)
    for place in range(1, len(items)):
        found = key(items[place])
        if found > most:
            best = items[place]
            most = found
    return best
