"""Loops that count, as Python's loops over ranges: these add up by themselves."""

from __future__ import annotations

from jitcore.ir import log
from jitcore.ir.graph import Graph, Node, Use, Value
from jitcore.ir.types import INT, PrimType

__all__ = ["has_python_ranges", "use_python_ranges"]


def use_python_ranges(graph: Graph) -> bool:
    """Go over the numbers of a range where nothing else is done with a loop's own count.

    Before::

        %n : int = prim::range_length(%start, %stop, %step)
        prim::Loop(%n, %true)
          block0(%i : int):
            %1 : int = prim::mul(%i, %step)
            %k : int = prim::add(%start, %1)
            %2 : Any = prim::CallMethod[name="append"](%x, %k)
            -> (%true)

    After::

        %n : int = prim::range_length(%start, %stop, %step)
        %r : range = prim::range(%start, %stop, %step)
        prim::For(%r)
          block0(%i : int):
            %2 : Any = prim::CallMethod[name="append"](%x, %i)
            -> (%true)

    Only for graphs that Python runs: native loops count from 0.
    """
    changed = False
    for loop in graph.find_all_nodes("prim::Loop"):
        items = _items(loop)
        if items:
            _go_over_range(loop, items)
            changed = True
    if changed:
        log.update("python_ranges", lambda: "go over Python's ranges")
    return changed


def has_python_ranges(graph: Graph) -> bool:
    """Whether there is such a loop."""
    return any(_items(loop) for loop in graph.find_all_nodes("prim::Loop"))


def _items(loop: Node) -> list[Node]:
    """The nodes that compute a range's number of a loop's count; none where that has other uses."""
    length = loop.inputs[0].node
    if length is None or length.kind != "prim::range_length":
        return []
    if loop.inputs[1].constant_value is not True:
        return []
    start, _, step = length.inputs
    count = loop.blocks[0].params[0]
    is_single = step.constant_value == 1
    products = [] if is_single else [_computes(use, "prim::mul", count, step) for use in count.uses]
    counts = [count] if is_single else [one.output for one in products if one is not None]
    found = [_computes(use, "prim::add", start, one) for one in counts for use in one.uses]
    if None in products or None in found:
        return []
    return [one for one in found if one is not None]


def _computes(use: Use, kind: str, first: Value, second: Value) -> Node | None:
    """The node that reads a value, if it is one of this kind of these two."""
    user = use.user
    if not isinstance(user, Node) or user.kind != kind or user.output.type != INT:
        return None
    pairs = zip(user.inputs, (first, second), strict=True)
    return user if all(_are_same(one, other) for one, other in pairs) else None


def _are_same(one: Value, other: Value) -> bool:
    known = one.constant_value
    return one is other or (type(known) is int and known == other.constant_value)


def _go_over_range(loop: Node, items: list[Node]) -> None:
    length = loop.inputs[0].node
    assert length is not None
    start, stop, step = length.inputs
    bounds = [start, stop] if step.constant_value == 1 else [start, stop, step]
    numbers = loop.value_before("prim::range", bounds, PrimType("range"))
    carried = loop.inputs[2:]
    loop.kind = "prim::For"
    for place, value in enumerate((numbers, *carried)):
        loop.set_input(place, value)
    left = loop.inputs.pop()
    left.uses.remove(Use(loop, len(loop.inputs)))
    for one in items:
        products = [value.node for value in one.inputs[1:] if value.node is not None]
        one.output.replace_all_uses_with(loop.blocks[0].params[0])
        one.destroy()
        for product in products:
            if product.block is loop.blocks[0] and not product.output.uses:
                product.destroy()
    if not length.output.uses:
        length.destroy()
