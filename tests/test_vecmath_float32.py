"""Functions of one float32 over the whole line, against float64.

Every 1021st number takes seconds, every number there is (``make exhaustive``) an hour.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from scipy import special
from test_vecmath import ULP_LIMIT, run

STEP = int(os.environ.get("FLOAT32_STEP", "1021"))
PART = 2**24
MAX = float(np.finfo(np.float32).max)
BEYOND = MAX + 2.0**103
"""What float32 rounds to infinity."""


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "arccos": np.arccos,
    "arccosh": np.arccosh,
    "arcsin": np.arcsin,
    "arcsinh": np.arcsinh,
    "arctan": np.arctan,
    "arctanh": np.arctanh,
    "cbrt": np.cbrt,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": special.erf,
    "erfc": special.erfc,
    "erfcx": special.erfcx,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "gamma": special.gamma,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "log_ndtr": special.log_ndtr,
    "logit": special.logit,
    "ndtr": special.ndtr,
    "sigmoid": special.expit,
    "sin": np.sin,
    "sinh": np.sinh,
    "tan": np.tan,
    "tanh": np.tanh,
}


def points() -> Iterator[np.ndarray]:
    """The numbers of all signs and exponents, some at a time."""
    for first in range(0, 2**32, PART * STEP):
        numbers = np.arange(first, min(first + PART * STEP, 2**32), STEP, dtype=np.uint64)
        yield numbers.astype(np.uint32).view(np.float32)


def errors(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Errors in units of the last place; infinite where one of the two is no finite number."""
    info = np.finfo(np.float32)
    finite = np.abs(exact) < BEYOND
    _, exponent = np.frexp(np.where(finite, exact, 1.0))
    unit = np.ldexp(1.0, np.clip(exponent, info.minexp + 1, info.maxexp) - info.nmant - 1)
    wanted = np.where(finite, exact, np.copysign(np.inf, exact))
    wanted[np.isnan(exact)] = np.nan
    found: np.ndarray = np.abs(got.astype(np.float64) - wanted) / unit
    same = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
    found[same] = 0
    found[np.isnan(found)] = np.inf
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_are_below_four_ulp_everywhere(name: str) -> None:
    for x in points():
        got = run(name, "float32", x)
        with np.errstate(all="ignore"):
            found = errors(got, FUNCTIONS[name](x.astype(np.float64)))
        worst = int(np.argmax(found))
        assert found[worst] < ULP_LIMIT, f"{name}({x[worst]!r}) gives {got[worst]!r}"
