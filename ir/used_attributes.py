"""Which attributes of the objects that it gets a program may look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from types import FunctionType
from typing import Any

from jitcore.ir.classes import function_of, is_record_class
from jitcore.ir.graph import Graph
from jitcore.ir.nesting import nodes_with_called
from jitcore.ir.operator_methods import BINARY, PROTOCOLS, UNARY

__all__ = ["UsedAttributes"]

_OPERATORS = frozenset(chain(UNARY.values(), PROTOCOLS.values(), *BINARY.values()))
_NAMING = frozenset({"prim::GetAttr", "prim::SetAttr", "prim::CallMethod"})


class UsedAttributes:
    """The names of attributes in a graph, in what it calls, and in methods of its objects.

    It tells no object from another: what is read of one of them counts for all.

    Parameters
    ----------
    graph : Graph
    compile_function : callable
        The front end.
    """

    def __init__(self, graph: Graph, compile_function: Callable[[Any], Graph | None]) -> None:
        self._compile_function = compile_function
        self._names: set[str] = set()
        self._classes: set[type] = set()
        self._asked: set[type] = set()
        self._sorted: tuple[str, ...] = ()
        self._read: set[FunctionType] = set()
        self._read_graph(graph)

    def of(self, class_: type) -> tuple[str, ...]:
        """The names that may be attributes of an object of this class, in order.

        Methods are read when a class is asked for first: whoever compiles anew because a class has
        changed begins anew.
        """
        if class_ not in self._asked:
            self._asked.add(class_)
            self._classes.add(class_)
            while self._read_methods():
                pass
            self._sorted = tuple(sorted(self._names))
        return self._sorted

    def _read_methods(self) -> bool:
        """Read the methods, so far as they are named; whether that named others."""
        before = len(self._read)
        for class_ in list(self._classes):
            for name in [*self._names, *_OPERATORS]:
                for function in _functions(class_, name):
                    self._read_function(function)
        return len(self._read) > before

    def _read_function(self, function: FunctionType) -> None:
        if function in self._read:
            return
        self._read.add(function)
        graph = self._compile_function(function)
        if graph is not None:
            self._read_graph(graph)

    def _read_graph(self, graph: Graph) -> None:
        """Take the names in a graph, and the classes that it makes objects of."""
        for node in nodes_with_called(graph):
            if node.kind in _NAMING:
                self._names.add(node.attributes["name"])
            if node.kind == "prim::Call" and is_record_class(node.inputs[0].constant_value):
                self._take_class(node.inputs[0].constant_value)

    def _take_class(self, class_: type) -> None:
        """Take a class that the program makes objects of, whose ``__init__`` runs."""
        self._classes.add(class_)
        for function in _functions(class_, "__init__"):
            self._read_function(function)


def _functions(class_: type, name: str) -> Iterator[FunctionType]:
    """What runs where an attribute is read, called or set, through ``super`` as well."""
    for owner in class_.__mro__:
        held = vars(owner).get(name)
        found = (held.fget, held.fset) if isinstance(held, property) else (held,)
        yield from (one for one in map(function_of, found) if isinstance(one, FunctionType))
