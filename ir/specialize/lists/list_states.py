"""Growing lists as arrays and a length: what ``specialize`` makes of ``prim::ListValue``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from jitcore.ir import reference
from jitcore.ir.graph import ITERATORS, Graph, Node, Use, Value
from jitcore.ir.ops import array_lists, list_functions
from jitcore.ir.ops.op import Untypable
from jitcore.ir.specialize.branches import BranchBuilder
from jitcore.ir.specialize.chosen_elements import (
    MAX_KNOWN,
    chosen_element,
    known_number,
    raise_where,
)
from jitcore.ir.specialize.lists.list_changes import (
    CHANGES,
    found_in_list,
    is_row,
    joined_lists,
    new_list,
    part_of,
)
from jitcore.ir.specialize.lists.list_heap import table_of
from jitcore.ir.specialize.lists.list_parts import (
    as_place,
    checked,
    close_gap,
    copied,
    dtypes_of,
    element_from,
    element_of,
    elements_as_arrays,
    fill,
    grown,
    in_arrays,
    is_list,
    item_of,
    joined_element,
    known_elements,
    length_of,
    make_known,
    make_state,
    parts_of,
    store,
    widened,
)
from jitcore.ir.specialize.lists.list_uses import AS_ARRAY, JOINING_KINDS, is_index
from jitcore.ir.specialize.lists.listed_arrays import (
    common_element,
    has_references,
    leaf_types,
    make_views_objects,
)
from jitcore.ir.specialize.lists.mixed_elements import code_of, is_of_one_dtype
from jitcore.ir.specialize.lists.shared_lists import holds_shared
from jitcore.ir.specialize.skeletons import (
    FIRST_CAPACITY,
    ListsAreNotValues,
    needs_native,
    numbers_in,
)
from jitcore.ir.specialize.value_kinds import dtype_of_number
from jitcore.ir.types import (
    ANY,
    INT,
    NONE,
    REFERENCE,
    ListType,
    LocalListType,
    RecordType,
    SharedListType,
    TensorType,
    TupleType,
    Type,
    UnionType,
    is_array,
    is_number,
)

__all__ = [
    "LIST_KINDS",
    "apply_change",
    "apply_to_list",
    "pop_from_list",
    "python_list",
    "remove_list_states",
]

_ARRAYS = frozenset({"np::array", "np::asarray"})
_LENGTHS = {"prim::len": "", "prim::bool": "prim::ne", "prim::not_": "prim::eq"}
"""What only asks for the length, and how that is compared with 0."""


def apply_to_list(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value | None:
    """The result of a node that makes, writes or reads such a list; None of all others."""
    if node.kind in LIST_KINDS:
        if node.kind == "prim::ListArgument":
            return _argument(worker, inputs[0], written="written" in node.attributes)
        return apply_change(worker, node.kind, inputs)
    _take_indices(worker, node, inputs)
    found = [number for number, value in enumerate(inputs) if is_list(value)]
    if not found:
        return None
    first = inputs[0]
    if node.kind in _LENGTHS:
        length, kind = length_of(worker, first), _LENGTHS[node.kind]
        return worker.op(kind, length, 0) if kind else length
    if node.kind == "prim::CallMethod" and found == [0]:
        return found_in_list(worker, node.attributes["name"], inputs)
    if node.kind == "prim::getitem" and found == [0] and inputs[1].type == INT:
        with contextlib.suppress(Untypable):
            return _get(worker, first, inputs[1])
    if node.kind in _FOR_ALL_ELEMENTS:
        return None
    if found == [0] and _holds_arrays(element_of(first)):
        if node.kind in JOINING_KINDS:
            return None
        if _is_new_array(node, first):
            return _stacked(worker, first)
    for number in found:
        as_array = number == 0 and node.kind in AS_ARRAY
        inputs[number] = _array(worker, first) if as_array else python_list(worker, inputs[number])
    return None


def _take_indices(worker: BranchBuilder, node: Node, inputs: list[Value]) -> None:
    """Put arrays in the places of lists that say which elements of an array are meant."""
    for number, value in enumerate(inputs):
        if not is_list(value) or not is_index(Use(node, number)):
            continue
        if node.kind != "prim::TupleConstruct" and not is_array(inputs[0].type):
            raise ListsAreNotValues("a list that is a subscript of something else than an array")
        inputs[number] = _index(worker, value)


def _index(worker: BranchBuilder, state: Value) -> Value:
    """The array of a list of numbers that is a subscript."""
    if length_of(worker, state).constant_value == 0:
        return worker.op("np::empty", 0, dtype=np.dtype(np.int64))
    state = in_arrays(worker, state)
    items = _numbers(worker, state)[-1]
    assert isinstance(items.type, TensorType) and items.type.dtype is not None
    if items.type.dtype.kind not in "bui":
        raise ListsAreNotValues(f"a list of {element_of(state)} that is a subscript")
    if items.type.dtype.kind == "b":
        worker.define(list_functions.require_truths, parts_of(state)[1])
    return items


def _is_new_array(node: Node, state: Value) -> bool:
    """Whether all that is asked for is the array that has to be made anyway."""
    return node.kind in _ARRAYS and len(node.inputs) == 1 and known_elements(state) is None


def apply_change(worker: BranchBuilder, kind: str, inputs: Sequence[Value]) -> Value:
    """What becomes of a list by a node of this kind."""
    try:
        return _WRITERS[kind](worker, inputs)
    except Untypable as reason:
        raise ListsAreNotValues(str(reason)) from reason


_FOR_ALL_ELEMENTS = ITERATORS | {
    f"prim::{name}" for name in ("sum", "min", "max", "any", "all", "in_", "notin")
}
"""What takes the elements by itself."""


def _argument(worker: BranchBuilder, argument: Value, *, written: bool) -> Value:
    """The numbers in a caller's list; those that are written are in an array of their own."""
    if not isinstance(argument.type, ListType):
        raise ListsAreNotValues("an argument that is no list of numbers")
    element = argument.type.element
    if element == ANY:
        return make_known(worker, [])
    if written and needs_native(element) and element != INT and not is_array(element):
        raise ListsAreNotValues(f"a list of {element} that is an argument, and changed")
    if not argument.type.dtypes:
        raise ListsAreNotValues(f"a list of {element}")
    dim = worker.fresh_dim()
    buffers = [
        worker.emit("prim::ListItems", [argument], {"column": column}, TensorType(dtype, (dim,)))
        for column, dtype in enumerate(argument.type.dtypes)
    ]
    length = worker.emit("prim::ListLength", [argument], {}, INT)
    state = make_state(worker, buffers, length, element)
    return copied(worker, state) if written else state


def _write_back(worker: BranchBuilder, inputs: Sequence[Value]) -> Value:
    """Give the caller's list the numbers that it has now."""
    argument, state = inputs
    if not isinstance(argument.type, ListType) or not is_list(state):
        raise ListsAreNotValues("an argument that is no list of numbers")
    state = in_arrays(worker, state)
    element = element_of(state)
    if element is not None:
        before = argument.type.element
        joined = element if before == ANY else common_element([before, element])
        if joined is None or not (is_number(joined) or is_array(joined)):
            raise ListsAreNotValues("a list that gets other elements")
        (buffer,), length = parts_of(state)
        worker.block.append(
            "prim::ListWrite", [argument, buffer, length], outputs=(), source=worker.source
        )
    elif argument.type.element != ANY:
        raise ListsAreNotValues("a list whose elements are not known")
    return worker.constant(None)


def _repeat(worker: BranchBuilder, inputs: Sequence[Value]) -> Value:
    *items, count = inputs
    if count.type != INT:
        raise ListsAreNotValues(f"a list times {count.type}")
    if count.constant is not None:
        times = max(count.constant.attributes["value"], 0)
        if times * len(items) <= MAX_KNOWN:
            return make_known(worker, items * times)
    if len(items) != 1:
        raise ListsAreNotValues("a list of several elements times a number")
    element = items[0].type
    if REFERENCE in dtypes_of(element):
        raise ListsAreNotValues("a list of one array times a number")
    length = worker.op("prim::max", count, 0)
    capacity = worker.op("prim::max", count, FIRST_CAPACITY)
    buffers = []
    numbers = numbers_in(items[0], element, worker.block)
    for dtype, number in zip(dtypes_of(element), numbers, strict=True):
        buffers.append(worker.op("np::empty", capacity, dtype=dtype))
        filled = worker.op("np::view", buffers[-1], length, index=":$0")
        worker.op("np::store", filled, worker.op("np::cast", number, dtype=dtype))
    return make_state(worker, buffers, length, element)


def _append(worker: BranchBuilder, inputs: Sequence[Value]) -> Value:
    state, item = inputs
    if not is_list(state):
        raise ListsAreNotValues("a list that Python knows")
    known, element = known_elements(state), element_of(state)
    if known is not None and len(known) < MAX_KNOWN:
        return make_known(worker, [*known, item])
    if element is None:
        return make_known(worker, [item])
    state = in_arrays(worker, state)
    element = joined_element(state, item)
    buffers, length = parts_of(widened(worker, state, element))
    longer = worker.op("prim::add", length, 1)
    buffers = grown(worker, buffers, length, longer)
    store(worker, buffers, length, item, element)
    return make_state(worker, buffers, longer, element)


def _extend(worker: BranchBuilder, inputs: Sequence[Value]) -> Value:
    state, more = inputs
    if not is_list(state):
        raise ListsAreNotValues("a list that Python knows")
    if is_row(more):
        more = new_list(worker, more)
    if isinstance(more.type, LocalListType) and more.type.count is None:
        return _extended(worker, state, more)
    for item in worker.elements(more):
        state = _append(worker, [state, item])
    return state


def _extended(worker: BranchBuilder, state: Value, more: Value) -> Value:
    """A list with all elements of another one after its own."""
    element = element_of(more)
    if element is None:
        return state
    known = element_of(state)
    if known is None:
        return copied(worker, more)
    element = common_element([known, element])
    if element is None:
        raise ListsAreNotValues(f"a list of {known} and {element_of(more)}")
    buffers, length = parts_of(widened(worker, in_arrays(worker, state), element))
    items, added = parts_of(widened(worker, more, element))
    total = worker.op("prim::add", length, added)
    buffers = grown(worker, buffers, length, total)
    fill(worker, buffers, (length, total), items, added)
    return make_state(worker, buffers, total, element)


def _copy(worker: BranchBuilder, inputs: Sequence[Value]) -> Value:
    """A list of its own with the same elements."""
    (source,) = inputs
    return new_list(worker, source)


def pop_from_list(worker: BranchBuilder, inputs: Sequence[Value]) -> tuple[Value, Value]:
    """What ``pop`` gives, and the list after it."""
    try:
        return _pop(worker, inputs)
    except Untypable as reason:
        raise ListsAreNotValues(str(reason)) from reason


def _pop(worker: BranchBuilder, inputs: Sequence[Value]) -> tuple[Value, Value]:
    state, *index = inputs
    index = [as_place(worker, one) for one in index]
    if not is_list(state) or any(one.type != INT for one in index):
        raise ListsAreNotValues("a list that Python knows")
    known = known_elements(state)
    at = known_number(index[0]) if index else -1
    if known is not None and at is not None and -len(known) <= at < len(known):
        item = known.pop(at)
        return item, make_known(worker, known)
    element = element_of(state)
    if element is None:
        raise ListsAreNotValues("pop from a list without elements")
    state = in_arrays(worker, state)
    buffers, length = parts_of(state)
    raise_where(worker, worker.op("prim::eq", length, 0), "pop from empty list")
    number = index[0] if index else worker.constant(-1)
    place = checked(worker, state, number, "pop index out of range")
    item = item_of(worker, state, place)
    if index:
        shorter = close_gap(worker, buffers, place, length)
    else:
        shorter = worker.op("prim::sub", length, 1)
    return item, make_state(worker, buffers, shorter, element)


def _set(worker: BranchBuilder, inputs: Sequence[Value]) -> Value:
    state, index, item = inputs
    if not is_list(state):
        raise ListsAreNotValues("a list that Python knows")
    if index.node is not None and index.node.kind == "prim::slice":
        return CHANGES["prim::ListSet"](worker, inputs)
    known = known_elements(state)
    at = known_number(index)
    if known is not None and at is not None and -len(known) <= at < len(known):
        known[at] = item
        return make_known(worker, known)
    if index.type != INT:
        raise ListsAreNotValues("an assignment to an item")
    element = joined_element(state, item)
    state = widened(worker, in_arrays(worker, state), element)
    message = "list assignment index out of range"
    buffers, length = parts_of(state)
    store(worker, buffers, checked(worker, state, index, message), item, element)
    return make_state(worker, buffers, length, element)


def _slice(worker: BranchBuilder, inputs: Sequence[Value]) -> Value:
    state, index = inputs
    if not is_list(state):
        raise ListsAreNotValues("a list that Python knows")
    items = known_elements(state)
    if items is not None:
        try:
            return make_known(
                worker, worker.elements(worker.op("prim::getitem", worker.make_tuple(items), index))
            )
        except Untypable:
            state = in_arrays(worker, state)
    return state if element_of(state) is None else part_of(worker, state, index)


def _get(worker: BranchBuilder, state: Value, index: Value) -> Value:
    items = known_elements(state)
    if items is not None and known_number(index) is None:
        if not _holds_arrays(element_of(state)):
            return _chosen(worker, items, index)
        state, items = in_arrays(worker, state), None
    if items is not None:
        return chosen_element(worker, items, index, "list index out of range")
    return item_of(worker, state, checked(worker, state, index, "list index out of range"))


def _chosen(worker: BranchBuilder, items: Sequence[Value], index: Value) -> Value:
    """One of several known elements, number by number."""
    element = common_element([item.type for item in items]) if items else None
    if element is None or not LocalListType(element).dtypes:
        raise Untypable("an element whose type depends on a number")
    columns = zip(*(numbers_in(item, element, worker.block) for item in items), strict=True)
    numbers = [chosen_element(worker, one, index, "list index out of range") for one in columns]
    return element_from(worker, element, iter(numbers))


def _array(worker: BranchBuilder, state: Value) -> Value:
    """The elements as a new array, or as a tuple that NumPy makes the same array of."""
    if element_of(state) is None:
        return worker.op("np::empty", 0, dtype=np.dtype(np.float64))
    if isinstance(element_of(state), SharedListType):
        return table_of(worker, state)
    if is_array(element_of(state)):
        known = known_elements(state)
        return _stacked(worker, state) if known is None else worker.make_tuple(known)
    items = _numbers(worker, in_arrays(worker, state))[-1]
    return worker.op("np::listed", items)


def _stacked(worker: BranchBuilder, state: Value) -> Value:
    """One array of all the arrays in a list."""
    try:
        return worker.define(array_lists.stacked, state, 0)
    except Untypable as reason:
        raise ListsAreNotValues(str(reason)) from reason


def _holds_arrays(element: Type | None) -> bool:
    """Whether there are arrays in the elements of a list."""
    return element is not None and any(map(is_array, leaf_types(element)))


def _numbers(worker: BranchBuilder, state: Value) -> list[Value]:
    """The array of the elements, which are numbers or references to arrays."""
    element = element_of(state)
    if isinstance(element, SharedListType) or (element and not is_of_one_dtype(element)):
        raise ListsAreNotValues(f"a list of {element} as an array")
    return elements_as_arrays(worker, state)


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
    element, items = element_of(state), known_elements(state)
    if element is None or items is not None:
        made = worker.block.append(
            "prim::ListConstruct", items or [], outputs=(ANY,), source=worker.source
        )
    else:
        made = _listed(worker, element, iter(elements_as_arrays(worker, state)))
    made.host_reason = "it makes a Python list"
    worker.lists[state] = made.output
    return made.output


def _listed(worker: BranchBuilder, element: Type, arrays: Iterator[Value]) -> Node:
    """The call that makes a list of elements of a type, with an array for each number in them."""
    convert: Callable[..., Any] = reference.numbers_of
    if isinstance(element, TupleType) and element.named:
        convert = reference.named_rows
        rows = _listed(worker, TupleType(element.elements), arrays)
        operands = [worker.constant(element.named), rows.output]
    elif isinstance(element, TupleType):
        if not element.elements:
            raise ListsAreNotValues(f"a list of {element} as Python's")
        convert = reference.tuples_of
        operands = [_listed(worker, one, arrays).output for one in element.elements]
    elif isinstance(element, UnionType) and NONE not in element.alternatives:
        convert = reference.mixed_of
        known = worker.make_tuple([worker.constant(code_of(one)) for one in element.alternatives])
        codes = next(arrays)
        of_dtypes = {one: next(arrays) for one in dict.fromkeys(map(dtype_of_number, element.held))}
        operands = [known, codes]
        for one in element.alternatives:
            column = of_dtypes[dtype_of_number(one)]
            operands.append(_listed(worker, one, iter([column])).output)
    elif isinstance(element, RecordType | SharedListType | UnionType):
        raise ListsAreNotValues(f"a list of {element} as Python's")
    else:
        operands = [next(arrays)]
        if isinstance(element, TensorType):
            convert = reference.scalars_of
    inputs = [worker.constant(convert), *operands]
    return worker.block.append("prim::Call", inputs, outputs=(ANY,), source=worker.source)


def remove_list_states(graph: Graph) -> bool:
    """Remove the nodes that said what lists are made of; gives whether some hold arrays.

    Raises
    ------
    ListsAreNotValues
        Something still reads one.
    """
    for node in reversed(list(graph.nodes())):
        if node.kind in ITERATORS and not node.output.uses:
            # The loop that visits the elements reads them by itself.
            node.destroy()
    for node in reversed(list(graph.nodes())):
        is_tuple = node.kind == "prim::TupleConstruct" and holds_shared(node.output.type)
        if node.kind not in _STATES and not is_tuple:
            continue
        if node.output.uses:
            raise ListsAreNotValues("a list that is used where nothing is known of it")
        node.destroy()
    of_references = [node for node in graph.nodes() if any(map(has_references, node.inputs))]
    for node in of_references:
        if node.kind not in _OF_REFERENCES:
            raise ListsAreNotValues(f"{node.kind} of a list of arrays")
    if of_references:
        make_views_objects(graph)
    return bool(of_references)


_OF_REFERENCES = frozenset(
    f"prim::{name}"
    for name in (
        "ListGet",
        "ListMake",
        "ListMakeRows",
        "ListMakeShared",
        "ListMove",
        "ListPut",
        "ListWrite",
    )
) | {"np::view", "prim::Loop", "prim::size"}
"""What the buffers of lists of arrays may be operands of."""

_STATES = frozenset({"prim::ListState", "prim::SharedList"})


_WRITERS: dict[str, Callable[[BranchBuilder, Sequence[Value]], Value]] = {
    **CHANGES,
    "prim::ListValue": make_known,
    "prim::ListWrite": _write_back,
    "prim::ListRepeat": _repeat,
    "prim::ListAppend": _append,
    "prim::ListExtend": _extend,
    "prim::ListSet": _set,
    "prim::ListCopy": _copy,
    "prim::ListJoin": lambda worker, inputs: joined_lists(worker, *inputs),
    "prim::ListSlice": _slice,
}

LIST_KINDS = frozenset({"prim::ListArgument", *_WRITERS})
