"""Gradients of reductions and of scans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jitcore.ir.gradients.activity import dtype_of, rank_of
from jitcore.ir.gradients.expressions import Expression, Operand
from jitcore.ir.graph import Node
from jitcore.ir.shapes import dims_of

if TYPE_CHECKING:
    from jitcore.ir.gradients.reverse import Reverse

__all__ = ["RULES"]


def _spread(r: Reverse, node: Node, given: Expression) -> Expression:
    """A value of a reduction's result for each element that was reduced."""
    (x,) = node.inputs
    rank, axes = rank_of(x), node.attributes["axis"]
    if dims_of(node.output) and not node.attributes["keepdims"]:
        index = ", ".join("None" if axis in axes else ":" for axis in range(rank))
        given = given.apply("np::view", given, index=index)
    return given.apply("np::broadcast_to", given, *r.extents(x))


def _count(r: Reverse, node: Node) -> Expression:
    """How many elements each result is of, as a float."""
    (x,) = node.inputs
    total = r.expression(r.constant(1))
    for axis in node.attributes["axis"]:
        total = total.apply("prim::mul", total, r.extent(x, axis))
    return total.apply("prim::float", total)


def _sum(r: Reverse, node: Node, g: Expression) -> None:
    r.contribute(node.inputs[0], _spread(r, node, g))


def _mean(r: Reverse, node: Node, g: Expression) -> None:
    r.contribute(node.inputs[0], _spread(r, node, g / _count(r, node)))


def _centred(r: Reverse, node: Node) -> Expression:
    x = Operand(r, node.inputs[0], node)
    mean = x.apply("np::mean", x, axis=node.attributes["axis"], keepdims=True)
    return x - mean


def _freedom(r: Reverse, node: Node) -> Expression:
    count = _count(r, node)
    return count.apply("prim::sub", count, float(node.attributes.get("ddof", 0)))


def _var(r: Reverse, node: Node, g: Expression) -> None:
    scale = _spread(r, node, g * 2.0 / _freedom(r, node))
    r.contribute(node.inputs[0], scale * _centred(r, node))


def _std(r: Reverse, node: Node, g: Expression) -> None:
    scale = _spread(r, node, g / (Operand(r, node.output, node) * _freedom(r, node)))
    r.contribute(node.inputs[0], scale * _centred(r, node))


def _extreme(r: Reverse, node: Node, g: Expression) -> None:
    """Elements that are the extreme share what it gets."""
    x, y = node.inputs[0], Operand(r, node.output, node)
    found = Operand(r, x, node).equals(_spread(r, node, y))
    ones = found.apply("np::cast", found, dtype=dtype_of(node.output))
    axes = node.attributes["axis"]
    count = ones.apply("np::sum", ones, axis=axes, keepdims=node.attributes["keepdims"])
    r.contribute(x, ones * _spread(r, node, g / count))


def _prod(r: Reverse, node: Node, g: Expression) -> None:
    """Exact where at most one factor is 0: the product of the others there, 0 elsewhere."""
    x = Operand(r, node.inputs[0], node)
    axes = node.attributes["axis"]
    is_zero = x.equals(0.0)
    others = is_zero.apply("np::where", is_zero, 1.0, x)
    product = others.apply("np::prod", others, axis=axes, keepdims=node.attributes["keepdims"])
    zeros = is_zero.apply("np::cast", is_zero, dtype=dtype_of(node.output))
    count = zeros.apply("np::sum", zeros, axis=axes, keepdims=node.attributes["keepdims"])
    none, one = _spread(r, node, count.equals(0.0)), _spread(r, node, count.equals(1.0))
    whole = _spread(r, node, g * product)
    at_zero = is_zero.apply("np::logical_and", is_zero, one)
    nonzero = whole / others
    at_others = none.apply("np::where", none, nonzero, 0.0)
    r.contribute(node.inputs[0], at_zero.apply("np::where", at_zero, whole, at_others))


def _flipped(g: Expression, rank: int, axis: int) -> Expression:
    index = ", ".join("::-1" if n == axis else ":" for n in range(rank))
    return g.apply("np::view", g, index=index)


def _cumsum(r: Reverse, node: Node, g: Expression) -> None:
    axis, rank = node.attributes["axis"], rank_of(node.inputs[0])
    back = _flipped(g, rank, axis)
    sums = back.apply("np::cumsum", back, axis=axis)
    r.contribute(node.inputs[0], _flipped(sums, rank, axis))


RULES = {
    "np::sum": _sum,
    "np::mean": _mean,
    "np::var": _var,
    "np::std": _std,
    "np::prod": _prod,
    "np::max": _extreme,
    "np::min": _extreme,
    "np::cumsum": _cumsum,
}
