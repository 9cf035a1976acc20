"""Objects as the values of their attributes: what ``specialize`` makes of ``prim::RecordMake``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from types import FunctionType
from typing import Any

from jitcore.ir.classes import MISSING, bind_arguments
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.passes.skeletons import RecordsAreNotValues
from jitcore.ir.passes.special_methods import BINARY, UNARY
from jitcore.ir.passes.specialize_branches import BranchBuilder
from jitcore.ir.types import ANY, CHARACTER, OBJECT, RecordType, TupleType, Type, is_number

__all__ = ["apply_to_record", "call_changing_method", "holds_record", "remove_record_states"]

_CONSTANTS = (int, float, bool, str)


def holds_record(type_: Type) -> bool:
    """Whether a value of this type is, or has in it, such an object; characters never change."""
    if isinstance(type_, TupleType):
        return any(map(holds_record, type_.elements))
    return isinstance(type_, RecordType) and type_ != CHARACTER


def apply_to_record(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value | None:
    """The result of a node that makes, changes or reads such an object; None of all others."""
    if node.kind == "prim::RecordMake":
        return _make(worker, node, inputs)
    if node.kind == "prim::RecordSelf":
        return inputs[0]
    if not any(holds_record(value.type) for value in inputs):
        if node.kind == "prim::RecordSet":
            raise RecordsAreNotValues("an attribute of what is no local object")
        return None
    if node.kind in _WITH_PARTS:
        return None
    first = inputs[0]
    if node.kind == "prim::RecordSet":
        return _set(worker, first, node.attributes["name"], inputs[1])
    if node.kind == "prim::GetAttr" and isinstance(first.type, RecordType):
        return _get(worker, node, first)
    if node.kind == "prim::CallMethod" and isinstance(first.type, RecordType):
        function = _method(worker, first.type, node.attributes["name"])
        result, after = _call(worker, function, inputs, node.keywords, first.type.class_)
        return _unchanged(node, result, first, after)
    if node.kind == "prim::isinstance":
        return _is_instance(worker, inputs)
    if node.kind in UNARY or node.kind in BINARY:
        return _operator(worker, node, inputs)
    raise RecordsAreNotValues(f"{node.kind} of an object")


_WITH_PARTS = frozenset({"prim::TupleConstruct", "prim::getitem", "prim::CheckBound"})


def _unchanged(node: Node, result: Value, before: Value, after: Value) -> Value:
    """The result of a method that must not have changed its object."""
    if after is not before:
        raise RecordsAreNotValues("a method that changes an object which others may know")
    if "may_change" in node.attributes and holds_record(result.type):
        raise RecordsAreNotValues("an object that is known elsewhere, and changes later")
    return result


def call_changing_method(
    worker: BranchBuilder, node: Node, inputs: list[Value]
) -> tuple[Value, Value]:
    """What a method gives, and the object after it."""
    first = inputs[0]
    if not isinstance(first.type, RecordType):
        raise RecordsAreNotValues("a method of what is no local object")
    function = _method(worker, first.type, node.attributes["name"])
    result, after = _call(worker, function, inputs, node.keywords, first.type.class_)
    if holds_record(result.type) and node.outputs[0].uses:
        raise RecordsAreNotValues("a method that gives an object which may change later")
    return result, after


def _state(
    worker: BranchBuilder, class_: type, names: Sequence[str], values: Sequence[Value]
) -> Value:
    type_ = RecordType(class_, tuple(names), tuple(value.type for value in values))
    return worker.emit("prim::RecordState", values, {}, type_)


def _fields(record: Value) -> dict[str, Value]:
    if record.node is None or record.node.kind != "prim::RecordState":
        raise RecordsAreNotValues("an object whose attributes are not known")
    assert isinstance(record.type, RecordType)
    return dict(zip(record.type.names, record.node.inputs, strict=True))


def _make(worker: BranchBuilder, node: Node, inputs: Sequence[Value]) -> Value:
    """Call a class."""
    class_: Any = node.inputs[0].constant_value
    for name in ("__new__", "__setattr__", "__getattr__", "__getattribute__"):
        worker.class_attribute(class_, name)
    init = worker.class_attribute(class_, "__init__")
    record = _state(worker, class_, (), ())
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
    names = list(init.__code__.co_varnames[1 : init.__code__.co_argcount])
    plain = all(one.init and one.default_factory is dataclasses.MISSING for one in fields.values())
    if not plain or set(names) != set(fields):
        raise RecordsAreNotValues("a dataclass with fields that are made anew")
    bound = _bound(worker, init, [record, *inputs[1:]], node.keywords)
    for name, value in zip(names, bound[1:], strict=True):
        record = _set(worker, record, name, value)
    return record


def _set(worker: BranchBuilder, record: Value, name: str, value: Value) -> Value:
    assert isinstance(record.type, RecordType)
    class_ = record.type.class_
    if hasattr(worker.class_attribute(class_, name), "__set__"):
        raise RecordsAreNotValues(f"{name}, which is a property that is set")
    fields = _fields(record)
    fields[name] = value
    return _state(worker, class_, tuple(fields), tuple(fields.values()))


def _get(worker: BranchBuilder, node: Node, record: Value) -> Value:
    assert isinstance(record.type, RecordType)
    name, class_ = node.attributes["name"], record.type.class_
    held = worker.class_attribute(class_, name)
    if isinstance(held, property) and isinstance(held.fget, FunctionType):
        result, after = _call(worker, held.fget, [record], (), class_)
        return _unchanged(node, result, record, after)
    fields = _fields(record)
    if name in fields:
        return fields[name]
    if type(held) in _CONSTANTS:
        return worker.constant(held)
    raise RecordsAreNotValues(f"{name}, which is no attribute of the object itself")


def _method(worker: BranchBuilder, type_: RecordType, name: str) -> FunctionType:
    found = worker.class_attribute(type_.class_, name)
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


def _bound(
    worker: BranchBuilder, function: Any, inputs: Sequence[Value], names: Sequence[str]
) -> list[Value]:
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
    bound = _bound(worker, function, inputs, names)
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
        is_tuple = node.kind == "prim::TupleConstruct" and _holds_state(node.output.type)
        if node.kind != "prim::RecordState" and not is_tuple:
            continue
        if node.output.uses:
            raise RecordsAreNotValues("an object that is needed as a whole")
        node.destroy()


def _holds_state(type_: Type) -> bool:
    if isinstance(type_, TupleType):
        return any(map(_holds_state, type_.elements))
    return isinstance(type_, RecordType)
