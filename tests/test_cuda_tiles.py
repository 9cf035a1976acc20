"""Transposes through shared memory, in the simulator: whole tiles by vectors, the others singly."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import re

import cuda_simulator
import numpy as np
import pytest
from device_runs import check_bits, compile_on_device

from jitcore.codegen.cuda.schedule import map_nest
from jitcore.codegen.loops import For, Let, Load, Stmt, Store, Var
from jitcore.codegen.lowering.arithmetic import ZERO, add, integer, multiply
from jitcore.codegen.printers.numba_cuda import print_kernel

RNG = np.random.default_rng()


def numbers(*shape, dtype=np.float32):
    return RNG.integers(0, 9, shape).astype(dtype)


def turned(x, y):
    return x.T + y


def both_turned(x, y):
    z = np.empty((x.shape[1], x.shape[0]), x.dtype)
    z[:] = x.T + y.T
    return z


def added(x, y):
    y += x.T


def behind(x, y):
    z = y * 1
    z[1:] = x[:, 1:].T
    return z


def of_rows(x, y):
    z = np.empty((x.shape[1], x.shape[0]), x.dtype)
    z[:] = x.T * y[0] - y[:, :1]
    return z


def two_results(x, y):
    return x.T + y, x.T > y


def images(x, y):
    """Whole tiles of 32 by 32, of each of several images."""
    return x.reshape(-1, 32, 64).transpose(0, 2, 1) + y.reshape(-1, 64, 32)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("shape", [(36, 68), (33, 35)])
@pytest.mark.parametrize("function", [turned, both_turned, added, behind, of_rows, two_results])
def test_programs(function, shape, dynamic):
    rows, columns = shape
    y = numbers(columns, rows) if function is not both_turned else numbers(rows, columns)
    check_bits(function, (numbers(rows, columns), y), dynamic=dynamic)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("dtype", ["bool", "i1", "f2", "u4", "f8", "bfloat16"])
def test_dtypes(dtype, dynamic):
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    for rows, columns in ((72, 128), (65, 64)):
        x, y = numbers(rows, columns, dtype=dtype), numbers(columns, rows, dtype=dtype)
        check_bits(turned, (x, y), dynamic=dynamic)
        check_bits(both_turned, (x, x + x), dynamic=dynamic)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_several_axes(dynamic):
    check_bits(images, (numbers(3 * 32, 64), numbers(3 * 64, 32)), dynamic=dynamic)


@pytest.mark.parametrize("reads_again", [False, True])
def test_what_a_statement_writes_the_next_one_reads(reads_again):
    i, j, v, x, y, z = (Var(name, "ptr" if name in "xyz" else "int64") for name in "ijvxyz")
    across, along = (add(multiply(one, integer(64)), two) for one, two in ((j, i), (i, j)))
    stores: list[Stmt] = [
        Store(y, along, Load(x, across, "int64", "x"), "y"),
        Let(v, Load(y if reads_again else x, along, "int64", "y" if reads_again else "x")),
        Store(z, along, v, "z"),
    ]
    inner = For(j, ZERO, integer(64), stores, parallel=True)
    mapped = map_nest(For(i, ZERO, integer(64), [inner], parallel=True), set("ijvxyz"))
    assert mapped is not None and "tile" in mapped.mapping
    # Vectors are loaded before anything is written.
    assert ("cuda.load_vector" in repr(mapped.body)) != reads_again


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("first", [0, 1, 4])
def test_lines_that_begin_anywhere(first, dynamic):
    x, y = numbers(64, 72)[:, first:][:, :64], numbers(64, 72)[:, 8 - first :][:, :64]
    check_bits(turned, (x, y), dynamic=dynamic)


@pytest.mark.parametrize(
    ("dtype", "columns", "width"),
    [("f4", 64, 4), ("f4", 66, 2), ("f4", 65, 1), ("f2", 64, 8), ("f2", 36, 4), ("f8", 64, 2)],
)
def test_lines_are_moved_by_vectors_where_they_may_be(dtype, columns, width):
    x = numbers(columns, columns, dtype=dtype)
    (kernel,) = compile_on_device(turned, (x, x))
    source = print_kernel(kernel)
    widths = set(map(int, re.findall(r"load_(?:vector|halves)\(.*, (\d)\)$", source, re.MULTILINE)))
    assert widths == ({width} if width > 1 else set())
    assert ("store_" in source) == (width > 1)


def test_tiles_of_small_elements_are_larger_where_there_is_room():
    x = numbers(64, 64, dtype="f2")
    for function, side in ((turned, 64), (both_turned, 32)):
        (kernel,) = compile_on_device(function, (x, x))
        assert kernel.mapping == f"a block per tile of {side} by {side} elements"


@pytest.mark.parametrize(("dtype", "side"), [("f2", 64), ("f4", 64), ("f4", 63), ("f8", 32)])
@pytest.mark.parametrize("function", [turned, both_turned])
def test_no_bank_of_shared_memory_is_asked_twice_at_once(function, dtype, side):
    x = numbers(side, side, dtype=dtype)
    with cuda_simulator.bank_conflicts() as turns:
        check_bits(function, (x, x + x), dynamic=False)
    assert turns
    # Vectors of two float64 are brought in two turns.
    assert max(turns) <= (2 if dtype == "f8" else 1)
