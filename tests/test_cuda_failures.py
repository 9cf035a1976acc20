# mypy: allow-untyped-defs, allow-untyped-calls
"""Loops that a device's threads share though iterations may end in an error, searches too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from cuda_machine import fake_machine
from fake_cuda import FakeDriver
from test_cuda_calls import check

import jitcore
from jitcore import script
from jitcore.execution.plans import NativePlan


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    with fake_machine() as made:
        yield made


def looked_up(table, places):
    found = np.empty(places.shape[0])
    for k in range(places.shape[0]):
        found[k] = table[places[k]] * 2
    return found


def after_a_write(table, places, x):
    x += 1
    found = np.empty(places.shape[0])
    for k in range(places.shape[0]):
        found[k] = table[places[k]] + x[0]
    return found


def steps_to_one(numbers):
    """Collatz: how many steps there are, and an error where a number is not positive."""
    found = np.zeros(numbers.shape[0], np.int64)
    for k in range(numbers.shape[0]):
        number = int(numbers[k])
        if number < 1:
            raise ValueError(f"{number} is not positive")
        while number != 1:
            number = number // 2 if number % 2 == 0 else 3 * number + 1
            found[k] += 1
    return found


def halved(numbers):
    found = np.zeros(numbers.shape[0], np.int64)
    for k in range(numbers.shape[0]):
        found[k] = numbers[k]
        if found[k] < 1:
            raise ValueError("not positive")
        while found[k] % 2 == 0:
            found[k] = found[k] // 2
    return found


def into_an_argument(table, places, found):
    for k in range(places.shape[0]):
        found[k] = table[places[k]]


def raised_by(function: Callable[..., Any], *args: Any) -> tuple[type, str]:
    with pytest.raises((IndexError, ValueError)) as caught:
        function(*args)
    return caught.type, str(caught.value)


RNG = np.random.default_rng()
TABLE = RNG.normal(size=50)
PLACES = RNG.integers(-50, 50, 700)


def shares(compiled: Any) -> bool:
    """Whether a kernel has threads share iterations that note where they fail."""
    return any("note_least(" in kernel.source for kernel in compiled.kernels)


def test_loops_whose_errors_do_not_happen(fake: FakeDriver) -> None:
    assert shares(check(looked_up, TABLE, PLACES))
    assert not fake.errors
    assert shares(check(after_a_write, TABLE, PLACES, TABLE.copy()))
    assert max(one.grid[0] for one in fake.launches) > 1


@pytest.mark.parametrize("function", [looked_up, after_a_write])
def test_the_first_error_is_the_one(fake: FakeDriver, function: Any) -> None:
    # Threads meet others, before and after it in time.
    places = PLACES.copy()
    places[[300, 301, 555, 699]] = 77, -51, 50, 99
    more = (np.zeros(3),) if function is after_a_write else ()
    host = tuple(one.copy() for one in (TABLE, places, *more))
    device = jitcore.to((TABLE, places, *more), "cuda")
    compiled = script(function)
    assert raised_by(compiled, *device) == raised_by(function, *host)
    assert shares(compiled)
    for one, two in zip(device, host, strict=True):
        np.testing.assert_array_equal(one.numpy(), two)


def test_what_is_written_before_an_error_is_seen(fake: FakeDriver) -> None:
    places = PLACES[:40].copy()
    places[[30, 35]] = 77, 78
    host, device = np.zeros(40), jitcore.to(np.zeros(40), "cuda")
    compiled = script(into_an_argument)
    arguments = jitcore.to((TABLE, places), "cuda")
    assert raised_by(compiled, *arguments, device) == raised_by(
        into_an_argument, TABLE, places, host
    )
    assert not shares(compiled)
    np.testing.assert_array_equal(device.numpy(), host)


@pytest.mark.parametrize(("function", "is_shared"), [(steps_to_one, True), (halved, False)])
def test_what_is_read_and_written(fake: FakeDriver, function: Any, is_shared: bool) -> None:
    """An iteration runs again where it fails: it may not read what it has written."""
    numbers = RNG.integers(1, 30, 12)
    compiled = script(function)
    found = compiled(jitcore.to(numbers, "cuda"))
    np.testing.assert_array_equal(found.numpy(), function(numbers))
    assert shares(compiled) == is_shared
    numbers[[3, 7]] = 0, -1
    assert raised_by(compiled, jitcore.to(numbers, "cuda")) == raised_by(function, numbers)


def on_the_left(array, keys):
    return np.searchsorted(array, keys)


def on_the_right(array, keys):
    return np.searchsorted(array, keys, side="right") * 2


def of_one_key(array, key):
    return np.searchsorted(array, key[1])


def digits(array, keys):
    return np.digitize(keys, array), np.digitize(keys, array, right=True)


def between(array, keys):
    return np.interp(keys, array, array * array)


def with_ends(array, keys):
    return np.interp(keys, array, np.sqrt(np.abs(array)), left=-1.0, right=np.nan)


SEARCHES = [on_the_left, on_the_right, of_one_key, digits, between, with_ends]


def samples(size: int, dtype: Any) -> Any:
    """Sorted numbers, some of them several times."""
    return np.sort(RNG.integers(-9, 9, size).astype(dtype) / 2).astype(dtype)


def keys(shape: Any, dtype: Any) -> Any:
    made = (RNG.integers(-24, 24, shape) / 4).astype(dtype)
    if np.dtype(dtype).kind == "f":
        made.flat[::7], made.flat[3::11], made.flat[5::13] = np.nan, np.inf, -0.0
    return made


@pytest.mark.parametrize("function", SEARCHES)
@pytest.mark.parametrize(("size", "dtype"), [(1, np.float64), (4, np.float32), (37, np.int32)])
def test_searches(fake: FakeDriver, function: Any, size: int, dtype: Any) -> None:
    array, wanted = samples(size, dtype), keys((3, 20), dtype)
    if function is of_one_key:
        wanted = wanted.ravel()
    args = jitcore.to((array, wanted), "cuda")
    compiled = script(function)
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = function(array, wanted)
    found = compiled(*args)
    pairs = zip(found, expected, strict=True) if function is digits else [(found, expected)]
    for one, two in pairs:
        assert one.dtype == two.dtype
        np.testing.assert_array_equal(one.numpy(), two)
    assert isinstance(compiled.specializations[-1].plan, NativePlan) and shares(compiled)


@pytest.mark.parametrize("function", SEARCHES)
def test_searches_in_what_is_not_sorted(fake: FakeDriver, function: Any) -> None:
    """There each key's place depends on the keys before, and NumPy looks for it."""
    array, wanted = samples(37, np.float64), keys(60, np.float64)
    compiled = script(function)
    compiled(*jitcore.to((array, wanted), "cuda"))
    ups_and_downs, with_nan, falling = RNG.permutation(array), array.copy(), array[::-1].copy()
    with_nan[[0, 20, 36]] = np.nan
    ups_and_downs[[4, 5, 6]] = 1, -2, 3
    for one in (ups_and_downs, with_nan, falling):
        given = jitcore.to((one, wanted), "cuda")
        if function is digits and one is not falling:
            assert raised_by(compiled, *given) == raised_by(function, one, wanted)
            continue
        expected, found = function(one, wanted), compiled(*given)
        pairs = zip(found, expected, strict=True) if function is digits else [(found, expected)]
        for got, right in pairs:
            np.testing.assert_array_equal(jitcore.to(got, "cpu"), right)


@pytest.mark.parametrize(
    ("function", "array"), [(digits, [2.0, np.nan]), (with_ends, [np.nan]), (on_the_left, [np.nan])]
)
def test_searches_among_nan(fake: FakeDriver, function: Any, array: Any) -> None:
    """What NumPy finds there follows from how it compares them."""
    given, wanted = np.array(array), np.array([1.0, 2.0, np.nan, 3.0])
    found, expected = (
        script(function)(*jitcore.to((given, wanted), "cuda")),
        function(given, wanted),
    )
    pairs = zip(found, expected, strict=True) if function is digits else [(found, expected)]
    for one, two in pairs:
        np.testing.assert_array_equal(jitcore.to(one, "cpu"), two)


def test_an_unsorted_array_after_a_write_is_an_error(fake: FakeDriver) -> None:
    def written_before(array, keys, x):
        x += 1
        return np.searchsorted(array, keys) + x

    array, wanted = samples(20, np.float64), keys(30, np.float64)
    check(written_before, array, wanted, np.zeros(30))
    given = jitcore.to((array[::-1].copy() + np.arange(20) % 3, wanted, np.zeros(30)), "cuda")
    with pytest.raises(NotImplementedError, match="unsorted"):
        script(written_before)(*given)
