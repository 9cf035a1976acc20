"""``GraphFunction``: a compiled function that is nothing but its graph, as traces are."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from jitcore.codegen.host import build_host
from jitcore.ir.classes import MISSING
from jitcore.ir.graph import Graph
from jitcore.ir.specialize.specialize import specialize
from jitcore.ir.types import ANY
from jitcore.script import ScriptFunction

__all__ = ["GraphFunction", "rebound_graph"]


class GraphFunction(ScriptFunction):
    """A function whose graph is final and whose plain form runs that graph, node by node.

    Parameters
    ----------
    graph : Graph
        Its inputs are the parameters of the signature in order, then the captured ones.
    signature : inspect.Signature
    name : str
    qualname : str, optional
        By default the name.
    module : str, optional
        The Python module that the function counts as part of.
    doc : str, optional
    numerics : {"strict", "contract"}, optional
    """

    def __init__(
        self,
        graph: Graph,
        signature: inspect.Signature,
        *,
        name: str,
        qualname: str | None = None,
        module: str | None = None,
        doc: str | None = None,
        numerics: str | None = None,
    ) -> None:
        self._final = graph
        plain = _plain_form(graph, signature)
        plain.__name__, plain.__qualname__, plain.__doc__ = name, qualname or name, doc
        plain.__module__ = module or __name__
        super().__init__(plain, numerics)

    @property
    def __jitcore_graph__(self) -> Graph:
        """What a call in another compiled function runs."""
        return self._final

    def _build(self) -> Graph:
        return self._final

    @property
    def is_final(self) -> bool:
        """Whether the graph cannot be made anew from the source."""
        return True

    def rebound(self, modules: Mapping[int, Any]) -> GraphFunction:
        """The same function for other modules."""
        # Each function has a class of its own besides.
        class_ = next(one for one in type(self).__mro__ if "_is_of_one" not in vars(one))
        made: GraphFunction = class_(
            rebound_graph(self._final, modules),
            self._signature,
            name=self.__name__,
            qualname=self.__qualname__,
            module=self.__module__,
            doc=self.__doc__,
            numerics=self._numerics,
        )
        return made


def rebound_graph(graph: Graph, modules: Mapping[int, Any]) -> Graph:
    """A copy of a graph that has other modules in the places of some."""
    twin = graph.copy()
    places = {id(old.__dict__): new.__dict__ for old, new in modules.values()}
    for capture in twin.captures:
        place = places.get(id(capture.container))
        if place is None or capture.key is None:
            continue
        holds = capture.read() is capture.value
        capture.container = place
        capture.read = functools.partial(place.get, capture.key, MISSING)
        # What a graph for another mode takes for granted stays what it was.
        capture.value = capture.read() if holds else _replaced(capture.value, modules)
    for node in twin.nodes():
        for name, held in node.attributes.items():
            if id(held) in modules:
                node.attributes[name] = _replaced(held, modules)
            elif isinstance(held, Graph):
                node.attributes[name] = rebound_graph(held, modules)
    return twin


def _replaced(value: Any, modules: Mapping[int, Any]) -> Any:
    return modules[id(value)][1] if id(value) in modules else value


def _plain_form(graph: Graph, signature: inspect.Signature) -> FunctionType:
    """A Python function that runs a graph without fusing anything."""
    program: list[Callable[..., Any]] = []

    def run(*args: Any, **keywords: Any) -> Any:
        bound = signature.bind(*args, **keywords)
        bound.apply_defaults()
        captured = [one.read() for one in graph.captures if one.input is not None]
        if not program:
            program.append(build_host(specialize(graph, [ANY] * len(graph.inputs))))
        return program[0](*bound.arguments.values(), *captured)

    assert isinstance(run, FunctionType)
    run.__signature__ = signature  # type: ignore[attr-defined]
    return run
