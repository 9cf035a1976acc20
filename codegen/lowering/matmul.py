"""Matrix products of vectors, matrices and stacks of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jitcore.codegen.loops import Assign, Binary, Call, Const, Do, Expr, If, Stmt
from jitcore.codegen.lowering.accumulator_kinds import accumulator
from jitcore.codegen.lowering.accumulators import kept_in
from jitcore.codegen.lowering.arithmetic import (
    FALSE,
    ONE,
    TRUE,
    ZERO,
    add,
    cast,
    compare,
    constant,
    expression_dtype,
    integer,
    multiply,
)
from jitcore.codegen.lowering.blas_calls import Matrix, blas_pays, call_blas, dot_by_blas
from jitcore.codegen.lowering.broadcasting import Modes, broadcast_extents, define_dims, stretched
from jitcore.codegen.lowering.elements import Elements, load, store, uncollapsed
from jitcore.codegen.lowering.nest import collapse, nest
from jitcore.codegen.lowering.operands import ArrayRef, Element, Lazy, Operand, Pair
from jitcore.codegen.lowering.pairs import combined
from jitcore.codegen.lowering.state import Lowering, Rule
from jitcore.codegen.lowering.walks import reduce_elements
from jitcore.ir.bfloat16 import computed_in
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Node
from jitcore.ir.types import TensorType

__all__ = ["RULES"]

FEW_TERMS = 4
"""With so many terms a sum is computed at once."""

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
        return _wide(load(self.x, uncollapsed([*_own(stack, self.x_modes), *row, k])))

    def right(self, stack: Sequence[Expr], k: Expr, column: Sequence[Expr]) -> Element:
        """The element of ``y`` in a column (none where ``y`` is a vector)."""
        return _wide(load(self.y, uncollapsed([*_own(stack, self.y_modes), k, *column])))


def _wide(element: Element) -> Element:
    """An element as it is multiplied: products of two bytes are added up in float32."""
    return element if isinstance(element, Pair) else cast(element, kept_in(element.dtype).name)


def _own(stack: Sequence[Expr], modes: Modes) -> list[Expr]:
    own = stack[len(stack) - len(modes) :]
    return [stretched(entry, mode) for entry, mode in zip(own, modes, strict=True)]


def _matmul(lowering: Lowering, node: Node) -> Operand:
    x, y = (lowering.array(value) for value in node.inputs)
    if node.attributes.get("function") == "dot":
        x, y = _forward(lowering, x), _forward(lowering, y)
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
        return _vector_product(lowering, product)
    dims = define_dims(lowering, node.output, [*stack, *rows, *columns])
    escapes = lowering.escapes(node.output)
    target = lowering.allocate(node.output.name, dims, computed_in(x.dtype), escapes=escapes)
    if x.dtype == np.float16 and not lowering.target.is_device:
        _fill_in_float32(lowering, product, target, count)
    else:
        _fill_stack(lowering, product, target, count)
    return target


def _fill_in_float32(lowering: Lowering, product: Product, target: ArrayRef, count: int) -> None:
    """Multiply copies in float32, and round each sum once."""
    single = np.dtype(np.float32)
    x, y, sums = (
        lowering.allocate("wide", one.dims, single, escapes=False)
        for one in (product.x, product.y, target)
    )
    for source, copy in ((product.x, x), (product.y, y)):
        _convert(lowering, source, copy)
    _fill_stack(lowering, replace(product, x=x, y=y), sums, count)
    _convert(lowering, sums, target)


def _convert(lowering: Lowering, source: ArrayRef, target: ArrayRef) -> None:
    """Write all elements to an array of another dtype."""
    groups = collapse(lowering, target.dims, [source, target])
    with nest(lowering, target.dims, groups, parallel=True) as index:
        element = cast(load(source, index), target.dtype.name)
        store(lowering, target, index, element)


def _fill_stack(lowering: Lowering, product: Product, target: ArrayRef, count: int) -> None:
    """Compute all products; a stack of matrices that are multiplied by one is one matrix."""
    x = product.x
    if count and not product.y_modes and x.rank > 1 and lowering.is_contiguous(x):
        _fill(lowering, *_flattened(lowering, product, target, count), 0)
    else:
        _fill(lowering, product, target, count)


def _forward(lowering: Lowering, array: ArrayRef) -> ArrayRef:
    """A vector that goes backward in memory, copied, as ``np.dot`` does it."""
    if array.rank != 1 or not isinstance(array.strides[0], Const) or array.strides[0].value > 0:
        return array
    return _copied(lowering, "forward", array)


def _vector_product(lowering: Lowering, product: Product) -> Element:
    """The product of two vectors, by BLAS where NumPy uses it, or one term after the other."""
    x, y = _matrix(product.x, is_left=True), _matrix(product.y, is_left=False)
    found = None if lowering.target.is_device else dot_by_blas(x, y)
    if found is None:
        return _dot(lowering, product, [], [], [])
    suits, call = found
    emitter = lowering.emitter
    dtype = product.x.dtype.name
    if suits == TRUE:
        return emitter.copy("dot", call)
    total = emitter.mutable("total", constant(0, dtype))
    one_by_one: list[Stmt] = []
    with emitter.inside(one_by_one), emitter.loop("k", ZERO, product.terms) as k:
        left, right = product.left([], [], k), product.right([], k, [])
        term = Binary("mul", left, right, dtype)
        emitter.assign(total, Binary("add", total, term, dtype))
    if suits == FALSE:
        emitter.extend(one_by_one)
    else:
        emitter.emit(If(suits, [Assign(total, call)], one_by_one))
    return emitter.copy("dot", total)


def _flattened(
    lowering: Lowering, product: Product, target: ArrayRef, count: int
) -> tuple[Product, ArrayRef]:
    """A stack of matrices, all multiplied by one, is one matrix with all of their rows."""
    x = product.x
    dims = (lowering.size(x.dims[:-1]), x.dims[-1])
    rows = lowering.view(x, dims=dims, strides=lowering.strides(dims))
    result_dims = (dims[0], *target.dims[count + 1 :])
    result = lowering.view(target, dims=result_dims, strides=lowering.strides(result_dims))
    return Product(rows, product.y, (), (), product.terms), result


def _fill(lowering: Lowering, product: Product, target: ArrayRef, count: int) -> None:
    """Compute all elements, by BLAS where it pays."""
    if lowering.target.is_device:
        _on_device(lowering, product, target, count)
        return
    if _has_few_terms(product):
        _by_few_terms(lowering, product, target, count)
        return
    pays = blas_pays(_matrix(product.x, is_left=True), _matrix(product.y, is_left=False))
    by_blas: list[Stmt] = []
    by_loops: list[Stmt] = []
    with lowering.emitter.inside(by_blas):
        _by_blas(lowering, product, target, count)
    with lowering.emitter.inside(by_loops):
        _by_loops(lowering, product, target, count)
    if isinstance(pays, Const):
        lowering.emitter.extend(by_blas if pays.value else by_loops)
    else:
        lowering.emitter.emit(If(pays, by_blas, by_loops))


def _matrix(array: ArrayRef, entries: Sequence[Expr] = (), *, is_left: bool) -> Matrix:
    """One matrix of a stack; a vector is a row on the left and a column on the right."""
    dims, strides = array.dims[-2:], array.strides[-2:]
    if array.rank == 1 and is_left:
        dims, strides = (ONE, *dims), (ONE, *strides)
    elif array.rank == 1:
        dims, strides = (*dims, ONE), (*strides, ONE)
    place = array.offset
    for entry, stride in zip(entries, array.strides, strict=False):
        place = add(place, multiply(entry, stride))
    (rows, columns), (row_stride, column_stride) = dims, strides
    return Matrix(array.pointer, place, (rows, columns), (row_stride, column_stride), array.dtype)


def _by_blas(lowering: Lowering, product: Product, target: ArrayRef, count: int) -> None:
    """One call for each matrix of the stack."""
    with nest(lowering, target.dims[:count]) as stack:
        x = _matrix(product.x, _own(stack.entries, product.x_modes), is_left=True)
        y = _matrix(product.y, _own(stack.entries, product.y_modes), is_left=False)
        z = _matrix(target, stack.entries, is_left=True)
        call_blas(lowering, x, y, z)


def _by_loops(lowering: Lowering, product: Product, target: ArrayRef, count: int) -> None:
    """Loops of our own, by rows of ``y`` or by its columns, whichever are contiguous."""
    y = product.y
    if y.rank == 1 or _is_by_columns(y):
        rows = target.rank - count - int(y.rank > 1)
        _by_dots(lowering, product, target, count, rows)
    else:
        _by_rows(lowering, product, target, count)


def _on_device(lowering: Lowering, product: Product, target: ArrayRef, count: int) -> None:
    """One product of all matrices along the last axis of the stack, where both are matrices."""
    x, y = product.x, product.y
    is_plain = x.rank > 1 and y.rank > 1 and ONE not in (x.dims[-2], y.dims[-1])
    if kept_in(x.dtype).kind != "f" or not is_plain:
        rows = target.rank - count - int(y.rank > 1)
        _by_dots(lowering, product, target, count, rows)
        return
    outer, batch = target.dims[: max(count - 1, 0)], target.dims[count - 1 : count]
    with nest(lowering, outer, ordered=True) as stack:

        def parts(array: ArrayRef, modes: Modes) -> tuple[Expr, ...]:
            entries = _own([*stack.entries, *([ZERO] * len(batch))], modes)
            first = _matrix(array, entries, is_left=True)
            step: Expr = ZERO
            if modes and batch:
                step = stretched(array.strides[len(modes) - 1], modes[-1])
            return (first.pointer, first.offset, step, *first.strides)

        same: Modes = (None,) * count
        args = (
            *parts(x, product.x_modes),
            *parts(y, product.y_modes),
            *parts(target, same),
            target.dims[-2],
            target.dims[-1],
            product.terms,
            *(batch or (ONE,)),
        )
        lowering.emitter.emit(Do(Call(f"cuda.matmul_{x.dtype.name}", args, "void")))


def _has_few_terms(product: Product) -> bool:
    """Whether a sum has so few terms that BLAS would only move them around in memory."""
    x, y = product.x, product.y
    if x.rank == 1 or y.rank == 1 or ONE in (x.dims[-2], y.dims[-1]):
        return False
    if _is_by_columns(y) and y.rank > 2 and not _are_few(y.dims[-1]):
        return False
    return _are_few(product.terms) and x.dtype.kind in "fc"


def _are_few(extent: Expr) -> bool:
    return isinstance(extent, Const) and 0 < extent.value <= FEW_TERMS


def _by_few_terms(lowering: Lowering, product: Product, target: ArrayRef, count: int) -> None:
    """One pass over the result, in which each element is a sum without a loop.

    Of few rows, all take an element of ``y`` when it is read.
    """
    if _is_by_columns(product.y) and not _are_few(product.y.dims[-1]):
        # In C order, since its elements are read for each row of the other one.
        product = replace(product, y=_copied(lowering, "rows", product.y))
    elements = Elements(lowering)
    assert isinstance(product.terms, Const)
    terms = [integer(k) for k in range(product.terms.value)]
    *stack, height, width = target.dims
    low = height.value if isinstance(height, Const) and height.value <= FEW_TERMS else None
    dims = [*stack, height, width] if low is None else [*stack, width]
    with nest(lowering, dims, parallel=True) as index:
        places = [*index.entries]
        column = places.pop()
        rows = [places.pop()] if low is None else [integer(row) for row in range(low)]
        right = [elements.bind("right", product.right(places, k, [column]), "") for k in terms]
        for row in rows:
            left = [elements.bind("left", product.left(places, [row], k), "") for k in terms]
            value = _sum_of_products(left, right, target.dtype)
            store(lowering, target, uncollapsed([*places, row, column]), value)


def _copied(lowering: Lowering, name: str, array: ArrayRef) -> ArrayRef:
    """A copy in C order."""
    copy = lowering.allocate(name, array.dims, array.dtype, escapes=False)
    with nest(lowering, array.dims) as index:
        store(lowering, copy, index, load(array, index))
    return copy


def _sum_of_products(
    left: Sequence[Element], right: Sequence[Element], dtype: np.dtype[Any]
) -> Element:
    """The sum of some products, each rounded together with its addition, as BLAS adds them."""
    part = expression_dtype(dtype)

    def added_to(total: Expr, xs: Sequence[Expr], ys: Sequence[Expr]) -> Expr:
        for x, y in zip(xs, ys, strict=True):
            total = Call("fma", (x, y, total), part)
        return total

    def added(xs: Sequence[Expr], ys: Sequence[Expr]) -> Expr:
        return added_to(Binary("mul", xs[0], ys[0], part), xs[1:], ys[1:])

    if dtype.kind != "c":
        # BLAS begins with zero, which leaves no sum at -0.0.
        first = Call("fma", (left[0], right[0], constant(0, part)), part)
        return added_to(first, left[1:], right[1:])
    re, im = [one.re for one in left], [one.im for one in left]
    other_re, other_im = [one.re for one in right], [one.im for one in right]
    return Pair(
        Binary("sub", added(re, other_re), added(im, other_im), part),
        Binary("add", added(re, other_im), added(im, other_re), part),
    )


def _is_by_columns(y: ArrayRef) -> bool:
    return y.dims[-1] == ONE or (y.strides[-2] == ONE and y.strides[-1] != ONE)


def _dot(
    lowering: Lowering,
    product: Product,
    stack: Sequence[Expr],
    row: Sequence[Expr],
    column: Sequence[Expr],
) -> Element:
    """One element of the result."""
    dtype = kept_in(product.x.dtype)

    def element(places: Sequence[Expr]) -> Element:
        left = product.left(stack, row, places[0])
        right = product.right(stack, places[0], column)
        return combined("mul", left, right, dtype)

    kind = "np::any" if dtype.kind == "b" else "np::sum"
    taker = accumulator(lowering, kind, dtype)
    total = reduce_elements(lowering, taker, [product.terms], element)
    return total if isinstance(total, Pair) else cast(total, computed_in(product.x.dtype).name)


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


def _narrow_product(lowering: Lowering, node: Node) -> Operand:
    """A product whose elements are computed where they are read."""
    if not lowering.is_lazy:
        return _matmul(lowering, node)
    x, y = (lowering.array(value) for value in node.inputs)
    dims = define_dims(lowering, node.output, [*x.dims[:-1], y.dims[1]])
    return Lazy(
        node,
        (x, y),
        dims,
        x.dtype,
        detail=lambda left, right: _sum_of_products(left, right, x.dtype),
    )


RULES: dict[str, Rule] = {"np::matmul": _matmul, "np::narrow_product": _narrow_product}
