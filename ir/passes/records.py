"""Objects as the values of their attributes: what ``specialize`` makes of ``prim::RecordMake``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from itertools import chain
from types import FunctionType, MemberDescriptorType
from typing import Any

from jitcore.ir.classes import MISSING, bind_arguments
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.operator_methods import BINARY, UNARY
from jitcore.ir.passes.open_functions import call_open_function
from jitcore.ir.passes.skeletons import RecordsAreNotValues
from jitcore.ir.passes.specialize_branches import BranchBuilder
from jitcore.ir.types import (
    ANY,
    CHARACTER,
    NONE,
    OBJECT,
    OpenFunction,
    OpenPartial,
    Origin,
    RecordType,
    TensorType,
    TupleType,
    Type,
    UnionType,
    is_number,
)

__all__ = [
    "apply_to_record",
    "bound_arguments",
    "call_changing_method",
    "fields_of",
    "holds_record",
    "is_stored",
    "remove_record_states",
    "setter_of",
]

_CONSTANTS = (int, float, bool, str)


def holds_record(type_: Type) -> bool:
    """Whether a value of this type is, or has in it, such an object; characters never change."""
    if isinstance(type_, TupleType):
        return any(map(holds_record, type_.elements))
    if isinstance(type_, UnionType):
        return any(map(holds_record, type_.alternatives))
    return isinstance(type_, RecordType) and type_ != CHARACTER


def apply_to_record(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value | None:
    """The result of a node that makes, changes or reads such an object; None of all others."""
    if node.kind == "prim::RecordMake":
        return _make(worker, node, inputs)
    if node.kind == "prim::RecordSelf":
        return inputs[0]
    if not any(holds_record(value.type) for value in inputs):
        if node.kind == "prim::RecordSet" or "above" in node.attributes:
            raise RecordsAreNotValues("an attribute of what is no local object")
        return None
    if node.kind in _WITH_PARTS:
        return None
    made_before = worker.made_objects
    result = _apply(worker, node, inputs)
    _require_released(node, inputs, [result], made_before)
    return result


def _apply(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value:
    first = inputs[0]
    if node.kind in _IDENTITY and any(value.type == NONE for value in inputs):
        return worker.constant(_IDENTITY[node.kind])
    if isinstance(first.type, RecordType) and isinstance(
        first.type.class_, OpenFunction | OpenPartial
    ):
        if node.kind == "prim::Call":
            return call_open_function(worker, node, inputs)
        raise RecordsAreNotValues(f"{node.kind} of a function that is an argument")
    if node.kind == "prim::RecordSet":
        return _set(worker, first, node.attributes["name"], inputs[1])
    if node.kind == "prim::GetAttr" and isinstance(first.type, RecordType):
        return _get(worker, node, first)
    if node.kind == "prim::CallMethod" and isinstance(first.type, RecordType):
        return _unchanged(node, *_call_method(worker, node, inputs))
    if node.kind == "prim::isinstance":
        return _is_instance(worker, inputs)
    if node.kind in UNARY or node.kind in BINARY:
        return _operator(worker, node, inputs)
    raise RecordsAreNotValues(f"{node.kind} of an object")


_IDENTITY = {"prim::is_": False, "prim::isnot": True}
"""Whether an object is None, or is not."""

_WITH_PARTS = frozenset({"prim::TupleConstruct", "prim::getitem", "prim::CheckBound"})


def _call_method(
    worker: BranchBuilder, node: Node, inputs: list[Value]
) -> tuple[Value, Value, Value]:
    """What a method gives, its object, and what that is afterwards."""
    own = inputs[0]
    if not isinstance(own.type, RecordType):
        raise RecordsAreNotValues("a method of what is no local object")
    name, above = node.attributes["name"], node.attributes.get("above")
    is_nothing = above is not None and name == "__init__" and len(inputs) == 1
    if is_nothing and worker.class_attribute(own.type.class_, name, above) is _PLAIN_INIT:
        return worker.constant(None), own, own
    function = _method(worker, own.type, name, above)
    result, after = _call(worker, function, inputs, node.keywords, own.type.class_)
    return result, own, after


def _require_released(
    node: Node, inputs: Sequence[Value], results: Sequence[Value], made_before: int
) -> None:
    """Refuse that what changes later is kept, as it is now, in what a node gives."""
    changing = [inputs[number].type for number in sorted(node.attributes.get("may_change", ()))]
    changing = [one for one in changing if isinstance(one, RecordType)]
    if not changing:
        return
    for kept in chain.from_iterable(_records_in(result.type) for result in results):
        is_new = isinstance(kept.origin, int) and kept.origin < -made_before
        if not is_new and any(_may_be_one(kept, one) for one in changing):
            raise RecordsAreNotValues("an object that is known elsewhere, and changes later")


def _records_in(type_: Type) -> Iterator[RecordType]:
    """The objects that a value is, or has in it."""
    if isinstance(type_, RecordType) and type_ != CHARACTER:
        yield type_
    if isinstance(type_, RecordType | TupleType):
        for element in type_.elements:
            yield from _records_in(element)
    if isinstance(type_, UnionType):
        for element in type_.alternatives:
            yield from _records_in(element)


def _may_be_one(one: RecordType, other: RecordType) -> bool:
    """Whether two values may be the same object."""
    if one.class_ is not other.class_ or (one.is_argument and other.is_made):
        return False
    is_different = one.is_argument and other.is_argument and one.origin != other.origin
    return not is_different and not (one.is_made and other.is_argument)


_PLAIN_INIT = vars(object)["__init__"]


def _unchanged(node: Node, result: Value, before: Value, after: Value) -> Value:
    """The result of a method that must not have changed its object."""
    if after is not before:
        raise RecordsAreNotValues("a method that changes an object which others may know")
    return result


def call_changing_method(
    worker: BranchBuilder, node: Node, inputs: list[Value]
) -> tuple[Value, Value]:
    """What a method gives, and the object after it."""
    made_before = worker.made_objects
    result, _, after = _call_method(worker, node, inputs)
    _require_released(node, inputs, [result, after], made_before)
    if holds_record(result.type) and node.outputs[0].uses:
        raise RecordsAreNotValues("a method that gives an object which may change later")
    return result, after


def _with_fields(worker: BranchBuilder, type_: RecordType, fields: dict[str, Value]) -> Value:
    """An object with other attributes."""
    types = tuple(value.type for value in fields.values())
    changed = dataclasses.replace(type_, names=tuple(fields), elements=types)
    return worker.emit("prim::RecordState", list(fields.values()), {}, changed)


def fields_of(record: Value) -> dict[str, Value]:
    """The attributes of an object by their names, in the order in which they were set."""
    if record.node is None or record.node.kind != "prim::RecordState":
        raise RecordsAreNotValues("an object whose attributes are not known")
    assert isinstance(record.type, RecordType)
    return dict(zip(record.type.names, record.node.inputs, strict=True))


def _assume_plain(worker: BranchBuilder, class_: type) -> None:
    """Take for granted that attributes of objects of a class are what they seem to be."""
    for name in ("__new__", "__setattr__", "__getattr__", "__getattribute__", "__del__"):
        worker.class_attribute(class_, name)


def _make(worker: BranchBuilder, node: Node, inputs: Sequence[Value]) -> Value:
    """Call a class."""
    class_: Any = node.inputs[0].constant_value
    _assume_plain(worker, class_)
    init = worker.class_attribute(class_, "__init__")
    worker.made_objects += 1
    record = _with_fields(worker, RecordType(class_, (), (), -worker.made_objects), {})
    arguments, keywords = inputs[1:], node.keywords
    is_data: bool = dataclasses.is_dataclass(class_)
    if is_data and init.__code__.co_filename == "<string>":
        record = _data(worker, node, inputs, init, record)
        if worker.class_attribute(class_, "__post_init__") is MISSING:
            return record
        init, arguments, keywords = worker.class_attribute(class_, "__post_init__"), [], ()
    _, after = _call(worker, init, [record, *arguments], keywords, class_)
    return after


def _data(
    worker: BranchBuilder, node: Node, inputs: Sequence[Value], init: Any, record: Value
) -> Value:
    """What the ``__init__`` of a dataclass does, which Python has made of its fields."""
    assert isinstance(record.type, RecordType)
    class_ = record.type.class_
    fields = {one.name: one for one in dataclasses.fields(class_)}
    code = init.__code__
    names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    plain = all(one.init and one.default_factory is dataclasses.MISSING for one in fields.values())
    if not plain or set(names) != set(fields):
        raise RecordsAreNotValues("a dataclass with fields that are made anew")
    if not all(is_stored(worker, class_, name) for name in names):
        raise RecordsAreNotValues("a dataclass whose fields are properties")
    bound = bound_arguments(worker, init, [record, *inputs[1:]], node.keywords)
    values = dict(zip(names, bound[1:], strict=True))
    return _with_fields(worker, record.type, {name: values[name] for name in fields})


def is_stored(worker: BranchBuilder, class_: type, name: str) -> bool:
    """Whether an object keeps itself what an attribute is set to."""
    held = worker.class_attribute(class_, name)
    return isinstance(held, MemberDescriptorType) or (
        not hasattr(held, "__set__") and class_.__dictoffset__ != 0
    )


def _set(worker: BranchBuilder, record: Value, name: str, value: Value) -> Value:
    assert isinstance(record.type, RecordType)
    class_ = record.type.class_
    setter = setter_of(worker, class_, name)
    if setter is not None:
        return _call(worker, setter, [record, value], (), class_)[1]
    if not is_stored(worker, class_, name):
        raise RecordsAreNotValues(f"{name}, which the class decides about")
    _note(worker, record.type.origin, name, value)
    return _with_fields(worker, record.type, {**fields_of(record), name: value})


def setter_of(worker: BranchBuilder, class_: type, name: str) -> FunctionType | None:
    """What sets an attribute that is a property; None where there is none of this name."""
    if worker.class_attribute(class_, "__setattr__") is not vars(object)["__setattr__"]:
        raise RecordsAreNotValues(f"{name}, in an object whose class looks at what is set")
    held = worker.class_attribute(class_, name)
    setter = held.fset if isinstance(held, property) else None
    return setter if isinstance(setter, FunctionType) else None


def _note(worker: BranchBuilder, origin: Origin, name: str, value: Value) -> None:
    """Note what an attribute of an argument is from here on, but for an array that it was."""
    if worker.methods is None or not worker.methods.notes_attributes:
        return
    if not isinstance(origin, int) or origin < 0:
        return
    is_array = isinstance(value.type, TensorType) and not value.type.scalar
    if is_array and worker.objects[origin].attributes.get(name) is value:
        return
    attributes = {"object": origin, "name": name}
    worker.block.append(
        "prim::AttributeNote", [value], attributes, outputs=(), source=worker.source
    )


def _get(worker: BranchBuilder, node: Node, record: Value) -> Value:
    assert isinstance(record.type, RecordType)
    name, class_ = node.attributes["name"], record.type.class_
    held = worker.class_attribute(class_, name)
    if isinstance(held, property) and isinstance(held.fget, FunctionType):
        result, after = _call(worker, held.fget, [record], (), class_)
        return _unchanged(node, result, record, after)
    fields = fields_of(record)
    if name in fields:
        return fields[name]
    if type(held) in _CONSTANTS:
        return worker.constant(held)
    if record.type.is_argument:
        raise RecordsAreNotValues(f"{name}, an attribute that compiled code has no form of")
    raise RecordsAreNotValues(f"{name}, which is no attribute of the object itself")


def _method(
    worker: BranchBuilder, type_: RecordType, name: str, above: type | None = None
) -> FunctionType:
    found = worker.class_attribute(type_.class_, name, above)
    if name in type_.names or not isinstance(found, FunctionType):
        raise RecordsAreNotValues(f"{name}, which is no plain method")
    return found


def _operator(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value:
    """``x + y`` where the class of one of them defines it."""
    first, *others = inputs
    operands, name = inputs, UNARY.get(node.kind) or BINARY[node.kind][0]
    if not isinstance(first.type, RecordType):
        if not is_number(first.type) or node.kind not in BINARY:
            raise RecordsAreNotValues(f"{node.kind} of {first.type} and an object")
        operands, name = [*others, first], BINARY[node.kind][1]
    record = operands[0]
    assert isinstance(record.type, RecordType)
    class_ = record.type.class_
    is_same = all(one.type.class_ is class_ for one in inputs if isinstance(one.type, RecordType))
    if not is_same:
        raise RecordsAreNotValues("an operator between objects of several classes")
    function = _method(worker, record.type, name)
    result, after = _call(worker, function, operands, (), class_)
    if result.type in (ANY, OBJECT):
        raise RecordsAreNotValues("an operator whose method may give NotImplemented")
    return _unchanged(node, result, record, after)


def _is_instance(worker: BranchBuilder, inputs: Sequence[Value]) -> Value:
    record, held = inputs[0], inputs[1].constant_value
    classes = held if isinstance(held, tuple) else (held,)
    # A class with a metaclass may answer as it likes.
    if not isinstance(record.type, RecordType) or any(type(one) is not type for one in classes):
        raise RecordsAreNotValues("a question after the class of an object")
    return worker.constant(issubclass(record.type.class_, classes))


def bound_arguments(
    worker: BranchBuilder, function: Any, inputs: Sequence[Value], names: Sequence[str]
) -> list[Value]:
    """The values of all parameters of a method, whose last inputs have these names."""
    positional = inputs[: len(inputs) - len(names)]
    keywords = dict(zip(names, inputs[len(positional) :], strict=True))
    bound = bind_arguments(function, positional, keywords, worker.default, worker.make_tuple)
    if bound is None:
        raise RecordsAreNotValues("arguments that do not fit the parameters")
    return bound


def _call(
    worker: BranchBuilder,
    function: Any,
    inputs: Sequence[Value],
    names: Sequence[str],
    class_: type,
) -> tuple[Value, Value]:
    """Walk a method in place: what it gives, and its object afterwards."""
    methods = worker.methods
    graph = methods.method(function, class_) if methods is not None else None
    if graph is None or function in worker.active_methods:
        raise RecordsAreNotValues("a method that is not compiled with the function")
    for capture in graph.captures:
        worker.assume(capture)
    bound = bound_arguments(worker, function, inputs, names)
    source = worker.source
    worker.active_methods.append(function)
    try:
        result, after = worker.walk(graph.block, 0, dict(zip(graph.inputs, bound, strict=True)))
    finally:
        worker.active_methods.pop()
    worker.source = source
    return result, after


_LISTS = frozenset({"prim::ListState", "prim::zip", "prim::enumerate", "prim::reversed"})


def remove_record_states(graph: Graph) -> None:
    """Remove the nodes that said what objects are made of.

    Raises
    ------
    RecordsAreNotValues
        Something still reads one.
    """
    nodes = list(graph.nodes())
    for node in reversed(nodes):
        if node.kind in _LISTS and not node.output.uses:
            # A list of what is known one by one, which nothing reads any more.
            node.destroy()
            continue
        if len(node.outputs) != 1 or not _holds_state(node.output):
            continue
        if node.output.uses:
            raise RecordsAreNotValues("an object that is needed as a whole")
        node.destroy()


_STATES = frozenset({"prim::RecordState", "prim::ObjectList", "prim::ObjectElement"})


def _holds_state(value: Value) -> bool:
    """Whether a value is what stands for an object, or a tuple or union with such values."""
    node = value.node
    if node is not None and node.kind in ("prim::TupleConstruct", "prim::UnionConstruct"):
        return any(map(_holds_state, node.inputs))
    return node is not None and node.kind in _STATES
