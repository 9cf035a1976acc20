"""Compares a scripted function with plain Python: values, types, aliases, mutations, output."""

from __future__ import annotations

import contextlib
import copy
import io
import types
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

import jitcore
from jitcore.pipeline import NativePlan

__all__ = [
    "Program",
    "Table",
    "assert_like_python",
    "check_calls",
    "is_native",
    "observed",
    "place_of",
    "programs_in",
]

_ATOMS = (
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.ModuleType,
    np.dtype,
    Enum,
    range,
    slice,
    str,
    bytes,
    int,
    type(None),
    type(Ellipsis),
)


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


def observed(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """All that a caller can see of one call, as nested tuples that can be compared."""
    copies = copy.deepcopy(args)
    output = io.StringIO()
    result, error = None, None
    with warnings.catch_warnings(), contextlib.redirect_stdout(output):
        warnings.simplefilter("ignore")
        try:
            result = function(*copies)
        except Exception as raised:
            error = (type(raised), str(raised), type(raised.__cause__))
    # One walk over both: aliases between arguments and result are part of what is seen.
    return _Walk().seen((copies, result)), error, output.getvalue()


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


class _Walk:
    """Describes values; an object met again is described by its number."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []

    def seen(self, value: Any) -> Any:
        """A description in which equal means: the same to any Python program."""
        kind = type(value)
        if isinstance(value, float | complex | np.generic):
            return kind, repr(value)
        if isinstance(value, _ATOMS):
            return kind, value
        if kind in (tuple, frozenset) or (isinstance(value, tuple) and hasattr(value, "_fields")):
            return kind, tuple(self.seen(item) for item in value)
        if id(value) in self._numbers:
            return "again", self._numbers[id(value)]
        self._numbers[id(value)] = len(self._numbers)
        # Kept alive, so that no other object takes its identity.
        self._kept.append(value)
        return kind, self._contents(value)

    def _contents(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            shown = tuple(map(self.seen, value.flat)) if value.dtype == object else value.tobytes()
            return value.dtype, value.shape, value.flags.writeable, shown
        if isinstance(value, dict):
            return tuple((self.seen(key), self.seen(one)) for key, one in value.items())
        if isinstance(value, np.random.Generator):
            return self.seen(value.bit_generator.state)
        if isinstance(value, set):
            return tuple(sorted(map(repr, value)))
        if isinstance(value, list):
            return tuple(map(self.seen, value))
        if hasattr(value, "__next__"):
            return tuple(map(self.seen, value))
        slots = getattr(type(value), "__slots__", ())
        state = {**getattr(value, "__dict__", {})}
        state |= {name: getattr(value, name) for name in slots if hasattr(value, name)}
        return self.seen(state) if state else repr(value)
