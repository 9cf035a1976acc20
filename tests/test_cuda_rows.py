"""Loops over rows whose elements stay in registers, in the simulator, against NumPy."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np
import pytest
from device_runs import compile_on_device
from test_cuda_programs import check, layer_norm, log_softmax, rms_norm, softmax

from jitcore.codegen.cuda.kernels import barrier
from jitcore.codegen.cuda.schedule import map_nest
from jitcore.codegen.loop_passes.traversal import variables, walk
from jitcore.codegen.loops import Assign, Binary, Const, For, If, Let, Load, Stmt, Store, Var
from jitcore.codegen.lowering.arithmetic import ZERO, add, integer, multiply, subtract
from jitcore.codegen.printers.numba_cuda import print_kernel

RNG = np.random.default_rng(11)


def rows(count, extent, dtype=np.float32):
    return RNG.standard_normal((count, extent)).astype(dtype)


def in_place(x):
    x -= x.max(axis=1, keepdims=True)
    x /= np.abs(x).sum(axis=1, keepdims=True)


def two_results(x, y):
    shifted = x - x.mean(axis=1, keepdims=True)
    return shifted, shifted * y + y.sum(axis=1, keepdims=True)


def counted(x):
    return (x - x.mean(axis=1, keepdims=True)) * np.arange(x.shape[1], dtype=np.float32)


def reads_the_neighbour(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e[:, 1:] / e.sum(axis=1, keepdims=True) - e[:, :-1]


def read_before_it_changes(x):
    x -= x.max(axis=1, keepdims=True)
    turned = x[:, ::-1] * 2
    x /= np.abs(x).sum(axis=1, keepdims=True)
    return turned


def of_bools(x, flags):
    mean = np.where(flags, x, np.float32(0)).sum(axis=1, keepdims=True)
    return np.where(flags, x - mean, x), flags & (x > mean)


def stays(function, args, *, dynamic):
    """Whether a kernel of a function keeps rows in registers."""
    kernels = compile_on_device(function, args, dynamic=dynamic)
    return any("stays in registers" in one.mapping for one in kernels)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("extent", [37, 250, 260, 301, 1100])
def test_softmax(extent, dynamic):
    args = (rows(3, extent),)
    assert stays(softmax, args, dynamic=dynamic)
    check(softmax, args, dynamic=dynamic)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    ("function", "args"),
    [
        (softmax, (rows(2, 300, np.float64),)),
        (log_softmax, (rows(2, 300),)),
        (layer_norm, (rows(2, 300), *rows(2, 300))),
        (rms_norm, (rows(9, 64), rows(1, 64)[0])),
        (two_results, (rows(2, 300), rows(2, 300))),
        (two_results, (rows(9, 70), rows(9, 70))),
        (counted, (rows(2, 290),)),
        (of_bools, (rows(2, 300), rows(2, 300) > 0)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_rows(function, args, dynamic):
    # Two arrays of unknown extents need not have rows of one length.
    assert dynamic or stays(function, args, dynamic=dynamic)
    check(function, args, dynamic=dynamic)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_what_is_read_elsewhere_is_written(dynamic):
    check(reads_the_neighbour, (rows(2, 300),), dynamic=dynamic)
    check(reads_the_neighbour, (rows(9, 70),), dynamic=dynamic)
    check(read_before_it_changes, (rows(2, 300),), dynamic=dynamic)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_rows_that_are_longer_than_registers_hold(dynamic, monkeypatch):
    monkeypatch.setattr("jitcore.codegen.cuda.resident.MAX_THREADS", 64)
    for extent in (64 * 16 + 4, 64 * 16 + 301):
        check(softmax, (rows(2, extent),), dynamic=dynamic)
        check(two_results, (rows(1, extent), rows(1, extent)), dynamic=dynamic)
        check(layer_norm, (rows(1, extent), *rows(2, extent)), dynamic=dynamic)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_rows_that_change_in_place(dynamic):
    check(in_place, (rows(2, 300),), dynamic=dynamic)
    check(in_place, (rows(9, 60),), dynamic=dynamic)


def sums_in_place(x):
    x[:, 0] += x[:, 1:].sum(axis=1)


def turned_in_place(x):
    x += x[:, ::-1].sum(axis=1, keepdims=True)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("function", [sums_in_place, turned_in_place])
def test_rows_that_are_written_once(function, dynamic):
    for extent in (60, 300):
        args = (rows(9, extent),)
        assert not stays(function, args, dynamic=dynamic)
        check(function, args, dynamic=dynamic)


def columns_in_place(x):
    x[0] += x[1:].sum(axis=0)


def turned_columns_in_place(x):
    x += x[::-1].sum(axis=0)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("function", [columns_in_place, turned_columns_in_place])
def test_threads_beyond_the_last_column_write_nothing(function, dynamic):
    check(function, (rows(40, 37),), dynamic=dynamic)


@pytest.mark.parametrize("by_column", [False, True])
def test_threads_beyond_the_last_line_write_nothing(by_column):
    i, k, total, x, y = (
        Var(name, "ptr" if name in "xy" else "int64") for name in ("i", "k", "total", "x", "y")
    )
    index = add(multiply(k, integer(37)), i) if by_column else add(multiply(i, integer(60)), k)
    step = Binary("add", total, Load(x, index, "int64", "x"), "int64")
    body: list[Stmt] = [
        Let(total, ZERO, mutable=True),
        For(k, ZERO, integer(60), [Assign(total, step)]),
        Store(y, i, add(Load(y, i, "int64", "y"), total), "y"),
    ]
    mapped = map_nest(For(i, ZERO, integer(37), body, parallel=True), {"i", "k", "total", "x", "y"})
    assert mapped is not None
    assert mapped.mapping == ("a block per 32 columns" if by_column else "a warp per row")
    (branch,) = [one for one in walk(mapped.body) if isinstance(one, If)]
    assert ("own_column" if by_column else "own_row") in variables(branch.condition)


def means(x):
    return x.mean(axis=1)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("extent", [300, 1024, 1030, 2304, 4500])
def test_rows_that_are_read_once(extent, dynamic):
    check(means, (rows(2, extent),), dynamic=dynamic)
    check(means, (rows(2, extent + 1)[:, 1:],), dynamic=dynamic)


@pytest.mark.parametrize(("extent", "threads"), [(300, 96), (1024, 128), (4096, 256)])
def test_rows_have_threads_that_ask_for_several_vectors(extent, threads):
    (kernel,) = compile_on_device(means, (np.ones((64, extent), np.float32),))
    assert kernel.launch.threads == integer(threads)
    vectors = 2 if extent >= 1024 else 1
    assert print_kernel(kernel).count("load_vector(") == vectors


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_rows_that_begin_anywhere(dynamic):
    whole = rows(4, 304)
    check(softmax, (whole[1:, 1:302],), dynamic=dynamic)
    check(log_softmax, (whole.ravel()[1:1201].reshape(4, 300),), dynamic=dynamic)


def test_rows_without_elements():
    def shares(x):
        return x / x.sum(axis=1, keepdims=True), x.sum(axis=1)

    check(shares, (np.empty((3, 0), np.float32),), dynamic=True)
    check(shares, (np.empty((0, 3), np.float32),), dynamic=True)


def test_threads_meet_before_one_overwrites_what_others_read():
    i, k, x, y = (Var(name, "ptr" if name in "xy" else "int64") for name in "ikxy")
    row = multiply(i, integer(600))
    reverse = subtract(add(row, integer(599)), k)
    turned = Store(y, add(row, k), Load(x, reverse, "float32", "x"), "y")
    ones = Store(x, add(row, k), Const(1.0, "float32"), "x")
    loops = [For(k, ZERO, integer(600), [one], parallel=True) for one in (turned, ones)]
    nest = For(i, ZERO, integer(3), list(loops), parallel=True)
    mapped = map_nest(nest, {"i", "k", "x", "y"})
    assert mapped is not None
    assert list(walk(mapped.body)).count(barrier()) == 1


def test_a_row_that_is_read_once_does_not_stay():
    def totals(x):
        return x.sum(axis=1)

    assert not stays(totals, (rows(2, 300),), dynamic=False)
