"""Specializations: the compiled forms of a graph."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jitcore.execution.function_states import FunctionState
from jitcore.execution.plans import HostPlan, NativePlan, StoredPlan
from jitcore.execution.signatures import Description
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Capture, Graph

__all__ = ["Specialization", "StoredSpecialization"]


def _not_native(*args: Any) -> Any:
    raise AssertionError("a host plan has no entry")


@dataclass(slots=True)
class Specialization:
    """One compiled form of a graph.

    Parameters
    ----------
    kind : str
        ``"STATIC"`` or ``"DYNAMIC"``.
    key : tuple
        The descriptions it was compiled for; dynamic ones have None for extents that may differ.
    form : tuple
        The structure of the arguments, for which the strategy has a budget.
    typed : Graph
        The graph with its types, before fusion.
    plan : NativePlan or HostPlan
    assumed : list of Capture
        What functions and classes that came in as values were found to be.
    code : tuple of FunctionState
        Of the functions among what is assumed.
    """

    kind: str
    key: tuple[Description, ...]
    form: tuple[Description, ...]
    typed: Graph
    plan: NativePlan | HostPlan
    assumed: list[Capture]
    code: tuple[FunctionState, ...] = ()
    direct: Callable[..., Any] = _not_native

    def holds(self) -> bool:
        """Whether what it was built from, besides the arguments and the graph, is unchanged."""
        try:
            is_same = all(capture.read() is capture.value for capture in self.assumed)
        except NameError:
            return False
        return is_same and all(one.holds() for one in self.code)


class StoredSpecialization(Specialization):
    """A form that another process has compiled; what calls do not need is made when asked for."""

    __slots__ = ("_remake",)

    def __init__(
        self,
        kind: str,
        key: tuple[Description, ...],
        form: tuple[Description, ...],
        plan: StoredPlan,
        remake: Callable[[], Specialization],
    ) -> None:
        self.kind, self.key, self.form, self.plan = kind, key, form, plan
        self.assumed = []
        self.code = ()
        self._remake = functools.cache(remake)
        plan.remake = self._plan

    def _plan(self) -> NativePlan:
        made = self._remake().plan
        assert isinstance(made, NativePlan)
        return made

    def __getattr__(self, name: str) -> Any:
        if name != "typed":
            raise AttributeError(name)
        self.typed = self._remake().typed
        return self.typed
