"""Compiles a Python function natively for some arguments, the short way, and calls it."""

from __future__ import annotations

import copy
import ctypes
import itertools
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from jitcore.codegen.engine import compile_module
from jitcore.codegen.entries.array_orders import axis_order
from jitcore.codegen.entries.entry import bind, make_entry
from jitcore.codegen.entries.signature import (
    ArrayParam,
    ConstantParam,
    Layout,
    Param,
    ScalarParam,
    Signature,
)
from jitcore.codegen.lower import Lowered, lower
from jitcore.codegen.lowering.facts import FUSED
from jitcore.codegen.printers.llvm import print_module
from jitcore.frontend.compile import compile_function
from jitcore.fusers.groups import fuse_groups
from jitcore.ir.graph import Graph
from jitcore.ir.ops import kind_of
from jitcore.ir.passes.cse import common_subexpression_elimination
from jitcore.ir.passes.dce import dead_code_elimination
from jitcore.ir.specialize.specialize import specialize
from jitcore.ir.types import BOOL, COMPLEX, FLOAT, INT, TensorType, Type, scalar_type

__all__ = [
    "MISS",
    "check",
    "compile_graph",
    "fuse_all",
    "lowered",
    "native",
    "outcome",
    "same",
    "typed",
]

MISS = "the guard refused the arguments"
_PYTHON: dict[type, tuple[Type, Any]] = {
    bool: (BOOL, "bool"),
    int: (INT, "int"),
    float: (FLOAT, "float"),
    complex: (COMPLEX, "complex"),
}
_numbers = itertools.count()


def layout_of(array: np.ndarray[Any, Any]) -> Layout:
    """The tightest layout an array has."""
    if array.flags.c_contiguous:
        return "C"
    if array.flags.f_contiguous:
        return "F"
    return axis_order(array.shape, array.strides) if array.ndim > 1 else "strided"


def type_of(value: Any, symbols: dict[int, str], *, static: bool) -> Type:
    """The type of an argument; equal extents get equal symbols, as the planner gives them."""
    if isinstance(value, np.ndarray):
        dims = tuple(
            n if static or n == 1 else symbols.setdefault(n, f"n{len(symbols)}")
            for n in value.shape
        )
        return TensorType(value.dtype, dims)
    if isinstance(value, np.generic):
        return scalar_type(value.dtype)
    return _PYTHON[type(value)][0]


def param_of(value: Any, type_: Type, written: bool) -> Param:
    """What the entry must check of an argument."""
    if isinstance(value, np.ndarray):
        assert isinstance(type_, TensorType) and type_.dims is not None
        dims = tuple(dim if isinstance(dim, int) else None for dim in type_.dims)
        return ArrayParam(value.dtype, dims, layout_of(value), written)
    if isinstance(value, np.generic):
        return ScalarParam("numpy", value.dtype)
    if type(value) in _PYTHON:
        dtype = {"int": "int64", "float": "float64", "bool": "bool", "complex": "complex128"}
        kind = _PYTHON[type(value)][1]
        return ScalarParam(kind, np.dtype(dtype[kind]))
    return ConstantParam(value)


def typed(f: Callable[..., Any], *args: Any, static: bool = False, fuse: bool = False) -> Graph:
    """A function's graph specialized for arguments, with or without fused groups."""
    symbols: dict[int, str] = {}
    types = [type_of(value, symbols, static=static) for value in args]
    graph = specialize(compile_function(as_function(f), lookup_op=kind_of), types)
    common_subexpression_elimination(graph)
    dead_code_elimination(graph)
    if fuse:
        fuse_groups(graph, [])
    return graph


def fuse_all(graph: Graph) -> Graph:
    """The graph with everything but its last tuple in one group."""
    body = graph.copy()
    result = Graph(graph.name)
    inputs = [result.block.add_param(value.type, value.name) for value in graph.inputs]
    (value,) = body.outputs
    node = value.node
    is_tuple = node is not None and node.kind == "prim::TupleConstruct"
    returned = list(node.inputs) if node is not None and is_tuple else [value]
    value.uses = [use for use in value.uses if use.user is not body.block]
    body.block.inputs = []
    if node is not None and is_tuple:
        node.destroy()
    for one in returned:
        body.block.add_return(one)
    types = [one.type for one in returned]
    group = result.block.append(FUSED, inputs, {"graph": body}, outputs=types)
    if is_tuple:
        made = result.block.append(
            "prim::TupleConstruct", group.outputs, outputs=[graph.outputs[0].type]
        )
        result.block.add_return(made.output)
    else:
        result.block.add_return(group.output)
    return result


def as_function(f: Callable[..., Any]) -> FunctionType:
    """A callable known to be a plain function."""
    assert isinstance(f, FunctionType)
    return f


def lowered(graph: Graph, *args: Any) -> Lowered:
    """The native function of a typed graph for arguments of these layouts."""
    layouts = [layout_of(one) if isinstance(one, np.ndarray) else None for one in args]
    return lower(graph, layouts, name="native")


def compile_graph(graph: Graph, *args: Any, optimize: bool = True) -> Callable[..., Any]:
    """A typed graph as a callable for arguments like these."""
    made = lowered(graph, *args)
    params = tuple(
        param_of(value, graph.inputs[number].type, number in made.written)
        for number, value in enumerate(args)
    )
    name = f"t{next(_numbers)}"
    entry = make_entry(Signature(params, made.result), "native", name=name)
    text = print_module([made.function]) + entry.text
    module = compile_module(text, name=name, effort="loops" if optimize else "none")
    entry.fill(module)

    def handler(status: int, address: int, *_: Any) -> Any:
        site = made.sites[status - 1]
        payload = [
            ctypes.c_int64.from_address(address + 8 * number).value
            for number in range(site.payload)
        ]
        raise site.make(payload)

    return bind(module.address(entry.symbol), name, lambda *_: MISS, handler, owner=(module, entry))


def native(f: Callable[..., Any], *args: Any, **options: bool) -> Any:
    """What native code gives for a function and arguments."""
    return compile_graph(typed(f, *args, **options), *args)(*args)


def check(f: Callable[..., Any], *args: Any, exact: bool = True, **options: bool) -> None:
    """Compare native code, unfused and fused, with Python and NumPy, with effects on arguments."""
    own = copy.deepcopy(args)
    with np.errstate(all="ignore"):
        expected = outcome(lambda: f(*own))
    for fuse in (False, True):
        given = copy.deepcopy(args)
        graph = typed(f, *given, fuse=fuse, **options)
        compiled = compile_graph(graph, *given, optimize=fuse)
        found = outcome(lambda: compiled(*given))
        same(found, expected, exact)
        for one, two in zip(given, own, strict=True):
            same(one, two, exact)


def outcome(run: Callable[[], Any]) -> Any:
    """What a call returns, or the class and message of the exception it raises."""
    try:
        return run()
    except ArithmeticError as error:
        return type(error), str(error)
    except (IndexError, ValueError, NameError) as error:
        return type(error), str(error)


def same(found: Any, expected: Any, exact: bool = True) -> None:
    """Require equal values of equal types, dtypes and shapes."""
    assert type(found) is type(expected), (found, expected)
    if isinstance(expected, tuple):
        assert len(found) == len(expected)
        for one, two in zip(found, expected, strict=True):
            same(one, two, exact)
    elif isinstance(expected, (np.ndarray, np.generic)):
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        if exact:
            np.testing.assert_array_equal(found, expected)
        else:
            digits = 1e-5 if expected.dtype in (np.float32, np.complex64) else 1e-12
            np.testing.assert_allclose(found, np.asarray(expected), rtol=digits, atol=digits)
    elif isinstance(expected, float) and expected != expected:
        assert found != found
    else:
        assert found == expected
