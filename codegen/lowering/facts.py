"""What lowering knows of a value before its users are lowered: does it leave, when does it end."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.graph import Block, Graph, Node, Value
from jitcore.ir.types import TensorType

__all__ = [
    "FUSED",
    "WRITING",
    "Escapes",
    "computed_in_place",
    "is_on_float16",
    "is_written_while_used",
    "last_uses",
    "listed_values",
    "writes_arguments",
]

FUSED = "prim::FusionGroup"
"""The kind of nodes whose attribute ``graph`` is lowered as one group."""

PUT = "prim::ListPut"
"""The kind of nodes that put an array, input 2, into a list."""

WRITING = frozenset({"np::store", "np::scatter", "np::put_mask", "prim::ListMove", PUT})
"""The kinds that write to an array."""

_PASSING = frozenset(
    [
        "np::view",
        "np::transpose",
        "np::ravel",
        "np::reshape",
        "np::set_shape",
        "np::broadcast_to",
        "np::real",
        "np::imag",
        "prim::ListView",
        "prim::TupleConstruct",
        "prim::UnionConstruct",
        "prim::Unpack",
        "prim::CheckBound",
    ]
)
"""Kinds whose result may share the memory of input 0 (of any input, for tuples and unions)."""


def writes_arguments(graph: Graph) -> bool:
    """Whether a graph may write to memory that its caller knows."""
    writers = [node for node in _all_nodes(graph) if node.kind in WRITING]
    if not writers:
        return False
    analysis = AliasAnalysis(graph)
    return any(one.escapes for node in writers for one in analysis.writes(node))


def computed_in_place(graph: Graph) -> set[Value]:
    """The results of operations like ``x += y``, which go nowhere but into their array."""
    found: set[Value] = set()
    given: dict[Value, Value] = {}
    for node in _all_nodes(graph):
        if node.kind == FUSED:
            given.update(zip(node.attributes["graph"].inputs, node.inputs, strict=True))
        if not node.attributes.get("in_place"):
            continue
        value = node.inputs[1]
        while len(value.uses) == 1:
            maker = value.node
            if value in given:
                value = given[value]
            elif maker is None:
                break
            elif maker.kind == FUSED:
                value = maker.attributes["graph"].outputs[maker.outputs.index(value)]
            elif maker.kind == "np::cast":
                value = maker.inputs[0]
            else:
                found.add(value)
                break
    return found


def _all_nodes(graph: Graph) -> Iterator[Node]:
    """All nodes, those of fused groups too."""
    for node in graph.nodes():
        yield node
        if node.kind == FUSED:
            yield from _all_nodes(node.attributes["graph"])


def is_on_float16(node: Node) -> bool:
    """Whether a node reads or makes numbers of float16."""
    types = (value.type for value in (*node.inputs, *node.outputs))
    return any(isinstance(one, TensorType) and one.dtype == np.float16 for one in types)


class Escapes:
    """Which arrays may leave their block: returned, merged, carried or put into lists, or views of
    such.

    Such an array is an ``ndarray`` with a reference count from the start.

    Parameters
    ----------
    graph : Graph
    copied : collection of Value
        The parameters of loops' blocks to which elements are copied (``small_variables``).
    """

    def __init__(self, graph: Graph, copied: Collection[Value] = ()) -> None:
        self._copied = copied
        self._owners: dict[Block, Node] = {}
        self._leaving: set[Value] = set()
        waiting = [*graph.outputs, *self._leaving_blocks(graph)]
        while waiting:
            value = waiting.pop()
            if value not in self._leaving:
                self._leaving.add(value)
                waiting.extend(self._sources(value))

    def __call__(self, value: Value) -> bool:
        """Whether ``value`` may leave the block that makes it."""
        return value in self._leaving

    def _leaving_blocks(self, graph: Graph) -> Iterator[Value]:
        """What nodes with blocks merge or carry, in the groups too."""
        for node in graph.nodes():
            if node.kind == FUSED:
                inner: Graph = node.attributes["graph"]
                self._owners[inner.block] = node
                yield from self._leaving_blocks(inner)
            elif node.kind == PUT:
                yield node.inputs[2]
            elif node.kind == "prim::Loop":
                yield from self._carried(node)
                continue
            for block in node.blocks:
                yield from block.returns

    def _carried(self, loop: Node) -> Iterator[Value]:
        """What a loop carries, but for what is copied."""
        (block,) = loop.blocks
        carried = zip(block.params[1:], loop.inputs[2:], block.returns[1:], strict=True)
        for param, *values in carried:
            if param not in self._copied:
                yield from values

    def _sources(self, value: Value) -> Sequence[Value]:
        """The values whose memory a value may share."""
        if value.block is not None:
            owner = self._owners.get(value.block)
            return [] if owner is None else [owner.inputs[value.block.params.index(value)]]
        node = value.node
        assert node is not None
        if node.kind == FUSED:
            return [node.attributes["graph"].outputs[node.outputs.index(value)]]
        return node.inputs if node.kind in _PASSING else []


def listed_values(graph: Graph) -> frozenset[Value]:
    """All arrays that may share memory with one that is, or becomes, an element of a list."""
    puts = [node for node in graph.nodes() if node.kind == PUT]
    gets = [node for node in graph.nodes() if node.kind == "prim::ListGet"]
    if not puts and not gets:
        return frozenset()
    analysis = AliasAnalysis(graph)
    listed = [node.inputs[2] for node in puts] + [node.output for node in gets]
    return frozenset(analysis.sharing(listed))


def is_written_while_used(value: Value) -> bool:
    """Whether anything writes to any array between a value's node and the end of its last use.

    Writes to the value itself count, and so does all that is done with views of it.
    """
    assert value.node is not None and value.node.block is not None
    block = value.node.block
    return _is_written_after(block, block.nodes.index(value.node), {value})


def _is_written_after(block: Block, position: int, same: set[Value]) -> bool:
    """Whether anything is written between a node and the last use of what is one array there."""
    last = last_uses(block)
    end = position
    for number, node in enumerate(block.nodes[position + 1 :], position + 1):
        if number > max(last.get(one, position) for one in same):
            break
        if node.kind in WRITING and node.inputs[0] in same:
            return True
        if node.kind in _PASSING and same & set(node.inputs):
            same.update(node.outputs)
        end = number
    if any(map(_writes, block.nodes[position + 1 : end])):
        return True
    final = block.nodes[end]
    if final.kind == FUSED:
        graph = final.attributes["graph"]
        parts = zip(graph.inputs, final.inputs, strict=True)
        return _is_written_after(graph.block, -1, {part for part, given in parts if given in same})
    return bool(final.blocks) and _writes(final)


def _writes(node: Node) -> bool:
    """Whether a node, or one inside it, writes to an array."""
    if node.kind == FUSED:
        return any(map(_writes, node.attributes["graph"].block.nodes))
    return node.kind in WRITING or any(_writes(n) for block in node.blocks for n in block.nodes)


def last_uses(block: Block) -> dict[Value, int]:
    """The number of the node of this block that reads each value last, nested reads included."""
    found: dict[Value, int] = {}

    def read(inner: Block, position: int) -> None:
        for node in inner.nodes:
            found.update(dict.fromkeys(node.inputs, position))
            for nested in node.blocks:
                read(nested, position)
        found.update(dict.fromkeys(inner.returns, position))

    for position, node in enumerate(block.nodes):
        found.update(dict.fromkeys(node.inputs, position))
        for nested in node.blocks:
            read(nested, position)
    found.update(dict.fromkeys(block.returns, len(block.nodes)))
    return found
