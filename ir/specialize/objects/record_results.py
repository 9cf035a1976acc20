"""Objects that leave compiled code: those the caller has, and those that the function made."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence

from jitcore.ir.graph import FieldWrite, Node, Value
from jitcore.ir.ops.library_functions import Deque
from jitcore.ir.specialize.branches import BranchBuilder
from jitcore.ir.specialize.objects.object_lists import finish_object_lists
from jitcore.ir.specialize.objects.object_states import attributes_of
from jitcore.ir.specialize.objects.records import fields_of
from jitcore.ir.specialize.skeletons import (
    RecordsAreNotValues,
)
from jitcore.ir.specialize.value_kinds import holds_object
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

    The attributes of arguments that have changed come after them, and the graph gets
    ``field_writes`` of these.
    """
    results = _RecordResults(worker)
    returned = list(map(results.result, values))
    finish_object_lists(worker)
    writes = list(results.writes())
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
        if not isinstance(value.type, TupleType) and not holds_object(value.type):
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
        if type_.class_ is Deque:
            raise RecordsAreNotValues("a deque that the caller gets")
        if not type_.is_made:
            raise RecordsAreNotValues("an object that may be an argument, or another one")
        is_unknown = type_.origin is None and self._made
        if is_unknown or None in self._made or type_.origin in self._made:
            raise RecordsAreNotValues("several objects, of which two may be one")
        self._made.add(type_.origin)
        fields = fields_of(self._worker, value)
        parts = list(map(self.result, fields.values()))
        return self._worker.make_tuple(parts, ObjectMaker(type_.class_, tuple(fields)))

    def writes(self) -> Iterator[tuple[FieldWrite, Value]]:
        """The attributes of arguments that have changed, and what they are now."""
        for number, argument in enumerate(self._worker.objects):
            state = self._worker.object_states.now.get(number)
            for name, value in attributes_of(state).items() if state is not None else ():
                if argument.attributes.get(name) is not self._first(value):
                    yield FieldWrite(number, name), self.result(value)

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
