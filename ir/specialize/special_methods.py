"""Operators that a class defines itself: ``x + y`` of NamedTuples is ``type(x).__add__(x, y)``."""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType

from jitcore.ir.graph import Value
from jitcore.ir.operator_methods import BINARY, UNARY
from jitcore.ir.ops.op import Untypable
from jitcore.ir.specialize.typed_builder import TypedBuilder
from jitcore.ir.types import ANY, OBJECT, TupleType, is_number

__all__ = ["special_method"]


def special_method(worker: TypedBuilder, kind: str, inputs: Sequence[Value]) -> Value | None:
    """What an operator gives where the class of an operand defines it in Python; None elsewhere.

    Raises
    ------
    Untypable
        Only a run can tell which method is asked.
    """
    classes = [_class_of(value) for value in inputs]
    if not any(classes):
        return None
    if kind in UNARY and classes[0] is not None:
        function = _function(worker, classes[0], UNARY[kind])
        return None if function is None else worker.call_python(function, inputs)
    if kind not in BINARY:
        return None
    functions = [
        None if class_ is None else _function(worker, class_, name)
        for class_, name in zip(classes, BINARY[kind], strict=True)
    ]
    if not any(functions):
        return None
    return _binary(worker, functions, classes, inputs)


def _binary(
    worker: TypedBuilder,
    functions: Sequence[FunctionType | None],
    classes: Sequence[type | None],
    inputs: Sequence[Value],
) -> Value:
    left, right = functions
    start = worker.mark()
    if left is not None and (right is None or classes[0] is classes[1]):
        result = worker.call_python(left, inputs)
    elif right is not None and is_number(inputs[0].type):
        result = worker.call_python(right, inputs[::-1])
    else:
        # Python asks the right operand first where its class is derived from the left one's.
        raise Untypable("which operand's method is asked is known only when the program runs")
    if result.type in (ANY, OBJECT):
        worker.roll_back(start)
        raise Untypable("an operator's method may give NotImplemented")
    return result


def _class_of(value: Value) -> type | None:
    return value.type.named if isinstance(value.type, TupleType) else None


def _function(worker: TypedBuilder, class_: type, name: str) -> FunctionType | None:
    found = worker.class_attribute(class_, name)
    return found if isinstance(found, FunctionType) else None
