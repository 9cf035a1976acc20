"""Exponentials of very small results: right to the last bit, and without an underflow.

Processors of Intel take 150 cycles for a vector with an operation that underflows.
"""

from __future__ import annotations

import ctypes
import platform
import sys

import mpmath
import numpy as np
import pytest
from test_vecmath import run

UNDERFLOW = 0x10
"""``FE_UNDERFLOW`` of C on x86-64."""

FLUSHED = {
    "exp": {"float32": -103.98, "float64": -745.14},
    "exp2": {"float32": -150.0, "float64": -1075.0},
    "erfc": {"float32": 10.06, "float64": 27.23},
}
"""From here on results are zero."""

SUBNORMAL = {
    "exp": {"float32": -87.34, "float64": -708.4},
    "exp2": {"float32": -126.0, "float64": -1022.0},
    "erfc": {"float32": 9.2, "float64": 26.55},
}
"""And from here on they are subnormal."""


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="asks for flags of x86-64"
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FLUSHED)
def test_nothing_underflows(name: str, dtype: str) -> None:
    flags = ctypes.CDLL(None)
    first, last = SUBNORMAL[name][dtype] * 0.99, FLUSHED[name][dtype] * 1.01
    x = np.append(np.linspace(first, last, 1000), np.sign(last) * np.array([200.0, 1e9, np.inf]))
    run(name, dtype, x)
    flags.feclearexcept(UNDERFLOW)
    run(name, dtype, x.astype(dtype))
    assert flags.fetestexcept(UNDERFLOW) == 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["exp", "exp2"])
def test_subnormal_results_are_rounded_once(name: str, dtype: str) -> None:
    """The value has an error of its own before that, by one digit at most."""
    x = np.linspace(SUBNORMAL[name][dtype], FLUSHED[name][dtype] * 1.001, 1001).astype(dtype)
    base = mpmath.e if name == "exp" else mpmath.mpf(2)
    digit = float(np.finfo(dtype).eps)
    least = mpmath.mpf(float(np.finfo(dtype).smallest_subnormal))
    with mpmath.workprec(200):
        exact = [base ** mpmath.mpf(float(one)) / least for one in x]
        found = [mpmath.mpf(float(one)) / least for one in run(name, dtype, x)]
        assert all(abs(a - b) < 0.5 + digit * b for a, b in zip(found, exact, strict=True))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["exp", "exp2"])
def test_both_ends(name: str, dtype: str) -> None:
    """Where results become zero and infinity, and NaN with all signs."""
    function = np.exp if name == "exp" else np.exp2
    kind = np.dtype(dtype).type
    limits = np.finfo(dtype)
    ends = [FLUSHED[name][dtype], SUBNORMAL[name][dtype], float(limits.maxexp)]
    if name == "exp":
        ends[2] = float(np.log(np.longdouble(limits.max)))
    near = [kind(end) for end in ends]
    for step in (kind(-np.inf), kind(np.inf)):
        for end in ends:
            one = kind(end)
            for _ in range(4):
                one = np.nextafter(one, step)
                near.append(one)
    far = [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, float(limits.max), float(limits.min)]
    x = np.concatenate([np.array(near), np.array(far, dtype)]).astype(dtype)
    with np.errstate(all="ignore"):
        expected = function(x)
    found, least = run(name, dtype, x), float(limits.smallest_subnormal)
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
    np.testing.assert_allclose(found, expected, rtol=4 * float(limits.eps), atol=1.1 * least)
