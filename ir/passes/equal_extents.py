"""One symbol for extents that are equal whatever the arguments are."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import cached_property

from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.graph import Block, Graph, Node, Value
from jitcore.ir.names import all_values
from jitcore.ir.nesting import place_in
from jitcore.ir.ops import TABLE
from jitcore.ir.shapes import dims_of
from jitcore.ir.types import Dim, TensorType, TupleType, Type

__all__ = ["MADE_OF_NUMBERS", "Extents", "join_equal_extents"]


def join_equal_extents(graph: Graph) -> bool:
    """Give extents that are equal by the way they come about one symbol.

    Before::

        graph(%x : Float32[n], %y : Float32[n], %m : Bool[n]):
          %0 : Float32[a] = np::compress(%x, %m)
          %1 : Float32[b] = np::compress(%y, %m)
          %2 : Float32[c] = np::add(%0, %1)
          return (%2)

    After::

        graph(%x : Float32[n], %y : Float32[n], %m : Bool[n]):
          %0 : Float32[a] = np::compress(%x, %m)
          %1 : Float32[a] = np::compress(%y, %m)
          %2 : Float32[a] = np::add(%0, %1)
          return (%2)

    Selections by one mask have one length, arrays that are made with one number have it as their
    extent, and what a loop carries or a branch gives is equal where all that it may come from is.
    Operations on such arrays are of one shape, so that they can be fused, and nothing is compared.
    """
    return Extents(graph).run()


_OPERAND = re.compile(r"\$(\d+)")

MADE_OF_NUMBERS = {
    **dict.fromkeys(("np::reshape", "np::set_shape", "np::full", "np::broadcast_to"), 1),
    "np::empty": 0,
}
"""Kinds whose operands from this one on are the extents of the result."""

_MOST_TRIES = 4
"""How often what a loop carries is divided further, before nothing is taken to be equal."""


class Extents:
    """The symbols that stand for the same extent, found in the order of the program."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.joined: dict[Dim, Dim] = {}
        self.known: dict[Hashable, Dim] = {}
        self.seen: set[Dim] = {dim for value in graph.inputs for dim in dims_of(value)}

    @cached_property
    def analysis(self) -> AliasAnalysis:
        """Which writes there are in between; few graphs have extents of which it matters."""
        return AliasAnalysis(self.graph, distinct_inputs=True)

    def run(self) -> bool:
        """Give equal extents one symbol; whether there are any."""
        self.block(self.graph.block)
        names = {dim: self.representative(dim) for dim in self.joined}
        if not names:
            return False
        for value in all_values(self.graph.block):
            value.type = _renamed(value.type, names)
        return True

    def representative(self, dim: Dim) -> Dim:
        """The first symbol of those that are equal to one."""
        while dim in self.joined:
            dim = self.joined[dim]
        return dim

    def join(self, dim: Dim, other: Dim) -> None:
        """Take a symbol for equal to another one."""
        dim, other = self.representative(dim), self.representative(other)
        if dim != other and isinstance(dim, str) and isinstance(other, str):
            self.joined[dim] = other

    def block(self, block: Block) -> None:
        """Walk a block."""
        for node in block.nodes:
            if node.kind == "prim::Loop":
                self.loop(node)
            else:
                for inner in node.blocks:
                    self.block(inner)
                self.outputs(node)

    def outputs(self, node: Node) -> None:
        """Join the new symbols of a node's outputs."""
        for number, value in enumerate(node.outputs):
            for axis, dim in enumerate(dims_of(value)):
                if isinstance(dim, int) or dim in self.seen:
                    continue
                self.seen.add(dim)
                key = self.origin(node, number, axis)
                if isinstance(key, str):
                    self.join(dim, key)
                elif key is not None:
                    self.join(dim, self.known.setdefault(key, dim))

    def origin(self, node: Node, number: int, axis: int) -> Hashable:
        """What an extent of an output comes from: a symbol, or a key; None where that is new."""
        if node.kind == "prim::If":
            live = [block for block in node.blocks if not block.raises]
            return node, tuple(self.of(block.returns[number], axis) for block in live)
        if node.kind == "np::compress" and axis == 0:
            return "selection", node.inputs[1], self.version(node)
        first = MADE_OF_NUMBERS.get(node.kind)
        if first is not None:
            return self.named_by(node.inputs[first + axis])
        if node.kind == "np::view":
            return self.sliced(node, axis)
        op = TABLE.get(node.kind)
        if op is None or op.scalar is None:
            return None
        places = [
            (one, axis - len(dims_of(node.output)) + len(dims_of(one))) for one in node.inputs
        ]
        extents = {self.of(one, place) for one, place in places if place >= 0} - {1}
        return extents.pop() if len(extents) == 1 else None

    def named_by(self, number: Value) -> Hashable:
        """The extent that an array has which is made with a number."""
        node = number.node
        if node is not None and node.kind == "prim::size":
            return self.of(node.inputs[0], node.attributes["dim"])
        return "number", number

    def sliced(self, view: Node, axis: int) -> tuple[Hashable, str, tuple[Value, ...], Hashable]:
        """The extent of a view's axis: equal for equal slices of equal extents."""
        base_axis = own_axis = -1
        for part in view.attributes["index"].split(", "):
            base_axis += part != "None"
            own_axis += part == "None" or ":" in part
            if own_axis == axis:
                break
        operands = [view.inputs[1 + int(one)] for one in _OPERAND.findall(part)]
        text = _OPERAND.sub("$", part)
        return "slice", text, tuple(operands), self.of(view.inputs[0], base_axis)

    def of(self, value: Value, axis: int) -> Hashable:
        """The extent of an axis; one of its own where there is no value."""
        if value.node is not None and value.node.kind == "prim::Uninitialized":
            return value
        return self.representative(dims_of(value)[axis])

    def version(self, node: Node) -> Hashable:
        """What of a block has been done to a mask before a node."""
        block = node.block
        assert block is not None
        position = block.nodes.index(node)
        places = (place_in(block, writer) for writer in self.analysis.writers(node.inputs[1]))
        return block, frozenset(place for place in places if 0 <= place < position)

    def loop(self, node: Node) -> None:
        """Walk a loop: what it carries is equal where it starts equal, and is set to equals."""
        (body,) = node.blocks
        params, returned = body.params[1:], body.returns[1:]
        places = [
            (number, axis)
            for number, param in enumerate(params)
            for axis, dim in enumerate(dims_of(param))
            if isinstance(dim, str) and dim not in self.seen
        ]
        self.seen.update(dims_of(params[number])[axis] for number, axis in places)
        start = [self.of(node.inputs[2 + number], axis) for number, axis in places]
        classes = _numbered(start)
        before = dict(self.joined), dict(self.known), set(self.seen)
        for attempt in range(_MOST_TRIES + 1):
            if attempt == _MOST_TRIES:
                classes = list(range(len(places)))
            self._join_places(params, places, classes)
            self.block(body)
            after = [self.of(returned[number], axis) for number, axis in places]
            refined = _numbered(list(zip(classes, after, strict=True)))
            if refined == classes:
                break
            classes = refined
            self.joined, self.known, self.seen = dict(before[0]), dict(before[1]), set(before[2])
        new = [(number, axis) for number, axis in places if self._is_new(node.outputs[number])]
        kept = [one for place, one in zip(places, classes, strict=True) if place in new]
        self._join_places(node.outputs, new, kept)
        self.seen.update(dim for value in node.outputs for dim in dims_of(value))

    def _is_new(self, value: Value) -> bool:
        return self.seen.isdisjoint(dims_of(value))

    def _join_places(
        self, values: Sequence[Value], places: Sequence[tuple[int, int]], classes: Sequence[int]
    ) -> None:
        first: dict[int, Dim] = {}
        for (number, axis), one in zip(places, classes, strict=True):
            dim = dims_of(values[number])[axis]
            self.join(dim, first.setdefault(one, dim))


def _numbered(keys: Sequence[Hashable]) -> list[int]:
    """The same number for equal keys."""
    found: dict[Hashable, int] = {}
    return [found.setdefault(key, len(found)) for key in keys]


def _renamed(type_: Type, names: dict[Dim, Dim]) -> Type:
    """A type with other symbols in it."""
    if isinstance(type_, TupleType):
        return replace(type_, elements=tuple(_renamed(one, names) for one in type_.elements))
    if not isinstance(type_, TensorType) or type_.dims is None:
        return type_
    return TensorType(type_.dtype, tuple(names.get(dim, dim) for dim in type_.dims), type_.scalar)
