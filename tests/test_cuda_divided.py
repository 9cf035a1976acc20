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
    host = x.copy("K")
    wanted = function(host)
    run = run_on_device(function, (x,), dynamic=dynamic)
    pairs = zip(
        *(one if isinstance(one, tuple) else (one,) for one in (run.result, wanted)), strict=True
    )
    for found, one in pairs:
        assert (found.dtype, found.shape) == (one.dtype, one.shape)
        tolerance = 2e-3 if one.dtype == np.float16 else 1e-5
        np.testing.assert_allclose(found, one, rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(run.args[0], host)
    assert "joining the parts" in str(run.code.lowered.notes)


@pytest.mark.usefixtures("short_parts")
def test_the_same_bits_with_known_and_unknown_extents():
    runs = [run_on_device(means, (ROWS,), dynamic=one).result for one in (False, True)]
    np.testing.assert_array_equal(*runs)


def mappings(function: Any, *shape: int) -> list[str]:
    return [one.mapping for one in compile_on_device(function, (np.ones(shape, np.float32),))]


def test_who_has_blocks_enough_is_not_divided():
    assert len(mappings(down, 4096, 1 << 14)) == 1
    assert len(mappings(down, 512, 64)) == 1
    assert len(mappings(means, 600, 1 << 16)) == 1
    assert len(mappings(means, 2, 4096)) == 1


def test_a_tall_matrix_has_many_blocks():
    parts, whole = compile_on_device(down, (np.ones((1 << 16, 64), np.float32),))
    assert parts.mapping.endswith("a part of each line")
    assert whole.mapping.endswith("joining the parts")


def standardized(x):
    return (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)


@pytest.mark.usefixtures("short_parts")
def test_rows_that_are_read_again_stay_one_kernel():
    run = run_on_device(standardized, (ROWS,))
    np.testing.assert_allclose(run.result, standardized(ROWS), rtol=1e-4, atol=1e-5)
    assert "joining the parts" not in str(run.code.lowered.notes)
