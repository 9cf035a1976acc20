"""The two ends of a native function: its parameters, and the slots of its result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from jitcore.codegen.entries.signature import (
    ArrayResult,
    ConstantResult,
    InputResult,
    Layout,
    Result,
    ScalarResult,
    TupleResult,
    UnionResult,
)
from jitcore.codegen.loops import Const, Expr, Return, Var
from jitcore.codegen.lowering.arithmetic import ONE, ZERO, add, compare, expression_dtype, integer
from jitcore.codegen.lowering.elementwise import PYTHON_DTYPES
from jitcore.codegen.lowering.operands import (
    ArrayRef,
    ListRef,
    NotNative,
    ObjectRef,
    Operand,
    Order,
    Owner,
    Pair,
    Static,
    column_major,
    row_major,
)
from jitcore.codegen.lowering.state import NULL, Lowering
from jitcore.codegen.runtime.generators import is_known
from jitcore.ir.graph import Value
from jitcore.ir.held_lists import HeldListType
from jitcore.ir.types import (
    BOOL,
    CHARACTER,
    COMPLEX,
    FLOAT,
    GENERATORS,
    INT,
    REFERENCE,
    ListType,
    ObjectListType,
    RecordType,
    TensorType,
    TupleType,
    Type,
    UnionType,
)

__all__ = ["Parameters", "Results", "scalar_result"]

_PYTHON_KINDS: dict[Type, Literal["int", "float", "bool", "complex"]] = {
    BOOL: "bool",
    INT: "int",
    FLOAT: "float",
    COMPLEX: "complex",
}


class Parameters:
    """Makes the parameters of the inputs, in order, and binds the inputs to them."""

    def __init__(self, lowering: Lowering, layouts: Sequence[Layout | None]) -> None:
        self.lowering = lowering
        self.params: list[Var] = []
        self._layouts = iter(layouts)
        self._count = 0
        self._may_be_listed = False

    def add(self, value: Value) -> None:
        """The parameters of one input."""
        self._may_be_listed = value in self.lowering.listed
        self.lowering.bind(value, self._operand(value.name, value.type))

    def _operand(self, name: str, type_: Type) -> Operand:
        if isinstance(type_, TupleType):
            return tuple(
                self._operand(f"{name}_{number}", one) for number, one in enumerate(type_.elements)
            )
        layout = next(self._layouts)
        number, self._count = self._count, self._count + 1
        if isinstance(type_, RecordType):
            named = zip(type_.names, type_.elements, strict=True)
            parts = tuple(self._operand(f"{name}_{field}", one) for field, one in named)
            return ObjectRef(parts, number)
        if isinstance(type_, TensorType) and not type_.scalar:
            return self._array(name, type_, layout, number)
        if isinstance(type_, TensorType) or type_ in _PYTHON_KINDS:
            return self._scalar(name, type_)
        if isinstance(type_, ListType | ObjectListType):
            return self._list(name, type_, number)
        return self._generator(name) if type_ in GENERATORS.values() else Static(None)

    def _param(self, name: str, dtype: str) -> Var:
        var = Var(self.lowering.emitter.unique(name), dtype)
        self.params.append(var)
        return var

    def _generator(self, name: str) -> Operand:
        if not is_known():
            raise NotNative("this version of NumPy keeps its generators in a way that is not known")
        return self._param(name, "ptr")

    def _scalar(self, name: str, type_: Type) -> Operand:
        dtype = _scalar_dtype(type_)
        part = expression_dtype(dtype)
        if dtype.kind == "c":
            return Pair(self._param(f"{name}_re", part), self._param(f"{name}_im", part))
        return self._param(name, part)

    def _array(self, name: str, type_: TensorType, layout: Layout | None, number: int) -> ArrayRef:
        if type_.dtype is None or type_.dims is None:
            raise NotNative(f"%{name} is an array of unknown dtype or rank")
        lowering = self.lowering
        pointer = self._param(name, "ptr")
        owner = self._reference(name, number)
        dims: list[Expr] = []
        for axis, dim in enumerate(type_.dims):
            if isinstance(dim, int):
                dims.append(Const(dim, "int64"))
                continue
            extent = self._param(f"{pointer.name}_d{axis}", "int64")
            lowering.never_one.add(extent)
            known = lowering.define(dim, extent)
            # One symbol for several axes: the host code serves calls where they differ.
            lowering.fail(compare("ne", extent, known), None, "extents that were equal differ")
            dims.append(known)
        strides = self._strides(pointer, dims, layout)
        root = pointer.name
        lowering.input_roots[root] = number
        return ArrayRef(
            pointer,
            tuple(dims),
            strides,
            type_.dtype,
            frozenset({root}),
            owner=owner,
            whole=True,
            input=number,
            order=_order(layout, len(dims)),
        )

    def _reference(self, name: str, number: int) -> Owner | None:
        """The object itself where lists may refer to it, which the caller owns."""
        if not self._may_be_listed:
            return None
        self.lowering.listed_inputs.add(number)
        return Owner(self._param(f"{name}_object", "ptr"), is_object=True)

    def _list(self, name: str, type_: ListType | ObjectListType, number: int) -> ListRef:
        pointer = self._param(f"{name}_list", "ptr")
        dtypes = type_.dtypes
        has_objects = isinstance(type_, ObjectListType)
        is_read_here = isinstance(type_, ListType) and isinstance(type_.element, ListType)
        if is_read_here or isinstance(type_, HeldListType):
            self._count_work()
        if not dtypes and not has_objects:
            return ListRef(pointer, (), ZERO, number)
        addresses = [self._param(name, "ptr") for _ in dtypes]
        length = self._param(f"{name}_length", "int64")
        lowering = self.lowering
        if REFERENCE in dtypes:
            lowering.listed_inputs.add(number)
        is_text = isinstance(type_, ListType) and type_.element == CHARACTER
        lowering.ranges.at_least(length, 0 if is_text else 1)
        capacity = lowering.emitter.let(f"{name}_capacity", add(length, integer(2)))
        lowering.never_one.add(capacity)
        columns = tuple(
            ArrayRef(
                address,
                (capacity,),
                (ONE,),
                dtype,
                frozenset({address.name}),
                whole=True,
                order=row_major(1),
            )
            for address, dtype in zip(addresses, dtypes, strict=True)
        )
        self._count_work()
        return ListRef(pointer, columns, length, number)

    def _count_work(self) -> None:
        if self.lowering.work is None:
            self.lowering.work = self.lowering.emitter.mutable("work", ZERO)
            self.lowering.elements_read = self.lowering.emitter.mutable("elements_read", ZERO)

    def _strides(
        self, pointer: Var, dims: Sequence[Expr], layout: Layout | None
    ) -> tuple[Expr, ...]:
        if layout == "strided" or isinstance(layout, tuple):
            return tuple(
                self._param(f"{pointer.name}_s{axis}", "int64") for axis in range(len(dims))
            )
        if layout == "F":
            return tuple(reversed(self.lowering.strides(dims[::-1])))
        return self.lowering.strides(dims)


def _order(layout: Layout | None, rank: int) -> Order | None:
    if isinstance(layout, tuple):
        return layout
    if layout == "strided":
        return None
    return column_major(rank) if layout == "F" else row_major(rank)


def scalar_result(type_: Type) -> ScalarResult | None:
    """How a number leaves a native function; None for what is none."""
    is_scalar = isinstance(type_, TensorType) and type_.scalar
    if not is_scalar and type_ not in _PYTHON_KINDS:
        return None
    return ScalarResult(_PYTHON_KINDS.get(type_, "numpy"), _scalar_dtype(type_))


def _scalar_dtype(type_: Type) -> np.dtype[Any]:
    if isinstance(type_, TensorType):
        if type_.dtype is None:
            raise NotNative("a NumPy scalar of unknown dtype")
        return type_.dtype
    return PYTHON_DTYPES[type_]


class Results:
    """Fills the result slots and hands over the arrays that leave."""

    def __init__(self, lowering: Lowering) -> None:
        self.lowering = lowering
        self._slots: list[Expr] = []
        self._kept: list[Owner] = []

    def finish(self, values: Sequence[Value]) -> Result:
        """Return from the function with these values; several become a tuple."""
        lowering = self.lowering
        for value in values:
            self._refuse_views_of_blocks(value)
        results = [self._result(lowering.operand(value), value.type) for value in values]
        for owner in self._kept:
            if not lowering.disown(owner):
                lowering.keep(owner)
        counts = [one for one in (lowering.work, lowering.elements_read) if one is not None]
        for number, part in enumerate((*self._slots, *counts)):
            lowering.leave_in_slot(number, part)
        lowering.release_all()
        lowering.emitter.emit(Return(ZERO))
        return results[0] if len(results) == 1 else TupleResult(tuple(results))

    def _refuse_views_of_blocks(self, value: Value) -> None:
        """Refuse the loop or the branch that makes a view which is returned.

        The host program runs it then, with native regions inside.
        """
        node = value.node
        if node is None or node.kind in ("prim::TupleConstruct", "prim::UnionConstruct"):
            for item in node.inputs if node is not None else ():
                self._refuse_views_of_blocks(item)
            return
        array = self.lowering.operand(value)
        if node.blocks and isinstance(array, ArrayRef) and _is_view(array):
            reason = NotNative("a view is returned")
            reason.node = node
            raise reason

    def _result(self, operand: Operand, type_: Type) -> Result:
        if isinstance(operand, Static):
            return ConstantResult(operand.value)
        if isinstance(type_, UnionType):
            assert isinstance(operand, tuple)
            return self._union(operand, type_)
        if isinstance(operand, ListRef | ObjectRef):
            return InputResult(operand.input)
        if isinstance(operand, tuple):
            assert isinstance(type_, TupleType)
            elements = zip(operand, type_.elements, strict=True)
            return TupleResult(tuple(self._result(one, t) for one, t in elements), type_.named)
        if isinstance(operand, ArrayRef):
            return self._array(operand, _class_of_rows(type_))
        if type_ in GENERATORS.values():
            raise NotNative("a random generator is returned")
        dtype = _scalar_dtype(type_)
        parts = (operand.re, operand.im) if isinstance(operand, Pair) else (operand,)
        self._slots.extend(parts)
        return ScalarResult(_PYTHON_KINDS.get(type_, "numpy"), dtype)

    def _union(self, operand: tuple[Operand, ...], type_: UnionType) -> Result:
        tag, *held = operand
        self._result(tag, INT)
        pairs = zip(held, type_.alternatives, strict=True)
        return UnionResult(tuple(self._result(one, type_) for one, type_ in pairs))

    def _array(self, array: ArrayRef, named: Any) -> Result:
        if array.input is not None:
            return InputResult(array.input)
        owner = array.owner
        if owner is None or _is_view(array):
            raise NotNative("a view is returned")
        if not owner.is_object:
            raise NotNative("a temporary is returned")
        argument = self._argument(array) if owner.nullable else None
        self._slots.append(owner.pointer)
        self._kept.append(owner)
        return ArrayResult(argument, named)

    def _argument(self, array: ArrayRef) -> int | None:
        """The argument that a variable is where it is no allocation."""
        roots = self.lowering.input_roots
        numbers = {roots[root] for root in array.roots if root in roots}
        if len(numbers) == 1:
            return numbers.pop()
        if self.lowering.written:
            raise NotNative("what is returned may be one of several arguments, and one was written")
        # One of the arguments comes back: only the host knows which.
        assert array.owner is not None
        self.lowering.fail(
            compare("eq", array.owner.pointer, NULL), None, "an argument itself is returned"
        )
        return None


def _class_of_rows(type_: Type) -> Any:
    """The class of the named tuples in a list; None of all else."""
    element = type_.element if isinstance(type_, ListType) else None
    return element.named if isinstance(element, TupleType) else None


def _is_view(array: ArrayRef) -> bool:
    return array.input is None and (array.owner is None or not array.whole)
