"""Checks that a graph is well formed and, given a rule, that every type is what it should be.

A pass may rely on what is checked here: names are unique, uses are recorded exactly, every value
is defined before it is read and in a block that encloses the reader, blocks take and return what
their owner expects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NoReturn

from jitcore.ir.graph import Block, Graph, Node, Use, Value
from jitcore.ir.printer import print_node
from jitcore.ir.types import Type

__all__ = ["VerificationError", "verify"]

Infer = Callable[[Node], Sequence[Type]]
_VALUE_NAME = re.compile(r"[\w.]+")
_KIND = re.compile(r"[^\W\d]\w*::\w[\w.]*")


class VerificationError(ValueError):
    """A graph that breaks a rule of the IR; the message says which rule and where."""


def verify(graph: Graph, infer: Infer | None = None) -> None:
    """Check a graph and the graphs that its nodes hold.

    Parameters
    ----------
    graph : Graph
    infer : callable, optional
        Gives the types a node's outputs should have; they are compared with those they have.

    Raises
    ------
    VerificationError
        The first rule that is broken, with the node and its line in the user's source.
    """
    waiting = [graph]
    seen = {id(graph)}
    while waiting:
        checker = _Checker(waiting.pop(), infer)
        checker.check()
        for body in checker.bodies:
            if id(body) not in seen:
                seen.add(id(body))
                waiting.append(body)


class _Checker:
    """Walks one graph; ``visible`` are the values that the place reached so far may read."""

    def __init__(self, graph: Graph, infer: Infer | None) -> None:
        self.graph = graph
        self.infer = infer
        self.bodies: list[Graph] = []
        self.visible: set[Value] = set()
        self.names: dict[str, Value] = {}
        self.uses: dict[Value, list[Use]] = {}

    def check(self) -> None:
        if self.graph.block.owner is not None:
            raise VerificationError("the graph's own block belongs to a node")
        self._block(self.graph.block)
        for value, uses in self.uses.items():
            self._check_uses(value, uses)
        for capture in self.graph.captures:
            if capture.input is not None and capture.input not in self.graph.inputs:
                raise VerificationError(
                    f"the input %{capture.input.name} of the capture {capture.path} "
                    "is not an input of the graph"
                )

    def _check_uses(self, value: Value, uses: list[Use]) -> None:
        recorded = sorted((id(use.user), use.index) for use in value.uses)
        actual = sorted((id(use.user), use.index) for use in uses)
        if recorded != actual:
            raise VerificationError(
                f"%{value.name} is read {len(actual)} times but has {len(recorded)} recorded uses, "
                "or they are others"
            )

    def _block(self, block: Block) -> None:
        if block.graph is not self.graph:
            raise VerificationError(f"a block of {self._title()} names another graph as its own")
        own = list(block.params)
        for param in block.params:
            if param.block is not block or param.node is not None:
                raise VerificationError(f"%{param.name} is listed by a block it does not belong to")
            self._define(param)
        for node in block.nodes:
            self._node(node, block)
            own += node.outputs
        for index, value in enumerate(block.returns):
            self._read(value, Use(block, index), f"a block's return number {index}")
        self.visible.difference_update(own)

    def _node(self, node: Node, block: Block) -> None:
        if node.block is not block:
            self._fail(node, "the node does not know the block it lies in")
        if not _KIND.fullmatch(node.kind):
            self._fail(node, f"a kind has the form namespace::name, not {node.kind!r}")
        for index, value in enumerate(node.inputs):
            self._read(value, Use(node, index), f"input number {index}", node)
        self._keywords(node)
        for inner in node.blocks:
            if inner.owner is not node:
                self._fail(node, "a block of the node belongs to another one")
            self._block(inner)
        _check_shape(node, self._fail)
        self._held_graph(node)
        for value in node.outputs:
            if value.node is not node or value.block is not None:
                self._fail(node, f"the output %{value.name} names another node as its maker")
            self._define(value, node)
        if self.infer is not None:
            self._types(node, self.infer)

    def _keywords(self, node: Node) -> None:
        if len(node.keywords) > len(node.inputs):
            self._fail(node, f"{len(node.keywords)} keywords for only {len(node.inputs)} inputs")
        named = [keyword for keyword in node.keywords if keyword != "**"]
        if len(set(named)) != len(named):
            self._fail(node, "a keyword is given twice")

    def _held_graph(self, node: Node) -> None:
        body = node.attributes.get("graph")
        if not isinstance(body, Graph):
            return
        self.bodies.append(body)
        captured = sum(capture.input is not None for capture in body.captures)
        if len(node.inputs) not in (len(body.inputs), len(body.inputs) - captured):
            self._fail(node, f"{len(node.inputs)} inputs for a graph that takes {len(body.inputs)}")
        if len(node.outputs) != len(body.outputs):
            self._fail(
                node, f"{len(node.outputs)} outputs of a graph that returns {len(body.outputs)}"
            )

    def _define(self, value: Value, node: Node | None = None) -> None:
        if not _VALUE_NAME.fullmatch(value.name):
            self._fail(node, f"{value.name!r} is not a name that a value may have")
        if self.names.setdefault(value.name, value) is not value:
            self._fail(node, f"two values are called %{value.name}")
        if value in self.visible:
            self._fail(node, f"%{value.name} is defined twice")
        self.visible.add(value)
        self.uses.setdefault(value, [])

    def _read(self, value: Value, use: Use, what: str, node: Node | None = None) -> None:
        if value not in self.visible:
            known = self.names.get(value.name) is value
            reason = "is defined in a block that has ended" if known else "is not defined before"
            self._fail(node, f"{what} reads %{value.name}, which {reason}")
        self.uses[value].append(use)

    def _types(self, node: Node, infer: Infer) -> None:
        expected = list(infer(node))
        found = [value.type for value in node.outputs]
        if expected != found:
            self._fail(
                node,
                f"the outputs should have the types ({', '.join(map(str, expected))}), "
                f"not ({', '.join(map(str, found))})",
            )

    def _title(self) -> str:
        return f"graph {self.graph.name}" if self.graph.name else "the graph"

    def _fail(self, node: Node | None, message: str) -> NoReturn:
        if node is None:
            raise VerificationError(f"in {self._title()}: {message}")
        line = print_node(node).partition("\n")[0]
        raise VerificationError(f"in {self._title()}: {message}\n  {line}")


Fail = Callable[[Node, str], NoReturn]


def _check_shape(node: Node, fail: Fail) -> None:
    """Check inputs, blocks and outputs against each other, for the kinds that fix them."""
    check = _SHAPES.get(node.kind)
    if check is not None:
        check(node, fail)
    elif node.blocks:
        fail(node, f"{node.kind} has no blocks, but here it has {len(node.blocks)}")


def _require(node: Node, fail: Fail, what: str, expected: int, found: int) -> None:
    if expected != found:
        fail(node, f"{node.kind} should have {expected} {what} here, not {found}")


def _check_constant(node: Node, fail: Fail) -> None:
    _require(node, fail, "inputs", 0, len(node.inputs))
    _require(node, fail, "outputs", 1, len(node.outputs))
    _require(node, fail, "blocks", 0, len(node.blocks))
    if "value" not in node.attributes:
        fail(node, "prim::Constant needs the attribute value")


def _check_if(node: Node, fail: Fail) -> None:
    _require(node, fail, "inputs", 1, len(node.inputs))
    _require(node, fail, "blocks", 2, len(node.blocks))
    for number, block in enumerate(node.blocks):
        _require(node, fail, f"parameters in block{number}", 0, len(block.params))
        _require(node, fail, f"returns in block{number}", len(node.outputs), len(block.returns))


def _check_try(node: Node, fail: Fail) -> None:
    _require(node, fail, "inputs", 0, len(node.inputs))
    _require(node, fail, "blocks", 2, len(node.blocks))
    for number, block in enumerate(node.blocks):
        _require(node, fail, f"parameters in block{number}", number, len(block.params))
        _require(node, fail, f"returns in block{number}", len(node.outputs), len(block.returns))


def _check_with(node: Node, fail: Fail) -> None:
    _require(node, fail, "keywords", len(node.inputs), len(node.keywords))
    _require(node, fail, "blocks", 1, len(node.blocks))
    _require(node, fail, "parameters in block0", 0, len(node.blocks[0].params))
    _require(node, fail, "returns in block0", len(node.outputs), len(node.blocks[0].returns))
    if "manager" not in node.attributes:
        fail(node, "prim::With needs the attribute manager")


def _check_loop(node: Node, fail: Fail) -> None:
    # A loop reads the trip count and the condition before the carried values, a for the iterable.
    before = 2 if node.kind == "prim::Loop" else 1
    carried = len(node.outputs)
    _require(node, fail, "inputs", before + carried, len(node.inputs))
    _require(node, fail, "blocks", 1, len(node.blocks))
    (body,) = node.blocks
    _require(node, fail, "parameters in block0", 1 + carried, len(body.params))
    _require(node, fail, "returns in block0", 1 + carried, len(body.returns))


def _check_unpack(node: Node, fail: Fail) -> None:
    _require(node, fail, "inputs", 1, len(node.inputs))
    count = node.attributes.get("count")
    if count != len(node.outputs):
        fail(node, f"the attribute count is {count}, but there are {len(node.outputs)} outputs")


def _check_raise(node: Node, fail: Fail) -> None:
    if node.outputs:
        fail(node, "prim::Raise has no outputs")


_SHAPES: dict[str, Callable[[Node, Fail], None]] = {
    "prim::Constant": _check_constant,
    "prim::If": _check_if,
    "prim::Loop": _check_loop,
    "prim::For": _check_loop,
    "prim::Try": _check_try,
    "prim::With": _check_with,
    "prim::Unpack": _check_unpack,
    "prim::Raise": _check_raise,
}
