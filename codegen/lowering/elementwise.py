"""Elementwise nodes, creation, stores and fused groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitcore.codegen.loops import Expr
from jitcore.codegen.lowering.arithmetic import (
    FALSE,
    ZERO,
    add,
    cast,
    compare,
    either,
    integer,
    multiply,
)
from jitcore.codegen.lowering.broadcasting import (
    broadcast,
    define_dims,
    type_dims,
)
from jitcore.codegen.lowering.elements import Elements, Index, convert, load
from jitcore.codegen.lowering.kinds import SCALARS
from jitcore.codegen.lowering.nest import write
from jitcore.codegen.lowering.operands import (
    ArrayRef,
    Element,
    Lazy,
    NotNative,
    Operand,
    Order,
    Pair,
    column_major,
    operand_dims,
    row_major,
)
from jitcore.codegen.lowering.orders import copied_order, is_row_major
from jitcore.codegen.lowering.pieces import Piece
from jitcore.codegen.lowering.ranges import Linear
from jitcore.codegen.lowering.state import Lowering, Rule
from jitcore.ir.bfloat16 import is_bfloat16
from jitcore.ir.graph import Node, Value
from jitcore.ir.types import BOOL, COMPLEX, FLOAT, INT, TensorType, Type

__all__ = [
    "PYTHON_DTYPES",
    "RULES",
    "allocate_result",
    "as_copy",
    "begun_result",
    "dtype_of",
    "materialize",
    "new_dims",
]

PYTHON_DTYPES: dict[Type, np.dtype[Any]] = {
    BOOL: np.dtype(bool),
    INT: np.dtype(np.int64),
    FLOAT: np.dtype(np.float64),
    COMPLEX: np.dtype(np.complex128),
}
SCALAR_INDEX = Index((), ())


def dtype_of(value: Value) -> np.dtype[Any]:
    """The dtype in which native code holds a value or its elements."""
    type_ = value.type
    if isinstance(type_, TensorType) and type_.dtype is not None:
        return type_.dtype
    if type_ in PYTHON_DTYPES:
        return PYTHON_DTYPES[type_]
    raise NotNative(f"%{value.name} of type {type_} is no number and no array")


def materialize(lowering: Lowering, value: Value, lazy: Lazy) -> ArrayRef:
    """Compute a lazy value into new memory."""
    target = allocate_result(lowering, value, lazy)
    write(lowering, [(target, lazy)])
    return target


def allocate_result(lowering: Lowering, value: Value, lazy: Lazy) -> ArrayRef:
    """Memory for a value, in the order NumPy gives it, or its place in a larger array."""
    order = copied_order(lazy)
    if value in lowering.pieces and is_row_major(order):
        target = _piece(lowering, lowering.pieces[value], lazy)
        if target is not None:
            return target
    escapes = lowering.escapes(value)
    return lowering.allocate(value.name, lazy.dims, lazy.dtype, escapes=escapes, order=order)


def _piece(lowering: Lowering, piece: Piece, lazy: Lazy) -> ArrayRef | None:
    """The part of a concatenation's result that is to hold a value; None before its extents are."""
    node = piece.node
    result = begun_result(lowering, node)
    if result is None:
        known = [lowering.symbol(dim) for dim in type_dims(node.output)]
        dims = [extent for extent in known if extent is not None]
        if len(dims) < len(known):
            return None
        escapes = lowering.escapes(node.output)
        result = lowering.allocate(node.output.name, dims, lazy.dtype, escapes=escapes)
        lowering.joined[node] = result
    start = multiply(integer(piece.start), result.strides[node.attributes["axis"]])
    return lowering.view(
        result,
        dims=lazy.dims,
        strides=tuple(result.strides[axis] for axis in piece.axes),
        offset=add(result.offset, start),
        order=row_major(len(piece.axes)),
    )


def begun_result(lowering: Lowering, node: Node) -> ArrayRef | None:
    """The memory of a concatenation, where an operand of it is there already."""
    found = lowering.joined.get(node)
    # What an attempt that was given up has allocated is nobody's.
    return found if found is not None and lowering.owns(found.owner) else None


def _delivered(lowering: Lowering, node: Node, lazy: Lazy) -> Operand:
    """A lazy value as it is inside of groups, and computed now elsewhere."""
    if lowering.is_lazy or _is_read_anew(lowering, node, lazy):
        return lazy
    return materialize(lowering, node.output, lazy)


_INDEXING = frozenset({"np::gather", "np::scatter"})


def _is_read_anew(lowering: Lowering, node: Node, lazy: Lazy) -> bool:
    """Whether an argument is converted wherever it is read, which costs nothing.

    That is so of bfloat16 that becomes float32, and of whole numbers that are only indices.
    """
    array = lazy.operands[0] if node.kind == "np::cast" else None
    if not isinstance(array, ArrayRef) or lowering.writes:
        return False
    users = {use.user for use in node.output.uses}
    is_near = all(isinstance(one, Node) and one.block is node.block for one in users)
    kinds = {one.kind for one in users if isinstance(one, Node)}
    is_index = array.dtype.kind in "iu" and lazy.dtype == np.int64 and kinds <= _INDEXING
    if not is_bfloat16(array.dtype) and not is_index:
        return False
    return is_near and array.owner is None and not lowering.escapes(node.output)


def _elementwise(lowering: Lowering, node: Node) -> Operand:
    operands = tuple(lowering.operand(value) for value in node.inputs)
    type_ = node.output.type
    if not isinstance(type_, TensorType) or type_.dtype is None:
        raise NotNative(f"{node.kind} of type {type_}")
    loop_dtype = dtype_of(node.inputs[0])
    dims, modes = broadcast(lowering, [operand_dims(one) for one in operands], node.output)
    lazy = Lazy(node, operands, dims, type_.dtype, modes, loop_dtype)
    waits = lowering.reduces_lazily and any(isinstance(one, Lazy) for one in operands)
    if type_.scalar and not waits:
        return Elements(lowering)(lazy, SCALAR_INDEX)
    return _delivered(lowering, node, lazy)


def _full(lowering: Lowering, node: Node) -> Operand:
    value, *dims = node.positional
    dtype = np.dtype(node.attributes["dtype"])
    element = convert(lowering.operand(value), dtype_of(value), dtype)
    extents = new_dims(lowering, node, [lowering.scalar(dim) for dim in dims])
    lazy = Lazy(node, (element,), extents, dtype, ((),), _order_like(lowering, node))
    return _delivered(lowering, node, lazy)


def _order_like(lowering: Lowering, node: Node) -> Order | None:
    """The order of a new array that is like another one."""
    if "like" not in node.keywords:
        return None
    if node.attributes["order"] == "A":
        model = lowering.array(node.inputs[-1])
        return column_major(model.rank) if lowering.is_fortran(model) else None
    model = lowering.operand(node.inputs[-1])
    return copied_order(model) if isinstance(model, (ArrayRef, Lazy)) else None


def new_dims(
    lowering: Lowering,
    node: Node,
    dims: Sequence[Expr],
    message: str = "negative dimensions are not allowed",
) -> tuple[Expr, ...]:
    """Extents given by the program, which may be negative."""
    negative: Expr = FALSE
    for dim in dims:
        if not lowering.ranges.is_nonnegative(lowering.ranges.form(dim)):
            negative = either(negative, compare("lt", dim, ZERO))
    lowering.fail(negative, ValueError, message)
    return define_dims(lowering, node.output, dims)


def _iota(lowering: Lowering, node: Node) -> Operand:
    dtype = np.dtype(node.attributes["dtype"])
    start, step = (
        convert(lowering.operand(value), dtype_of(value), dtype) for value in node.inputs[:2]
    )
    dims = new_dims(lowering, node, [lowering.scalar(node.inputs[2])])
    return _delivered(lowering, node, Lazy(node, (start, step), dims, dtype, ((), ())))


def _empty(lowering: Lowering, node: Node) -> Operand:
    dims = new_dims(lowering, node, [lowering.scalar(dim) for dim in node.positional])
    dtype = np.dtype(node.attributes["dtype"])
    escapes = lowering.escapes(node.output)
    order = _order_like(lowering, node)
    return lowering.allocate(node.output.name, dims, dtype, escapes=escapes, order=order)


def as_copy(node: Node, operand: ArrayRef | Lazy) -> Lazy:
    """The elements of an operand, unchanged."""
    modes = ((None,) * operand.rank,)
    return Lazy(node, (operand,), operand.dims, operand.dtype, modes, as_kind="np::copy")


def _copy(lowering: Lowering, node: Node) -> Operand:
    base = lowering.operand(node.inputs[0])
    if not isinstance(base, (ArrayRef, Lazy)):
        return base
    return _delivered(lowering, node, as_copy(node, base))


def _rolled(lowering: Lowering, node: Node) -> Operand:
    base = lowering.array(node.inputs[0])
    lazy = Lazy(node, (base,), base.dims, base.dtype, detail=node.attributes["shifts"])
    return _delivered(lowering, node, lazy)


def _listed(lowering: Lowering, node: Node) -> Operand:
    elements = lowering.array(node.inputs[0])
    if elements.dtype != np.float64:
        if lowering.has_written:
            raise NotNative("an array of a list that may be empty, after a write")
        is_empty = compare("eq", elements.dims[0], ZERO)
        lowering.fail(is_empty, None, "an array of an empty list, whose dtype is float64")
    return _delivered(lowering, node, as_copy(node, elements))


def _item(lowering: Lowering, node: Node) -> Element:
    base = lowering.operand(node.inputs[0])
    if not isinstance(base, ArrayRef):
        return Elements(lowering)(base, SCALAR_INDEX)
    element = load(base, SCALAR_INDEX)
    name = node.output.name
    if isinstance(element, Pair):
        copy = lowering.emitter.copy
        return Pair(copy(f"{name}_re", element.re), copy(f"{name}_im", element.im))
    return lowering.emitter.copy(name, element)


def _from_int(lowering: Lowering, node: Node) -> Element:
    number = lowering.scalar(node.inputs[0])
    dtype = np.dtype(node.attributes["dtype"])
    limits = np.iinfo(dtype)
    form = lowering.ranges.form(number)
    outside: Expr = FALSE
    if not lowering.ranges.is_nonnegative(form.plus(Linear((), -int(limits.min)))):
        outside = compare("lt", number, integer(limits.min))
    too_large = Linear((), int(limits.max)).plus(form, -1)
    if limits.max < np.iinfo(np.int64).max and not lowering.ranges.is_nonnegative(too_large):
        outside = either(outside, compare("gt", number, integer(limits.max)))
    message = f"Python integer {{0}} out of bounds for {dtype.name}"
    lowering.fail(outside, OverflowError, message, [number])
    return lowering.emitter.let(node.output.name, cast(number, dtype.name))


RULES: dict[str, Rule] = {
    **dict.fromkeys(SCALARS, _elementwise),
    "np::from_int": _from_int,
    "np::full": _full,
    "np::iota": _iota,
    "np::empty": _empty,
    "np::copy": _copy,
    "np::rolled": _rolled,
    "np::listed": _listed,
    "np::item": _item,
}
