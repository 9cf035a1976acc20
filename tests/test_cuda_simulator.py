"""The simulator shows the mistakes that kernels can make with barriers."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import itertools

import cuda_simulator
import numba
import numpy as np
import pytest
from cuda_simulator import cuda

from jitcore.codegen import primitives

COUNT = 64


def reverse(values, has_barrier):
    shared = cuda.shared.array(COUNT, numba.int64)
    place = cuda.threadIdx.x
    shared[place] = values[place]
    if has_barrier:
        cuda.syncthreads()
    values[place] = shared[COUNT - 1 - place]


def shift(values, is_left):
    """Needs a barrier between the reads and the writes."""
    place = cuda.threadIdx.x
    neighbour = values[(place + (1 if is_left else -1)) % COUNT]
    values[place] = neighbour


def shift_late(values, is_left):
    """Like `shift`, after a barrier: the threads then run in the other order."""
    cuda.syncthreads()
    shift(values, is_left)


def uneven(values):
    if values[cuda.threadIdx.x] > 3:
        cuda.syncthreads()


def run(kernel, *rest):
    values = np.arange(COUNT)
    cuda.run(kernel, (1, 1, 1), (COUNT, 1, 1), (values, *rest))
    return values


def test_barriers_order_writes_before_reads() -> None:
    np.testing.assert_array_equal(run(reverse, True), np.arange(COUNT)[::-1])


@pytest.mark.parametrize("is_left", [False, True])
@pytest.mark.parametrize("kernel", [shift, shift_late])
def test_a_race_depends_on_the_order(kernel, is_left):
    expected = np.roll(np.arange(COUNT), -1 if is_left else 1)
    # In one of the two orders the first thread has written what the last one reads.
    assert not np.array_equal(run(kernel, is_left), expected)


def test_a_missing_barrier_shows() -> None:
    assert not np.array_equal(run(reverse, False), np.arange(COUNT)[::-1])


def test_a_barrier_that_only_some_threads_reach() -> None:
    with pytest.raises(AssertionError, match="not all threads"):
        run(uneven)


def test_all_primitives_are_there() -> None:
    assert not [one for one in primitives.__all__ if not hasattr(cuda_simulator, one)]


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "i8", "u8"])
def test_integers_are_those_of_the_primitives(dtype: str) -> None:
    limits = np.iinfo(dtype)
    edges = [limits.min, 0, 1, 2, 1 << limits.bits // 2, limits.max - 1, limits.max]
    for x, y in itertools.product(map(np.dtype(dtype).type, edges), repeat=2):
        for name, wanted in (("add", int(x) + int(y)), ("mul", int(x) * int(y))):
            found = getattr(cuda_simulator, f"{name}_overflows")(x, y)
            assert found == (wanted not in range(limits.min, limits.max + 1))
        bits = np.binary_repr(x, limits.bits)
        assert cuda_simulator.clz(x) == len(bits) - len(bits.lstrip("0"))
        assert cuda_simulator.ctz(x) == len(bits) - len(bits.rstrip("0"))
