"""What kernels call, as it is: how threads join what they have, and vectors in memory."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import functools
import itertools
import operator
from typing import Any

import cuda_simulator
import numba
import numpy as np
import pytest
from cuda_simulator import TYPES, WARP, cuda

from jitcore.codegen.cuda import primitives, scan_primitives

RNG = np.random.default_rng()

JOINS: dict[str, Any] = {
    "add": operator.add,
    "mul": operator.mul,
    "min": np.minimum,
    "max": np.maximum,
    "least": np.minimum,
    "greatest": np.maximum,
    "and": operator.and_,
    "or": operator.or_,
}
THREADS = [32, 160, 1024]

ORDERS = pytest.mark.parametrize("turns", [0, 1])
"""Barriers before: the simulator then runs threads from the first to the last, or from the last."""


def run(kernel, values):
    """What each thread leaves in each of two turns."""
    left = np.zeros_like(values)
    cuda.run(kernel, (1, 1, 1), (values.shape[1], 1, 1), (values, left))
    return left


def twice(name, dtype, turns=0):
    """A kernel that joins one row of values after the other, at one place in its source."""
    joined = getattr(cuda_simulator, name)

    def kernel(values, left):
        place = cuda.threadIdx.x
        for _ in range(turns):
            cuda.syncthreads()
        for row in range(len(values)):
            left[row, place] = joined(values[row, place], TYPES[dtype])

    return kernel


def whole(values, join, groups):
    """Each group's values joined, in the place of each of them."""
    made = np.empty_like(values)
    for row, out in zip(values, made, strict=True):
        for group in groups:
            out[group] = functools.reduce(join, row[group])
    return made


def integers(threads, least=-(2**31), most=2**31):
    return RNG.integers(least, most, (3, threads))


@ORDERS
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("op", JOINS)
@pytest.mark.parametrize("team", ["block", "warp", "column"])
def test_all_threads_get_what_the_team_has(team, op, threads, turns):
    numbers = np.arange(threads)
    groups = {
        "block": [numbers],
        "warp": np.split(numbers, threads // WARP),
        "column": list(numbers.reshape(-1, WARP).T),
    }[team]
    values = integers(threads)
    found = run(twice(f"{team}_{op}", "int64", turns), values)
    np.testing.assert_array_equal(found, whole(values, JOINS[op], groups))


@ORDERS
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("op", ["add", "mul", "min", "max", "and", "or"])
def test_threads_get_what_those_before_them_have(op, threads, turns):
    values = integers(threads)
    found = run(twice(f"before_{op}", "int64", turns), values)
    for row, out in zip(values, found, strict=True):
        wanted = list(itertools.accumulate(row, JOINS[op]))
        np.testing.assert_array_equal(out[1:], wanted[:-1])


@numba.cuda.jit(device=True)
def latter(x, y):
    return x * 0 + y


def test_threads_are_joined_in_their_order():
    before = cuda_simulator.simulated(scan_primitives._before_threads(latter))

    def kernel(values, left):
        place = cuda.threadIdx.x
        left[0, place] = before(values[0, place], TYPES["int64"])

    values = integers(160)
    np.testing.assert_array_equal(run(kernel, values)[0, 1:], values[0, :-1])


@ORDERS
@pytest.mark.parametrize("threads", THREADS)
def test_what_the_last_thread_has(threads, turns):
    values = integers(threads)
    found = run(twice("of_last_thread", "int64", turns), values)
    np.testing.assert_array_equal(found, np.broadcast_to(values[:, -1:], values.shape))


@ORDERS
def test_one_block_knows_that_it_is_the_last(turns):
    is_last_block = cuda_simulator.simulated(primitives.is_last_block)
    counted: list[Any] = []

    def count(counter):
        counted.append(counter)
        return len(counted) - 1

    is_last_block.__globals__["_count_block"] = count

    def kernel(found):
        for _ in range(turns):
            cuda.syncthreads()
        found[cuda.blockIdx.x, cuda.threadIdx.x] = is_last_block(0)

    found = np.ones((3, 64), bool)
    cuda.run(kernel, (3, 1, 1), (64, 1, 1), (found,))
    np.testing.assert_array_equal(found, np.arange(3)[:, None].repeat(64, 1) == 2)
    assert len(counted) == 3


@pytest.mark.parametrize("team", ["block", "warp", "column"])
def test_nan_wins(team):
    values = RNG.standard_normal((1, 64)).astype(np.float32)
    values[0, RNG.integers(64)] = np.nan
    for op in ("min", "max"):
        found = run(twice(f"{team}_{op}", "float32"), values)
        numbers = np.arange(64)
        groups = {"block": [numbers], "warp": [numbers[:32], numbers[32:]]}
        groups["column"] = list(numbers.reshape(2, 32).T)
        np.testing.assert_array_equal(found, whole(values, JOINS[op], groups[team]))


@pytest.mark.parametrize("team", ["block", "warp", "column"])
def test_all_threads_get_the_same_bits(team):
    values = RNG.standard_normal((1, 1024)).astype(np.float32) * np.float32(1e6)
    found = run(twice(f"{team}_add", "float32"), values).view(np.int32)[0]
    groups = {
        "block": found[None],
        "warp": found.reshape(-1, 32),
        "column": found.reshape(-1, 32).T,
    }
    assert all(len(set(one)) == 1 for one in groups[team])


# Vectors in memory: LLVM's code of the primitives, which compiles for the processor, too ----------

EDGES = [0.0, -0.0, 1.0, -2.5, 6e-8, 65504.0, np.inf, -np.inf, np.nan]


def aligned(values):
    """A copy that begins at a multiple of 64 bytes."""
    room = np.zeros(values.nbytes + 64, np.uint8)
    copy = room[-room.ctypes.data % 64 :][: values.nbytes].view(values.dtype)
    copy[:] = values
    return copy


def address_of(x):
    return x.ctypes.data


@pytest.mark.parametrize("name", ["boolean", "int8", "uint16", "int32", "float32", "float64"])
def test_vectors_are_neighbouring_elements(name):
    type_ = getattr(numba.types, name)
    width = 2 if name == "float64" else 4
    load_vector: Any = primitives.load_vector
    store_vector: Any = primitives.store_vector

    @numba.njit
    def move(source, target):
        values = load_vector(source, 4, type_, width)
        store_vector(target, 8, values)
        return values

    source = aligned(RNG.integers(0, 2, 16).astype("bool" if name == "boolean" else name))
    target = aligned(np.zeros_like(source))
    values, moved = move(address_of(source), address_of(target)), source[4 : 4 + width]
    np.testing.assert_array_equal(values, moved)
    np.testing.assert_array_equal(target, [*[0] * 8, *moved, *[0] * (8 - width)])


@pytest.mark.parametrize("kind", ["halves", "bfloats"])
def test_vectors_of_numbers_of_two_bytes(kind):
    if kind == "bfloats":
        pytest.importorskip("ml_dtypes")
    dtype = np.dtype("float16" if kind == "halves" else "bfloat16")
    load, store = (getattr(primitives, f"{verb}_{kind}") for verb in ("load", "store"))

    @numba.njit
    def move(source, target):
        values = load(source, 8, 8)
        store(target, 0, values)
        return values

    source = aligned(np.array([*EDGES[1:], *RNG.permutation(EDGES)[:8]]).astype(dtype))
    target = aligned(np.zeros(16, dtype))
    values = move(address_of(source), address_of(target))
    np.testing.assert_array_equal(values, source[8:].astype(np.float32))
    np.testing.assert_array_equal(target.view("u2")[:8], source.view("u2")[8:])
    assert not target.view("u2")[8:].any()


@pytest.mark.parametrize("name", ["minimum", "maximum"])
@pytest.mark.parametrize("dtype", ["int32", "uint32", "float32", "float64"])
def test_extrema(name, dtype):
    better = getattr(primitives, name)

    @numba.njit
    def both(x, y):
        return better(x, y)

    known = EDGES if dtype.startswith("float") else [0, 1, 2**31 - 1, -1, -(2**31)]
    values = np.array(known).astype(dtype)
    for x, y in itertools.product(values, repeat=2):
        np.testing.assert_array_equal(both(x, y), getattr(np, name)(x, y))


@pytest.mark.parametrize("name", ["minimum", "maximum"])
def test_extrema_of_halves_have_the_signs_of_numpy(name):
    better = getattr(primitives, f"{name}_half")

    @numba.njit
    def both(x, y):
        return better(x, y)

    for x, y in itertools.product(np.array(EDGES[:8], np.float32), repeat=2):
        found, wanted = both(x, y), getattr(np, name)(np.float16(x), np.float16(y))
        assert (found, np.signbit(found)) == (wanted, np.signbit(wanted))


@pytest.mark.parametrize("dtype", ["int64", "float32", "float64"])
def test_negative(dtype):
    negative: Any = primitives.negative

    @numba.njit
    def turned(x):
        return negative(x)

    for x in np.array([0, 1, -7], dtype):
        found = turned(x)
        assert found == -x and np.signbit(found) == np.signbit(-x)
