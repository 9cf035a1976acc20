"""Inner loops of NumPy's own ufuncs, as functions of native code.

NumPy's loop of ``power`` is Intel's vector math library where the processor has 512-bit vectors,
and C's function elsewhere.  Neither rounds correctly, so no other code has the same bits; native
code calls the loop itself, which is as fast.  Sums of few elements have NumPy's order of additions:
recurrences make the smallest differences grow.  That order is promised nowhere: where sums are not
those of the NumPy that runs, its loop adds instead.

=========================== ======================================================================
``jc_power_float64``        ``x ** y`` as in arrays
``jc_power_float64_x8``     the same of eight pairs at once; also of 16 and of 32
``jc_sum_float64``          the sum of up to 128 elements in a row, from (address, offset, count)
=========================== ======================================================================
"""

from __future__ import annotations

import ctypes
import threading
from typing import Final

import numpy as np

from jitcore.codegen.engine import CompiledModule, add_maker, add_symbol, compile_module

__all__ = ["MOST_SUMMED", "VECTOR_FORMS", "vector_declarations", "vector_names"]

VECTOR_FORMS: Final = frozenset({"jc_power_float64"})
"""The functions of two numbers that have a form for vectors."""

LANES: Final = (8, 16, 32)
"""How many elements such forms take: the more, the less a call costs for each."""

MOST_SUMMED: Final = 128
"""So many elements NumPy adds up in a single loop; more are divided until they are so few."""


def vector_names(name: str) -> dict[int, str]:
    """The symbols of a function's forms for vectors, by how many elements they take."""
    return {lanes: f"{name}_x{lanes}" for lanes in LANES}


def vector_declarations(name: str) -> dict[str, str]:
    """LLVM's declarations of a function and of its forms for vectors, by symbol."""
    pure = "memory(none) nounwind willreturn"
    forms = vector_names(name)
    variants = ",".join(f"_ZGV_LLVM_N{n}vv_{name}({vector})" for n, vector in forms.items())
    known = f'"vector-function-abi-variant"="{variants}"'
    declarations = {name: f"declare double @{name}(double, double) {pure} {known}"}
    for lanes, vector in forms.items():
        type_ = f"<{lanes} x double>"
        declarations[vector] = f"declare {type_} @{vector}({type_}, {type_}) {pure}"
    return declarations


class _Ufunc(ctypes.Structure):
    """The first fields of ``PyUFuncObject`` after the object's head (numpy/ufuncobject.h)."""

    _fields_ = (
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
    )


def _address(ufunc: np.ufunc, types: str) -> int:
    """Of a ufunc's loop for these dtypes, which needs nothing but its operands."""
    fields = _Ufunc.from_address(id(ufunc) + object.__basicsize__)
    address: int = fields.functions[ufunc.types.index(types)]
    return address


_ELEMENTWISE: Final = """
define {type} @{name}({type} %x, {type} %y) {{
  %operands = alloca [3 x {type}]
  %second = getelementptr {type}, ptr %operands, i64 1
  %third = getelementptr {type}, ptr %operands, i64 2
  store {type} %x, ptr %operands
  store {type} %y, ptr %second
  %addresses = alloca [3 x ptr]
  %second.address = getelementptr ptr, ptr %addresses, i64 1
  %third.address = getelementptr ptr, ptr %addresses, i64 2
  store ptr %operands, ptr %addresses
  store ptr %second, ptr %second.address
  store ptr %third, ptr %third.address
  %count = alloca i64
  store i64 {lanes}, ptr %count
  %steps = alloca [3 x i64]
  store [3 x i64] [i64 8, i64 8, i64 8], ptr %steps
  call void @{loop}(ptr %addresses, ptr %count, ptr %steps, ptr null)
  %result = load {type}, ptr %third
  ret {type} %result
}}
"""

_SUM: Final = """
define double @jc_sum_float64(ptr %array, i64 %offset, i64 %size) {
entry:
  %first = getelementptr double, ptr %array, i64 %offset
  %has.eight = icmp sge i64 %size, 8
  br i1 %has.eight, label %start, label %rest
start:
  %start.sums = load <8 x double>, ptr %first, align 8
  br label %head
head:
  %at = phi i64 [ 8, %start ], [ %next, %eight ]
  %sums = phi <8 x double> [ %start.sums, %start ], [ %added, %eight ]
  %next = add i64 %at, 8
  %more = icmp sle i64 %next, %size
  br i1 %more, label %eight, label %join
eight:
  %place = getelementptr double, ptr %first, i64 %at
  %elements = load <8 x double>, ptr %place, align 8
  %added = fadd <8 x double> %sums, %elements
  br label %head
join:
  %even = shufflevector <8 x double> %sums, <8 x double> poison,
          <4 x i32> <i32 0, i32 2, i32 4, i32 6>
  %odd = shufflevector <8 x double> %sums, <8 x double> poison,
         <4 x i32> <i32 1, i32 3, i32 5, i32 7>
  %four = fadd <4 x double> %even, %odd
  %left = shufflevector <4 x double> %four, <4 x double> poison, <2 x i32> <i32 0, i32 2>
  %right = shufflevector <4 x double> %four, <4 x double> poison, <2 x i32> <i32 1, i32 3>
  %two = fadd <2 x double> %left, %right
  %one = extractelement <2 x double> %two, i64 0
  %other = extractelement <2 x double> %two, i64 1
  %joined = fadd double %one, %other
  br label %rest
rest:
  %i = phi i64 [ 0, %entry ], [ %at, %join ], [ %next.i, %single ]
  %total = phi double [ -0.0, %entry ], [ %joined, %join ], [ %longer, %single ]
  %is.left = icmp slt i64 %i, %size
  br i1 %is.left, label %single, label %done
single:
  %element.place = getelementptr double, ptr %first, i64 %i
  %element = load double, ptr %element.place
  %longer = fadd double %total, %element
  %next.i = add i64 %i, 1
  br label %rest
done:
  %result = fadd double %total, 0.0
  ret double %result
}
"""
"""The order is that of NumPy's ``loops_utils.h.src``: eight sums side by side, joined in pairs."""

_SUM_BY_LOOP: Final = """
define double @jc_sum_by_loop(ptr %array, i64 %offset, i64 %size) {
  %first = getelementptr double, ptr %array, i64 %offset
  %total = alloca double
  store double 0.0, ptr %total
  %addresses = alloca [3 x ptr]
  %second.address = getelementptr ptr, ptr %addresses, i64 1
  %third.address = getelementptr ptr, ptr %addresses, i64 2
  store ptr %total, ptr %addresses
  store ptr %first, ptr %second.address
  store ptr %total, ptr %third.address
  %count = alloca i64
  store i64 %size, ptr %count
  %steps = alloca [3 x i64]
  store [3 x i64] [i64 0, i64 8, i64 0], ptr %steps
  call void @jc_add_loop(ptr %addresses, ptr %count, ptr %steps, ptr null)
  %result = load double, ptr %total
  ret double %result
}
"""
"""What stands for it where this NumPy adds in another order."""

_COUNTS: Final = (1, 7, 8, 9, 40, MOST_SUMMED)
"""So many elements' sums tell orders apart: without eights, with one, with a rest, with several."""

_lock = threading.Lock()
_made: list[CompiledModule] = []


def _make() -> None:
    """Make the functions known to the engine."""
    with _lock:
        if _made:
            return
        add_symbol("jc_power_loop", _address(np.power, "dd->d"))
        add_symbol("jc_add_loop", _address(np.add, "dd->d"))
        module = compile_module(_text(), name="numpy loops", effort="code")
        for symbol, address in _addresses(module).items():
            add_symbol(symbol, address)
        _made.append(module)


def _addresses(module: CompiledModule) -> dict[str, int]:
    """What native code calls, by symbol."""
    found = {symbol: module.address(symbol) for symbol in module.symbols}
    if not _adds_as_numpy(found["jc_sum_float64"]):
        found["jc_sum_float64"] = found["jc_sum_by_loop"]
    return found


def _adds_as_numpy(address: int) -> bool:
    """Whether a function's sums are NumPy's to the last bit."""
    total = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    added = total(address)
    elements = np.random.default_rng(7).standard_normal(MOST_SUMMED)
    start = elements.ctypes.data
    return all(added(start, 0, count) == np.add.reduce(elements[:count]) for count in _COUNTS)


def _text() -> str:
    name, loop = "jc_power_float64", "jc_power_loop"
    return "".join(
        (
            f"declare void @{loop}(ptr, ptr, ptr, ptr)\n",
            "declare void @jc_add_loop(ptr, ptr, ptr, ptr)\n",
            _ELEMENTWISE.format(type="double", name=name, lanes=1, loop=loop),
            *(
                _ELEMENTWISE.format(type=f"<{n} x double>", name=vector, lanes=n, loop=loop)
                for n, vector in vector_names(name).items()
            ),
            _SUM,
            _SUM_BY_LOOP,
        )
    )


for _name in VECTOR_FORMS:
    for _symbol in (_name, *vector_names(_name).values()):
        add_maker(_symbol, _make)
add_maker("jc_sum_float64", _make)
