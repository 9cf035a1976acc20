"""Loop-nest functions written by hand, and calling them through either printer."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from jitcore.codegen.engine import CompiledModule, compile_module
from jitcore.codegen.loops import (
    Binary,
    Const,
    Expr,
    For,
    Function,
    Let,
    Load,
    Return,
    Stmt,
    Store,
    Var,
)
from jitcore.codegen.printers.llvm import print_module
from jitcore.codegen.printers.numba_cpu import compile_numba

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]
DTYPES = ["bool", *INTEGERS, *FLOATS]
NUMBA_DTYPES = {"bool", "int8", "int32", "int64", "uint16", "uint64", "float16", "float32"}

C_TYPES = {
    "bool": ctypes.c_uint8,
    **{dtype: getattr(ctypes, f"c_{dtype}") for dtype in INTEGERS},
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
    "ptr": ctypes.c_void_p,
}

Backend = Callable[[Function], Callable[..., Any]]


def zero(dtype: str = "int64") -> Const:
    return Const(0, dtype)


def integer(value: int) -> Const:
    return Const(value, "int64")


def c_function(function: Function, address: int, owner: object) -> Callable[..., Any]:
    """A Python callable for compiled code; arrays are passed as their addresses."""
    prototype = ctypes.CFUNCTYPE(
        C_TYPES[function.result], *(C_TYPES[param.dtype] for param in function.params)
    )
    native = prototype(address)

    def call(*args: Any) -> Any:
        assert owner is not None
        return native(*(a.ctypes.data if isinstance(a, np.ndarray) else a for a in args))

    return call


def with_llvm(function: Function) -> Callable[..., Any]:
    module = compile_module(print_module([function]), name=function.name)
    return c_function(function, module.address(function.name), module)


def with_numba(function: Function) -> Callable[..., Any]:
    address, owner, _ = compile_numba(function)
    return c_function(function, address, owner)


both = pytest.mark.parametrize("backend", [with_llvm, with_numba])


def elementwise(
    name: str, inputs: Sequence[str], results: Callable[[Sequence[Var]], list[Expr]]
) -> Function:
    """``out_k[i] = results(x0[i], x1[i], …)[k]`` for ``i`` below ``n``."""
    i = Var("i", "int64")
    params = [Var(f"x{k}", "ptr") for k in range(len(inputs))]
    values = [Var(f"v{k}", dtype) for k, dtype in enumerate(inputs)]
    expressions = results(values)
    outs = [Var(f"out{k}", "ptr") for k in range(len(expressions))]
    body: list[Stmt] = [
        Let(value, Load(param, i, value.dtype, param.name))
        for param, value in zip(params, values, strict=True)
    ]
    body += [
        Store(out, i, expression, out.name)
        for out, expression in zip(outs, expressions, strict=True)
    ]
    n = Var("n", "int64")
    return Function(name, [*params, *outs, n], [For(i, zero(), n, body), Return(zero())])


def run_elementwise(
    backend: Backend, function: Function, inputs: Sequence[np.ndarray], dtypes: Sequence[str]
) -> list[np.ndarray]:
    outs = [np.zeros(len(inputs[0]), dtype) for dtype in dtypes]
    assert backend(function)(*inputs, *outs, len(inputs[0])) == 0
    return outs


def assert_same_bits(got: np.ndarray, expected: np.ndarray, what: str) -> None:
    """Equal dtypes and bits; any NaN equals any other."""
    assert got.dtype == expected.dtype, what
    unsigned = f"u{got.dtype.itemsize}"
    same = got.view(unsigned) == expected.view(unsigned)
    if got.dtype.kind == "f":
        same |= np.isnan(got) & np.isnan(expected)
    wrong = np.flatnonzero(~same)[:5]
    assert not len(wrong), f"{what}: {got[wrong]} where NumPy has {expected[wrong]} (at {wrong})"


def backends(dtype: str) -> list[Backend]:
    """Numba compiles slowly, so only some dtypes go through it."""
    return [with_llvm, with_numba] if dtype in NUMBA_DTYPES else [with_llvm]


def chain(dtype: str, ops: Sequence[str]) -> Function:
    def results(v: Sequence[Var]) -> list[Expr]:
        value: Expr = v[0]
        for op in ops:
            value = Binary(op, value, v[1], dtype)
        return [value]

    return elementwise("chain", [dtype, dtype], results)


def compiled(function: Function, contract: bool = False) -> CompiledModule:
    return compile_module(print_module([function], contract=contract), name=function.name)
