"""Totals and scans on a device, in the simulator: few kernels, tiles of vectors, counters."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np
import pytest
from cuda_machine import fake_machine
from cuda_simulator import blocks_by_turns
from device_runs import assert_same_bits, check_bits, compile_on_device, run_on_device

import jitcore
from jitcore.codegen.cuda import one_pass
from jitcore.codegen.printers.numba_cuda import print_kernel

GENERATOR = np.random.default_rng(12)


def whole_numbers(extent, dtype):
    """Numbers whose sums are exact in any order."""
    return GENERATOR.integers(0, 4, extent).astype(dtype)


def running(x):
    return np.cumsum(x)


def running_rows(x):
    return np.cumsum(x, axis=1), np.maximum.accumulate(x, axis=1)


def in_place(x):
    x[:] = np.cumsum(x)
    return x[0]


def twice(x):
    return np.cumsum(np.cumsum(x) * 2)


def chosen(x):
    return x[x > 1], np.cumsum(x)[-1]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("function", [running, in_place, twice, chosen])
@pytest.mark.parametrize(
    ("extent", "dtype"), [(1, "f4"), (6, "i2"), (33, "f8"), (4099, "f4"), (5001, "i8")]
)
def test_scans_of_all_extents(function, extent, dtype, dynamic):
    x = whole_numbers(extent + 3, dtype)
    check_bits(function, (x[3:],), dynamic=dynamic)


def all_scans(x):
    return np.cumsum(x), np.cumprod(x), np.maximum.accumulate(x), np.minimum.accumulate(x)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "u8"])
def test_scans_begin_with_what_changes_no_element(dtype):
    x = np.array([-0.0, -0.0, 0.0, 1, 0.0, 1, 1], dtype)
    for first in range(4):
        check_bits(all_scans, (x[first:],), dynamic=True)
    if x.dtype.kind == "f":
        x[2:4] = -np.inf, np.nan
        for first in range(4):
            check_bits(all_scans, (x[first:],), dynamic=True, nan_signs=False)


def test_complex_scans_begin_with_what_changes_no_element():
    x = np.array([complex(-0.0, -0.0), complex(-0.0, 0.0), 1, complex(0, -2)], np.complex64)
    for first in range(3):
        found, wanted = run_on_device(running, (x[first:],)).result, running(x[first:])
        np.testing.assert_array_equal(found.view("i4"), wanted.view("i4"))


def flags(x):
    return np.maximum.accumulate(x, axis=-1), np.minimum.accumulate(x), np.cumsum(x)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("shape", [0, 1, 37, 4099, (3, 301), (301, 2)])
def test_scans_of_flags(shape, dynamic):
    for likely in (0.01, 0.99):
        x = GENERATOR.random(shape) < likely
        check_bits(flags if x.ndim == 1 else flags_of_rows, (x,), dynamic=dynamic)


def flags_of_rows(x):
    return np.maximum.accumulate(x, axis=1), np.minimum.accumulate(x, axis=0)


def of_products(x):
    doubled = x * 2
    return np.cumsum(doubled) + x, np.maximum.accumulate(doubled)


def in_place_and_more(x):
    x[:] = np.cumsum(x.astype(np.int16)) - x
    return np.cumsum(np.cumsum(x) > 5)


def of_rows(x):
    return np.cumsum(x * 2, axis=1) - 1, np.cumsum(x.sum(axis=0))


@pytest.mark.parametrize(
    ("function", "kernels"), [(running, 1), (of_products, 1), (in_place_and_more, 4)]
)
def test_long_scans_are_one_kernel_with_what_goes_along(function, kernels):
    assert len(compile_on_device(function, (np.ones(1 << 14, np.float32),))) == kernels


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("function", [of_products, in_place_and_more])
@pytest.mark.parametrize("extent", [1, 1000, 5001])
def test_what_goes_along_with_scans(function, extent, dynamic):
    check_bits(function, (whole_numbers(extent, "f4"),), dynamic=dynamic)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_what_goes_along_with_scans_of_rows(dynamic):
    check_bits(of_rows, (whole_numbers((3, 301), "f4"),), dynamic=dynamic)


# Tiles of few elements, so that there are several groups of tiles.
MANY = 34 * 32 * 16 + 5


@pytest.fixture
def small_tiles(monkeypatch):
    monkeypatch.setattr(one_pass, "THREADS", 32)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("dtype", ["f4", "i2", "u8"])
def test_blocks_scan_in_any_order(small_tiles, dtype, seed):
    x = whole_numbers(MANY, dtype)
    with blocks_by_turns(seed):
        check_bits(all_but_products, (x,), dynamic=bool(seed))


def all_but_products(x):
    return np.cumsum(x), np.maximum.accumulate(x), np.minimum.accumulate(x)


def test_sums_are_rounded_the_same_way_in_any_order(small_tiles):
    x = GENERATOR.standard_normal(MANY).astype(np.float32)
    wanted = run_on_device(running, (x,)).result
    np.testing.assert_allclose(wanted, np.cumsum(x, dtype=np.float64), rtol=1e-4, atol=1e-3)
    for seed in range(3):
        with blocks_by_turns(seed):
            assert_same_bits(run_on_device(running, (x,)).result, wanted)


@pytest.mark.parametrize("first", [0, 1])
def test_rows_are_scanned_by_tiles(first):
    x = whole_numbers((3, 301), "f4")
    x[1, 100], x[2, :] = np.nan, -0.0
    check_bits(running_rows, (x[:, first:],), dynamic=True, nan_signs=False)


def test_tiles_are_moved_by_vectors():
    for one in compile_on_device(running_rows, (np.ones((2, 512), np.float32),)):
        source = print_kernel(one)
        assert "load_vector(x" in source and "store_vector(" in source


def test_threads_of_long_scans_have_four_vectors_under_way():
    (one,) = compile_on_device(running, (np.ones(1 << 15, np.float32),))
    assert print_kernel(one).count("load_vector(x") == 4


@pytest.mark.parametrize("shape", [(0, 5), (2, 0), (2, 1), (1, 2)])
def test_scans_of_few_elements_read_no_others(shape):
    x = whole_numbers(shape, "f4")
    if x.size:
        check_bits(running_rows, (x,), dynamic=True)
    check_bits(running, (x.ravel(),), dynamic=True)


def total(x):
    return (x * 2).sum()


def changing(x):
    first = x.sum()
    double = first * 2
    second = (x + double).sum()
    first = first + 1
    return first, double, second


def counting(x):
    found = x.sum()
    for k in range(3):
        found = found + (x * k).sum()
    return found


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("function", [total, changing, counting])
@pytest.mark.parametrize("extent", [0, 1, 257, 5000])
def test_totals(function, extent, dynamic):
    dtype = "f4" if function is total else "i8"
    check_bits(function, (whole_numbers(extent, dtype),), dynamic=dynamic)


def test_a_total_is_one_kernel():
    assert len(compile_on_device(total, (np.ones(1 << 20, np.float32),))) == 1


def test_the_same_bits_each_time():
    x = GENERATOR.standard_normal(5000).astype(np.float32)
    results = {run_on_device(total, (x,), dynamic=one).result.tobytes() for one in (False, True)}
    assert len(results) == 1


def test_counters_are_left_as_they_were():
    x = whole_numbers(5000, "f4")
    with fake_machine():
        compiled = jitcore.script(total)
        moved = jitcore.to(x, "cuda")
        for _ in range(2):
            # The simulator stops where a counter does not begin with 0.
            for stream in (None, jitcore.cuda.Stream(), None):
                if stream is None:
                    found = compiled(moved)
                else:
                    with stream:
                        found = compiled(moved)
                assert jitcore.to(found, "cpu") == total(x)
        jitcore.cuda.empty_cache()
        assert jitcore.to(compiled(moved), "cpu") == total(x)
