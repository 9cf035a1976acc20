"""Lists of numbers: those that are arguments, and those that are returned."""

from __future__ import annotations

import numpy as np

from jitcore.codegen.loops import Call, Const
from jitcore.codegen.lowering.arithmetic import ONE, ZERO, compare, either
from jitcore.codegen.lowering.operands import ArrayRef, ListRef, NotNative, Operand, Owner
from jitcore.codegen.lowering.state import NULL, Lowering, Rule
from jitcore.ir.graph import Node, Value
from jitcore.ir.ops.list_functions import LEFT_TO_PYTHON
from jitcore.ir.types import TensorType

__all__ = ["RULES", "check_lists", "contents", "list_argument", "new_list"]

_KINDS = {
    "int64": "int",
    "float64": "float",
    "bool": "bool",
    "complex128": "complex",
    "object": "object",
    "int8": "code",
}


def list_argument(lowering: Lowering, value: Value) -> ListRef:
    """A list that is an argument."""
    found = lowering.operand(value)
    if not isinstance(found, ListRef):
        raise NotNative(f"%{value.name} is not a list that is an argument")
    return found


def _items(lowering: Lowering, node: Node) -> Operand:
    columns = list_argument(lowering, node.inputs[0]).columns
    type_ = node.output.type
    if not columns or not isinstance(type_, TensorType) or type_.dims is None:
        raise NotNative("a list without elements")
    numbers = columns[node.attributes["column"]]
    lowering.define(type_.dims[0], numbers.dims[0])
    return numbers


def _length(lowering: Lowering, node: Node) -> Operand:
    return list_argument(lowering, node.inputs[0]).length


def contents(lowering: Lowering, value: Value) -> tuple[str, ArrayRef]:
    """The kind of the numbers in an array, and the array."""
    array = lowering.array(value)
    if array.offset != ZERO or not lowering.is_contiguous(array):
        # It lies together all the same: merged variables only do not say so.
        apart = compare("ne", array.strides[0], ONE)
        apart = either(apart, compare("ne", array.offset, ZERO))
        lowering.fail(apart, None, "a list whose numbers do not lie together")
    return _KINDS[array.dtype.name], array


def _write(lowering: Lowering, node: Node) -> Operand:
    argument = list_argument(lowering, node.inputs[0])
    kind, array = contents(lowering, node.inputs[1])
    length = lowering.scalar(node.inputs[2])
    lowering.lists_written.add(argument.input)
    lowering.lists_end = True
    before = argument.columns[0].pointer if argument.columns else NULL
    args = (argument.pointer, before, argument.length, array.pointer, length)
    status = lowering.emitter.let("failed", Call(f"jc_write_{kind}s", args, "int64", external=True))
    lowering.fail(compare("ne", status, Const(0, "int64")), MemoryError)
    return ()


def check_lists(lowering: Lowering) -> None:
    """Refuse what may happen after writes and that only Python can do from the start."""
    late = [site for site in lowering.sites if site.after_write]
    if lowering.lists_end and any(site.exception is not MemoryError for site in late):
        raise NotNative("exceptions after arrays and lists of the caller are written")
    if any(site.message in LEFT_TO_PYTHON for site in late):
        raise NotNative("lists that only Python goes on with after arrays are written")


def _make(lowering: Lowering, node: Node) -> Operand:
    """A new list: an object of Python's, which is counted and returned as arrays are."""
    kind, array = contents(lowering, node.inputs[0])
    args = (array.pointer, lowering.scalar(node.inputs[1]))
    return new_list(lowering, node, Call(f"jc_list_of_{kind}s", args, "ptr", external=True))


def new_list(lowering: Lowering, node: Node, call: Call) -> Operand:
    pointer = lowering.emitter.copy(f"{node.output.name}_object", call)
    lowering.fail(compare("eq", pointer, NULL), MemoryError)
    owner = Owner(pointer, is_object=True)
    lowering.own(owner)
    root = frozenset({pointer.name})
    return ArrayRef(pointer, (), (), np.dtype(np.int64), root, owner=owner, whole=True)


RULES: dict[str, Rule] = {
    "prim::ListItems": _items,
    "prim::ListLength": _length,
    "prim::ListWrite": _write,
    "prim::ListMake": _make,
}
