"""Which values a derivative passes through, and in whose memory arrays lie."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.effects import is_immutable, node_effects
from jitcore.ir.graph import LOOPS, Block, Graph, Node, SourceRange, Value
from jitcore.ir.nesting import block_of, enclosing
from jitcore.ir.ops import TABLE
from jitcore.ir.shapes import dims_of
from jitcore.ir.types import (
    BOOL,
    DTYPE,
    ELLIPSIS,
    FLOAT,
    INT,
    NONE,
    SLICE,
    STR,
    PrimType,
    TensorType,
    TupleType,
    Type,
    UnionType,
    is_ndarray,
    scalar_type,
)

__all__ = [
    "Activity",
    "NotDifferentiable",
    "dtype_of",
    "is_differentiable",
    "is_view",
    "rank_of",
    "root_of",
]

ZERO_GRADIENTS = frozenset(
    f"np::{name}"
    for name in ("floor", "ceil", "trunc", "rint", "sign", "signbit", "spacing", "empty")
) | {"prim::round", "prim::Uninitialized", "prim::size"}
"""The kinds whose results are constant almost everywhere, or hold nothing yet."""

_LEFT_OUT = frozenset({"prim::require", "prim::require_shape", "prim::bool", "prim::Constant"})


class NotDifferentiable(Exception):
    """There is no gradient of some part of a program; says what, where and what to do instead.

    Where the part is ``in_python``, it may be that the program raises an exception there.
    """

    def __init__(
        self,
        message: str,
        where: SourceRange | None = None,
        hint: str = "",
        *,
        in_python: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint
        self.in_python = in_python


def rank_of(value: Value) -> int:
    """The number of axes of an array; 0 for numbers."""
    return len(dims_of(value))


_DTYPES = {INT: np.dtype("int64"), FLOAT: np.dtype("float64"), BOOL: np.dtype("bool")}


def dtype_of(value: Value) -> Any:
    """The dtype of an array or a number; None of all else."""
    if isinstance(value.type, UnionType) and all(map(_is_float, value.type.alternatives)):
        return _DTYPES[FLOAT]
    if isinstance(value.type, TensorType):
        return value.type.dtype
    return _DTYPES.get(value.type) if isinstance(value.type, PrimType) else None


def _is_float(type_: Type) -> bool:
    return type_ in (FLOAT, scalar_type("float64"))


_CONSTANT_TYPES = (INT, BOOL, STR, NONE, ELLIPSIS, SLICE, DTYPE)


def is_differentiable(type_: Type) -> bool:
    """Whether values of this type may hold floats: numbers, arrays, and what nobody knows."""
    if isinstance(type_, TensorType):
        return type_.dtype is None or type_.dtype.kind not in "biu"
    if isinstance(type_, TupleType):
        return any(map(is_differentiable, type_.elements))
    if isinstance(type_, UnionType):
        return any(map(is_differentiable, type_.alternatives))
    return type_ not in _CONSTANT_TYPES


def is_view(node: Node) -> bool:
    """Whether a node gives an array in the memory of its first operand."""
    row = TABLE.get(node.kind)
    return row is not None and row.view and bool(node.inputs) and is_ndarray(node.inputs[0].type)


def root_of(value: Value) -> Value:
    """The array that a view is of, all the way; the value itself where it is none."""
    while value.node is not None and is_view(value.node):
        value = value.node.inputs[0]
    return value


def _handed_on(node: Node) -> list[Value]:
    """What a node's result may be, or may keep."""
    effects = node_effects(node)
    has_memory = not all(is_immutable(one.type) for one in node.outputs)
    handed = {*effects.aliases, *effects.keeps} if has_memory else set[int]()
    return [node.inputs[number] for number in {*handed, *effects.stores}]


class Activity:
    """What is known of a graph before it is differentiated.

    Parameters
    ----------
    graph : Graph
        A typed graph.
    seeds : sequence of Value
        The inputs with respect to which it is differentiated.
    """

    def __init__(self, graph: Graph, seeds: Sequence[Value]) -> None:
        self.graph = graph
        self.alias = AliasAnalysis(graph)
        self.active = set(seeds)
        self.writes: dict[Value, list[Node]] = {}
        for node in graph.nodes():
            for number in node_effects(node).writes:
                if is_ndarray(node.inputs[number].type):
                    self.writes.setdefault(root_of(node.inputs[number]), []).append(node)
        self._known_writers: dict[Value, list[Node]] = {}
        self._positions: dict[Node, int] = {node: n for n, node in enumerate(graph.nodes())}
        size = -1
        while size != len(self.active):
            size = len(self.active)
            for node in graph.nodes():
                self._visit(node)

    def is_active(self, value: Value) -> bool:
        """Whether a derivative may pass through a value."""
        if not is_differentiable(value.type):
            return False
        return value in self.active or root_of(value) in self.active

    def _visit(self, node: Node) -> None:
        if node.kind == "prim::If":
            self._join(node.outputs, *(block.returns for block in node.blocks))
        elif node.kind in LOOPS:
            (body,) = node.blocks
            self._join(body.params[1:], node.inputs[2:], body.returns[1:])
            self._join(node.outputs, node.inputs[2:], body.returns[1:])
        elif node.kind in ZERO_GRADIENTS or node.kind in _LEFT_OUT:
            return
        elif any(map(self.is_active, node.inputs)):
            self.active.update(one for one in node.outputs if is_differentiable(one.type))
            for number in node_effects(node).writes:
                self.active.add(root_of(node.inputs[number]))

    def _join(self, results: Sequence[Value], *columns: Sequence[Value]) -> None:
        for result, *sources in zip(results, *columns, strict=True):
            if is_differentiable(result.type) and any(map(self.is_active, sources)):
                self.active.add(result)

    def is_written(self, value: Value) -> bool:
        """Whether anything writes to an array, or to memory that it may share."""
        return is_ndarray(value.type) and bool(self._writers(value))

    def _writers(self, value: Value) -> list[Node]:
        # Views that others write to are of the same memory, whatever has handed it on.
        if value not in self._known_writers:
            self._known_writers[value] = self.alias.writers(value)
        return self._known_writers[value]

    def is_overwritten(self, value: Value, reader: Node) -> bool:
        """Whether an array may hold something else, after the program, than what a node reads."""
        if not is_ndarray(value.type) or not self._writers(value):
            return False
        root = root_of(value)
        life = set(enclosing(block_of(root)))
        own = self.writes.get(root, [])
        if not all(self._is_before(one, reader, life) for one in own):
            return True
        others = [one for one in self._writers(value) if one not in own]
        names = (enclosing(block_of(one)) for one in self.alias.sharing([value] if others else []))
        around = life.intersection(*map(set, names))
        return not all(self._is_before(one, reader, around) for one in others)

    def _is_before(self, write: Node, reader: Node, around: set[Block]) -> bool:
        """Whether a write is done whenever a node reads, in each life of the array.

        The array, under the names in question, lives in the blocks ``around`` and in no others.
        """
        if self._positions.get(write, 0) >= self._positions.get(reader, 0):
            return False
        shared = set(enclosing(write.block)) & set(enclosing(reader.block))
        return not any(one.owner is not None and one.owner.kind in LOOPS for one in shared - around)

    def uses_in_loops(self, value: Value) -> bool:
        """Whether a loop reads a value that is defined before it."""
        own = block_of(value)
        blocks = {use.user if isinstance(use.user, Block) else use.user.block for use in value.uses}
        around = (
            block
            for one in blocks
            for block in itertools.takewhile(lambda block: block is not own, enclosing(one))
        )
        return any(block.owner is not None and block.owner.kind in LOOPS for block in around)

    def require_plain_writes(self) -> None:
        """Refuse writes of which the backward part could not tell what they changed.

        Raises
        ------
        NotDifferentiable
            An argument is written in place, or an array that has another name as well.
        """
        for root, writes in self.writes.items():
            if not self.is_active(root) and root.node is not None:
                continue
            if root.node is None and root in self.graph.inputs:
                raise NotDifferentiable(
                    f"'{self.graph.name}' writes to its argument {root.name}",
                    writes[0].source,
                    "Write to a copy of it.",
                )
            self._require_one_name(root, writes)

    def _require_one_name(self, root: Value, writes: Sequence[Node]) -> None:
        node = root.node
        if node is None or node.blocks or node_effects(node).aliases:
            raise NotDifferentiable(
                "an array is written in place that comes from an argument, a branch or an earlier "
                "iteration: its gradient would need the elements that it had before",
                writes[0].source,
                "Write to a copy of it.",
            )
        for boundary, value in self._crossings(root):
            if self.is_overwritten(value, boundary):
                raise NotDifferentiable(
                    "an array that is written here, or may be, has another name in a branch, a "
                    "loop or a container",
                    writes[0].source,
                    "Write to a copy of it.",
                )

    def _crossings(self, root: Value) -> Iterator[tuple[Node, Value]]:
        """Where an array, or a view of it, gets another name, which says nothing of it."""
        inside = set(enclosing(block_of(root)))
        for node in self.graph.nodes():
            columns = [node.inputs[2:]] if node.kind in LOOPS else []
            columns += [block.returns for block in node.blocks if block not in inside]
            if not node.blocks and not is_view(node):
                columns.append(_handed_on(node))
            for value in (one for column in columns for one in column):
                if is_ndarray(value.type) and root_of(value) is root:
                    yield node, value
