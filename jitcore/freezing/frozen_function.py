"""``FrozenFunction``: a method of a frozen module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from jitcore.codegen.host import build_host, print_host
from jitcore.graph_function import rebound_graph
from jitcore.ir.classes import MISSING
from jitcore.ir.graph import Graph
from jitcore.ir.specialize.specialize import specialize
from jitcore.ir.types import ANY, TensorType
from jitcore.reports.explain import Explanation
from jitcore.script import ScriptFunction

__all__ = ["FrozenFunction"]


class FrozenFunction(ScriptFunction):
    """A method whose graph is final, and has no need of the module's source.

    Parameters
    ----------
    method : MethodType or FunctionType
        The method in the class of the module, or what stands for it where there is no source.
    graph : Graph
        With all calls inlined but those of functions of layers.  What raises an exception runs it
        unchanged, and so does a call with arguments that the optimized graph is not for.
    generic : Graph
        What that was made of, as the front end gave it: this is what files hold.
    numerics : {"strict", "contract"}, optional

    Attributes
    ----------
    steps : list of tuple
        The optimizations so far, by name, each with whether last digits might change.
    is_for_this_machine : bool
        Whether `optimize_for_inference` has made the graph; it is in no file then.
    """

    def __init__(
        self,
        method: FunctionType | MethodType,
        graph: Graph,
        generic: Graph,
        numerics: str | None = None,
    ) -> None:
        self._exact = self._final = graph
        self.generic = generic
        self.steps: list[tuple[str, bool]] = []
        self._host: Callable[..., Any] | None = None
        self._unoptimized: FrozenFunction | None = None
        self.is_for_this_machine = False
        super().__init__(method, numerics)

    def optimize(self, graph: Graph, step: tuple[str, bool]) -> None:
        """Run another graph from now on.

        Where its inputs have a dtype, or a rank as well, it is run with such arrays only.

        Parameters
        ----------
        graph : Graph
        step : tuple of str and bool
            What has made it, which a loaded module does again; see ``optimizing.STEPS``.
        """
        self._final = graph
        self.steps.append(step)
        self._forms = []
        self._reset()

    def prepare(self, graph: Graph) -> None:
        """Run a graph from now on that holds what only this machine reads."""
        self.is_for_this_machine = True
        self.optimize(graph, ("inference", True))

    def _reset(self) -> None:
        super()._reset()
        self._executor.replays = self.is_for_this_machine

    def _build(self) -> Graph:
        return self._final

    @property
    def graph(self) -> Graph:
        """The graph that runs, before any call."""
        return self._final.copy()

    @property
    def __jitcore_graph__(self) -> Graph:
        """What a call in another compiled function runs: it is for all arguments."""
        return self._exact

    @property
    def is_final(self) -> bool:
        """Whether the graph cannot be made anew from the source."""
        return True

    def current_graph(self) -> Graph:
        """The graph as it was frozen."""
        return self._exact

    def rebound(self, modules: Mapping[int, Any]) -> FrozenFunction:
        """The same method for other modules."""
        exact = rebound_graph(self._exact, modules)
        generic = rebound_graph(self.generic, modules)
        made = FrozenFunction(self._rebound_method(modules), exact, generic, self._numerics)
        if self.steps:
            made.is_for_this_machine = self.is_for_this_machine
            made.optimize(rebound_graph(self._final, modules), self.steps[-1])
            made.steps = list(self.steps)
        return made

    def _rebound_method(self, modules: Mapping[int, Any]) -> FunctionType | MethodType:
        method: Any = self.__wrapped_function__
        if not isinstance(method, MethodType):
            return method  # type: ignore[no-any-return]
        return MethodType(method.__func__, modules[id(method.__self__)][1])

    @property
    def code(self) -> str:
        """The graph as Python source."""
        return print_host(self.graph, name=self.__name__, places=True).source

    @property
    def _fallback(self) -> Callable[..., Any]:
        return self._plain

    def _plain(self, *parameters: Any) -> Any:
        """The graph as it was frozen, as a host program in which nothing is fused."""
        if self._host is None:
            self._host = build_host(specialize(self._exact, [ANY] * len(self._exact.inputs)))
        captured = [one.read() for one in self._exact.captures if one.input is not None]
        return self._host(*parameters, *captured)

    def _miss(self, /, *args: Any, **kwargs: Any) -> Any:
        bound, captured = self._arrange(args, kwargs)
        if any(one is MISSING for one in captured):
            gone = [one.path for one in self._final.captures if one.read() is MISSING]
            raise AttributeError(f"the frozen module has no {' and no '.join(gone)} any more")
        if not self._is_for(bound):
            return self._as_frozen()(*args, **kwargs)
        return self._executor.run(bound, captured)

    def _is_for(self, arguments: tuple[Any, ...]) -> bool:
        """Whether the optimized graph is one for these arguments."""
        return all(
            isinstance(argument, np.ndarray)
            and argument.dtype == value.type.dtype
            and value.type.rank in (None, argument.ndim)
            for value, argument in zip(self._final.inputs, arguments, strict=False)
            if isinstance(value.type, TensorType) and value.type.dtype is not None
        )

    def _as_frozen(self) -> FrozenFunction:
        """The function as it was frozen, for the arguments that the optimized graph is not for."""
        if self._unoptimized is None:
            method = self.__wrapped_function__
            self._unoptimized = FrozenFunction(method, self._exact, self.generic, self._numerics)
            self._unoptimized._executor.replays = self.is_for_this_machine
        return self._unoptimized

    def graph_for(self, /, *args: Any, **kwargs: Any) -> Graph:
        """The optimized graph that a call with these arguments runs, compiled if need be."""
        bound, _ = self._arrange(args, kwargs)
        if not self._is_for(bound):
            return self._as_frozen().graph_for(*args, **kwargs)
        return super().graph_for(*args, **kwargs)

    def _explain_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Explanation:
        bound, _ = self._arrange(args, kwargs)
        if not self._is_for(bound):
            return self._as_frozen().explain(*args, **kwargs)
        return super()._explain_call(args, kwargs)
