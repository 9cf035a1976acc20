"""Fused groups: values are computed where they are used, and only results go to memory."""

from __future__ import annotations

from jitcore.codegen.loops import Expr
from jitcore.codegen.lowering.arithmetic import integer
from jitcore.codegen.lowering.delayed import DelayedStores, StoresOfWalk
from jitcore.codegen.lowering.elements import NotByRows
from jitcore.codegen.lowering.elementwise import allocate_result
from jitcore.codegen.lowering.facts import FUSED
from jitcore.codegen.lowering.nest import write
from jitcore.codegen.lowering.operands import ArrayRef, Lazy, Operand
from jitcore.codegen.lowering.rows import is_dear, lower_by_rows, reduced_trailing
from jitcore.codegen.lowering.state import Lowering, Rule
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.ops import REDUCTIONS
from jitcore.ir.running import keep_step

__all__ = ["RULES"]

_ITERATIONS = 8
"""Each operation of a group counts as so many of Python's iterations: as a call of a ufunc."""


def _group(lowering: Lowering, node: Node) -> Operand:
    graph: Graph = node.attributes["graph"]
    was_lazy, lowering.is_lazy = lowering.is_lazy, True
    kept = reduced_trailing(graph)
    if kept is None or not _by_rows(lowering, node, graph, kept):
        _bind_inputs(lowering, node, graph)
        lowering.scans_lazily = _is_one_walk(graph)
        _walk(lowering, graph)
        _compute_outputs(lowering, graph)
        lowering.scans_lazily = False
    lowering.is_lazy = was_lazy
    lowering.count_work(integer(len(graph.block.nodes) * _ITERATIONS))
    results = tuple(lowering.operand(value) for value in graph.outputs)
    return results[0] if len(node.outputs) == 1 else results


def _bind_inputs(lowering: Lowering, node: Node, graph: Graph) -> None:
    for inner, outer in zip(graph.inputs, node.inputs, strict=True):
        lowering.bind(inner, lowering.operand(outer))


def _by_rows(lowering: Lowering, node: Node, graph: Graph, kept: int) -> bool:
    """Lower the group as one nest over rows, if that is possible."""
    snapshot = lowering.snapshot()
    _bind_inputs(lowering, node, graph)
    try:
        lower_by_rows(lowering, graph, kept, _lazily(lowering, graph))
    except NotByRows:
        lowering.restore(snapshot)
        return False
    return True


def _lazily(lowering: Lowering, graph: Graph) -> dict[Value, ArrayRef]:
    """Bind all values of a group without computing them; gives the arrays that it writes to."""
    stores = StoresOfWalk(lowering, graph)
    lowering.put_off, lowering.settle = stores.put_off, stores.write
    lowering.reduces_lazily, lowering.checked = True, {}
    try:
        for position, inner in enumerate(graph.block.nodes):
            stores.position = position
            if inner.kind != "np::store":
                stores.before(inner)
            if inner.kind == "np::gather":
                _keep_dear_indices(lowering, inner)
            lowering.node(inner)
    finally:
        lowering.reduces_lazily, lowering.checked = False, None
        lowering.put_off = lowering.settle = None
    return stores.waiting


def _walk(lowering: Lowering, graph: Graph) -> None:
    delayed = DelayedStores(lowering, graph)
    lowering.put_off, lowering.settle = delayed.put_off, delayed.write
    lowering.checked = {}
    for position, node in enumerate(graph.block.nodes):
        delayed.position = position
        if node.kind in REDUCTIONS:
            delayed.write()
            if _is_better_kept(lowering, node):
                lowering.array(node.inputs[0])
        elif node.kind != "np::store":
            delayed.before(node)
        if node.kind == "np::gather":
            _keep_dear_indices(lowering, node)
        lowering.node(node)
    delayed.position = len(graph.block.nodes)
    delayed.write()
    lowering.put_off = lowering.settle = lowering.checked = None


def _is_one_walk(graph: Graph) -> bool:
    """Whether all that is read of scans goes along with them, in one loop."""
    nodes = graph.block.nodes
    reductions = [node for node in nodes if node.kind in REDUCTIONS]
    arrays = [value for value in graph.outputs if value.node not in reductions]
    return keep_step(nodes) and (not reductions or len(reductions) + len(arrays) == 1)


def _keep_dear_indices(lowering: Lowering, gather: Node) -> None:
    """Have places in memory that are dear to compute: they are checked before they are used."""
    for value in gather.inputs[1:]:
        operand = lowering.operand(value)
        if isinstance(operand, Lazy) and is_dear(operand):
            lowering.array(value)


def _is_better_kept(lowering: Lowering, reduction: Node) -> bool:
    """Whether what a reduction reads should be in memory: it is dear and needed once more."""
    value = reduction.inputs[0]
    operand = lowering.operand(value)
    if not isinstance(operand, Lazy) or not is_dear(operand):
        return False
    return len(value.uses) > 1 or reduction.kind in ("np::var", "np::std")


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
