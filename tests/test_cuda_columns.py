"""Columns on devices, in the simulator: lanes that take several of them, by vectors."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np
import pytest
from device_runs import check_bits, compile_on_device

from jitcore.codegen.cuda import columns, divided
from jitcore.codegen.printers.numba_cuda import print_kernel

GENERATOR = np.random.default_rng(8)


@pytest.fixture(autouse=True)
def few_columns(monkeypatch):
    monkeypatch.setattr(columns, "WIDE_COLUMNS", 8)
    monkeypatch.setattr(divided, "ENOUGH_COLUMN_BLOCKS", 16)
    monkeypatch.setattr(divided, "LEAST_COLUMN", 64)


def numbers(*shape, dtype="f4"):
    """Numbers whose sums are exact in any order."""
    return GENERATOR.integers(-3, 4, shape).astype(dtype)


def down(x):
    return x.sum(axis=0)


def several(x):
    return (x * 2 - x[0]).sum(axis=0), x.max(axis=0), (x > 1).any(axis=0)


def middle(x):
    return x.sum(axis=1) + x.shape[0]


def weighted(x):
    return (x * x[:, :1]).sum(axis=0)


def centred(x):
    x -= x.min(axis=0)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("shape", [(1, 4), (37, 132), (9, 130), (200, 12), (70, 256)])
@pytest.mark.parametrize("function", [down, several, weighted, centred])
def test_columns(function, shape, dynamic):
    check_bits(function, (numbers(*shape),), dynamic=dynamic)


def all_but_the_last(x):
    return x[:, :-1].sum(axis=0), x[::2, 4:-3].max(axis=0)


def all_but_the_first(x):
    return x[:, 4:].sum(axis=0), x[:, 1:].max(axis=0)


def added_in_place(x):
    x[0, :-1] += x[1:, :-1].sum(axis=0) + x[0, :-1]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("function", [all_but_the_last, all_but_the_first, added_in_place])
def test_columns_of_a_part_that_ends_elsewhere_than_vectors(function, dynamic):
    check_bits(function, (numbers(37, 132),), dynamic=dynamic)


@pytest.mark.parametrize("dtype", ["f2", "f8", "i1", "u8", "?"])
def test_dtypes(dtype):
    for dynamic in (False, True):
        check_bits(down, (numbers(21, 132, dtype=dtype),), dynamic=dynamic)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_columns_that_do_not_begin_where_vectors_do(dynamic):
    x = numbers(33, 141)
    for part in (x[:, 1:], x[:, 4:136], x[:, :132], x[1:], x[:, 5:133]):
        check_bits(down, (part,), dynamic=dynamic)
    check_bits(middle, (numbers(3, 70, 44),), dynamic=dynamic)
    check_bits(middle, (numbers(3, 70, 45)[:, :, :44],), dynamic=dynamic)


def test_lanes_load_vectors():
    (one,) = compile_on_device(down, (np.ones((40, 132), np.float32),))
    assert "128 by vectors" in one.mapping and "load_vector(x" in print_kernel(one)
    for shape in ((40, 130), (40, 4)):
        (one,) = compile_on_device(down, (np.ones(shape, np.float32),))
        assert "load_vector" not in print_kernel(one)
