"""Lists of arrays: buffers whose elements are references to ``ndarray``s, which are counted."""

from __future__ import annotations

from dataclasses import replace

from jitcore.codegen.entries import layout
from jitcore.codegen.loops import Call, Do, Expr, Load, Store, Var
from jitcore.codegen.lowering.arithmetic import ONE, add, compare, integer, multiply
from jitcore.codegen.lowering.broadcasting import define_dims
from jitcore.codegen.lowering.operands import ArrayRef, NotNative, Operand, Owner, row_major
from jitcore.codegen.lowering.state import MAX_RANK, NULL, Lowering, Rule
from jitcore.ir.graph import Node, Value
from jitcore.ir.types import REFERENCE, TensorType

__all__ = ["RULES"]

_WORD = 8
_DATA, _SHAPE = layout.ARRAY_DATA // _WORD, layout.ARRAY_DIMS // _WORD


def _room(lowering: Lowering, node: Node) -> Operand:
    """A new array of objects, with nothing in it; it gives up its elements where it ends."""
    if lowering.target.is_device:
        raise NotNative("lists of arrays are kept on the host")
    extents = define_dims(lowering, node.output, [lowering.scalar(node.inputs[0])])
    call = Call("jc_new_references", extents, "ptr", external=True)
    made = lowering.emitter.copy(f"{node.output.name}_object", call)
    lowering.fail(compare("eq", made, NULL), MemoryError)
    owner = Owner(made, is_object=True)
    lowering.own(owner)
    pointer = lowering.emitter.let(node.output.name, Load(made, integer(_DATA), "ptr"))
    assert isinstance(pointer, Var)
    root = frozenset({pointer.name})
    return ArrayRef(
        pointer,
        tuple(extents),
        (ONE,),
        REFERENCE,
        root,
        owner=owner,
        whole=True,
        order=row_major(1),
    )


def _view(lowering: Lowering, node: Node) -> Operand:
    """The ``ndarray`` that a view is."""
    view = lowering.array(node.inputs[0])
    base = view.owner
    if base is None or not base.is_object or base.nullable:
        raise NotNative("a view of what may be an argument becomes an element of a list")
    size = view.dtype.itemsize
    padding = [ONE] * (MAX_RANK - view.rank)
    steps = [lowering.emitter.shared("step", multiply(one, integer(size))) for one in view.strides]
    place = lowering.emitter.shared("place", multiply(view.offset, integer(size)))
    header = (base.pointer, view.pointer, place, integer(view.rank))
    extents = (*view.dims, *padding, *steps, *padding)
    call = Call("jc_new_view", (*header, *extents), "ptr", external=True)
    made = lowering.emitter.copy(f"{node.output.name}_object", call)
    lowering.fail(compare("eq", made, NULL), MemoryError)
    owner = Owner(made, is_object=True)
    lowering.own(owner)
    return replace(view, owner=owner, whole=True, input=None)


def _place(lowering: Lowering, items: ArrayRef, index: Value) -> Expr:
    return lowering.emitter.let("place", add(items.offset, lowering.scalar(index)))


def _put(lowering: Lowering, node: Node) -> Operand:
    """Put an array into a list, in the place of another one or of none."""
    items, array = lowering.array(node.inputs[0]), lowering.array(node.inputs[2])
    owner = array.owner
    if owner is None or not array.whole or not owner.is_object or owner.nullable:
        raise NotNative("a view, or an argument, becomes an element of a list")
    if not lowering.is_contiguous(array):
        raise NotNative("an array that is not in C order becomes an element of a list")
    place = _place(lowering, items, node.inputs[1])
    lowering.keep(owner)
    before = lowering.emitter.copy("before", Load(items.pointer, place, "ptr"))
    lowering.emitter.emit(Store(items.pointer, place, owner.pointer, items.root))
    lowering.emitter.emit(Do(Call("jc_decref", (before,), "void", external=True)))
    return ()


def _get(lowering: Lowering, node: Node) -> Operand:
    """The array in a list, which lives on where the list gets another one."""
    items, type_ = lowering.array(node.inputs[0]), node.output.type
    assert isinstance(type_, TensorType) and type_.dims is not None and type_.dtype is not None
    place = _place(lowering, items, node.inputs[1])
    found = lowering.emitter.copy(
        f"{node.output.name}_object", Load(items.pointer, place, "ptr", items.root)
    )
    owner = Owner(found, is_object=True)
    lowering.keep(owner)
    lowering.own(owner)
    pointer = lowering.emitter.copy(node.output.name, Load(found, integer(_DATA), "ptr"))
    shape = lowering.emitter.copy("shape", Load(found, integer(_SHAPE), "ptr"))
    extents = [
        integer(dim)
        if isinstance(dim, int)
        else lowering.emitter.copy("extent", Load(shape, integer(axis), "int64"))
        for axis, dim in enumerate(type_.dims)
    ]
    dims = define_dims(lowering, node.output, extents)
    return ArrayRef(
        pointer,
        tuple(dims),
        lowering.strides(dims),
        type_.dtype,
        frozenset({pointer.name}),
        owner=owner,
        whole=True,
        order=row_major(len(dims)),
    )


def _move(lowering: Lowering, node: Node) -> Operand:
    """Copy numbers or references from one place to another, which may overlap."""
    target, items = map(lowering.array, node.inputs)
    if {target.strides, items.strides} != {(ONE,)}:
        raise NotNative("some of the elements of a list")
    places = [target.pointer, target.offset, items.pointer, items.offset, items.dims[0]]
    size, name = integer(target.dtype.itemsize), "jc_move_references"
    if target.dtype != REFERENCE:
        places[1::2] = [
            lowering.emitter.shared("bytes", multiply(one, size)) for one in places[1::2]
        ]
        places[4] = lowering.emitter.shared("bytes", multiply(places[4], size))
        name = "jc_move_bytes"
    lowering.emitter.emit(Do(Call(name, tuple(places), "void", external=True)))
    return ()


RULES: dict[str, Rule] = {
    "prim::ListGet": _get,
    "prim::ListMove": _move,
    "prim::ListPut": _put,
    "prim::ListRoom": _room,
    "prim::ListView": _view,
}
