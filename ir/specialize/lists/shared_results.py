"""Shared lists that a function returns, as Python's lists, and those that come back changed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.specialize.branches import BranchBuilder
from jitcore.ir.specialize.by_value import is_shared
from jitcore.ir.specialize.lists.list_heap import share
from jitcore.ir.specialize.lists.list_parts import element_of, is_list, parts_of
from jitcore.ir.specialize.lists.shared_arguments import part_kinds
from jitcore.ir.specialize.lists.shared_lists import holds_shared
from jitcore.ir.specialize.skeletons import ListsAreNotValues, place_of_shared
from jitcore.ir.types import ListType, SharedListType, TensorType, TupleType, Type

__all__ = ["give_shared"]


def give_shared(worker: BranchBuilder, values: Sequence[Value]) -> list[Value]:
    """Give lists that are arguments what has changed; gives what the function returns.

    Each list becomes one object, whatever refers to it.
    """
    found = [_in_heap(worker, value) for value in values]
    is_written = worker.taken is not None and bool(worker.written_parts)
    if not is_written and not any(holds_shared(value.type) for value in found):
        return found
    arrays = _arrays(worker)
    given = [_given(worker, value, arrays) for value in found]
    _drop_tuples([*found, *values], given)
    if is_written:
        # Nothing but this may fail any more.
        _write(worker, arrays)
    return given


def _drop_tuples(values: Sequence[Value], kept: Sequence[Value]) -> None:
    """Remove tuples in whose place others are returned, and those inside them."""
    waiting = [value for value in values if value not in kept]
    while waiting:
        value = waiting.pop()
        node = value.node
        if node is None or node.kind != "prim::TupleConstruct":
            continue
        if node.block is not None and not value.uses and value not in kept:
            waiting += node.inputs
            node.destroy()


def _in_heap(worker: BranchBuilder, value: Value) -> Value:
    """A value in which no local list holds shared ones."""
    if isinstance(value.type, TupleType) and holds_shared(value.type):
        assert value.node is not None
        parts = [_in_heap(worker, one) for one in value.node.inputs]
        return worker.make_tuple(parts, value.type.named)
    element = element_of(value) if is_list(value) else None
    if not holds_shared(element):
        return value
    assert value.node is not None
    return share(worker, value, value.node)


def _arrays(worker: BranchBuilder) -> list[Value]:
    """For each part of the heap a memo with room for all its lists, and its own arrays."""
    found: list[Value] = []
    for number, (rows, items) in enumerate(zip(*[iter(worker.heap)] * 2, strict=True)):
        (buffer,), count = parts_of(rows)
        known = worker.taken
        read = [] if known is None else [known.memos[number], known.counts[number]]
        type_ = TensorType(np.dtype(np.int64), (worker.fresh_dim(),))
        memo = worker.emit("prim::ListMemo", [count, *read], {}, type_)
        found += [memo, buffer, *parts_of(items)[0]]
    return found


def _write(worker: BranchBuilder, arrays: Sequence[Value]) -> None:
    taken = worker.taken
    assert taken is not None
    if worker.lists_given:
        raise ListsAreNotValues("a tuple that is an argument is put into a list that is one")
    attributes = {"parts": part_kinds(worker), "written": tuple(sorted(worker.written_parts))}
    inputs = [*taken.counts, *arrays]
    worker.block.append("prim::ListWriteShared", inputs, attributes, outputs=())


def _given(worker: BranchBuilder, value: Value, arrays: Sequence[Value]) -> Value:
    """What a value is for the caller."""
    if isinstance(value.type, TupleType) and holds_shared(value.type):
        assert value.node is not None
        parts = [_given(worker, one, arrays) for one in value.node.inputs]
        return worker.make_tuple(parts, value.type.named)
    if not is_shared(value):
        return value
    assert worker.shared is not None and isinstance(value.type, SharedListType)
    if value.type.element is None:
        raise ListsAreNotValues("a list of which nothing is known is returned")
    attributes = {"part": worker.shared.part(value.type.element), "parts": part_kinds(worker)}
    inputs = [place_of_shared(value), *arrays]
    return worker.emit("prim::ListMakeShared", inputs, attributes, _of_python(value.type))


def _of_python(type_: Type) -> Type:
    """The type of what a value becomes for all to see."""
    if isinstance(type_, TupleType):
        return TupleType(tuple(map(_of_python, type_.elements)), type_.named)
    if isinstance(type_, SharedListType) and type_.element is not None:
        return ListType(_of_python(type_.element))
    return type_
