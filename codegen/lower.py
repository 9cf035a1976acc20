"""Lowering: a typed graph to one native function of loop-nest IR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jitcore.codegen.entries.error_sites import ErrorSite
from jitcore.codegen.entries.signature import Layout, Result
from jitcore.codegen.loop_passes.blocking import block_steps
from jitcore.codegen.loop_passes.common_walks import share_walks
from jitcore.codegen.loop_passes.shared_matrices import share_matrices
from jitcore.codegen.loops import Function
from jitcore.codegen.lowering import (
    attention,
    control,
    elementwise,
    groups,
    interleaving,
    layers,
    lists,
    masks,
    matmul,
    movement,
    python_math,
    python_numbers,
    reductions,
    requirements,
    scans,
    stores,
    structure,
    views,
)
from jitcore.codegen.lowering.operands import NotNative
from jitcore.codegen.lowering.results import Parameters, Results
from jitcore.codegen.lowering.state import RESULTS, Lowering, Rule
from jitcore.codegen.lowering.tidy import tidy
from jitcore.codegen.targets import CPU, Target
from jitcore.ir.graph import Graph

__all__ = ["RULES", "Lowered", "NotNative", "lower"]

RULES: dict[str, Rule] = {
    **elementwise.RULES,
    **groups.RULES,
    **stores.RULES,
    **views.RULES,
    **python_numbers.RULES,
    **python_math.RULES,
    **reductions.RULES,
    **scans.RULES,
    **movement.RULES,
    **masks.RULES,
    **matmul.RULES,
    **layers.RULES,
    **interleaving.RULES,
    **attention.RULES,
    **structure.RULES,
    **lists.RULES,
    **control.RULES,
    **requirements.RULES,
}
"""How each kind of node lowers; a node of any other kind belongs to the host program."""


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
    """

    function: Function
    result: Result
    sites: tuple[ErrorSite, ...]
    written: frozenset[int]
    notes: tuple[str, ...]

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
    """
    lowering = Lowering(graph, RULES, elementwise.materialize, target)
    parameters = Parameters(lowering, layouts)
    for value in graph.inputs:
        parameters.add(value)
    lowering.block(graph.block)
    result = Results(lowering).finish(graph.outputs)
    lists.check_lists(lowering)
    body = lowering.emitter.body
    if not target.is_device:
        body = share_walks(body, lowering.notes)
    body = tidy(body)
    if not target.is_device:
        body = block_steps(body, lowering.notes)
        body = share_matrices(body, lowering.notes)
    function = Function(name, [*parameters.params, RESULTS], body, doc=graph.doc or "")
    return Lowered(
        function,
        result,
        tuple(lowering.sites),
        frozenset(lowering.written | lowering.lists_written),
        tuple(lowering.notes),
    )
