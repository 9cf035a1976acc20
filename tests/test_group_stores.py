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
