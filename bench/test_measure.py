"""Wrong results are found and left out, and the tables say who is faster."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from bench import bounds
from bench.measure import Row, Settings, differences, measure_row
from bench.peers import PEERS, Peer
from bench.report import row_table, summary
from bench.workloads import WORKLOADS, Arguments, Workload

CHAIN, BLACK_SCHOLES, MANDELBROT = (
    next(workload for workload in WORKLOADS if workload.name == name)
    for name in ("pointwise_chain", "black_scholes", "mandelbrot")
)

LOOPS: tuple[tuple[Any, int], ...] = ((bounds.triad, 3), (bounds.scale, 2), (bounds.read, 3))

QUICK = Settings(threads=1, rounds=2, sample_seconds=1e-5, pause_seconds=0.0, compile_seconds=1)


def result_of(workload: Workload) -> Any:
    return workload.function(*workload.arguments(64, "float32"))


def test_equal_results_do_not_differ() -> None:
    assert differences(CHAIN, result_of(CHAIN), result_of(CHAIN), exact_types=True) == ""


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda found: found[:-1], "shape (63,) instead of (64,)"),
        (lambda found: found.astype(np.float64), "dtype float64 instead of float32"),
        (lambda found: np.where(np.arange(64) == 3, np.nan, found), "1.56% of the results differ"),
        (lambda found: found + np.float32(0.01), "100.00% of the results differ"),
        (lambda found: (found, found), "2 results instead of 1"),
    ],
)
def test_wrong_results_differ(spoil: Any, text: str) -> None:
    found = spoil(result_of(CHAIN))
    exact = "dtype" in text
    assert differences(CHAIN, found, result_of(CHAIN), exact_types=exact) == text


def test_the_second_result_is_checked_too() -> None:
    call, put = result_of(BLACK_SCHOLES)
    wrong = differences(BLACK_SCHOLES, (call, put + 1), (call, put), exact_types=True)
    assert wrong == "100.00% of the results differ"


def test_few_branches_may_fall_otherwise() -> None:
    expected = np.zeros(10_000, np.int32)
    found = expected.copy()
    found[:10] = 1
    assert differences(MANDELBROT, found, expected, exact_types=True) == ""
    found[:100] = 1
    assert differences(MANDELBROT, found, expected, exact_types=True) != ""


def peer_that(name: str, call: Any) -> Peer:
    def prepare(workload: Workload, arguments: Arguments) -> Any:
        return call

    return Peer(name, "numpy", prepare)


def test_peers_that_fail_are_left_out_with_the_reason() -> None:
    numpy = next(peer for peer in PEERS if peer.name == "NumPy")
    peers = [
        numpy,
        peer_that("no form", None),
        peer_that("wrong", lambda: result_of(CHAIN) + 1),
        peer_that("broken", lambda: 1 / 0),
        peer_that("slow", lambda: time.sleep(5)),
    ]
    row = measure_row(CHAIN, ("64", 64), "float32", peers, QUICK)
    assert set(row.seconds) == {"NumPy"}
    assert row.wrong == {
        "wrong": "100.00% of the results differ",
        "broken": "ZeroDivisionError: division by zero",
        "slow": "TimeoutError: no first result after 1 s",
    }
    assert row.bound_seconds > 0


def test_rows_that_are_lost_come_first() -> None:
    times = {"jitcore": 1.0, "jitcore contract": 0.5}
    won = Row("won", "64", "float32", seconds={**times, "NumPy": 4.0, "JAX": 3.0})
    lost = Row("lost", "64", "float32", seconds={**times, "Numba": 0.75})
    assert (won.best_peer, won.ratio(), won.ratio("jitcore contract")) == ("JAX", 3.0, 6.0)
    _, lines = row_table([won, lost])
    assert [line[0] for line in lines] == ["lost", "won"]
    assert summary([won, lost]).startswith("1 of 2 rows")
    assert "1.50 times as fast in the geometric mean, 0.75 times in the worst" in summary(
        [won, lost]
    )


def test_bounds_write_what_rows_write(monkeypatch: pytest.MonkeyPatch) -> None:
    def rate(function: Any, work_bytes: int, threads: int) -> float:
        return {"read": 1e9, "triad": 2e9, "scale": 4e9}[function.__name__] * threads

    monkeypatch.setattr(bounds, "_rate", rate)
    parts = {0.0: 1e9, 0.01: 1e9, 0.25: 2e9, 0.4: 2e9, 0.45: 4e9, 0.9: 4e9}
    for written, expected in parts.items():
        assert bounds.bandwidth(1000, written, 3) == 3 * expected
    assert [loop(*(np.ones(2) for _ in range(count)), 2) for loop, count in LOOPS] == [
        2.5,
        1.5,
        2.0,
    ]


def test_what_is_read_again_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.measure.bandwidth", lambda there, written, threads: 1.0)
    monkeypatch.setattr("bench.measure.arithmetic_rate", lambda dtype, threads: 1e30)
    peers = [peer for peer in PEERS if peer.name == "NumPy"]
    columns = next(each for each in WORKLOADS if each.name == "normalized_columns")
    row = measure_row(columns, ("64", 64), "float32", peers, QUICK)
    assert (row.bound_seconds, row.bound_kind) == (3 * 64 * 4, "memory")
