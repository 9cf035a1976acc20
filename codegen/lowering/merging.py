"""Variables that take a value from one of several paths: numbers, and arrays piece by piece."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from jitcore.codegen.loops import Expr, Var
from jitcore.codegen.lowering.arithmetic import ZERO, constant, expression_dtype, integer
from jitcore.codegen.lowering.broadcasting import type_dims
from jitcore.codegen.lowering.elementwise import PYTHON_DTYPES, dtype_of
from jitcore.codegen.lowering.operands import (
    ArrayRef,
    Lazy,
    NotNative,
    Operand,
    Owner,
    Pair,
    Static,
)
from jitcore.codegen.lowering.orders import lasting_order
from jitcore.codegen.lowering.state import NULL, Lowering
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Value
from jitcore.ir.types import TensorType

__all__ = ["Merge", "is_placeholder", "placeholder"]


def nothing(dtype: str) -> Expr:
    """A value of a dtype for paths that never read it."""
    return NULL if dtype == "ptr" else constant(0, dtype)


def placeholder(value: Value) -> Operand:
    """An operand of a value's type for paths that never read it."""
    type_ = value.type
    if not isinstance(type_, TensorType) and type_ not in PYTHON_DTYPES:
        return Static(None)
    dtype = dtype_of(value)
    if isinstance(type_, TensorType) and not type_.scalar:
        empty = tuple(integer(d) if isinstance(d, int) else ZERO for d in type_dims(value))
        return ArrayRef(NULL, empty, (ZERO,) * len(empty), dtype, frozenset(), whole=True)
    zero = nothing(expression_dtype(dtype))
    return Pair(zero, zero) if dtype.kind == "c" else zero


def is_placeholder(operand: Operand) -> bool:
    """Whether an operand stands for a variable without a value."""
    return operand == Static(None) or (isinstance(operand, ArrayRef) and operand.pointer == NULL)


@dataclass(slots=True)
class Merge:
    """The outputs of an ``If``: variables declared before it, and what each branch assigns.

    ``branches`` holds the operands each branch returns, or None for a branch that never ends;
    ``contiguous`` the identities of those arrays that are in C order without gaps.
    """

    lowering: Lowering
    branches: Sequence[Sequence[Operand] | None]
    contiguous: set[int]
    assignments: list[list[tuple[Var, Expr]]] = field(init=False)
    in_order: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.assignments = [[] for _ in self.branches]

    def output(self, number: int, value: Value) -> Operand:
        """The merged operand of one output."""
        found = [None if one is None else one[number] for one in self.branches]
        if any(isinstance(one, Lazy) for one in found):
            raise NotNative("a lazy value is merged")
        live = [one for one in found if not is_placeholder(one) and one is not None]
        if not live:
            return placeholder(value)
        if isinstance(live[0], ArrayRef):
            return self._array(found, value)
        if isinstance(live[0], Pair):
            return self._pair(found, value.name)
        if isinstance(live[0], (Static, tuple)):
            if any(one != live[0] for one in live):
                raise NotNative(f"%{value.name} of type {value.type} differs between branches")
            return live[0]
        return self._variable(value.name, [None if _is_absent(one) else one for one in found])

    def _variable(self, name: str, found: Sequence[Expr | None]) -> Expr:
        live = [one for one in found if one is not None]
        if all(one == live[0] for one in live) and len(live) == len(found):
            return live[0]  # bound before the branches, or a constant
        var = self.lowering.emitter.mutable(name, nothing(live[0].dtype))
        for assignments, value in zip(self.assignments, found, strict=True):
            if value is not None:
                assignments.append((var, value))
        return var

    def _pair(self, found: Sequence[Operand], name: str) -> Pair:
        pairs = [one if isinstance(one, Pair) else None for one in found]
        return Pair(
            self._variable(f"{name}_re", [one.re if one else None for one in pairs]),
            self._variable(f"{name}_im", [one.im if one else None for one in pairs]),
        )

    def _array(self, found: Sequence[Operand], value: Value) -> ArrayRef:
        name = value.name
        arrays = [
            one if isinstance(one, ArrayRef) and not is_placeholder(one) else None for one in found
        ]
        live = [one for one in arrays if one is not None]
        if len({id(one) for one in live}) == 1 and len(live) == len(found):
            return live[0]
        first = live[0]
        lowering = self.lowering
        types = type_dims(value)
        pointer = self._variable(name, [one.pointer if one else None for one in arrays])
        offset = self._variable(f"{name}_offset", [one.offset if one else None for one in arrays])
        dims = []
        for axis, dim in enumerate(types):
            known = lowering.symbol(dim)
            if known is None:
                extents = [one.dims[axis] if one else None for one in arrays]
                known = lowering.define(dim, self._variable(f"{name}_d{axis}", extents))
            dims.append(known)
        in_order = all(id(one) in self.contiguous for one in live)
        strides = (ZERO,) * len(dims) if in_order else self._strides(name, arrays)
        orders = {lasting_order(one) for one in live}
        merged = ArrayRef(
            pointer,
            tuple(dims),
            strides,
            first.dtype,
            frozenset().union(*(one.roots for one in live)),
            offset,
            owner=self._owner(name, arrays),
            whole=all(one.whole for one in live),
            order=orders.pop() if len(orders) == 1 else None,
        )
        if in_order:
            self.in_order.add(id(merged))
        return merged

    def settled(self, operand: Operand) -> Operand:
        """An output as it is after the ``If``, where its extents have their values."""
        if not isinstance(operand, ArrayRef) or id(operand) not in self.in_order:
            return operand
        return replace(operand, strides=self.lowering.strides(operand.dims))

    def _strides(self, name: str, arrays: Sequence[ArrayRef | None]) -> tuple[Expr, ...]:
        columns = zip(*(one.strides for one in arrays if one is not None), strict=True)
        found: list[Expr] = []
        for axis, _ in enumerate(columns):
            strides = [one.strides[axis] if one else None for one in arrays]
            found.append(self._variable(f"{name}_s{axis}", strides))
        return tuple(found)

    def _owner(self, name: str, arrays: Sequence[ArrayRef | None]) -> Owner | None:
        owners = [one.owner if one is not None else None for one in arrays]
        if all(owner is None for owner in owners):
            return None
        var = self.lowering.emitter.mutable(f"{name}_object", NULL)
        nullable = False
        for assignments, array, owner in zip(self.assignments, arrays, owners, strict=True):
            if owner is not None:
                assignments.append((var, owner.pointer))
            nullable = nullable or (array is not None and (owner is None or owner.nullable))
        return Owner(var, is_object=True, nullable=nullable)


def _is_absent(operand: Operand) -> bool:
    return operand is None or isinstance(operand, Static)
