# mypy: allow-untyped-defs, allow-untyped-calls
"""Reductions of few long lines on devices: in parts, each by blocks of its own, and joined."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from device_runs import compile_on_device, run_on_device

from jitcore.codegen.cuda import divided

RNG = np.random.default_rng(7)
ROWS = RNG.standard_normal((3, 2000)).astype(np.float32)
COLUMNS = RNG.standard_normal((999, 7))
CUBE = RNG.standard_normal((2, 700, 5))
COUNTS = RNG.integers(-100, 100, (40, 600))


@pytest.fixture
def short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that the simulator has time for."""
    monkeypatch.setattr(divided, "ENOUGH_BLOCKS", 16)
    monkeypatch.setattr(divided, "LEAST_ROW", 128)
    monkeypatch.setattr(divided, "LEAST_COLUMN", 64)


def check(function, x, *, dynamic):
    """Compare a function of few long lines with NumPy's, and see that it runs in parts."""
    host = x.copy("K")
    wanted = function(host)
    run = run_on_device(function, (x,), dynamic=dynamic)
    same(run.result, wanted)
    same(run.args[0], host)
    assert "joining the parts" in str(run.code.lowered.notes)


def same(found, wanted):
    if isinstance(wanted, tuple):
        for one, other in zip(found, wanted, strict=True):
            same(one, other)
    elif wanted is None:
        assert found is None
    else:
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        tolerance = 2e-3 if wanted.dtype == np.float16 else 1e-5
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def down(x):
    return x.sum(axis=0)


def means(x):
    return x.mean(axis=1)


def largest(x):
    return x.max(axis=-1) * 2 + 1


def inner_axis(x):
    return x.sum(axis=1), x.min(axis=1)


def scaled(x):
    x[0] = 1
    return (x * x + 1).sum(axis=0, keepdims=True) / x.shape[0]


def some(x):
    return (x > 1).any(axis=0), (x > -99).all(axis=1), np.count_nonzero(x, axis=0)


@pytest.mark.usefixtures("short_parts")
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    ("function", "x"),
    [
        (down, COLUMNS),
        (down, ROWS.T.copy()),
        (down, ROWS.T),
        (means, ROWS),
        (means, ROWS[:, ::2]),
        (means, ROWS.astype(np.float16)),
        (largest, ROWS),
        (largest, np.where(ROWS > 3, np.nan, ROWS)),
        (inner_axis, CUBE),
        (scaled, COLUMNS),
        (some, COUNTS.T.copy()),
        (down, COUNTS.T.astype(np.int16, order="C")),
    ],
)
def test_results(function, x, dynamic):
    check(function, x, dynamic=dynamic)


@pytest.mark.usefixtures("short_parts")
def test_the_same_bits_with_known_and_unknown_extents():
    runs = [run_on_device(means, (ROWS,), dynamic=one).result for one in (False, True)]
    np.testing.assert_array_equal(*runs)


def mappings(function: Any, *shape: int) -> list[str]:
    return [one.mapping for one in compile_on_device(function, (np.ones(shape, np.float32),))]


def test_who_has_blocks_enough_is_not_divided():
    assert len(mappings(down, 4096, 1 << 16)) == 1
    assert len(mappings(down, 512, 64)) == 1
    assert len(mappings(means, 600, 1 << 16)) == 1
    assert len(mappings(means, 2, 4096)) == 1


def test_a_tall_matrix_has_many_blocks():
    parts, whole = compile_on_device(down, (np.ones((1 << 16, 64), np.float32),))
    assert parts.mapping.endswith("a part of each line")
    assert whole.mapping.endswith("joining the parts")


def standardized(x):
    return (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)


def spread(x):
    return x.var(axis=1), x.std(axis=0, ddof=1)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def in_place(x):
    x -= x.mean(axis=-1, keepdims=True)
    x /= np.abs(x).max(axis=-1, keepdims=True)


def kept(x):
    doubled = x * 2
    return doubled, doubled.sum(axis=1), doubled.T.copy()


def from_the_first(x):
    shifted = x - x[:, :1]
    return shifted / shifted.sum(axis=1, keepdims=True)


def of_middle_axis(x):
    return (x - x.mean(axis=1, keepdims=True)).max(axis=1)


@pytest.mark.usefixtures("short_parts")
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    ("function", "x"),
    [
        (standardized, ROWS),
        (standardized, ROWS[:, ::2]),
        (standardized, ROWS.astype(np.float64)),
        (spread, ROWS),
        (spread, COLUMNS),
        (softmax, ROWS),
        (softmax, ROWS.astype(np.float16)),
        (softmax, ROWS[0]),
        (in_place, ROWS),
        (kept, ROWS),
        (from_the_first, ROWS),
        (of_middle_axis, CUBE),
    ],
)
def test_lines_that_are_read_again(function, x, dynamic):
    check(function, x, dynamic=dynamic)


@pytest.mark.usefixtures("short_parts")
def test_a_nest_for_each_time_that_lines_are_read():
    notes = [one.mapping for one in compile_on_device(standardized, (ROWS,))]
    assert [note.rpartition(", ")[2] for note in notes] == [
        *("a part of each line", "joining the parts") * 2,
        "a time of several",
    ]


def test_many_lines_that_are_read_again_stay_one_kernel():
    assert len(mappings(softmax, 64, 1 << 17)) == 1
    assert len(mappings(softmax, 4, 1 << 14)) == 1
    assert len(mappings(softmax, 4, 1 << 17)) == 5
