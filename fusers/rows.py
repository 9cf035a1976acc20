"""Which reductions a group may hold together with what reads their results.

A group of one shape may end in reductions.  A group that also uses their results is computed row by
row: all of one row of the shape, then the next.  A softmax is such a group::

    %m : Float32[n, 1] = np::max[axis=(1), keepdims=True](%x)
    %d : Float32[n, m] = np::subtract(%x, %m)
    %e : Float32[n, m] = np::exp(%d)
    %s : Float32[n, 1] = np::sum[axis=(1), keepdims=True](%e)
    %y : Float32[n, m] = np::divide(%e, %s)

Its reductions take the same trailing axes away.  What is computed from their results alone has one
element (or one beside axes of extent 1) in each row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jitcore.fusers.elementwise import iteration_dims
from jitcore.ir.graph import Node, Value
from jitcore.ir.ops import REDUCTIONS
from jitcore.ir.shapes import known_dims
from jitcore.ir.types import Dim

__all__ = ["fits_one_nest"]


def fits_one_nest(nodes: Sequence[Node]) -> bool:
    """Whether the nodes have one shape, or are reductions of its rows and what goes with them."""
    reductions = [node for node in nodes if node.kind in REDUCTIONS]
    axes = {tuple(node.attributes["axis"]) for node in reductions}
    if len(axes) > 1:
        return False
    dims = {iteration_dims(node) for node in nodes}
    if dims == {()}:
        return False
    if len(dims) == 1 and not _are_read(reductions, nodes):
        return not any(node.kind == "np::view" for node in nodes)
    return bool(axes) and _fits_rows(nodes, reductions, axes.pop())


def _are_read(reductions: Iterable[Node], nodes: Iterable[Node]) -> bool:
    made = {node.output for node in reductions}
    return any(value in made for node in nodes for value in node.inputs)


def _fits_rows(nodes: Sequence[Node], reductions: Sequence[Node], axes: tuple[int, ...]) -> bool:
    full = iteration_dims(reductions[0])
    if full is None:
        return False
    kept = len(full) - len(axes)
    if axes != tuple(range(kept, len(full))):
        return False
    if any(iteration_dims(node) != full for node in reductions):
        return False
    made = {value for node in nodes for value in node.outputs}
    bare, kept_dims = full[:kept], full[:kept] + (1,) * len(axes)
    return all(
        node.kind in REDUCTIONS or _has_place(node, made, full, bare, kept_dims) for node in nodes
    )


def _has_place(
    node: Node,
    made: set[Value],
    full: tuple[Dim, ...],
    bare: tuple[Dim, ...],
    kept_dims: tuple[Dim, ...],
) -> bool:
    """Whether a node beside the reductions computes a row, or one value of each row."""
    dims = iteration_dims(node)
    if node.kind == "np::store":
        return False
    if node.kind == "np::view":
        return node.inputs[0] in made and dims in (bare, kept_dims)
    if dims == full:
        # Without the reduced axes a result lines up with the last axes, not with its own rows.
        own = [value for value in node.inputs if value in made]
        return not bare or all(known_dims(value) != bare for value in own)
    return dims in (bare, kept_dims)
