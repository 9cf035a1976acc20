"""Choices between results of the same function: operands are chosen, and values stay NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitcore

Program = Callable[..., Any]


def quotients(x: Any, y: Any) -> Any:
    return np.where(x > y, x / y, y / x)


def nested(x: Any, y: Any) -> Any:
    s = np.where(x != 0, x, 1.0)
    return np.where(x > y, (x - y) / s % 6.0, np.where(y > 0, y / s + 2.0, (x + y) / s + 4.0))


def stable_sigmoid(x: Any, y: Any) -> Any:
    return np.where(x >= 0, 1.0 / (1.0 + np.exp(-x)), np.exp(x) / (1.0 + np.exp(x))) * y


def chains(x: Any, y: Any) -> Any:
    left = np.sqrt(np.abs(x) / (np.abs(y) + 1.0))
    right = np.sqrt(np.abs(y)) / (np.abs(x) + 2.0)
    return np.where(x < y, left, right)


def crossed(x: Any, y: Any) -> Any:
    return np.where(x < y, np.exp(np.sin(x)), np.sin(np.exp(y / 9.0)))


def read_elsewhere(x: Any, y: Any) -> Any:
    q = x / y
    return np.where(x < y, q, y / 3.0) + q


def same_operation(x: Any, y: Any) -> Any:
    return np.where(x < y, x / 7.0, y / 7.0)


def named_alike(chosen: Any, y: Any) -> Any:
    return np.where(chosen > y, chosen / y, y / (chosen + 1))


PROGRAMS = {
    quotients: 1,
    named_alike: 1,
    nested: 1,
    stable_sigmoid: 1,
    chains: 1,
    crossed: 2,  # one pair only: the other one would need it the other way round
    read_elsewhere: 2,
    same_operation: 1,
}


def numbers(dtype: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of numbers, among them all pairs of special ones."""
    special = np.array([0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan], dtype)
    x, y = (grid.ravel() for grid in np.meshgrid(special, special))
    generator = np.random.default_rng(count)
    more = generator.normal(0, 4, (2, count)).astype(dtype)
    return np.concatenate([x, more[0]]), np.concatenate([y, more[1]])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
def test_values_are_those_of_numpy(program: Program, dtype: str) -> None:
    compiled = jitcore.script(program)
    with np.errstate(all="ignore"):
        for count in (0, 1, 1000):
            x, y = numbers(dtype, count)
            expected, got = program(x, y), compiled(x, y)
            assert got.dtype == expected.dtype
            np.testing.assert_allclose(got, expected, rtol=float(8 * np.finfo(dtype).eps))
        x, y = numbers(dtype, 300)
        np.testing.assert_allclose(compiled(x[::-3], y[::-3]), program(x[::-3], y[::-3]), 1e-6)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
def test_what_is_chosen_is_computed_once(program: Program) -> None:
    compiled = jitcore.script(program)
    with np.errstate(all="ignore"):
        compiled(*numbers("float64", 10))
    source = compiled.kernels[0].source
    body = source[source.index("@njit") :].split("@njit")[1]
    code = [line for line in body.splitlines() if "#" not in line]
    most = max(
        sum(sign in line for line in code) for sign in (" / ", "exp_float64(", "sin_float64(")
    )
    assert most == PROGRAMS[program]
