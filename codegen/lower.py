"""Lowering: a typed graph to one native function of loop-nest IR."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from jitcore.codegen.entries.error_sites import ErrorSite
from jitcore.codegen.entries.signature import Layout, NotedAttribute, Result
from jitcore.codegen.loop_passes import run_where
from jitcore.codegen.loop_passes.needs import (
    has_choices,
    has_compared_magnitudes,
    has_matrix_products,
    has_parallel_steps,
)
from jitcore.codegen.loops import Function, Stmt
from jitcore.codegen.lowering import attributes, elementwise, lists
from jitcore.codegen.lowering.caught_errors import check_caught
from jitcore.codegen.lowering.copied_arrays import OtherOrder
from jitcore.codegen.lowering.families import rule_of
from jitcore.codegen.lowering.negative_extents import leave_negative_extents
from jitcore.codegen.lowering.operands import NotNative, UnknownOrder
from jitcore.codegen.lowering.repeatable import may_begin_anew
from jitcore.codegen.lowering.results import Parameters, Results
from jitcore.codegen.lowering.state import RESULTS, Lowering
from jitcore.codegen.lowering.tidy import tidy
from jitcore.codegen.targets import CPU, Target
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import FieldWrite, Graph, Value

__all__ = ["Lowered", "NotNative", "UnknownOrder", "lower"]


@dataclass(frozen=True, slots=True)
class Lowered:
    """A native function and what its caller must know.

    Parameters
    ----------
    function : Function
    result : Result
        How to read the result slots.
    sites : tuple of ErrorSite
        Status ``k`` means site ``k - 1``.
    written : frozenset of int
        The (flattened) inputs whose memory the function writes.
    notes : tuple of str
        Loop nests and temporaries, for ``explain``.
    noted : tuple of NotedAttribute
        What errors leave behind their payload.
    element_writes : tuple of FieldWrite
        The attributes of objects in lists that the function writes.
    referenced : frozenset of int
        The (flattened) inputs that lists may refer to.
    draws_globally : bool
        The function draws from NumPy's own random generator, its last parameter.
    """

    function: Function
    result: Result
    sites: tuple[ErrorSite, ...]
    written: frozenset[int]
    notes: tuple[str, ...]
    noted: tuple[NotedAttribute, ...] = ()
    element_writes: tuple[FieldWrite, ...] = ()
    referenced: frozenset[int] = frozenset()
    draws_globally: bool = False

    @property
    def slots(self) -> int:
        """How many words an error's payload needs at most."""
        return max((site.payload for site in self.sites), default=0)


def lower(
    graph: Graph, layouts: Sequence[Layout | None], *, name: str, target: Target = CPU
) -> Lowered:
    """Lower a typed graph.

    Parameters
    ----------
    graph : Graph
        Typed; it may hold fused groups.
    layouts : sequence of Layout or None
        One for each input, those in tuples one by one; None for what is not an array.
    name : str
        The function's symbol.
    target : Target
        Where the loops run.

    Raises
    ------
    NotNative
        A node has no native form; the message says which and why.
    AttributesNotNoted
        The graph has to note what attributes of arguments become on the way.
    """
    refused = set[Value]()
    while True:
        try:
            return _lower(graph, layouts, name, target, refused)
        except OtherOrder as found:
            refused.add(found.param)


def _lower(
    graph: Graph,
    layouts: Sequence[Layout | None],
    name: str,
    target: Target,
    refused: Collection[Value],
) -> Lowered:
    lowering = Lowering(graph, rule_of, elementwise.materialize, target, refused)
    parameters = Parameters(lowering, layouts)
    for value in graph.inputs:
        parameters.add(value)
    noted = attributes.declare_attributes(lowering, graph)
    leave_negative_extents(lowering, graph)
    lowering.block(graph.block)
    result = Results(lowering).finish(graph.outputs)
    lists.check_lists(lowering)
    check_caught(lowering, graph)
    attributes.check_attributes(lowering, graph)
    body = _rearranged(lowering.emitter.body, lowering.notes, target)
    drawn = [] if lowering.global_generator is None else [lowering.global_generator]
    params = [*parameters.params, *drawn, RESULTS]
    function = Function(name, params, body, doc=graph.doc or "")
    return Lowered(
        function,
        result,
        _sites(lowering, graph),
        frozenset(lowering.written | lowering.lists_written),
        tuple(lowering.notes),
        noted,
        tuple(lowering.element_writes),
        frozenset(lowering.listed_inputs),
        bool(drawn),
    )


def _sites(lowering: Lowering, graph: Graph) -> tuple[ErrorSite, ...]:
    """The error sites, with whether the plain function may begin anew though arrays are written."""
    sites = tuple(lowering.sites)
    is_late = any(one.after_write for one in sites) and not lowering.lists_end
    if not is_late or not may_begin_anew(graph):
        return sites
    return tuple(replace(one, repeats=one.after_write) for one in sites)


def _rearranged(body: list[Stmt], notes: list[str], target: Target) -> list[Stmt]:
    """The same statements, so that a processor takes less memory in and computes less."""
    if not target.is_device:
        body = run_where(has_parallel_steps(body), "common_walks.share_walks", body, notes)
    body = tidy(body)
    body = run_where(has_choices(body), "chosen_operands.choose_operands", body)
    if not target.is_device:
        body = run_where(has_parallel_steps(body), "blocking.block_steps", body, notes)
        body = run_where(has_matrix_products(body), "shared_matrices.share_matrices", body, notes)
        is_needed = has_compared_magnitudes(body)
        body = run_where(is_needed, "compared_magnitudes.compare_squares", body)
    return body
