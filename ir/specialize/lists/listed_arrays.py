"""Arrays that are elements of local lists: references to them, and what is known of all of them.

A list of arrays has a buffer whose elements are Python's objects, which counts references: the
array in a list is the object that was put there, and it lives as long as anything refers to it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from jitcore.ir.graph import Block, Graph, SourceRange, Value
from jitcore.ir.specialize.lists.mixed_elements import mixed_leaf_types
from jitcore.ir.specialize.value_kinds import mixed_type
from jitcore.ir.types import (
    ANY_EXTENT,
    NONE,
    REFERENCE,
    Dim,
    RecordType,
    TensorType,
    TupleType,
    Type,
    UnionType,
    is_array,
)

__all__ = [
    "common_element",
    "has_references",
    "heap_form",
    "kept_form",
    "leaf_types",
    "make_views_objects",
    "new_buffer",
    "put_number",
]


def kept_form(element: Type) -> Type:
    """What is known of an element wherever its list is: of extents those that are numbers."""
    return _with_dims(element, lambda dim: dim if isinstance(dim, int) else ANY_EXTENT)


def heap_form(element: Type) -> Type:
    """What is known of the elements of all lists in one part of a heap: no extents."""
    return _with_dims(element, lambda dim: ANY_EXTENT)


def _with_dims(element: Type, change: Callable[[Dim], Dim]) -> Type:
    if isinstance(element, TupleType | RecordType):
        parts = tuple(_with_dims(part, change) for part in element.elements)
        return replace(element, elements=parts)
    if not is_array(element):
        return element
    assert isinstance(element, TensorType) and element.dims is not None
    return TensorType(element.dtype, tuple(map(change, element.dims)))


def common_element(elements: Collection[Type]) -> Type | None:
    """The type of the elements of a list that has some of these types; None where it has none."""
    first, *others = map(kept_form, elements)
    for other in others:
        joined = _joined(first, other)
        if joined is None:
            return None
        first = joined
    return first


def _joined(one: Type, other: Type) -> Type | None:
    if one == other:
        return one
    if isinstance(one, TupleType | RecordType) and isinstance(other, TupleType | RecordType):
        return _joined_parts(one, other)
    if not (is_array(one) and is_array(other)):
        return mixed_type([one, other])
    assert isinstance(one, TensorType) and isinstance(other, TensorType)
    if one.dtype != other.dtype or one.rank != other.rank:
        return None
    assert one.dims is not None and other.dims is not None
    pairs = zip(one.dims, other.dims, strict=True)
    return TensorType(one.dtype, tuple(a if a == b else ANY_EXTENT for a, b in pairs))


def _joined_parts(one: TupleType | RecordType, other: TupleType | RecordType) -> Type | None:
    if len(one.elements) != len(other.elements):
        return None
    parts = [_joined(*pair) for pair in zip(one.elements, other.elements, strict=True)]
    known = tuple(part for part in parts if part is not None)
    joined = replace(one, elements=known)
    # That they are equal says that all else but their elements is.
    return joined if joined == replace(other, elements=known) and len(known) == len(parts) else None


def leaf_types(element: Type) -> Iterator[Type]:
    """The types of the numbers and arrays that an element is made of."""
    if isinstance(element, TupleType | RecordType):
        for part in element.elements:
            yield from leaf_types(part)
    elif isinstance(element, UnionType):
        yield from mixed_leaf_types(element)
    else:
        yield element


def has_references(buffer: Value) -> bool:
    """Whether the elements of a buffer are references to arrays."""
    return isinstance(buffer.type, TensorType) and buffer.type.dtype == REFERENCE


def new_buffer(block: Block, capacity: Value, dtype: np.dtype[Any], dim: Dim) -> Value:
    """Room for so many numbers of a dtype, or for references to arrays."""
    kind = "prim::ListRoom" if dtype == REFERENCE else "np::empty"
    attributes = {} if dtype == REFERENCE else {"dtype": dtype}
    return block.append(kind, [capacity], attributes, outputs=(TensorType(dtype, (dim,)),)).output


_VIEWS = frozenset({"np::view", "np::reshape", "np::ravel", "np::transpose"})


def make_views_objects(graph: Graph) -> None:
    """Have views that are put into lists made objects where they come about, each of them once."""
    waiting = [node.inputs[2] for node in graph.nodes() if node.kind == "prim::ListPut"]
    seen: set[Value] = set()
    while waiting:
        view = waiting.pop()
        if view in seen:
            continue
        seen.add(view)
        waiting += _merged(view)
        node = view.node
        if node is None or node.kind not in _VIEWS or node.block is None:
            continue
        place = node.block.nodes.index(node) + 1
        made = node.block.insert(
            place, "prim::ListView", outputs=(view.type,), names=[view.name], source=node.source
        )
        view.replace_all_uses_with(made.output)
        made.add_input(view)


def _merged(value: Value) -> list[Value]:
    """What the variable of a branch or of a loop may be the value of."""
    node = value.node
    if node is None:
        assert value.block is not None
        loop, number = value.block.owner, value.block.params.index(value)
        if loop is None or number == 0:
            return []
        return [loop.inputs[1 + number], value.block.returns[number]]
    number = node.outputs.index(value)
    if node.kind == "prim::Loop":
        return [node.inputs[2 + number], node.blocks[0].returns[1 + number]]
    return [block.returns[number] for block in node.blocks if not block.raises]


def put_number(
    block: Block, buffer: Value, place: Value, number: Value, source: SourceRange | None = None
) -> None:
    """Store a number, or a reference to an array, at a place of a buffer."""
    if has_references(buffer):
        block.append("prim::ListPut", [buffer, place, number], outputs=(NONE,), source=source)
        return
    assert isinstance(buffer.type, TensorType)
    dtype = buffer.type.dtype
    target = block.append(
        "np::view", [buffer, place], {"index": "$0"}, outputs=(TensorType(dtype, ()),)
    ).output
    scalar = TensorType(dtype, (), scalar=True)
    if number.type != scalar:
        number = block.append("np::cast", [number], {"dtype": dtype}, outputs=(scalar,)).output
    block.append("np::store", [target, number], outputs=(NONE,))
