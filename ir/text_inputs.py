"""Which inputs of a graph are read character by character, where they are texts."""

from __future__ import annotations

from jitcore.ir.graph import ITERATORS, LOOPS, Graph, Node, Use, Value

__all__ = ["text_inputs"]

_MEASURES = frozenset({"prim::len", "prim::bool", "prim::not_"})
_MAKERS = (list, sorted)


def text_inputs(graph: Graph) -> frozenset[int]:
    """The numbers of the inputs that are subscripted or visited, and not used as a whole."""
    return frozenset(
        number for number, value in enumerate(graph.inputs) if _is_read_in_parts(value, {graph})
    )


def _is_read_in_parts(value: Value, active: set[Graph]) -> bool:
    uses = [use for use in value.uses if not _is_measure(use)]
    return bool(uses) and all(_reads_parts(use, active) for use in uses)


def _is_measure(use: Use) -> bool:
    return isinstance(use.user, Node) and use.user.kind in _MEASURES


def _reads_parts(use: Use, active: set[Graph]) -> bool:
    node = use.user
    if not isinstance(node, Node):
        return False
    if node.kind == "prim::CallFunction":
        callee = node.attributes["graph"]
        if callee in active or "starred" in node.attributes:
            return False
        # What the function only measures may be anything.
        inner = callee.inputs[use.index]
        return _is_read_in_parts(inner, active | {callee}) or all(map(_is_measure, inner.uses))
    if node.kind == "prim::getitem":
        index = node.inputs[1].node
        return use.index == 0 and (index is None or index.kind != "prim::slice")
    if node.kind == "prim::Call":
        return any(node.inputs[0].constant_value is one for one in _MAKERS)
    return node.kind in ITERATORS or (node.kind in LOOPS and use.index == 0)
