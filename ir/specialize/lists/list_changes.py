"""Methods of local lists beyond ``append`` and ``pop``, slices, and lists made of other values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.ops import list_functions
from jitcore.ir.ops.elementwise import cast_to
from jitcore.ir.ops.op import Untypable, tensor
from jitcore.ir.specialize.branches import BranchBuilder
from jitcore.ir.specialize.lists.list_parts import (
    as_place,
    checked,
    close_gap,
    copied,
    dtypes_of,
    element_of,
    elements_as_arrays,
    fill,
    grown,
    in_arrays,
    is_list,
    joined_element,
    known_elements,
    make_known,
    make_state,
    open_gap,
    parts_of,
    room_for,
    store,
    widened,
)
from jitcore.ir.specialize.lists.listed_arrays import common_element, has_references, leaf_types
from jitcore.ir.specialize.skeletons import FIRST_CAPACITY, ListsAreNotValues
from jitcore.ir.types import BOOL, FLOAT, INT, NONE, TensorType, TupleType, Type

__all__ = ["CHANGES", "found_in_list", "is_row", "joined_lists", "new_list", "part_of"]


def new_list(worker: BranchBuilder, source: Value) -> Value:
    """``list(source)`` of another list, of a tuple, of a range or of an array with one axis."""
    if is_list(source):
        return copied(worker, source)
    if is_row(source):
        return _of_array(worker, source, TensorType(tensor(source).dtype, (), True))
    node = source.node
    if isinstance(source.type, TupleType):
        return make_known(worker, worker.elements(source))
    is_range = node is not None and node.kind == "prim::range"
    if node is None or not is_range or any(value.type != INT for value in node.inputs):
        raise ListsAreNotValues(f"a list of what is in {source.type}")
    try:
        return make_known(worker, worker.elements(source))
    except Untypable:
        numbers = worker.op("np::arange", *node.inputs, dtype=np.dtype(np.int64))
        buffer = worker.op("np::copy", numbers)
        return make_state(worker, [buffer], worker.size(buffer, 0), INT)


def is_row(value: Value) -> bool:
    """Whether this is an array with one axis, of numbers that a list may have."""
    type_ = value.type
    if not isinstance(type_, TensorType) or type_.scalar or type_.dtype is None:
        return False
    return len(type_.dims or ()) == 1 and type_.dtype.kind in "biuf"


def _numbers_of(worker: BranchBuilder, inputs: Sequence[Value]) -> Value:
    """``x.tolist()`` of an array with one axis: a list of Python's numbers."""
    (source,) = inputs
    dtype = tensor(source).dtype if is_row(source) else None
    if dtype is None or dtype == np.uint64:
        raise ListsAreNotValues(f"a list of what is in {source.type}")
    element = {"b": BOOL, "f": FLOAT}.get(dtype.kind, INT)
    return _of_array(worker, source, element)


def _of_array(worker: BranchBuilder, source: Value, element: Type) -> Value:
    (dtype,) = dtypes_of(element)
    buffer = worker.op("np::copy", cast_to(worker, source, dtype), order="C")
    worker.keeps_ints = True
    return make_state(worker, [buffer], worker.size(buffer, 0), element)


def joined_lists(worker: BranchBuilder, first: Value, second: Value) -> Value:
    """``first + second``."""
    if not (is_list(first) and is_list(second)):
        raise ListsAreNotValues("a list that is added to something else")
    parts = [known_elements(first), known_elements(second)]
    if parts[0] is not None and parts[1] is not None:
        return make_known(worker, [*parts[0], *parts[1]])
    if None in (element_of(first), element_of(second)):
        return copied(worker, first if element_of(second) is None else second)
    lists = [in_arrays(worker, one) for one in (first, second)]
    return _assembled(worker, lists)


def _assembled(worker: BranchBuilder, lists: Sequence[Value]) -> Value:
    """A new list of all elements of several, which lie in arrays."""
    elements = [one for one in map(element_of, lists) if one is not None]
    element = common_element(elements)
    if element is None or len(elements) < len(lists):
        raise ListsAreNotValues("lists of several types that become one")
    ends = [worker.constant(0)]
    for one in lists:
        ends.append(worker.op("prim::add", ends[-1], parts_of(one)[1]))
    capacity = worker.op("prim::max", ends[-1], FIRST_CAPACITY)
    buffers = room_for(worker, element, capacity)
    for one, start, end in zip(lists, ends, ends[1:], strict=False):
        items, count = parts_of(widened(worker, one, element))
        fill(worker, buffers, (start, end), items, count)
    return make_state(worker, buffers, ends[-1], element)


# Slices


def _slice_parts(worker: BranchBuilder, state: Value, index: Value) -> tuple[Value, Value, Value]:
    """The first place that a slice selects, the step from one to the next, and their number."""
    node = index.node
    if node is None or node.kind != "prim::slice":
        raise ListsAreNotValues("a subscript of a list")
    start, stop, step = parts = [as_place(worker, one) for one in node.inputs]
    if any(one.type not in (INT, NONE) for one in parts):
        raise ListsAreNotValues("a slice whose parts are no ints")
    if step.type == NONE:
        step = worker.constant(1)
    length = parts_of(state)[1]
    first = worker.define(list_functions.first_place, start, length, step)
    end = worker.define(list_functions.end_place, stop, length, step)
    return first, step, worker.define(list_functions.count_places, first, end, step)


def part_of(worker: BranchBuilder, state: Value, index: Value) -> Value:
    """``state[i:j]``, a list of its own."""
    element = element_of(state)
    assert element is not None
    first, step, count = _slice_parts(worker, state, index)
    buffers = []
    if step.constant_value == 1 and any(map(has_references, parts_of(state)[0])):
        return _part_of_references(worker, state, first, count)
    for items in elements_as_arrays(worker, state):
        if step.constant_value == 1:
            end = worker.op("prim::add", first, count)
            part = worker.op("np::copy", worker.op("np::view", items, first, end, index="$0:$1"))
        else:
            part = worker.define(list_functions.taken, items, first, step, count)
        buffers.append(part)
    return make_state(worker, buffers, count, element)


def _part_of_references(worker: BranchBuilder, state: Value, first: Value, count: Value) -> Value:
    """The elements from a place on, of which references are counted once more."""
    element = element_of(state)
    assert element is not None
    end = worker.op("prim::add", first, count)
    items = [
        worker.op("np::view", one, first, end, index="$0:$1")
        for one in elements_as_arrays(worker, state)
    ]
    capacity = worker.op("prim::max", count, FIRST_CAPACITY)
    buffers = room_for(worker, element, capacity)
    fill(worker, buffers, (worker.constant(0), count), items, count)
    return make_state(worker, buffers, count, element)


def _set_slice(worker: BranchBuilder, inputs: Sequence[Value]) -> Value:
    """``state[i:j] = more`` and ``state[i:j:k] = more``."""
    state, index, more = inputs
    state, more = in_arrays(worker, state), in_arrays(worker, new_list(worker, more))
    element = element_of(state)
    if element is None or element_of(more) not in (None, element):
        raise ListsAreNotValues("an assignment to a slice")
    first, step, count = _slice_parts(worker, state, index)
    if step.constant_value == 1:
        return _replaced(worker, state, first, count, more)
    if element_of(more) is None:
        raise ListsAreNotValues("an assignment to a slice")
    buffers, length = parts_of(state)
    items, given = parts_of(more)
    for buffer, one in zip(buffers, items, strict=True):
        worker.define(list_functions.put_places, buffer, first, step, count, one, given)
    return make_state(worker, buffers, length, element)


def _replaced(
    worker: BranchBuilder, state: Value, first: Value, count: Value, more: Value | None
) -> Value:
    """A new list with other elements in the place of some."""
    element = element_of(state)
    assert element is not None
    items, length = elements_as_arrays(worker, state), parts_of(state)[1]
    after = worker.op("prim::add", first, count)
    head = [worker.op("np::view", one, first, index=":$0") for one in items]
    tail = [worker.op("np::view", one, after, length, index="$0:$1") for one in items]
    lists = [make_state(worker, head, first, element)]
    if more is not None and element_of(more) is not None:
        lists.append(more)
    lists.append(make_state(worker, tail, worker.op("prim::sub", length, after), element))
    return _assembled(worker, lists)


# Methods


def _with_elements(worker: BranchBuilder, state: Value) -> Value:
    """The list with its elements in arrays; it must have a type of elements."""
    if not is_list(state) or element_of(state) is None:
        raise ListsAreNotValues("a list whose elements are not known")
    return in_arrays(worker, state)


def _delete(worker: BranchBuilder, inputs: Sequence[Value]) -> Value:
    """``del state[i]`` and ``del state[i:j]``."""
    state, index = _with_elements(worker, inputs[0]), inputs[1]
    element = element_of(state)
    assert element is not None
    if index.node is not None and index.node.kind == "prim::slice":
        first, step, count = _slice_parts(worker, state, index)
        if step.constant_value != 1:
            raise ListsAreNotValues("every so manieth element is deleted")
        return _replaced(worker, state, first, count, None)
    if index.type != INT:
        raise ListsAreNotValues("an element is deleted")
    place = checked(worker, state, index, "list assignment index out of range")
    buffers, length = parts_of(state)
    shorter = close_gap(worker, buffers, place, length)
    return make_state(worker, buffers, shorter, element)


def _insert(worker: BranchBuilder, inputs: Sequence[Value]) -> Value:
    state, index, item = inputs
    if is_list(state) and element_of(state) is None:
        return make_known(worker, [item])
    state = _with_elements(worker, state)
    element = joined_element(state, item)
    if index.type != INT:
        raise ListsAreNotValues("an element is inserted")
    buffers, length = parts_of(widened(worker, state, element))
    place = worker.define(list_functions.first_place, index, length, 1)
    longer = worker.op("prim::add", length, 1)
    buffers = grown(worker, buffers, length, longer)
    open_gap(worker, buffers, place, length)
    store(worker, buffers, place, item, element)
    return make_state(worker, buffers, longer, element)


def _remove(worker: BranchBuilder, inputs: Sequence[Value]) -> Value:
    state = _with_elements(worker, inputs[0])
    place = found_in_list(worker, "index", [state, inputs[1]])
    return _delete(worker, [state, place])


def _clear(worker: BranchBuilder, inputs: Sequence[Value]) -> Value:
    (state,) = inputs
    if not is_list(state):
        raise ListsAreNotValues("a list that Python knows")
    element = element_of(state)
    if element is None or known_elements(state) is not None:
        return make_known(worker, [])
    return make_state(worker, parts_of(state)[0], worker.constant(0), element)


def _reverse(worker: BranchBuilder, inputs: Sequence[Value]) -> Value:
    (state,) = inputs
    known = known_elements(state) if is_list(state) else None
    if known is not None:
        return make_known(worker, known[::-1])
    if is_list(state) and element_of(state) is None:
        return state
    state = _with_elements(worker, state)
    for items in elements_as_arrays(worker, state):
        worker.define(list_functions.reverse, items)
    return state


def _sort(worker: BranchBuilder, inputs: Sequence[Value]) -> Value:
    state, *descending = inputs
    if is_list(state) and element_of(state) is None:
        return state
    state = _with_elements(worker, state)
    is_descending = descending[0].constant_value if descending else False
    if not isinstance(is_descending, bool):
        raise ListsAreNotValues("an order that only a run tells")
    element, items = element_of(state), elements_as_arrays(worker, state)
    assert element is not None
    for type_, one in zip(leaf_types(element), items, strict=True):
        if not _is_ordered(type_) or _compares_itself(element):
            raise ListsAreNotValues(f"elements of type {element} are sorted")
        if type_ not in (INT, BOOL):
            worker.define(list_functions.require_numbers, one)
    if _is_ordered(element):
        worker.define(list_functions.sort, items[0], is_descending, ())
        return state
    columns = worker.make_tuple(items)
    places = worker.define(list_functions.sorted_places, columns, is_descending)
    for one in items:
        worker.define(list_functions.reordered, one, places)
    return state


def _is_ordered(type_: Type) -> bool:
    """Whether this is a number, Python's or NumPy's, that is not complex."""
    if isinstance(type_, TensorType):
        return type_.scalar and type_.dtype is not None and type_.dtype.kind in "biuf"
    return type_ in (INT, FLOAT, BOOL)


def _compares_itself(element: Type) -> bool:
    """Whether there is a named tuple whose class says what is smaller."""
    if not isinstance(element, TupleType):
        return not _is_ordered(element)
    class_ = element.named or tuple
    own = (class_.__eq__, class_.__lt__) != (tuple.__eq__, tuple.__lt__)
    return own or any(map(_compares_itself, element.elements))


def _sorted(worker: BranchBuilder, inputs: Sequence[Value]) -> Value:
    return _sort(worker, [new_list(worker, inputs[0]), *inputs[1:]])


def found_in_list(worker: BranchBuilder, name: str, inputs: Sequence[Value]) -> Value:
    """What ``index`` and ``count`` give."""
    state, item = _with_elements(worker, inputs[0]), inputs[1]
    if element_of(state) != item.type or item.type not in (INT, FLOAT, BOOL):
        raise ListsAreNotValues(f"{item.type} is looked for in a list of {element_of(state)}")
    (items,) = elements_as_arrays(worker, state)
    function = {"index": list_functions.index_of, "count": list_functions.count_of}[name]
    try:
        return worker.define(function, items, item)
    except Untypable as reason:
        raise ListsAreNotValues(str(reason)) from reason


CHANGES: dict[str, Callable[[BranchBuilder, Sequence[Value]], Value]] = {
    "prim::ListSet": _set_slice,
    "prim::ListDelete": _delete,
    "prim::ListInsert": _insert,
    "prim::ListRemove": _remove,
    "prim::ListClear": _clear,
    "prim::ListReverse": _reverse,
    "prim::ListSort": _sort,
    "prim::ListSorted": _sorted,
    "prim::ListOfNumbers": _numbers_of,
}
"""What changes a list, or makes one, by the kind of its node."""
