# mypy: allow-untyped-defs, allow-untyped-calls
"""Expressions of selected elements that are computed at all elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checking import check
from jitcore import script


def escape_time(z, c, n):
    for i in range(5):
        inside = np.less(abs(z), 2.0)
        n[inside] = i
        z[inside] = z[inside] ** 2 + c[inside]


def statistics(x, y, low, high):
    chosen = np.logical_and(low <= x, x < high)
    values = y[chosen]
    return values.mean(), values.sum(), (y[chosen] * 2 + 1).sum(), x[x > 0].sum()


def spread(x, y, low, high):
    chosen = x[x > low]
    return chosen.mean(), chosen.std(), chosen.max(), (y[x > low] * 2).min()


def variances(x, y, low, high):
    values = np.abs(y[x < high] - x[x < high])
    return values.var(ddof=1), values.std(), values.mean(), values.sum()


def flags(x, y, low, high):
    values = y[x > low]
    return (values > high).any(), (values > low).all(), np.count_nonzero(values), values.any()


def updated(x, y, low, high):
    mask = x > low
    x[mask] = x[mask] * high - y[mask]
    x[mask] += y[mask]
    return x


def counted(x, y, low, high):
    return (x[x > low] > high).sum(), x[x > low].astype(np.int32).sum()


def overlapping(x, y, low, high):
    view = x[1:]
    mask = view > low
    view[mask] = x[:-1][mask] + view[mask]
    return x


ALL = [statistics, variances, flags, updated, counted, overlapping]


@pytest.mark.parametrize("function", ALL)
@pytest.mark.parametrize("shape", [(40,), (6, 9), (1,), (0,), (0, 3)])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
def test_selected_elements(
    function: Callable[..., Any], shape: tuple[int, ...], dtype: str
) -> None:
    x, y = (np.random.default_rng(1).normal(size=(2, *shape)) * 10).astype(dtype)
    check(function, x, y, -3, 5, reduction=True)
    check(function, x[::-1], y, 100, 200, reduction=True)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int32", "uint8", "int64"])
def test_extrema_and_spread(dtype: str) -> None:
    for length in (1, 2, 77, 300, 4099):
        x, y = (np.random.default_rng(length).normal(size=(2, length)) * 10).astype(dtype)
        for low in (-100, 0, 8):
            if (x > low).any():
                check(spread, x, y, low, 0, reduction=True)
                check(spread, y[::-1], x[::-1], -100, 0, reduction=True)
    with pytest.raises(ValueError, match="zero-size array to reduction operation maximum"):
        script(spread)(x, y, 1000, 0)


def test_only_those_that_are_selected_count() -> None:
    x = np.random.default_rng(5).normal(size=3000)
    x[::7], x[1::7], x[2::7] = np.nan, np.inf, -np.inf
    for dtype in (np.float64, np.float32):
        chosen = x.astype(dtype)
        check(finite, chosen, reduction=True)
        check(finite, np.where(np.isfinite(chosen), chosen, 1), reduction=True)
        check(positive, chosen, reduction=True)


def finite(x):
    chosen = x[np.isfinite(x)]
    return chosen.mean(), chosen.std(), chosen.max(), chosen.min(), chosen.var(ddof=2.5)


def positive(x):
    chosen = x[~(x <= 0)]
    return chosen.max(), chosen.min(), chosen.mean()


def test_means_far_from_zero() -> None:
    """A variance is that of deviations, however large the mean is."""
    random = np.random.default_rng(6)
    for dtype, far in ((np.float64, 1e9), (np.float32, 1e4)):
        x: Any = (random.normal(size=20000) + far).astype(dtype)
        expected = np.var(x[x > far].astype(np.longdouble))
        errors = [abs(one(x, far) - expected) for one in (script(variance_above), variance_above)]
        assert errors[0] <= 2 * errors[1] + 1e-7 * float(expected)


def variance_above(x, low):
    return x[x > low].var()


def test_errors_come_after_what_was_written() -> None:
    def largest(x, y):
        y += 1
        top = x[x > 5].max()
        y += 10
        return top

    for x in (np.arange(10.0), np.arange(300.0) - 400, np.zeros(300)):
        check(largest, x, np.zeros(3))


def test_complex_updates() -> None:
    z, c = np.random.default_rng(2).normal(size=(2, 2, 7, 5))
    compiled = check(escape_time, z[0] + 1j * z[1], c[0] + 1j * c[1], np.zeros((7, 5), int))
    (kernel,) = compiled.kernels
    assert "place" not in kernel.source


@pytest.mark.parametrize("function", [updated, spread, variances, flags, escape_time])
def test_nothing_is_compressed(function: Callable[..., Any]) -> None:
    compiled = script(function)
    x = np.ones((5, 60))
    arguments: tuple[Any, ...] = (x, x.copy(), 0.0, 1.0)
    if function is escape_time:
        arguments = (x + 0j, x + 1j, np.zeros((5, 60), int))
    graph = compiled.graph_for(*arguments)
    assert not graph.find_all_nodes("np::compress")


# Where the selected elements must be taken out -------------------------------------------


def written_between(x, y):
    mask = x > 0
    taken = x[mask]
    x += 1
    x[mask] = taken * 2
    return x


def mask_changes(x, y):
    mask = x > 0
    taken = y[mask] + 1
    mask[0] = not mask[0]
    try:
        x[mask] = taken
    except ValueError:
        return x, False
    return x, True


def two_masks(x, y):
    return (x[x > 0].sum() + y[y > 0].sum(), x[y > 0].sum())


def other_operand(x, y):
    mask = x > 0
    x[mask] = x[mask] * np.arange(float(mask.sum()))
    return x


def dear(x, y):
    mask = x > 0
    x[mask] = np.exp(x[mask])
    return x


def needed_elsewhere(x, y):
    taken = x[x > 0]
    return taken, taken.sum(), taken[:2]


def part_of_the_axes(x, y):
    mask = x[:, 0] > 0
    x[mask] = x[mask] * 2
    return x, x[mask].sum()


@pytest.mark.parametrize(
    "function", [written_between, mask_changes, two_masks, other_operand, dear, needed_elsewhere]
)
def test_what_stays(function: Callable[..., Any]) -> None:
    x, y = np.random.default_rng(3).normal(size=(2, 30))
    check(function, x, y, reduction=True)


def test_masks_of_some_axes() -> None:
    x = np.random.default_rng(4).normal(size=(12, 5))
    check(part_of_the_axes, x, x, reduction=True)


def test_masks_of_another_length_are_errors() -> None:
    def selected(x, mask):
        return x[mask].sum()

    for length in (3, 5):
        check(selected, np.ones(4), np.ones(length, bool))


def reversed_into_itself(x, mask):
    x[mask] = x[::-1][: mask.sum()]


def mask_that_changes(x, mask):
    mask[mask[::-1]] = False
    mask[mask] = True
    x[mask] += x[0]


def shifted(x, mask):
    x[1:][mask[1:]] = x[:-1][: mask[1:].sum()]


@pytest.mark.parametrize("function", [reversed_into_itself, mask_that_changes, shifted])
def test_numpy_makes_no_copy_of_a_view_of_what_it_writes(function: Callable[..., Any]) -> None:
    x = np.arange(12.0)
    for mask in (x >= 0, x > 5, x % 3 > 0):
        check(function, x, mask)
        check(function, x.astype(np.uint16), mask)
