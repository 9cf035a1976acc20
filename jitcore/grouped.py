"""The graph of what runs: groups, and what the native regions of a host program became."""

from __future__ import annotations

from jitcore.execution.executor import Executor
from jitcore.execution.plans import HostPlan, NativePlan
from jitcore.ir.graph import Graph

__all__ = ["grouped_graph"]


def grouped_graph(executor: Executor) -> Graph | None:
    """The graph of an executor's youngest specialization; None where nothing has been compiled."""
    if not executor.specializations:
        return None
    return _graph_of(executor.specializations[-1].plan)


def _graph_of(plan: NativePlan | HostPlan) -> Graph:
    if isinstance(plan, NativePlan):
        return plan.graph
    graph = plan.graph.copy()
    kind = "prim::NativeGroup"
    nodes = zip(plan.graph.find_all_nodes(kind), graph.find_all_nodes(kind), strict=True)
    for node, shown in nodes:
        region = plan.regions.get(node)
        places = region.everywhere() if isinstance(region, Executor) else []
        for inner in filter(None, map(grouped_graph, places)):
            shown.attributes["graph"] = inner
    return graph
