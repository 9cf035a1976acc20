"""Objects that leave compiled code: those the caller has, and those that the function made."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence

from jitcore.ir.graph import FieldWrite, Node, Value
from jitcore.ir.passes.object_lists import finish_object_lists
from jitcore.ir.passes.records import fields_of, holds_record
from jitcore.ir.passes.skeletons import RecordsAreNotValues
from jitcore.ir.passes.specialize_branches import BranchBuilder
from jitcore.ir.types import (
    ObjectElementType,
    ObjectListType,
    ObjectMaker,
    Origin,
    RecordType,
    TupleType,
    UnionType,
)

__all__ = ["return_objects"]


def return_objects(worker: BranchBuilder, values: Sequence[Value]) -> list[Value]:
    """What a graph returns in place of values of which some are, or hold, objects.

    Values after the first that are arguments say what those are at the end: the attributes that
    have changed take their place, and the graph gets ``field_writes`` of them.
    """
    results = _RecordResults(worker)
    is_state = [
        number > 0 and isinstance(one.type, RecordType) for number, one in enumerate(values)
    ]
    returned = [results.result(one) for one, last in zip(values, is_state, strict=True) if not last]
    finish_object_lists(worker)
    states = [one for one, last in zip(values, is_state, strict=True) if last]
    writes = list(results.writes(states))
    worker.block.graph.field_writes = tuple(write for write, _ in writes)
    return [*returned, *(value for _, value in writes)]


class _RecordResults:
    """Takes the objects among the results of one function.

    An object must stay one: what is returned, and what attributes of arguments become, may not be
    two new objects where Python has one under two names.
    """

    def __init__(self, worker: BranchBuilder) -> None:
        self._worker = worker
        self._made: set[Origin] = set()
        self._known: dict[Value, Value] = {}

    def result(self, value: Value) -> Value:
        """What the caller gets for a value that may be, or hold, an object."""
        if isinstance(value.type, ObjectListType):
            return self._worker.given_lists[value.type.number]
        if isinstance(value.type, ObjectElementType):
            raise RecordsAreNotValues("an object in a list that is returned")
        if isinstance(value.type, UnionType):
            return self._union(value)
        if not isinstance(value.type, TupleType) and not holds_record(value.type):
            return value
        assert value.node is not None
        if isinstance(value.type, TupleType):
            if value.node.kind != "prim::TupleConstruct":
                return value
            parts = [self.result(part) for part in value.node.inputs]
            is_same = all(map(operator.is_, parts, value.node.inputs))
            return value if is_same else self._worker.make_tuple(parts, value.type.named)
        assert isinstance(value.type, RecordType)
        if isinstance(value.type.origin, int) and value.type.origin >= 0:
            return self._worker.objects[value.type.origin].given
        return self._new(value, value.type)

    def _union(self, value: Value) -> Value:
        """One of several values, of which objects may be some."""
        assert value.node is not None
        tag, *held = value.node.inputs
        parts = list(map(self.result, held))
        if all(map(operator.is_, parts, held)):
            return value
        union = UnionType(tuple(part.type for part in parts))
        return self._worker.emit("prim::UnionConstruct", [tag, *parts], {}, union)

    def _new(self, value: Value, type_: RecordType) -> Value:
        """An object that the function has made, as a tuple with a class that makes it."""
        if not type_.is_made:
            raise RecordsAreNotValues("an object that may be an argument, or another one")
        is_unknown = type_.origin is None and self._made
        if is_unknown or None in self._made or type_.origin in self._made:
            raise RecordsAreNotValues("several objects, of which two may be one")
        self._made.add(type_.origin)
        parts = [self.result(part) for part in fields_of(value).values()]
        return self._worker.make_tuple(parts, ObjectMaker(type_.class_, type_.names))

    def writes(self, states: Sequence[Value]) -> Iterator[tuple[FieldWrite, Value]]:
        """The attributes of arguments that have changed, and what they are now."""
        for state in states:
            assert isinstance(state.type, RecordType) and isinstance(state.type.origin, int)
            before = self._worker.objects[state.type.origin].attributes
            for name, value in fields_of(state).items():
                if before.get(name) is not self._first(value):
                    yield FieldWrite(state.type.origin, name), self.result(value)

    def _first(self, value: Value) -> Value:
        """What a value was before loops and branches that do not change it."""
        node = value.node
        if node is None or node.kind not in ("prim::If", "prim::Loop"):
            return value
        if value not in self._known:
            self._known[value] = self._before(value, node)
        return self._known[value]

    def _before(self, value: Value, node: Node) -> Value:
        place = node.outputs.index(value)
        if node.kind == "prim::Loop":
            body = node.blocks[0]
            is_kept = self._first(body.returns[place + 1]) is body.params[place + 1]
            return self._first(node.inputs[place + 2]) if is_kept else value
        one, other = (self._first(block.returns[place]) for block in node.blocks)
        return one if one is other and BranchBuilder.is_outer(one, node) else value
