"""The heap where a function begins: empty, or with the lists that are arguments.

All lists of one call are read together, so that each list is read once: two arguments, or two
rows, that are the same list in Python are so in the heap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from jitcore.ir.graph import Graph, Value
from jitcore.ir.held_lists import HeldListType, holds_held
from jitcore.ir.specialize.branches import BranchBuilder
from jitcore.ir.specialize.lists.list_parts import dtypes_of, make_state, room_for
from jitcore.ir.specialize.lists.list_results import ColumnKind
from jitcore.ir.specialize.lists.listed_arrays import leaf_types
from jitcore.ir.specialize.lists.mixed_elements import is_mixed
from jitcore.ir.specialize.lists.shared_lists import TakenLists, is_open
from jitcore.ir.specialize.skeletons import FIRST_CAPACITY, ListsAreNotValues
from jitcore.ir.types import (
    ANY,
    BOOL,
    FLOAT,
    INT,
    ListType,
    RecordType,
    SharedListType,
    TensorType,
    TupleType,
    Type,
    UnionType,
    is_array,
)

__all__ = ["is_nested", "part_kinds", "start_heap"]

_KINDS: dict[Type, str] = {INT: "int", FLOAT: "float", BOOL: "bool"}


def is_nested(type_: ListType) -> bool:
    """Whether lists of this type hold lists."""
    return isinstance(type_.element, ListType)


def part_kinds(worker: BranchBuilder) -> tuple[tuple[ColumnKind, ...], ...]:
    """For each part of the heap the length of the tuples in its lists, or 0, and its columns."""
    assert worker.shared is not None
    return tuple(tuple(_kinds(worker, one)) for one in worker.shared.parts)


def _kinds(worker: BranchBuilder, element: Type) -> Iterator[ColumnKind]:
    if isinstance(element, TupleType) and element.named:
        raise ListsAreNotValues(f"a list of {element} that others know")
    is_tuple = isinstance(element, TupleType)
    members = element.elements if isinstance(element, TupleType) else (element,)
    yield len(members) if is_tuple else 0
    if isinstance(element, UnionType):
        yield from _mixed_kinds(element)
        return
    for one in members:
        if isinstance(one, SharedListType) and one.element is not None:
            assert worker.shared is not None
            yield worker.shared.part(one.element)
        elif one in _KINDS:
            yield _KINDS[one]
        elif is_array(one):
            yield "array"
        else:
            raise ListsAreNotValues(f"a list of {element} that others know")


def _mixed_kinds(element: UnionType) -> Iterator[ColumnKind]:
    """The kinds of the columns of numbers of several types."""
    dtypes = dtypes_of(element)[1:]
    names = {np.dtype(np.int64): "int", np.dtype(np.float64): "float", np.dtype(bool): "bool"}
    if not set(dtypes) <= names.keys():
        raise ListsAreNotValues(f"a list of {element} that others know")
    yield tuple(1 + dtypes.index(one) if one in dtypes else 0 for one in names)
    yield from (names[one] for one in dtypes)


def start_heap(worker: BranchBuilder, graph: Graph, inputs: Mapping[Value, Value]) -> None:
    """Make the heap; ``inputs`` says what the inputs of the generic graph have become."""
    assert worker.shared is not None
    named: list[Any] = [node for node in graph.block.nodes if "shared" in node.attributes]
    arguments = [inputs[node.inputs[0]] for node in named]
    held = list(_held_lists(worker, inputs.values()))
    if named or held:
        makers = [("held", number) for number in range(len(held))]
        _take(worker, [*named, *makers], [*arguments, *held])
        assert worker.taken is not None
        worker.held_lists += [worker.taken.references[one] for one in makers]
        return
    none = worker.constant(0)
    for element in worker.shared.parts:
        for type_ in (INT, element):
            buffers = room_for(worker, type_, worker.constant(FIRST_CAPACITY))
            worker.heap.append(make_state(worker, buffers, none, type_))


def _held_lists(worker: BranchBuilder, inputs: Iterable[Value]) -> Iterator[Value]:
    """The lists that are attributes of arguments, in the order in which these are opened."""
    for value in inputs:
        if isinstance(value.type, HeldListType):
            yield value
        elif holds_held(value.type):
            assert isinstance(value.type, TupleType | RecordType)
            types = value.type.elements
            count = {"count": len(types)}
            parts = worker.block.append("prim::Unpack", [value], count, outputs=types)
            yield from _held_lists(worker, parts.outputs)


def _take(worker: BranchBuilder, named: Sequence[Any], arguments: Sequence[Value]) -> None:
    """Read these arguments into the heap."""
    shared = worker.shared
    assert shared is not None
    pairs = zip(named, arguments, strict=True)
    types = [_shared_type(worker, argument.type, node) for node, argument in pairs]
    roots = [
        (argument, type_.element)
        for argument, type_ in zip(arguments, types, strict=True)
        if isinstance(type_, SharedListType) and type_.element is not None and not is_open(type_)
    ]
    numbers = tuple(shared.part(element) for _, element in roots)
    made = worker.block.append(
        "prim::ListTakeShared",
        [argument for argument, _ in roots],
        {"parts": part_kinds(worker), "roots": numbers},
        outputs=[*(INT for _ in roots), *_types(worker)],
        source=worker.source,
    )
    places = iter(made.outputs[: len(roots)])
    outputs = iter(made.outputs[len(roots) :])
    memos, counts = [], []
    if any(map(is_array, chain.from_iterable(map(leaf_types, shared.parts)))):
        raise ListsAreNotValues("lists that are arguments, and lists of arrays that others know")
    if any(map(is_mixed, shared.parts)):
        raise ListsAreNotValues("lists that are arguments, and lists of numbers of several types")
    for element in shared.parts:
        memos.append(next(outputs))
        rows = next(outputs)
        counts.append(next(outputs))
        worker.heap.append(make_state(worker, [rows], counts[-1], INT))
        columns = [next(outputs) for _ in dtypes_of(element)]
        worker.heap.append(make_state(worker, columns, next(outputs), element))
    references = {}
    for node, type_ in zip(named, types, strict=True):
        place = worker.constant(0) if is_open(type_) else next(places)
        references[node] = worker.emit("prim::SharedList", [place], {}, type_)
    worker.taken = TakenLists(references, tuple(memos), tuple(counts))


def _types(worker: BranchBuilder) -> Iterator[Type]:
    """For each part the memo, the rows and how many words they are, the columns and a count."""
    assert worker.shared is not None
    words = np.dtype(np.int64)
    for element in worker.shared.parts:
        dim = worker.fresh_dim()
        yield TensorType(words, (dim,))
        yield TensorType(words, (dim,))
        yield INT
        room = worker.fresh_dim()
        for dtype in dtypes_of(element):
            yield TensorType(dtype, (room,))
        yield INT


def _shared_type(worker: BranchBuilder, type_: Type, maker: Any) -> Type:
    """The type of references to lists of a type; lists that are empty are known by their maker."""
    if not isinstance(type_, ListType):
        return type_
    assert worker.shared is not None
    inner = None if type_.element == ANY else _shared_type(worker, type_.element, (maker, "rows"))
    return worker.shared.list_of(inner, maker)
