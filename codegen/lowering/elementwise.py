"""Elementwise nodes, creation, stores and fused groups."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitcore.codegen.loops import Expr
from jitcore.codegen.lowering.arithmetic import (
    FALSE,
    ZERO,
    compare,
    either,
)
from jitcore.codegen.lowering.broadcasting import (
    Modes,
    broadcast,
    define_dims,
    fit_dims,
    shape_template,
)
from jitcore.codegen.lowering.elements import SCALARS, Elements, Index, convert, load
from jitcore.codegen.lowering.nest import is_aligned, write
from jitcore.codegen.lowering.operands import (
    ArrayRef,
    Element,
    Lazy,
    NotNative,
    Operand,
    Pair,
)
from jitcore.codegen.lowering.state import Lowering, Rule
from jitcore.ir.graph import Node, Value
from jitcore.ir.types import BOOL, COMPLEX, FLOAT, INT, TensorType, Type

__all__ = [
    "PYTHON_DTYPES",
    "RULES",
    "as_copy",
    "dtype_of",
    "materialize",
    "overwrites_itself",
    "stored",
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
    target = lowering.allocate(value.name, lazy.dims, lazy.dtype, escapes=lowering.escapes(value))
    write(lowering, [(target, lazy)])
    return target


def _delivered(lowering: Lowering, node: Node, lazy: Lazy) -> Operand:
    """A lazy value as it is inside of groups, and computed now elsewhere."""
    return lazy if lowering.is_lazy else materialize(lowering, node.output, lazy)


def _dims(operand: Operand) -> tuple[Expr, ...]:
    return operand.dims if isinstance(operand, (ArrayRef, Lazy)) else ()


def _elementwise(lowering: Lowering, node: Node) -> Operand:
    operands = tuple(lowering.operand(value) for value in node.inputs)
    type_ = node.output.type
    if not isinstance(type_, TensorType) or type_.dtype is None:
        raise NotNative(f"{node.kind} of type {type_}")
    loop_dtype = dtype_of(node.inputs[0])
    dims, modes = broadcast(lowering, [_dims(one) for one in operands], node.output)
    lazy = Lazy(node, operands, dims, type_.dtype, modes, loop_dtype)
    if type_.scalar:
        return Elements(lowering)(lazy, SCALAR_INDEX)
    return _delivered(lowering, node, lazy)


def _full(lowering: Lowering, node: Node) -> Operand:
    value, *dims = node.inputs
    dtype = np.dtype(node.attributes["dtype"])
    element = convert(lowering.operand(value), dtype_of(value), dtype)
    extents = _new_dims(lowering, node, [lowering.scalar(dim) for dim in dims])
    return _delivered(lowering, node, Lazy(node, (element,), extents, dtype, ((),)))


def _new_dims(lowering: Lowering, node: Node, dims: list[Expr]) -> tuple[Expr, ...]:
    """Extents given by the program, which may be negative."""
    negative: Expr = FALSE
    for dim in dims:
        if not lowering.ranges.is_nonnegative(lowering.ranges.form(dim)):
            negative = either(negative, compare("lt", dim, ZERO))
    lowering.fail(negative, ValueError, "negative dimensions are not allowed")
    return define_dims(lowering, node.output, dims)


def _iota(lowering: Lowering, node: Node) -> Operand:
    dtype = np.dtype(node.attributes["dtype"])
    start, step = (
        convert(lowering.operand(value), dtype_of(value), dtype) for value in node.inputs[:2]
    )
    dims = _new_dims(lowering, node, [lowering.scalar(node.inputs[2])])
    return _delivered(lowering, node, Lazy(node, (start, step), dims, dtype, ((), ())))


def _empty(lowering: Lowering, node: Node) -> Operand:
    dims = _new_dims(lowering, node, [lowering.scalar(dim) for dim in node.inputs])
    dtype = np.dtype(node.attributes["dtype"])
    escapes = lowering.escapes(node.output)
    return lowering.allocate(node.output.name, dims, dtype, escapes=escapes)


def as_copy(node: Node, operand: ArrayRef | Lazy) -> Lazy:
    """The elements of an operand, unchanged."""
    modes = ((None,) * operand.rank,)
    return Lazy(node, (operand,), operand.dims, operand.dtype, modes, as_kind="np::copy")


def _copy(lowering: Lowering, node: Node) -> Operand:
    base = lowering.operand(node.inputs[0])
    if not isinstance(base, (ArrayRef, Lazy)):
        return base
    return _delivered(lowering, node, as_copy(node, base))


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


# Stores -----------------------------------------------------------------------------------


def overwrites_itself(value: Operand, target: ArrayRef, *, in_place: bool = True) -> bool:
    """Whether writing a value element by element could change elements it still has to read.

    ``in_place`` says that the value is read at the place that is being written.
    """
    if isinstance(value, ArrayRef):
        return value.may_overlap(target) and not (in_place and value.same_place(target))
    if not isinstance(value, Lazy):
        return False
    if not is_aligned(value):
        return any(overwrites_itself(one, target, in_place=False) for one in value.operands)
    return any(
        overwrites_itself(one, target, in_place=in_place and _is_identity(modes, value.rank))
        for one, modes in zip(value.operands, value.modes, strict=True)
    )


def _is_identity(modes: Modes, rank: int) -> bool:
    return len(modes) == rank and all(mode is None for mode in modes)


def stored(lowering: Lowering, node: Node, value: Operand, target: ArrayRef) -> Operand:
    """A value in a form that can be written to ``target`` while it is computed."""
    if overwrites_itself(value, target):
        name = f"{target.root or 'array'}_new"
        temporary = lowering.allocate(name, value.dims, value.dtype, escapes=False)
        write(lowering, [(temporary, as_copy(node, value))])
        value = temporary
    rank = len(_dims(value))
    message = (
        f"could not broadcast input array from shape {shape_template(rank)} "
        f"into shape {shape_template(target.rank, rank)}"
    )
    if _is_in_place(node):
        message = (
            f"non-broadcastable output operand with shape {shape_template(target.rank, rank)} "
            f"doesn't match the broadcast shape {shape_template(rank)}"
        )
    modes = fit_dims(lowering, _dims(value), target.dims, message)
    return Lazy(node, (value,), target.dims, target.dtype, (modes,))


def _is_in_place(node: Node) -> bool:
    """Whether a store ends an augmented assignment: it writes what was computed from its target."""
    target, value = node.inputs[0], node.inputs[-1]
    return value.node is not None and target in _without_casts(value).inputs


def _without_casts(value: Value) -> Node:
    node = value.node
    assert node is not None
    while node.kind == "np::cast" and node.inputs[0].node is not None:
        node = node.inputs[0].node
    return node


def _store(lowering: Lowering, node: Node) -> Operand:
    target = lowering.array(node.inputs[0])
    value = lowering.operand(node.inputs[1])
    write(lowering, [(target, stored(lowering, node, value, target))])
    lowering.mark_written(target)
    return ()


RULES: dict[str, Rule] = {
    **dict.fromkeys(SCALARS, _elementwise),
    "np::full": _full,
    "np::iota": _iota,
    "np::empty": _empty,
    "np::copy": _copy,
    "np::item": _item,
    "np::store": _store,
}
