"""What asks, before an operation whose exception is caught, whether it raises one.

`caught_errors` puts ``prim::raises`` where the program catches exceptions.  Of values whose
operations raise nothing, and of those that Python knows more of, it is False.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from jitcore.ir.graph import Node, Value
from jitcore.ir.specialize.branches import BranchBuilder
from jitcore.ir.specialize.by_value import is_shared
from jitcore.ir.specialize.caught_errors import DIVISIONS
from jitcore.ir.specialize.lists.list_heap import shared_length
from jitcore.ir.specialize.lists.list_parts import as_place, is_list, length_of
from jitcore.ir.types import COMPLEX, INT, TensorType, TupleType, is_number

__all__ = ["ask_first"]

_LARGEST_EXPONENT = 709.782712893384
"""``log(np.finfo(float).max)``: of greater numbers ``math.exp`` is an OverflowError."""


def _divides_by_zero(worker: BranchBuilder, inputs: Sequence[Value]) -> Value | None:
    x, y = inputs
    if not (is_number(x.type) and is_number(y.type)) or COMPLEX in (x.type, y.type):
        return None
    return worker.op("prim::eq", y, 0)


def _is_outside(worker: BranchBuilder, inputs: Sequence[Value]) -> Value | None:
    """Whether an index is out of range, or one of several in a tuple."""
    container, index, *_ = inputs
    is_tuple = isinstance(index.type, TupleType)
    places = [as_place(worker, one) for one in (worker.elements(index) if is_tuple else [index])]
    lengths = [_length(worker, container, axis) for axis in range(len(places))]
    if any(one is None for one in lengths) or any(one.type != INT for one in places):
        return None
    result = worker.constant(False)
    for place, length in zip(places, lengths, strict=True):
        before = worker.op("prim::lt", place, worker.op("prim::neg", length))
        behind = worker.op("prim::ge", place, length)
        result = worker.op("prim::or_", result, worker.op("prim::or_", before, behind))
    return result


def _length(worker: BranchBuilder, container: Value, axis: int) -> Value | None:
    """The number of elements along an axis; None of what has no such number, or is no list."""
    type_ = container.type
    if isinstance(type_, TensorType):
        has_axis = type_.dims is not None and axis < len(type_.dims) and not type_.scalar
        return worker.size(container, axis) if has_axis else None
    if axis:
        return None
    if is_shared(container):
        return shared_length(worker, container)
    if is_list(container):
        return length_of(worker, container)
    return worker.constant(len(type_.elements)) if isinstance(type_, TupleType) else None


def _has_no_last(worker: BranchBuilder, inputs: Sequence[Value]) -> Value | None:
    length = _length(worker, inputs[0], 0)
    is_array = isinstance(inputs[0].type, TensorType)
    return None if length is None or is_array else worker.op("prim::eq", length, 0)


def _where(kind: str, bound: float) -> Callable[[BranchBuilder, Sequence[Value]], Value | None]:
    """What asks whether a number compares so with a bound."""

    def ask(worker: BranchBuilder, inputs: Sequence[Value]) -> Value | None:
        if len(inputs) != 1 or not is_number(inputs[0].type) or inputs[0].type == COMPLEX:
            return None
        return worker.op(kind, inputs[0], bound)

    return ask


def _overflows(worker: BranchBuilder, inputs: Sequence[Value]) -> Value | None:
    large = _where("prim::gt", _LARGEST_EXPONENT)(worker, inputs)
    if large is None:
        return None
    finite = worker.op("prim::ne", inputs[0], np.inf)
    return worker.op("prim::and_", large, finite)


_Ask = Callable[[BranchBuilder, Sequence[Value]], Value | None]

_ASKS: dict[str, _Ask] = {
    **dict.fromkeys(DIVISIONS, _divides_by_zero),
    "prim::getitem": _is_outside,
    "prim::setitem": _is_outside,
    "pop": _has_no_last,
    "math::sqrt": _where("prim::lt", 0.0),
    **{f"math::{name}": _where("prim::le", 0.0) for name in ("log", "log2", "log10")},
    "math::exp": _overflows,
}


def ask_first(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value | None:
    """The value of ``prim::raises``; None of all other nodes."""
    if node.kind != "prim::raises":
        return None
    found = _ASKS[node.attributes["operation"]](worker, inputs)
    return worker.constant(False) if found is None else found
