"""Functions in which there is nothing to compile: the plain function runs, and nothing else."""
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import math
import sys
from typing import NamedTuple

import numpy as np
import pytest

import jitcore
from jitcore import Error, fork, ignore, is_scripting, script, unused, wait
from jitcore.execution import trials


@ignore
def running_code():
    """The code that calls this one."""
    return sys._getframe(1).f_code


def words(text):
    found: dict[str, list[int]] = {}
    for word in text.split():
        found.setdefault(word, []).append(len(found))
    return found, running_code()


def test_the_plain_function_runs_where_nothing_is_compiled():
    scripted = script(words)
    for _ in range(40):  # entries come after some calls
        found, code = scripted("to be or not to be")
        assert found == words("to be or not to be")[0]
        assert code is words.__code__


def asking(text):
    return [word if is_scripting() else "plain" for word in text.split()]


def test_what_asks_whether_it_is_compiled_stays_a_program():
    assert script(asking)("a b") == ["a", "b"]
    assert asking("a b") == ["plain", "plain"]


@unused
def never(text):
    return text


def calling_unused(text):
    return never(text.strip())


def test_unused_functions_raise_where_nothing_is_compiled():
    assert calling_unused(" a") == "a"
    with pytest.raises(Error, match="marked as unused"):
        script(calling_unused)(" a")


def task(text):
    return text.upper() if is_scripting() else text


def forking(text):
    return wait(fork(task, text))


def test_forked_functions_are_compiled_where_nothing_else_is():
    assert script(forking)("a") == "A"


LIMIT = [3]


def reading_a_global(text):
    return text.split()[: LIMIT[0]]


def test_globals_are_read_at_each_call():
    scripted = script(reading_a_global)
    assert scripted("a b c d") == ["a", "b", "c"]
    LIMIT[0] = 1
    try:
        assert scripted("a b c d") == ["a"]
    finally:
        LIMIT[0] = 3


def test_the_report_says_that_it_runs_in_python():
    report = str(jitcore.explain(script(words))("a b"))
    assert "with no native regions" in report


TABLE = {"a": [1], "b": [2, 3]}


def looked_up(text):
    return [TABLE[word] for word in text.split()], running_code()


def test_containers_in_globals_are_the_same_objects():
    scripted = script(looked_up)
    for _ in range(40):
        (first, second), code = scripted("a b")
        assert first is TABLE["a"] and second is TABLE["b"]
        assert code is looked_up.__code__


def asks(thing):
    return is_scripting()


def passed_on(function, thing):
    return function(thing), str(thing)


def calls_inner(thing):
    def inner():
        return is_scripting()

    return inner(), str(thing)


def test_functions_that_come_in_may_ask_whether_they_are_compiled():
    scripted = script(passed_on)
    for _ in range(40):
        assert scripted(asks, TABLE) == (True, str(TABLE))
        assert scripted(len, TABLE) == (2, str(TABLE))
    assert script(passed_on)(script(asks), TABLE)[0] is True
    assert script(calls_inner)(TABLE)[0] is True


class Point(NamedTuple):
    x: float
    y: float


def dot(p, q):
    return p.x * q.x + p.y * q.y


def nearest(p, circles):
    """A few single numbers at a time, of arguments in which functions may be."""
    best = math.inf
    for centre, radius in circles:
        apart = Point(centre.x - p.x, centre.y - p.y)
        best = min(best, math.sqrt(dot(apart, apart)) - radius)
    return best, running_code()


def smoothed(p, circles):
    """The same, and arrays on the way."""
    total = np.zeros(64)
    for centre, radius in circles:
        total = total * centre.x + np.sqrt(np.abs(total) + radius) - p.y
    return total, running_code()


@pytest.mark.parametrize(("program", "is_left"), [(nearest, True), (smoothed, False)])
def test_a_few_single_numbers_are_not_worth_a_look_at_the_arguments(program, is_left, monkeypatch):
    monkeypatch.setattr(trials, "SHORT", 0.0)  # whatever takes longer today
    scripted = script(program)
    for number in range(40):
        circles = [(Point(k, number), k / 2 + 0.5) for k in range(5)]
        found, code = scripted(Point(1.0, 2.5), circles)
        assert np.array_equal(found, program(Point(1.0, 2.5), circles)[0])
    assert (code is program.__code__) == is_left
