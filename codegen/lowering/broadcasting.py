"""Broadcasting of extents that only the run knows: how axes meet, and the checks that they may."""

from __future__ import annotations

from collections.abc import Sequence

from jitcore.codegen.loops import Const, Expr
from jitcore.codegen.lowering.arithmetic import (
    FALSE,
    ONE,
    ZERO,
    both,
    compare,
    either,
    select,
)
from jitcore.codegen.lowering.operands import NotNative
from jitcore.codegen.lowering.state import Lowering
from jitcore.ir.graph import Value
from jitcore.ir.types import Dim, TensorType

__all__ = [
    "Modes",
    "broadcast",
    "broadcast_extents",
    "define_dims",
    "fit_dims",
    "shape_template",
    "stretched",
    "type_dims",
]

Modes = tuple[Expr | None, ...]
"""How each axis of an operand meets the result's: see ``Lazy.modes``."""


def type_dims(value: Value) -> tuple[Dim, ...]:
    """The dims in a value's type."""
    type_ = value.type
    if not isinstance(type_, TensorType) or type_.dims is None:
        raise NotNative(f"%{value.name} has type {type_}")
    return type_.dims


def define_dims(lowering: Lowering, value: Value, dims: Sequence[Expr]) -> tuple[Expr, ...]:
    """The extents of a result, under the symbols its type names them by."""
    return tuple(
        lowering.define(dim, extent) for dim, extent in zip(type_dims(value), dims, strict=True)
    )


def stretched(index: Expr, mode: Expr | None) -> Expr:
    """An index (or a stride) of an axis that may be stretched: 0 where its extent is 1."""
    if mode is None:
        return index
    if mode == ZERO:
        return ZERO
    return select(compare("eq", mode, ONE), ZERO, index)


def shape_template(rank: int, first: int = 0) -> str:
    """The text of a shape as a tuple, over payload numbers from ``first``."""
    numbers = [f"{{{first + axis}}}" for axis in range(rank)]
    return f"({numbers[0]},)" if rank == 1 else f"({','.join(numbers)})"


def fit_dims(
    lowering: Lowering, dims: Sequence[Expr], wanted: Sequence[Expr], message: str
) -> Modes:
    """How the axes of an operand fit given extents; an error site where they do not."""
    if len(dims) > len(wanted):
        raise NotNative("an operand of more dimensions than it is broadcast to")
    wrong: Expr = FALSE
    modes: list[Expr | None] = []
    for own, extent in zip(dims, wanted[len(wanted) - len(dims) :], strict=True):
        mode, mismatch = _meet(lowering, own, extent)
        modes.append(mode)
        wrong = either(wrong, mismatch)
    lowering.fail(wrong, ValueError, message, [*dims, *wanted])
    return tuple(modes)


def _meet(lowering: Lowering, own: Expr, extent: Expr) -> tuple[Expr | None, Expr]:
    """How one axis of an operand meets the result's, and when it does not fit."""
    if own == extent:
        return None, FALSE
    if own == ONE:
        return ZERO, FALSE
    differs = compare("ne", own, extent)
    if own in lowering.never_one or isinstance(own, Const):
        return None, differs
    return own, both(differs, compare("ne", own, ONE))


def broadcast(
    lowering: Lowering, operands: Sequence[Sequence[Expr]], value: Value
) -> tuple[tuple[Expr, ...], tuple[Modes, ...]]:
    """The extents of an elementwise result, and how the axes of each operand meet them."""
    named = [*operands, operands[0]] if value in lowering.in_place else operands
    return broadcast_extents(lowering, operands, type_dims(value), named=named)


def broadcast_extents(
    lowering: Lowering,
    operands: Sequence[Sequence[Expr]],
    types: Sequence[Dim | None],
    message: str = "operands could not be broadcast together with shapes ",
    named: Sequence[Sequence[Expr]] = (),
    exception: type[BaseException] = ValueError,
) -> tuple[tuple[Expr, ...], tuple[Modes, ...]]:
    """Extents broadcast together, under the symbols of ``types``, and how each meets them.

    Extents that no type names have None there.
    ``named`` are the shapes that the error names, by default those of the operands.
    """
    dims = []
    for axis, dim in enumerate(types):
        found: list[Expr] = []
        for operand in operands:
            position = axis - len(types) + len(operand)
            if position >= 0 and operand[position] not in (ONE, *found):
                found.append(operand[position])
        extent = lowering.emitter.shared("extent", _common_extent(lowering, found))
        dims.append(extent if dim is None else lowering.define(dim, extent))
    modes = []
    wrong: Expr = FALSE
    for operand in operands:
        own_modes = []
        for own, extent in zip(operand, dims[len(dims) - len(operand) :], strict=True):
            mode, mismatch = _meet(lowering, own, extent)
            own_modes.append(mode)
            wrong = either(wrong, mismatch)
        modes.append(tuple(own_modes))
    payload = [extent for shape in named or operands for extent in shape]
    lowering.fail(wrong, exception, f"{message}{_shapes(named or operands)} ", payload)
    return tuple(dims), tuple(modes)


def _shapes(operands: Sequence[Sequence[Expr]]) -> str:
    texts = []
    count = 0
    for operand in operands:
        texts.append(shape_template(len(operand), count))
        count += len(operand)
    return " ".join(texts)


def _common_extent(lowering: Lowering, found: Sequence[Expr]) -> Expr:
    """What different extents, none of them surely 1, broadcast to."""
    known: list[Expr] = [extent for extent in found if isinstance(extent, Const)]
    known += [extent for extent in found if extent in lowering.never_one]
    if known:
        return known[0]
    result: Expr = ONE
    for extent in found:
        result = extent if result == ONE else select(compare("eq", result, ONE), extent, result)
    return result
