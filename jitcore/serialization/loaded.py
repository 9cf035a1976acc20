"""Functions that come from an archive: they have a graph and no source.

The plain function of a loaded function is its generic graph as a Python program, which runs through
NumPy and Python; that is what runs where compiled code gives up.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from types import CellType, FunctionType
from typing import Any

from jitcore.codegen.host import build_host
from jitcore.codegen.host.text import identifier, is_identifier
from jitcore.config import checked_numerics
from jitcore.errors import Error, SerializationError
from jitcore.forms import holds
from jitcore.graph_function import rebound_graph
from jitcore.ir.classes import MISSING
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Capture, Graph
from jitcore.ir.literals import format_literal
from jitcore.script import ScriptFunction
from jitcore.serialization.fields import Fields
from jitcore.serialization.literals import is_literal

__all__ = [
    "LoadedFunction",
    "Parameter",
    "SavedProgram",
    "check_program",
    "fixed_capture",
    "function_maker",
    "held_capture",
    "plain_function",
    "read_numerics",
]

Parameter = tuple[str, inspect._ParameterKind]

_numbers = itertools.count(1)


@dataclass(slots=True, eq=False)
class SavedProgram:
    """The graphs of one function; for a method of a layer one for each mode it was saved for.

    Parameters
    ----------
    name : str
    graphs : list of Graph
        The captures without an input say when a graph is the right one.
    """

    name: str
    graphs: list[Graph] = field(default_factory=list)
    _hosts: dict[int, tuple[Graph, Callable[..., Any]]] = field(default_factory=dict)

    def graph(self) -> Graph:
        """The graph that fits the attributes as they are now.

        Raises
        ------
        Error
            None does.
        """
        graph = self.fitting()
        if graph is None:
            raise Error(self._why())
        return graph

    def fitting(self) -> Graph | None:
        """The graph that fits the attributes as they are now; None where none does."""
        for graph in self.graphs:
            if holds(graph):
                return graph
        for number, graph in enumerate(self.graphs):
            if all(one.input is not None or _is_as_it_was(one) for one in graph.captures):
                # Entries of the other one compare with the objects that it knows.
                self.graphs[number] = twin = graph.copy()
                _settle(twin)
                return twin
        return None

    def _why(self) -> str:
        reasons = []
        for graph in self.graphs:
            for one in graph.captures:
                if one.input is None and not _is_as_it_was(one):
                    reasons.append(f"  '{one.path}' was {_shown(one.value)}")
                    break
        listed = "\n".join(dict.fromkeys(reasons))
        return (
            f"'{self.name}' was loaded from a file, which has it for other attributes of the "
            f"module than there are now:\n{listed}\nSave the module in the state that is needed."
        )

    def run(self, *parameters: Any) -> Any:
        """Run the graph that fits, through NumPy and Python."""
        return self.run_graph(self.graph(), parameters)

    def run_graph(self, graph: Graph, parameters: Sequence[Any]) -> Any:
        """Run a graph, unfused."""
        captured = [one.read() for one in graph.captures if one.input is not None]
        return self.host(graph)(*parameters, *captured)

    def host(self, graph: Graph) -> Callable[..., Any]:
        """A graph as a Python function."""
        if id(graph) not in self._hosts:
            self._hosts[id(graph)] = (graph, build_host(graph, name=self.name))
        return self._hosts[id(graph)][1]

    def scripted(self, plain: FunctionType, numerics: str | None) -> LoadedFunction:
        """The plain function, compiled."""
        return LoadedFunction(plain, self, numerics)

    def rebound(self, modules: Mapping[int, Any]) -> SavedProgram:
        """The same graphs for other modules; see `ScriptFunction.rebound`."""
        return SavedProgram(self.name, [rebound_graph(one, modules) for one in self.graphs])

    def runner_like(self, plain: Any) -> FunctionType:
        """A plain function that runs this program, with the signature of one that runs another."""
        made = FunctionType(
            plain.__code__,
            plain.__globals__,
            plain.__name__,
            plain.__defaults__,
            (CellType(self.run),),
        )
        made.__kwdefaults__ = plain.__kwdefaults__
        functools.update_wrapper(made, plain, updated=())
        del made.__wrapped__  # type: ignore[attr-defined]
        vars(made)["__jitcore_program__"] = self
        return made

    def settle(self) -> None:
        """Let literals that graphs take for granted be the attributes' own objects, if equal."""
        for graph in self.graphs:
            _settle(graph)


def _settle(graph: Graph) -> None:
    for one in graph.captures:
        if one.input is None and _is_as_it_was(one):
            one.value = one.read()


def _is_as_it_was(capture: Capture) -> bool:
    """Whether what a graph takes for granted is what it was, or an equal literal."""
    now, before = capture.read(), capture.value
    if now is before or type(now) is not type(before):
        return now is before
    return is_literal(before) and format_literal(now) == format_literal(before)


def _shown(value: Any) -> str:
    if value is MISSING:
        return "not there"
    return repr(value) if is_literal(value) else f"another {type(value).__name__}"


class LoadedFunction(ScriptFunction):
    """A script function, or a method of a script module, from an archive."""

    def __init__(
        self, plain: FunctionType, program: SavedProgram, numerics: str | None = None
    ) -> None:
        self._program = program
        super().__init__(plain, numerics)

    def _build(self) -> Graph:
        return self._program.graph()

    @property
    def is_final(self) -> bool:
        """Whether the graph cannot be made anew from the source."""
        return True

    def all_graphs(self) -> list[Graph]:
        """The generic graphs that a file has to hold: all that came from one, or that fits now."""
        known = self._program.graphs
        current = self.current_graph()
        return known if any(current is one for one in known) else [current, *known]

    @property
    def __jitcore_graph__(self) -> Graph:
        """What a call in another compiled function runs."""
        return self.current_graph()

    @property
    def _fallback(self) -> Callable[..., Any]:
        return lambda *parameters: self._program.run_graph(self._graph, parameters)


def plain_function(
    name: str,
    parameters: Sequence[Parameter],
    run: Callable[..., Any],
    *,
    qualified: str,
    module: str,
    has_default: Sequence[bool],
) -> FunctionType:
    """A Python function with this signature, which calls ``run`` with all its parameters in order.

    Its defaults are all None; the caller sets ``__defaults__`` and ``__kwdefaults__``.

    Raises
    ------
    SerializationError
        The parameters are not those of a Python function.
    """
    function = function_maker(name, parameters, has_default)(run)
    function.__name__ = name
    function.__qualname__ = qualified
    function.__module__ = module
    return function


def function_maker(
    name: str, parameters: Sequence[Parameter], has_default: Sequence[bool]
) -> Callable[[Callable[..., Any]], FunctionType]:
    """What makes functions of this signature, each of which calls what it is given."""
    names = [one for one, _ in parameters]
    if not all(map(is_identifier, names)) or len(set(names)) < len(names):
        raise SerializationError(f"the parameters of '{name}' in the archive are no identifiers")
    given = [
        inspect.Parameter(
            one, kind, default=None if default and "VAR" not in kind.name else inspect._empty
        )
        for (one, kind), default in zip(parameters, has_default, strict=True)
    ]
    try:
        signature = inspect.Signature(given)
    except ValueError as error:
        raise SerializationError(f"the parameters of '{name}' in the archive: {error}") from error
    own = identifier(name, "function")
    inner = _unlike("run", (*names, own))
    outer = _unlike("make", (*names, own, inner))
    source = (
        f"def {outer}({inner}):\n"
        f"    def {own}{signature}:\n"
        f"        return {inner}({', '.join(names)})\n"
        f"    return {own}\n"
    )
    file = f"<jitcore loaded {own} {next(_numbers)}>"
    namespace: dict[str, Any] = {}
    exec(compile(source, file, "exec", dont_inherit=True), namespace)
    made: Callable[[Callable[..., Any]], FunctionType] = namespace[outer]
    return made


def _unlike(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name


def fixed_capture(name: str, value: Any, container: dict[str, Any]) -> Capture:
    """The capture of an object that the archive holds; nothing ever replaces it."""
    key = _unlike(name, tuple(container))
    container[key] = value
    return Capture(name, lambda: value, value, container=container, key=key)


def held_capture(path: str, container: Any, key: str, value: Any = None) -> Capture:
    """The capture of what a namespace has under a name at each call."""
    return Capture(path, lambda: container.get(key, MISSING), value, container=container, key=key)


def read_numerics(row: Fields) -> str | None:
    """What a function was told about its arithmetic."""
    found = row.get("numerics")
    try:
        return None if found is None else checked_numerics(found)
    except (Error, ValueError, TypeError) as error:
        raise SerializationError(f"{row.where} in the archive: {error}") from error


def check_program(program: SavedProgram) -> None:
    """Raise where a graph cannot be written as a Python program."""
    for graph in program.graphs:
        try:
            program.host(graph)
        except (NotImplementedError, ValueError, AttributeError, SyntaxError) as error:
            raise SerializationError(f"'{program.name}' in the archive: {error}") from error
