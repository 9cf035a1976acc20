# mypy: allow-untyped-defs, allow-untyped-calls
"""Results larger than the caches, which are written past them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitcore
from checking import check
from jitcore import pipeline, script
from jitcore.codegen.runtime import streams
from jitcore.codegen.runtime.streams import largest_cache


@pytest.fixture(autouse=True)
def small_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "largest_cache", lambda: 1024)


@pytest.fixture(params=[1, 2, 8])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = jitcore.set_num_threads(request.param)
    yield request.param
    jitcore.set_num_threads(before)


def is_streamed(compiled: Any) -> bool:
    return "jc_stream" in compiled.kernels[0].llvm


def chain(x, y):
    return x * y + x


def several(x, y):
    return x + y, x > y, (x - y).astype(np.float32)


def many(x, y):
    return x, x + y, x - y, x * 2, y * 2, x * 3, y * 3, x + 1, y + 1, x + 2, y + 2


def inside(x, y):
    return x[1:-1] + y[2:] * x[:-2]


def into(x, y):
    x[5:-3] = y[5:-3] * 2
    return x


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int16", "uint8"])
@pytest.mark.parametrize("length", [8192, 9001, 20_000, 100_003])
@pytest.mark.parametrize("function", [chain, several, many, inside, into])
def test_lengths(function: Callable[..., Any], length: int, dtype: str) -> None:
    x, y = np.random.default_rng(length).integers(1, 100, (2, length)).astype(dtype)
    assert is_streamed(check(function, x, y))


@pytest.mark.parametrize("function", [chain, inside])
def test_on_threads(function: Callable[..., Any], threads: int) -> None:
    x, y = np.random.default_rng(threads).random((2, 700_001))
    compiled = check(function, x, y)
    assert is_streamed(compiled)
    for _ in range(20):
        np.testing.assert_array_equal(compiled(x, y), function(x, y))


@pytest.mark.parametrize("start", [0, 1, 3, 8, 9])
def test_results_begin_anywhere_in_a_line(start: int) -> None:
    memory = np.zeros(30_000)

    def to(out, x):
        out[:] = x + 1

    x = np.random.default_rng(start).random(20_000)
    compiled = script(to)
    compiled(memory[start : start + 20_000], x)
    assert is_streamed(compiled)
    np.testing.assert_array_equal(memory[start : start + 20_000], x + 1)
    assert not memory[:start].any()
    assert not memory[start + 20_000 :].any()


def test_rows() -> None:
    def centred(x):
        return x - x.mean(axis=1, keepdims=True)

    x = np.random.default_rng(1).random((7, 3001))
    assert is_streamed(check(centred, x, reduction=True))
    assert is_streamed(check(lambda x: x[1:-1, 1:-1] + x[2:, :-2], x))
    assert is_streamed(check(lambda x: x * 2, np.asfortranarray(x)))


def test_what_is_not_written_past_the_caches() -> None:
    x, y = np.random.default_rng(2).random((2, 20_000))

    def own(x, y):
        x += y
        return x

    assert not is_streamed(check(own, x, y))
    assert not is_streamed(check(lambda x, y: np.exp(x) * y, x, y, ulp=4))
    assert not is_streamed(check(lambda x, y: x[::2] + y[::2], x[:600], y[:600]))
    assert not is_streamed(check(lambda x: x.reshape(-1, 4) + np.arange(4), x))


def test_arrays_of_which_the_cache_holds_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "largest_cache", lambda: 48 * 1024)
    x, y = np.random.default_rng(4).random((2, 4096)).astype(np.float32)
    assert not is_streamed(check(chain, x[:2048], y[:2048]))
    assert not is_streamed(check(chain, x, y))
    assert not is_streamed(check(chain, x.repeat(2), y.repeat(2)))
    assert is_streamed(check(chain, x.repeat(3), y.repeat(3)))


def test_time_loops_count_their_arrays_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def steps(x, y):
        for _ in range(50):
            z = x * 2 + y
            y = z - x[0]
        return y

    x, y = np.random.default_rng(3).random((2, 4096))
    monkeypatch.setattr(pipeline, "largest_cache", lambda: 3 * x.nbytes + 1)
    assert not is_streamed(check(steps, x, y))


def test_the_largest_cache() -> None:
    assert 64 * 1024 <= largest_cache() <= 2**40


@pytest.mark.parametrize(
    ("text", "size"), [("32768K\n", 2**25), ("1M", 2**20), ("", 0), ("unknown", 0), ("0K", 0)]
)
def test_what_the_system_says(text: str, size: int, tmp_path: Path) -> None:
    (tmp_path / "size").write_text(text)
    assert streams._size(tmp_path / "size") == size
    assert streams._size(tmp_path / "absent") == 0
