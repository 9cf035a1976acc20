"""Prints a graph, generic or typed, as the source of a Python program, and compiles that.

The program does what the graph does, node for node: the same operations in the same order, so the
same results, writes and exceptions.  It is what ``.code`` shows, what runs where nothing is
compiled, and what stands around native regions, which it calls by name.
"""

from __future__ import annotations
import __future__

import ast
import itertools
import linecache
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from types import FunctionType
from typing import Any

from jitcore.codegen.host.expressions import Expressions
from jitcore.codegen.host.globals import Globals
from jitcore.codegen.host.loops import LoopForm
from jitcore.codegen.host.places import PlaceNotes, forget_places, remember_places
from jitcore.codegen.host.plan import Plan
from jitcore.codegen.host.statements import Statements
from jitcore.codegen.host.text import PlaceComment, docstring, identifier
from jitcore.codegen.host.variables import Variables, is_constant, is_repeatable
from jitcore.codegen.host.warned import warn
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Block, Graph, Node, Value
from jitcore.ir.types import ANY, TENSOR, TensorType, TupleType, Type

__all__ = ["HostSource", "build_host", "print_host"]

_INDENTATION = "    "
_CALL_FUNCTION = "prim::CallFunction"


@dataclass(frozen=True, slots=True)
class HostSource:
    """A program and what it refers to.

    Parameters
    ----------
    name : str
        The function that runs the graph.
    source : str
    namespace : dict
        The objects that the source names, besides Python's built-ins.
    """

    name: str
    source: str
    namespace: dict[str, Any]


def print_host(
    graph: Graph,
    *,
    name: str | None = None,
    regions: Mapping[Node, Callable[..., Any]] | None = None,
    annotate: bool = False,
    places: bool = False,
) -> HostSource:
    """The program of a graph.

    Parameters
    ----------
    graph : Graph
        Generic or typed; it is not changed.
    name : str, optional
        The function's name; the graph's own by default.
    regions : mapping from Node to callable, optional
        What is called for these nodes, with their inputs; several outputs come as a tuple.  A
        node that holds a graph and is not among them calls a function printed from that graph.
    annotate : bool
        Give parameters and results the types that the graph has for them.
    places : bool
        Say in a comment, at each statement, from which line of the user's source it comes.

    Returns
    -------
    HostSource

    Raises
    ------
    NotImplementedError
        The graph has a kind that nothing is known about.
    ValueError
        A name in the graph, of a kind or an argument, is no identifier.
    """
    comment = attrgetter("place") if places else None
    program = _Program(graph, regions or {}, annotate=annotate, places=comment)
    return program.print(identifier(name or graph.name, "graph"))


def build_host(
    graph: Graph,
    *,
    name: str | None = None,
    regions: Mapping[Node, Callable[..., Any]] | None = None,
) -> Callable[..., Any]:
    """Compile the program of a graph.

    Parameters
    ----------
    graph : Graph
    name : str, optional
    regions : mapping from Node to callable, optional
        As for ``print_host``.

    Returns
    -------
    callable
        Takes one argument for each input of the graph, by position.  It returns what the graph
        returns, as a tuple where that is not exactly one value.  Its source is known to
        ``inspect`` and to tracebacks as long as it lives.
    """
    notes = PlaceNotes()
    program = _Program(graph, regions or {}, annotate=False, places=notes.note)
    host = program.print(identifier(name or graph.name, "graph"))
    file = f"<jitcore host {host.name} {next(_numbers)}>"
    source, places = notes.taken(host.source)
    remember_places(file, places)
    flags = __future__.annotations.compiler_flag
    code = compile(source, file, "exec", flags=flags, dont_inherit=True)
    namespace = {
        name: warn if one is warnings.warn else one for name, one in host.namespace.items()
    }
    exec(code, namespace)
    function = namespace[host.name]
    # Python 3.13 and later change the white space of docstrings that they compile.
    function.__doc__ = graph.doc
    assert isinstance(function, FunctionType)
    lines = source.splitlines(keepends=True)
    linecache.cache[file] = (len(source), None, lines, file)
    # The code outlives the function where something else runs it, but then it is not called again.
    weakref.finalize(function, linecache.cache.pop, file, None)
    weakref.finalize(function, forget_places, file)
    return function


_numbers = itertools.count(1)


class _Program:
    """All functions of one program: that of the graph, and those that it calls."""

    def __init__(
        self,
        graph: Graph,
        regions: Mapping[Node, Callable[..., Any]],
        *,
        annotate: bool,
        places: PlaceComment | None,
    ) -> None:
        self.graph = graph
        self.regions = regions
        self.annotate = annotate
        self.places = places
        graphs = _reachable(graph, regions)
        self.globals = Globals(_local_names(graphs))
        self._names: dict[Node, str] = {}
        self._functions: dict[Graph, str] = {}
        self._waiting: list[Callable[[], list[str]]] = []

    def print(self, name: str) -> HostSource:
        """The source, starting with the function of the graph."""
        recursive = any(
            node.attributes.get("graph") is self.graph
            for graph in _reachable(self.graph, self.regions)
            for node in _nodes(graph.block)
        )
        self._functions[self.graph] = self.globals.function(name, free=not recursive)
        self._name_calls()
        main = self._function(self.graph)
        functions = [main]
        while self._waiting:
            functions.append(self._waiting.pop(0)())
        source = "\n\n\n".join("\n".join(lines) for lines in functions) + "\n"
        return HostSource(self._functions[self.graph], source, self.globals.namespace)

    # Names of what is called

    def _name_calls(self) -> None:
        """Name regions and functions as the printer of graphs does, in order of appearance."""
        counts: dict[str, int] = {}
        for graph in _reachable(self.graph, self.regions):
            for node in _nodes(graph.block):
                held = node.attributes.get("graph")
                if node not in self.regions and not isinstance(held, Graph):
                    continue
                hint = identifier(node.kind.rpartition("::")[2], "region")
                if node.kind == _CALL_FUNCTION and isinstance(held, Graph):
                    hint = identifier(held.name, "function")
                else:
                    counts[hint] = counts.get(hint, -1) + 1
                    hint = f"{hint}_{counts[hint]}"
                self._names[node] = self._name_call(node, hint)

    def _name_call(self, node: Node, hint: str) -> str:
        if node in self.regions:
            name = self.globals.reserve(hint)
            self.globals.namespace[name] = self.regions[node]
            return name
        held = node.attributes["graph"]
        if held not in self._functions:
            self._functions[held] = self.globals.function(hint, free=False)
            self._waiting.append(lambda: self._function(held))
        return self._functions[held]

    def call_name(self, node: Node) -> str | None:
        """The callee for a node that is a region or holds a graph; None for all others."""
        return self._names.get(node)

    def captured(self, node: Node) -> list[str]:
        """Further arguments of such a call, which read what the callee's graph captured."""
        held = node.attributes.get("graph")
        if node in self.regions or not isinstance(held, Graph):
            return []
        captures = [capture for capture in held.captures if capture.input is not None]
        if not captures or len(node.inputs) != len(held.inputs) - len(captures):
            return []
        names = [self.globals.add(f"read_{capture.path}", capture.read) for capture in captures]
        return [f"{name}()" for name in names]

    # Functions

    def _function(self, graph: Graph) -> list[str]:
        """The lines of the function of a graph."""
        variables = Variables(graph, self.globals)
        plan = Plan(variables)
        lines = [self._signature(graph, variables)]
        if graph.doc is not None:
            lines += f"{_INDENTATION}{docstring(graph.doc)}".split("\n")
        body = self._body(self._functions[graph], plan, graph.block.nodes, graph.outputs)
        return lines + [f"{_INDENTATION}{line}" for line in body]

    def _body(
        self, name: str, plan: Plan, nodes: Sequence[Node], returns: Sequence[Value]
    ) -> list[str]:
        expressions = Expressions(plan, self.globals, self)
        outliner = _Outliner(self, name, plan)
        statements = Statements(expressions, outliner, places=self.places)
        return statements.function_body(nodes, returns)

    def outline(
        self, name: str, plan: Plan, node: Node, form: LoopForm | None
    ) -> tuple[str, list[Value]]:
        """Plan a function of its own for one node."""
        part = self.globals.function(f"{name}_part", free=False)
        values = _free_values(node, form)

        def write() -> list[str]:
            parameters = ", ".join(map(plan.variables.name, values))
            body = self._body(name, plan, [node], node.outputs)
            return [f"def {part}({parameters}):", *(f"{_INDENTATION}{line}" for line in body)]

        self._waiting.append(write)
        return part, values

    def _signature(self, graph: Graph, variables: Variables) -> str:
        parameters = []
        for value in graph.inputs:
            text = _annotation(value.type) if self.annotate else ""
            parameters.append(variables.name(value) + (f": {text}" if text else ""))
        result = ""
        if self.annotate and graph.outputs:
            types = [value.type for value in graph.outputs]
            text = _result_annotation(types[0] if len(types) == 1 else TupleType(tuple(types)))
            result = f" -> {text}" if text else ""
        return f"def {self._functions[graph]}({', '.join(parameters)}){result}:"


@dataclass(frozen=True, slots=True)
class _Outliner:
    """Outlines nodes of one graph."""

    program: _Program
    name: str
    plan: Plan

    def outline(self, node: Node, form: LoopForm | None) -> tuple[str, list[Value]]:
        return self.program.outline(self.name, self.plan, node, form)


def _annotation(type_: Type) -> str:
    """A parameter's annotation; nothing where it would say no more than that it is an array."""
    return "" if type_ in (ANY, TENSOR) else _type_text(type_)


def _result_annotation(type_: Type) -> str:
    return "" if type_ == ANY else _type_text(type_)


def _type_text(type_: Type) -> str:
    """A type as an expression of Python, in quotes where it would not be one."""
    text = "Tensor" if isinstance(type_, TensorType) and type_.dtype is None else str(type_)
    try:
        ast.parse(text, mode="eval")
    except (SyntaxError, ValueError):
        return repr(text)
    return text if "(" not in text and "=" not in text else repr(text)


# Graphs are walked without recursion here: they may be nested deeper than Python's stack is.


def _nodes(block: Block) -> Iterator[Node]:
    """All nodes of a block and of the blocks in it."""
    waiting = list(reversed(block.nodes))
    while waiting:
        node = waiting.pop()
        yield node
        for inner in reversed(node.blocks):
            waiting += reversed(inner.nodes)


def _reachable(graph: Graph, regions: Mapping[Node, Callable[..., Any]]) -> list[Graph]:
    """The graph and all graphs that are called from it, each once."""
    found = [graph]
    for one in found:
        for node in _nodes(one.block):
            held = node.attributes.get("graph")
            if isinstance(held, Graph) and node not in regions and held not in found:
                found.append(held)
    return found


def _local_names(graphs: Sequence[Graph]) -> Iterator[str]:
    """The names that variables may ask for."""
    for graph in graphs:
        for value in graph.inputs:
            yield identifier(value.name, "x")
        for node in _nodes(graph.block):
            for value in (
                *node.outputs,
                *(param for block in node.blocks for param in block.params),
            ):
                if not is_constant(value):
                    yield identifier(value.name, "t")


def _free_values(node: Node, form: LoopForm | None) -> list[Value]:
    """The values from outside that a node and its blocks read."""
    inside: set[Value] = set()
    found: dict[Value, None] = {}
    nodes = [node, *(one for block in node.blocks for one in _nodes(block))]
    for one in nodes:
        inside.update(one.outputs)
        inside.update(param for block in one.blocks for param in block.params)
    for one in nodes:
        reads = list(one.inputs)
        if one is node and form is not None and form.condition is not None:
            # What the condition reads before the loop, it reads inside as well.
            del reads[1]
        reads += [value for block in one.blocks for value in block.returns]
        for value in reads:
            found.update(dict.fromkeys(_written_out(value)))
    return [value for value in found if value not in inside]


def _written_out(value: Value) -> Iterator[Value]:
    """The variables in a value that is written where it is used."""
    if is_constant(value):
        return
    if is_repeatable(value):
        assert value.node is not None
        for part in value.node.inputs:
            yield from _written_out(part)
        return
    yield value
