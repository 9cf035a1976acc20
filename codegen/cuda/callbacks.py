"""Functions of Python that native code calls, and that never leave it without an answer.

What a function of ctypes gives is undefined where an exception leaves it, and an interrupt arrives
between any two instructions, the first one included; no handler of the function's own can do
without help.  Native code therefore calls a function that is defined in its own module::

    ptr @jc_cuda_malloc(i64 %p0):
        answer = two words: what it gives where it fails, and that there is no answer yet
        call void @jc_cuda_malloc_answered(i64 %p0, ptr answer)
        add the second word to @jc_cuda_interrupts
        return the first word, or what it gives where it fails if there is no answer

An exception that the function can catch is kept in the running call, which raises it; one that it
cannot, Python drops, and the call raises KeyboardInterrupt where it ends.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from jitcore.codegen.cuda import calls
from jitcore.codegen.engine import add_maker, add_symbol
from jitcore.ir.dataclass import dataclass

__all__ = ["Callback", "add_callback", "definitions", "has_direct", "is_callback"]

_TYPES: dict[str, Any] = {"ptr": ctypes.c_void_p, "i32": ctypes.c_int32, "i64": ctypes.c_int64}
_WORDS = ctypes.c_int64 * 2
_OPEN = 1


@dataclass(frozen=True, slots=True)
class Callback:
    """A function that native code calls.

    Parameters
    ----------
    symbol : str
        What native code calls it.
    result : str
        An LLVM type: ``"ptr"``, ``"i32"``, ``"i64"`` or ``"void"``.
    parameters : tuple of str
        Such types.
    function : callable
    failed : int
        What it gives where it raises.
    direct : str
        The function that is called in its place in direct calls (`codegen.cuda.direct`), whose
        record it gets, too; empty where there is none.
    """

    symbol: str
    result: str
    parameters: tuple[str, ...]
    function: Callable[..., int | None]
    failed: int = 0
    direct: str = ""


_known: dict[str, Callback] = {}
_functions: dict[str, Any] = {}
"""They live as long as compiled code may call them."""


def add_callback(callback: Callback) -> None:
    """Make a function known to native code that is compiled from now on."""
    types = [_TYPES[one] for one in callback.parameters]
    symbol = _answered(callback.symbol)
    _known[callback.symbol] = callback
    # It takes the GIL where the native function has given it up.
    _functions[symbol] = ctypes.CFUNCTYPE(None, *types, ctypes.c_void_p)(_answering(callback))
    address = ctypes.cast(_functions[symbol], ctypes.c_void_p).value or 0
    add_maker(symbol, lambda: add_symbol(symbol, address))


def is_callback(symbol: str) -> bool:
    """Whether native code has to define this function in its module."""
    return symbol in _known


def has_direct(symbol: str) -> bool:
    """Whether a function may be called in direct calls."""
    return symbol in _known and bool(_known[symbol].direct)


def definitions(symbols: Sequence[str]) -> str:
    """The LLVM code of what native code calls under some symbols."""
    if not symbols:
        return ""
    words = (
        "@jc_cuda_direct = external global ptr",
        "@jc_cuda_interrupts = external global i64",
    )
    return "\n".join([*words, *map(_definition, symbols)])


def _definition(symbol: str) -> str:
    one = _known[symbol]
    params = [f"{type_} %p{number}" for number, type_ in enumerate(one.parameters)]
    lines = [
        f"declare void @{_answered(symbol)}({', '.join([*one.parameters, 'ptr'])})",
        *_direct_declaration(one),
        f"define internal {one.result} @{symbol}({', '.join(params)}) {{",
        *_direct_call(one, params),
        "  %answer = alloca [2 x i64], align 8",
        "  %open = getelementptr i64, ptr %answer, i64 1",
        f"  store i64 {one.failed}, ptr %answer",
        f"  store i64 {_OPEN}, ptr %open",
        f"  call void @{_answered(symbol)}({', '.join([*params, 'ptr %answer'])})",
        "  %given = load i64, ptr %answer",
        "  %missing = load i64, ptr %open",
        "  %before = load i64, ptr @jc_cuda_interrupts",
        "  %interrupts = add i64 %before, %missing",
        "  store i64 %interrupts, ptr @jc_cuda_interrupts",
        "  %answered = icmp eq i64 %missing, 0",
        f"  %value = select i1 %answered, i64 %given, i64 {one.failed}",
        *_returned(one.result),
        "}",
        "",
    ]
    return "\n".join(lines)


def _direct_declaration(one: Callback) -> list[str]:
    if not one.direct:
        return []
    return [f"declare {one.result} @{one.direct}({', '.join(['ptr', *one.parameters])})"]


def _direct_call(one: Callback, params: Sequence[str]) -> list[str]:
    """The way that direct calls take."""
    if not one.direct:
        return []
    is_void = one.result == "void"
    given = "" if is_void else "%found = "
    return [
        "  %record = load ptr, ptr @jc_cuda_direct",
        "  %is.direct = icmp ne ptr %record, null",
        "  br i1 %is.direct, label %direct, label %other",
        "direct:",
        f"  {given}call {one.result} @{one.direct}({', '.join(['ptr %record', *params])})",
        "  ret void" if is_void else f"  ret {one.result} %found",
        "other:",
    ]


def _returned(result: str) -> list[str]:
    if result == "void":
        return ["  ret void"]
    if result == "i64":
        return ["  ret i64 %value"]
    opcode = "inttoptr" if result == "ptr" else "trunc"
    return [f"  %result = {opcode} i64 %value to {result}", f"  ret {result} %result"]


def _answered(symbol: str) -> str:
    return f"{symbol}_answered"


def _answering(callback: Callback) -> Callable[..., None]:
    """The function with two words for its answer in the place of a result."""
    function = callback.function

    def called(*args: Any) -> None:
        *numbers, place = args
        words = _WORDS.from_address(place)
        try:
            words[0] = function(*numbers) or 0
        except BaseException as error:
            calls.running_call().error = error
        words[1] = 0

    return called
