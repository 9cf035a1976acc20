# mypy: allow-untyped-defs, allow-untyped-calls
"""Memory of large results and temporaries: kept for the next call, counted, given back."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from jitcore import explain, script
from jitcore.codegen.runtime.functions import memory_in_use, most_memory_in_use

MEGABYTE = 2**20
LARGE = 4 * MEGABYTE // 8


def plus_one(x):
    return x + 1


def product(x, y):
    return (2.0 * x) @ y


def address(x: Any) -> int:
    place: int = x.__array_interface__["data"][0]
    return place


def test_dropped_results_are_used_again() -> None:
    function, x = script(plus_one), np.zeros(LARGE)
    function(x)
    places = {address(function(x)) for _ in range(10)}
    assert len(places) == 1
    kept = [function(x) for _ in range(10)]
    assert len({address(one) for one in kept}) == 10
    for one in kept:
        np.testing.assert_equal(one, 1.0)


def test_large_results_begin_far_from_the_border_of_a_page() -> None:
    """Where others are: loads wait for stores to places a little further in a page."""
    function = script(plus_one)
    for size in (16 * 1024, 100_001, LARGE, 3 * LARGE + 5):
        kept = [function(np.zeros(size)) for _ in range(7)]
        assert {address(one) % 4096 for one in kept} <= {1024, 2048, 3072}
        for one in kept:
            np.testing.assert_equal(one, 1.0)


def test_fresh_blocks_take_turns() -> None:
    kept = [script(plus_one)(np.zeros(LARGE + place)) for place in range(7)]
    assert len({address(one) % 4096 for one in kept}) == 3


def test_results_are_arrays_like_others() -> None:
    result = script(plus_one)(np.arange(float(LARGE)))
    expected = plus_one(np.arange(float(LARGE)))
    assert result.flags.owndata and result.flags.writeable
    for size in (LARGE + 1000, 10, 0, 3 * LARGE):
        result.resize(size, refcheck=False)
        expected.resize(size, refcheck=False)
        np.testing.assert_equal(result, expected)
    np.testing.assert_equal(np.zeros_like(result), 0.0)
    view = script(plus_one)(np.zeros((2, LARGE)))[1, ::2]
    np.testing.assert_equal(view, 1.0)


def test_memory_is_counted_and_given_back() -> None:
    function, x = script(plus_one), np.zeros(LARGE)
    function(x)
    gc.collect()
    before = memory_in_use()
    most_memory_in_use()
    results = [function(x) for _ in range(5)]
    taken = memory_in_use() - before
    assert 5 * x.nbytes <= taken <= 10 * x.nbytes
    del results
    assert memory_in_use() == before
    assert most_memory_in_use() - before == taken
    assert most_memory_in_use() == before


@pytest.mark.parametrize(
    ("function", "shapes", "megabytes"),
    [(plus_one, [(LARGE,)], 4), (product, [(700, 700), (700,)], 3.74), (plus_one, [(10,)], 0)],
)
def test_explain_says_what_a_call_takes_at_most(
    function: Any, shapes: Any, megabytes: float
) -> None:
    args = [np.ones(shape) for shape in shapes]
    compiled = script(function)
    compiled(*args)
    report = explain(compiled)(*args)
    # A block that was kept may be larger than what is asked for.
    assert megabytes <= report.peak_bytes / MEGABYTE <= 4 * megabytes
    assert ("of results and large temporaries at once" in str(report)) == (megabytes > 0)


def test_threads_never_share_a_block() -> None:
    function = script(plus_one)

    def work(number: int) -> bool:
        x = np.full(LARGE // 4, float(number))
        results = [function(x) for _ in range(20)]
        return all(bool((one == number + 1).all()) for one in results[::3])

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(12)))
