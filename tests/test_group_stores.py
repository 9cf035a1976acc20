# mypy: allow-untyped-defs, allow-untyped-calls
"""Arrays that a group makes and writes to again."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checking import check
from jitcore import fusion_strategy, script


def negated(z):
    mask = np.exp(z) > 1
    np.logical_not(mask, mask)
    return mask


def updated(x):
    y = np.exp(x)
    y += 1
    return y


def read_before(x):
    y = np.exp(x)
    s = y + 1
    y *= 3
    return y, s


def partly(x):
    y = np.exp(x)
    y[1:] += 1
    y[::2] *= x[::2]
    return y


def replaced(x):
    y = np.exp(x)
    z = y[::-1]
    y[:] = z * x
    return y, z


def broadcast_into(x):
    y = np.exp(x)
    y[:] = x[0] + 1
    return y


@pytest.mark.parametrize(
    "function", [negated, updated, read_before, partly, replaced, broadcast_into]
)
@pytest.mark.parametrize("shape", [(9,), (5, 7), (1, 1), (0, 3), (300,)])
def test_what_is_written_again(function: Callable[..., Any], shape: tuple[int, ...]) -> None:
    if function is broadcast_into and shape[0] == 0:
        shape = (1, *shape[1:])
    check(function, np.random.default_rng(0).normal(size=shape), ulp=4)


@pytest.mark.parametrize("function", [negated, updated])
def test_first_values_are_never_written(function: Callable[..., Any]) -> None:
    scripted = script(function)
    scripted(np.ones(100))
    (kernel,) = scripted.kernels
    body = kernel.source.partition("\n@njit")[2].partition("\n@njit")[0]
    assert len(re.findall(r"exp_float64\(", body)) == 1
    assert len(re.findall(r"\bfor \w+ in range", body)) == 1


def compressed(x, mask):
    return x[mask], x[~mask] * 2, x[mask].sum()


@pytest.mark.parametrize("density", [0.0, 0.01, 0.5, 0.99, 1.0])
@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 1000, 4096])
def test_masks_of_all_densities(size: int, density: float) -> None:
    generator = np.random.default_rng(size)
    mask = generator.random(size) < density
    check(compressed, generator.normal(size=size), mask, reduction=True)
    check(compressed, generator.normal(size=size) + 1j, mask, reduction=True)
    check(compressed, generator.integers(0, 100, size=size).astype(np.int16), mask)


# Stores that wait for the end of their group ------------------------------------------------


def stored_twice(x, y):
    x[...] = x + y
    z = x * 2
    x[...] = z - y
    return z


def old_values_needed(x, y):
    before = x * y
    x[...] = x + 1
    return before + x, before


def another_view_in_between(x, y):
    x[...] = x + y
    z = x[::-1] * 2
    x[...] = z + x
    return z


def two_targets(x, y):
    x[...] = x + y
    y[...] = x * 0.5
    x[...] = x - y
    return x.sum()


def neighbours(x, y):
    x[1:] = x[1:] + y[1:]
    x[:-1] = x[:-1] * 2 + x[1:]
    y[...] = x


def stored_to_itself(x, y):
    z = np.sqrt(x * x)
    z[...] = z
    x[:] = x[:]
    y *= 2.0
    y[...] = y
    return z, z + y


WAITING = [
    *(stored_twice, old_values_needed, another_view_in_between, two_targets, neighbours),
    stored_to_itself,
]


@pytest.mark.parametrize("function", WAITING)
@pytest.mark.parametrize("shape", [(9,), (5, 7), (1, 1), (0, 3), (300,)])
@pytest.mark.parametrize("kind", ["STATIC", "DYNAMIC"])
def test_stores_that_wait(function: Callable[..., Any], shape: tuple[int, ...], kind: str) -> None:
    x, y = np.random.default_rng(4).normal(size=(2, *shape))
    with fusion_strategy([(kind, 4)]):
        check(function, x, y, reduction=True)
        check(function, x.T, y.T, reduction=True)


@pytest.mark.parametrize("function", [stored_twice, old_values_needed])
def test_one_loop_writes_all(function: Callable[..., Any]) -> None:
    compiled = script(function)
    compiled(np.ones(100), np.ones(100))
    (kernel,) = compiled.kernels
    assert len(re.findall(r"\bfor \w+ in range", kernel.source)) == 1


def written_before_an_error(x, y, z):
    x[...] = y * 2
    return x + z


@pytest.mark.parametrize("kind", ["STATIC", "DYNAMIC"])
def test_what_was_stored_before_an_error_stays(kind: str) -> None:
    x, y = np.arange(6.0), np.ones(6)
    with fusion_strategy([(kind, 4)]):
        compiled = script(written_before_an_error)
        compiled(x.copy(), y, np.ones(6))
        with pytest.raises(ValueError, match="could not be broadcast together"):
            compiled(x, y, np.ones(5))
    assert np.array_equal(x, y * 2)


def written_around_a_loop(x, y, z):
    y += y * 3
    for k in range(4):
        x[k] = 2.0
    y[::-1] = x + y


def written_by_what_was_written(x, y, z):
    x[...] = y * 2
    z += y
    for k in range(3, 8, int(x[0])):
        y[k] = z[k] + 1.0
    z[::-1] = z * x


@pytest.mark.parametrize("kind", ["STATIC", "DYNAMIC"])
@pytest.mark.parametrize("function", [written_around_a_loop, written_by_what_was_written])
def test_all_that_comes_before_an_error_is_stored(function: Callable[..., Any], kind: str) -> None:
    with fusion_strategy([(kind, 4)]):
        for length in (9, 3):
            check(function, *np.random.default_rng(length).normal(size=(3, length)))


def verlet(x, v, a):
    x += v * 0.01 + 0.5 * a * 0.0001
    v += a * 0.01
    return x.sum() + v.sum(), x.max(), v.min(), x.mean()


def before_and_after(x, v, a):
    before = x.sum()
    x *= a
    return before, x.sum(), (x * v).sum()


def twice(x, v, a):
    x *= a
    between = x.sum()
    x -= v
    return between, x.sum(), x.max()


def with_a_result(x, v, a):
    x -= 0.1 * v
    return x * x + a, x.sum(), (x * a).sum()


def with_two_passes(x, v, a):
    x += v * a
    return x.mean(), x.var(), (x > 0).any(), x.argmax()


def of_neighbours(x, v, a):
    x[1:] += v[1:] * x[:-1]
    return x[1:].sum(), x[1:].max(), a.sum()


def both_ways(x, v, a):
    x += v
    v += x
    return (x - v).sum(), a.sum()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [0, 1, 2, 129, 1000, 40003])
@pytest.mark.parametrize(
    "function",
    [
        verlet,
        before_and_after,
        twice,
        with_a_result,
        with_two_passes,
        of_neighbours,
        both_ways,
    ],
)
def test_stores_beside_reductions(function: Callable[..., Any], size: int, dtype: str) -> None:
    random = np.random.default_rng(size)
    given = [random.uniform(0.5, 1.5, size).astype(dtype) for _ in range(3)]
    if size > 2:
        given[1][2] = -0.0
    expected, got = ([one.copy() for one in given] for _ in range(2))
    compiled = script(function)
    try:
        wanted = function(*expected)
    except ValueError:
        with pytest.raises(ValueError):
            compiled(*got)
        return
    found = compiled(*got)
    for one, two in zip(got, expected, strict=True):
        np.testing.assert_array_equal(one, two)
    tolerance = 2e-4 if dtype == "float32" else 1e-11
    for one, two in zip(found, wanted, strict=True):
        assert one.dtype == two.dtype
        np.testing.assert_allclose(one, two, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "view",
    [lambda x: x, lambda x: x.T, lambda x: x[:, ::2], lambda x: x[::-1], lambda x: x[:, 1:]],
)
def test_stores_beside_reductions_of_any_layout(view: Callable[..., Any]) -> None:
    given = np.random.default_rng(3).uniform(0.5, 1.5, (3, 60, 40))
    given[0, 3, 5] = np.nan
    expected, got = given.copy(), given.copy()
    wanted = verlet(*map(view, expected))
    found = script(verlet)(*map(view, got))
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_allclose(found, wanted, rtol=1e-11)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_walk_stores_and_adds_up(dtype: str) -> None:
    x, v, a = np.ones((3, 5000), dtype)
    compiled = script(verlet)
    compiled(x, v, a)
    (kernel,) = compiled.kernels
    source = kernel.source
    # Nothing reads it but the loops that write it.
    assert 0 < source.count("store(x, ") == source.count("load(x, ")
