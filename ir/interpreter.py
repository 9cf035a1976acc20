"""Runs a graph node by node with NumPy and Python: the meaning that compiled code must have.

Generic and typed graphs run alike.  What an op does comes from its row in the op table; control
flow, calls and Python's own protocols are here.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from typing import Any

import numpy as np

from jitcore.ir import reference
from jitcore.ir.graph import Block, Graph, Node, Value
from jitcore.ir.ops import TABLE
from jitcore.ir.ops.special import SpecialFunction

__all__ = [
    "NOTES",
    "UNINITIALIZED",
    "Uninitialized",
    "evaluate",
    "function_of",
    "numpy_function",
    "reference_of",
    "run",
]

Environment = dict[Value, Any]


class Uninitialized:
    """The class of the one value that a variable has on paths where it was never assigned."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<uninitialized>"


UNINITIALIZED = Uninitialized()

NOTES = frozenset({"caller", "graph", "layers", "scope", "starred"})
"""Attributes that say something about a node, and are no arguments of its op."""


def run(graph: Graph, args: Sequence[Any]) -> Any:
    """Run a graph.

    Parameters
    ----------
    graph : Graph
    args : sequence of object
        One for each input; those that stand for captures may be left out and are read then.

    Returns
    -------
    object
        What the graph returns; a tuple where it returns several values, or none.

    Raises
    ------
    TypeError
        The number of arguments is wrong.  Otherwise whatever the program raises.
    """
    results = _run_graph(graph, list(args))
    return results[0] if len(results) == 1 else tuple(results)


def evaluate(node: Node, operands: Sequence[Any]) -> Any:
    """What one node without blocks gives for these operands (several outputs as a tuple)."""
    special = _SPECIAL.get(node.kind)
    args, keywords = _arguments(node, operands)
    if special is not None:
        return special(node, args, keywords)
    return function_of(node)(*args, **keywords)


def function_of(node: Node) -> Callable[..., Any]:
    """What one node calls: its reference, which names the layers around it in what it raises."""
    function = reference_of(node.kind)
    row = TABLE.get(node.kind)
    if row is not None and row.definition is not None and node.keywords:
        # It leaves out what is only a hint for compiled code.
        function = row.definition
    layers = node.attributes.get("layers")
    return _noting(function, layers) if layers else function


def _noting(function: Callable[..., Any], layers: Sequence[Any]) -> Callable[..., Any]:
    @wraps(function)
    def noting(*args: Any, **keywords: Any) -> Any:
        try:
            return function(*args, **keywords)
        except Exception as error:
            for layer in reversed(layers):
                layer._noted(error)
            raise

    return noting


def reference_of(kind: str) -> Callable[..., Any]:
    """What a kind of node means: a function of its operands, in order, and its attributes, by name.

    Raises
    ------
    NotImplementedError
        Nothing is known about the kind.
    """
    row = TABLE.get(kind)
    if row is None:
        return _python_callable(kind)
    if isinstance(row.reference, SpecialFunction):
        return row.reference.ufunc
    definition = row.definition
    return row.reference if definition is None else definition.function or definition


@cache
def numpy_function(name: str) -> Callable[..., Any]:
    """The NumPy function of a dotted name such as ``linalg.solve``.

    Raises
    ------
    AttributeError
        NumPy has no such public name.
    """
    parts = name.split(".")
    if any(part.startswith("_") for part in parts):
        raise AttributeError(f"numpy has no public function {name!r}")
    found: Any = np
    for part in parts:
        found = getattr(found, part)
    function: Callable[..., Any] = found
    return function


def _run_graph(graph: Graph, args: list[Any]) -> list[Any]:
    captured = [capture for capture in graph.captures if capture.input is not None]
    if captured and len(args) == len(graph.inputs) - len(captured):
        args += [capture.read() for capture in captured]
    if len(args) != len(graph.inputs):
        name = graph.name or "graph"
        raise TypeError(f"{name} takes {len(graph.inputs)} arguments, not {len(args)}")
    environment: Environment = dict(zip(graph.inputs, args, strict=True))
    return _run_block(graph.block, environment)


def _run_block(block: Block, environment: Environment) -> list[Any]:
    for node in block.nodes:
        control = _CONTROL.get(node.kind)
        if control is not None:
            results: Sequence[Any] = control(node, environment)
        else:
            results = _run_node(node, [environment[value] for value in node.inputs])
        environment.update(zip(node.outputs, results, strict=True))
    return [environment[value] for value in block.returns]


def _run_node(node: Node, operands: list[Any]) -> Sequence[Any]:
    body = node.attributes.get("graph")
    if isinstance(body, Graph):
        return _run_graph(body, operands)
    result = evaluate(node, operands)
    if len(node.outputs) == 1 and node.kind != "prim::Unpack":
        return (result,)
    return tuple(result) if node.outputs else ()


def _run_if(node: Node, environment: Environment) -> list[Any]:
    (condition,) = node.inputs
    return _run_block(node.blocks[0 if environment[condition] else 1], environment)


def _run_loop(node: Node, environment: Environment) -> list[Any]:
    max_trip, condition, *carried = [environment[value] for value in node.inputs]
    (body,) = node.blocks
    trip = 0
    while trip < max_trip and condition:
        environment.update(zip(body.params, [trip, *carried], strict=True))
        condition, *carried = _run_block(body, environment)
        trip += 1
    return carried


def _run_for(node: Node, environment: Environment) -> list[Any]:
    iterable, *carried = [environment[value] for value in node.inputs]
    (body,) = node.blocks
    for item in iterable:
        environment.update(zip(body.params, [item, *carried], strict=True))
        go_on, *carried = _run_block(body, environment)
        if not go_on:
            break
    return carried


def _run_try(node: Node, environment: Environment) -> list[Any]:
    body, handler = node.blocks
    try:
        return _run_block(body, environment)
    except BaseException as error:
        environment[handler.params[0]] = error
        return _run_block(handler, environment)


def _run_with(node: Node, environment: Environment) -> list[Any]:
    operands = [environment[value] for value in node.inputs]
    with node.attributes["manager"](**dict(zip(node.keywords, operands, strict=True))):
        return _run_block(node.blocks[0], environment)


_CONTROL: dict[str, Callable[[Node, Environment], list[Any]]] = {
    "prim::If": _run_if,
    "prim::Loop": _run_loop,
    "prim::For": _run_for,
    "prim::Try": _run_try,
    "prim::With": _run_with,
}


def _arguments(node: Node, operands: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments, with attributes among the latter and stars opened."""
    keywords = {name: held for name, held in node.attributes.items() if name not in NOTES}
    starred = node.attributes.get("starred", ())
    first = len(operands) - len(node.keywords)
    args: list[Any] = []
    for number, operand in enumerate(operands[:first]):
        args += operand if number in starred else (operand,)
    for name, operand in zip(node.keywords, operands[first:], strict=True):
        keywords.update(operand if name == "**" else {name: operand})
    return args, keywords


@cache
def _python_callable(kind: str) -> Callable[..., Any]:
    known = _PYTHON.get(kind)
    if known is not None:
        return known
    namespace, _, name = kind.partition("::")
    modules: dict[str, Any] = {"np": np, "math": math, "prim": builtins}
    function: Callable[..., Any] | None = getattr(modules.get(namespace), name, None)
    if function is None or name.startswith("_"):
        raise NotImplementedError(f"the interpreter does not know the kind {kind}")
    return function


def _constant(node: Node, args: list[Any], keywords: Mapping[str, Any]) -> Any:
    return node.attributes["value"]


def _uninitialized(node: Node, args: list[Any], keywords: Mapping[str, Any]) -> Any:
    return UNINITIALIZED


def _call(node: Node, args: list[Any], keywords: Mapping[str, Any]) -> Any:
    function, *rest = args
    return function(*rest, **keywords)


def _call_method(node: Node, args: list[Any], keywords: dict[str, Any]) -> Any:
    receiver, *rest = args
    method = getattr(receiver, node.attributes["name"])
    return method(*rest, **_without_name(node, keywords))


def _call_numpy(node: Node, args: list[Any], keywords: dict[str, Any]) -> Any:
    function = numpy_function(node.attributes["name"])
    return function(*args, **_without_name(node, keywords))


def _without_name(node: Node, keywords: dict[str, Any]) -> dict[str, Any]:
    # The attribute says what is called; an argument may be called ``name`` as well.
    if "name" not in node.keywords:
        keywords.pop("name")
    return keywords


def _raise(node: Node, args: list[Any], keywords: Mapping[str, Any]) -> None:
    exception, *cause = args
    if cause:
        raise exception from cause[0]
    raise exception


def _format_string(*parts: Any) -> str:
    return "".join(part if isinstance(part, str) else format(part) for part in parts)


_SPECIAL: dict[str, Callable[[Node, list[Any], dict[str, Any]], Any]] = {
    "prim::Constant": _constant,
    "prim::Uninitialized": _uninitialized,
    "prim::Call": _call,
    "prim::CallMethod": _call_method,
    "np::call": _call_numpy,
    "prim::Raise": _raise,
}

_BINARY = [
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "lshift",
    "rshift",
    "and_",
    "or_",
    "xor",
]
_PYTHON: dict[str, Callable[..., Any]] = {
    **{f"prim::{name}": getattr(operator, name) for name in _BINARY},
    **{f"prim::i{name.rstrip('_')}": getattr(operator, f"i{name.rstrip('_')}") for name in _BINARY},
    **{
        f"prim::{name}": getattr(operator, name)
        for name in ["neg", "pos", "invert", "not_", "eq", "ne", "lt", "le", "gt", "ge", "is_"]
    },
    "prim::isnot": operator.is_not,
    "prim::in_": reference.contained,
    "prim::notin": reference.not_contained,
    "prim::TupleConstruct": reference.tuple_construct,
    "prim::ListConstruct": reference.list_construct,
    "prim::SetConstruct": reference.set_construct,
    "prim::DictConstruct": reference.dict_construct,
    "prim::Unpack": reference.unpack,
    "prim::CheckBound": reference.check_bound,
    "prim::getitem": reference.getitem,
    "prim::setitem": reference.setitem,
    "prim::delitem": reference.delitem,
    "prim::GetAttr": reference.get_attribute,
    "prim::SetAttr": reference.set_attribute,
    "prim::FormatString": _format_string,
    "prim::size": reference.size,
}
