"""Tuples and unions across block borders: taken apart into leaves, and put together again.

A skeleton says what a variable is made of: ``LEAF``, a ``TupleSkeleton``, or a ``UnionSkeleton``,
whose leaves are a tag and one value for each alternative.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jitcore.ir.graph import Block, Value
from jitcore.ir.types import (
    ANY,
    CHARACTER,
    INT,
    NONE,
    LocalListType,
    ObjectElementType,
    ObjectListType,
    Origin,
    PrimType,
    RecordType,
    SharedListType,
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
    "ElementSkeleton",
    "ListSkeleton",
    "ListsAreNotValues",
    "RecordSkeleton",
    "RecordsAreNotValues",
    "SharedListsDiffer",
    "SharedSkeleton",
    "Skeleton",
    "TupleSkeleton",
    "UnionSkeleton",
    "common_skeleton",
    "declared_types",
    "leaves_of",
    "needs_native",
    "numbers_in",
    "place_of_shared",
    "without_origins",
]


FIRST_CAPACITY = 8
"""How many elements the array of a new list has room for."""


class ListsAreNotValues(Exception):
    """A local list turned out to have elements of several types, or to be known elsewhere."""


class RecordsAreNotValues(ListsAreNotValues):
    """A local object turned out to be known elsewhere, or to be more than its attributes."""


class SharedListsDiffer(ListsAreNotValues):
    """A variable is one of two lists whose elements have different types, as far as is known."""

    def __init__(self, one: Type, other: Type) -> None:
        super().__init__(f"a list that is {one} or {other}")
        self.types = one, other


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
    origin: Origin


@dataclass(frozen=True, slots=True)
class UnionSkeleton:
    """One of several types of single values."""

    alternatives: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class ListSkeleton:
    """A local list: its arrays and its length; nothing while it is empty."""

    element: Type | None

    @property
    def count(self) -> int:
        """How many leaves it has."""
        return 0 if self.element is None else len(LocalListType(self.element).dtypes) + 1


@dataclass(frozen=True, slots=True)
class SharedSkeleton:
    """A reference to a shared list: its place in the heap."""

    type: SharedListType


@dataclass(frozen=True, slots=True)
class ElementSkeleton:
    """An object in a list that is an argument, which is its place; or such a list itself."""

    type: ObjectElementType | ObjectListType


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A variable that is one value."""


LEAF = _Leaf()
Skeleton = (
    TupleSkeleton
    | RecordSkeleton
    | UnionSkeleton
    | ListSkeleton
    | SharedSkeleton
    | ElementSkeleton
    | _Leaf
)


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
    if any(isinstance(value.type, SharedListType) for value in known):
        return _shared_skeleton(known)
    if any(isinstance(value.type, ObjectElementType | ObjectListType) for value in known):
        return _element_skeleton(known)
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
        one, other, *_ = sorted(elements, key=str)
        if isinstance(one, SharedListType) and isinstance(other, SharedListType):
            raise SharedListsDiffer(one, other)
        return None
    element = next(iter(elements), None)
    if element is not None and not LocalListType(element).dtypes:
        raise ListsAreNotValues(f"a list of {element}")
    return ListSkeleton(element)


def _shared_skeleton(values: Sequence[Value]) -> Skeleton:
    """References to lists with the same type of elements."""
    types = [value.type for value in values]
    first = next(one for one in types if isinstance(one, SharedListType))
    for one in types:
        if not isinstance(one, SharedListType):
            raise ListsAreNotValues("a list, or something else")
        if one != first:
            raise SharedListsDiffer(first, one)
    return SharedSkeleton(first)


def _element_skeleton(values: Sequence[Value]) -> Skeleton:
    """Objects in one list, or that list."""
    first, *others = (value.type for value in values)
    is_same = all(one == first for one in others)
    if not is_same or not isinstance(first, ObjectElementType | ObjectListType):
        raise RecordsAreNotValues("an object in a list, or something else")
    return ElementSkeleton(first)


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
    """The same class and the same attributes in all of them; a text may be a character."""
    if any(value.type == CHARACTER for value in values):
        values = [value for value in values if not _is_single_text(value)]
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
    return RecordSkeleton(first.class_, first.names, tuple(parts), _common_origin(values))


def _common_origin(values: Sequence[Value]) -> Origin:
    """Which argument all of these objects are; None where all are made by the function."""
    types = [value.type for value in values if isinstance(value.type, RecordType)]
    if all(one.is_made for one in types):
        return None
    origin = types[0].origin
    return origin if all(one.origin == origin for one in types) else "several"


def without_origins(skeleton: Skeleton) -> Skeleton:
    """A skeleton that does not say which objects are meant."""
    if not isinstance(skeleton, TupleSkeleton | RecordSkeleton):
        return skeleton
    parts = tuple(map(without_origins, skeleton.parts))
    if isinstance(skeleton, TupleSkeleton):
        return TupleSkeleton(skeleton.named, parts)
    return RecordSkeleton(skeleton.class_, skeleton.names, parts, None)


def _is_single_text(value: Value) -> bool:
    held = value.constant_value
    return isinstance(held, str) and len(held) == 1


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
    if isinstance(skeleton, RecordSkeleton) and _is_single_text(value):
        yield block.constant(ord(value.constant_value), INT)
    elif isinstance(skeleton, TupleSkeleton | RecordSkeleton):
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
    elif isinstance(skeleton, SharedSkeleton):
        yield value if value.type == UNINITIALIZED else place_of_shared(value)
    elif isinstance(skeleton, ElementSkeleton):
        yield from _element_leaves(value, skeleton)
    else:
        _require_single(value)
        yield value


def _require_single(value: Value) -> None:
    """Refuse what is a list or an object in other paths than this."""
    if isinstance(value.type, LocalListType | SharedListType):
        raise ListsAreNotValues("a list, or something else")
    if isinstance(value.type, RecordType | ObjectElementType | ObjectListType):
        raise RecordsAreNotValues("an object, or something else")


def _element_leaves(value: Value, skeleton: ElementSkeleton) -> Iterator[Value]:
    """The place of an object; the list that objects are in is the same everywhere."""
    if isinstance(skeleton.type, ObjectElementType):
        assert value.node is not None
        yield value if value.type == UNINITIALIZED else value.node.inputs[0]


def _list_leaves(value: Value, skeleton: ListSkeleton, block: Block) -> Iterator[Value]:
    if skeleton.element is None:
        return
    if not isinstance(value.type, LocalListType):
        yield from (value,) * skeleton.count
    elif value.type.element is None:
        for dtype in LocalListType(skeleton.element).dtypes:
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


def needs_native(element: Type | None) -> bool:
    """Whether Python could not go on with a list of these: ints of any size, parts of elements."""
    return element == INT or isinstance(element, TupleType | RecordType | SharedListType)


def place_of_shared(value: Value) -> Value:
    """The place in the heap that a reference stands for."""
    if value.node is None or value.node.kind != "prim::SharedList":
        raise ListsAreNotValues("a list whose place is not known")
    return value.node.inputs[0]


def numbers_in(item: Value) -> Iterator[Value]:
    """The numbers that an element of a list is made of."""
    if isinstance(item.type, SharedListType):
        yield place_of_shared(item)
        return
    if isinstance(item.type, ObjectElementType | ObjectListType):
        raise RecordsAreNotValues("a list of objects that are in another list")
    if not isinstance(item.type, TupleType | RecordType):
        yield item
        return
    if isinstance(item.type, RecordType) and not item.type.is_made:
        raise RecordsAreNotValues("a list of objects that are arguments")
    if item.node is None or item.node.kind not in ("prim::TupleConstruct", "prim::RecordState"):
        raise ListsAreNotValues(f"a list of {item.type} whose parts are not known")
    for part in item.node.inputs:
        yield from numbers_in(part)


def _stored(items: Sequence[Value], type_: LocalListType, block: Block) -> Iterator[Value]:
    """Arrays with room for more than these elements, and their number."""
    if not type_.dtypes:
        raise ListsAreNotValues(f"a list of {type_.element}")
    capacity = max(2 * len(items), FIRST_CAPACITY)
    columns = zip(*map(numbers_in, items), strict=True)
    for dtype, column in zip(type_.dtypes, columns, strict=True):
        yield _array_of(column, dtype, capacity, block)
    yield block.constant(len(items), INT)


def _array_of(numbers: Sequence[Value], dtype: np.dtype[Any], capacity: int, block: Block) -> Value:
    scalar = TensorType(dtype, (), scalar=True)
    array = TensorType(dtype, (capacity,))
    buffer = block.append(
        "np::empty", [block.constant(capacity, INT)], {"dtype": dtype}, outputs=(array,)
    ).output
    for place, number in enumerate(numbers):
        target = block.append(
            "np::view",
            [buffer, block.constant(place, INT)],
            {"index": "$0"},
            outputs=(TensorType(dtype, ()),),
        ).output
        if number.type != scalar:
            number = block.append("np::cast", [number], {"dtype": dtype}, outputs=(scalar,)).output
        block.append("np::store", [target, number], outputs=(NONE,))
    return buffer


def declared_types(skeleton: Skeleton) -> Iterator[Type | None]:
    """For each leaf the type that the skeleton itself says, None where the leaf's own counts."""
    if isinstance(skeleton, TupleSkeleton | RecordSkeleton):
        for part in skeleton.parts:
            yield from declared_types(part)
    elif isinstance(skeleton, ListSkeleton):
        yield from (None,) * skeleton.count
    elif isinstance(skeleton, UnionSkeleton):
        yield INT
        yield from (one for one in skeleton.alternatives if one != NONE)
    elif not (isinstance(skeleton, ElementSkeleton) and isinstance(skeleton.type, ObjectListType)):
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
