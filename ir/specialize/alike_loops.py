"""Loops over several lists of arrays, in which arrays of one iteration often have one shape.

Before::

    for p, g in zip(params, grads):
        p -= rate * g

After::

    if all arrays of an iteration have the same extents:
        for p, g in zip(params, grads):    # one kernel
            p -= rate * g
    else:
        for p, g in zip(params, grads):    # extents may have to be broadcast
            p -= rate * g
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from jitcore.ir.graph import Node, Value
from jitcore.ir.ops import array_lists
from jitcore.ir.ops.array_lists import rank_in
from jitcore.ir.ops.op import Untypable
from jitcore.ir.specialize import lists as list_values
from jitcore.ir.specialize.branches import BranchBuilder
from jitcore.ir.specialize.visited_items import Items, count_nodes, counted_items
from jitcore.ir.types import LocalListType, is_array

__all__ = ["chosen_by_extents"]

MAX_BODY = 40
"""The largest body of a loop that is built twice."""


def chosen_by_extents(
    worker: BranchBuilder,
    node: Node,
    iterable: Value,
    visited: Items,
    build: Callable[[Items], list[Value] | None],
) -> list[Value] | None:
    """Build both loops; gives the values of their variables.

    None, and nothing is built, where the loop is not one over such lists, or too long.

    Parameters
    ----------
    worker : BranchBuilder
    node : Node
        The loop.
    iterable : Value
    visited : Items
        What it visits, as far as is known without looking at extents.
    build : callable
        Builds a loop over items; gives the values of its variables, or None where these have no
        types that last.
    """
    if worker.heap or count_nodes(node.blocks[0]) > MAX_BODY:
        return None
    start = worker.mark()
    found = _alike(worker, iterable)
    if found is None:
        return None
    condition, alike = found
    try:
        runs: list[Callable[[], list[Value]]] = []
        runs += [partial(_built, build, items) for items in (alike, visited)]
        made, branches = worker.build_branches(condition, runs)
        values = worker.merge(made, branches)
    except Untypable:
        values = None
    if values is None:
        worker.roll_back(start)
    return values


def _built(build: Callable[[Items], list[Value] | None], items: Items) -> list[Value]:
    values = build(items)
    if values is None:
        raise Untypable("variables whose types a loop changes")
    return values


def _alike(worker: BranchBuilder, iterable: Value) -> tuple[Value, Items] | None:
    """Whether the arrays of each iteration have the same extents, and what the loop visits then."""
    values = iterable.node.inputs if iterable.node and iterable.node.kind == "prim::zip" else []
    lists = [value for value in values if _is_list_of_arrays(value)]
    first, *others = [one for one in lists if 0 < rank_in(one) == rank_in(lists[0])] or [iterable]
    if not others:
        return None
    condition = worker.constant(True)
    for other in others:
        same = worker.define(array_lists.have_same_extents, first, other)
        condition = worker.op("prim::and_", condition, same)
    parts = {value: counted_items(worker, value) for value in values}

    def item(i: Value) -> Value:
        leader, row = list_values.list_parts.item_of(worker, first, i), list[Value]()
        for value in values:
            if value is first:
                row.append(leader)
            elif value in others:
                row.append(list_values.list_parts.array_like(worker, value, i, leader))
            else:
                row.append(parts[value].item(i))
        return worker.make_tuple(row)

    return condition, replace(counted_items(worker, iterable), item=item)


def _is_list_of_arrays(value: Value) -> bool:
    """Whether a value is a list of so many arrays as only a run tells."""
    type_ = value.type
    return isinstance(type_, LocalListType) and type_.count is None and is_array(type_.element)
