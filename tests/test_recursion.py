# mypy: allow-untyped-defs, allow-untyped-calls
"""Functions that call themselves, or one another, by their scripted names."""

from __future__ import annotations

import functools
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitcore
from jitcore import script


@script
def count(n, step=1, *more, scale=2, **named):
    """The text."""
    if n <= 0:
        return (scale, more, sorted(named))
    if n % 3 == 0:
        return count(n - step, step, n, scale=scale + 1, last=n)
    return count(n - step, *more, **named) if n % 5 else count(n=n - step)


def plain_count(n, step=1, *more, scale=2, **named):
    if n <= 0:
        return (scale, more, sorted(named))
    if n % 3 == 0:
        return plain_count(n - step, step, n, scale=scale + 1, last=n)
    return plain_count(n - step, *more, **named) if n % 5 else plain_count(n=n - step)


@script
def paths(grid, row, column):
    if row == len(grid) or column == len(grid[0]) or grid[row][column]:
        return 0
    if (row, column) == (len(grid) - 1, len(grid[0]) - 1):
        return 1
    return sum(paths(grid, row + one, column + 1 - one) for one in (0, 1))


@script
def depth(n):
    return 0 if n == 0 else 1 + depth(n - 1)


@script
def failing(n):
    if n == 0:
        raise KeyError("the end")
    return [failing(m - 1) for m in (n,)]


def test_arguments_of_all_kinds() -> None:
    for n in (0, 1, 3, 5, 7, 30):
        assert count(n) == plain_count(n)
        assert count(n, 2, scale=4) == plain_count(n, 2, scale=4)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'n'"):
        count()
    assert count.__doc__ == "The text."


def test_calls_in_generators() -> None:
    grid = [[0, 0, 0, 1], [0, 1, 0, 0], [0, 0, 0, 0]]
    assert paths(grid, 0, 0) == 3


def test_it_goes_as_deep_as_in_python() -> None:
    deep = sys.getrecursionlimit() - 150
    for _ in range(2):
        assert depth(deep) == deep
    with pytest.raises(RecursionError):
        depth(sys.getrecursionlimit() + 50)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    try:
        assert depth(50_000) == 50_000
    finally:
        sys.setrecursionlimit(limit)


def test_places_of_errors() -> None:
    for _ in range(2):
        with pytest.raises(KeyError, match="the end") as found:
            failing(3)
        frames = traceback.extract_tb(found.value.__traceback__)
        own = [one for one in frames if one.filename == __file__ and one.name == "failing"]
        assert own[-1].line == 'raise KeyError("the end")'
        assert {one.line for one in own[:-1]} == {"return [failing(m - 1) for m in (n,)]"}


def made(kind: str) -> tuple[Callable[..., Any], dict[str, Any]]:
    """A function of its own for each test, and the names around it."""
    around: dict[str, Any] = {"seen": []}

    def walk(n):
        around["seen"].append(n)
        return n if n == 0 else around["walk"](n - 1) + (walk(n - 2) if n > 1 else 0)

    walk = script(walk)
    around["walk"] = walk
    return walk, around


def test_a_name_in_a_closure() -> None:
    walk, around = made("closure")
    assert walk(4) == 0
    assert around["seen"][:4] == [4, 3, 2, 1]


def twice(n):
    return 1 if n == 0 else 2 * twice(n - 1)


def test_a_name_that_is_bound_to_something_else() -> None:
    kept = twice
    try:
        globals()["twice"] = script(kept)
        scripted: Any = twice
        assert scripted(5) == 32 and scripted.is_recursive
        calls = []

        def other(n):
            calls.append(n)
            return 100

        globals()["twice"] = other
        assert scripted(5) == 200 and calls == [4]
        globals()["twice"] = functools.lru_cache(scripted)
        assert scripted(5) == 32
        del globals()["twice"]
        with pytest.raises(NameError, match="twice"):
            scripted(5)
    finally:
        globals()["twice"] = kept


def test_code_that_is_set_anew() -> None:
    kept = twice
    try:
        globals()["twice"] = script(kept)
        assert twice(3) == 8
        code = kept.__code__
        kept.__code__ = (lambda n: -n).__code__
        assert twice(3) == -3
        kept.__code__ = code
        assert twice(3) == 8
    finally:
        globals()["twice"] = kept


def test_the_source_stays_what_it_is() -> None:
    other = script(depth.__wrapped__)
    assert other(5) == 5 and "depth(" in str(jitcore.script(depth.__wrapped__).code)


@script
def is_even(n):
    return n == 0 or is_odd(n - 1)


@script
def is_odd(n):
    return n != 0 and is_even(n - 1)


def test_two_functions_that_call_each_other() -> None:
    assert [is_even(n) for n in range(5)] == [True, False, True, False, True]
    assert [is_odd(n) for n in range(3)] == [False, True, False]
    deep = sys.getrecursionlimit() - 150
    for _ in range(2):
        assert is_odd(deep) == (deep % 2 == 1)
    with pytest.raises(RecursionError):
        is_even(sys.getrecursionlimit() + 50)


@script
def expression(text, values, at):
    value, at = term(text, values, at)
    while at < len(text) and text[at] in "+-":
        more, end = term(text, values, at + 1)
        value, at = (value + more if text[at] == "+" else value - more), end
    return value, at


def term(text, values, at):
    """This one is not compiled."""
    value, at = factor(text, values, at)
    while at < len(text) and text[at] == "*":
        more, at = factor(text, values, at + 1)
        value = value * more
    return value, at


@script
def factor(text, values, at):
    if text[at] == "(":
        value, at = expression(text, values, at + 1)
        return value, at + 1
    return values[int(text[at])], at + 1


def test_an_evaluator_of_arrays() -> None:
    values = np.random.default_rng(3).normal(size=(3, 4))
    x, y, z = values
    for _ in range(3):
        found, end = expression("(0+1)*(0-(1*2))+1*1-2", values, 0)
        np.testing.assert_array_equal(found, (x + y) * (x - (y * z)) + y * y - z)
        assert end == 21
    nested = "(" * 200 + "0" + ")" * 200
    np.testing.assert_array_equal(expression(nested, values, 0)[0], x)


def test_a_name_on_the_way_that_is_bound_to_something_else() -> None:
    kept = is_odd
    assert is_even(4)
    try:
        calls = []

        def other(n):
            calls.append(n)
            return n == 3

        globals()["is_odd"] = other
        assert is_even(4) and not is_even(5) and calls == [3, 4]
    finally:
        globals()["is_odd"] = kept
    assert is_even(4) and not is_even(5)


def test_code_on_the_way_that_is_set_anew() -> None:
    plain = is_odd.__wrapped__
    assert is_even(4)
    code = plain.__code__
    try:
        plain.__code__ = (lambda n: n == 10).__code__
        assert is_even(11) and not is_even(4)
    finally:
        plain.__code__ = code
    assert is_even(4) and not is_even(11)


@script
def shadowed(n):
    if n <= 0:
        return 0
    own = sum(shadowed(-3) for shadowed in (abs,)) + (lambda shadowed: shadowed(-7))(abs)
    return shadowed(n - 1) + own + shadowed_in_class(n)


@jitcore.ignore
def shadowed_in_class(n):
    rest = shadowed(n - 1)

    class Local:
        shadowed = abs
        five = shadowed(-5)

    return rest - rest + Local.five


def test_other_variables_of_the_same_name() -> None:
    assert [shadowed(n) for n in (0, 1, 4)] == [0, 15, 60]


listeners: list[Callable[[int], None]] = []


@script
def listened(n):
    for one in listeners:
        one(n)
    return 0 if n == 0 else 1 + listened(n - 1)


def test_a_name_that_is_bound_anew_by_what_is_reached_later() -> None:
    kept = listened

    def bind(n):
        if n == 2:
            globals()["listened"] = lambda n: 1000

    assert listened(3) == listened(3) == 3
    listeners.append(bind)
    try:
        assert listened(3) == 1002
    finally:
        listeners.clear()
        globals()["listened"] = kept
    assert listened(3) == 3
