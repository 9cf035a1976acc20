# mypy: allow-untyped-defs, allow-untyped-calls
"""Loops that add to integers wherever others add, too: threads share them on a device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cuda_machine import fake_machine
from fake_cuda import FakeDriver

import jitcore
from jitcore import script
from jitcore.codegen.cuda.sums import is_atomic_sum, with_atomic_sums
from jitcore.codegen.loops import Binary, Const, For, Let, Load, Stmt, Store, Var
from jitcore.execution.plans import NativePlan


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    with fake_machine() as made:
        yield made


RNG = np.random.default_rng()


def counted(places):
    return np.bincount(places)


def at_least(places):
    return np.bincount(places, minlength=60) * 2


def histogram(places):
    return np.histogram(places * 0.37 - 1)


def in_a_range(places):
    return np.histogram(np.sqrt(places), bins=7, range=(1, 5.5))


def between(x, edges):
    return np.histogram(x, edges)


def between_known(places):
    return np.histogram(places * 0.5, np.array([-1.0, 2, 2, 7.5, 20]))


def dense_between(x, edges):
    return np.histogram(x, edges, density=True)


def weighted(places, weights):
    counts, edges = np.histogram(places * 0.37 - 1, weights=weights)
    return counts, edges, np.bincount(places, weights)


def weighted_in_a_range(places, weights):
    return np.histogram(np.sqrt(places), 7, range=(1, 5.5), weights=weights, density=True)


def at_many_places(places, weights):
    return np.bincount(places * 200, weights), weights


@pytest.mark.parametrize("kind", ["f4", "i8"])
@pytest.mark.parametrize("function", [weighted, weighted_in_a_range, at_many_places])
def test_weights_are_added_up_on_the_device(fake: FakeDriver, function: Any, kind: str) -> None:
    places, weights = RNG.integers(0, 40, 90), RNG.integers(1, 5, 90).astype(kind)
    if kind == "f4" and function is not weighted_in_a_range:
        # The sums at other places know nothing of them.
        weights[:3] = np.inf, np.nan, -2
    with np.errstate(invalid="ignore"):
        wanted = function(places, weights)
    compiled = script(function)
    found = compiled(*jitcore.to((places, weights), "cuda"))
    for one, two in zip(found, wanted, strict=True):
        assert one.dtype == two.dtype
        np.testing.assert_allclose(jitcore.to(one, "cpu"), two, rtol=1e-6)
    (only,) = compiled.specializations
    assert isinstance(only.plan, NativePlan)


def of_int32(places, values):
    found = np.zeros(50, np.int32)
    for k in range(places.shape[0]):
        found[places[k]] += values[k]
    return found


def pairs(places, values):
    """Two sums in an iteration, the first of which wraps around."""
    found = np.full((2, 50), 2**63 - 3)
    low = np.zeros(50, np.int64)
    for k in range(places.shape[0]):
        found[1, places[k]] += 5
        if values[k] > 0:
            low[places[k]] = values[k] + low[places[k]]
    return found, low


def added_at(places, values):
    found = np.zeros(50, np.int64)
    np.add.at(found, places, values)
    return found


def looked_at(places, values):
    """What is added to is read besides."""
    found, ranks = np.zeros(50, np.int64), np.empty(places.shape[0], np.int64)
    for k in range(places.shape[0]):
        found[places[k]] += 1
        ranks[k] = found[places[k]]
    return found, ranks


def of_a_sum(places, values):
    """What is added is what the others have added."""
    found = np.zeros(50, np.int64)
    for k in range(places.shape[0]):
        found[places[k]] += found[values[k]] + 1
    return found


def overwritten(places, values):
    """What is added is written before the sum is."""
    found, left = np.zeros(50, np.int64), values.copy()
    for k in range(places.shape[0]):
        total = found[places[k]] + left[k]
        left[k] = -1
        found[places[k]] = total
    return found, left


def of_floats(places, values):
    found = np.zeros(50)
    for k in range(places.shape[0]):
        found[places[k]] += 1 / (1 + values[k])
    return found


def checked(function: Any, args: tuple[Any, ...]) -> bool:
    """Compare with NumPy, and tell whether threads share the sums."""
    compiled = script(function)
    found, wanted = compiled(*jitcore.to(args, "cuda")), function(*args)
    several = isinstance(wanted, tuple)
    pairs = zip(found, wanted, strict=True) if several else [(found, wanted)]
    for one, two in pairs:
        assert one.dtype == two.dtype
        np.testing.assert_array_equal(jitcore.to(one, "cpu"), two)
    is_native = isinstance(compiled.specializations[-1].plan, NativePlan)
    return is_native and any("add_to(" in kernel.source for kernel in compiled.kernels)


@pytest.mark.parametrize("function", [of_int32, pairs, added_at])
def test_sums_of_integers(fake: FakeDriver, function: Any) -> None:
    places, values = RNG.integers(0, 50, 900), RNG.integers(-9, 9, 900).astype(np.int32)
    with np.errstate(over="ignore"):
        assert checked(function, (places, values))
    assert max(one.grid[0] for one in fake.launches) > 1


@pytest.mark.parametrize("function", [counted, at_least, histogram, in_a_range, between_known])
@pytest.mark.parametrize("size", [3, 5000])
def test_counts(fake: FakeDriver, function: Any, size: int) -> None:
    assert checked(function, (RNG.integers(0, 50, size),))


EDGES = ([3], [0, 0], [-4, -1, 0, 0, 5, 9], [-4.5, -0.1, 0.0, 7.25], [2.0, np.inf])


@pytest.mark.parametrize("edges", EDGES)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "u1"])
def test_counts_between_edges(fake: FakeDriver, dtype: str, edges: list[float]) -> None:
    x = RNG.integers(0, 10, 700).astype(dtype)
    if x.dtype.kind == "f":
        x[:3] = np.nan, np.inf, -0.0
        x[3:350] += 0.25
    checked(between, (x, np.array(edges)))
    checked(between, (x[:0], np.array(edges)))
    with np.errstate(all="ignore"):
        checked(dense_between, (x, np.array(edges)))


def test_edges_that_fall_or_are_no_numbers(fake: FakeDriver) -> None:
    x, compiled = RNG.normal(size=60), script(between)
    with pytest.raises(ValueError, match="must increase monotonically"):
        compiled(*jitcore.to((x, np.array([1.0, 0])), "cuda"))
    edges = np.array([-1.0, np.nan, 1.0])
    found, wanted = compiled(*jitcore.to((x, edges), "cuda")), between(x, edges)
    np.testing.assert_array_equal(jitcore.to(found[0], "cpu"), wanted[0])


@pytest.mark.parametrize("function", [looked_at, of_a_sum, overwritten, of_floats])
def test_what_depends_on_the_order(fake: FakeDriver, function: Any) -> None:
    assert not checked(function, (RNG.integers(0, 50, 60), RNG.integers(0, 50, 60)))


@pytest.mark.parametrize("function", [of_int32, added_at])
def test_places_outside(fake: FakeDriver, function: Any) -> None:
    places, values = RNG.integers(-50, 50, 300), RNG.integers(-9, 9, 300).astype(np.int32)
    compiled = script(function)
    found = jitcore.to(compiled(*jitcore.to((places, values), "cuda")), "cpu")
    np.testing.assert_array_equal(found, function(places, values))
    places[[40, 250]] = -77, 88
    texts = []
    for call, args in (
        (compiled, jitcore.to((places, values), "cuda")),
        (function, (places, values)),
    ):
        with pytest.raises(IndexError) as caught:
            call(*args)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]


def loop_that_adds(read: Load, written: str) -> For:
    """A loop that binds a sum, writes to other memory, and then puts the sum where it belongs."""
    found, k, place = Var("found", "ptr"), Var("k", "int64"), Var("place", "int64")
    total = Var("total", "int64")
    element = Load(found, place, "int64", "found")
    body: list[Stmt] = [
        Let(place, Load(Var("places", "ptr"), k, "int64", "places")),
        Let(total, Binary("add", element, read, "int64")),
        Store(Var(written, "ptr"), k, Const(0, "int64"), written),
        Store(found, place, total, "found"),
    ]
    return For(k, Const(0, "int64"), Const(9, "int64"), body)


def test_what_is_added_is_what_it_was() -> None:
    read = Load(Var("left", "ptr"), Var("k", "int64"), "int64", "left")
    for written, is_summed in (("other", True), ("left", False)):
        made = with_atomic_sums(loop_that_adds(read, written))
        assert any(map(is_atomic_sum, made.body)) == is_summed
