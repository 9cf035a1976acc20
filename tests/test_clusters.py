"""Clusters of nodes stay convex, whatever they are merged with and in which order."""

from __future__ import annotations

import random

import pytest

from jitcore.fusers.clusters import BlockClusters, Cluster
from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.graph import Graph
from jitcore.ir.parser import parse_graph
from jitcore.ir.types import array_type


def clusters_of(graph: Graph) -> BlockClusters:
    return BlockClusters(graph.block, AliasAnalysis(graph))


def random_graph(seed: int, count: int) -> Graph:
    """Each node reads two values that are there already, more often young ones."""
    rng = random.Random(seed)
    graph = Graph()
    values = [graph.block.add_param(array_type("float64", (8,)), "x")]
    for _ in range(count):
        pair = [values[-min(int(rng.expovariate(0.2)) + 1, len(values))] for _ in range(2)]
        node = graph.block.append("np::add", pair, outputs=[array_type("float64", (8,))])
        values.append(node.output)
    graph.block.add_return(values[-1])
    return graph


def depends_on(found: BlockClusters, cluster: Cluster, other: Cluster) -> bool:
    waiting, seen = [cluster], set[int]()
    while waiting:
        one = waiting.pop()
        before = {id(c): c for c in map(found.cluster_of.__getitem__, one.predecessors)}
        if id(other) in before:
            return True
        waiting += [c for key, c in before.items() if key not in seen]
        seen |= before.keys()
    return False


def test_a_path_that_goes_by_nodes_before_both() -> None:
    graph = parse_graph(
        "graph(%x : Float64[8]):\n"
        "  %a : Float64[8] = np::exp(%x)\n"
        "  %d : Float64[8] = np::sin(%a)\n"
        "  %k : Float64[8] = np::cos(%x)\n"
        "  %s : Float64[8] = np::tan(%k)\n"
        "  %t : Float64[8] = np::add(%a, %s)\n"
        "  %u : Float64[8] = np::add(%k, %d)\n"
        "  return (%t, %u)"
    )
    found = clusters_of(graph)
    a, _, k, _, t, u = (found.add(node, fusible=True) for node in graph.block.nodes)
    assert found.stays_convex(a, t)
    found.merge(a, t)
    # %k comes before %s, that before %t and so before %a, which is needed for %d.
    assert not found.stays_convex(k, u)
    assert len(found.schedule()) == 5


@pytest.mark.parametrize("seed", range(40))
def test_merged_at_random(seed: int) -> None:
    """What is merged never depends on itself, and is refused only where it would."""
    rng = random.Random(seed)
    graph = random_graph(seed, 40)
    found = clusters_of(graph)
    for node in graph.block.nodes:
        cluster = found.add(node, fusible=True)
        for other in rng.sample(found.cluster_of, min(4, len(found.cluster_of))):
            if other is cluster or other not in found.cluster_of:
                continue
            pair = (cluster, other), (other, cluster)
            apart = [
                one
                for one in dict.fromkeys(found.cluster_of)
                if one not in (cluster, other)
                and any(depends_on(found, x, one) and depends_on(found, one, y) for x, y in pair)
            ]
            assert found.stays_convex(other, cluster) is not bool(apart)
            if not apart:
                cluster = found.merge(other, cluster)
    done: set[int] = set()
    for cluster in found.schedule():
        assert {id(found.cluster_of[number]) for number in cluster.predecessors} <= done
        done.add(id(cluster))
