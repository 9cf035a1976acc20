"""Graphs as text, in TorchScript's form; ``parser.parse_graph`` reads it back.

A node whose attribute ``graph`` holds a graph prints under a name, and the graph follows as a
body: ``prim::FusionGroup_0(%x)`` with ``with prim::FusionGroup_0 = graph(%x : ...)``, and
``prim::CallFunction[name="f"](%x)`` with ``with function f = graph(%x : ...)``.
"""

from __future__ import annotations

import re

from jitcore.ir.graph import Block, Graph, Node, SourceRange, Value
from jitcore.ir.literals import format_literal

__all__ = ["CALL_FUNCTION", "body_names", "print_graph", "print_node"]

CALL_FUNCTION = "prim::CallFunction"
_WIDTH = 100
_WRAPPED = ",\n      "
_NOT_IN_NAMES = re.compile(r"[^\w.<>]")


def print_graph(graph: Graph) -> str:
    """The text of a graph and, after it, of every graph that its nodes hold."""
    return "\n".join(_all_lines(graph, _Bodies()))


def body_names(graph: Graph) -> dict[int, str]:
    """The names that a graph's text has for the graphs its nodes hold, by their identity."""
    bodies = _Bodies()
    _all_lines(graph, bodies)
    return bodies.names()


def _all_lines(graph: Graph, bodies: _Bodies) -> list[str]:
    lines = _graph_lines("", graph, bodies)
    # Printing a body may find further ones, which then follow.
    for title, body in bodies:
        lines += _graph_lines(f"with {title} = ", body, bodies)
    return lines


def print_node(node: Node) -> str:
    """The text of one node and its blocks, without the bodies of graphs it holds."""
    return "\n".join(_node_lines(node, "", _Bodies()))


class _Bodies:
    """The graphs held by nodes, named and numbered in the order of their appearance."""

    def __init__(self) -> None:
        self._names: dict[tuple[bool, int], str] = {}
        self._counts: dict[str, int] = {}
        self._found: list[tuple[str, Graph]] = []

    def __iter__(self) -> _Bodies:
        self._next = 0
        return self

    def __next__(self) -> tuple[str, Graph]:
        if self._next == len(self._found):
            raise StopIteration
        self._next += 1
        return self._found[self._next - 1]

    def names(self) -> dict[int, str]:
        """The names so far, by the identity of the graph."""
        return {identity: name for (_, identity), name in self._names.items()}

    def name(self, kind: str, graph: Graph) -> str:
        """The name this graph has in the text, as the group or function that ``kind`` says."""
        is_function = kind == CALL_FUNCTION
        key = (is_function, id(graph))
        if key not in self._names:
            name = self._function_name(graph) if is_function else self._numbered(kind)
            self._names[key] = name
            self._found.append((f"function {name}" if is_function else name, graph))
        return self._names[key]

    def _numbered(self, kind: str) -> str:
        count = self._counts.get(kind, 0)
        self._counts[kind] = count + 1
        return f"{kind}_{count}"

    def _function_name(self, graph: Graph) -> str:
        base = _NOT_IN_NAMES.sub("_", graph.name) or "function"
        taken = {name for (is_function, _), name in self._names.items() if is_function}
        name = base
        count = 0
        while name in taken:
            count += 1
            name = f"{base}_{count}"
        return name


def _graph_lines(prefix: str, graph: Graph, bodies: _Bodies) -> list[str]:
    params = [_typed(value) for value in graph.inputs]
    header = f"{prefix}graph({', '.join(params)}):"
    if len(header) > _WIDTH:
        header = f"{prefix}graph({_WRAPPED.join(params)}):"
    lines = [header]
    _block_lines(graph.block, "  ", bodies, lines)
    lines.append(f"  return ({_names(graph.outputs)})")
    return lines


def _block_lines(block: Block, indent: str, bodies: _Bodies, lines: list[str]) -> None:
    for node in block.nodes:
        lines.extend(_node_lines(node, indent, bodies))


def _node_lines(node: Node, indent: str, bodies: _Bodies) -> list[str]:
    outputs = ", ".join(map(_typed, node.outputs))
    head = f"{indent}{outputs} = " if outputs else indent
    lines = [f"{head}{_call(node, bodies)}{_comment(node.source)}"]
    for number, block in enumerate(node.blocks):
        params = ", ".join(map(_typed, block.params))
        lines.append(f"{indent}  block{number}({params}):")
        _block_lines(block, indent + "    ", bodies, lines)
        lines.append(f"{indent}    -> ({_names(block.returns)})")
    return lines


def _call(node: Node, bodies: _Bodies) -> str:
    kind = node.kind
    attributes = {name: held for name, held in node.attributes.items() if name != "layers"}
    body = attributes.get("graph")
    if isinstance(body, Graph):
        name = bodies.name(kind, body)
        attributes = {key: value for key, value in attributes.items() if key != "graph"}
        if kind == CALL_FUNCTION:
            attributes.pop("name", None)
            attributes = {"name": name, **attributes}
        else:
            kind = name
    texts = [f"{name}={format_literal(value)}" for name, value in attributes.items()]
    brackets = f"[{', '.join(texts)}]" if texts else ""
    return f"{kind}{brackets}({_arguments(node)})"


def _arguments(node: Node) -> str:
    texts = [f"%{value.name}" for value in node.inputs]
    first = len(texts) - len(node.keywords)
    for number, keyword in enumerate(node.keywords, first):
        texts[number] = f"{keyword}={texts[number]}"
    return ", ".join(texts)


def _comment(source: SourceRange | None) -> str:
    return "" if source is None else f" # {source.place}:{source.column}"


def _typed(value: Value) -> str:
    return f"%{value.name} : {value.type}"


def _names(values: list[Value]) -> str:
    return ", ".join(f"%{value.name}" for value in values)
