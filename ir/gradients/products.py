"""Gradients of products of matrices and of linear algebra."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from jitcore.ir.gradients.activity import rank_of
from jitcore.ir.gradients.expressions import Expression, Operand
from jitcore.ir.graph import Node
from jitcore.ir.shapes import dims_of

if TYPE_CHECKING:
    from jitcore.ir.gradients.reverse import Reverse

__all__ = ["RULES"]


def _transposed(x: Expression, rank: int) -> Expression:
    """The last two axes the other way round."""
    if rank < 2:
        return x
    axes = (*range(rank - 2), rank - 1, rank - 2)
    return x.apply("np::transpose", x, axes=axes)


def _column(x: Expression, rank: int) -> Expression:
    """An array with one more axis at the end."""
    return x.apply("np::view", x, index=", ".join([":"] * rank + ["None"]))


def _row(x: Expression, rank: int) -> Expression:
    """An array with one more axis before the last."""
    return x.apply("np::view", x, index=", ".join([":"] * (rank - 1) + ["None", ":"]))


def _summed(r: Reverse, term: Expression, node: Node, operand: Operand) -> Expression:
    """A stack of matrices summed to the stack that an operand was broadcast from."""
    source = (*dims_of(node.output)[:-2], *dims_of(operand.forward)[-2:])
    return r.summed(term, source, operand.forward)


def _matmul(r: Reverse, node: Node, g: Expression) -> None:
    """``z = x y``: the operands get ``g yᵀ`` and ``xᵀ g``."""
    x, y = (Operand(r, one, node) for one in node.inputs)
    ranks = rank_of(x.forward), rank_of(y.forward)
    if ranks == (1, 1):
        _add(r, x, lambda: g * y)
        _add(r, y, lambda: g * x)
    elif ranks[1] == 1:
        _matrix_by_vector(r, g, x, y)
    elif ranks[0] == 1:
        _vector_by_matrix(r, g, x, y)
    else:
        _add(r, x, lambda: _summed(r, g.apply("np::matmul", g, _transposed(y, ranks[1])), node, x))
        _add(r, y, lambda: _summed(r, g.apply("np::matmul", _transposed(x, ranks[0]), g), node, y))


def _add(r: Reverse, operand: Operand, term: Callable[[], Expression]) -> None:
    if r.activity.is_active(operand.forward):
        r.contribute(operand.forward, term())


def _matrix_by_vector(r: Reverse, g: Expression, x: Operand, y: Operand) -> None:
    rank = rank_of(x.forward)
    _add(r, x, lambda: _column(g, rank - 1) * y)
    if rank == 2:
        _add(r, y, lambda: g.apply("np::matmul", g, x))
    else:
        axes = {"axis": tuple(range(rank - 1)), "keepdims": False}
        _add(r, y, lambda: g.apply("np::sum", _column(g, rank - 1) * x, **axes))


def _vector_by_matrix(r: Reverse, g: Expression, x: Operand, y: Operand) -> None:
    rank = rank_of(y.forward)
    _add(r, y, lambda: _row(g, rank - 1) * _column(x, 1))
    if rank == 2:
        _add(r, x, lambda: g.apply("np::matmul", y, g))
    else:
        axes = {"axis": (*range(rank - 2), rank - 1), "keepdims": False}
        _add(r, x, lambda: g.apply("np::sum", _row(g, rank - 1) * y, **axes))


def _solve(r: Reverse, node: Node, g: Expression) -> None:
    """``x = a⁻¹ b``: ``b`` gets ``a⁻ᵀ g``, ``a`` minus that times ``xᵀ``."""
    a, b = (Operand(r, one, node) for one in node.inputs)
    if rank_of(a.forward) != 2:
        raise r.refusal(node)
    back = g.apply("np::solve", _transposed(a, 2), g)
    _add(r, b, lambda: back)
    x = Operand(r, node.output, node)
    if rank_of(b.forward) == 1:
        _add(r, a, lambda: -(_column(back, 1) * x))
    else:
        _add(r, a, lambda: -(g.apply("np::matmul", back, _transposed(x, 2))))


def _inv(r: Reverse, node: Node, g: Expression) -> None:
    """``y = x⁻¹``: minus ``yᵀ g yᵀ``."""
    y = _transposed(Operand(r, node.output, node), rank_of(node.output))
    r.contribute(node.inputs[0], -(g.apply("np::matmul", g.apply("np::matmul", y, g), y)))


def _det(r: Reverse, node: Node, g: Expression) -> None:
    """The determinant times ``x⁻ᵀ``; of matrices that have an inverse."""
    if rank_of(node.inputs[0]) != 2:
        raise r.refusal(node)
    x, y = Operand(r, node.inputs[0], node), Operand(r, node.output, node)
    inverse = x.apply("np::inv", x)
    r.contribute(node.inputs[0], g * y * _transposed(inverse, 2))


def _cholesky(r: Reverse, node: Node, g: Expression) -> None:
    """``x = l lᵀ``: ``l⁻ᵀ Φ(lᵀ g) l⁻¹``, where Φ takes the lower half (Murray, 2016, eq. 10).

    NumPy reads the lower triangle alone, so that gets what is due to the upper one, too.

    I. Murray, Differentiation of the Cholesky decomposition, arXiv:1602.07527.
    """
    if rank_of(node.output) != 2:
        raise r.refusal(node)
    factor = Operand(r, node.output, node)
    inner = g.apply("np::matmul", _transposed(factor, 2), g)
    inner = inner.apply("np::tril", inner)
    half = inner - inner.apply("np::tril", inner, -1)
    phi = inner - half * 0.5
    left = g.apply("np::solve", _transposed(factor, 2), phi)
    whole = _transposed(g.apply("np::solve", _transposed(factor, 2), _transposed(left, 2)), 2)
    both = (whole + _transposed(whole, 2)) * 0.5
    lower = both.apply("np::tril", both) + both.apply("np::tril", both, -1)
    r.contribute(node.inputs[0], lower)


RULES = {
    "np::matmul": _matmul,
    "np::solve": _solve,
    "np::inv": _inv,
    "np::det": _det,
    "np::cholesky": _cholesky,
}
