"""What a function being compiled asks of its compilation, and gets for the functions it calls."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping
from dataclasses import field
from types import FunctionType
from typing import Any, Protocol

from jitcore.frontend.layers import Frozen
from jitcore.frontend.names import Resolver, Static
from jitcore.frontend.source import FunctionNode, FunctionSource
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Graph, SourceRange

__all__ = [
    "CallSite",
    "Compiled",
    "Compiler",
    "FunctionPlace",
    "LocalScope",
    "NeedsCell",
    "Statics",
    "default_statics",
    "python_call",
]


Statics = Mapping[str, Static]
"""Parameters whose values are known, layers above all."""

FunctionPlace = tuple[str, int, int]
"""What tells a function from others: its file, line and column."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """The graph of a Python function that another one calls.

    Parameters
    ----------
    graph : Graph
    parameters : ast.arguments
    inputs : list of Static
        The captured objects that are inputs of the graph, after the parameters.
    constants : list of Static
        All other captures.
    """

    graph: Graph
    parameters: ast.arguments
    inputs: list[Static]
    constants: list[Static]


@dataclass(frozen=True, slots=True)
class CallSite:
    """Who calls, and where; errors in the called function mention it."""

    caller: str
    where: SourceRange | None


@dataclass(frozen=True, slots=True)
class LocalScope:
    """What a nested function sees of the function around it.

    Parameters
    ----------
    variables : list of str
        The variables that it reads; they become parameters after its own.
    functions : dict
        The nested functions that it may call.
    statics : dict
        The parameters and variables whose values are known; they are no inputs of the graph.
    stable : frozenset of str
        The variables that are assigned once.
    function_variables : frozenset of str
        The variables that hold functions as values.
    cells : frozenset of str
        The variables that are passed as the cells that hold them.
    list_cells : frozenset of str
        Those of them whose cells are lists with one element.
    owners : dict
        The functions that the variables belong to.
    """

    variables: list[str] = field(default_factory=list)
    functions: dict[str, FunctionNode] = field(default_factory=dict)
    statics: Statics = field(default_factory=dict)
    stable: frozenset[str] = frozenset()
    function_variables: frozenset[str] = frozenset()
    cells: frozenset[str] = frozenset()
    list_cells: frozenset[str] = frozenset()
    owners: Mapping[str, FunctionPlace] = field(default_factory=dict)


class NeedsCell(Exception):
    """A variable must be held by a cell: a function that sees its changes is passed on or stored.

    Parameters
    ----------
    owner : tuple of str and int
        The function that the variable belongs to.
    name : str
    """

    def __init__(self, owner: FunctionPlace, name: str) -> None:
        super().__init__(name)
        self.owner = owner
        self.name = name


class Compiler(Protocol):
    """The compilation of one function with all that it calls."""

    frozen: Frozen | None

    def needs_cell(self, owner: FunctionPlace, name: str) -> bool:
        """Whether it has turned out that a variable must be held by a cell."""

    def lookup_op(self, value: Any) -> str | None:
        """The kind of the operation that a Python callable is, or None."""

    def can_compile(self, function: FunctionType) -> bool:
        """Whether a function is compiled where it is called, rather than called as it is."""

    def is_active(self, function: FunctionType, receiver: Static | None = None) -> bool:
        """Whether a function is being compiled, so that a call of it is recursion.

        That of a class method is, for whichever class; that of a layer is another function.
        """

    def parameters(self, function: FunctionType, site: CallSite) -> ast.arguments:
        """The parameters of a function that is called."""

    def callee(self, function: FunctionType, site: CallSite, statics: Statics) -> Compiled:
        """The graph of a function that is called."""

    def is_dynamic(self, name: str) -> bool:
        """Whether a global, or attributes of layers, may change while the function runs."""

    def is_varying(self, static: Static) -> bool:
        """Whether a number is an input of the graph, because it has been several ones."""

    def note_stored(self, name: str) -> None:
        """Note that the function may assign an attribute with this name, or a global."""

    def note_only_compiled(self) -> None:
        """Note that compiled code does something else than the plain function."""

    def note_python(self, value: Any) -> None:
        """Note that Python gets a value: it may assign whatever the value's code assigns."""

    def local_callee(
        self,
        source: FunctionSource,
        resolver: Resolver,
        scope: LocalScope,
        site: CallSite,
    ) -> Compiled:
        """The graph of a function that is defined inside the one that calls it."""


def python_call(function: Any, *args: Any, **keywords: Any) -> functools.partial[Any]:
    """A function of the same name that Python calls anew, as recursion does.

    What specialization finds as a function, it would inline, again and again.
    """
    made = functools.partial(function, *args, **keywords)
    vars(made).update(__name__=function.__name__, __qualname__=function.__qualname__)
    return made


def default_statics(function: FunctionType, path: str) -> dict[str, Static]:
    """The defaults of a function's parameters, which Python evaluated once."""
    code = function.__code__
    defaults = function.__defaults__ or ()
    positional = code.co_varnames[: code.co_argcount]
    named = dict(zip(positional[len(positional) - len(defaults) :], defaults, strict=True))
    statics = {
        name: Static(
            value,
            f"{path}.__defaults__[{name!r}]",
            _positional_reader(function, number),
            id(function),
        )
        for number, (name, value) in enumerate(named.items())
    }
    for name, value in (function.__kwdefaults__ or {}).items():
        read = _keyword_reader(function, name)
        statics[name] = Static(value, f"{path}.__kwdefaults__[{name!r}]", read, id(function))
    return statics


def _positional_reader(function: FunctionType, number: int) -> Callable[[], Any]:
    def read() -> Any:
        return (function.__defaults__ or ())[number]

    return read


def _keyword_reader(function: FunctionType, name: str) -> Callable[[], Any]:
    def read() -> Any:
        return (function.__kwdefaults__ or {})[name]

    return read
