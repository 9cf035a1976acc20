"""Growing lists as an array and a length: what ``specialize`` makes of ``prim::ListValue``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitcore.ir import reference
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.ops.op import Untypable
from jitcore.ir.passes.chosen_elements import (
    MAX_KNOWN,
    checked_index,
    chosen_element,
    known_number,
    raise_where,
)
from jitcore.ir.passes.skeletons import FIRST_CAPACITY, ListsAreNotValues
from jitcore.ir.passes.specialize_branches import BranchBuilder
from jitcore.ir.types import (
    ANY,
    BOOL,
    FLOAT,
    INT,
    ListType,
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
    "pop_from_list",
    "python_list",
    "remove_list_states",
]

LIST_KINDS = frozenset(
    f"prim::List{name}"
    for name in (
        *("Value", "Argument", "Repeat", "Copy", "Slice"),
        *("Append", "Extend", "Set", "Write"),
    )
)


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
            if node.kind == "prim::ListArgument":
                return _argument(worker, inputs[0], written="written" in node.attributes)
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
    if node.kind == "prim::not_":
        return worker.op("prim::eq", length_of(worker, first), 0)
    if node.kind == "prim::getitem" and found == [0] and inputs[1].type == INT:
        with contextlib.suppress(Untypable):
            return _get(worker, first, inputs[1])
    if node.kind in _FOR_ALL_ELEMENTS:
        return None
    for number in found:
        as_array = number == 0 and node.kind in _AS_ARRAY
        inputs[number] = _array(worker, first) if as_array else python_list(worker, inputs[number])
    return None


_ITERATORS = frozenset({"prim::zip", "prim::enumerate", "prim::reversed"})
_FOR_ALL_ELEMENTS = _ITERATORS | {
    f"prim::{name}" for name in ("sum", "min", "max", "any", "all", "in_", "notin")
}
"""What takes the elements by itself."""


def _is_list(value: Value) -> bool:
    return isinstance(value.type, LocalListType)


def _parts(value: Value) -> tuple[Value, Value]:
    """The array that holds the elements, and their number."""
    if value.node is None or value.node.kind != "prim::ListState" or not value.node.inputs:
        raise ListsAreNotValues("a list whose elements are not known")
    assert isinstance(value.type, LocalListType) and value.type.count is None
    buffer, length = value.node.inputs
    return buffer, length


def _known(value: Value) -> list[Value] | None:
    """The elements of a list where they are known one by one."""
    assert isinstance(value.type, LocalListType)
    is_known = value.type.count is not None and value.node is not None
    return list(value.node.inputs) if is_known and value.node is not None else None


def _in_array(worker: BranchBuilder, value: Value) -> Value:
    """The list with its elements in an array."""
    items = _known(value)
    return value if not items else _stored(worker, items)


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


def _argument(worker: BranchBuilder, argument: Value, *, written: bool) -> Value:
    """The numbers in a caller's list; those that are written are in an array of their own."""
    if not isinstance(argument.type, ListType):
        raise ListsAreNotValues("an argument that is no list of numbers")
    element = argument.type.element
    if element == ANY:
        return _make(worker, [])
    worker.keeps_ints = worker.keeps_ints or element == INT
    dtype = _dtype(element)
    items = worker.emit("prim::ListItems", [argument], {}, TensorType(dtype, (worker.fresh_dim(),)))
    length = worker.emit("prim::ListLength", [argument], {}, INT)
    if not written:
        return _state(worker, items, length, element)
    return _copy(worker, [_state(worker, items, length, element)])


def _write_back(worker: BranchBuilder, inputs: Sequence[Value]) -> Value:
    """Give the caller's list the numbers that it has now."""
    argument, state = inputs
    if not isinstance(argument.type, ListType) or not _is_list(state):
        raise ListsAreNotValues("an argument that is no list of numbers")
    state = _in_array(worker, state)
    if _element(state) is not None:
        worker.block.append(
            "prim::ListWrite", [argument, *_parts(state)], outputs=(), source=worker.source
        )
    elif argument.type.element != ANY:
        raise ListsAreNotValues("a list whose elements are not known")
    return worker.constant(None)


def _make(worker: BranchBuilder, items: Sequence[Value]) -> Value:
    if len(items) > MAX_KNOWN:
        return _stored(worker, items)
    types = {item.type for item in items}
    element = None if not items else ANY if len(types) > 1 else items[0].type
    return worker.emit("prim::ListState", items, {}, LocalListType(element, len(items)))


def _repeat(worker: BranchBuilder, inputs: Sequence[Value]) -> Value:
    *items, count = inputs
    if count.type != INT:
        raise ListsAreNotValues(f"a list times {count.type}")
    if count.constant is not None:
        times = max(count.constant.attributes["value"], 0)
        if times * len(items) <= MAX_KNOWN:
            return _make(worker, items * times)
    if len(items) != 1:
        raise ListsAreNotValues("a list of several elements times a number")
    element = items[0].type
    worker.keeps_ints = worker.keeps_ints or element == INT
    length = worker.op("prim::max", count, 0)
    buffer = worker.op(
        "np::empty", worker.op("prim::max", count, FIRST_CAPACITY), dtype=_dtype(element)
    )
    filled = worker.op("np::view", buffer, length, index=":$0")
    worker.op("np::store", filled, worker.op("np::cast", items[0], dtype=_dtype(element)))
    return _state(worker, buffer, length, element)


def _stored(worker: BranchBuilder, items: Sequence[Value]) -> Value:
    """A list of these elements, in an array with room for more."""
    if len({item.type for item in items}) > 1:
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
    known, element = _known(state), _element(state)
    if known is not None and len(known) < MAX_KNOWN:
        return _make(worker, [*known, item])
    if element is None:
        return _make(worker, [item])
    state = _in_array(worker, state)
    if item.type != element:
        raise ListsAreNotValues(f"a list of {element} and {item.type}")
    buffer, length = _parts(state)
    longer = worker.op("prim::add", length, 1)
    buffer = _grown(worker, buffer, length, longer)
    _store(worker, buffer, length, item)
    return _state(worker, buffer, longer, element)


def _extend(worker: BranchBuilder, inputs: Sequence[Value]) -> Value:
    state, more = inputs
    if not _is_list(state):
        raise ListsAreNotValues("a list that Python knows")
    if isinstance(more.type, LocalListType) and more.type.count is None:
        return _joined(worker, state, more)
    for item in worker.elements(more):
        state = _append(worker, [state, item])
    return state


def _joined(worker: BranchBuilder, state: Value, more: Value) -> Value:
    """A list with all elements of two."""
    element = _element(more)
    if element is None:
        return state
    if _element(state) not in (None, element):
        raise ListsAreNotValues(f"a list of {_element(state)} and {element}")
    if _element(state) is None:
        return _copy(worker, [more])
    buffer, length = _parts(_in_array(worker, state))
    items, added = _parts(more)
    total = worker.op("prim::add", length, added)
    buffer = _grown(worker, buffer, length, total)
    _fill(worker, buffer, (length, total), items, added)
    return _state(worker, buffer, total, element)


def _fill(
    worker: BranchBuilder, buffer: Value, place: tuple[Value, Value], items: Value, count: Value
) -> None:
    """Copy the first elements of an array to a place in another one."""
    target = worker.op("np::view", buffer, *place, index="$0:$1")
    worker.op("np::store", target, worker.op("np::view", items, count, index=":$0"))


def _copy(worker: BranchBuilder, inputs: Sequence[Value]) -> Value:
    """A list of its own with the same elements."""
    (state,) = inputs
    if not _is_list(state):
        raise ListsAreNotValues("a list that Python knows")
    known, element = _known(state), _element(state)
    if known is not None or element is None:
        return _make(worker, known or [])
    items, length = _parts(state)
    capacity = worker.op("prim::max", length, FIRST_CAPACITY)
    buffer = worker.op("np::empty", capacity, dtype=_dtype(element))
    _fill(worker, buffer, (worker.constant(0), length), items, length)
    return _state(worker, buffer, length, element)


def pop_from_list(worker: BranchBuilder, inputs: Sequence[Value]) -> tuple[Value, Value]:
    """What ``pop`` gives, and the list after it."""
    try:
        return _pop(worker, inputs)
    except Untypable as reason:
        raise ListsAreNotValues(str(reason)) from reason


def _pop(worker: BranchBuilder, inputs: Sequence[Value]) -> tuple[Value, Value]:
    state, *index = inputs
    if not _is_list(state) or any(one.type != INT for one in index):
        raise ListsAreNotValues("a list that Python knows")
    known = _known(state)
    at = known_number(index[0]) if index else -1
    if known is not None and at is not None and -len(known) <= at < len(known):
        item = known.pop(at)
        return item, _make(worker, known)
    element = _element(state)
    if element is None:
        raise ListsAreNotValues("pop from a list without elements")
    state = _in_array(worker, state)
    buffer, length = _parts(state)
    raise_where(worker, worker.op("prim::eq", length, 0), "pop from empty list")
    number = index[0] if index else worker.constant(-1)
    place = _checked(worker, state, number, "pop index out of range")
    item = item_of(worker, state, place)
    shorter = worker.op("prim::sub", length, 1)
    if index:
        after = worker.op("prim::add", place, 1)
        target = worker.op("np::view", buffer, place, shorter, index="$0:$1")
        worker.op("np::store", target, worker.op("np::view", buffer, after, length, index="$0:$1"))
    return item, _state(worker, buffer, shorter, element)


def _grown(worker: BranchBuilder, buffer: Value, length: Value, needed: Value) -> Value:
    """The array, or one twice as long as needed where that is more than it holds."""
    assert isinstance(buffer.type, TensorType)
    dtype = buffer.type.dtype
    capacity = worker.size(buffer, 0)
    is_full = worker.op("prim::gt", needed, capacity)

    def grow() -> list[Value]:
        larger = worker.op("np::empty", worker.op("prim::mul", needed, 2), dtype=dtype)
        target = worker.op("np::view", larger, length, index=":$0")
        worker.op("np::store", target, worker.op("np::view", buffer, length, index=":$0"))
        return [larger]

    return worker.split(is_full, [grow, lambda: [buffer]])[0]


def _checked(worker: BranchBuilder, state: Value, index: Value, message: str) -> Value:
    """An index counted from the start; an IndexError where there is no such element."""
    return checked_index(worker, index, _parts(state)[1], message)


def _set(worker: BranchBuilder, inputs: Sequence[Value]) -> Value:
    state, index, item = inputs
    if not _is_list(state) or index.type != INT:
        raise ListsAreNotValues("an assignment to an item")
    known = _known(state)
    at = known_number(index)
    if known is not None and at is not None and -len(known) <= at < len(known):
        known[at] = item
        return _make(worker, known)
    if item.type != _element(state):
        raise ListsAreNotValues("an assignment to an item")
    state = _in_array(worker, state)
    message = "list assignment index out of range"
    _store(worker, _parts(state)[0], _checked(worker, state, index, message), item)
    return _state(worker, *_parts(state), item.type)


def _slice(worker: BranchBuilder, inputs: Sequence[Value]) -> Value:
    state, index = inputs
    if not _is_list(state):
        raise ListsAreNotValues("a list that Python knows")
    items = _known(state)
    if items is not None:
        try:
            return _make(
                worker, worker.elements(worker.op("prim::getitem", worker.make_tuple(items), index))
            )
        except Untypable:
            state = _in_array(worker, state)
    element = _element(state)
    if element is None:
        return state
    buffer, length = _parts(state)
    elements = worker.op("np::view", buffer, length, index=":$0")
    part = worker.op("np::copy", worker.op("prim::getitem", elements, index))
    return _state(worker, part, worker.size(part, 0), element)


def _get(worker: BranchBuilder, state: Value, index: Value) -> Value:
    items = _known(state)
    if items is not None:
        return chosen_element(worker, items, index, "list index out of range")
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
    assert isinstance(state.type, LocalListType)
    if state.type.count is not None:
        return worker.constant(state.type.count)
    return worker.constant(0) if _element(state) is None else _parts(state)[1]


def _array(worker: BranchBuilder, state: Value) -> Value:
    """The elements as a new array."""
    if _element(state) is None:
        return worker.op("np::empty", 0, dtype=np.dtype(np.float64))
    state = _in_array(worker, state)
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
    element, items = _element(state), _known(state)
    if element is None or items is not None:
        made = worker.block.append(
            "prim::ListConstruct", items or [], outputs=(ANY,), source=worker.source
        )
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
    for node in reversed(list(graph.nodes())):
        if node.kind in _ITERATORS and not node.output.uses:
            # The loop that visits the elements reads them by itself.
            node.destroy()
    for node in reversed(graph.find_all_nodes("prim::ListState")):
        if node.output.uses:
            raise ListsAreNotValues("a list that is used where nothing is known of it")
        node.destroy()


_WRITERS: dict[str, Callable[[BranchBuilder, Sequence[Value]], Value]] = {
    "prim::ListValue": _make,
    "prim::ListWrite": _write_back,
    "prim::ListRepeat": _repeat,
    "prim::ListAppend": _append,
    "prim::ListExtend": _extend,
    "prim::ListSet": _set,
    "prim::ListCopy": _copy,
    "prim::ListSlice": _slice,
}
