"""What is known of the lists that several names or lists refer to.

Types are inferred in one walk over a program, and an empty list says nothing of its elements:
those that are put into it later do.  So an attempt at a graph that meets the first of them notes
it and is given up, and the next one knows it from the start.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Value
from jitcore.ir.specialize.lists.listed_arrays import heap_form
from jitcore.ir.specialize.lists.mixed_elements import is_of_one_dtype
from jitcore.ir.specialize.skeletons import UNINITIALIZED, ListsAreNotValues
from jitcore.ir.specialize.value_kinds import mixed_type
from jitcore.ir.types import ANY, SharedListType, TupleType, Type

__all__ = ["MoreIsKnown", "SharedLists", "TakenLists", "holds_shared", "is_open"]


class MoreIsKnown(Exception):
    """An attempt has found out something that it should have known before."""


def is_open(type_: Type | None) -> bool:
    """Whether there are lists in a type of whose elements nothing is known."""
    if isinstance(type_, TupleType):
        return any(map(is_open, type_.elements))
    if isinstance(type_, SharedListType):
        return type_.element is None or is_open(type_.element)
    return type_ is None


@dataclass(frozen=True, slots=True)
class TakenLists:
    """The arguments that one attempt has read into its heap.

    Parameters
    ----------
    references : dict
        What stands for each argument, by the node that names it, or by its number among those
        that are attributes.
    memos : tuple of Value
        For each part of the heap the array with the objects that were read.
    counts : tuple of Value
        For each part how many words of rows were read.
    """

    references: dict[Any, Value]
    memos: tuple[Value, ...]
    counts: tuple[Value, ...]


def holds_shared(type_: Type | None) -> bool:
    """Whether there are references to shared lists in values of a type."""
    if isinstance(type_, TupleType):
        return any(map(holds_shared, type_.elements))
    return isinstance(type_, SharedListType)


class SharedLists:
    """What attempts at a graph have found out of its shared lists.

    Attributes
    ----------
    parts : list of Type
        The types of elements that there are lists of; the heap has a part for each.
    """

    def __init__(self) -> None:
        self.parts: list[Type] = []
        self._elements: dict[Any, Type] = {}
        self._same: dict[Any, Any] = {}
        self._open: set[Any] = set()
        self._mixed: list[Type] = []

    def part(self, element: Type) -> int:
        """The number of the heap's part for lists of such elements."""
        element = heap_form(element)
        if element not in self.parts:
            self.parts.append(element)
            raise MoreIsKnown
        return self.parts.index(element)

    def list_of(self, element: Type | None, maker: Any) -> SharedListType:
        """The type of a list that a node makes; None for ``element`` where it is empty."""
        if element == ANY:
            raise ListsAreNotValues("a shared list of several types")
        if element is not None and not is_open(element):
            return SharedListType(self._wide(element))
        maker = self._representative(maker)
        known = self._elements.get(maker)
        if known is not None:
            return SharedListType(self._wide(known))
        self._open.add(maker)
        return SharedListType(None, maker)

    def unify(self, one: Type, other: Type) -> None:
        """Note that two types have to be the same.

        Raises
        ------
        MoreIsKnown
            That says something new.
        ListsAreNotValues
            They differ.
        """
        if self._wide(one) == self._wide(other):
            return
        if isinstance(one, TupleType) and isinstance(other, TupleType):
            if len(one.elements) == len(other.elements):
                for first, second in zip(one.elements, other.elements, strict=True):
                    self.unify(first, second)
                return
        mixed = mixed_type([one, other])
        if mixed is not None and is_of_one_dtype(mixed):
            self._mixed.append(mixed)
            raise MoreIsKnown
        if not (isinstance(one, SharedListType) and isinstance(other, SharedListType)):
            raise ListsAreNotValues(f"a list of {one} and {other}")
        if one.element is None:
            self._learn(one.maker, other)
        if other.element is None:
            self._learn(other.maker, one)
        assert one.element is not None and other.element is not None
        self.unify(one.element, other.element)

    def _wide(self, element: Type) -> Type:
        """Elements as all shared lists have them: numbers of one type may be others as well."""
        if isinstance(element, TupleType):
            return replace(element, elements=tuple(map(self._wide, element.elements)))
        for mixed in self._mixed:
            if mixed_type([element, mixed]) == mixed:
                return mixed
        return heap_form(element)

    def learn(self, maker: Any, element: Type) -> None:
        """Note what is put into the lists of a maker."""
        if element in (ANY, UNINITIALIZED) or is_open(element):
            return
        self._elements[self._representative(maker)] = heap_form(element)
        raise MoreIsKnown

    def settle(self, default: Type) -> None:
        """Take lists that nothing was ever put into for such of another type."""
        left = set(map(self._representative, self._open)) - self._elements.keys()
        self._open.clear()
        if left:
            self._elements.update(dict.fromkeys(left, default))
            raise MoreIsKnown

    def _learn(self, maker: Any, other: SharedListType) -> None:
        if other.element is not None:
            self.learn(maker, other.element)
            return
        first, second = self._representative(maker), self._representative(other.maker)
        if first is not second:
            self._same[first] = second
            raise MoreIsKnown

    def _representative(self, maker: Any) -> Any:
        """One of the makers whose lists have the same elements."""
        while maker in self._same:
            maker = self._same[maker]
        return maker
