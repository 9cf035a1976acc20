# mypy: allow-untyped-defs, allow-untyped-calls
"""Stores of values that read neighbours of what they write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitcore import get_num_threads, script, set_num_threads


def diffused(u):
    for _ in range(3):
        u[1:-1] = u[1:-1] + 0.25 * (u[2:] - 2.0 * u[1:-1] + u[:-2])
    return u


def far_apart(u):
    u[5:-7] = u[5:-7] * 0.5 - u[12:] + u[:-12]
    return u


def every_second(u):
    u[2:-2:2] = u[4::2] + u[:-4:2] - u[2:-2:2]
    return u


def from_before(u):
    u[1:] = u[:-1] * 2.0 - u[1:]
    return u


def read_afterwards(u):
    old = u[:-2] * 3.0
    new = u[2:] - 0.5 * u[:-2]
    u[1:-1] = new - u[2:]
    return u, old, u[:-2] + old


def backward(u):
    u[1:-1] = u[::-1][1:-1] + 2.0 * u[2:]
    return u


def in_a_plane(u):
    u[1:-1, 1:-1] = 0.25 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]) - u[2:, 2:]
    return u


def in_space(u):
    u[1:-1, 1:-1, 1:-1] = u[2:, 1:-1, 1:-1] - u[:-2, 1:-1, 1:-1] + u[1:-1, 2:, 1:-1]
    return u


def one_element(u):
    for k in range(3):
        u[k] = u[..., 1] - u[k]
    return u


def buffers_of(function: Callable[..., Any], *args: Any) -> list[str]:
    compiled = script(function)
    compiled(*args)
    return [line for line in compiled.kernels[0].source.splitlines() if "buffer: ptr" in line]


@pytest.mark.parametrize(
    "function", [diffused, far_apart, every_second, from_before, read_afterwards, backward]
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("size", [23, 4096, 70_001, 262_144])
def test_vectors(function: Callable[..., Any], dtype: str, size: int) -> None:
    u = (np.random.default_rng(size).standard_normal(size) * 50).astype(dtype)
    u[size // 2] = np.inf
    u[3] = -0.0
    _compare(function, u)


@pytest.mark.parametrize("shape", [(3, 5), (64, 64), (301, 300), (700, 5), (5, 7001), (500, 301)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_planes(shape: tuple[int, int], order: Any) -> None:
    u = np.random.default_rng(1).standard_normal(shape)
    _compare(in_a_plane, np.asarray(u, order=order))


def test_space() -> None:
    _compare(in_space, np.random.default_rng(2).standard_normal((70, 33, 35)))


@pytest.mark.parametrize("size", [3, 300])
def test_no_axes(size: int) -> None:
    _compare(one_element, np.random.default_rng(2).standard_normal(size))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_parts_of_threads(threads: int) -> None:
    before = get_num_threads()
    set_num_threads(threads)
    try:
        _compare(diffused, np.random.default_rng(3).standard_normal(300_000))
    finally:
        set_num_threads(before)


def test_a_buffer_takes_the_place_of_a_copy() -> None:
    assert buffers_of(diffused, np.ones(100_000))
    assert buffers_of(in_a_plane, np.ones((300, 300)))
    # What is read at another distance each time needs a copy.
    assert not buffers_of(backward, np.ones(100_000))


def _compare(function: Callable[..., Any], u: Any) -> None:
    expected, found = function(u.copy(order="K")), script(function)(u.copy(order="K"))
    if not isinstance(expected, tuple):
        expected, found = (expected,), (found,)
    for one, other in zip(expected, found, strict=True):
        assert one.dtype == other.dtype
        assert one.strides == other.strides
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(np.signbit(one.real), np.signbit(other.real))
