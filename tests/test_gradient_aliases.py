# mypy: allow-untyped-defs, allow-untyped-calls
"""Gradients of programs that write to arrays that have several names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gradient_checking import check_gradient

import jitcore

GENERATOR = np.random.default_rng(np.random.SeedSequence().entropy)


def constant_of_a_branch(x, c):
    a, b = np.ones(5), np.full(5, 2.0)
    factor = a if c > 0 else b
    y = x * factor
    a[0] = 7.0
    return np.sum(y * x)


def constants_that_change_places(x, c):
    a, b = np.ones(5), np.zeros(5)
    first = a
    total = 0.0
    for i in range(4):
        a, b = b, a
        first[0] = i
        total = total + np.sum(x * a)
    return total * c


def held_from_before(x, c):
    old, y = np.zeros(5), np.ones(5)
    total = 0.0
    for i in range(4):
        total = total + np.sum(x * old)
        old = y
        y[i] = i * 2.0
    return total + c * np.sum(y * x)


def own_elements_scattered(x, c):
    y = x * c
    y[np.array([0, 2, 2])] = y[:3]
    y[np.array([1, 0])] = y[::-1][:2]
    y[y > 0.3] = y[::-1][y > 0.3]
    return np.sum(y**3)


def accumulated(x, c):
    total = np.zeros(5)
    for i in range(4):
        if i % 2:
            total += x * i
        else:
            total *= c
        for _ in range(2):
            total -= total**2 * 0.1 * x
    return np.sum(total**2)


def accumulated_rows(x, c):
    total = np.zeros(5)
    for row in np.outer(x, x):
        total += row**2 * c
        if total[0] > 3:
            break
    return np.sum(total**2)


def assigned_in_a_loop(x, c):
    for i in range(len(x)):
        y = x * i * c
    return np.sum(y**2)


PROGRAMS = [
    constant_of_a_branch,
    constants_that_change_places,
    held_from_before,
    own_elements_scattered,
    accumulated,
    accumulated_rows,
    assigned_in_a_loop,
]


@pytest.mark.parametrize("function", PROGRAMS)
def test_names_of_arrays(function: Any) -> None:
    c = float(GENERATOR.uniform(0.5, 1.5))
    check_gradient(function, GENERATOR.normal(size=5), c)


def names_of_one_iteration(x, count):
    y = np.zeros(5)
    z = y
    for _ in range(count):
        z = x * 2
        y = z
    z[0] = y[1] * 5
    return np.sum(z * y)


def chosen_from_a_list(x, count):
    arrays = [np.ones(5), np.zeros(5)]
    total = 0.0
    for i in range(count):
        total = total + np.sum(x * arrays[i % 2]) * total + 1
        arrays[0][i] = i
    return total


@pytest.mark.parametrize("function", [names_of_one_iteration, chosen_from_a_list])
def test_what_is_not_understood_is_refused(function: Any) -> None:
    gradient = jitcore.grad(function)
    for run in (gradient, gradient.__wrapped_function__):
        with pytest.raises(jitcore.CompilationError, match="in place|from a list"):
            run(GENERATOR.normal(size=5), 3)


def always_raises(x):
    if x.size == 5:
        raise ValueError("five")
    return np.sum(x)


def test_a_function_that_only_raises_does_so() -> None:
    gradient = jitcore.grad(always_raises)
    for _ in range(2):
        with pytest.raises(ValueError, match="five"):
            gradient(np.ones(5))
    assert gradient(np.ones(3)).tolist() == [1.0, 1.0, 1.0]
