"""Functions of the LAPACK library that NumPy's own ``linalg`` uses, as functions of native code.

====================== ===========================================================================
``jc_gesv_<dtype>``    solves ``a @ x = b`` for columns, from (n, columns, a, b, pivots): the rows
                       of ``a`` are exchanged and factored, ``b`` becomes ``x``, and ``pivots`` is
                       room for n integers of 64 bits
``jc_potrf_<dtype>``   factors ``a = l @ l.H`` from (n, a): ``l`` replaces the lower triangle of
                       ``a``; what is above it stays
====================== ===========================================================================

Matrices lie in Fortran order without gaps, and the dtypes are float64 and complex128, as in NumPy.
Both give LAPACK's ``info``: 0, or a positive number where there is no solution.
"""

from __future__ import annotations

import ctypes
import importlib
from functools import partial
from typing import Any, Final

from jitcore.codegen.engine import (
    CompiledModule,
    add_maker,
    add_symbol,
    compile_module,
    compiler_lock,
)

__all__ = ["DTYPES", "ensure_lapack"]

DTYPES: Final = {"float64": "d", "complex128": "z"}
"""LAPACK's letters."""

_SYMBOLS: Final = (("scipy_{}_64_", 64), ("{}_64_", 64), ("scipy_{}_", 32), ("{}_", 32))
"""What NumPy's builds call a function, and how long the integers are that it takes."""

_TEXT: Final = """
declare void @jc_lapack_{letter}gesv(ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr)
declare void @jc_lapack_{letter}potrf(ptr, ptr, ptr, ptr, ptr)
declare i64 @llvm.smax.i64(i64, i64)

define i64 @jc_gesv_{dtype}(i64 %n, i64 %columns, ptr %a, ptr %b, ptr %pivots) {{
  %n.place = alloca i64
  %columns.place = alloca i64
  %apart = alloca i64
  %info = alloca i64
  %at.least.one = call i64 @llvm.smax.i64(i64 %n, i64 1)
  store i64 %n, ptr %n.place
  store i64 %columns, ptr %columns.place
  store i64 %at.least.one, ptr %apart
  call void @jc_lapack_{letter}gesv(ptr %n.place, ptr %columns.place, ptr %a, ptr %apart,
                                    ptr %pivots, ptr %b, ptr %apart, ptr %info)
  %result = load i{bits}, ptr %info
  {give}
}}

define i64 @jc_potrf_{dtype}(i64 %n, ptr %a) {{
  %lower = alloca i8
  %n.place = alloca i64
  %apart = alloca i64
  %info = alloca i64
  %at.least.one = call i64 @llvm.smax.i64(i64 %n, i64 1)
  store i8 76, ptr %lower
  store i64 %n, ptr %n.place
  store i64 %at.least.one, ptr %apart
  call void @jc_lapack_{letter}potrf(ptr %lower, ptr %n.place, ptr %a, ptr %apart, ptr %info)
  %result = load i{bits}, ptr %info
  {give}
}}
"""
"""Integers of 32 bits are the first halves of ours: all processors here begin with the low one."""

_GIVE: Final = {
    64: "ret i64 %result",
    32: "%wide = sext i32 %result to i64\n  ret i64 %wide",
}


class Lapack:
    """The compiled functions for one dtype.

    Parameters
    ----------
    dtype : str
    addresses : dict of str to int
        Of the C functions ``gesv`` and ``potrf``.
    bits : int
        The length of the integers they take.
    """

    def __init__(self, dtype: str, addresses: dict[str, int], bits: int) -> None:
        letter = DTYPES[dtype]
        for name, address in addresses.items():
            add_symbol(f"jc_lapack_{letter}{name}", address)
        text = _TEXT.format(dtype=dtype, letter=letter, bits=bits, give=_GIVE[bits])
        self.module: CompiledModule = compile_module(text, name=f"lapack {dtype}", effort="none")
        for symbol in self.module.symbols:
            add_symbol(symbol, self.module.address(symbol))


_found: dict[str, Lapack | None] = {}


def ensure_lapack(dtype: str) -> bool:
    """Make the functions for a dtype known to the engine, and say whether there are any.

    NumPy may have been built with a LAPACK of its own, whose functions nobody else sees.
    """
    with compiler_lock():
        if dtype not in _found:
            _found[dtype] = _find(dtype)
        return _found[dtype] is not None


def _find(dtype: str) -> Lapack | None:
    if dtype not in DTYPES:
        return None
    linalg: Any = importlib.import_module("numpy.linalg._umath_linalg")
    # A symbol is searched for in the libraries that NumPy's is linked with, too.
    library = ctypes.CDLL(linalg.__file__)
    for pattern, bits in _SYMBOLS:
        symbols = {name: pattern.format(DTYPES[dtype] + name) for name in ("gesv", "potrf")}
        if all(hasattr(library, symbol) for symbol in symbols.values()):
            addresses = {name: _address(library, symbol) for name, symbol in symbols.items()}
            return Lapack(dtype, addresses, bits)
    return None


def _address(library: ctypes.CDLL, symbol: str) -> int:
    return ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value or 0


for _dtype in DTYPES:
    for _name in ("gesv", "potrf"):
        add_maker(f"jc_{_name}_{_dtype}", partial(ensure_lapack, _dtype))
