"""Elements that a number chooses which only a run tells: of tuples, and of lists that are known."""

from __future__ import annotations

from collections.abc import Sequence

from jitcore.ir.graph import Value
from jitcore.ir.ops.op import Untypable
from jitcore.ir.specialize.branches import BranchBuilder
from jitcore.ir.types import ANY, is_number, is_scalar_tensor

__all__ = [
    "MAX_KNOWN",
    "checked_index",
    "chosen_element",
    "known_number",
    "raise_where",
    "require_choice",
]

MAX_KNOWN = 32
"""How many elements of a list are known one by one; more are kept in an array."""


def known_number(value: Value) -> int | None:
    """The number that a constant is; None of all else."""
    held = value.constant_value
    return held if isinstance(held, int) else None


def chosen_element(
    worker: BranchBuilder, items: Sequence[Value], index: Value, message: str
) -> Value:
    """One of several values of the same type, by a number that only a run tells.

    Raises
    ------
    Untypable
        They have several types, or there is no such element.
    """
    at = known_number(index)
    if at is not None and -len(items) <= at < len(items):
        return items[at]
    require_choice(items)
    place = checked_index(worker, index, worker.constant(len(items)), message)

    def choose(first: int, last: int) -> list[Value]:
        if last - first == 1:
            return [items[first]]
        middle = (first + last) // 2
        is_before = worker.op("prim::lt", place, middle)
        return worker.split(
            is_before, [lambda: choose(first, middle), lambda: choose(middle, last)]
        )

    return choose(0, len(items))[0]


def require_choice(items: Sequence[Value]) -> None:
    """Raise `Untypable` unless a number can choose between these values."""
    if not items or len({item.type for item in items}) > 1 or len(items) > MAX_KNOWN:
        raise Untypable("an element whose type depends on a number")
    if not (is_number(items[0].type) or is_scalar_tensor(items[0].type)):
        raise Untypable(f"an element of type {items[0].type}, which only a run chooses")


def checked_index(worker: BranchBuilder, index: Value, length: Value, message: str) -> Value:
    """An index counted from the start; an IndexError where there is no such element."""
    known = index.constant
    if known is None or known.attributes["value"] < 0:
        negative = worker.op("prim::lt", index, 0)
        from_end = worker.op("prim::add", index, length)
        if known is not None:
            index = from_end
        else:
            index = worker.split(negative, [lambda: [from_end], lambda: [index]])[0]
    outside = worker.op(
        "prim::or_", worker.op("prim::lt", index, 0), worker.op("prim::ge", index, length)
    )
    raise_where(worker, outside, message)
    return index


def raise_where(worker: BranchBuilder, condition: Value, message: str) -> None:
    """Raise an IndexError where a condition holds."""
    made = worker.block.append("prim::If", [condition], outputs=(), source=worker.source)
    outer = worker.open_scope(made.add_block())
    error = worker.block.append(
        "prim::Call", [worker.constant(IndexError), worker.constant(message)], outputs=(ANY,)
    )
    worker.block.append("prim::Raise", [error.output], outputs=(), source=worker.source)
    worker.close_scope(outer)
    made.add_block()
