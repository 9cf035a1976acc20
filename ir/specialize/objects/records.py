"""Objects of users' classes in ``specialize``: their attributes, methods and operators.

An object is a ``prim::RecordState`` of the values of its attributes; a change makes another one,
which ``object_states`` keeps.  Methods, properties and operators are walked in place.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from types import FunctionType, MemberDescriptorType
from typing import Any

from jitcore.ir.classes import MISSING, bind_arguments, function_of
from jitcore.ir.graph import ITERATORS, Graph, Node, Value
from jitcore.ir.operator_methods import BINARY, PROTOCOLS, UNARY
from jitcore.ir.ops import list_functions
from jitcore.ir.ops.library_functions import Deque
from jitcore.ir.ops.op import Untypable
from jitcore.ir.specialize.branches import BranchBuilder
from jitcore.ir.specialize.objects.local_records import is_made
from jitcore.ir.specialize.objects.object_states import attributes_of
from jitcore.ir.specialize.open_functions import call_open_function
from jitcore.ir.specialize.skeletons import (
    RecordsAreNotValues,
)
from jitcore.ir.specialize.value_kinds import holds_object
from jitcore.ir.types import (
    ANY,
    INT,
    NONE,
    OBJECT,
    OpenFunction,
    OpenPartial,
    Origin,
    RecordType,
    SharedListType,
    TensorType,
    is_number,
    is_tracked,
)

__all__ = [
    "apply_to_record",
    "call_method",
    "fields_of",
    "is_stored",
    "remove_record_states",
    "setter_of",
]

_CONSTANTS = (int, float, bool, str)


def apply_to_record(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value | None:
    """The result of a node that makes, changes or reads such an object; None of all others."""
    if worker.methods is not None and is_made(node):
        return _make(worker, node, inputs)
    if not any(holds_object(value.type) for value in inputs):
        if "above" in node.attributes:
            raise RecordsAreNotValues("a method of what is no local object")
        return None
    is_item = node.kind == "prim::getitem" and isinstance(inputs[0].type, RecordType)
    if node.kind in _WITH_PARTS and not is_item:
        return None
    return _apply(worker, node, inputs)


def _apply(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value:
    first = inputs[0]
    if node.kind in _IDENTITY:
        return worker.constant(_is_same(inputs) == (node.kind == "prim::is_"))
    if isinstance(first.type, RecordType) and isinstance(
        first.type.class_, OpenFunction | OpenPartial
    ):
        if node.kind == "prim::Call":
            return call_open_function(worker, node, inputs)
        raise RecordsAreNotValues(f"{node.kind} of a function that is an argument")
    if node.kind == "prim::SetAttr" and isinstance(first.type, RecordType):
        _set(worker, first, node.attributes["name"], inputs[1])
        return worker.constant(None)
    if node.kind == "prim::GetAttr" and isinstance(first.type, RecordType):
        return _get(worker, node, first)
    if node.kind == "prim::CallMethod" and isinstance(first.type, RecordType):
        return _call_method(worker, node, inputs)
    if node.kind == "prim::isinstance":
        return _is_instance(worker, inputs)
    if node.kind in UNARY or node.kind in BINARY:
        return _operator(worker, node, inputs)
    if node.kind in PROTOCOLS and isinstance(first.type, RecordType):
        return _protocol(worker, node, inputs)
    raise RecordsAreNotValues(f"{node.kind} of an object")


def _protocol(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value:
    """``len(x)``, the truth of ``x``, ``x[i]`` and ``x[i] = v``, by methods of the class."""
    record = worker.object_states.latest(inputs[0])
    assert isinstance(record.type, RecordType)
    is_truth = node.kind in ("prim::bool", "prim::not_")
    if is_truth and worker.class_attribute(record.type.class_, "__bool__") is not MISSING:
        raise RecordsAreNotValues("an object whose class says whether it is true")
    function = _method(worker, record, PROTOCOLS[node.kind])
    result = call_method(worker, function, inputs, ())
    if node.kind == "prim::setitem":
        return worker.constant(None)
    if node.kind == "prim::getitem":
        return result
    if result.type != INT:
        raise RecordsAreNotValues(f"an object whose length is {result.type}")
    worker.define(list_functions.require_length, result)
    if not is_truth:
        return result
    return worker.op("prim::eq" if node.kind == "prim::not_" else "prim::ne", result, 0)


_IDENTITY = frozenset({"prim::is_", "prim::isnot"})


def _is_same(inputs: Sequence[Value]) -> bool:
    """Whether two values are one object."""
    if any(value.type == NONE for value in inputs):
        return False
    one, other = (value.type for value in inputs)
    if not isinstance(one, RecordType) or not isinstance(other, RecordType):
        raise RecordsAreNotValues("a question whether an object is something else")
    if one.class_ is not other.class_:
        return False
    if not (is_tracked(one) and is_tracked(other)):
        raise RecordsAreNotValues("a question whether objects are the same")
    if one.origin != other.origin and one.is_argument and other.is_argument:
        raise RecordsAreNotValues("a question whether two arguments are the same object")
    return one.origin == other.origin


_WITH_PARTS = frozenset(
    f"prim::{name}" for name in ("TupleConstruct", "UnionConstruct", "getitem", "CheckBound")
)


def _call_method(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value:
    """What a method gives."""
    own = inputs[0]
    if not isinstance(own.type, RecordType):
        raise RecordsAreNotValues("a method of what is no local object")
    name, above = node.attributes["name"], node.attributes.get("above")
    is_nothing = above is not None and name == "__init__" and len(inputs) == 1
    if is_nothing and worker.class_attribute(own.type.class_, name, above) is _PLAIN_INIT:
        return worker.constant(None)
    own = worker.object_states.latest(own)
    function = _method(worker, own, name, above)
    return call_method(worker, function, inputs, node.keywords)


_PLAIN_INIT = vars(object)["__init__"]


def _with_fields(worker: BranchBuilder, type_: RecordType, fields: dict[str, Value]) -> Value:
    """An object with other attributes."""
    types = tuple(value.type for value in fields.values())
    changed = dataclasses.replace(type_, names=tuple(fields), elements=types)
    return worker.emit("prim::RecordState", list(fields.values()), {}, changed)


def fields_of(worker: BranchBuilder, record: Value) -> dict[str, Value]:
    """The attributes that an object has now."""
    return attributes_of(worker.object_states.latest(record))


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
    states = worker.object_states
    states.put(record)
    arguments, keywords = inputs[1:], node.keywords
    is_data: bool = dataclasses.is_dataclass(class_)
    if is_data and init.__code__.co_filename == "<string>":
        states.put(_data(worker, node, inputs, init, record))
        if worker.class_attribute(class_, "__post_init__") is MISSING:
            return states.latest(record)
        init, arguments, keywords = worker.class_attribute(class_, "__post_init__"), [], ()
    result = call_method(worker, init, [record, *arguments], keywords)
    if result.type != NONE:
        raise RecordsAreNotValues("an __init__ that gives something")
    return states.latest(record)


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
    bound = _bound_arguments(worker, init, [record, *inputs[1:]], node.keywords)
    values = dict(zip(names, bound[1:], strict=True))
    return _with_fields(worker, record.type, {name: values[name] for name in fields})


def is_stored(worker: BranchBuilder, class_: type, name: str) -> bool:
    """Whether an object keeps itself what an attribute is set to."""
    held = worker.class_attribute(class_, name)
    return isinstance(held, MemberDescriptorType) or (
        not hasattr(held, "__set__") and class_.__dictoffset__ != 0
    )


def _set(worker: BranchBuilder, record: Value, name: str, value: Value) -> None:
    assert isinstance(record.type, RecordType)
    class_ = record.type.class_
    setter = setter_of(worker, class_, name)
    if setter is not None:
        call_method(worker, setter, [record, value], ())
        return
    if not is_stored(worker, class_, name):
        raise RecordsAreNotValues(f"{name}, which the class decides about")
    _note(worker, record.type.origin, name, value)
    fields = {**fields_of(worker, record), name: value}
    worker.object_states.change(_with_fields(worker, record.type, fields))


def setter_of(worker: BranchBuilder, class_: type, name: str) -> FunctionType | None:
    """What sets an attribute that is a property; None where there is none of this name."""
    if worker.class_attribute(class_, "__setattr__") is not vars(object)["__setattr__"]:
        raise RecordsAreNotValues(f"{name}, in an object whose class looks at what is set")
    held = worker.class_attribute(class_, name)
    setter = function_of(held.fset) if isinstance(held, property) else None
    return setter if isinstance(setter, FunctionType) else None


def _note(worker: BranchBuilder, origin: Origin, name: str, value: Value) -> None:
    """Note what an attribute of an argument is from here on, but for an array that it was."""
    if worker.methods is None or not worker.methods.notes_attributes:
        return
    if not isinstance(origin, int) or origin < 0:
        return
    if isinstance(value.type, SharedListType):
        raise RecordsAreNotValues("a list that an attribute becomes before an exception")
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
    getter = function_of(held.fget) if isinstance(held, property) else None
    if isinstance(getter, FunctionType):
        return call_method(worker, getter, [record], ())
    fields = fields_of(worker, record)
    if name in fields:
        return fields[name]
    if type(held) in _CONSTANTS:
        return worker.constant(held)
    if record.type.is_argument:
        raise RecordsAreNotValues(f"{name}, an attribute that compiled code has no form of")
    raise RecordsAreNotValues(f"{name}, which is no attribute of the object itself")


def _method(
    worker: BranchBuilder, record: Value, name: str, above: type | None = None
) -> FunctionType:
    type_ = record.type
    assert isinstance(type_, RecordType)
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
    record = worker.object_states.latest(operands[0])
    assert isinstance(record.type, RecordType)
    class_ = record.type.class_
    is_same = all(one.type.class_ is class_ for one in inputs if isinstance(one.type, RecordType))
    if not is_same:
        raise RecordsAreNotValues("an operator between objects of several classes")
    function = _method(worker, record, name)
    result = call_method(worker, function, operands, ())
    if result.type in (ANY, OBJECT):
        raise RecordsAreNotValues("an operator whose method may give NotImplemented")
    return result


def _is_instance(worker: BranchBuilder, inputs: Sequence[Value]) -> Value:
    record, held = inputs[0], inputs[1].constant_value
    classes = held if isinstance(held, tuple) else (held,)
    # A class with a metaclass may answer as it likes.
    if not isinstance(record.type, RecordType) or any(type(one) is not type for one in classes):
        raise RecordsAreNotValues("a question after the class of an object")
    if record.type.class_ is Deque:
        raise RecordsAreNotValues("a question after the class of an object")
    return worker.constant(issubclass(record.type.class_, classes))


def _bound_arguments(
    worker: BranchBuilder, function: Any, inputs: Sequence[Value], names: Sequence[str]
) -> list[Value]:
    """The values of all parameters of a method, whose last inputs have these names."""
    positional = inputs[: len(inputs) - len(names)]
    keywords = dict(zip(names, inputs[len(positional) :], strict=True))
    try:
        bound = bind_arguments(function, positional, keywords, worker.default, worker.make_tuple)
    except Untypable as reason:
        raise RecordsAreNotValues(f"a method whose parameters have defaults: {reason}") from None
    if bound is None:
        raise RecordsAreNotValues("arguments that do not fit the parameters")
    return bound


def _method_graph(worker: BranchBuilder, function: Any) -> Graph | None:
    if worker.methods is None:
        return None
    return worker.methods.graph(function, shares_lists=worker.shared is not None)


def call_method(
    worker: BranchBuilder, function: Any, inputs: Sequence[Value], names: Sequence[str]
) -> Value:
    """Walk a method in place; gives its result."""
    graph = _method_graph(worker, function)
    if graph is None or function in worker.active_methods:
        raise RecordsAreNotValues("a method that is not compiled with the function")
    for capture in graph.captures:
        worker.assume(capture)
    bound = _bound_arguments(worker, function, inputs, names)
    source = worker.source
    worker.active_methods.append(function)
    try:
        (result,) = worker.walk(graph.block, 0, dict(zip(graph.inputs, bound, strict=True)))
    finally:
        worker.active_methods.pop()
    worker.source = source
    return result


_LISTS = ITERATORS | {"prim::ListState"}


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
