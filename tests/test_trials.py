"""Host programs and plain functions that take calls in turns: the faster one stays."""

# mypy: allow-untyped-defs, allow-untyped-calls

import sys
from typing import Any

import numpy as np
import pytest

from jitcore import ignore, is_scripting, script
from jitcore.execution import trials
from jitcore.execution.host_entries import CALLS_BEFORE_ENTRY
from jitcore.execution.plain_forms import without_compiled
from jitcore.execution.trials import ALLOWANCE, TIMED_CALLS

SETTLED = CALLS_BEFORE_ENTRY + TIMED_CALLS


class Clock:
    """A clock that stands still but for what calls say they take."""

    def __init__(self):
        self.now = 0.0
        self.costs = {}

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(trials, "perf_counter", made)
    return made


@ignore
def take_time(clock):
    """Which of the two calls this, after the time that this one takes."""
    kind = "plain" if sys._getframe(1).f_code.co_filename == __file__ else "program"
    clock.now += clock.costs[kind]
    return kind


def counted(clock, counts, x):
    counts["calls"] = counts.get("calls", 0) + 1
    return take_time(clock), x * 2.0 + np.sqrt(np.abs(x))


def called(scripted, clock, counts, times):
    found = []
    x = np.linspace(-1, 1, 50)
    for _ in range(times):
        kind, result = scripted(clock, counts, x)
        np.testing.assert_array_equal(result, x * 2.0 + np.sqrt(np.abs(x)))
        found.append(kind)
    return found


@pytest.mark.parametrize(
    ("by_program", "by_plain", "stays", "tried"),
    [(1e-3, 1e-4, "plain", 36), (1e-4, 1e-3, "program", 5), (1e-2, 1e-3, "program", 0)],
)
def test_the_faster_one_stays(clock, by_program, by_plain, stays, tried):
    clock.costs = {"program": by_program, "plain": by_plain}
    scripted, counts = script(counted), dict[str, int]()
    kinds = called(scripted, clock, counts, SETTLED)
    assert set(kinds[:CALLS_BEFORE_ENTRY]) == {"program"}
    assert kinds.count("plain") == tried
    assert set(called(scripted, clock, counts, 20)) == {stays}
    assert counts == {"calls": SETTLED + 20}
    report = str(scripted.explain(clock, counts, np.ones(50)))
    assert ("has done calls like this one sooner" in report) == (stays == "plain")


def test_the_first_calls_of_the_plain_function_do_not_count(clock):
    # CPython 3.11 makes its bytecode faster after eight calls.
    clock.costs = {"program": 1e-3, "plain": 1.1e-3}
    scripted, counts = script(counted), dict[str, int]()
    kinds = called(scripted, clock, counts, CALLS_BEFORE_ENTRY)
    while kinds.count("plain") < 8:
        kinds += called(scripted, clock, counts, 1)
    clock.costs["plain"] = 5e-4
    called(scripted, clock, counts, SETTLED - len(kinds))
    assert set(called(scripted, clock, counts, 20)) == {"plain"}


def test_one_call_that_waits_for_other_programs_does_not_decide(clock):
    clock.costs = {"program": 1e-4, "plain": 1e-2}
    scripted, counts = script(counted), dict[str, int]()
    kinds = called(scripted, clock, counts, CALLS_BEFORE_ENTRY)
    while "plain" not in kinds:
        kinds += called(scripted, clock, counts, 1)
    clock.costs["plain"] = 3e-5
    called(scripted, clock, counts, SETTLED - len(kinds))
    assert set(called(scripted, clock, counts, 20)) == {"plain"}


def test_a_plain_function_that_takes_long_is_called_once(clock):
    clock.costs = {"program": 1e-3, "plain": 1.0}
    scripted, counts = script(counted), dict[str, int]()
    assert called(scripted, clock, counts, SETTLED).count("plain") == 1


def test_calls_that_take_much_longer_go_back_to_the_program(clock):
    clock.costs = {"program": 1e-3, "plain": 1e-4}
    scripted, counts = script(counted), dict[str, int]()
    called(scripted, clock, counts, SETTLED)
    clock.costs["plain"] = 0.7 * ALLOWANCE
    assert called(scripted, clock, counts, 1) == ["plain"]
    clock.costs["plain"] = 1e-4
    saved = called(scripted, clock, counts, 4)
    assert saved == ["plain"] * 4
    clock.costs["plain"] = 0.7 * ALLOWANCE
    kinds = called(scripted, clock, counts, 5)
    assert kinds == ["plain"] + ["program"] * 4
    clock.costs["plain"] = 1e-4
    assert set(called(scripted, clock, counts, 100)) == {"program"}


def asking(clock, counts, x):
    counts["scripting"] = is_scripting()
    return take_time(clock), x * 2.0 + np.sqrt(np.abs(x))


def test_programs_that_ask_whether_they_are_compiled_stay(clock):
    clock.costs = {"program": 1e-3, "plain": 1e-4}
    scripted, counts = script(asking), dict[str, bool]()
    called(scripted, clock, counts, SETTLED + 10)
    assert counts == {"scripting": True}


def doubled(x):
    return x * 2.0


compiled_double = script(doubled)


def through_another(clock, counts, x):
    counts["calls"] = counts.get("calls", 0) + 1
    return take_time(clock), compiled_double(x) + np.sqrt(np.abs(x))


def test_functions_that_are_compiled_with_the_program_need_not_be_compiled_again(clock):
    clock.costs = {"program": 1e-3, "plain": 1e-4}
    scripted, counts = script(through_another), dict[str, int]()
    called(scripted, clock, counts, SETTLED + 10)
    assert not compiled_double.specializations


def helped(x):
    return compiled_double(x) + 0.0


def through_helpers(clock, counts, x):
    counts["calls"] = counts.get("calls", 0) + 1
    return take_time(clock), helped(x) + np.sqrt(np.abs(x))


@pytest.mark.parametrize("function", [through_another, through_helpers])
def test_plain_functions_stand_for_those_that_are_compiled_with_the_program(clock, function):
    clock.costs = {"program": 1e-3, "plain": 1e-4}
    scripted, counts = script(function), dict[str, int]()
    called(scripted, clock, counts, SETTLED)
    assert set(called(scripted, clock, counts, 20)) == {"plain"}
    assert not compiled_double.specializations
    assert counts == {"calls": SETTLED + 20}


def doubled_twice(x):
    return x * 4.0


def test_names_of_compiled_functions_are_looked_at_in_each_call(clock):
    clock.costs = {"program": 1e-3, "plain": 1e-4}
    scripted, counts, x = script(through_helpers), dict[str, int](), np.linspace(-1, 1, 50)
    called(scripted, clock, counts, SETTLED + 5)
    kept = compiled_double
    try:
        globals()["compiled_double"] = doubled_twice
        _, result = scripted(clock, counts, x)
        np.testing.assert_array_equal(result, x * 4.0 + np.sqrt(np.abs(x)))
    finally:
        globals()["compiled_double"] = kept
    called(scripted, clock, counts, 5)


passed_double = script(doubled)


def passing_on(clock, counts, x):
    counts["calls"] = counts.get("calls", 0) + 1
    (found,) = map(passed_double, [x])
    return take_time(clock), found + np.sqrt(np.abs(x))


def test_compiled_functions_that_are_passed_on_stay(clock):
    clock.costs = {"program": 1e-3, "plain": 1e-4}
    scripted, counts = script(passing_on), dict[str, int]()
    assert set(called(scripted, clock, counts, SETTLED + 5)) == {"program"}


@ignore
def named_variables(x):
    result = compiled_double(x)
    return sorted(locals()), result


def asking_for_variables(x):
    return compiled_double(x), *named_variables(x)


def test_functions_find_their_own_variables_only():
    form = without_compiled(asking_for_variables, [compiled_double])
    assert form is not None
    assert form(3) == asking_for_variables(3) == (6, ["result", "x"], 6)


SOURCE = """
from jitcore import script
@script
def double(x):
    return x * 2
def helped(x):
    return double(x) + 1
"""


def test_a_file_that_was_edited_says_nothing_of_a_function(tmp_path):
    path = tmp_path / "edited.py"
    path.write_text(SOURCE)
    names: dict[str, Any] = {}
    exec(compile(SOURCE, str(path), "exec"), names)
    helped, double = names["helped"], names["double"]
    form = without_compiled(helped, [double])
    assert form is not None and form(5) == 11
    path.write_text(SOURCE.replace("+ 1", "+ 100"))
    assert without_compiled(helped, [double]) is None
