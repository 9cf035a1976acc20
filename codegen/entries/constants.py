"""The checks of arguments that a function was compiled for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitcore.codegen.entries import layout
from jitcore.codegen.entries.entry_code import EntryCode

__all__ = ["check_constant", "check_equal"]

_RICH_COMPARE_EQ = 2


def check_constant(code: EntryCode, wanted: Any, value: str) -> None:
    """Check that ``value`` is ``wanted``, or a number, str or tuple that nothing tells from it."""
    is_wanted = code.same(value, code.constant(wanted))
    if type(wanted) not in _EQUALITY:
        code.guard(is_wanted)
        return
    compare, done = code.new_label("compare"), code.new_label("constant")
    code.effect(f"br i1 {is_wanted}, label %{done}, label %{compare}")
    code.start(compare)
    if type(wanted) is not tuple:
        code.guard_type(value, type(wanted))
    _EQUALITY[type(wanted)](code, wanted, value)
    code.jump(done)
    code.start(done)


def check_equal(code: EntryCode, wanted: Any, value: str) -> None:
    """Check that ``value`` is, or equals, what ``==`` compares without code of the program."""
    operands = (f"ptr {value}", f"ptr {code.constant(wanted)}", f"i32 {_RICH_COMPARE_EQ}")
    code.guard(code.same(code.call("i32", "PyObject_RichCompareBool", *operands), "1", "i32"))


def _check_bits(code: EntryCode, wanted: Any, value: str) -> None:
    """Check the bits of a float or of both parts of a complex: -0.0 is not 0.0, NaN is NaN."""
    offsets = [layout.FLOAT_VALUE]
    if type(wanted) is complex:
        offsets = [layout.COMPLEX_REAL, layout.COMPLEX_IMAG]
    constant = code.constant(wanted)
    for offset in offsets:
        bits = code.load("i64", constant, offset)
        code.guard(code.same(code.load("i64", value, offset), bits, "i64"))


def _check_items(code: EntryCode, wanted: Any, value: str) -> None:
    for item, found in zip(wanted, code.tuple_items(value, len(wanted)), strict=True):
        check_constant(code, item, found)


_EQUALITY: dict[type, Callable[[EntryCode, Any, str], None]] = {
    str: check_equal,
    int: check_equal,
    float: _check_bits,
    complex: _check_bits,
    tuple: _check_items,
}
