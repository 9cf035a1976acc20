# mypy: allow-untyped-defs, allow-untyped-calls
"""Elements along several axes on devices: broadcasts and slices, by vectors within lines."""

from __future__ import annotations

import numpy as np
import pytest
from device_runs import compile_on_device, run_on_device
from test_cuda_programs import check

from jitcore.codegen.cuda.kernels import Launch
from jitcore.codegen.lowering.arithmetic import integer
from jitcore.codegen.printers.numba_cuda import print_kernel

RNG = np.random.default_rng(5)


def array(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


X = array(6, 48)
IMAGES = array(2, 3, 5, 8)


def by_row(x, row):
    return x * row + 1


def by_column(x):
    return x * x[:, :1] - x[:, 3:4]


def by_channel(x, bias):
    return np.maximum(x + bias, 0)


def outer(x, y):
    return x[:, None] * y


def inside(x):
    return x[1:, 8:40] * 2 + x[:-1, 4:36]


def written(x, row):
    x[:, 16:32] += row
    x[::2, :8] = row[:8]


def several(x, row):
    return x + row, x > row, (x * row).astype(np.float64)


def of_threes(x, row):
    return x - row


CASES = [
    (by_row, (X, X[0])),
    (by_row, (array(3, 6), array(6))),
    (by_row, (X.astype(np.float64), X[0].astype(np.float64))),
    (by_row, (X.astype(np.float16), X[0].astype(np.float16))),
    (by_row, (array(2, 512), array(512))),
    (by_column, (X,)),
    (by_column, (X[:, 4:44],)),
    (by_channel, (IMAGES, array(3, 1, 1))),
    (by_column, (X[:, ::2],)),
    (outer, (array(5), array(12))),
    (inside, (X,)),
    (written, (X, array(16))),
    (several, (X, X[0])),
]
WITHOUT = [
    (by_row, (array(4, 5), array(5))),
    (of_threes, (array(7, 3), array(3))),
]


def sources(function, args, *, dynamic=False):
    kernels = compile_on_device(function, args, dynamic=dynamic)
    return [print_kernel(one) for one in kernels]


def takes_vectors(source):
    return "store_vector" in source or "store_halves" in source


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(("function", "args"), CASES)
def test_lines_are_taken_by_vectors(function, args, dynamic):
    assert all(map(takes_vectors, sources(function, args, dynamic=dynamic)))
    check(function, args, dynamic=dynamic)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(("function", "args"), WITHOUT)
def test_lines_in_which_no_whole_vectors_lie(function, args, dynamic):
    if not dynamic:
        assert not any(map(takes_vectors, sources(function, args)))
    check(function, args, dynamic=dynamic)


@pytest.mark.parametrize("begin", range(1, 4))
def test_lines_that_begin_between_vectors(begin):
    """The first line does, or all but the first."""
    check(by_column, (X[:, begin : begin + 32],), dynamic=False)
    check(by_column, (array(4, 47)[:, :32],), dynamic=True)


def test_known_places_are_divided_in_words_of_32_bits():
    (source,) = sources(by_row, (array(64, 48), array(48)))
    assert "quotient(rest, uint32(48))" in source and "quotient(i" not in source


@pytest.mark.parametrize(("extent", "blocks"), [(1, 1), (2048, 1), (2049, 2), (1 << 20, 512)])
def test_blocks_are_as_many_as_their_threads_need(extent, blocks):
    """Of threads that take two vectors of four elements each."""
    (kernel,) = compile_on_device(by_row, (array(extent), np.float32(2)))
    assert kernel.launch == Launch(integer(blocks), integer(256))


def test_every_line_is_written_where_there_are_more_than_threads():
    x, row = array(700, 12), array(12)
    run = run_on_device(by_row, (x, row))
    np.testing.assert_array_equal(run.result, by_row(x, row))
