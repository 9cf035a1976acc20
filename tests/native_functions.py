"""Native functions written by hand, with the entries that make them callable from tests."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jitcore.codegen.engine import compile_module
from jitcore.codegen.entries.entry import CaptureGuard, ReleaseGil, bind, make_entry
from jitcore.codegen.entries.signature import (
    ArrayParam,
    Layout,
    Param,
    Result,
    ScalarParam,
    ScalarResult,
    Signature,
    TupleParam,
    TupleResult,
)
from jitcore.codegen.printers.llvm_instructions import memory_type

MISSED = object()
"""What the next callable returns."""
INTEGER = ScalarParam("int", np.dtype(np.int64))
INT = ScalarResult("int", np.dtype(np.int64))
FLOAT = ScalarResult("float", np.dtype(np.float64))
REAL_DTYPES = [np.dtype(char) for char in "?bhilBHILefd"]
COMPLEX_DTYPES = [np.dtype(char) for char in "FD"]


@dataclass
class Recorder:
    """A next callable and an error handler that remember how they were called."""

    misses: list[tuple[tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)
    errors: list[tuple[Any, ...]] = field(default_factory=list)

    def next(self, *args: Any, **kwargs: Any) -> Any:
        self.misses.append((args, kwargs))
        return MISSED

    def handler(self, status: int, address: int, *args: Any) -> Any:
        payload = (ctypes.c_int64 * 2).from_address(address)
        self.errors.append((status, list(payload), args))
        return "handled"


def load(
    native: str,
    signature: Signature,
    recorder: Recorder,
    captures: Sequence[CaptureGuard] = (),
    *,
    release_gil: ReleaseGil = "never",
    check_errstate: bool = False,
) -> Callable[..., Any]:
    """Compile a native function ``@native`` with its entry."""
    entry = make_entry(
        signature,
        "native",
        name="test",
        captures=captures,
        release_gil=release_gil,
        check_errstate=check_errstate,
    )
    module = compile_module(native + entry.text, name="test")
    entry.fill(module)
    address = module.address(entry.symbol)
    return bind(address, "test", recorder.next, recorder.handler, owner=(module, entry))


def operand_types(param: Param) -> list[str]:
    """The LLVM types of the operands that OVERVIEW promises for a parameter."""
    if isinstance(param, TupleParam):
        return [type_ for element in param.elements for type_ in operand_types(element)]
    if isinstance(param, ArrayParam):
        symbols = sum(dim is None for dim in param.dims)
        return ["ptr"] + ["i64"] * (symbols + len(param.dims) * (param.layout == "strided"))
    if isinstance(param, ScalarParam):
        if param.dtype.kind == "c":
            return [memory_type(f"float{4 * param.dtype.itemsize}")] * 2
        return [memory_type(param.dtype.name)]
    return []


def echo(
    *params: Param, captures: Sequence[CaptureGuard] = (), check_errstate: bool = False
) -> Any:
    """A function that returns all its native operands as Python ints and floats."""
    types = [type_ for param in params for type_ in operand_types(param)]
    lines, results = [], []
    for number, type_ in enumerate(types):
        operand = f"%a{number}"
        if type_ in ("half", "float"):
            lines.append(f"  %w{number} = fpext {type_} {operand} to double")
        elif type_ == "ptr":
            lines.append(f"  %w{number} = ptrtoint ptr {operand} to i64")
        elif type_ in ("i8", "i16", "i32"):
            lines.append(f"  %w{number} = sext {type_} {operand} to i64")
        else:
            lines.append(f"  %w{number} = bitcast {type_} {operand} to {type_}")
        kind = "double" if type_ in ("half", "float", "double") else "i64"
        results.append(FLOAT if kind == "double" else INT)
        lines.append(f"  %p{number} = getelementptr i64, ptr %results, i64 {number}")
        lines.append(f"  store {kind} %w{number}, ptr %p{number}")
    header = ", ".join([*(f"{t} %a{n}" for n, t in enumerate(types)), "ptr %results"])
    native = f"define i64 @native({header}) {{\n" + "\n".join(lines) + "\n  ret i64 0\n}\n"
    recorder = Recorder()
    signature = Signature(params, TupleResult(tuple(results)))
    return load(native, signature, recorder, captures, check_errstate=check_errstate), recorder


def give(body: str, result: Result, *params: Param, release_gil: ReleaseGil = "never") -> Any:
    """A function whose native part is this body; ``%s0`` to ``%s3`` are the first slots."""
    types = [type_ for param in params for type_ in operand_types(param)]
    header = ", ".join([*(f"{t} %a{n}" for n, t in enumerate(types)), "ptr %results"])
    slots = "".join(
        f"  %s{number} = getelementptr i64, ptr %results, i64 {number}\n" for number in range(4)
    )
    native = f"{DECLARATIONS}define i64 @native({header}) {{\n{slots}{body}\n}}\n"
    recorder = Recorder()
    return load(native, Signature(params, result), recorder, release_gil=release_gil), recorder


DECLARATIONS = f"declare ptr @jc_empty({', '.join(['i64'] * 11)})\ndeclare void @jc_decref(ptr)\n"


def missed(function: Any, *args: Any, **kwargs: Any) -> bool:
    """Whether a call goes on to the next callable."""
    return function(*args, **kwargs) is MISSED


def float_param(*dims: int | None, layout: Layout = "C", written: bool = False) -> ArrayParam:
    """A float32 array."""
    return ArrayParam(np.dtype(np.float32), dims, layout, written)


def empty_text(dtype: type, *dims: int, order: int = 0) -> str:
    """A call of ``jc_empty`` for an array of these dims."""
    numbers = [np.dtype(dtype).num, order, len(dims), *dims, *[0] * (8 - len(dims))]
    return f"call ptr @jc_empty({', '.join(f'i64 {number}' for number in numbers)})"
