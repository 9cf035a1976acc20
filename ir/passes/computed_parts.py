"""Arrays that are computed to be read in parts, such as columns: each part where it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jitcore.ir import log
from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.may_raise import may_raise
from jitcore.ir.ops import is_cheap, is_elementwise
from jitcore.ir.shapes import dims_of
from jitcore.ir.types import Dim, TensorType

__all__ = ["compute_parts", "parts_of", "views_that_are_read"]

_REDUCTIONS = frozenset(f"np::{name}" for name in ("sum", "mean", "min", "max", "var", "std"))

_MOST_OFTEN = 3.0
"""How many times the elements of something cheap may be computed."""

_MOST_NODES = 64
"""How many nodes may be added."""


def compute_parts(graph: Graph) -> bool:
    """Read parts of operands in place of parts of what is computed of them.

    Before::

        graph(%x : Float32[n, 3], %y : Float32[n, 3]):
          %0 : Float32[n, 3] = np::subtract(%x, %y)
          %1 : Float32[n] = np::view[index=":, 0"](%0)
          %2 : Float32[n] = np::view[index=":, 2"](%0)
          %3 : Float32[n] = np::multiply(%1, %2)
          return (%3)

    After::

        graph(%x : Float32[n, 3], %y : Float32[n, 3]):
          %4 : Float32[n] = np::view[index=":, 0"](%x)
          %5 : Float32[n] = np::view[index=":, 0"](%y)
          %6 : Float32[n] = np::subtract(%4, %5)
          %7 : Float32[n] = np::view[index=":, 2"](%x)
          %8 : Float32[n] = np::view[index=":, 2"](%y)
          %9 : Float32[n] = np::subtract(%7, %8)
          %3 : Float32[n] = np::multiply(%6, %9)
          return (%3)

    So what is computed of coordinates, or of neighbours, is one loop without an array in between.
    No element is computed more often than the array had it, but of what is cheap.  That may also be
    read as a whole, by what computes or reduces it in loops of its own.
    """
    # The last ones first: what reads parts of operands then makes parts of those be read.
    waiting = [node for block in graph.blocks() for node in block.nodes if _computes_elements(node)]
    if not any(map(views_that_are_read, waiting)):
        return False
    analysis = AliasAnalysis(graph, distinct_inputs=True)
    added, made = 0, set[Node]()
    while waiting and added < _MOST_NODES:
        node = waiting.pop()
        views = views_that_are_read(node)
        if not views or not _is_gain(node, views):
            continue
        if node not in made and not _may_wait(analysis, node, views):
            continue
        results = _compute_all(views, node)
        added += len(results) * (1 + len(results[0].inputs))
        made.update(results)
        # Of these parts are read, too.
        waiting += results
    return bool(made)


def _computes_elements(node: Node) -> bool:
    return is_elementwise(node) and bool(dims_of(node.output))


def views_that_are_read(node: Node) -> list[Node]:
    """The views of a result, where only what computes element by element reads them; else none."""
    found = [one for one in _users(node.output) if not _reads_whole(one, node)]
    waiting = list(found)
    while waiting:
        view = waiting.pop()
        if view is None or not _is_part(view):
            return []
        users = _users(view.output)
        if not users:
            return []
        waiting += [one for one in users if one is None or not _computes_elements(one)]
    return [view for view in found if view is not None]


def _reads_whole(user: Node | None, node: Node) -> bool:
    """Whether a node computes with all elements of something cheap."""
    if user is None or not is_cheap(node):
        return False
    return user.kind in _REDUCTIONS or _computes_elements(user)


def _users(value: Value) -> list[Node | None]:
    """The nodes that read a value; None for what a block returns."""
    return [use.user if isinstance(use.user, Node) else None for use in value.uses]


def _is_part(view: Node) -> bool:
    """Whether a node reads a part of what is computed right in the same block."""
    if view.kind != "np::view":
        return False
    parts, dims, made = parts_of(view), dims_of(view.inputs[0]), view.inputs[0].node
    # Axes of extent 1 before others are for outer products, which would compute all many times.
    if dims is None or "None" in parts[: len(dims)] or set(parts[len(dims) :]) - {"None"}:
        return False
    return made is not None and view.block is made.block


def parts_of(view: Node) -> list[str]:
    """The entries of a node's index."""
    return [part.strip() for part in view.attributes["index"].split(",")]


def _is_gain(node: Node, views: Sequence[Node]) -> bool:
    """Whether the parts together are no more work than the whole."""
    if may_raise(node) or not all(_fits(value, node) for value in node.inputs):
        return False
    often = sum(_share(view, node) for view in views)
    often += any(_reads_whole(user, node) for user in _users(node.output))
    return often <= 1 or (often <= _MOST_OFTEN and is_cheap(node))


def _fits(value: Value, node: Node) -> bool:
    """Whether the type tells along which axes an operand is stretched."""
    own, dims = dims_of(value), dims_of(node.output) or ()
    pairs = zip(reversed(own or ()), reversed(dims), strict=False)
    return all(one in (1, dim) for one, dim in pairs)


def _share(view: Node, node: Node) -> float:
    """Which part of the elements a view has, as far as that is known."""
    share, left = 1.0, iter(dims_of(view.output) or ())
    for part, dim in zip(parts_of(view), dims_of(node.output) or (), strict=False):
        length = next(left) if ":" in part else 1
        if isinstance(dim, int) and isinstance(length, int):
            share *= length / max(dim, 1)
    return share


def _may_wait(analysis: AliasAnalysis, node: Node, views: Sequence[Node]) -> bool:
    """Whether nothing writes to a result, nor to its operands before its last part is read."""
    if analysis.has_writers(node.output):
        return False
    return not any(
        analysis.is_written_between(node.inputs, node, one)
        for view in views
        for one in _with_parts(view)
    )


def _with_parts(view: Node) -> Iterator[Node]:
    """A view, and the views of it."""
    waiting = [view]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += [user for user in _users(one.output) if user and user.kind == "np::view"]


def _compute_all(views: Sequence[Node], node: Node) -> list[Node]:
    log.update("computed_parts", lambda: f"compute parts of {node!r}")
    results = [_compute_at(view, node) for view in views]
    if not node.output.uses:
        node.destroy()
    return results


def _compute_at(view: Node, node: Node) -> Node:
    """Compute the part that a view reads."""
    inputs = [_part_of(view, value, node) for value in node.inputs]
    result = view.value_before(node.kind, inputs, view.output.type, node.attributes)
    view.output.replace_all_uses_with(result)
    view.destroy()
    assert result.node is not None
    return result.node


def _part_of(view: Node, value: Value, node: Node) -> Value:
    """The part of an operand that the part of the result is computed of."""
    own, dims = dims_of(value), dims_of(node.output) or ()
    if not own:
        return value
    missing = len(dims) - len(own)
    left = iter(dims_of(view.output) or ())
    index: list[str] = []
    kept: list[Dim] = []
    for axis, part in enumerate(parts_of(view)):
        if part == "None":
            index.append(part)
            kept.append(1)
            continue
        is_point = ":" not in part
        dim = 1 if is_point else next(left)
        if axis < missing:
            continue
        is_stretched = own[axis - missing] == 1 != dims[axis]
        index.append(("0" if is_point else ":") if is_stretched else part)
        if not is_point:
            kept.append(1 if is_stretched else dim)
    type_ = value.type
    assert isinstance(type_, TensorType)
    attributes = {"index": ", ".join(index)}
    operands = [value, *view.inputs[1:]]
    return view.value_before("np::view", operands, TensorType(type_.dtype, tuple(kept)), attributes)
