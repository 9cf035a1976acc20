"""Calls of functions that are arguments, perhaps made anew for each call of the program.

Such a function is an object like others: its attributes are the variables around it that it reads,
and the defaults of its parameters.  Its code is what the program is compiled for.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence

from jitcore.ir.classes import bind_arguments
from jitcore.ir.graph import Node, Value
from jitcore.ir.ops.op import Untypable
from jitcore.ir.specialize.branches import BranchBuilder
from jitcore.ir.specialize.skeletons import RecordsAreNotValues
from jitcore.ir.types import OpenFunction, OpenPartial, RecordType

__all__ = ["call_open_function"]


def call_open_function(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value:
    """Walk the function's code in place, with what it holds for the variables around it."""
    if "starred" in node.attributes or "**" in node.keywords:
        raise RecordsAreNotValues("a function with starred arguments")
    positional = inputs[1 : len(inputs) - len(node.keywords)]
    keywords = dict(zip(node.keywords, inputs[1 + len(positional) :], strict=True))
    return _call(worker, inputs[0], positional, keywords)


def _call(
    worker: BranchBuilder,
    function: Value,
    positional: Sequence[Value],
    keywords: Mapping[str, Value],
) -> Value:
    class_ = function.type.class_ if isinstance(function.type, RecordType) else None
    if isinstance(class_, OpenPartial):
        assert function.node is not None
        called, *held = function.node.inputs
        named = dict(zip(class_.keywords, held[class_.count :], strict=True))
        positional = [*held[: class_.count], *positional]
        return _call(worker, called, positional, {**named, **keywords})
    if isinstance(class_, OpenFunction):
        return _walk(worker, function, positional, keywords)
    try:
        return worker.call_python(function.constant_value, positional, keywords)
    except Untypable as reason:
        raise RecordsAreNotValues(str(reason)) from reason


def _walk(
    worker: BranchBuilder,
    function: Value,
    positional: Sequence[Value],
    keywords: Mapping[str, Value],
) -> Value:
    own = function.type
    assert isinstance(own, RecordType) and function.node is not None
    template = own.class_.template
    graph = worker.methods.plain(own.class_) if worker.methods is not None else None
    if graph is None or own.class_ in worker.active_methods:
        raise RecordsAreNotValues("a function that is not compiled with its caller")
    held = dict(zip(own.names, function.node.inputs, strict=True))

    def default(parameter: inspect.Parameter) -> Value:
        return held[f"{parameter.name}="]

    bound = bind_arguments(template, positional, keywords, default, worker.make_tuple)
    if bound is None:
        raise RecordsAreNotValues("arguments that do not fit the parameters")
    for capture in graph.captures:
        worker.assume(capture)
    bound += [held[name] for name in own.class_.variables]
    source = worker.source
    worker.active_methods.append(own.class_)
    try:
        (result,) = worker.walk(graph.block, 0, dict(zip(graph.inputs, bound, strict=True)))
    finally:
        worker.active_methods.pop()
    worker.source = source
    return result
