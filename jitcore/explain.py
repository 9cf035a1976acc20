"""``explain``: what was compiled for a call, what was fused, what was not and why."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from jitcore.ir.graph import Graph
from jitcore.pipeline import NativePlan

if TYPE_CHECKING:
    from jitcore.executor import Executor, Specialization
    from jitcore.script import ScriptFunction

__all__ = ["Explanation", "explain", "explain_call"]


@dataclass(slots=True)
class Explanation:
    """The report on one call.

    Attributes
    ----------
    result : object
        What the call gave.
    lines : list of str
        The report.
    seconds : float
        Wall time of the call, without compilation if the specialization existed.
    """

    result: Any
    seconds: float
    lines: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def __repr__(self) -> str:
        return str(self)


def explain(function: ScriptFunction) -> Any:
    """A callable that runs ``function`` and gives an `Explanation`.

    Examples
    --------
    >>> import numpy as np, jitcore
    >>> @jitcore.script
    ... def f(x):
    ...     return np.tanh(x) * 2 + 1
    >>> report = jitcore.explain(f)(np.ones(3))
    >>> report.result.shape
    (3,)
    """
    return function.explain


def explain_call(
    function: ScriptFunction, executor: Executor, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Explanation:
    """Run a call and report on it."""
    before = len(executor.specializations)
    bound, captured = function._arrange(args, kwargs)
    executor = function._executor
    found = executor.specialization((*bound, *captured))
    begin = time.perf_counter()
    result = function(*args, **kwargs)
    seconds = time.perf_counter() - begin
    report = Explanation(result, seconds)
    report.lines.append(f"{function.__qualname__}: {_fate(found, executor, before)}")
    if found is not None:
        report.lines.extend(_assumptions(found))
        report.lines.extend(_plan_lines(found, indent="  "))
    moved = _bytes_moved(bound, captured, result)
    report.lines.append(
        f"  this call: {seconds * 1e3:.3f} ms, {moved} bytes of arguments and results"
    )
    return report


def _fate(found: Specialization | None, executor: Executor, before: int) -> str:
    if found is None:
        return (
            f"runs unfused through NumPy: the fusion strategy allows no more than the "
            f"{len(executor.specializations)} specializations there are, and none of them fits"
        )
    number = executor.specializations.index(found) + 1
    if len(executor.specializations) == before:
        return f"specialization {number} ({found.kind}), compiled earlier"
    if before == 0:
        return f"specialization {number} ({found.kind}), compiled for this call, the first"
    return (
        f"specialization {number} ({found.kind}), compiled for this call, as none of the "
        f"{before} earlier ones assumes these arguments"
    )


def _assumptions(found: Specialization) -> Iterator[str]:
    for value in found.typed.inputs:
        layout = ""
        yield f"  assumes %{value.name} : {value.type}{layout}"


def _plan_lines(found: Specialization, indent: str) -> Iterator[str]:
    plan = found.plan
    if isinstance(plan, NativePlan):
        yield f"{indent}one native function, {plan.kernel.name}"
        groups = plan.graph.find_all_nodes("prim::FusionGroup")
        for number, node in enumerate(groups):
            yield f"{indent}  prim::FusionGroup_{number}: {_kinds(node.attributes['graph'])}"
        for one in plan.decisions:
            if one.group is None:
                yield f"{indent}  {one.node} {one.source}: by itself, as {one.reason}"
        for note in plan.kernel.lowered.notes:
            yield f"{indent}  {note}"
        return
    yield f"{indent}a host program with {len(plan.regions)} native regions"
    for node in plan.graph.nodes():
        if "untyped" in node.attributes:
            yield f"{indent}  {node.kind} {node.source or ''}: in NumPy, as {node.attributes['untyped']}"
    for node, region in plan.regions.items():
        yield f"{indent}  region: {_kinds(node.attributes['graph'])}"
        for one in region.specializations:
            yield from _plan_lines(one, indent + "    ")


def _kinds(graph: Graph) -> str:
    return ", ".join(node.kind for node in graph.block.nodes if node.kind != "prim::Constant")


def _bytes_moved(*groups: Any) -> int:
    total = 0
    stack: list[Any] = list(groups)
    while stack:
        one = stack.pop()
        if isinstance(one, (tuple, list)):
            stack.extend(one)
        elif isinstance(one, np.ndarray):
            total += one.nbytes
    return total
