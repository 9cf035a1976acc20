"""The part of ``specialize`` that carries objects across the borders of blocks."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace

from jitcore.ir.graph import Block, Graph, Value
from jitcore.ir.specialize.objects.object_states import Field, States, attributes_of
from jitcore.ir.specialize.skeletons import UNINITIALIZED, RecordsAreNotValues
from jitcore.ir.specialize.typed_builder import CompileFunction, TypedBuilder
from jitcore.ir.specialize.value_kinds import alternatives_of, holds_object, parts_of
from jitcore.ir.types import RecordType, TupleType, UnionType, is_tracked

__all__ = ["ObjectBuilder"]


class ObjectBuilder(TypedBuilder):
    """Makes hidden variables of attributes that change, and copies of objects where these leave."""

    def __init__(self, target: Graph, compile_function: CompileFunction | None = None) -> None:
        super().__init__(target, compile_function)
        self._settling: list[Value] = []

    def field_in(
        self, block: Block, states: States, changed: Mapping[Field, Value], one: Field
    ) -> Value:
        """What an attribute is at the end of a branch that has changed some."""
        if block.raises:
            return block.append("prim::Uninitialized", outputs=(UNINITIALIZED,)).output
        origin, name = one
        return changed[one] if one in changed else attributes_of(states[origin])[name]

    def changed_fields(self, states: States) -> dict[Field, Value]:
        """The attributes that were others in these states, as they are now."""
        changed = self.object_states.changed_since(states)
        return {field: self.settled(value, states) for field, value in changed.items()}

    def set_fields(self, fields: Sequence[Field], values: Sequence[Value]) -> None:
        """Go on with what branches or a loop have made of attributes."""
        self.object_states.now = dict(self.object_states.now)
        for (origin, name), value in zip(fields, values, strict=True):
            state = self.object_states.now[origin]
            held = {**attributes_of(state), name: value}
            assert isinstance(state.type, RecordType)
            types = tuple(one.type for one in held.values())
            type_ = replace(state.type, elements=types)
            self.object_states.put(self.emit("prim::RecordState", list(held.values()), {}, type_))

    def settled_all(self, values: Sequence[Value], known: States) -> list[Value]:
        """Values that leave a block, outside of which these objects are known."""
        return [self.settled(value, known) for value in values]

    def settled(self, value: Value, known: States) -> Value:
        """A value with all objects in it as they are now.

        Objects that are known in this block only become copies, which nothing may change.
        """
        value = self.object_states.latest(value)
        if not holds_object(value.type):
            return value
        parts = parts_of(value)
        if isinstance(value.type, UnionType):
            parts = alternatives_of(value)
        if parts is None:
            return value
        if any(value is one for one in self._settling):
            raise RecordsAreNotValues("an object that is, or has in it, its own attribute")
        self._settling.append(value)
        try:
            found = self.settled_all(parts, known)
        finally:
            self._settling.pop()
        type_ = value.type
        is_inner = isinstance(type_, RecordType) and is_tracked(type_) and type_.origin not in known
        if not is_inner and all(map(operator.is_, found, parts)):
            return value
        if isinstance(type_, TupleType):
            return self.make_tuple(found, type_.named)
        types = tuple(one.type for one in found)
        if isinstance(type_, UnionType):
            assert value.node is not None
            held = [value.node.inputs[0], *found]
            return self.emit("prim::UnionConstruct", held, {}, UnionType(types))
        assert isinstance(type_, RecordType)
        if is_inner:
            self.object_states.freeze(value)
        origin = None if is_inner else type_.origin
        return self.emit(
            "prim::RecordState", found, {}, replace(type_, elements=types, origin=origin)
        )
