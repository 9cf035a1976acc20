"""Tapes: arrays in which loops keep what the backward part needs of each iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jitcore.ir.gradients.activity import rank_of
from jitcore.ir.graph import Block, Node, Value
from jitcore.ir.nesting import block_of, enclosing
from jitcore.ir.types import BOOL, INT, NONE, TensorType, Type, is_ndarray

if TYPE_CHECKING:
    from jitcore.ir.gradients.primals import Primals

__all__ = ["GrowingTape", "IndexedTape", "Tape", "is_before"]

FIRST_ROOM = 8
"""How many places a tape has first that grows; each time it is full it gets twice as many."""


class IndexedTape:
    """A tape with an axis for each loop, of which one knows before how often they run at most.

    Parameters
    ----------
    value : Value
        What is kept.
    dtype : numpy.dtype
    loops : list of Node
        The loops around it, from the outside.
    trips, extents : list of Value
        How often they run at most, and the extents of the value.
    """

    def __init__(
        self, value: Value, dtype: Any, loops: list[Node], trips: list[Value], extents: list[Value]
    ) -> None:
        sizes = [*trips, *extents]
        type_ = TensorType(dtype, tuple(_dim_of(one) for one in sizes))
        self.array = loops[0].value_before("np::empty", sizes, type_, {"dtype": dtype})
        self.places = [one.blocks[0].params[0] for one in loops]
        writer = _Writer.behind(value)
        writer.store(self.array, self.places, writer.stored(value, dtype), value)

    def read(self, primals: Primals, value: Value) -> Value:
        """What was kept in the iteration that is undone."""
        array = primals.at_hand(self.array)
        return _element(primals, array, [primals.at_hand(one) for one in self.places], value)


class GrowingTape:
    """A tape with a place for each time that a value is computed, however often that is.

    The array, and how many places are taken, are variables of all loops and branches around it.
    The backward part takes the last place each time, at the beginning of what undoes the value's
    block; how many are left is in an array with one element.
    """

    def __init__(self, value: Value, dtype: Any, first: Node, extents: list[Value]) -> None:
        self.first = first
        self.block = block_of(value)
        self._left: Value | None = None
        room = first.value_before("prim::Constant", [], INT, {"value": FIRST_ROOM})
        dims = ("room_of_tape", *map(_dim_of, extents))
        self._type = TensorType(dtype, dims)
        array = first.value_before("np::empty", [room, *extents], self._type, {"dtype": dtype})
        taken = first.value_before("prim::Constant", [], INT, {"value": 0})
        path = _path(self.block, first)
        states = [(array, taken)]
        for owner in path:
            if owner.kind == "prim::Loop":
                for one in states[-1]:
                    owner.add_input(one)
                body = owner.blocks[0]
                states.append((body.add_param(self._type), body.add_param(INT)))
            else:
                states.append(states[-1])
        found = self._write(_Writer.behind(value), states[-1], value, dtype, extents)
        inner = self.block
        for owner, before in zip(reversed(path), reversed(states[:-1]), strict=True):
            found = self._hand_out(owner, inner, before, found)
            assert owner.block is not None
            inner = owner.block
        self.array, self.count = found

    def _write(
        self,
        writer: _Writer,
        state: tuple[Value, Value],
        value: Value,
        dtype: Any,
        extents: list[Value],
    ) -> tuple[Value, Value]:
        array, taken = state
        stored = writer.stored(value, dtype)
        room = writer.value("prim::size", [array], INT, {"dim": 0})
        is_full = writer.value("prim::eq", [taken, room], BOOL)
        branch = writer.node("prim::If", [is_full], ())
        longer, same = branch.add_block(), branch.add_block()
        inner = _Writer(longer, 0)
        two = inner.value("prim::Constant", [], INT, {"value": 2})
        more = inner.value("prim::mul", [room, two], INT)
        made = inner.value("np::empty", [more, *extents], self._type, {"dtype": dtype})
        index = ", ".join([":$0", *[":"] * len(extents)])
        part = inner.value("np::view", [made, room], self._type, {"index": index})
        inner.node("np::store", [part, array], (NONE,))
        longer.add_return(made)
        same.add_return(array)
        array = branch.add_output(self._type)
        writer.store(array, [taken], stored, value)
        one = writer.value("prim::Constant", [], INT, {"value": 1})
        return array, writer.value("prim::add", [taken, one], INT)

    def _hand_out(
        self, owner: Node, inner: Block, before: tuple[Value, Value], found: tuple[Value, Value]
    ) -> tuple[Value, Value]:
        """Have a loop or a branch give the state that one of its blocks has at the end."""
        for block in owner.blocks:
            for one in found if block is inner else before:
                block.add_return(one)
        return owner.add_output(self._type), owner.add_output(INT)

    def read(self, primals: Primals, value: Value) -> Value:
        """What was kept in the iteration that is undone."""
        reverse = primals.reverse
        assert self.first.block is not None
        if self._left is None:
            with reverse.beginning(self.first.block):
                count = reverse.emit("np::cast", [primals.at_hand(self.count)], {"dtype": _INT64})
                one = reverse.constant(1)
                self._left = reverse.emit("np::full", [count, one], {"dtype": _INT64})
        with reverse.beginning(self.block) as scope:
            place = reverse.emit("np::view", [self._left], {"index": "0"})
            left = reverse.emit("prim::int", [reverse.emit("np::item", [place])])
            last = reverse.emit("prim::sub", [left, reverse.constant(1)])
            reverse.emit("np::store", [place, reverse.emit("np::cast", [last], {"dtype": _INT64})])
            scope.known[value] = _element(primals, primals.at_hand(self.array), [last], value)
            return scope.known[value]


Tape = IndexedTape | GrowingTape

_INT64 = np.dtype("int64")


class _Writer:
    """Inserts nodes of the forward part, one behind the other."""

    def __init__(self, block: Block, position: int, node: Node | None = None) -> None:
        self.block = block
        self.position = position
        self.source = None if node is None else node.source

    @classmethod
    def behind(cls, value: Value) -> _Writer:
        """One that inserts right behind the definition of a value."""
        block = block_of(value)
        position = 0 if value.node is None else block.nodes.index(value.node) + 1
        return cls(block, position, value.node or block.owner)

    def node(
        self,
        kind: str,
        inputs: Sequence[Value],
        outputs: Sequence[Type],
        attributes: Mapping[str, Any] | None = None,
    ) -> Node:
        self.position += 1
        return self.block.insert(
            self.position - 1, kind, inputs, attributes, outputs=outputs, source=self.source
        )

    def value(
        self,
        kind: str,
        inputs: Sequence[Value],
        type_: Type,
        attributes: Mapping[str, Any] | None = None,
    ) -> Value:
        return self.node(kind, inputs, (type_,), attributes).output

    def stored(self, value: Value, dtype: Any) -> Value:
        """A value as it is written to an array of its dtype."""
        if isinstance(value.type, TensorType):
            return value
        return self.value("np::cast", [value], TensorType(dtype, (), True), {"dtype": dtype})

    def store(self, array: Value, places: Sequence[Value], stored: Value, value: Value) -> None:
        index = {"index": _index(places, value)}
        type_ = value.type if isinstance(value.type, TensorType) else stored.type
        assert isinstance(type_, TensorType)
        place = self.value("np::view", [array, *places], TensorType(type_.dtype, type_.dims), index)
        self.node("np::store", [place, stored], (NONE,))


def _element(primals: Primals, array: Value, places: Sequence[Value], value: Value) -> Value:
    """One place of a tape, as the value that was written there."""
    reverse = primals.reverse
    found = reverse.emit("np::view", [array, *places], {"index": _index(places, value)})
    if is_ndarray(value.type):
        return found
    found = reverse.emit("np::item", [found])
    if value.type in (INT, BOOL):
        return reverse.emit(f"prim::{value.type}", [found])
    return found


def _path(block: Block, first: Node) -> list[Node]:
    """The loops and branches from ``first`` to a block inside of it, from the outside."""
    found: list[Node] = []
    for one in enclosing(block):
        assert one.owner is not None
        found.insert(0, one.owner)
        if one.owner is first:
            break
    return found


def _index(places: Sequence[Value], value: Value) -> str:
    parts = [f"${number}" for number in range(len(places))]
    return ", ".join([*parts, *[":"] * rank_of(value)])


def _dim_of(extent: Value) -> int | str:
    return f"{extent.name}_" if extent.constant is None else int(extent.constant_value)


def is_before(value: Value, loop: Node) -> bool:
    """Whether a value is known where a loop begins."""
    return value.constant is not None or block_of(value) in set(enclosing(loop.block))
