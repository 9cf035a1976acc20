"""Matrix products by loops of our own: of vectors, matrices and stacks of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jitcore.codegen.loops import Const, Expr
from jitcore.codegen.lowering.accumulators import accumulator
from jitcore.codegen.lowering.arithmetic import (
    ONE,
    ZERO,
    compare,
    constant,
    expression_dtype,
)
from jitcore.codegen.lowering.broadcasting import Modes, broadcast_extents, define_dims, stretched
from jitcore.codegen.lowering.elements import Elements, load, store, uncollapsed
from jitcore.codegen.lowering.nest import nest
from jitcore.codegen.lowering.operands import ArrayRef, Element, Operand, Pair
from jitcore.codegen.lowering.pairs import combined
from jitcore.codegen.lowering.state import Lowering, Rule
from jitcore.codegen.lowering.walks import reduce_elements
from jitcore.ir.graph import Node
from jitcore.ir.types import TensorType

__all__ = ["RULES"]

MISMATCH = (
    "matmul: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature "
    "(n?,k),(k,m?)->(n?,m?) (size {0} is different from {1})"
)


@dataclass(frozen=True, slots=True)
class Product:
    """Both operands, with the modes of their stacks' axes, and the number of terms of a sum."""

    x: ArrayRef
    y: ArrayRef
    x_modes: Modes
    y_modes: Modes
    terms: Expr

    def left(self, stack: Sequence[Expr], row: Sequence[Expr], k: Expr) -> Element:
        """The element of ``x`` in a row (none where ``x`` is a vector)."""
        return load(self.x, uncollapsed([*_own(stack, self.x_modes), *row, k]))

    def right(self, stack: Sequence[Expr], k: Expr, column: Sequence[Expr]) -> Element:
        """The element of ``y`` in a column (none where ``y`` is a vector)."""
        return load(self.y, uncollapsed([*_own(stack, self.y_modes), k, *column]))


def _own(stack: Sequence[Expr], modes: Modes) -> list[Expr]:
    own = stack[len(stack) - len(modes) :]
    return [stretched(entry, mode) for entry, mode in zip(own, modes, strict=True)]


def _matmul(lowering: Lowering, node: Node) -> Operand:
    x, y = (lowering.array(value) for value in node.inputs)
    terms = x.dims[-1]
    other = y.dims[-2] if y.rank > 1 else y.dims[0]
    lowering.fail(compare("ne", terms, other), ValueError, MISMATCH, [other, terms])
    if isinstance(terms, Const):
        other = terms
    type_ = node.output.type
    assert isinstance(type_, TensorType) and type_.dims is not None
    stacks = [x.dims[:-2], y.dims[:-2]]
    count = max(map(len, stacks))
    stack, (x_modes, y_modes) = broadcast_extents(lowering, stacks, type_.dims[:count])
    product = Product(x, y, x_modes, y_modes, terms)
    rows = x.dims[-2:-1]
    columns = y.dims[-1:] if y.rank > 1 else ()
    if type_.scalar:
        return _dot(lowering, product, [], [], [])
    dims = define_dims(lowering, node.output, [*stack, *rows, *columns])
    escapes = lowering.escapes(node.output)
    target = lowering.allocate(node.output.name, dims, x.dtype, escapes=escapes)
    if not columns or (y.strides[-1] != ONE and y.strides[-2] == ONE):
        _by_dots(lowering, product, target, count, len(rows))
    else:
        _by_rows(lowering, product, target, count)
    return target


def _dot(
    lowering: Lowering,
    product: Product,
    stack: Sequence[Expr],
    row: Sequence[Expr],
    column: Sequence[Expr],
) -> Element:
    """One element of the result."""
    dtype = product.x.dtype

    def element(places: Sequence[Expr]) -> Element:
        left = product.left(stack, row, places[0])
        right = product.right(stack, places[0], column)
        return combined("mul", left, right, dtype)

    kind = "np::any" if dtype.kind == "b" else "np::sum"
    return reduce_elements(lowering, accumulator(lowering, kind, dtype), [product.terms], element)


def _by_dots(lowering: Lowering, product: Product, target: ArrayRef, count: int, rows: int) -> None:
    """A dot product for each element: the columns of ``y`` are contiguous, or it is a vector."""
    with nest(lowering, target.dims, parallel=True) as index:
        stack, core = index.entries[:count], index.entries[count:]
        value = _dot(lowering, product, stack, core[:rows], core[rows:])
        store(lowering, target, index, value)


def _by_rows(lowering: Lowering, product: Product, target: ArrayRef, count: int) -> None:
    """Each row of the result is a sum of rows of ``y``, times elements of ``x``."""
    dtype = target.dtype
    part = expression_dtype(dtype)
    zero = constant(0, part)
    elements = Elements(lowering)
    with nest(lowering, target.dims[:-1], parallel=True) as outer:
        with nest(lowering, target.dims[-1:]) as inner:
            index = uncollapsed([*outer.entries, *inner.entries])
            store(lowering, target, index, Pair(zero, zero) if dtype.kind == "c" else zero)
        stack, row = outer.entries[:count], outer.entries[count:]
        with lowering.emitter.loop("k", ZERO, product.terms) as k:
            left = elements.bind("factor", product.left(stack, row, k), "")
            with nest(lowering, target.dims[-1:]) as inner:
                index = uncollapsed([*outer.entries, *inner.entries])
                right = product.right(stack, k, inner.entries)
                term = combined("mul", left, right, dtype)
                store(lowering, target, index, combined("add", load(target, index), term, dtype))


RULES: dict[str, Rule] = {"np::matmul": _matmul}
