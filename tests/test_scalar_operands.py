"""Every operator on every two kinds of single numbers, Python's and NumPy's."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from checking import function_from_source
from jitcore import script

NUMBERS = [
    *(True, 3, 2.5, 1j, np.True_, np.int8(3), np.uint64(3), np.int64(3)),
    *(np.float16(0.5), np.float32(0.5), np.float64(0.5), np.complex64(1 + 2j), np.complex128(2j)),
]
OPERATORS = "+ - * / // % ** == != < >= & << += *=".split()


def _outcome(function: Any, *args: Any) -> tuple[type, Any]:
    try:
        with np.errstate(all="ignore"):
            result = function(*args)
    except Exception as error:
        return type(error), str(error)
    return type(result), result


def _is_same(found: Any, expected: Any, is_power: bool) -> bool:
    if is_power and isinstance(expected, float | complex | np.inexact):
        near = 4 * float(np.finfo(np.asarray(expected).dtype).eps)
        return bool(np.isclose(found, expected, rtol=near, atol=0, equal_nan=True))
    return repr(found) == repr(expected)


@pytest.mark.parametrize("operator", OPERATORS)
def test_types_and_values(operator: str) -> None:
    in_place = operator in ("+=", "*=")
    body = f"x {operator} y\n    return x" if in_place else f"return x {operator} y"
    scripted = script(function_from_source(f"def f(x, y):\n    {body}\n"))
    for x, y in itertools.product(NUMBERS, repeat=2):
        kind, found = _outcome(scripted, x, y)
        expected_kind, expected = _outcome(scripted.__wrapped__, x, y)
        assert kind is expected_kind, (x, y)
        # NumPy's operator on two scalars has another power than its ufunc.
        assert _is_same(found, expected, operator == "**"), (x, y)
