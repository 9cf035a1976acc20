"""Reads the text of a graph back: ``str(parse_graph(str(graph))) == str(graph)``."""

from __future__ import annotations

import re
from typing import Any

from jitcore.ir.graph import Block, Graph, Node, SourceRange, Value
from jitcore.ir.literals import parse_literal
from jitcore.ir.names import reserve_names
from jitcore.ir.printer import CALL_FUNCTION
from jitcore.ir.scanner import ParseError, Scanner
from jitcore.ir.type_syntax import parse_type
from jitcore.ir.types import Type

__all__ = ["ParseError", "parse_graph"]

_VALUE = re.compile(r"%([\w.]+)")
_KIND = re.compile(r"[^\W\d]\w*::\w[\w.]*")
_KEYWORD = re.compile(r"(\*\*|[^\W\d]\w*)[ \t]*=")
_ATTRIBUTE = re.compile(r"([^\W\d]\w*)[ \t]*=")
_BODY = re.compile(r"with (?:function ([\w.<>]+)|([^\W\d]\w*::\w[\w.]*)) = ")
_SOURCE = re.compile(r"[ \t]*# (.*):(\d+):(\d+)[ \t]*$", re.MULTILINE)
_BLOCK = re.compile(r"block(\d+)(?=\()")
_GROUP = re.compile(r"(.+)_\d+")


def parse_graph(text: str) -> Graph:
    """The graph that a text in the printer's form describes.

    Raises
    ------
    ParseError
        With line, column and what was expected there.
    """
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        self._scanner = Scanner(text)
        self._holders: list[tuple[Node, str, int]] = []

    def parse(self) -> Graph:
        scanner = self._scanner
        graph = self._graph("")
        bodies: dict[str, Graph] = {}
        positions: dict[str, int] = {}
        while not scanner.at_end:
            start = scanner.position
            match = scanner.require(_BODY, "'with NAME = graph(' or the end of the text")
            title = f"function {match[1]}" if match[1] else match[2]
            if title in bodies:
                scanner.fail("a name that no other body has", start)
            positions[title] = start
            bodies[title] = self._graph(match[1] or "")
        used = self._attach(bodies)
        for title, start in positions.items():
            if title not in used:
                scanner.fail(f"only bodies that a node names ({title} is not used)", start)
        return graph

    def _attach(self, bodies: dict[str, Graph]) -> set[str]:
        """Give each node that names a body that body; the names that were used."""
        used: set[str] = set()
        for node, title, start in self._holders:
            if title in bodies:
                used.add(title)
                node.attributes["graph"] = bodies[title]
                match = _GROUP.fullmatch(title)
                if node.kind == title and match is not None:
                    node.kind = match[1]
            elif node.kind == CALL_FUNCTION:
                self._scanner.fail(f"a body 'with {title} = graph(' for this call", start)
        return used

    def _graph(self, name: str) -> Graph:
        self._scanner.expect("graph")
        graph = Graph(name)
        body = _Body(self._scanner, graph, self._holders)
        body.block(graph.block, "return")
        body.finish()
        return graph


class _Body:
    """One graph: its names, their scopes and its nodes."""

    def __init__(
        self, scanner: Scanner, graph: Graph, holders: list[tuple[Node, str, int]]
    ) -> None:
        self._scanner = scanner
        self._graph = graph
        self._holders = holders
        self._visible: dict[str, Value] = {}
        self._all_names: set[str] = set()

    def finish(self) -> None:
        """Let new names of the graph start after those in the text."""
        reserve_names(self._graph, self._all_names)

    def block(self, block: Block, ending: str) -> None:
        """Read ``(params):``, the nodes and the returns after ``ending``."""
        scanner = self._scanner
        scanner.expect("(")
        own: list[str] = []
        for name, type_, position in self._definitions(")"):
            own.append(self._define(block.add_param(type_), name, position))
        scanner.expect(")")
        scanner.expect(":")
        while not scanner.accept(ending):
            own += self._node(block, ending)
        scanner.expect("(")
        for value in self._values(")"):
            block.add_return(value)
        for name in own:
            del self._visible[name]

    def _definitions(self, closing: str) -> list[tuple[str, Type, int]]:
        """``%x : T, %y : U`` up to ``closing``, which stays."""
        scanner = self._scanner
        found: list[tuple[str, Type, int]] = []
        scanner.skip()
        while not scanner.text.startswith(closing, scanner.position):
            position = scanner.position
            name = scanner.require(_VALUE, f"a value such as %x or '{closing}'")[1]
            scanner.expect(":")
            found.append((name, parse_type(scanner), position))
            scanner.skip()
            if not scanner.accept(","):
                break
            scanner.skip()
        return found

    def _define(self, value: Value, name: str, position: int) -> str:
        if name in self._all_names:
            self._scanner.fail(f"a name that no other value has (%{name} exists)", position)
        value.name = name
        self._all_names.add(name)
        self._visible[name] = value
        return name

    def _values(self, closing: str) -> list[Value]:
        values: list[Value] = []
        while not self._scanner.accept(closing):
            values.append(self._value())
            if not self._scanner.accept(","):
                self._scanner.expect(closing)
                break
        return values

    def _value(self) -> Value:
        scanner = self._scanner
        scanner.skip()
        position = scanner.position
        name = scanner.require(_VALUE, "a value such as %x")[1]
        if name not in self._visible:
            scanner.fail(f"a value that is defined here (%{name} is not)", position)
        return self._visible[name]

    def _node(self, block: Block, ending: str) -> list[str]:
        """Read one node; the names it defines."""
        scanner = self._scanner
        scanner.skip()
        definitions: list[tuple[str, Type, int]] = []
        if scanner.text.startswith("%", scanner.position):
            definitions = self._definitions("=")
            scanner.expect("=")
        scanner.skip()
        start = scanner.position
        expected = "a node's kind" if definitions else f"a node or '{ending}'"
        kind = scanner.require(_KIND, expected)[0]
        attributes = self._attributes()
        node = block.append(kind, (), attributes, outputs=())
        self._inputs(node)
        self._source(node)
        self._hold(node, start)
        self._blocks(node)
        names: list[str] = []
        for name, type_, position in definitions:
            names.append(self._define(node.add_output(type_), name, position))
        return names

    def _attributes(self) -> dict[str, Any]:
        scanner = self._scanner
        attributes: dict[str, Any] = {}
        if not scanner.accept("["):
            return attributes
        while not scanner.accept("]"):
            name = scanner.require(_ATTRIBUTE, "'name=value' or ']'")[1]
            attributes[name] = parse_literal(scanner)
            if not scanner.accept(","):
                scanner.expect("]")
                break
        return attributes

    def _inputs(self, node: Node) -> None:
        scanner = self._scanner
        keywords: list[str] = []
        scanner.expect("(")
        while not scanner.accept(")"):
            match = scanner.match(_KEYWORD)
            if match is not None:
                keywords.append(match[1])
            elif keywords:
                scanner.fail("a keyword argument after a keyword argument")
            node.add_input(self._value())
            if not scanner.accept(","):
                scanner.expect(")")
                break
        node.keywords = tuple(keywords)

    def _source(self, node: Node) -> None:
        match = _SOURCE.match(self._scanner.text, self._scanner.position)
        if match is not None:
            self._scanner.position = match.end()
            node.source = SourceRange(match[1], int(match[2]), int(match[3]))

    def _hold(self, node: Node, start: int) -> None:
        """Note the node if it may name a body that comes later."""
        if node.kind == CALL_FUNCTION:
            name = node.attributes.pop("name", None)
            self._holders.append((node, f"function {name}", start))
        elif _GROUP.fullmatch(node.kind):
            self._holders.append((node, node.kind, start))

    def _blocks(self, node: Node) -> None:
        scanner = self._scanner
        scanner.skip()
        start = scanner.position
        while match := scanner.match(_BLOCK):
            if int(match[1]) != len(node.blocks):
                scanner.fail(f"'block{len(node.blocks)}'", start)
            self.block(node.add_block(), "->")
            scanner.skip()
            start = scanner.position
