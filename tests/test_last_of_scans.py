# mypy: allow-untyped-defs, allow-untyped-calls
"""The last elements of scans are reductions, with the results of the scans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pass_checking import check_pass, check_unchanged, examples

from checking import Tolerance, check, check_within
from jitcore import fusion_strategy, script
from jitcore.ir.ops import SCANS
from jitcore.ir.passes.last_of_scans import reduce_to_last


def last_sum(x):
    return np.cumsum(x, axis=1)[:, -1] * 2


def last_product(x):
    return 1 - np.cumprod(x, axis=-1)[..., -1]


def last_of_columns(x):
    return np.cumsum(x * x, axis=0)[-1] + x[0]


def highest(x):
    return np.maximum.accumulate(x, axis=1)[:, -1] - np.minimum.accumulate(x, axis=1)[:, -1]


def payoff(x):
    steps = np.cumsum(x * 0.1 + 0.02, axis=1)
    return np.maximum(np.exp(steps)[:, -1] - 1, 0).mean()


def total(x):
    return np.cumsum(x)[-1] * np.cumprod(x)[-1]


FUNCTIONS = [last_sum, last_product, last_of_columns, highest, payoff, total]


def of_more(x):
    sums = np.cumsum(x, axis=1)
    return sums[:, -1] + sums[:, 0]


def of_another_axis(x):
    return np.cumsum(x, axis=0)[:, -1] + 1


def a_result(x):
    return np.cumsum(x, axis=1)[:, -1]


def written_meanwhile(x):
    sums = np.cumsum(x, axis=1)
    x[:] = 1
    return sums[:, -1] + 1


def written_itself(x):
    sums = np.cumsum(x, axis=1)
    sums[:, -1] += 1
    return sums[:, -1] * 2


OTHERS = [of_more, of_another_axis, a_result, written_meanwhile, written_itself]


def has_scans(function: Callable[..., Any]) -> bool:
    x = np.ones((20, 30))
    compiled = script(function)
    compiled(x.copy())
    text = str(compiled.graph_for(x))
    return any(kind in text for kind in SCANS)


def check_shapes(function: Callable[..., Any], dtype: str) -> None:
    random = np.random.default_rng(3)
    with np.errstate(all="ignore"):
        for shape in ((5, 40), (1, 1), (7, 3)):
            x = random.uniform(0, 2, shape).astype(dtype)
            check_within(function, (x,), script, Tolerance(scale=9.0 * x.size))
            check_within(function, (x.T[::-1],), script, Tolerance(scale=9.0 * x.size))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "float16", "bool"])
@pytest.mark.parametrize("function", [*FUNCTIONS, *OTHERS])
def test_the_results_are_those_of_the_scans(function: Callable[..., Any], dtype: str) -> None:
    with fusion_strategy([("DYNAMIC", 9)]):
        check_shapes(function, dtype)


@pytest.mark.parametrize("function", [*FUNCTIONS, *OTHERS])
def test_known_extents(function: Callable[..., Any]) -> None:
    with fusion_strategy([("STATIC", 9)]):
        check_shapes(function, "float64")


@pytest.mark.parametrize("kind", ["STATIC", "DYNAMIC"])
@pytest.mark.parametrize("function", [last_sum, last_of_columns, highest, total])
def test_special_values(function: Callable[..., Any], kind: str) -> None:
    x = np.array([[-0.0, -0.0, -0.0], [0.0, -0.0, 0.0], [1.0, -1.0, -0.0], [2.0, np.nan, 1.0]])
    with fusion_strategy([(kind, 9)]), np.errstate(all="ignore"):
        for one in (x, x[:1], x[:2], x[1:3], x[2:], np.full((3, 20), -0.0), x - np.inf):
            check(function, one)
            check(function, one.astype(np.float32))


def test_the_sign_of_nothing() -> None:
    compiled = script(last_sum)
    x = np.full((4, 30), -0.0)
    x[1, 7] = 0.0
    x[2, :2] = 3.0, -3.0
    np.testing.assert_array_equal(np.signbit(compiled(x)), [True, False, False, True])


@pytest.mark.parametrize("kind", ["STATIC", "DYNAMIC"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_nothing_has_no_last_element(function: Callable[..., Any], kind: str) -> None:
    with fusion_strategy([(kind, 9)]):
        compiled = script(function)
        compiled(np.ones((2, 3)))
        for shape in ((3, 0), (0, 3), (0, 0)):
            x = np.empty(shape)
            try:
                with np.errstate(all="ignore"):
                    expected = function(x)
            except (IndexError, ValueError) as error:
                with pytest.raises(type(error)) as raised:
                    compiled(x)
                assert str(raised.value) == str(error)
            else:
                if expected.size:
                    continue
                np.testing.assert_array_equal(compiled(x), expected, strict=True)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_there_is_no_scan(function: Callable[..., Any]) -> None:
    assert not has_scans(function)


@pytest.mark.parametrize("function", OTHERS)
def test_scans_that_are_read_otherwise_stay(function: Callable[..., Any]) -> None:
    assert has_scans(function)


def test_the_example_of_the_pass() -> None:
    check_pass(reduce_to_last, *examples(reduce_to_last))


def test_results_stay_views() -> None:
    check_unchanged(
        reduce_to_last,
        """
        graph(%x : Float64[n, 9]):
          %0 : Float64[n, 9] = np::cumsum[axis=1](%x)
          %1 : Float64[n] = np::view[index=":, -1"](%0)
          return (%1)
        """,
    )
