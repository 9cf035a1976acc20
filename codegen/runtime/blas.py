"""Matrix products of the BLAS library that NumPy itself uses, as functions of native code.

========================= ========================================================================
``jc_gemm_<dtype>``       ``z = x @ y`` of matrices, from (m, n, k), then x and y as (address,
                          offset, row stride, column stride), and z as (address, offset); by
                          ``syrk``, as NumPy does, where y is the transpose of x
``jc_gemv_<dtype>``       ``z = x @ v`` of a matrix and a vector, from (m, k), x as above, v as
                          (address, offset, stride), and z as before
``jc_dot_<dtype>``        gives ``x @ y`` of vectors, from (n), then both as (address, offset,
                          stride); of real numbers only
========================= ========================================================================

Offsets and strides count elements.  One stride of a matrix is 1, the other at least the extent of
the axis whose stride is 1; a vector's stride is positive; z is in C order.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from jitcore.codegen.engine import (
    EngineError,
    add_library,
    add_symbol,
    compiler_lock,
    has_feature,
)

__all__ = ["DTYPES", "Blas", "ensure_blas"]

DTYPES = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
"""BLAS's letters."""

_SYMBOLS = (
    ("scipy_cblas_{}64_", 64),
    ("cblas_{}64_", 64),
    ("scipy_cblas_{}", 32),
    ("cblas_{}", 32),
)
"""What NumPy's builds call a function, and how long the integers are that it takes."""

_CORE_NAMES = (
    "scipy_openblas_get_corename64_",
    "scipy_openblas_get_corename",
    "openblas_get_corename64_",
    "openblas_get_corename",
)
"""Where OpenBLAS says for which processors its kernels were written."""

_NARROW_CORES = frozenset({"HASWELL", "ZEN", "EXCAVATOR", "SANDYBRIDGE", "NEHALEM", "PRESCOTT"})
"""Those without vectors of 512 bits.  Older versions of OpenBLAS, and those that are told so by
``OPENBLAS_CORETYPE``, use them on processors that have these."""

_ROW_MAJOR = 101
_AS_IT_IS, _TRANSPOSED = 111, 112
_UPPER = 121

_MATRIX = "ptr %{0}, i64 %{0}.offset, i64 %{0}.rows, i64 %{0}.columns"
_VECTOR = "ptr %{0}, i64 %{0}.offset, i64 %{0}.stride"


class Blas:
    """The functions for one dtype, each of which is compiled when code that calls it is.

    Parameters
    ----------
    dtype : str
    addresses : dict of str to int
        Of the C functions ``gemm``, ``syrk``, ``gemv`` and, for real numbers, ``dot``.
    bits : int
        The length of the integers they take.
    core : str
        The processor that the library's kernels were written for, or nothing where it is silent.
    """

    def __init__(self, dtype: str, addresses: dict[str, int], bits: int, core: str) -> None:
        self.largest = 2 ** (bits - 1) - 1
        """The largest extent and stride that it takes."""
        self.is_narrow = core.upper() in _NARROW_CORES and has_feature("avx512f")
        """Whether this machine's vectors are wider than those that its kernels use."""
        for name, address in addresses.items():
            add_symbol(f"jc_cblas_{DTYPES[dtype]}{name}", address)
        self.bits = bits
        self.names = frozenset(addresses)


_found: dict[str, Blas | None] = {}


def ensure_blas(dtype: str) -> Blas | None:
    """Make the functions for a dtype known to the engine.

    None where BLAS has no such dtype, or NumPy was built without a library of that kind.
    """
    with compiler_lock():
        if dtype not in _found:
            _found[dtype] = _find(dtype)
        return _found[dtype]


def _find(dtype: str) -> Blas | None:
    if dtype not in DTYPES:
        return None
    multiarray: Any = importlib.import_module("numpy._core._multiarray_umath")
    # A symbol is searched for in the libraries that NumPy's is linked with, too.
    library = ctypes.CDLL(multiarray.__file__)
    names = ["gemm", "syrk", "gemv", *(["dot"] if np.dtype(dtype).kind == "f" else [])]
    for pattern, bits in _SYMBOLS:
        symbols = {name: pattern.format(DTYPES[dtype] + name) for name in names}
        if all(hasattr(library, symbol) for symbol in symbols.values()):
            addresses = {name: _address(library, symbol) for name, symbol in symbols.items()}
            return Blas(dtype, addresses, bits, _core(library))
    return None


def _core(library: ctypes.CDLL) -> str:
    for name in _CORE_NAMES:
        if hasattr(library, name):
            ask = getattr(library, name)
            ask.restype = ctypes.c_char_p
            return str(ask().decode())
    return ""


def _address(library: ctypes.CDLL, symbol: str) -> int:
    return ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value or 0


class _Code:
    """The body of a function: arguments of the C function, made from ours."""

    def __init__(self, dtype: str, bits: int) -> None:
        self.bits = bits
        self.itemsize = np.dtype(dtype).itemsize
        self.lines: list[str] = []
        part = "float" if dtype in ("float32", "complex64") else "double"
        self.number, self.one, self.zero = part, "1.0", "0.0"
        if np.dtype(dtype).kind == "c":
            self.number, self.one, self.zero = "ptr", "%one", "%zero"
            self._complex_numbers(part)

    def _complex_numbers(self, part: str) -> None:
        """Complex factors are passed by address."""
        for name, value in (("one", "1.0"), ("zero", "0.0")):
            self.lines += [
                f"  %{name} = alloca [2 x {part}]",
                f"  store [2 x {part}] [{part} {value}, {part} 0.0], ptr %{name}",
            ]

    def integer(self, name: str) -> str:
        """An integer argument."""
        if self.bits == 64:
            return f"i64 %{name}"
        if f"  %{name}.short = trunc i64 %{name} to i32" not in self.lines:
            self.lines.append(f"  %{name}.short = trunc i64 %{name} to i32")
        return f"i32 %{name}.short"

    def first(self, name: str) -> str:
        """The address of an array's first element."""
        self.lines += [
            f"  %{name}.bytes = mul i64 %{name}.offset, {self.itemsize}",
            f"  %{name}.first = getelementptr i8, ptr %{name}, i64 %{name}.bytes",
        ]
        return f"ptr %{name}.first"

    def by_rows(self, name: str) -> None:
        """Whether a matrix lies in memory by rows, and how far its rows or columns are apart."""
        self.lines += [
            f"  %{name}.by.rows = icmp eq i64 %{name}.columns, 1",
            f"  %{name}.apart = select i1 %{name}.by.rows, i64 %{name}.rows, i64 %{name}.columns",
            f"  %{name}.form = select i1 %{name}.by.rows, i32 {_AS_IT_IS}, i32 {_TRANSPOSED}",
        ]

    def choose(self, name: str, matrix: str, by_rows: str, by_columns: str) -> None:
        """Define ``name`` by whether a matrix lies in memory by rows."""
        self.lines.append(
            f"  %{name} = select i1 %{matrix}.by.rows, i64 %{by_rows}, i64 %{by_columns}"
        )


def _gemm(dtype: str, bits: int) -> str:
    code = _Code(dtype, bits)
    code.by_rows("x")
    code.by_rows("y")
    args = [
        f"i32 {_ROW_MAJOR}",
        "i32 %x.form",
        "i32 %y.form",
        code.integer("m"),
        code.integer("n"),
        code.integer("k"),
        f"{code.number} {code.one}",
        code.first("x"),
        code.integer("x.apart"),
        code.first("y"),
        code.integer("y.apart"),
        f"{code.number} {code.zero}",
        code.first("z"),
        code.integer("n"),
    ]
    x_and_y = f"{_MATRIX.format('x')}, {_MATRIX.format('y')}"
    params = f"i64 %m, i64 %n, i64 %k, {x_and_y}, ptr %z, i64 %z.offset"
    declaration, symmetric = _symmetric_product(code, dtype)
    return declaration + _function(code, dtype, "gemm", params, args, before=symmetric)


def _symmetric_product(code: _Code, dtype: str) -> tuple[str, list[str]]:
    """Return with ``x @ x.T``: above its diagonal by BLAS, and below it the same numbers.

    The first is a declaration, the second the code.
    """
    args = [
        f"i32 {_ROW_MAJOR}",
        f"i32 {_UPPER}",
        "i32 %x.form",
        code.integer("n"),
        code.integer("k"),
        f"{code.number} {code.one}",
        "ptr %x.first",
        code.integer("x.apart"),
        f"{code.number} {code.zero}",
        "ptr %z.first",
        code.integer("n"),
    ]
    bits = 8 * code.itemsize
    callee = f"@jc_cblas_{DTYPES[dtype]}syrk"
    declaration = f"declare void {callee}({', '.join(arg.split()[0] for arg in args)})\n"
    text = f"""\
  %is.same = icmp eq ptr %x.first, %y.first
  %is.square = icmp eq i64 %m, %n
  %are.rows = icmp eq i64 %x.rows, %y.columns
  %are.columns = icmp eq i64 %x.columns, %y.rows
  %is.one = and i1 %is.same, %is.square
  %is.turned = and i1 %are.rows, %are.columns
  %is.symmetric = and i1 %is.one, %is.turned
  br i1 %is.symmetric, label %symmetric, label %general
symmetric:
  call void {callee}({", ".join(args)})
  br label %row
row:
  %i = phi i64 [0, %symmetric], [%next.row, %row.end]
  %row.is.real = icmp slt i64 %i, %n
  br i1 %row.is.real, label %column, label %end
column:
  %j = phi i64 [0, %row], [%next.column, %below]
  %is.below = icmp slt i64 %j, %i
  br i1 %is.below, label %below, label %row.end
below:
  %above.row = mul i64 %j, %n
  %above.place = add i64 %above.row, %i
  %above = getelementptr i{bits}, ptr %z.first, i64 %above.place
  %value = load i{bits}, ptr %above, align {min(code.itemsize, 8)}
  %below.row = mul i64 %i, %n
  %below.place = add i64 %below.row, %j
  %here = getelementptr i{bits}, ptr %z.first, i64 %below.place
  store i{bits} %value, ptr %here, align {min(code.itemsize, 8)}
  %next.column = add i64 %j, 1
  br label %column
row.end:
  %next.row = add i64 %i, 1
  br label %row
end:
  ret void
general:"""
    return declaration, text.splitlines()


def _gemv(dtype: str, bits: int) -> str:
    code = _Code(dtype, bits)
    code.by_rows("x")
    code.choose("stored.rows", "x", "m", "k")
    code.choose("stored.columns", "x", "k", "m")
    args = [
        f"i32 {_ROW_MAJOR}",
        "i32 %x.form",
        code.integer("stored.rows"),
        code.integer("stored.columns"),
        f"{code.number} {code.one}",
        code.first("x"),
        code.integer("x.apart"),
        code.first("v"),
        code.integer("v.stride"),
        f"{code.number} {code.zero}",
        code.first("z"),
        f"i{bits} 1",
    ]
    x_and_v = f"{_MATRIX.format('x')}, {_VECTOR.format('v')}"
    params = f"i64 %m, i64 %k, {x_and_v}, ptr %z, i64 %z.offset"
    return _function(code, dtype, "gemv", params, args)


def _dot(dtype: str, bits: int) -> str:
    code = _Code(dtype, bits)
    args = [
        code.integer("n"),
        code.first("x"),
        code.integer("x.stride"),
        code.first("y"),
        code.integer("y.stride"),
    ]
    params = f"i64 %n, {_VECTOR.format('x')}, {_VECTOR.format('y')}"
    return _function(code, dtype, "dot", params, args, code.number)


def _function(
    code: _Code,
    dtype: str,
    kind: str,
    params: str,
    args: list[str],
    result: str = "void",
    before: Sequence[str] = (),
) -> str:
    """Our function of a kind, which calls BLAS's; some code may come before the call."""
    callee = f"@jc_cblas_{DTYPES[dtype]}{kind}"
    types = ", ".join(arg.split()[0] for arg in args)
    lines = [
        f"declare {result} {callee}({types})",
        f"define {result} @jc_{kind}_{dtype}({params}) {{",
        *code.lines,
        *before,
        f"  {'' if result == 'void' else '%result = '}call {result} {callee}({', '.join(args)})",
        f"  ret {result}{'' if result == 'void' else ' %result'}",
        "}",
    ]
    return "\n".join(lines) + "\n"


_WRITERS = {"gemm": _gemm, "gemv": _gemv, "dot": _dot}


def _text(name: str, dtype: str) -> str:
    """The text of a function, whose counterpart in BLAS is known then."""
    blas = ensure_blas(dtype)
    if blas is None or name not in blas.names:
        raise EngineError(f"internal error: this BLAS has no {name} for {dtype}")
    return _WRITERS[name](dtype, blas.bits)


for _dtype in DTYPES:
    for _name in _WRITERS:
        add_library(f"jc_{_name}_{_dtype}", partial(_text, _name, _dtype), "none")
