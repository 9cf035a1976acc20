"""What built-ins do with each element of something whose length only a run tells."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jitcore.ir.graph import Value
from jitcore.ir.ops.op import Untypable
from jitcore.ir.reference import require
from jitcore.ir.types import COMPLEX, FLOAT, INT, LocalListType, TensorType, Type

__all__ = [
    "SUMS_ARE_COMPENSATED",
    "all_of",
    "any_of",
    "corrected",
    "greatest",
    "greatest_or",
    "is_in",
    "is_long",
    "lost",
    "refuse_complex",
    "require_step",
    "smallest",
    "smallest_or",
    "total_of",
]


def is_long(x: Value) -> bool:
    """Whether a loop visits the elements of a value: of an array, a range or a local list.

    Raises
    ------
    Untypable
        It is an array of several dimensions: what Python does with its rows is left to Python.
    """
    if isinstance(x.type, TensorType):
        if x.type.rank != 1:
            raise Untypable("the rows of an array")
        return True
    if isinstance(x.type, LocalListType):
        return x.type.count is None
    return _is_open_range(x)


def _is_open_range(x: Value) -> bool:
    node = x.node
    return (
        node is not None
        and node.kind == "prim::range"
        and not all(value.constant is not None for value in node.inputs)
    )


SUMS_ARE_COMPENSATED = sys.version_info >= (3, 12)
"""Whether Python's ``sum`` makes up for the rounding of floats."""


def total_of(x: Value, start: Value) -> Callable[..., Any]:
    """What ``sum`` does with something long."""
    if not isinstance(x.type, LocalListType):
        return total
    refuse_complex(x.type.element, start.type)
    if not SUMS_ARE_COMPENSATED or x.type.element != FLOAT:
        return total
    if start.type == INT:
        return compensated_total_from_int
    return compensated_total if start.type == FLOAT else total


def refuse_complex(*types: Type | None) -> None:
    """Leave sums of complex numbers to Python where it makes up for their rounding, too.

    Raises
    ------
    Untypable
        It does.
    """
    if COMPLEX in types and sys.version_info >= (3, 14):
        raise Untypable("Python's sum of complex numbers makes up for rounding")


_OLD = sys.version_info < (3, 12)
_NO_MIN = "min() arg is an empty sequence" if _OLD else "min() iterable argument is empty"
_NO_MAX = "max() arg is an empty sequence" if _OLD else "max() iterable argument is empty"


def total(x: Iterable[Any], start: Any) -> Any:
    """``sum``."""
    for one in x:
        start = start + one
    return start


def lost(total: float, one: float, new: float) -> float:
    """What the sum of two floats has lost by rounding; Neumaier's form of Kahan's summation."""
    if abs(total) >= abs(one):
        return (total - new) + one
    return (one - new) + total


def corrected(total: float, error: float) -> float:
    """A sum with what was lost; without it where that is not finite, or would change -0.0."""
    if error != 0.0 and error - error == 0.0:
        return total + error
    return total


def compensated_total(x: Sequence[float], start: float) -> float:
    """``sum`` of floats, from a float on, as ``builtin_sum_impl`` of CPython 3.12 has it."""
    total, error = start, 0.0
    for one in x:
        new = total + one
        error = error + lost(total, one, new)
        total = new
    return corrected(total, error)


def compensated_total_from_int(x: Sequence[float], start: int) -> Any:
    """The same from an int on: the first addition is an ordinary one."""
    if len(x) == 0:
        return start
    total, error = start + x[0], 0.0
    for i in range(1, len(x)):
        one = x[i]
        new = total + one
        error = error + lost(total, one, new)
        total = new
    return corrected(total, error)


def smallest(x: Sequence[Any]) -> Any:
    """``min``."""
    require(len(x) > 0, "ValueError", _NO_MIN)
    found = x[0]
    for one in x:
        if one < found:
            found = one
    return found


def greatest(x: Sequence[Any]) -> Any:
    """``max``."""
    require(len(x) > 0, "ValueError", _NO_MAX)
    found = x[0]
    for one in x:
        if one > found:
            found = one
    return found


def smallest_or(x: Sequence[Any], default: Any) -> Any:
    """``min`` with a default."""
    if len(x) == 0:
        return default
    found = x[0]
    for one in x:
        if one < found:
            found = one
    return found


def greatest_or(x: Sequence[Any], default: Any) -> Any:
    """``max`` with a default."""
    if len(x) == 0:
        return default
    found = x[0]
    for one in x:
        if one > found:
            found = one
    return found


def require_step(step: int) -> None:
    """What ``range`` asks of its step."""
    require(step != 0, "ValueError", "range() arg 3 must not be zero")


def any_of(x: Iterable[Any]) -> bool:
    """``any``."""
    for one in x:  # noqa: SIM110
        if one:
            return True
    return False


def all_of(x: Iterable[Any]) -> bool:
    """``all``."""
    for one in x:  # noqa: SIM110
        if not one:
            return False
    return True


def is_in(x: Any, container: Iterable[Any]) -> bool:
    """``x in container`` for numbers that are equal to themselves."""
    for one in container:  # noqa: SIM110
        if one == x:
            return True
    return False
