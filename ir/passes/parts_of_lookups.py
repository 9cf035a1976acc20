"""Rows that are looked up to be read in parts, such as coordinates: each part is looked up."""

from __future__ import annotations

from collections.abc import Sequence

from jitcore.ir import log
from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.graph import Graph, Node
from jitcore.ir.passes.computed_parts import parts_of, views_that_are_read
from jitcore.ir.shapes import dims_of
from jitcore.ir.types import Dim, TensorType

__all__ = ["look_up_parts"]

_MOST_VIEWS = 8
"""How many times a place may be read in the index."""


def look_up_parts(graph: Graph) -> bool:
    """Look up elements of columns in place of columns of rows that are looked up.

    Before::

        graph(%x : Float32[n, 3], %i : Int64[m]):
          %0 : Float32[m, 3] = np::gather[index="$0, :"](%x, %i)
          %1 : Float32[m] = np::view[index=":, 0"](%0)
          %2 : Float32[m] = np::view[index=":, 2"](%0)
          %3 : Float32[m] = np::multiply(%1, %2)
          return (%3)

    After::

        graph(%x : Float32[n, 3], %i : Int64[m]):
          %4 : Float32[n] = np::view[index=":, 0"](%x)
          %5 : Float32[m] = np::gather[index="$0"](%4, %i)
          %6 : Float32[n] = np::view[index=":, 2"](%x)
          %7 : Float32[m] = np::gather[index="$0"](%6, %i)
          %3 : Float32[m] = np::multiply(%5, %7)
          return (%3)

    So the group that computes with them reads them in the table, and nothing is copied.
    """
    found = list[tuple[Node, list[Node]]]()
    for node in graph.find_all_nodes("np::gather"):
        views = views_that_are_read(node)
        if views and _takes_rows(node) and _are_parts(node, views):
            found.append((node, views))
    if not found:
        return False
    analysis = AliasAnalysis(graph, distinct_inputs=True)
    found = [(node, views) for node, views in found if not analysis.has_writers(node.output)]
    for node, views in found:
        _look_up_all(node, views)
    return bool(found)


def _takes_rows(node: Node) -> bool:
    """Whether a node takes rows of an array, of known extents, by arrays of their numbers."""
    index, arrays = parts_of(node), node.inputs[1:]
    leading = [f"${number}" for number in range(len(arrays))]
    row = index[len(arrays) :]
    if not row or index[: len(arrays)] != leading or set(row) != {":"}:
        return False
    if not all(dims_of(one) for one in arrays) or node.attributes.get("order") == "C":
        return False
    return len(dims_of(node.inputs[0]) or ()) == len(index) and _are_known(_row_of(node))


def _row_of(node: Node) -> tuple[Dim, ...]:
    """The extents of the rows that a node takes."""
    return (dims_of(node.inputs[0]) or ())[len(node.inputs) - 1 :]


def _are_known(dims: Sequence[Dim]) -> bool:
    return all(isinstance(dim, int) and dim > 0 for dim in dims)


def _are_parts(node: Node, views: Sequence[Node]) -> bool:
    """Whether views read each row in the same way, and no element of it more than once."""
    own, row = dims_of(node.output) or (), _row_of(node)
    count, read = len(own) - len(row), 0
    if len(views) > _MOST_VIEWS:
        return False
    size = _product(row)
    for view in views:
        parts, dims = parts_of(view), dims_of(view.output) or ()
        is_plain = len(parts) == len(own) and set(parts[:count]) <= {":"} and len(view.inputs) == 1
        if not is_plain or not _are_known(dims[count:]):
            return False
        read += _product(dims[count:])
    return read <= size


def _product(dims: Sequence[Dim]) -> int:
    size = 1
    for dim in dims:
        assert isinstance(dim, int)
        size *= dim
    return size


def _look_up_all(node: Node, views: Sequence[Node]) -> None:
    log.update("parts_of_lookups", lambda: f"look up parts of {node!r}")
    for view in views:
        _look_up(node, view)
    node.destroy()


def _look_up(node: Node, view: Node) -> None:
    """Read a part of the rows in the part of the table."""
    table, *arrays = node.inputs
    type_ = table.type
    assert isinstance(type_, TensorType)
    row = _row_of(node)
    shape = dims_of(node.output)[: -len(row)]
    picked = parts_of(view)[len(shape) :]
    kept = (dims_of(view.output) or ())[len(shape) :]
    whole = (dims_of(table) or ())[: len(arrays)]
    index = ", ".join([*(":" for _ in arrays), *picked])
    part = node.value_before(
        "np::view", [table], TensorType(type_.dtype, (*whole, *kept)), {"index": index}
    )
    places = [*(f"${number}" for number in range(len(arrays))), *(":" for _ in kept)]
    result = node.value_before(
        "np::gather", [part, *arrays], view.output.type, {"index": ", ".join(places)}
    )
    view.output.replace_all_uses_with(result)
    view.destroy()
