"""Growing lists as an array and a length: what ``specialize`` makes of ``prim::ListValue``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitcore.ir import reference
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.ops.op import Untypable
from jitcore.ir.passes.skeletons import FIRST_CAPACITY, ListsAreNotValues
from jitcore.ir.passes.specialize_branches import BranchBuilder
from jitcore.ir.types import (
    ANY,
    BOOL,
    FLOAT,
    INT,
    LocalListType,
    TensorType,
    Type,
    is_scalar_tensor,
)

__all__ = [
    "LIST_KINDS",
    "apply_to_list",
    "item_of",
    "length_of",
    "python_list",
    "remove_list_states",
]

LIST_KINDS = frozenset({"prim::ListValue", "prim::ListAppend", "prim::ListSet"})

_CONVERSIONS: dict[Type, str] = {INT: "prim::int", FLOAT: "prim::float", BOOL: "prim::bool"}
_AS_ARRAY = frozenset(
    f"np::{name}"
    for name in [
        "array",
        "asarray",
        "sum",
        "prod",
        "mean",
        "std",
        "var",
        "min",
        "max",
        "argmin",
        "argmax",
        "cumsum",
    ]
)


def apply_to_list(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value | None:
    """The result of a node that makes, writes or reads such a list; None of all others."""
    if node.kind in LIST_KINDS:
        try:
            return _WRITERS[node.kind](worker, inputs)
        except Untypable as reason:
            raise ListsAreNotValues(str(reason)) from reason
    found = [number for number, value in enumerate(inputs) if _is_list(value)]
    if not found:
        return None
    first = inputs[0]
    if node.kind == "prim::len":
        return length_of(worker, first)
    if node.kind == "prim::bool":
        return worker.op("prim::ne", length_of(worker, first), 0)
    if node.kind == "prim::getitem" and found == [0] and inputs[1].type == INT:
        return _get(worker, first, inputs[1])
    for number in found:
        as_array = number == 0 and node.kind in _AS_ARRAY
        inputs[number] = _array(worker, first) if as_array else python_list(worker, inputs[number])
    return None


def _is_list(value: Value) -> bool:
    return isinstance(value.type, LocalListType)


def _parts(value: Value) -> tuple[Value, Value]:
    """The array that holds the elements, and their number."""
    if value.node is None or value.node.kind != "prim::ListState" or not value.node.inputs:
        raise ListsAreNotValues("a list whose elements are not known")
    buffer, length = value.node.inputs
    return buffer, length


def _element(value: Value) -> Type | None:
    assert isinstance(value.type, LocalListType)
    return value.type.element


def _dtype(element: Type) -> np.dtype[Any]:
    dtype = LocalListType(element).dtype
    if dtype is None:
        raise ListsAreNotValues(f"a list of {element}")
    return dtype


def _state(worker: BranchBuilder, buffer: Value, length: Value, element: Type) -> Value:
    return worker.emit("prim::ListState", [buffer, length], {}, LocalListType(element))


def _make(worker: BranchBuilder, items: Sequence[Value]) -> Value:
    if not items:
        return worker.emit("prim::ListState", [], {}, LocalListType(None))
    types = {item.type for item in items}
    if len(types) > 1:
        raise ListsAreNotValues("a list of several types")
    element = items[0].type
    dtype = _dtype(element)
    worker.keeps_ints = worker.keeps_ints or element == INT
    capacity = worker.constant(max(2 * len(items), FIRST_CAPACITY))
    buffer = worker.op("np::empty", capacity, dtype=dtype)
    for number, item in enumerate(items):
        _store(worker, buffer, worker.constant(number), item)
    return _state(worker, buffer, worker.constant(len(items)), element)


def _store(worker: BranchBuilder, buffer: Value, index: Value, item: Value) -> None:
    place = worker.op("np::view", buffer, index, index="$0")
    assert isinstance(buffer.type, TensorType)
    worker.op("np::store", place, worker.op("np::cast", item, dtype=buffer.type.dtype))


def _append(worker: BranchBuilder, inputs: Sequence[Value]) -> Value:
    state, item = inputs
    if not _is_list(state):
        raise ListsAreNotValues("a list that Python knows")
    element = _element(state)
    if element is None:
        return _make(worker, [item])
    if item.type != element:
        raise ListsAreNotValues(f"a list of {element} and {item.type}")
    buffer, length = _parts(state)
    buffer = _grown(worker, buffer, length)
    _store(worker, buffer, length, item)
    return _state(worker, buffer, worker.op("prim::add", length, 1), element)


def _grown(worker: BranchBuilder, buffer: Value, length: Value) -> Value:
    """The array, or one twice as long where it is full."""
    assert isinstance(buffer.type, TensorType)
    dtype = buffer.type.dtype
    capacity = worker.size(buffer, 0)
    is_full = worker.op("prim::eq", length, capacity)

    def grow() -> list[Value]:
        larger = worker.op("np::empty", worker.op("prim::mul", capacity, 2), dtype=dtype)
        target = worker.op("np::view", larger, length, index=":$0")
        worker.op("np::store", target, worker.op("np::view", buffer, length, index=":$0"))
        return [larger]

    return worker.split(is_full, [grow, lambda: [buffer]])[0]


def _checked(worker: BranchBuilder, state: Value, index: Value, message: str) -> Value:
    """An index counted from the start; an IndexError where there is no such element."""
    _, length = _parts(state)
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
    made = worker.block.append("prim::If", [outside], outputs=(), source=worker.source)
    outer = worker.open_scope(made.add_block())
    error = worker.block.append(
        "prim::Call", [worker.constant(IndexError), worker.constant(message)], outputs=(ANY,)
    )
    worker.block.append("prim::Raise", [error.output], outputs=(), source=worker.source)
    worker.close_scope(outer)
    made.add_block()
    return index


def _set(worker: BranchBuilder, inputs: Sequence[Value]) -> Value:
    state, index, item = inputs
    if not _is_list(state) or index.type != INT or item.type != _element(state):
        raise ListsAreNotValues("an assignment to an item")
    message = "list assignment index out of range"
    _store(worker, _parts(state)[0], _checked(worker, state, index, message), item)
    return _state(worker, *_parts(state), item.type)


def _get(worker: BranchBuilder, state: Value, index: Value) -> Value:
    return item_of(worker, state, _checked(worker, state, index, "list index out of range"))


def item_of(worker: BranchBuilder, state: Value, index: Value) -> Value:
    """An element whose number is in range."""
    buffer, _ = _parts(state)
    element = _element(state)
    item = worker.op("np::item", worker.op("np::view", buffer, index, index="$0"))
    if element is None or is_scalar_tensor(element):
        return item
    return worker.op(_CONVERSIONS[element], item)


def length_of(worker: BranchBuilder, state: Value) -> Value:
    """The number of elements."""
    return worker.constant(0) if _element(state) is None else _parts(state)[1]


def _array(worker: BranchBuilder, state: Value) -> Value:
    """The elements as a new array."""
    if _element(state) is None:
        return worker.op("np::empty", 0, dtype=np.dtype(np.float64))
    buffer, length = _parts(state)
    elements = worker.op("np::view", buffer, length, index=":$0")
    return worker.op("np::listed", elements)


def python_list(worker: BranchBuilder, state: Value) -> Value:
    """The Python list, which from here on is the list, for all to see.

    Raises
    ------
    ListsAreNotValues
        It was made in another block, so that a second one could be made of it.
    """
    known = worker.lists.get(state)
    if known is not None:
        return known
    if state.node is None or state.node.block is not worker.block:
        raise ListsAreNotValues("a list that is passed on in a branch or in a loop")
    element = _element(state)
    if element is None:
        made = worker.block.append("prim::ListConstruct", outputs=(ANY,), source=worker.source)
    else:
        buffer, length = _parts(state)
        elements = worker.op("np::view", buffer, length, index=":$0")
        convert: Callable[..., Any] = reference.scalars_of
        if not is_scalar_tensor(element):
            convert = reference.numbers_of
        operands = [worker.constant(convert), elements]
        made = worker.block.append("prim::Call", operands, outputs=(ANY,), source=worker.source)
    made.host_reason = "it makes a Python list"
    worker.lists[state] = made.output
    return made.output


def remove_list_states(graph: Graph) -> None:
    """Remove the nodes that said what lists are made of.

    Raises
    ------
    ListsAreNotValues
        Something still reads one.
    """
    for node in graph.find_all_nodes("prim::ListState"):
        if node.output.uses:
            raise ListsAreNotValues("a list that is used where nothing is known of it")
        node.destroy()


_WRITERS: dict[str, Callable[[BranchBuilder, Sequence[Value]], Value]] = {
    "prim::ListValue": _make,
    "prim::ListAppend": _append,
    "prim::ListSet": _set,
}
