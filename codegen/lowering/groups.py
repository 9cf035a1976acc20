"""Fused groups: values are computed where they are used, and only results go to memory."""

from __future__ import annotations

from jitcore.codegen.loops import Expr
from jitcore.codegen.lowering.elementwise import allocate_result
from jitcore.codegen.lowering.facts import FUSED, WRITING, last_uses
from jitcore.codegen.lowering.kinds import SCALARS
from jitcore.codegen.lowering.nest import write
from jitcore.codegen.lowering.operands import Lazy, Operand, arrays_in
from jitcore.codegen.lowering.reductions import KINDS
from jitcore.codegen.lowering.rows import is_dear, lower_by_rows, reduced_trailing
from jitcore.codegen.lowering.state import Lowering, Rule
from jitcore.ir.graph import Graph, Node, Value

__all__ = ["RULES"]


def _group(lowering: Lowering, node: Node) -> Operand:
    graph: Graph = node.attributes["graph"]
    was_lazy, lowering.is_lazy = lowering.is_lazy, True
    kept = reduced_trailing(graph)
    if kept is None or not _by_rows(lowering, node, graph, kept):
        _bind_inputs(lowering, node, graph)
        _walk(lowering, graph)
        _compute_outputs(lowering, graph)
    lowering.is_lazy = was_lazy
    results = tuple(lowering.operand(value) for value in graph.outputs)
    return results[0] if len(node.outputs) == 1 else results


def _bind_inputs(lowering: Lowering, node: Node, graph: Graph) -> None:
    for inner, outer in zip(graph.inputs, node.inputs, strict=True):
        lowering.bind(inner, lowering.operand(outer))


def _by_rows(lowering: Lowering, node: Node, graph: Graph, kept: int) -> bool:
    """Lower the group as one nest over rows, if that is possible."""
    snapshot = lowering.snapshot()
    _bind_inputs(lowering, node, graph)
    lowering.reduces_lazily = True
    for inner in graph.block.nodes:
        lowering.node(inner)
    lowering.reduces_lazily = False
    if lower_by_rows(lowering, graph, kept):
        return True
    lowering.restore(snapshot)
    return False


def _walk(lowering: Lowering, graph: Graph) -> None:
    last = last_uses(graph.block)
    for position, node in enumerate(graph.block.nodes):
        if node.kind in WRITING:
            _allocate_target(lowering, node)
            _compute_before_write(lowering, graph, position, last)
        elif node.kind in KINDS and _is_better_kept(lowering, node):
            lowering.array(node.inputs[0])
        lowering.node(node)


def _is_better_kept(lowering: Lowering, reduction: Node) -> bool:
    """Whether what a reduction reads should be in memory: it is dear and needed once more."""
    value = reduction.inputs[0]
    operand = lowering.operand(value)
    if not isinstance(operand, Lazy) or not is_dear(operand):
        return False
    return len(value.uses) > 1 or reduction.kind in ("np::var", "np::std")


def _allocate_target(lowering: Lowering, node: Node) -> None:
    """Memory for an array of this group that a store writes as a whole, in place of its values."""
    target = node.inputs[0]
    operand = lowering.operand(target)
    if node.kind == "np::store" and isinstance(operand, Lazy) and operand.kind in SCALARS:
        lowering.bind(target, allocate_result(lowering, target, operand))


def _compute_before_write(
    lowering: Lowering, graph: Graph, position: int, last: dict[Value, int]
) -> None:
    """Compute lazy values that read what is about to change, and that are needed afterwards."""
    nodes = graph.block.nodes
    target = lowering.array(nodes[position].inputs[0])
    for earlier in nodes[:position]:
        for value in earlier.outputs:
            if last.get(value, -1) <= position:
                continue
            operand = lowering.operand(value)
            if not isinstance(operand, Lazy):
                continue
            if any(array.may_overlap(target) for array in arrays_in(operand)):
                lowering.array(value)


def _compute_outputs(lowering: Lowering, graph: Graph) -> None:
    """Write the outputs that are still lazy, those of the same extents in one nest."""
    together: dict[tuple[Expr, ...], list[Value]] = {}
    for value in graph.outputs:
        operand = lowering.operand(value)
        if isinstance(operand, Lazy):
            same = together.setdefault(operand.dims, [])
            if value not in same:
                same.append(value)
    for values in together.values():
        pairs = []
        for value in values:
            lazy = lowering.operand(value)
            pairs.append((allocate_result(lowering, value, lazy), lazy))
        write(lowering, pairs)
        for value, (target, _) in zip(values, pairs, strict=True):
            lowering.bind(value, target)


RULES: dict[str, Rule] = {FUSED: _group}
