"""What a user sees of an exception that leaves a compiled function."""
# mypy: allow-untyped-defs, allow-untyped-calls, allow-incomplete-defs

from __future__ import annotations

import traceback
from pathlib import Path
from typing import cast

import numpy as np
import pytest

import jitcore
from jitcore import script


def native(x, i):
    y = x * 2
    return y[i]


def native_after_a_write(x, i):
    x[0] = 5
    y = x * 2
    return y[i]


def in_the_host(d, k):
    total = 0
    for a in d:
        total += d[a]
    return total + d[k]


def calls(d, k):
    print("called")
    return in_another_function(d, k) + 1


def in_another_function(d, k):
    return d[k]


def in_a_loop(values, n):
    values.append(1)
    t = 0
    for i in range(n):
        t += i // (n - 5)
    return values[t]


def raised_from(d):
    try:
        return d["a"]
    except KeyError as error:
        raise ValueError("no a") from error


def in_a_callback(values):
    return sorted(values, key=lambda v: 1 // v)


CASES = [
    (native, (np.ones(3), 7), "return y[i]"),
    (native_after_a_write, (np.ones(3), 7), "return y[i]"),
    (in_the_host, ({"a": 1}, "z"), "return total + d[k]"),
    (calls, ({}, 1), "return d[k]"),
    (in_a_loop, ([], 5), "t += i // (n - 5)"),
    (raised_from, ({},), 'raise ValueError("no a") from error'),
    (in_a_callback, ([0, 1],), "return sorted(values, key=lambda v: 1 // v)"),
]


@pytest.mark.parametrize(("function", "args", "line"), CASES)
def test_ends_with_the_user_s_line(function, args, line) -> None:
    scripted = script(function)
    for _ in range(2):
        with pytest.raises(Exception) as caught:
            scripted(*args)
        frames = traceback.extract_tb(caught.value.__traceback__)
        assert frames[-1].line == line
        assert [Path(one.filename).name for one in frames].count("executor.py") <= 1
        assert not [one for one in frames if one.filename.startswith("<jitcore")]


def test_names_the_function_and_marks_the_place() -> None:
    with pytest.raises(KeyError) as caught:
        script(calls)({}, 1)
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.name, last.line) == ("in_another_function", "return d[k]")
    assert last.colno == 11


def test_each_line_once() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        script(in_a_loop)([], 5)
    frames = traceback.extract_tb(caught.value.__traceback__)
    lines = [one.lineno for one in frames if one.filename == __file__]
    assert len(lines) == len(set(lines))


def test_what_led_to_it_is_shown_in_the_same_way() -> None:
    with pytest.raises(ValueError) as caught:
        script(raised_from)({})
    cause = caught.value.__cause__
    assert cause is not None
    assert [one.line for one in traceback.extract_tb(cause.__traceback__)] == ['return d["a"]']


def test_wrong_arguments_are_an_error_of_the_call() -> None:
    with pytest.raises(TypeError, match="takes 2 positional arguments but 3") as caught:
        script(native)(1, 2, 3)
    assert caught.value.__context__ is None
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [Path(one.filename).name for one in frames] == ["test_tracebacks.py", "script.py"]


def refused(x):
    return eval("x")


def compiles_when_it_runs(x):
    return script(refused)(x)


def test_refusals_show_no_frames_of_the_compiler() -> None:
    with pytest.raises(jitcore.UnsupportedError, match="'eval' is not supported") as caught:
        script(compiles_when_it_runs)(1)
    frames = traceback.extract_tb(caught.value.__traceback__)
    names = [Path(one.filename).name for one in frames]
    assert set(names) == {"test_tracebacks.py", "script.py"}
    assert "return script(refused)(x)" in [one.line for one in frames]


def always(x):
    raise ValueError("always")


def through_a_compiled_one(x):
    return compiled_one(x) + 1


@script
def compiled_one(x):
    return always(x)


def caught_on_the_way(d):
    try:
        return compiled_one(1)
    except ValueError as error:
        raise KeyError(d) from error


def frames(function, args):
    """What a user sees of the exception of a call, and of those that led to it."""
    with pytest.raises(Exception) as found:
        function(*args)
    seen, error = [], cast(BaseException | None, found.value)
    while error is not None:
        walked = traceback.extract_tb(error.__traceback__)
        # That of a call which no entry takes begins with one that raises it again.
        own = [one for one in walked if one.name not in ("frames", "_miss")]
        seen.append([(one.name, one.lineno) for one in own])
        error = error.__cause__
    return seen


@pytest.mark.parametrize(
    ("function", "args"),
    [(always, (1,)), (through_a_compiled_one, (1,)), (caught_on_the_way, ({},))],
)
def test_functions_that_raise_again_and_again(function, args):
    scripted = script(function)
    expected = frames(function, args)
    for _ in range(60):
        assert frames(scripted, args) == expected
