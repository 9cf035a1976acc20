"""Tuples and unions across block borders: taken apart into leaves, and put together again.

A skeleton says what a variable is made of: ``LEAF``, a ``TupleSkeleton``, or a ``UnionSkeleton``,
whose leaves are a tag and one value for each alternative.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jitcore.ir.graph import Block, Value
from jitcore.ir.types import (
    ANY,
    INT,
    NONE,
    LocalListType,
    PrimType,
    RecordType,
    TensorType,
    TupleType,
    Type,
    UnionType,
    is_number,
)

__all__ = [
    "FIRST_CAPACITY",
    "LEAF",
    "UNINITIALIZED",
    "ListSkeleton",
    "ListsAreNotValues",
    "RecordSkeleton",
    "RecordsAreNotValues",
    "Skeleton",
    "TupleSkeleton",
    "UnionSkeleton",
    "common_skeleton",
    "declared_types",
    "leaves_of",
]


FIRST_CAPACITY = 8
"""How many elements the array of a new list has room for."""


class ListsAreNotValues(Exception):
    """A local list turned out to have elements of several types, or to be known elsewhere."""


class RecordsAreNotValues(ListsAreNotValues):
    """A local object turned out to be known elsewhere, or to be more than its attributes."""


UNINITIALIZED = PrimType("Uninitialized")
"""The type of a variable on a path that never reads it; it fits every skeleton."""


@dataclass(frozen=True, slots=True)
class TupleSkeleton:
    """A tuple, perhaps of a NamedTuple's class, and the skeletons of its elements."""

    named: Any
    parts: tuple[Skeleton, ...]


@dataclass(frozen=True, slots=True)
class RecordSkeleton:
    """A local object of a class, and the skeletons of its attributes."""

    class_: Any
    names: tuple[str, ...]
    parts: tuple[Skeleton, ...]


@dataclass(frozen=True, slots=True)
class UnionSkeleton:
    """One of several types of single values."""

    alternatives: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class ListSkeleton:
    """A local list: its array and its length; nothing while it is empty."""

    element: Type | None


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A variable that is one value."""


LEAF = _Leaf()
Skeleton = TupleSkeleton | RecordSkeleton | UnionSkeleton | ListSkeleton | _Leaf


def common_skeleton(values: Sequence[Value], *, unions: bool = False) -> Skeleton | None:
    """The skeleton all these values have, or None where they nest differently.

    With ``unions``, single values of different types get a ``UnionSkeleton``.
    """
    known = [value for value in values if value.type != UNINITIALIZED]
    if any(isinstance(value.type, TupleType) for value in known):
        return _tuple_skeleton(known, unions)
    if any(isinstance(value.type, RecordType) for value in known):
        return _record_skeleton(known, unions)
    if any(isinstance(value.type, LocalListType) for value in known):
        return _list_skeleton(known)
    if unions or any(isinstance(value.type, UnionType) for value in known):
        return _union_skeleton(known)
    return LEAF


def _list_skeleton(values: Sequence[Value]) -> Skeleton | None:
    """The same elements in all of them; an empty list goes with any."""
    elements: set[Type] = set()
    for value in values:
        if not isinstance(value.type, LocalListType):
            return None
        if value.type.element is not None:
            elements.add(value.type.element)
    if ANY in elements:
        raise ListsAreNotValues("a list of several types")
    if len(elements) > 1:
        return None
    return ListSkeleton(next(iter(elements), None))


def _tuple_skeleton(values: Sequence[Value], unions: bool) -> Skeleton | None:
    types = [value.type for value in values]
    first = types[0]
    for value, type_ in zip(values, types, strict=True):
        if not isinstance(type_, TupleType) or not isinstance(first, TupleType):
            return None
        if value.node is None or value.node.kind != "prim::TupleConstruct":
            return None
        if len(type_.elements) != len(first.elements) or type_.named is not first.named:
            return None
    assert isinstance(first, TupleType)
    parts = []
    for column in zip(*(value.node.inputs for value in values if value.node), strict=True):
        part = common_skeleton(column, unions=unions)
        if part is None:
            return None
        parts.append(part)
    return TupleSkeleton(first.named, tuple(parts))


def _record_skeleton(values: Sequence[Value], unions: bool) -> Skeleton:
    """The same class and the same attributes in all of them."""
    first = values[0].type
    for value in values:
        type_ = value.type
        if not isinstance(type_, RecordType) or not isinstance(first, RecordType):
            raise RecordsAreNotValues("an object, or something else")
        if type_.class_ is not first.class_ or type_.names != first.names:
            raise RecordsAreNotValues("objects with different attributes")
    assert isinstance(first, RecordType)
    parts = []
    for column in zip(*(value.node.inputs for value in values if value.node), strict=True):
        part = common_skeleton(column, unions=unions)
        if part is None:
            raise RecordsAreNotValues("objects with attributes of different types")
        parts.append(part)
    return RecordSkeleton(first.class_, first.names, tuple(parts))


def _union_skeleton(values: Sequence[Value]) -> Skeleton | None:
    found: dict[Type, None] = {}
    for value in values:
        type_ = value.type
        found.update(dict.fromkeys(type_.alternatives if isinstance(type_, UnionType) else [type_]))
    if len(found) < 2:
        return LEAF
    if not all(map(_is_single, found)):
        return LEAF if not any(isinstance(value.type, UnionType) for value in values) else None
    return UnionSkeleton(tuple(sorted(found, key=str)))


def _is_single(type_: Type) -> bool:
    return is_number(type_) or type_ == NONE or (isinstance(type_, TensorType) and type_.scalar)


def leaves_of(value: Value, skeleton: Skeleton, block: Block) -> Iterator[Value]:
    """The leaves of a value in order.

    Tags, and what stands for the leaves of values that are uninitialized, are made in ``block``,
    in which ``value`` must be known.
    """
    if isinstance(skeleton, TupleSkeleton | RecordSkeleton):
        for number, part in enumerate(skeleton.parts):
            if value.type == UNINITIALIZED:
                yield from leaves_of(value, part, block)
            else:
                assert value.node is not None
                yield from leaves_of(value.node.inputs[number], part, block)
    elif isinstance(skeleton, UnionSkeleton):
        yield from _union_leaves(value, skeleton.alternatives, block)
    elif isinstance(skeleton, ListSkeleton):
        yield from _list_leaves(value, skeleton, block)
    elif isinstance(value.type, LocalListType):
        raise ListsAreNotValues("a list, or something else")
    elif isinstance(value.type, RecordType):
        raise RecordsAreNotValues("an object, or something else")
    else:
        yield value


def _list_leaves(value: Value, skeleton: ListSkeleton, block: Block) -> Iterator[Value]:
    if skeleton.element is None:
        return
    if not isinstance(value.type, LocalListType):
        yield from (value, value)
    elif value.type.element is None:
        dtype = LocalListType(skeleton.element).dtype
        capacity = block.constant(FIRST_CAPACITY, INT)
        type_ = TensorType(dtype, (FIRST_CAPACITY,))
        yield block.append("np::empty", [capacity], {"dtype": dtype}, outputs=(type_,)).output
        yield block.constant(0, INT)
    elif value.type.count is not None:
        assert value.node is not None
        yield from _stored(value.node.inputs, LocalListType(skeleton.element), block)
    else:
        assert value.node is not None
        yield from value.node.inputs


def _stored(items: Sequence[Value], type_: LocalListType, block: Block) -> Iterator[Value]:
    """An array with room for more than these elements, and their number."""
    dtype = type_.dtype
    if dtype is None:
        raise ListsAreNotValues(f"a list of {type_.element}")
    capacity = max(2 * len(items), FIRST_CAPACITY)
    scalar = TensorType(dtype, (), scalar=True)
    array = TensorType(dtype, (capacity,))
    buffer = block.append(
        "np::empty", [block.constant(capacity, INT)], {"dtype": dtype}, outputs=(array,)
    ).output
    for number, item in enumerate(items):
        place = block.append(
            "np::view",
            [buffer, block.constant(number, INT)],
            {"index": "$0"},
            outputs=(TensorType(dtype, ()),),
        ).output
        if item.type != scalar:
            item = block.append("np::cast", [item], {"dtype": dtype}, outputs=(scalar,)).output
        block.append("np::store", [place, item], outputs=(NONE,))
    yield buffer
    yield block.constant(len(items), INT)


def declared_types(skeleton: Skeleton) -> Iterator[Type | None]:
    """For each leaf the type that the skeleton itself says, None where the leaf's own counts."""
    if isinstance(skeleton, TupleSkeleton | RecordSkeleton):
        for part in skeleton.parts:
            yield from declared_types(part)
    elif isinstance(skeleton, ListSkeleton):
        yield from () if skeleton.element is None else (None, None)
    elif isinstance(skeleton, UnionSkeleton):
        yield INT
        yield from (one for one in skeleton.alternatives if one != NONE)
    else:
        yield None


def _union_leaves(value: Value, alternatives: tuple[Type, ...], block: Block) -> Iterator[Value]:
    if isinstance(value.type, UnionType):
        assert value.node is not None and value.node.kind == "prim::UnionConstruct"
        own = value.type.alternatives
        tag, *parts = value.node.inputs
        if own == alternatives:
            yield tag
        else:
            yield _translated(tag, own, alternatives, block)
        held = dict(zip([one for one in own if one != NONE], parts, strict=True))
    else:
        number = 0 if value.type == UNINITIALIZED else alternatives.index(value.type)
        yield block.constant(number, INT)
        held = {value.type: value}
    for one in alternatives:
        if one != NONE:
            yield held[one] if one in held else _nothing(block)


def _nothing(block: Block) -> Value:
    return block.append("prim::Uninitialized", outputs=(UNINITIALIZED,)).output


def _translated(
    tag: Value, own: tuple[Type, ...], alternatives: tuple[Type, ...], block: Block
) -> Value:
    """The tag's number among more alternatives: both are sorted, so it is a sum of comparisons."""
    result = block.constant(alternatives.index(own[0]), INT)
    for number in range(1, len(own)):
        step = alternatives.index(own[number]) - alternatives.index(own[number - 1])
        reached = block.append(
            "prim::ge", [tag, block.constant(number, INT)], outputs=(PrimType("bool"),)
        ).output
        as_int = block.append("prim::int", [reached], outputs=(INT,)).output
        scaled = block.append(
            "prim::mul", [as_int, block.constant(step, INT)], outputs=(INT,)
        ).output
        result = block.append("prim::add", [result, scaled], outputs=(INT,)).output
    return result
