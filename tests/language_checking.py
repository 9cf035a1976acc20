"""Compares scripted programs with plain Python, and tells where they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jitcore
from checking import observed
from jitcore.pipeline import NativePlan

__all__ = [
    "Program",
    "Table",
    "assert_like_python",
    "check_calls",
    "is_native",
    "place_of",
    "programs_in",
]


@dataclass(frozen=True, slots=True)
class Program:
    """A function that is its own specification.

    Parameters
    ----------
    construct : str
        The row of LANGUAGE.md that it is an example of.
    function : callable
        Plain Python.
    calls : sequence of tuple
        The arguments of each call, which are copied first.
    """

    construct: str
    function: Callable[..., Any]
    calls: Sequence[tuple[Any, ...]]

    def __str__(self) -> str:
        return self.function.__name__


Table = dict[str, list[tuple[Callable[..., Any], list[tuple[Any, ...]]]]]
"""Constructs, and for each of them functions with the arguments of their calls."""


def programs_in(table: Table) -> list[Program]:
    """A table with the constructs for keys, flattened."""
    return [
        Program(construct, function, calls)
        for construct, rows in table.items()
        for function, calls in rows
    ]


def assert_like_python(program: Program) -> Any:
    """Fail unless the scripted function does what the plain one does; gives the former."""
    scripted = jitcore.script(program.function)
    for _ in range(2):
        for args in program.calls:
            expected = observed(program.function, args)
            actual = observed(scripted, args)
            assert actual == expected, f"{program}{args!r}:\n{actual}\nexpected\n{expected}"
    return scripted


def check_calls(
    function: Callable[..., Any], *calls: tuple[Any, ...], native: bool = True
) -> jitcore.ScriptFunction:
    """Compare all calls with Python; the first decides whether compiled code takes them."""
    scripted = jitcore.script(function)
    for number, args in enumerate(calls):
        assert observed(scripted, args) == observed(function, args), args
        if number == 0:
            assert is_native(scripted) == native
    return scripted


def is_native(scripted: jitcore.ScriptFunction) -> bool:
    """Whether the specialization that was made last is native from end to end."""
    return isinstance(scripted.specializations[-1].plan, NativePlan)


def place_of(scripted: jitcore.ScriptFunction) -> str:
    """Where a function that has been called runs: ``"native"``, ``"host"`` or ``"both"``."""
    plans = {isinstance(one.plan, NativePlan) for one in scripted.specializations}
    if len(plans) == 2:
        return "both"
    if plans == {True}:
        return "native"
    return "host"
