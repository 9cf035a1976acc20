"""Functions as the interpreter runs their graphs, with every value checked against its type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import FunctionType
from typing import Any
from unittest.mock import patch

import numpy as np

from jitcore.execution.description_keys import without_extents
from jitcore.execution.signatures import Description, describe, type_and_param
from jitcore.frontend import compile_function
from jitcore.frontend.constants import function_mark
from jitcore.ir import interpreter
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.ops import kind_of
from jitcore.ir.specialize.specialize import specialize
from jitcore.ir.structured import VoidType
from jitcore.ir.types import DictType, ListType, PrimType, TensorType, TupleType, Type, UnionType
from jitcore.ir.verifier import verify

__all__ = ["assert_has_type", "compiled_graph", "interpreted", "specialized"]

_PYTHON_TYPES: dict[str, type] = {
    "int": int,
    "float": float,
    "bool": bool,
    "complex": complex,
    "str": str,
    "None": type(None),
    "slice": slice,
}


def compiled_graph(function: Callable[..., Any]) -> Graph:
    """The generic graph of a function, verified."""
    graph = compile_function(function, lookup_op=kind_of)  # type: ignore[arg-type]
    verify(graph)
    return graph


def specialized(graph: Graph, args: Sequence[Any], *, dynamic: bool) -> Graph:
    """The typed graph for these arguments, verified; with ``dynamic`` extents are symbols."""
    captured = [capture.value for capture in graph.captures if capture.input is not None]

    def described(value: Any) -> Description:
        return without_extents(describe(value)) if dynamic else describe(value)

    types = [
        type_and_param(described(value), f"d{number}_")[0]
        for number, value in enumerate([*args, *captured])
    ]
    typed = specialize(graph, types, compile_function=_compile_argument)
    verify(typed)
    return typed


def _compile_argument(function: Any) -> Graph | None:
    if not isinstance(function, FunctionType) or function_mark(function) == "ignore":
        return None
    return compiled_graph(function)


def interpreted(
    function: Callable[..., Any], args: Sequence[Any]
) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The function as its generic graph and as two typed graphs, each with a name."""
    graph = compiled_graph(function)
    yield "the generic graph", lambda *copies: interpreter.run(graph, copies)
    for dynamic in (False, True):
        typed = specialized(graph, args, dynamic=dynamic)
        name = "the typed graph" + (" with symbols" if dynamic else "")
        yield name, lambda *copies, typed=typed: _run_checked(typed, copies)


def _run_checked(graph: Graph, args: Sequence[Any]) -> Any:
    """Run a typed graph and compare every value that a node gives with its type."""
    has_loops = any(node.kind in ("prim::Loop", "prim::For") for node in graph.nodes())
    symbols: dict[str, int] = {}
    for value, arg in zip(graph.inputs, args, strict=False):
        assert_has_type(arg, value, symbols)
    run_node = interpreter._run_node

    def checked(node: Node, operands: list[Any]) -> Sequence[Any]:
        results = run_node(node, operands)
        for value, result in zip(node.outputs, results, strict=True):
            # What a symbol stands for in a loop's body may change from one iteration to the next.
            assert_has_type(result, value, {} if has_loops else symbols)
        return results

    with patch.object(interpreter, "_run_node", checked):
        return interpreter.run(graph, args)


class WrongType(Exception):
    """A value that is not of the type its graph says; never what a program raises itself."""


def assert_has_type(held: Any, value: Value, symbols: dict[str, int]) -> None:
    """Fail unless an object is of a value's type, with symbols as already bound.

    Raises
    ------
    WrongType
        It is not.
    """
    if not _has_type(held, value.type, symbols):
        made_by = value.node.kind if value.node is not None else "a parameter"
        shape = f" of shape {held.shape}" if isinstance(held, np.ndarray) else ""
        dtype = f" and dtype {held.dtype}" if isinstance(held, np.ndarray | np.generic) else ""
        raise WrongType(
            f"%{value.name} : {value.type} of {made_by} holds a {type(held).__name__}"
            f"{shape}{dtype}; symbols {symbols}"
        )


def _has_type(held: Any, type_: Type, symbols: dict[str, int]) -> bool:
    if isinstance(type_, TensorType):
        return _is_tensor(held, type_, symbols)
    if isinstance(type_, TupleType):
        return (
            isinstance(held, tuple)
            and len(held) == len(type_.elements)
            and all(
                _has_type(item, one, symbols)
                for item, one in zip(held, type_.elements, strict=True)
            )
        )
    if isinstance(type_, ListType):
        return isinstance(held, list)
    if isinstance(type_, DictType):
        return isinstance(held, dict)
    if isinstance(type_, UnionType):
        return any(_has_type(held, one, symbols) for one in type_.alternatives)
    if isinstance(type_, VoidType):
        return isinstance(held, np.void) and held.dtype == type_.dtype
    assert isinstance(type_, PrimType)
    expected = _PYTHON_TYPES.get(type_.name)
    return expected is None or type(held) is expected


def _is_tensor(held: Any, type_: TensorType, symbols: dict[str, int]) -> bool:
    if not isinstance(held, np.generic if type_.scalar else np.ndarray):
        return False
    if type_.dtype is not None and held.dtype != type_.dtype:
        return False
    if type_.dims is None:
        return True
    if held.ndim != len(type_.dims):
        return False
    return all(
        extent == (dim if isinstance(dim, int) else symbols.setdefault(dim, extent))
        for extent, dim in zip(held.shape, type_.dims, strict=True)
    )
