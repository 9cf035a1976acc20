# mypy: allow-untyped-defs, allow-untyped-calls
"""Arrays of float16: each operation is computed in float32 and rounded, as NumPy does it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checking import check, function_from_source, outcome_of
from jitcore.codegen.engine import converts_float16
from jitcore.codegen.lowering import state
from jitcore.script import script

pytestmark = pytest.mark.skipif(not converts_float16(), reason="this processor has no float16")

EVERY = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
"""All numbers of float16, infinities and NaN among them."""

SOME = np.array(
    [0.0, -0.0, 1, -1, 0.5, 1 / 3, 1.001, 2.5, -7, 2049, 65504, -65504, np.inf, -np.inf, np.nan]
    + [6e-8, -6e-8, 6.1e-5, 6.098e-5, 1e-3, 255.9, 4096],
    np.float16,
)


def halves(*numbers: Any) -> np.ndarray[Any, np.dtype[np.float16]]:
    return np.array(numbers, np.float16)


def native(text: str, *args: Any, names: str = "xyz", **more: Any) -> Callable[..., Any]:
    """Check a function of this text, and that it has native code."""
    function = function_from_source(f"def f({', '.join(names[: len(args)])}):\n    {text}\n")
    compiled = check(function, *args, **more)
    assert compiled.kernels
    return function


def test_functions_of_every_number() -> None:
    for name in (
        "negative absolute sign rint floor ceil trunc sqrt square reciprocal degrees radians isnan "
        "isinf isfinite signbit spacing logical_not positive nan_to_num"
    ).split():
        native(f"return np.{name}(x)", EVERY)
    for name in ("exp", "log", "sin", "tanh", "arctan", "cbrt", "expm1", "log1p", "cosh"):
        native(f"return np.{name}(x)", EVERY, ulp=1)


def test_every_number_with_some() -> None:
    for name in (
        "add subtract multiply divide minimum maximum less greater_equal equal not_equal copysign "
        "nextafter floor_divide remainder fmod heaviside"
    ).split():
        native(f"return np.{name}(x, y[:, None]), np.{name}(y[:, None], x)", EVERY[::7], SOME)


@pytest.mark.parametrize("dtype", "?bBhHiIlLfd")
def test_casts_of_every_number(dtype: str) -> None:
    native(f"return x.astype('{dtype}')", EVERY)


@pytest.mark.parametrize("dtype", "?bBhHiIlLd")
def test_casts_to_float16(dtype: str) -> None:
    generator = np.random.default_rng(3)
    numbers = generator.integers(0, 1 << 63, 5000).astype(np.int64).view("u1")
    native("return x.astype(np.float16)", numbers.view(np.dtype(dtype)) if dtype != "?" else
           numbers[:999].astype(bool))  # fmt: skip


def test_doubles_are_rounded_once() -> None:
    """Between two numbers of float16, at their middle, and so near it that float32 shows it not."""
    low = np.abs(EVERY[np.isfinite(EVERY)]).astype(np.float64)
    middle = (low + np.nextafter(low.astype(np.float16), np.float16(np.inf)).astype(np.float64)) / 2
    near = [middle, np.nextafter(middle, 0), np.nextafter(middle, np.inf), middle * (1 - 1e-12)]
    native("return x.astype(np.float16), (-x).astype(np.float16)", np.concatenate(near))


def test_each_operation_is_rounded() -> None:
    generator = np.random.default_rng(0)
    x, y, z = generator.normal(0, 9, (3, 4000)).astype(np.float16)
    function = native("return x * y + z, x / y - z * x, np.sqrt(x * x + y * y) * z", x, y, z)
    in_single = [one.astype(np.float16) for one in function(*(v.astype("f4") for v in (x, y, z)))]
    assert all((one != two).any() for one, two in zip(in_single, function(x, y, z), strict=True))


def test_numbers_beside_arrays() -> None:
    x = np.array([[1.5, -2, 3], [0.1, 7, 1e-4]], np.float16)
    native("return x + 0.1, x * 3, 2 - x, x / 7, x ** 2, x ** 0.5, x // 2, x % 0.3, -x > 1", abs(x))
    native(
        "return x * y, x + y.astype(np.float64), x - np.float16(y[0]) * x",
        x,
        np.full(3, 2, np.float32),
    )
    native("return x * y, y + x", x, np.arange(3, dtype=np.int8))
    native("return x * y, y + x", x, np.arange(3, dtype=np.int16))
    native("return x * y + 70000.0, x + y", x, np.float16(1.1))
    native("x += y\n    x[0] *= 0.3\n    return x.sum()", x, np.float64(0.1))


def test_scalars_are_numpys() -> None:
    native("return x[0] * y[1] + 0.1, float(x[1]), int(y[2]), x[0] < y[0], np.exp(x[1]) / 3",
           SOME[3:], SOME[5:], ulp=1)  # fmt: skip
    native(
        "total = np.float16(0)\n    for k in range(len(x)):\n        total += x[k] * x[k]\n"
        "    return total, total * 2.5",
        np.linspace(0, 1, 3000).astype(np.float16),
    )


def test_sums_are_rounded_where_numpy_rounds_them() -> None:
    """Sums of rows in float32, down columns after each addition; running sums after each."""
    ones = np.ones((5000, 3), np.float16)
    native("return x.sum(), x.sum(axis=0), x.sum(axis=1), np.cumsum(x, axis=0)", ones)
    native("return np.cumsum(x), np.cumprod(x), x.T.sum(axis=1)", halves([1.001, 3], [7, 9]))
    uneven = np.random.default_rng(1).normal(0, 1, (40, 33)).astype(np.float16)
    native("return x.sum(axis=0), x.prod(axis=0), np.cumsum(x, axis=0), np.cumsum(x[0])", uneven)
    large = halves(60000, 60000, 1e-3, 1e-4, -5e4)
    native("return np.prod(x), x.sum(), x[::-1].prod(), x.mean(), np.nansum(x)", large)


@pytest.mark.parametrize("method", ["sum", "prod", "max"])
@pytest.mark.parametrize("number", ["70000.0", "-70000", "65504"])
def test_what_a_reduction_begins_with_may_overflow(method: str, number: str) -> None:
    """Neither compiling nor running warns, where NumPy does."""
    ones, text = np.ones(7, np.float16), f"return x.{method}(initial={number})"
    function = native(text, ones)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        script(function)(ones)


@pytest.mark.parametrize("shape", [(7,), (300,), (6, 129), (129, 6), (3, 4, 50), (70000,)])
def test_means_and_variances(shape: tuple[int, ...]) -> None:
    """A mean is taken in float32; all steps of a variance are rounded, and may overflow."""
    x = np.random.default_rng(2).normal(3, 40, shape).astype(np.float16)
    native("return x.mean(), x.var(), x.std(ddof=1)", x, reduction=True)
    native("return x.mean(axis=0), x.var(axis=0, keepdims=True), np.std(x, axis=0)", x,
           reduction=True)  # fmt: skip
    native("return x.mean(axis=-1), x.var(axis=-1, ddof=1), np.nanvar(x), np.nanmean(x)", x,
           reduction=True)  # fmt: skip
    assert np.isinf(x.var()) == (x.size > 100)


def test_extrema_and_places() -> None:
    x = np.random.default_rng(4).normal(0, 1, (50, 70)).astype(np.float16)
    text = (
        "return x.min(), x.max(axis=0), x.min(axis=1), x.argmax(), x.argmin(axis=0), "
        "x.argmax(axis=1), np.maximum.accumulate(x, axis=1), np.ptp(x)"
    )
    native(text, x)
    x[3, 4] = np.nan
    native(text, x)
    native("return x.min(axis=0), x.max(), x.argmin(), np.abs(x).max(axis=1)", -x[:3])


@pytest.mark.parametrize("terms", [1, 3, 17, 300])
def test_products_are_added_up_in_float32(terms: int) -> None:
    """Small whole numbers, whose sums float32 holds: the one rounding is all that is left."""
    generator = np.random.default_rng(terms)
    x, y = generator.integers(-40, 40, (2, 24, terms)).astype(np.float16)
    native("return x @ y.T, x[0] @ y[0], x @ y[1], np.dot(x[:3], y.T)", x, y)
    native("return np.matmul(x.reshape(4, 6, -1), y.T), np.einsum('ij,kj->ik', x, y)", x, y)
    native("return x @ y.T, x[0] @ y[1]", 9 * x, 9 * y)


def test_rows_in_one_kernel() -> None:
    x = np.random.default_rng(5).normal(0, 3, (30, 64)).astype(np.float16)
    softmax = (
        "e = np.exp(x - x.max(axis=1, keepdims=True))\n    return e / e.sum(axis=1, keepdims=True)"
    )
    native(softmax, x, ulp=2)
    native("m = x.mean(axis=1, keepdims=True)\n    return (x - m) / np.sqrt(((x - m) ** 2).mean("
           "axis=1, keepdims=True) + 1e-3)", x, ulp=2)  # fmt: skip


def test_many_elements_on_threads() -> None:
    x, y = np.random.default_rng(6).normal(0, 1, (2, 300_000)).astype(np.float16)
    native("return x * y + x, np.where(x > y, x, y * 2), (x * y).astype(np.float32)", x, y)
    native("return (x * y).max(), np.argmin(x - y), np.any(x > 4), (x * y).sum()", x, y,
           reduction=True)  # fmt: skip


def test_conversions_are_instructions() -> None:
    """Where a library would have to convert, its function would be called for each element."""
    compiled = script(lambda x: (x * x + 1).astype(np.float64).sum() + np.exp(x).astype(np.float16))
    compiled(EVERY)
    assembly = "\n".join(kernel.assembly for kernel in compiled.kernels)
    assert compiled.kernels
    assert "hf2" not in assembly and "_f2h" not in assembly and "_h2f" not in assembly


def test_processors_without_float16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "converts_float16", lambda: False)

    def function(x, y):
        return (x * y + x).sum() * 2, x.astype(np.float32) * 3 + 1, y.astype(np.float64) * 3 - 2

    compiled = script(function)
    args = (SOME, np.linspace(0, 1, len(SOME)))
    assert outcome_of(compiled, args).error is None
    check(function, *args, script=lambda _: compiled)
