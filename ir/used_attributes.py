"""Which attributes of the objects that it gets a program may look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from types import FunctionType
from typing import Any
from weakref import WeakSet

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
        self._asked: WeakSet[type] = WeakSet()
        self._sorted: tuple[str, ...] = ()
        # Of these all methods were looked for that have these names; programs make classes, too.
        self._classes: WeakSet[type] = WeakSet()
        self._sought: set[str] = set(_OPERATORS)
        self._new: list[type] = []
        self._read: WeakSet[FunctionType] = WeakSet()
        self._read_graph(graph)

    def of(self, class_: type) -> tuple[str, ...]:
        """The names that may be attributes of an object of this class, in order.

        Methods are read when a class is asked for first: whoever compiles anew because a class has
        changed begins anew.
        """
        if class_ not in self._asked:
            self._asked.add(class_)
            self._new.append(class_)
            self._read_methods()
            self._sorted = tuple(sorted(self._names))
        return self._sorted

    def _read_methods(self) -> None:
        """Read the methods, so far as they are named, by themselves as well."""
        while self._new or not self._names <= self._sought:
            names = self._names - self._sought
            self._sought |= names
            new, self._new = self._new, []
            known = [(class_, name) for class_ in self._classes for name in names]
            others = [(class_, name) for class_ in new for name in self._sought]
            self._classes.update(new)
            for class_, name in (*known, *others):
                for function in _functions(class_, name):
                    self._read_function(function)

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
        if class_ not in self._classes:
            self._new.append(class_)
        for function in _functions(class_, "__init__"):
            self._read_function(function)


def _functions(class_: type, name: str) -> Iterator[FunctionType]:
    """What runs where an attribute is read, called or set, through ``super`` as well."""
    for owner in class_.__mro__:
        held = vars(owner).get(name)
        found = (held.fget, held.fset) if isinstance(held, property) else (held,)
        yield from (one for one in map(function_of, found) if isinstance(one, FunctionType))
