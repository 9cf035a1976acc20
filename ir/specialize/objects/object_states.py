"""What objects of users' classes are at the place that ``specialize`` has reached.

An object that the function gets, or makes, has a number (``RecordType.origin``).  All that refers
to it is a value of that number, whatever the object was when the value was made; what it is now
stands here.  So a change is seen under all names.  Branches and loops carry the attributes that
they change, as hidden variables.

Where a variable becomes one of several objects that the function has made, it is a copy without a
number.  Nothing may change such an object any more, nor those that it may be: they are frozen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Value
from jitcore.ir.specialize.skeletons import (
    RecordsAreNotValues,
    RecordSkeleton,
    Skeleton,
    TupleSkeleton,
    UnionSkeleton,
)
from jitcore.ir.specialize.value_kinds import alternatives_of, kind_of_value, parts_of
from jitcore.ir.types import RecordType, is_tracked

__all__ = ["Field", "ObjectStates", "States"]

States = dict[int, Value]
"""What objects are, by their numbers: ``prim::RecordState`` values."""

Field = tuple[int, str]
"""An attribute of an object."""


@dataclass(slots=True)
class _Loop:
    """A loop that is being typed: what it does to the objects that were there before."""

    known: frozenset[int]
    changed: set[int] = field(default_factory=set)
    frozen: set[int] = field(default_factory=set)


class ObjectStates:
    """The objects that are known, and which of them may not change."""

    def __init__(self) -> None:
        self.now: States = {}
        self._frozen: set[int] = set()
        self._loops: list[_Loop] = []

    def latest(self, value: Value) -> Value:
        """What an object is now; a value that is none, or a copy, is itself."""
        type_ = value.type
        if not isinstance(type_, RecordType) or not is_tracked(type_):
            return value
        assert isinstance(type_.origin, int)
        if type_.origin not in self.now:
            raise RecordsAreNotValues("an object that is known on another path only")
        return self.now[type_.origin]

    def put(self, state: Value) -> None:
        """Note what a new object is, or what a branch or a loop has made of one."""
        assert isinstance(state.type, RecordType) and isinstance(state.type.origin, int)
        self.now[state.type.origin] = state

    def change(self, state: Value) -> None:
        """Note what an assignment makes of an object."""
        type_ = state.type
        assert isinstance(type_, RecordType)
        if not is_tracked(type_) or type_.origin in self._frozen:
            raise RecordsAreNotValues("an object that is known elsewhere, and changes later")
        assert isinstance(type_.origin, int)
        self.put(state)
        for loop in self._loops:
            if type_.origin in loop.known:
                loop.changed.add(type_.origin)

    def freeze(self, value: Value) -> None:
        """Have nothing change the objects in a value any more: a copy of them is kept."""
        for one in _objects_in(value):
            self._freeze(one)

    def _freeze(self, value: Value) -> None:
        type_ = value.type
        if not isinstance(type_, RecordType) or not is_tracked(type_):
            return
        assert isinstance(type_.origin, int)
        self._frozen.add(type_.origin)
        for loop in self._loops:
            if type_.origin in loop.known:
                loop.frozen.add(type_.origin)

    def freeze_copied(self, values: list[Value], skeleton: Skeleton) -> None:
        """Freeze the objects of which a variable that is one of these values becomes a copy."""
        if isinstance(skeleton, UnionSkeleton):
            held = [one for value in values for one in alternatives_of(value)]
            for alternative in skeleton.alternatives:
                chosen = [one for one in held if kind_of_value(one) == alternative.kind]
                self.freeze_copied(chosen, alternative.skeleton)
        if not isinstance(skeleton, TupleSkeleton | RecordSkeleton):
            return
        known = [parts for parts in map(parts_of, values) if parts is not None]
        for column, part in zip(zip(*known, strict=True), skeleton.parts, strict=bool(known)):
            self.freeze_copied(list(column), part)
        if isinstance(skeleton, RecordSkeleton):
            for value in values:
                self._freeze(value)

    def open_loop(self) -> None:
        """Begin the body of a loop."""
        self._loops.append(_Loop(frozenset(self.now)))

    def close_loop(self) -> None:
        """End the body of a loop.

        Raises
        ------
        RecordsAreNotValues
            The next iteration would change what this one keeps a copy of.
        """
        loop = self._loops.pop()
        if loop.changed & loop.frozen:
            raise RecordsAreNotValues("an object that is known elsewhere, and changes in a loop")

    def changed_since(self, before: States) -> dict[Field, Value]:
        """The attributes that have changed of the objects that were known before."""
        found: dict[Field, Value] = {}
        for origin, state in before.items():
            fields = attributes_of(state)
            for name, value in attributes_of(self.now[origin]).items():
                if name not in fields:
                    raise RecordsAreNotValues(f"{name}, which an object has on some paths only")
                if fields[name] is not value:
                    found[origin, name] = value
        return found


def attributes_of(state: Value) -> dict[str, Value]:
    """The attributes of an object by their names, in the order in which they were set."""
    if state.node is None or state.node.kind != "prim::RecordState":
        raise RecordsAreNotValues("an object whose attributes are not known")
    assert isinstance(state.type, RecordType)
    return dict(zip(state.type.names, state.node.inputs, strict=True))


def _objects_in(value: Value) -> Iterator[Value]:
    """The objects that a value is, or has in it."""
    if isinstance(value.type, RecordType):
        yield value
    for part in parts_of(value) or ():
        yield from _objects_in(part)
