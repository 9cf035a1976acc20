"""The order of an array's axes in memory, as signatures name it and ``jc_empty`` takes it.

It has a number for each axis: a larger one where the stride is larger, 0 where the stride is 0 or
is never used because the extent is 1.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["axis_order", "order_number", "ranked"]


def axis_order(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The order of the axes of an array.

    Examples
    --------
    >>> axis_order((4, 3, 1), (8, -64, 8))
    (1, 2, 0)
    """
    lengths = [
        0 if extent == 1 else abs(stride) for extent, stride in zip(shape, strides, strict=True)
    ]
    return ranked(lengths)


def ranked(numbers: Sequence[int]) -> tuple[int, ...]:
    """The place of each number among those that are not 0, which stays 0.

    Examples
    --------
    >>> ranked((40, 0, 8, 40))
    (2, 0, 1, 2)
    """
    known = sorted({number for number in numbers if number})
    return tuple(known.index(number) + 1 if number else 0 for number in numbers)


def order_number(axes: Sequence[int], itemsize: int) -> int:
    """What tells ``jc_empty`` to make an array with these axes, from the largest stride on.

    It is 0 for C order and 1 for Fortran order.  Otherwise the lowest byte is the size of an
    element, and then come the axes from the smallest stride on, in four bits each.
    """
    if list(axes) == sorted(axes):
        return 0
    if list(axes) == sorted(axes, reverse=True):
        return 1
    number = sum(axis << 4 * place for place, axis in enumerate(reversed(axes)))
    return number << 8 | itemsize
