"""What a local list is made of while ``specialize`` walks a graph: arrays and a length.

An element is one number, or a tuple of numbers; there is an array for each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jitcore.ir.graph import Node, Value
from jitcore.ir.specialize.branches import BranchBuilder
from jitcore.ir.specialize.chosen_elements import MAX_KNOWN, checked_index
from jitcore.ir.specialize.lists.listed_arrays import (
    common_element,
    has_references,
    kept_form,
    leaf_types,
    new_buffer,
    put_number,
)
from jitcore.ir.specialize.lists.mixed_elements import is_mixed, tag_of_code, widened_buffers
from jitcore.ir.specialize.skeletons import (
    FIRST_CAPACITY,
    ListsAreNotValues,
    needs_native,
    numbers_in,
)
from jitcore.ir.specialize.value_kinds import converted, dtype_of_number
from jitcore.ir.types import (
    ANY,
    ANY_EXTENT,
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    NONE,
    REFERENCE,
    LocalListType,
    RecordType,
    SharedListType,
    TensorType,
    TupleType,
    Type,
    UnionType,
    is_array,
    is_scalar_tensor,
)

__all__ = [
    "array_like",
    "as_place",
    "checked",
    "close_gap",
    "copied",
    "dtypes_of",
    "element_from",
    "element_of",
    "elements_as_arrays",
    "fill",
    "grown",
    "in_arrays",
    "is_list",
    "item_of",
    "joined_element",
    "known_elements",
    "length_of",
    "make_known",
    "make_state",
    "open_gap",
    "parts_of",
    "room_for",
    "store",
    "stored",
    "take_place",
    "widened",
]

_CONVERSIONS: dict[Type, str] = {
    INT: "prim::int",
    FLOAT: "prim::float",
    BOOL: "prim::bool",
    COMPLEX: "prim::complex",
}


def is_list(value: Value) -> bool:
    """Whether a value is such a list."""
    return isinstance(value.type, LocalListType)


def parts_of(state: Value) -> tuple[list[Value], Value]:
    """The arrays that hold the elements, and their number."""
    if state.node is None or state.node.kind != "prim::ListState" or not state.node.inputs:
        raise ListsAreNotValues("a list whose elements are not known")
    assert isinstance(state.type, LocalListType) and state.type.count is None
    *buffers, length = state.node.inputs
    return buffers, length


def known_elements(state: Value) -> list[Value] | None:
    """The elements of a list where they are known one by one."""
    assert isinstance(state.type, LocalListType)
    is_known = state.type.count is not None and state.node is not None
    return list(state.node.inputs) if is_known and state.node is not None else None


def element_of(state: Value) -> Type | None:
    """The type of the elements; None while there are none."""
    assert isinstance(state.type, LocalListType)
    return state.type.element


def joined_element(state: Value, item: Value) -> Type:
    """The type of the elements of a list that gets another one."""
    known = element_of(state)
    element = common_element([item.type] if known is None else [known, item.type])
    if element is None:
        raise ListsAreNotValues(f"a list of {known} and {item.type}")
    return element


def in_arrays(worker: BranchBuilder, state: Value) -> Value:
    """The list with its elements in arrays."""
    items = known_elements(state)
    return state if not items else stored(worker, items)


def dtypes_of(element: Type) -> tuple[np.dtype[Any], ...]:
    """Of the arrays for elements of this type."""
    dtypes = LocalListType(element).dtypes
    if not dtypes:
        raise ListsAreNotValues(f"a list of {element}")
    return dtypes


def make_state(
    worker: BranchBuilder, buffers: Sequence[Value], length: Value, element: Type
) -> Value:
    """The list of the first elements in these arrays."""
    worker.keeps_ints = worker.keeps_ints or needs_native(element)
    type_ = LocalListType(kept_form(element))
    return worker.emit("prim::ListState", [*buffers, length], {}, type_)


def make_known(worker: BranchBuilder, items: Sequence[Value]) -> Value:
    """A list of these elements, known one by one as long as they are few."""
    if len(items) > MAX_KNOWN:
        return stored(worker, items)
    types = {item.type for item in items}
    element = items[0].type if len(types) == 1 else common_element(types) or ANY if types else None
    return worker.emit("prim::ListState", items, {}, LocalListType(element, len(items)))


def stored(worker: BranchBuilder, items: Sequence[Value]) -> Value:
    """A list of these elements, in arrays with room for more."""
    element = common_element({item.type for item in items})
    if element is None:
        raise ListsAreNotValues("a list of several types")
    buffers = room_for(worker, element, worker.constant(max(2 * len(items), FIRST_CAPACITY)))
    for number, item in enumerate(items):
        store(worker, buffers, worker.constant(number), item, element)
    return make_state(worker, buffers, worker.constant(len(items)), element)


def room_for(worker: BranchBuilder, element: Type, capacity: Value) -> list[Value]:
    """New arrays for so many elements."""
    return [_room(worker, dtype, capacity) for dtype in dtypes_of(element)]


def _room(worker: BranchBuilder, dtype: np.dtype[Any], capacity: Value) -> Value:
    if dtype != REFERENCE:
        return worker.op("np::empty", capacity, dtype=dtype)
    known = capacity.constant_value
    dim = known if isinstance(known, int) else worker.fresh_dim()
    return new_buffer(worker.block, capacity, dtype, dim)


def store(
    worker: BranchBuilder, buffers: Sequence[Value], index: Value, item: Value, element: Type
) -> None:
    """Put an element at a place in the arrays of a list whose elements have this type."""
    worker.lists_given = worker.lists_given or item in worker.given_tuples
    for buffer, number in zip(buffers, numbers_in(item, element, worker.block), strict=True):
        if has_references(buffer):
            put_number(worker.block, buffer, index, number, worker.source)
            continue
        place = worker.op("np::view", buffer, index, index="$0")
        assert isinstance(buffer.type, TensorType)
        worker.op("np::store", place, worker.op("np::cast", number, dtype=buffer.type.dtype))


def item_of(worker: BranchBuilder, state: Value, index: Value) -> Value:
    """An element whose number is in range."""
    buffers, _ = parts_of(state)
    element = element_of(state)
    assert element is not None
    kinds = zip(buffers, leaf_types(element), strict=True)
    numbers = (_number_at(worker, buffer, index, type_) for buffer, type_ in kinds)
    return element_from(worker, element, numbers)


def _number_at(worker: BranchBuilder, buffer: Value, index: Value, type_: Type) -> Value:
    """A number at a place of a buffer, or the array that a reference there stands for."""
    if not has_references(buffer):
        return worker.op("np::item", worker.op("np::view", buffer, index, index="$0"))
    assert isinstance(type_, TensorType) and type_.dims is not None
    dims = tuple(worker.fresh_dim() if dim == ANY_EXTENT else dim for dim in type_.dims)
    return worker.emit("prim::ListGet", [buffer, index], {}, TensorType(type_.dtype, dims))


def array_like(worker: BranchBuilder, state: Value, index: Value, other: Value) -> Value:
    """An array in a list that has the extents of another one."""
    (buffer,), _ = parts_of(state)
    element = element_of(state)
    assert isinstance(element, TensorType) and isinstance(other.type, TensorType)
    type_ = TensorType(element.dtype, other.type.dims)
    return worker.emit("prim::ListGet", [buffer, index], {}, type_)


def element_from(worker: BranchBuilder, element: Type, numbers: Iterator[Value]) -> Value:
    """Put the numbers of an element together."""
    if isinstance(element, TupleType):
        parts = [element_from(worker, part, numbers) for part in element.elements]
        return worker.make_tuple(parts, element.named)
    if isinstance(element, RecordType):
        parts = [element_from(worker, part, numbers) for part in element.elements]
        return worker.emit("prim::RecordState", parts, {}, replace(element, origin=None))
    number = next(numbers)
    if isinstance(element, SharedListType):
        return worker.emit("prim::SharedList", [worker.op("prim::int", number)], {}, element)
    if isinstance(element, UnionType):
        return _mixed(worker, element, worker.op("prim::int", number), numbers)
    is_itself = is_scalar_tensor(element) or is_array(element)
    return number if is_itself else worker.op(_CONVERSIONS[element], number)


def _mixed(
    worker: BranchBuilder, element: UnionType, code: Value, numbers: Iterator[Value]
) -> Value:
    """A number of several types, of its code and its number for each dtype."""
    dtypes = dict.fromkeys(map(dtype_of_number, element.held))
    held = {dtype: next(numbers) for dtype in dtypes}
    parts = [
        worker.constant(None)
        if one == NONE
        else converted(worker.block, held[dtype_of_number(one)], one)
        for one in element.alternatives
    ]
    tag = tag_of_code(code, element, worker.block)
    return worker.emit("prim::UnionConstruct", [tag, *parts], {}, element)


def widened(worker: BranchBuilder, state: Value, element: Type) -> Value:
    """A list in arrays, as one whose elements may have more types."""
    before = element_of(state)
    if before is None or before == element or not is_mixed(element):
        return state
    buffers, length = parts_of(state)
    wider = list(widened_buffers(worker.block, buffers, before, element))
    return make_state(worker, wider, length, element)


def length_of(worker: BranchBuilder, state: Value) -> Value:
    """The number of elements."""
    assert isinstance(state.type, LocalListType)
    if state.type.count is not None:
        return worker.constant(state.type.count)
    return worker.constant(0) if element_of(state) is None else parts_of(state)[1]


def as_place(worker: BranchBuilder, index: Value) -> Value:
    """One of NumPy's integers that an int64 holds as Python's int; all else as it is."""
    type_ = index.type
    if not isinstance(type_, TensorType) or not type_.scalar:
        return index
    dtype = type_.dtype
    fits = dtype is not None and dtype.kind in "iu" and dtype != np.uint64
    return worker.op("prim::int", index) if fits else index


def take_place(worker: BranchBuilder, node: Node, inputs: list[Value]) -> None:
    """Make the place that a node reads or changes in a list an int of Python's."""
    if len(inputs) < 2 or not isinstance(inputs[0].type, LocalListType | SharedListType):
        return
    is_method = node.kind == "prim::CallMethod" and node.attributes["name"] in ("insert", "pop")
    if is_method or node.kind in _WITH_PLACE:
        inputs[1] = as_place(worker, inputs[1])


_WITH_PLACE = frozenset(
    f"prim::{name}"
    for name in ("getitem", "setitem", "delitem", "ListSet", "ListDelete", "ListInsert")
)
"""The kinds whose second operand is a place in the first one, if that is a list."""


def checked(worker: BranchBuilder, state: Value, index: Value, message: str) -> Value:
    """An index counted from the start; an IndexError where there is no such element."""
    return checked_index(worker, index, parts_of(state)[1], message)


def elements_as_arrays(worker: BranchBuilder, state: Value) -> list[Value]:
    """Views of the elements in the arrays."""
    buffers, length = parts_of(state)
    return [worker.op("np::view", buffer, length, index=":$0") for buffer in buffers]


def fill(
    worker: BranchBuilder,
    buffers: Sequence[Value],
    place: tuple[Value, Value],
    items: Sequence[Value],
    count: Value,
) -> None:
    """Copy the first elements of arrays to a place in others."""
    for buffer, one in zip(buffers, items, strict=True):
        target = worker.op("np::view", buffer, *place, index="$0:$1")
        _move(worker, target, worker.op("np::view", one, count, index=":$0"))


def _move(worker: BranchBuilder, target: Value, items: Value) -> None:
    """Copy elements of one buffer to as many places of another one, or of the same."""
    # In a heap anything may overlap, and loops for all cases would be much code.
    if has_references(target) or worker.shared is not None:
        worker.block.append(
            "prim::ListMove", [target, items], outputs=(NONE,), source=worker.source
        )
    else:
        worker.op("np::store", target, items)


def close_gap(
    worker: BranchBuilder, buffers: Sequence[Value], place: Value, length: Value
) -> Value:
    """Move what follows a place one to the front; gives the new length."""
    after = worker.op("prim::add", place, 1)
    shorter = worker.op("prim::sub", length, 1)
    for buffer in buffers:
        target = worker.op("np::view", buffer, place, shorter, index="$0:$1")
        _move(worker, target, worker.op("np::view", buffer, after, length, index="$0:$1"))
    return shorter


def open_gap(worker: BranchBuilder, buffers: Sequence[Value], place: Value, length: Value) -> Value:
    """Move what is at a place and behind it one to the back; gives the new length."""
    after = worker.op("prim::add", place, 1)
    longer = worker.op("prim::add", length, 1)
    for buffer in buffers:
        target = worker.op("np::view", buffer, after, longer, index="$0:$1")
        _move(worker, target, worker.op("np::view", buffer, place, length, index="$0:$1"))
    return longer


def copied(worker: BranchBuilder, state: Value) -> Value:
    """A list of its own with the same elements."""
    known, element = known_elements(state), element_of(state)
    if known is not None or element is None:
        return make_known(worker, known or [])
    items, length = parts_of(state)
    capacity = worker.op("prim::max", length, FIRST_CAPACITY)
    buffers = room_for(worker, element, capacity)
    fill(worker, buffers, (worker.constant(0), length), items, length)
    return make_state(worker, buffers, length, element)


def grown(
    worker: BranchBuilder, buffers: Sequence[Value], length: Value, needed: Value
) -> list[Value]:
    """The arrays, or some twice as long as needed where that is more than they hold."""
    capacity = worker.size(buffers[0], 0)
    is_full = worker.op("prim::gt", needed, capacity)

    def grow() -> list[Value]:
        larger = []
        for buffer in buffers:
            assert isinstance(buffer.type, TensorType)
            count = worker.op("prim::mul", needed, 2)
            assert buffer.type.dtype is not None
            larger.append(_room(worker, buffer.type.dtype, count))
        fill(worker, larger, (worker.constant(0), length), buffers, length)
        return larger

    return worker.split(is_full, [grow, lambda: list(buffers)])
