"""Functions and partial functions that are arguments: the checks, and what they hold."""

from __future__ import annotations

from functools import partial
from types import FunctionType

from jitcore.codegen.entries import layout
from jitcore.codegen.entries.entry_code import EntryCode
from jitcore.ir.types import OpenFunction, OpenPartial

__all__ = ["held_by_function", "held_by_partial"]


def held_by_function(code: EntryCode, function: OpenFunction, value: str) -> list[str]:
    """What a function with this code holds for variables around it, and for defaults."""
    template = function.template
    code.guard_type(value, FunctionType)
    code.guard(
        code.same(code.load("ptr", value, layout.FUNCTION_CODE), code.constant(template.__code__)),
        code.same(
            code.load("ptr", value, layout.FUNCTION_GLOBALS), code.constant(template.__globals__)
        ),
        code.same(code.load("ptr", value, layout.FUNCTION_KEYWORD_DEFAULTS), "null"),
    )
    found = []
    for number in range(len(function.variables)):
        closure = code.load("ptr", value, layout.FUNCTION_CLOSURE)
        cell = code.load("ptr", closure, layout.TUPLE_ITEMS + 8 * number)
        found.append(_held(code, code.load("ptr", cell, layout.CELL_CONTENTS)))
    defaults = code.load("ptr", value, layout.FUNCTION_DEFAULTS)
    if not template.__defaults__:
        code.guard(code.same(defaults, "null"))
        return found
    return found + code.tuple_items(_held(code, defaults), len(template.__defaults__))


def _held(code: EntryCode, value: str) -> str:
    """What must be there, kept alive: another thread may put something else in its place."""
    code.guard(code.value(f"icmp ne ptr {value}, null"))
    return code.hold(value)


def held_by_partial(code: EntryCode, function: OpenPartial, value: str) -> list[str]:
    """The function and the arguments that a partial function holds."""
    code.guard_type(value, partial)
    called, args = code.attribute(value, "func"), code.attribute(value, "args")
    named = code.attribute(value, "keywords")
    code.guard_type(named, dict)
    size = code.call("i64", "PyDict_Size", f"ptr {named}")
    code.guard(code.same(size, str(len(function.keywords)), "i64"))
    found = [called, *code.tuple_items(args, function.count)]
    for name in function.keywords:
        key = code.constant_name(name)
        found.append(_held(code, code.call("ptr", "PyDict_GetItem", f"ptr {named}", f"ptr {key}")))
    return found
