"""Graph, Block, Node, Value: typed SSA in the shape TorchScript made familiar.

A graph holds one block; a node may hold blocks of its own (``prim::If``, ``prim::Loop``).  All
change goes through the methods here, which keep the use lists right.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from jitcore.ir.dataclass import dataclass
from jitcore.ir.types import ANY, Type

__all__ = [
    "ITERATORS",
    "LOOPS",
    "Block",
    "Capture",
    "Constants",
    "FieldWrite",
    "Graph",
    "Node",
    "SourceRange",
    "Use",
    "Value",
]

LOOPS = frozenset({"prim::Loop", "prim::For"})
"""The kinds whose block is run again and again; the blocks of all others run at most once."""

ITERATORS = frozenset({"prim::zip", "prim::enumerate", "prim::reversed"})
"""The kinds whose results visit the elements of their operands, in a loop."""


@dataclass(frozen=True, slots=True)
class SourceRange:
    """Where a node came from: 1-based lines, 0-based columns, as ``ast`` counts them."""

    file: str
    line: int
    column: int
    end_line: int = 0
    end_column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    @property
    def place(self) -> str:
        """The file's name and the line, as comments and saved texts may show them."""
        return f"{_shown_name(self.file)}:{self.line}"


@cache
def _shown_name(file: str) -> str:
    """The name of a file without its folder, and without what is no text."""
    return "".join(c if c.isprintable() else "?" for c in os.path.basename(file))


@dataclass(frozen=True, slots=True)
class Use:
    """One place a value is read: input number ``index`` of ``user``, or of a block's returns."""

    user: Node | Block
    index: int


class Value:
    """An SSA value: a block's parameter, or an output of a node."""

    __slots__ = ("block", "name", "node", "type", "uses")

    def __init__(self, name: str, type_: Type, node: Node | None, block: Block | None) -> None:
        self.name = name
        self.type = type_
        self.node = node
        self.block = block
        self.uses: list[Use] = []

    def __repr__(self) -> str:
        return f"%{self.name} : {self.type}"

    @property
    def constant(self) -> Node | None:
        """The ``prim::Constant`` node that makes this value, or None."""
        node = self.node
        return node if node is not None and node.kind == "prim::Constant" else None

    @property
    def constant_value(self) -> Any:
        """What the constant that makes this value holds; None of all other values."""
        constant = self.constant
        return None if constant is None else constant.attributes["value"]

    def replace_all_uses_with(self, other: Value) -> None:
        """Make every user read ``other``.

        Given    : ``f(%1)``, ``g(%1)``
        Execute  : ``%1.replace_all_uses_with(%2)``
        Result   : ``f(%2)``, ``g(%2)``
        """
        for use in self.uses:
            use.user.inputs[use.index] = other
            other.uses.append(use)
        self.uses = []


class Node:
    """One operation: ``outputs = kind[attributes](inputs)``, perhaps with blocks.

    The last ``len(keywords)`` inputs were passed by keyword, under these names.  ``origin`` is the
    node this one was copied from, or the node itself.  ``host_reason`` says why the node has to run
    in the host program, where that is known; it is for reports, and no part of the node's meaning.
    """

    __slots__ = (
        "attributes",
        "block",
        "blocks",
        "host_reason",
        "inputs",
        "keywords",
        "kind",
        "origin",
        "outputs",
        "source",
    )

    def __init__(
        self,
        block: Block | None,
        kind: str,
        inputs: Sequence[Value] = (),
        attributes: Mapping[str, Any] | None = None,
        keywords: Sequence[str] = (),
        source: SourceRange | None = None,
    ) -> None:
        self.block = block
        self.kind = kind
        self.inputs = list(inputs)
        self.attributes: dict[str, Any] = dict(attributes or {})
        self.keywords = tuple(keywords)
        self.outputs: list[Value] = []
        self.blocks: list[Block] = []
        self.source = source
        self.origin: Node = self
        self.host_reason: str | None = None
        for index, value in enumerate(self.inputs):
            value.uses.append(Use(self, index))

    def __repr__(self) -> str:
        names = ", ".join(f"%{value.name}" for value in self.inputs)
        return f"<{self.kind}({names})>"

    @property
    def output(self) -> Value:
        """The only output."""
        (value,) = self.outputs
        return value

    @property
    def graph(self) -> Graph:
        """The graph this node lies in."""
        assert self.block is not None
        return self.block.graph

    @property
    def positional(self) -> list[Value]:
        """The inputs that were not passed by keyword."""
        return self.inputs[: len(self.inputs) - len(self.keywords)]

    def add_input(self, value: Value) -> None:
        """Append an input and record the use."""
        value.uses.append(Use(self, len(self.inputs)))
        self.inputs.append(value)

    def set_input(self, index: int, value: Value) -> None:
        """Read ``value`` at this position from now on."""
        old = self.inputs[index]
        old.uses.remove(Use(self, index))
        self.inputs[index] = value
        value.uses.append(Use(self, index))

    def add_output(self, type_: Type = ANY, name: str = "") -> Value:
        """Append an output; an empty name gets a number."""
        value = Value(self.graph.unique_name(name), type_, self, None)
        self.outputs.append(value)
        return value

    def add_block(self) -> Block:
        """Append an empty block."""
        block = Block(self.graph, self)
        self.blocks.append(block)
        return block

    def insert_before(
        self,
        kind: str,
        inputs: Sequence[Value] = (),
        attributes: Mapping[str, Any] | None = None,
        *,
        outputs: Sequence[Type] = (ANY,),
        names: Sequence[str] = (),
        source: SourceRange | None = None,
    ) -> Node:
        """Insert a node right before this one, whose place in the source it has by default."""
        assert self.block is not None
        return self.block.insert(
            self.block.nodes.index(self),
            kind,
            inputs,
            attributes,
            outputs=outputs,
            names=names,
            source=source or self.source,
        )

    def value_before(
        self,
        kind: str,
        inputs: Sequence[Value],
        type_: Type,
        attributes: Mapping[str, Any] | None = None,
    ) -> Value:
        """The output of a new node right before this one, of whose program it is a part."""
        node = self.insert_before(kind, inputs, attributes, outputs=(type_,))
        node.origin = self.origin
        return node.output

    def drop_inputs(self) -> None:
        """Forget all inputs, here and in every nested block."""
        for index, value in enumerate(self.inputs):
            value.uses.remove(Use(self, index))
        self.inputs = []
        self.keywords = ()
        for block in self.blocks:
            block.drop_inputs()

    def destroy(self) -> None:
        """Remove this node from its block; its outputs must have no uses left.

        Given    : ``%2 = f(%1)`` with ``%2`` unused
        Execute  : ``f.destroy()``
        Result   : the node is gone and ``%1`` has one use less
        """
        for value in self.outputs:
            if value.uses:
                raise ValueError(f"cannot destroy {self!r}: %{value.name} is still used")
        self.drop_inputs()
        assert self.block is not None
        nodes = self.block.nodes
        if nodes[-1] is self:
            # What has just been made goes again without a look at all before.
            nodes.pop()
        else:
            nodes.remove(self)
        self.block = None


class Block:
    """Parameters, nodes in topological order, and the values it returns."""

    __slots__ = ("graph", "inputs", "nodes", "owner", "params")

    def __init__(self, graph: Graph, owner: Node | None) -> None:
        self.graph = graph
        self.owner = owner
        self.params: list[Value] = []
        self.nodes: list[Node] = []
        self.inputs: list[Value] = []

    @property
    def returns(self) -> list[Value]:
        """The values this block hands to its owner (recorded as the block's ``inputs``)."""
        return self.inputs

    @property
    def raises(self) -> bool:
        """Whether this block surely raises an exception, whatever its nodes do before."""
        return any(node.kind == "prim::Raise" for node in self.nodes)

    @property
    def raises_in_python(self) -> bool:
        """Whether it surely raises what the plain function raises there, too."""
        found = [node for node in self.nodes if node.kind == "prim::Raise"]
        return bool(found) and all(node.attributes.get("in_python", True) for node in found)

    def add_param(self, type_: Type = ANY, name: str = "") -> Value:
        """Append a parameter."""
        value = Value(self.graph.unique_name(name), type_, None, self)
        self.params.append(value)
        return value

    def add_return(self, value: Value) -> None:
        """Append a returned value and record the use."""
        value.uses.append(Use(self, len(self.inputs)))
        self.inputs.append(value)

    def set_return(self, index: int, value: Value) -> None:
        """Return ``value`` at this position from now on."""
        self.inputs[index].uses.remove(Use(self, index))
        self.inputs[index] = value
        value.uses.append(Use(self, index))

    def drop_inputs(self) -> None:
        """Forget the returns and the inputs of every node inside."""
        for index, value in enumerate(self.inputs):
            value.uses.remove(Use(self, index))
        self.inputs = []
        for node in self.nodes:
            node.drop_inputs()

    def append(
        self,
        kind: str,
        inputs: Sequence[Value] = (),
        attributes: Mapping[str, Any] | None = None,
        *,
        outputs: Sequence[Type] = (ANY,),
        names: Sequence[str] = (),
        keywords: Sequence[str] = (),
        source: SourceRange | None = None,
    ) -> Node:
        """Append a node with one output for each type in ``outputs``."""
        return self.insert(
            len(self.nodes),
            kind,
            inputs,
            attributes,
            outputs=outputs,
            names=names,
            keywords=keywords,
            source=source,
        )

    def insert(
        self,
        position: int,
        kind: str,
        inputs: Sequence[Value] = (),
        attributes: Mapping[str, Any] | None = None,
        *,
        outputs: Sequence[Type] = (ANY,),
        names: Sequence[str] = (),
        keywords: Sequence[str] = (),
        source: SourceRange | None = None,
    ) -> Node:
        """Insert a node so that it becomes number ``position`` of this block."""
        node = Node(self, kind, inputs, attributes, keywords, source)
        self.nodes.insert(position, node)
        unique_name, given = self.graph.unique_name, len(names)
        for number, type_ in enumerate(outputs):
            name = unique_name(names[number] if number < given else "")
            node.outputs.append(Value(name, type_, node, None))
        return node

    def constant(self, value: Any, type_: Type, source: SourceRange | None = None) -> Value:
        """Append a ``prim::Constant``."""
        return self.append(
            "prim::Constant", (), {"value": value}, outputs=(type_,), source=source
        ).output


class Constants(dict[str, Any]):
    """A namespace that nothing changes: what a graph captures from here is final."""

    __slots__ = ()


@dataclass(slots=True)
class Capture:
    """A global, a closure cell or an attribute of a module that the graph was built from.

    Parameters
    ----------
    path : str
        What the user wrote: ``"np.pi"`` or ``"weights"``.
    read : callable
        Reads the object as it is now; raises ``NameError`` or ``AttributeError`` when it is gone.
    value : object
        What it was when the graph was built; a call where it differs builds a new graph.
    input : Value or None
        The graph input that stands for it, where its contents may change (arrays, lists …);
        None where it became a constant.
    container, key : dict or cell, str or None
        Where a compiled guard finds the object: a namespace and the name in it, or a closure's
        cell; None where only ``read`` can tell.
    """

    path: str
    read: Callable[[], Any]
    value: Any
    input: Value | None = None
    container: Any = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class FieldWrite:
    """An attribute of an argument that one of a graph's results becomes when the call is done.

    Parameters
    ----------
    object : int
        The number of the object among all that are arguments, or attributes of these.
    name : str
    """

    object: int
    name: str


class Graph:
    """A function in SSA form.

    The inputs are the parameters in order, then one input for each capture that has one.  A graph
    that ``must_be_native`` says of lists or objects what holds only in one native function.  One
    that is ``only_compiled`` does not stand for what the function does in plain Python, because
    that asks whether it is compiled.  Its last results belong to its ``field_writes``.  What code
    on its way may assign, attributes and variables from outside, is ``assigned``: functions that
    come in as arguments have to read it when they run.  What Python calls with the parameters for
    the same is ``plain``, where there is such a function.  Exceptions from the places in ``caught``
    the program itself catches.
    """

    __slots__ = (
        *("_counts", "_names", "block", "captures", "doc", "field_writes"),
        *("assigned", "caught", "must_be_native", "name", "only_compiled", "plain"),
    )

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.doc: str | None = None
        self.captures: list[Capture] = []
        self.must_be_native = False
        self.only_compiled = False
        self.field_writes: tuple[FieldWrite, ...] = ()
        self.assigned: frozenset[str] = frozenset()
        self.caught: frozenset[SourceRange] = frozenset()
        self.plain: Callable[..., Any] | None = None
        self._counts: dict[str, int] = {}
        self._names: set[str] = set()
        self.block = Block(self, None)

    @property
    def inputs(self) -> list[Value]:
        """The parameters of the top block."""
        return self.block.params

    @property
    def outputs(self) -> list[Value]:
        """The values the graph returns (a Python function's graph returns exactly one)."""
        return self.block.returns

    def unique_name(self, name: str) -> str:
        """A name no value has yet: ``x``, then ``x.1``, ``x.2``; a number for an empty name."""
        base = ""
        if name:
            base = name.partition(".")[0]
            if base.isdigit():
                base = ""
            if base and name not in self._names:
                self._names.add(name)
                return name
        while True:
            count = self._counts.get(base, 0 if not base else 1)
            self._counts[base] = count + 1
            candidate = f"{base}.{count}" if base else str(count)
            if candidate not in self._names:
                self._names.add(candidate)
                return candidate

    def nodes(self) -> Iterator[Node]:
        """All nodes, those of nested blocks too, each before its own blocks' nodes."""

        def walk(block: Block) -> Iterator[Node]:
            for node in block.nodes:
                yield node
                for inner in node.blocks:
                    yield from walk(inner)

        return walk(self.block)

    def blocks(self) -> Iterator[Block]:
        """All blocks, each before those inside of it."""
        yield self.block
        for node in self.nodes():
            yield from node.blocks

    def find_node(self, kind: str) -> Node | None:
        """The first node of a kind, in the order of `nodes`; None where there is none."""
        return next((node for node in self.nodes() if node.kind == kind), None)

    def find_all_nodes(self, kind: str) -> list[Node]:
        """All nodes of a kind, nested ones too."""
        return [node for node in self.nodes() if node.kind == kind]

    def copy(self) -> Graph:
        """A graph that shares nothing with this one but constants and captures' values."""
        twin = Graph(self.name)
        twin.doc = self.doc
        twin.assigned = self.assigned
        twin.caught = self.caught
        twin.plain = self.plain
        twin.must_be_native = self.must_be_native
        twin.only_compiled = self.only_compiled
        twin.field_writes = self.field_writes
        mapping: dict[Value, Value] = {}
        copy_block(self.block, twin.block, mapping)
        twin.captures = [
            replace(c, input=mapping[c.input] if c.input else None) for c in self.captures
        ]
        return twin

    def __str__(self) -> str:
        from jitcore.ir.printer import print_graph

        return print_graph(self)

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write a web page that shows the graph: groups as boxes, and types and source on hover.

        Parameters
        ----------
        path : path-like
            The file, which needs nothing else to be looked at.
        """
        from jitcore.ir.html import graph_page

        Path(path).write_text(graph_page(self), encoding="utf-8")

    def _repr_html_(self) -> str:
        """The same in a notebook."""
        from jitcore.ir.html import notebook_html

        return notebook_html(self)


def copy_block(source: Block, target: Block, mapping: dict[Value, Value]) -> None:
    """Append copies of all of ``source`` to ``target``; ``mapping`` takes old values to new."""
    for param in source.params:
        mapping[param] = target.add_param(param.type, param.name)
    for node in source.nodes:
        copy_node(node, target, mapping)
    for value in source.returns:
        target.add_return(mapping.get(value, value))


def copy_node(node: Node, target: Block, mapping: dict[Value, Value]) -> Node:
    """Append a copy of ``node``, blocks included, to ``target``."""
    twin = target.append(
        node.kind,
        [mapping.get(value, value) for value in node.inputs],
        node.attributes,
        outputs=[value.type for value in node.outputs],
        names=[value.name for value in node.outputs],
        keywords=node.keywords,
        source=node.source,
    )
    twin.origin = node.origin
    twin.host_reason = node.host_reason
    for block in node.blocks:
        copy_block(block, twin.add_block(), mapping)
    mapping.update(zip(node.outputs, twin.outputs, strict=True))
    return twin
