"""What ``specialize`` makes of operations on lists that several names or lists refer to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from jitcore.ir.graph import ITERATORS, Block, Node, Use, Value
from jitcore.ir.ops import list_functions
from jitcore.ir.ops.op import Untypable
from jitcore.ir.specialize.branches import BranchBuilder
from jitcore.ir.specialize.by_value import is_shared
from jitcore.ir.specialize.lists.list_changes import (
    found_in_list,
    is_row,
    joined_lists,
    new_list,
    part_of,
)
from jitcore.ir.specialize.lists.list_heap import (
    append_shared,
    close,
    extend_shared,
    open_list,
    set_shared,
    share,
    shared_item,
    shared_length,
)
from jitcore.ir.specialize.lists.list_parts import (
    copied,
    element_of,
    elements_as_arrays,
    in_arrays,
    is_list,
    length_of,
    make_state,
)
from jitcore.ir.specialize.lists.list_states import LIST_KINDS, apply_change, pop_from_list
from jitcore.ir.specialize.lists.list_uses import (
    CHANGES,
    MEMBERSHIP,
    OF_ALL_ELEMENTS,
    READING_KINDS,
    makes_copy,
)
from jitcore.ir.specialize.lists.listed_arrays import has_references
from jitcore.ir.specialize.lists.mixed_elements import is_of_one_dtype
from jitcore.ir.specialize.lists.shared_lists import holds_shared, is_open
from jitcore.ir.specialize.objects.local_records import is_made
from jitcore.ir.specialize.skeletons import ListsAreNotValues, place_of_shared
from jitcore.ir.types import (
    BOOL,
    FLOAT,
    INT,
    NONE,
    LocalListType,
    RecordType,
    SharedListType,
    TensorType,
    TupleType,
    Type,
    UnionType,
    is_array,
)

__all__ = ["apply_to_shared", "apply_to_stored", "keeps_mixed", "unpacked_list"]

_ELEMENTS = {
    "prim::ListAppend": 1,
    "prim::ListSet": 2,
    "prim::ListInsert": 2,
}
"""Which operand becomes an element of a local list."""

_JOINS = frozenset({"prim::ListExtend", "prim::ListJoin", "prim::ListSet"})

_KEEPERS = ITERATORS | {"prim::TupleConstruct"}
_READERS = OF_ALL_ELEMENTS | MEMBERSHIP | READING_KINDS | LIST_KINDS


def apply_to_stored(worker: BranchBuilder, node: Node, inputs: list[Value]) -> None:
    """Put lists into the heap that become elements of others."""
    for number in _stored(node, inputs):
        if is_list(inputs[number]) and worker.shared is not None:
            inputs[number] = share(worker, inputs[number], node)
        elif isinstance(inputs[number].type, UnionType) and node.kind not in _HOLDERS:
            is_display = node.kind in ("prim::ListValue", "prim::ListRepeat")
            wanted = None if is_display else _element(inputs[0])
            inputs[number] = _narrowed(worker, inputs[number], wanted or FLOAT)
    if worker.shared is None:
        return
    types = list(_same_types(node, inputs))
    for other in types[1:]:
        worker.shared.unify(types[0], other)


_HOLDERS = frozenset({"prim::TupleConstruct", "prim::SetAttr"})
"""What keeps values of several types as they are."""


def _element(value: Value) -> Type | None:
    """The type of the elements of a list."""
    return value.type.element if isinstance(value.type, SharedListType) else element_of(value)


def _narrowed(worker: BranchBuilder, item: Value, wanted: Type) -> Value:
    """A number of several types, such as a sum, as one of these: Python sees to the others.

    Types of one dtype are left: lists of them cost little.
    """
    assert isinstance(item.type, UnionType) and item.node is not None
    alternatives = item.type.alternatives
    if not worker.is_native:
        return item  # a host program could not begin anew
    if wanted not in alternatives or NONE in alternatives or is_of_one_dtype(item.type):
        return item
    number = alternatives.index(wanted)
    tag, *held = item.node.inputs
    worker.define(list_functions.require_type, worker.op("prim::eq", tag, number))
    return held[number]


def keeps_mixed(node: Node, inputs: Sequence[Value], number: int) -> bool:
    """Whether an operand of several types becomes an element of a list of such elements."""
    if node.kind in _HOLDERS or number not in _stored(node, inputs):
        return False
    return bool(LocalListType(inputs[number].type).dtypes)


def _same_types(node: Node, inputs: Sequence[Value]) -> Iterator[Type]:
    """The types of shared lists that are going to be elements of one local list."""
    place = _ELEMENTS.get(node.kind, -1)
    if place < 0 and node.kind not in _JOINS:
        return
    for number, value in enumerate(inputs):
        element = element_of(value) if is_list(value) else value.type if number == place else None
        if isinstance(element, SharedListType):
            yield element


def _stored(node: Node, inputs: Sequence[Value]) -> Sequence[int]:
    """The numbers of the operands that are kept in a list or a tuple."""
    if node.kind == "prim::ListValue":
        return range(len(inputs))
    if node.kind == "prim::ListRepeat":
        return range(len(inputs) - 1)
    if node.kind in _ELEMENTS:
        place = _ELEMENTS[node.kind]
        return () if node.kind == "prim::ListSet" and inputs[1].type != INT else (place,)
    if node.kind == "prim::SetAttr":
        return (1,)
    if node.kind == "prim::TupleConstruct":
        is_returned = all(map(_returns, node.output.uses))
        return [number for number, one in enumerate(inputs) if not is_returned or _has_lists(one)]
    if inputs and is_shared(inputs[0]):
        return _stored_in_shared(node, inputs)
    return ()


def _stored_in_shared(node: Node, inputs: Sequence[Value]) -> Sequence[int]:
    if node.kind == "prim::setitem" and inputs[1].type == INT:
        return (2,)
    name = node.attributes["name"] if node.kind == "prim::CallMethod" else ""
    return {"append": (1,), "insert": (2,)}.get(name, ())


def _has_lists(value: Value) -> bool:
    """Whether a value is a local list of references: what these are changes until the end."""
    return is_list(value) and holds_shared(element_of(value))


def _returns(use: Use) -> bool:
    return isinstance(use.user, Block) and use.user.owner is None


def apply_to_shared(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value | None:
    """The result of a node that makes, changes or reads such a list; None of all others.

    Raises
    ------
    ListsAreNotValues
        A list would hold what has no place in the heap, such as an int of more than 64 bits.
    """
    if worker.shared is None:
        return None
    try:
        return _apply_to_shared(worker, node, inputs)
    except Untypable as reason:
        raise ListsAreNotValues(str(reason)) from None


def _apply_to_shared(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value | None:
    assert worker.shared is not None
    if node.kind == "prim::ListShare":
        # What is returned at once nobody else gets to know, and it is made of values at the end.
        is_returned = len(node.output.uses) == 1 and _returns(node.output.uses[0])
        return inputs[0] if is_returned else share(worker, inputs[0], node)
    if "shared" in node.attributes:
        assert worker.taken is not None
        return worker.taken.references[node]
    found = [number for number, value in enumerate(inputs) if is_shared(value)]
    if not found:
        return _copy(worker, node, inputs)
    if node.kind in _KEEPERS or _is_for_object(worker, node, inputs):
        return None
    rule = _RULES.get(node.kind)
    if rule is not None:
        return rule(worker, node, inputs)
    if node.kind not in _READERS:
        raise ListsAreNotValues(f"{node.kind} of a list that several may know")
    stored = _stored(node, inputs)
    for number in found:
        if number not in stored:
            inputs[number] = open_list(worker, inputs[number])
    return None


def _is_for_object(worker: BranchBuilder, node: Node, inputs: Sequence[Value]) -> bool:
    """Whether a list becomes an attribute of an object that is a value, or a method gets it."""
    if node.kind == "prim::Call":
        return worker.methods is not None and is_made(node)
    is_object = isinstance(inputs[0].type, RecordType)
    return is_object and node.kind in ("prim::SetAttr", "prim::CallMethod")


def _copy(worker: BranchBuilder, node: Node, inputs: Sequence[Value]) -> Value | None:
    """A new list that a local one, or an array, is copied to, where it is not local itself.

    None of all else.
    """
    sources = inputs[1:] if node.kind == "prim::Call" else inputs
    if not makes_copy(node):
        return None
    source, name = sources[0], node.attributes.get("name")
    if name == "tolist":
        if not is_row(source):
            return None
        return share(worker, apply_change(worker, "prim::ListOfNumbers", sources), node)
    is_other = node.kind == "prim::Call" and (isinstance(source.type, TupleType) or is_row(source))
    if not (is_other or is_list(source)):
        return None
    kinds = {"prim::getitem": "prim::ListSlice", "prim::add": "prim::ListJoin"}
    is_sorted = node.kind == "prim::Call" and inputs[0].constant_value is sorted
    kind = "prim::ListSorted" if is_sorted else kinds.get(node.kind, "prim::ListCopy")
    sources = [new_list(worker, source), *sources[1:]] if is_other else sources
    return share(worker, apply_change(worker, kind, sources), node)


# Reading ----------------------------------------------------------------------------------


def _length(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value:
    length = shared_length(worker, inputs[0])
    kinds = {"prim::bool": "prim::ne", "prim::not_": "prim::eq"}
    return length if node.kind == "prim::len" else worker.op(kinds[node.kind], length, 0)


def _getitem(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value | None:
    reference, index = inputs
    if not is_shared(reference):
        inputs[1] = open_list(worker, index)
        return None
    if index.node is not None and index.node.kind == "prim::slice":
        state = open_list(worker, reference)
        return share(worker, _part(worker, state, index), node)
    if index.type != INT:
        raise ListsAreNotValues(f"{index.type} as a subscript of a list")
    return worker.uninitialized() if is_open(reference.type) else shared_item(worker, *inputs)


def _part(worker: BranchBuilder, state: Value, index: Value) -> Value:
    return state if element_of(state) is None else part_of(worker, state, index)


def _is(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value:
    """``x is y``: references are equal where they are the same list."""
    one, other = inputs
    if NONE in (one.type, other.type):
        return worker.constant(node.kind == "prim::isnot")
    if not (is_shared(one) and is_shared(other)) or one.type != other.type:
        raise ListsAreNotValues("a list, or something else")
    kind = "prim::eq" if node.kind == "prim::is_" else "prim::ne"
    return worker.op(kind, place_of_shared(one), place_of_shared(other))


def _call(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value:
    """``list(x)`` and ``sorted(x)``."""
    callee = inputs[0].constant_value
    if len(inputs) < 2 or not is_shared(inputs[1]) or "starred" in node.attributes:
        raise ListsAreNotValues("a list that Python gets")
    state = open_list(worker, inputs[1])
    if callee is list and len(inputs) == 2:
        return share(worker, copied(worker, state), node)
    if callee is sorted and node.keywords in ((), ("reverse",)):
        made = apply_change(worker, "prim::ListSorted", [state, *inputs[2:]])
        return share(worker, made, node)
    raise ListsAreNotValues("a list that Python gets")


def _add(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value:
    lists = [open_list(worker, one) if is_shared(one) else one for one in inputs]
    return share(worker, joined_lists(worker, *lists), node)


def _multiply(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value:
    """``reference * count``."""
    reference, count = inputs if is_shared(inputs[0]) else inputs[::-1]
    if count.type != INT:
        raise ListsAreNotValues(f"a list times {count.type}")
    state = open_list(worker, reference)
    element = element_of(state)
    if element is None:
        return share(worker, state, node)
    items = elements_as_arrays(worker, state)
    if any(map(has_references, items)):
        raise ListsAreNotValues("a list of arrays times a number")
    buffers = [worker.define(list_functions.repeated, one, count) for one in items]
    length = worker.size(buffers[0], 0)
    return share(worker, make_state(worker, buffers, length, element), node)


def _equal(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value:
    """``x == y`` and ``x != y`` of lists of numbers."""
    if not all(is_shared(one) or is_list(one) for one in inputs):
        raise ListsAreNotValues("a list that is compared with something else")
    states = [open_list(worker, one) if is_shared(one) else one for one in inputs]
    elements = {element_of(one) for one in states}
    if None in elements:
        lengths = [length_of(worker, one) for one in states]
        is_same = worker.op("prim::eq", *lengths)
    elif len(elements) > 1 or not elements <= {INT, FLOAT, BOOL}:
        raise ListsAreNotValues("lists of other things than numbers of one type are compared")
    else:
        arrays = [elements_as_arrays(worker, in_arrays(worker, one))[0] for one in states]
        is_same = worker.define(list_functions.equal, *arrays)
    return is_same if node.kind == "prim::eq" else worker.op("prim::not_", is_same)


def _add_in_place(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value:
    reference, more = inputs
    if not is_shared(reference):
        raise ListsAreNotValues("what is no list is extended by one")
    if isinstance(more.type, TensorType):
        raise ListsAreNotValues("a list to which an array is added is an array")
    _extend(worker, reference, more)
    return reference


def _check_bound(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value:
    reference, flag = inputs
    row = worker.op("prim::CheckBound", place_of_shared(reference), flag, **node.attributes)
    return worker.emit("prim::SharedList", [row], {}, reference.type)


def unpacked_list(worker: BranchBuilder, reference: Value, count: int) -> list[Value]:
    """``a, b = reference``."""
    length = shared_length(worker, reference)
    worker.define(list_functions.require_count, length, count)
    if is_open(reference.type):
        return [worker.uninitialized() for _ in range(count)]
    return [shared_item(worker, reference, worker.constant(place)) for place in range(count)]


# Changes ----------------------------------------------------------------------------------


def _setitem(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value | None:
    reference, index, item = inputs
    if is_array(reference.type) and is_shared(index) and not is_shared(item):
        inputs[1] = open_list(worker, index)
        return None
    if not is_shared(reference):
        raise ListsAreNotValues("a list that is stored where only Python knows it")
    if index.type != INT:
        return _changed(worker, "prim::ListSet", inputs)
    _check_element(worker, reference, item)
    if not is_open(reference.type):
        set_shared(worker, reference, index, item)
    return worker.constant(None)


def _check_element(worker: BranchBuilder, reference: Value, item: Value) -> None:
    """See that something may become an element of a list."""
    type_ = reference.type
    assert worker.shared is not None and isinstance(type_, SharedListType)
    if type_.element is None:
        worker.shared.learn(type_.maker, item.type)
    elif item.type != type_.element:
        worker.shared.unify(type_.element, item.type)


def _delitem(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value:
    return _changed(worker, "prim::ListDelete", inputs)


def _changed(worker: BranchBuilder, kind: str, inputs: Sequence[Value]) -> Value:
    """Do to a list in the heap what is done to local lists."""
    reference, *others = inputs
    if is_open(reference.type):
        return worker.constant(None)
    for number, one in enumerate(others):
        if is_shared(one) and kind == "prim::ListSet":
            others[number] = copied(worker, open_list(worker, one))
    before = open_list(worker, reference)
    close(worker, reference, before, apply_change(worker, kind, [before, *others]))
    return worker.constant(None)


def _append(worker: BranchBuilder, reference: Value, item: Value) -> Value:
    _check_element(worker, reference, item)
    if not is_open(reference.type):
        append_shared(worker, reference, item)
    return worker.constant(None)


def _extend(worker: BranchBuilder, reference: Value, more: Value) -> Value:
    if is_shared(more):
        # A list may be extended by itself.
        more = copied(worker, open_list(worker, more))
    elif not is_list(more):
        more = new_list(worker, more)
    element = element_of(more)
    if element is None:
        return worker.constant(None)
    type_ = reference.type
    assert worker.shared is not None and isinstance(type_, SharedListType)
    if type_.element is None:
        worker.shared.learn(type_.maker, element)
        return worker.constant(None)
    worker.shared.unify(type_.element, element)
    extend_shared(worker, reference, in_arrays(worker, more))
    return worker.constant(None)


def _pop(worker: BranchBuilder, reference: Value, *index: Value) -> Value:
    if is_open(reference.type):
        return worker.uninitialized()
    before = open_list(worker, reference)
    item, after = pop_from_list(worker, [before, *index])
    close(worker, reference, before, after)
    return item


def _method(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value:
    reference, *others = inputs
    name, keywords = node.attributes["name"], tuple(node.keywords)
    if not is_shared(reference) or "starred" in node.attributes:
        raise ListsAreNotValues("a list that Python gets")
    if keywords and not (name == "sort" and keywords == ("reverse",)):
        raise ListsAreNotValues(f"{name} with {', '.join(keywords)}")
    methods: dict[tuple[str, int], Callable[..., Value]] = {
        ("append", 1): _append,
        ("extend", 1): _extend,
        ("pop", 0): _pop,
        ("pop", 1): _pop,
    }
    method = methods.get((name, len(others)))
    if method is not None:
        return method(worker, reference, *others)
    if name == "copy" and not others:
        return share(worker, copied(worker, open_list(worker, reference)), node)
    if name in ("index", "count") and len(others) == 1:
        return found_in_list(worker, name, [open_list(worker, reference), *others])
    if name == "insert" and len(others) == 2:
        _check_element(worker, reference, others[1])
    elif (name, len(others)) not in _PLAIN_METHODS:
        raise ListsAreNotValues(f"the method {name} of a list")
    return _changed(worker, CHANGES[name], inputs)


_PLAIN_METHODS = frozenset({("remove", 1), ("clear", 0), ("reverse", 0), ("sort", 0), ("sort", 1)})

_Rule = Callable[[BranchBuilder, Node, list[Value]], "Value | None"]

_RULES: dict[str, _Rule] = {
    "prim::len": _length,
    "prim::bool": _length,
    "prim::not_": _length,
    "prim::getitem": _getitem,
    "prim::setitem": _setitem,
    "prim::delitem": _delitem,
    "prim::is_": _is,
    "prim::isnot": _is,
    "prim::Call": _call,
    "prim::add": _add,
    "prim::iadd": _add_in_place,
    "prim::mul": _multiply,
    "prim::eq": _equal,
    "prim::ne": _equal,
    "prim::CheckBound": _check_bound,
    "prim::CallMethod": _method,
}
