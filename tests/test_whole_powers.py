# mypy: allow-untyped-defs, allow-untyped-calls
"""Powers with small whole exponents are products, close to the exact powers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from pass_checking import apply, examples

from checking import check
from jitcore import script
from jitcore.ir.parser import parse_graph
from jitcore.ir.passes.whole_powers import multiply_whole_powers


def cubes(x):
    return x**3, np.power(x, 3.0)


def fourth(x):
    return x**4, np.power(x, 4)


def fifth(x):
    return x**5.0, np.power(x, 5)


def in_place(x):
    x **= 3
    x[1:] **= 4
    return x


POWERS = [cubes, fourth, fifth]


@pytest.mark.parametrize("function", [*POWERS, in_place])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "complex128"])
def test_numpy_gives_nearly_the_same(function, dtype):
    x = (np.random.default_rng(1).normal(size=(20, 3)) * 2).astype(dtype)
    check(function, x, ulp=0 if dtype == "float16" else 20 if function is in_place else 5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("exponent", [3, 4, 5])
def test_units_in_the_last_place(exponent, dtype):
    x = np.random.default_rng(exponent).normal(size=4000).astype(dtype)
    for power in script(POWERS[exponent - 3])(x):
        exact = [Fraction(float(one)) ** exponent for one in x]
        pairs = zip(power, exact, strict=True)
        errors = [abs(Fraction(float(one)) - two) / Fraction(float(np.spacing(abs(one))))
                  for one, two in pairs]  # fmt: skip
        assert max(errors) < 4


def test_all_powers_of_float16_are_numpy_s():
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        for function in POWERS:
            check(function, x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_values(dtype):
    info = np.finfo(dtype)
    found = [0.0, -0.0, np.inf, -np.inf, np.nan, info.max, -info.max, info.tiny, 1.0, -1.0]
    x = np.array([*found, info.smallest_subnormal], dtype)
    with np.errstate(all="ignore"):
        for function in POWERS:
            check(function, x)


def other_powers(x):
    return x**6, x**-3, np.power(x, 2.5)


def test_other_powers_are_numpy_s():
    x = np.abs(np.random.default_rng(2).normal(size=300))
    check(other_powers, x)


def test_the_pass_does_what_its_docstring_says():
    before, after = examples(multiply_whole_powers)
    graph, changed = apply(multiply_whole_powers, before)
    assert changed and graph.strip() == str(parse_graph(after)).strip()
    assert not apply(multiply_whole_powers, after)[1]
