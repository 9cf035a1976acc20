"""Lists of objects that are arguments: what ``specialize`` makes of them.

There is an array for each attribute of the objects, and an object is its place in the list: to read
an attribute is to read an element of an array, to set it is to write one.  So it does not matter
under how many names an object is known.  What was written the entry gives back to the objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType

from jitcore.ir.classes import function_of
from jitcore.ir.graph import ITERATORS, Node, Value
from jitcore.ir.operator_methods import BINARY, UNARY
from jitcore.ir.specialize.branches import BranchBuilder
from jitcore.ir.specialize.chosen_elements import checked_index
from jitcore.ir.specialize.lists.list_parts import element_from
from jitcore.ir.specialize.objects.records import call_method, is_stored, setter_of
from jitcore.ir.specialize.skeletons import RecordsAreNotValues
from jitcore.ir.types import (
    ANY,
    CHARACTER,
    INT,
    NONE,
    OBJECT,
    ObjectElementType,
    ObjectListType,
    RecordType,
    TensorType,
    TupleType,
    Type,
    is_number,
)

__all__ = ["apply_to_elements", "element_at", "finish_object_lists", "length_of_objects"]

_CONSTANTS = (int, float, bool, str)
_PASSING = frozenset(
    {
        *("prim::TupleConstruct", "prim::getitem", "prim::CheckBound", "prim::CallFunction"),
        *("prim::Call", *ITERATORS),
    }
)
"""What takes such a value as any other."""


def length_of_objects(objects: Value) -> Value:
    """How many objects there are in a list."""
    assert objects.node is not None
    return objects.node.inputs[-1]


def element_at(worker: BranchBuilder, objects: Value, index: Value) -> Value:
    """The object at a place that is there."""
    return worker.emit("prim::ObjectElement", [index], {}, ObjectElementType(_list_type(objects)))


def _refers(type_: Type) -> bool:
    """Whether a value is, or has in it, such a list or one of its objects."""
    if isinstance(type_, TupleType):
        return any(map(_refers, type_.elements))
    if isinstance(type_, RecordType) and type_ != CHARACTER:
        return any(map(_refers, type_.elements))
    return isinstance(type_, ObjectListType | ObjectElementType)


def apply_to_elements(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value | None:
    """The result of a node that reads or changes such objects; None of all others."""
    first = inputs[0] if inputs else None
    if first is None or not any(_refers(value.type) for value in inputs):
        return None
    if isinstance(first.type, ObjectListType):
        found = _of_list(worker, node, first, inputs)
    elif isinstance(first.type, ObjectElementType):
        found = _of_element(worker, node, first.type, inputs)
    elif is_number(first.type) and node.kind in BINARY:
        assert isinstance(inputs[1].type, ObjectElementType)
        found = _operator(worker, node, inputs[1].type, inputs)
    elif isinstance(first.type, RecordType) or node.kind in _PASSING:
        found = None
    else:
        raise RecordsAreNotValues(f"{node.kind} of an object in a list")
    return found


def _of_list(
    worker: BranchBuilder, node: Node, objects: Value, inputs: Sequence[Value]
) -> Value | None:
    length = length_of_objects(objects)
    if node.kind == "prim::len":
        return length
    if node.kind in ("prim::bool", "prim::not_"):
        # A list without objects is compiled for as such.
        return worker.constant(node.kind == "prim::bool")
    if node.kind == "prim::getitem" and inputs[1].type == INT:
        index = checked_index(worker, inputs[1], length, "list index out of range")
        return element_at(worker, objects, index)
    if node.kind not in _PASSING or node.kind == "prim::getitem":
        raise RecordsAreNotValues(f"{node.kind} of a list of objects")
    return None


def _of_element(
    worker: BranchBuilder, node: Node, type_: ObjectElementType, inputs: list[Value]
) -> Value | None:
    name = node.attributes.get("name", "")
    if node.kind == "prim::GetAttr":
        return _get(worker, type_, name, inputs[0])
    if node.kind == "prim::SetAttr":
        _set(worker, type_, name, inputs)
        return worker.constant(None)
    if node.kind == "prim::CallMethod":
        if "starred" in node.attributes or "**" in node.keywords:
            raise RecordsAreNotValues("a method with starred arguments")
        function = _method(worker, type_, name, node.attributes.get("above"))
        return call_method(worker, function, inputs, node.keywords)
    if node.kind in BINARY or node.kind in UNARY:
        return _operator(worker, node, type_, inputs)
    if node.kind in ("prim::is_", "prim::isnot"):
        return _is_same(worker, node, inputs)
    if node.kind not in _PASSING:
        raise RecordsAreNotValues(f"{node.kind} of an object in a list")
    return None


def _place(worker: BranchBuilder, type_: ObjectElementType, name: str, element: Value) -> Value:
    """The place of an attribute in the array of all objects' attributes of this name."""
    objects = worker.object_lists[type_.objects.number]
    assert objects.node is not None and element.node is not None
    column = objects.node.inputs[type_.objects.names.index(name)]
    return worker.op("np::view", column, element.node.inputs[0], index="$0")


def _get(worker: BranchBuilder, type_: ObjectElementType, name: str, element: Value) -> Value:
    objects = type_.objects
    if name in objects.names:
        number = worker.op("np::item", _place(worker, type_, name, element))
        return element_from(worker, objects.elements[objects.names.index(name)], iter([number]))
    held = worker.class_attribute(objects.class_, name)
    getter = function_of(held.fget) if isinstance(held, property) else None
    if isinstance(getter, FunctionType):
        return call_method(worker, getter, [element], ())
    if type(held) in _CONSTANTS:
        return worker.constant(held)
    raise RecordsAreNotValues(f"{name}, which is no number in all objects of a list")


def _set(
    worker: BranchBuilder, type_: ObjectElementType, name: str, inputs: Sequence[Value]
) -> None:
    objects, (element, value) = type_.objects, inputs
    setter = setter_of(worker, objects.class_, name)
    if setter is not None:
        call_method(worker, setter, [element, value], ())
        return
    if name not in objects.names or not is_stored(worker, objects.class_, name):
        raise RecordsAreNotValues(f"{name}, which is no number in all objects of a list")
    if value.type != objects.elements[objects.names.index(name)]:
        raise RecordsAreNotValues(f"{name}, which becomes {value.type}")
    place = _place(worker, type_, name, element)
    assert isinstance(place.type, TensorType)
    worker.op("np::store", place, worker.op("np::cast", value, dtype=place.type.dtype))
    worker.written_columns.add((objects.number, name))


def _method(
    worker: BranchBuilder, type_: ObjectElementType, name: str, above: type | None
) -> FunctionType:
    found = worker.class_attribute(type_.objects.class_, name, above)
    if name in type_.objects.names or not isinstance(found, FunctionType):
        raise RecordsAreNotValues(f"{name}, which is no plain method")
    return found


def _operator(
    worker: BranchBuilder, node: Node, type_: ObjectElementType, inputs: list[Value]
) -> Value:
    """``x + y`` where the class of the objects defines it."""
    first, *others = inputs
    operands, name = inputs, UNARY.get(node.kind) or BINARY[node.kind][0]
    if not isinstance(first.type, ObjectElementType):
        if not is_number(first.type):
            raise RecordsAreNotValues(f"{node.kind} of {first.type} and an object in a list")
        operands, name = [*others, first], BINARY[node.kind][1]
    for other in operands[1:]:
        if not is_number(other.type) and _class_of(other.type) is not type_.objects.class_:
            raise RecordsAreNotValues("an operator between objects of several classes")
    function = _method(worker, type_, name, None)
    result = call_method(worker, function, operands, ())
    if result.type in (ANY, OBJECT):
        raise RecordsAreNotValues("an operator whose method may give NotImplemented")
    return result


def _is_same(worker: BranchBuilder, node: Node, inputs: Sequence[Value]) -> Value:
    one, other = inputs
    if other.type == NONE:
        return worker.constant(node.kind == "prim::isnot")
    if one.type != other.type or one.node is None or other.node is None:
        raise RecordsAreNotValues("a question whether objects of two lists are the same")
    kind = "prim::eq" if node.kind == "prim::is_" else "prim::ne"
    return worker.op(kind, one.node.inputs[0], other.node.inputs[0])


def _list_type(objects: Value) -> ObjectListType:
    assert isinstance(objects.type, ObjectListType)
    return objects.type


def _class_of(type_: Type) -> type | None:
    if isinstance(type_, ObjectElementType):
        class_: type = type_.objects.class_
        return class_
    return type_.class_ if isinstance(type_, RecordType) else None


def finish_object_lists(worker: BranchBuilder) -> None:
    """Say at the end of the graph which attributes of the objects have been written."""
    classes = [_list_type(one).class_ for one in worker.object_lists]
    if worker.written_columns and len(set(classes)) < len(classes):
        raise RecordsAreNotValues("two lists that may have the same objects")
    for number, name in sorted(worker.written_columns):
        objects = worker.object_lists[number]
        assert objects.node is not None
        column = objects.node.inputs[_list_type(objects).names.index(name)]
        attributes = {"list": number, "name": name}
        worker.block.append("prim::ElementsWrite", [column], attributes, outputs=())
