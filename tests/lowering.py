"""Compiles the text of a graph for some arguments and calls it: parse, specialize, lower, print, bind."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from jitcore.codegen.engine import compile_module
from jitcore.codegen.entry import bind, make_entry
from jitcore.codegen.lower import Lowered, lower
from jitcore.codegen.printers.llvm import print_module
from jitcore.codegen.signature import (
    ArrayParam,
    ConstantParam,
    Layout,
    Param,
    ScalarParam,
    Signature,
)
from jitcore.ir.graph import Graph
from jitcore.ir.parser import parse_graph
from jitcore.ir.passes.specialize import specialize
from jitcore.ir.types import BOOL, COMPLEX, FLOAT, INT, TensorType, Type, scalar_type

__all__ = ["MISS", "compile_graph", "lowered", "native", "typed"]

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
    return "F" if array.flags.f_contiguous else "strided"


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


def typed(text: str, *args: Any, static: bool = False) -> Graph:
    """The graph specialized for arguments, without optimizations."""
    symbols: dict[int, str] = {}
    types = [type_of(value, symbols, static=static) for value in args]
    return specialize(parse_graph(text), types)


def lowered(graph: Graph, *args: Any) -> Lowered:
    """The native function of a typed graph for arguments of these layouts."""
    layouts = [layout_of(one) if isinstance(one, np.ndarray) else None for one in args]
    return lower(graph, layouts, name="native")


def compile_graph(graph: Graph, *args: Any) -> Callable[..., Any]:
    """A typed graph as a callable for arguments like these."""
    made = lowered(graph, *args)
    params = tuple(
        param_of(value, graph.inputs[number].type, number in made.written)
        for number, value in enumerate(args)
    )
    name = f"t{next(_numbers)}"
    entry = make_entry(Signature(params, made.result), "native", name=name)
    module = compile_module(print_module([made.function]) + entry.text, name=name)
    entry.fill(module)

    def handler(status: int, address: int, *_: Any) -> Any:
        site = made.sites[status - 1]
        payload = [
            ctypes.c_int64.from_address(address + 8 * number).value
            for number in range(site.payload)
        ]
        raise site.make(payload)

    return bind(module.address(entry.symbol), name, lambda *_: MISS, handler, owner=(module, entry))


def native(text: str, *args: Any, static: bool = False) -> Any:
    """What the graph gives for these arguments."""
    return compile_graph(typed(text, *args, static=static), *args)(*args)
