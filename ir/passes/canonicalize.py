"""Canonical names: equal graphs print equally."""

from __future__ import annotations

from jitcore.ir.graph import Graph
from jitcore.ir.names import all_values, base_name, reserve_names

__all__ = ["canonicalize"]


def canonicalize(graph: Graph) -> bool:
    """Number the values in the order of their definition; names that the user gave stay.

    Before::

        graph(%x : Float32[n], %y.7 : Float32[n]):
          %12 : Float32[n] = np::add(%x, %y.7)
          %x.3 : Float32[n] = np::sin(%12)
          %8 : Float32[n] = np::add(%x.3, %12)
          return (%8)

    After::

        graph(%x : Float32[n], %y : Float32[n]):
          %0 : Float32[n] = np::add(%x, %y)
          %x.1 : Float32[n] = np::sin(%0)
          %1 : Float32[n] = np::add(%x.1, %0)
          return (%1)
    """
    values = list(all_values(graph.block))
    before = [value.name for value in values]
    reserve_names(graph, ())
    for value in values:
        value.name = graph.unique_name(base_name(value.name))
    return before != [value.name for value in values]
