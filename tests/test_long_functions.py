"""Long functions compile, in time proportional to their length."""

from __future__ import annotations

import cProfile
import pstats
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checking import check, function_from_source
from jitcore import script

ARRAYS = ["x = x * 0.5 + y", "x = x - y", "x = np.abs(x)", "x = x * y"]
SCALARS = ["x = x * 0.5", "x = x + y", "x = x - 1.5", "x = abs(x)"]
INTEGERS = ["x = x ^ 5", "x = x & y", "x = x - 1", "x = x | 3"]
IN_PLACE = ["x *= 0.5", "x += y", "x -= 1.5", "x = np.minimum(x, y)"]
FORMS = {
    "arrays": (ARRAYS, (np.linspace(-1, 1, 50), np.linspace(0.5, 1.5, 50))),
    "scalars": (SCALARS, (1.0, 2.0)),
    "integers": (INTEGERS, (7, 12)),
    "in place": (IN_PLACE, (np.linspace(-1, 1, 50), np.linspace(0.5, 1.5, 50))),
}


def _repeated(statements: list[str], length: int) -> Callable[..., Any]:
    lines = [statements[number % len(statements)] for number in range(length)]
    body = "\n".join(f"    {line}" for line in [*lines, "return x"])
    return function_from_source(f"def f(x, y):\n{body}\n")


@pytest.mark.parametrize("form", FORMS)
def test_a_thousand_operations(form: str) -> None:
    statements, arguments = FORMS[form]
    length = 120 if form == "in place" else 1000
    function = check(_repeated(statements, length), *arguments)
    assert len(function.kernels) == 1


def _calls_made(statements: list[str], length: int, arguments: tuple[Any, ...]) -> int:
    """How many calls of Python functions it takes to compile and to run."""
    function = _repeated(statements, length)
    with cProfile.Profile() as profile:
        script(function)(*arguments)
    calls: int = pstats.Stats(profile).total_calls  # type: ignore[attr-defined]
    return calls


@pytest.mark.parametrize("form", ["arrays", "scalars", "integers"])
def test_ten_times_as_long_takes_ten_times_as_many_steps(form: str) -> None:
    statements, arguments = FORMS[form]
    _calls_made(statements, 10, arguments)  # what is made once in a process
    short = _calls_made(statements, 100, arguments)
    assert _calls_made(statements, 1000, arguments) < 11 * short


def test_values_that_are_read_twice_are_computed_once() -> None:
    check(_repeated(["x = x * x"], 79), np.linspace(-1, 1, 7), 0.0)
    check(_repeated(["x = x.T * x + y"], 70), np.linspace(-1, 1, 9).reshape(3, 3), 0.5)
    check(_repeated(["x = x - x.max() * x"], 20), np.linspace(-1, 1, 7), 0.0)


def test_a_thousand_views() -> None:
    lines = ["x = x * y", *["x = x[::-1]"] * 1000, "return x + y"]
    body = "\n".join(f"    {line}" for line in lines)
    check(function_from_source(f"def f(x, y):\n{body}\n"), np.arange(7.0), 0.5)


def test_a_call_deep_in_the_stack_compiles() -> None:
    limit = sys.getrecursionlimit()

    def deep(levels: int) -> Any:
        if levels:
            return deep(levels - 1)
        return script(_repeated(ARRAYS, 300))(*FORMS["arrays"][1])

    expected = _repeated(ARRAYS, 300)(*FORMS["arrays"][1])
    np.testing.assert_array_equal(deep(limit * 2 // 3), expected)
