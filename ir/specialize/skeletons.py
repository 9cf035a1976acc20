"""Tuples and unions across block borders: taken apart into leaves, and put together again.

A skeleton says what a variable is made of: ``LEAF``, a ``TupleSkeleton``, or a ``UnionSkeleton``,
whose leaves are a tag and those of each alternative.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Block, Value
from jitcore.ir.specialize import lists
from jitcore.ir.specialize.value_kinds import (
    MAX_ALTERNATIVES,
    alternatives_of,
    converted,
    dtype_of_number,
    is_single,
    kind_of_value,
)
from jitcore.ir.types import (
    ANY,
    CHARACTER,
    INT,
    NONE,
    STR,
    LocalListType,
    ObjectElementType,
    ObjectListType,
    Origin,
    PrimType,
    RecordType,
    SharedListType,
    TupleType,
    Type,
    UnionType,
    is_array,
    is_tracked,
)

__all__ = [
    "FIRST_CAPACITY",
    "LEAF",
    "UNINITIALIZED",
    "Alternative",
    "ConstantSkeleton",
    "ElementSkeleton",
    "ListSkeleton",
    "ListsAreNotValues",
    "RecordSkeleton",
    "RecordsAreNotValues",
    "ReferenceSkeleton",
    "SharedListsDiffer",
    "SharedSkeleton",
    "Skeleton",
    "TupleSkeleton",
    "UnionSkeleton",
    "common_skeleton",
    "declared_types",
    "is_wide",
    "joined_unions",
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
class ReferenceSkeleton:
    """The object of this number, whatever it is by now: it has no leaves."""

    origin: int


@dataclass(frozen=True, slots=True)
class ConstantSkeleton:
    """None, or a text: it has no leaves."""

    value: Any


@dataclass(frozen=True, slots=True)
class Alternative:
    """One of the forms that a variable may have.

    Parameters
    ----------
    kind : str
        What tells it from the others.
    skeleton : Skeleton
    type : Type
        A type that it has somewhere; arrays of one kind may have other extents elsewhere.
    """

    kind: str
    skeleton: Skeleton
    type: Type = field(compare=False)


@dataclass(frozen=True, slots=True)
class UnionSkeleton:
    """One of several alternatives, in the order of their kinds.

    Numbers of one dtype have one leaf, which the first of them says.
    """

    alternatives: tuple[Alternative, ...]

    @property
    def leading(self) -> list[Alternative]:
        """The alternatives that have leaves of their own."""
        places = [_place_of(one) for one in self.alternatives]
        return [one for n, one in enumerate(self.alternatives) if places[n] not in places[:n]]

    def of_parts(self, parts: Sequence[Value], block: Block) -> list[Value]:
        """All alternatives, of those that have leaves of their own."""
        known = {_place_of(one): part for one, part in zip(self.leading, parts, strict=True)}
        found = []
        for one in self.alternatives:
            part = known[_place_of(one)]
            is_number = one.skeleton == LEAF and dtype_of_number(one.type) is not None
            found.append(converted(block, part, one.type) if is_number else part)
        return found


def _place_of(alternative: Alternative) -> object:
    """What is the same for alternatives that have one leaf."""
    dtype = dtype_of_number(alternative.type) if alternative.skeleton == LEAF else None
    return alternative.kind if dtype is None else dtype


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
    | ConstantSkeleton
    | ReferenceSkeleton
    | ListSkeleton
    | SharedSkeleton
    | ElementSkeleton
    | _Leaf
)


def common_skeleton(values: Sequence[Value], *, unions: bool = False) -> Skeleton | None:
    """The skeleton all these values have, or None where they nest differently.

    With ``unions``, values of different kinds get a ``UnionSkeleton``.
    """
    known = [value for value in values if value.type != UNINITIALIZED]
    has_union = any(isinstance(value.type, UnionType) for value in known)
    kinds = set(map(kind_of_value, known))
    if has_union or (unions and len(kinds) > 1 and not _may_be_copied(known)):
        found = _union_skeleton(known)
        if found is not None or has_union:
            return found
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
    element = lists.listed_arrays.common_element(elements) if elements else None
    if elements and element is None:
        one, other, *_ = sorted(elements, key=str)
        if isinstance(one, SharedListType) and isinstance(other, SharedListType):
            raise SharedListsDiffer(one, other)
        return None
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


def _may_be_copied(values: Sequence[Value]) -> bool:
    """Whether these are objects of one class that the function has made."""
    types = [one.type for one in values if isinstance(one.type, RecordType)]
    if len(types) < len(values) or not all(one.is_made for one in types):
        return False
    return CHARACTER not in types and len({(one.class_, one.names) for one in types}) == 1


def _record_skeleton(values: Sequence[Value], unions: bool) -> Skeleton | None:
    """The same class and the same attributes in all of them; a text may be a character."""
    kinds = set(map(kind_of_value, values))
    first = values[0].type
    if len(kinds) == 1 and isinstance(first, RecordType) and is_tracked(first):
        assert isinstance(first.origin, int)
        return ReferenceSkeleton(first.origin)
    if None not in kinds and not _may_be_copied(values):
        return None
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


def _union_skeleton(values: Sequence[Value]) -> UnionSkeleton | None:
    """All kinds that these values have; None where one of them can be no alternative."""
    found: dict[str, list[Value]] = {}
    for value in values:
        for held in alternatives_of(value):
            kind = kind_of_value(held)
            if kind is None:
                return None
            found.setdefault(kind, []).append(held)
    if len(found) > MAX_ALTERNATIVES:
        return None
    alternatives = []
    for kind, held_values in sorted(found.items()):
        first = held_values[0]
        is_constant = first.type in (NONE, STR)
        skeleton = (
            ConstantSkeleton(first.constant_value)
            if is_constant
            else common_skeleton(held_values, unions=True)
        )
        if skeleton is None:
            return None
        alternatives.append(Alternative(kind, skeleton, first.type))
    return UnionSkeleton(tuple(alternatives))


def is_wide(skeleton: Skeleton) -> bool:
    """Whether there is a union with more than numbers and None in a skeleton."""
    if isinstance(skeleton, TupleSkeleton | RecordSkeleton):
        return any(map(is_wide, skeleton.parts))
    if not isinstance(skeleton, UnionSkeleton):
        return False
    return not all(is_single(one.type) for one in skeleton.alternatives)


def joined_unions(one: Skeleton, two: Skeleton) -> Skeleton:
    """The second of two skeletons, with the alternatives of unions that only the first has."""
    if isinstance(one, UnionSkeleton) and isinstance(two, UnionSkeleton):
        found = {alternative.kind: alternative for alternative in one.alternatives}
        for other in two.alternatives:
            before = found.get(other.kind, other)
            skeleton = joined_unions(before.skeleton, other.skeleton)
            found[other.kind] = Alternative(other.kind, skeleton, before.type)
        return UnionSkeleton(tuple(found[kind] for kind in sorted(found)))
    if isinstance(one, TupleSkeleton) and isinstance(two, TupleSkeleton):
        return replace(two, parts=tuple(map(joined_unions, one.parts, two.parts)))
    if isinstance(one, RecordSkeleton) and isinstance(two, RecordSkeleton):
        return replace(two, parts=tuple(map(joined_unions, one.parts, two.parts)))
    return two


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
        yield from _union_leaves(value, skeleton, block)
    elif isinstance(skeleton, ConstantSkeleton | ReferenceSkeleton):
        return
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
    wanted = skeleton.element
    if wanted is None:
        return
    if not isinstance(value.type, LocalListType):
        yield from (value,) * skeleton.count
    elif value.type.element is None:
        for dtype in LocalListType(skeleton.element).dtypes:
            capacity = block.constant(FIRST_CAPACITY, INT)
            yield lists.listed_arrays.new_buffer(block, capacity, dtype, FIRST_CAPACITY)
        yield block.constant(0, INT)
    elif value.type.count is not None:
        assert value.node is not None
        yield from _stored(value.node.inputs, LocalListType(skeleton.element), block)
    else:
        assert value.node is not None
        *buffers, length = value.node.inputs
        yield from lists.mixed_elements.widened_buffers(block, buffers, value.type.element, wanted)
        yield length


def needs_native(element: Type | None) -> bool:
    """Whether Python could not go on with a list of these: ints of any size, parts of elements."""
    if element is None or isinstance(element, TupleType | RecordType | SharedListType | UnionType):
        return element is not None
    return element == INT or is_array(element)


def place_of_shared(value: Value) -> Value:
    """The place in the heap that a reference stands for."""
    if value.node is None or value.node.kind != "prim::SharedList":
        raise ListsAreNotValues("a list whose place is not known")
    return value.node.inputs[0]


def numbers_in(item: Value, element: Type, block: Block) -> Iterator[Value]:
    """The numbers that an element of a list is made of, whose elements have this type."""
    if isinstance(element, UnionType):
        yield from lists.mixed_elements.mixed_numbers(item, element, block)
        return
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
    assert isinstance(element, TupleType | RecordType)
    for part, type_ in zip(item.node.inputs, element.elements, strict=True):
        yield from numbers_in(part, type_, block)


def _stored(items: Sequence[Value], type_: LocalListType, block: Block) -> Iterator[Value]:
    """Arrays with room for more than these elements, and their number."""
    if not type_.dtypes:
        raise ListsAreNotValues(f"a list of {type_.element}")
    element = type_.element
    assert element is not None
    capacity = max(2 * len(items), FIRST_CAPACITY)
    columns = zip(*(numbers_in(item, element, block) for item in items), strict=True)
    for dtype, column in zip(type_.dtypes, columns, strict=True):
        yield _array_of(column, dtype, capacity, block)
    yield block.constant(len(items), INT)


def _array_of(numbers: Sequence[Value], dtype: np.dtype[Any], capacity: int, block: Block) -> Value:
    buffer = lists.listed_arrays.new_buffer(block, block.constant(capacity, INT), dtype, capacity)
    for place, number in enumerate(numbers):
        lists.listed_arrays.put_number(block, buffer, block.constant(place, INT), number)
    return buffer


def declared_types(skeleton: Skeleton, type_: Type | None = None) -> Iterator[Type | None]:
    """For each leaf the type that the skeleton itself says, None where the leaf's own counts.

    A leaf that is a part of what may have no value has some type, which others may differ from in
    extents; ``type_`` is that of the whole.
    """
    if isinstance(skeleton, TupleSkeleton | RecordSkeleton):
        of_parts: Sequence[Type | None] = [None] * len(skeleton.parts)
        if isinstance(type_, TupleType | RecordType):
            of_parts = type_.elements
        for part, one in zip(skeleton.parts, of_parts, strict=True):
            yield from declared_types(part, one)
    elif isinstance(skeleton, ListSkeleton):
        yield from (None,) * skeleton.count
    elif isinstance(skeleton, UnionSkeleton):
        yield INT
        for alternative in skeleton.leading:
            yield from declared_types(alternative.skeleton, alternative.type)
    elif isinstance(skeleton, ConstantSkeleton | ReferenceSkeleton):
        return
    elif not (isinstance(skeleton, ElementSkeleton) and isinstance(skeleton.type, ObjectListType)):
        yield type_


def _union_leaves(value: Value, skeleton: UnionSkeleton, block: Block) -> Iterator[Value]:
    kinds = [one.kind for one in skeleton.alternatives]
    held: dict[str | None, Value] = {}
    if value.type == UNINITIALIZED:
        yield block.constant(0, INT)
    else:
        held = {kind_of_value(one): one for one in alternatives_of(value)}
        numbers = [kinds.index(str(kind)) for kind in held]
        if isinstance(value.type, UnionType):
            assert value.node is not None
            yield lists.mixed_elements.translated_tag(value.node.inputs[0], numbers, block)
        else:
            yield block.constant(numbers[0], INT)
    by_dtype = {dtype_of_number(one.type): one for one in held.values()}
    dtypes = [dtype_of_number(one.type) for one in skeleton.alternatives]
    for one in skeleton.leading:
        part = held.get(one.kind)
        dtype = dtype_of_number(one.type)
        if part is None and dtype is not None and dtypes.count(dtype) > 1:
            # `of_parts` converts it in any case.
            part = converted(block, by_dtype.get(dtype) or block.constant(0, INT), one.type)
        yield from leaves_of(_nothing(block) if part is None else part, one.skeleton, block)


def _nothing(block: Block) -> Value:
    return block.append("prim::Uninitialized", outputs=(UNINITIALIZED,)).output
