"""Lists of arrays: the very objects, their extents, what is done to them, and who drops them."""
# mypy: allow-untyped-defs, allow-untyped-calls, allow-incomplete-defs

from __future__ import annotations

import copy
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from array_list_programs import (
    OF_ONE_ARRAY,
    PROGRAMS,
    cannot_be_one_array,
    history,
    repeated,
    returned,
    steps_down,
    views,
    visited,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jitcore import script
from jitcore.pipeline import NativePlan


def form(value: Any, seen: dict[int, int]) -> Any:
    """A value with all that can be seen of it; lists and arrays are told apart by identity."""
    if isinstance(value, list | np.ndarray):
        number = seen.setdefault(id(value), len(seen))
        if isinstance(value, np.ndarray):
            header = value.dtype, value.shape, value.strides, value.flags.writeable
            return number, header, form(value.base, seen), value.tobytes()
        return number, [form(part, seen) for part in value]
    if isinstance(value, tuple):
        return [form(part, seen) for part in value]
    return type(value), repr(value)


def observed(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """What a call gives or raises, and what it has made of its arguments."""
    try:
        result = function(*arguments)
    except Exception as error:
        result = type(error), str(error)
    return form((result, arguments), {})


NATIVE_SPECIALIZATIONS = {repeated: 0, cannot_be_one_array: 1}
"""How many are machine code, where not all are: lists of arrays times a number are Python's, and so
is what always raises, as ``np.stack`` does of no arrays."""


def check(function: Callable[..., Any], *calls: tuple[Any, ...]) -> Any:
    """Compare calls, each of them twice, with Python; the function must be machine code."""
    scripted = script(function)
    for arguments in calls:
        for _ in range(2):
            own, wanted = copy.deepcopy(arguments), copy.deepcopy(arguments)
            assert observed(scripted, own) == observed(function, wanted), arguments
    are_native = [isinstance(one.plan, NativePlan) for one in scripted.specializations]
    assert sum(are_native) == NATIVE_SPECIALIZATIONS.get(function, len(are_native))
    return scripted


@pytest.mark.parametrize(
    ("function", "calls"), PROGRAMS, ids=[function.__name__ for function, _ in PROGRAMS]
)
def test_program(function, calls) -> None:
    check(function, *calls)


@pytest.mark.parametrize("dtype", ["float32", "complex128", "int16", "bool"])
def test_dtypes(dtype) -> None:
    def rows(x, n):
        out = []
        for i in range(n):
            out.append(x[i] if i < 2 else x[0] * x[1])
        return np.array(out), out

    check(rows, (np.arange(6).reshape(3, 2).astype(dtype), 30))


def read_only():
    made = np.ones(3)
    made.flags.writeable = False
    return made


@pytest.mark.parametrize(
    "params",
    [
        lambda: [np.arange(3.0), np.arange(3)],
        lambda: [np.arange(3.0), read_only()],
        lambda: [np.arange(3.0), np.ones((2, 3))],
        lambda: [np.arange(6.0)[::2], np.ones(3)],
        lambda: [np.arange(3.0), 1.5],
        lambda: [np.arange(3.0), None],
        list,
    ],
)
def test_what_is_not_of_one_kind_is_pythons(params) -> None:
    scripted = script(steps_down)
    ones = [np.ones(3), np.ones(3)]
    assert scripted([np.arange(3.0), np.arange(3.0)], ones) is None
    assert isinstance(scripted.specializations[0].plan, NativePlan)
    assert observed(scripted, (params(), ones)) == observed(steps_down, (params(), ones))


def test_arrays_that_share_memory() -> None:
    def calls():
        x = np.arange(8.0)
        yield [x, x, x[2:5]], [np.ones(8), x, np.ones(3)]
        y = np.arange(8.0)
        yield [y[1:]], [y[:-1]]
        z = np.arange(8.0)
        yield [z], [z]

    scripted = script(steps_down)
    for own, wanted in zip(calls(), calls(), strict=True):
        assert observed(scripted, own) == observed(steps_down, wanted)


def test_an_array_in_the_list_is_another_argument_too() -> None:
    def both(arrays, x):
        for a in arrays:
            a[1:] = x[:-1] + 1
            x[0] = a[-1]
        return arrays

    scripted = script(both)
    for _ in range(2):
        x, y = np.arange(4.0), np.arange(4.0)
        one, other = [x, np.ones(4)], [y, np.ones(4)]
        assert observed(scripted, (one, x)) == observed(both, (other, y))


@pytest.mark.parametrize("function", OF_ONE_ARRAY)
def test_the_array_of_a_list_is_another_argument_too(function) -> None:
    scripted = script(function)
    for _ in range(2):
        x, y = np.arange(3.0), np.arange(3.0)
        assert observed(scripted, ([x], x)) == observed(function, ([y], y))
        apart = observed(scripted, ([x], y + 1))
        assert apart == observed(function, ([y], y + 1))


def test_each_iteration_makes_a_view() -> None:
    def tails(x, n, arrays):
        first = x[1:]  # of the same form, but only read
        made = [x, first + 1]
        for _ in range(n):
            arrays.extend(arrays)
            made.append(x[1:])
        return arrays, made

    scripted = script(tails)
    for _ in range(2):
        own, wanted = (np.arange(5.0), 4, [np.ones(2)]), (np.arange(5.0), 4, [np.ones(2)])
        assert observed(scripted, own) == observed(tails, wanted)
        _, made = scripted(np.arange(5.0), 4, [np.ones(2)])
        assert len({id(one) for one in made}) == len(made)


def test_calls_stay_native() -> None:
    """Operations on arrays are work, for which it pays to read the references in a list."""

    def layer(weights, x):
        return x * weights[0] + np.sqrt(x) - weights[1]

    weights, x = [np.ones(2)] * 20, np.ones(2)
    scripted = script(layer)
    for _ in range(5_000):
        scripted(weights, x)
    assert isinstance(scripted.specializations[0].plan, NativePlan)
    called = []

    def note(frame, _event, _argument):
        called.append(frame.f_code)

    sys.setprofile(note)
    try:
        for _ in range(10):
            scripted(weights, x)
    finally:
        sys.setprofile(None)
    assert called and layer.__code__ not in called


def longer(values, code, x):
    if code == 0:
        values.append(x + len(values))
    elif code == 1:
        values.append(values[len(values) // 2])
    elif code == 2:
        values.insert(1, values[0] * 2)
    elif code == 3:
        values[-1][0] += 1


def shorter(values, code):
    if len(values) < 3:
        return
    if code == 4:
        values.pop()
    elif code == 5:
        values.pop(1)
    elif code == 6:
        values[0] = values[-1]
    elif len(values) > 40:
        values.clear()


def machine(x, codes):
    x = x * 1
    values = [x]
    kept = values[:]
    for code in codes:
        longer(values, code, x)
        shorter(values, code)
        if code == 7:
            kept = values[1:]
        elif code == 8:
            values = values + kept
        elif code == 9:
            x = kept[0][1:] if kept and len(kept[0]) > 2 else x
            kept.append(x)
        if not values:
            values = [x]
    return values, kept, x


SCRIPTED_MACHINE = script(machine)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.integers(0, 9), max_size=40))
def test_random_changes(codes) -> None:
    operations = np.array(codes, np.int64)
    own = observed(SCRIPTED_MACHINE, (np.arange(5.0), operations))
    assert own == observed(machine, (np.arange(5.0), operations))


def test_the_machine_is_native() -> None:
    scripted = script(machine)
    scripted(np.arange(5.0), np.array([0, 1, 2]))
    assert isinstance(scripted.specializations[0].plan, NativePlan)


def test_references_are_counted() -> None:
    arrays = [np.arange(3.0), np.ones(2)]
    scripted = script(visited)
    scripted(arrays)
    counts = [sys.getrefcount(one) for one in (*arrays, arrays)]
    for _ in range(20):
        result = scripted(arrays)
        assert result[1] is arrays[0] and result[4] is arrays
    del result
    assert [sys.getrefcount(one) for one in (*arrays, arrays)] == counts


@pytest.mark.parametrize("function", [history, returned, views])
def test_nothing_is_left(function) -> None:
    scripted, x = script(function), np.arange(6.0)
    for _ in range(5):
        scripted(x, 30)
    count = sys.getrefcount(x)
    tracemalloc.start()
    scripted(x, 30)
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(50):
        scripted(x, 30)
    assert tracemalloc.get_traced_memory()[0] - before < 5_000
    tracemalloc.stop()
    assert sys.getrefcount(x) == count


def test_nothing_is_left_by_an_exception() -> None:
    def late(x, n):
        out = []
        for i in range(n):
            out.append(x * i)
        return out[n + 2]

    scripted, x = script(late), np.arange(6.0)
    for _ in range(3):
        with pytest.raises(IndexError, match="list index out of range"):
            scripted(x, 9)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(50):
        with pytest.raises(IndexError, match="list index out of range"):
            scripted(x, 9)
    assert tracemalloc.get_traced_memory()[0] - before < 20_000
    tracemalloc.stop()


def test_memory_is_given_up_on_the_way() -> None:
    def windows(x, n):
        last = [x]
        for i in range(n):
            last.append(last[-1] + i)
            if len(last) > 4:
                last.pop(0)
        return last[0]

    scripted, x = script(windows), np.zeros(20_000)
    assert (scripted(x, 10) == windows(x, 10)).all()
    tracemalloc.start()
    scripted(x, 400)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 30 * x.nbytes


def test_what_is_compiled_for_is_told() -> None:
    scripted = script(steps_down)
    text = str(scripted.explain([np.ones(2)], [np.ones(2)]))
    assert "any list of float64 arrays of rank 1" in text


def test_elements_are_told_apart_by_identity() -> None:
    def same(arrays, one):
        pairs = sum([p is q for p in arrays for q in arrays])
        first = arrays[0] is arrays[0], arrays[0] is arrays[1], arrays[1] is not arrays[-1]
        return pairs, first, [one is each for each in arrays]

    scripted, x = script(same), np.arange(3.0)
    for arrays in ([x, x], [x, x.copy()], [x.copy(), x, x], [x[:2], x], [x, x + 1, x * 2]):
        assert scripted(arrays, x) == same(arrays, x)
