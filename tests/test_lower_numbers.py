"""Lowering of Python's numbers, the ``math`` module and control flow, against Python itself."""

# The functions under test are plain NumPy, as users write them.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import gc
import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from lowering import check, compile_graph, outcome, typed

rng = np.random.default_rng(3)
V = rng.standard_normal(40)
M = rng.standard_normal((6, 5))


def operators(a, b):
    return a // b, a % b, a - b, a * b, a / b, a + b


def comparisons(a, b):
    return a < b, a <= b, a == b, a != b, a > b, a >= b


def bits(a):
    return a**3, a << 2, a >> 1, ~a, a & 3, a | 8, a ^ 5, -a, abs(a), min(a, 4), max(a, 4), +a


def conversions(a):
    return int(a), float(a), bool(a), round(a), not a


INTS = [(7, 2), (-7, 2), (7, -2), (-7, -2), (0, 3), (6, 3), (2**40, 2**20)]
FLOATS = [(7.5, 2.0), (-7.5, 2.0), (7.5, -2.5), (-0.0, 3.0), (1e300, 1e-5), (math.inf, 2.0)]


@pytest.mark.parametrize(("a", "b"), [*INTS, *FLOATS, (7, 2.5), (True, 2), (1 + 2j, 3 - 1j)])
def test_operators(a: Any, b: Any) -> None:
    if isinstance(a, complex):
        check(lambda a, b: (a + b, a * b, a / b, a - b, a == b, abs(a)), a, b)
        return
    check(operators, a, b)
    check(comparisons, a, b)


def floor_division(a, b):
    return a // b


def modulo(a, b):
    return a % b


def true_division(a, b):
    return a / b


@pytest.mark.parametrize("f", [floor_division, modulo, true_division])
@pytest.mark.parametrize(("a", "b"), [(1, 0), (1.5, 0.0), (1.5, 0), (2, 0.0)])
def test_division_by_zero(f: Callable[..., Any], a: Any, b: Any) -> None:
    check(f, a, b)


def test_complex_division_by_zero() -> None:
    check(true_division, 1j, 0j)


@pytest.mark.parametrize("a", [5, -6, 0, 1])
def test_bits_and_conversions(a: int) -> None:
    check(bits, a)
    check(conversions, a)
    check(conversions, a * 0.7)


@pytest.mark.parametrize("a", [math.inf, math.nan])
def test_conversion_errors(a: float) -> None:
    check(lambda a: int(a), a)
    check(lambda a: round(a), a)


@pytest.mark.parametrize("a", [2**53 + 1, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("b", [2.0**53, 2.0**63, -(2.0**63), math.nan, math.inf])
def test_ints_are_compared_with_floats_exactly(a: int, b: float) -> None:
    check(comparisons, a, b)


def test_overflow_is_noticed() -> None:
    compiled = compile_graph(typed(lambda a: a * a + 1, 3), 3)
    assert compiled(3) == 10
    assert outcome(lambda: compiled(2**40))[0] is OverflowError


def shift(a, n):
    return a << n, a >> n


def test_shifts() -> None:
    for n in (0, 5, 61, 100, -1):
        if n < 62 or n < 0:
            check(shift, 1, n)


def power(a, b):
    return a**b


@pytest.mark.parametrize(("a", "b"), [(0.0, -1.0), (2.0, 0.5), (-2.0, 3.0), (10.0, 400.0)])
def test_float_power(a: float, b: float) -> None:
    if b == 400.0:
        compiled = compile_graph(typed(power, a, b), a, b)
        assert outcome(lambda: compiled(a, b))[0] is OverflowError
        return
    check(power, a, b)


def functions(a):
    return (
        math.sqrt(a),
        math.log(a),
        math.floor(a),
        math.ceil(a),
        math.trunc(a),
        math.isnan(a),
        math.atan2(a, 2.0),
        math.degrees(a),
        math.sin(a),
        math.tanh(a),
        math.erf(a),
        math.copysign(a, -1.0),
    )


def exponential(a):
    return math.exp(a)


def arc_sine(a):
    return math.asin(a)


def logarithm(a):
    return math.log10(a)


def math_power(a, b):
    return math.pow(a, b)


def remainder(a, b):
    return math.fmod(a, b)


def test_math() -> None:
    for a in (2.5, 0.3, 100.0):
        check(functions, a)
    for f in (exponential, arc_sine, logarithm):
        for a in (1e3, 0.5, 0.0, -1.0, math.inf, math.nan):
            check(f, a)
    for a in (0.0, -2.0, 2.0, 1e300):
        for b in (-1.0, 0.5, 3.0, math.inf, 0.0):
            check(math_power, a, b)
            check(remainder, a, b)


# Control flow


def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


def halve(x):
    while x > 1.0:
        x = x / 2
    return x


def nested(x, y):
    s = 0
    for a in range(3):
        for b in range(a):
            if b == 1:
                continue
            s += a * b + x
        if s > y:
            break
    return s


def counted_by_while(x, n):
    i = 0
    out = np.zeros(n)
    while True:
        if i >= n:
            break
        out[i] = x[i]
        i += 1
    return out


def found_first(x, n):
    best = -1
    for i in range(n):
        if x[i] > 1.0:
            best = i
            break
    else:
        best = -2
    return best


def backwards(x):
    s = 0.0
    for i in range(len(x) - 1, -1, -2):
        s = s * 0.5 + x[i]
    return s


def maybe_unbound(x, n):
    if n > 0:
        y = 1
    return y + x


def raises(x):
    if x > 0:
        raise ValueError("bad {x}")
    return x


def carried_array(x, n):
    y = x * 2
    for k in range(n):
        y = y + x if k % 2 == 0 else y * 0.5
    return y


def swapped(u, v, n):
    u = u.copy()
    v = v.copy()
    for _ in range(n):
        u, v = v, u + 1.0
    return u, v


def jacobi(u, n):
    a = u.copy()
    b = np.zeros_like(u)
    for _ in range(n):
        b[1:-1] = 0.5 * (a[:-2] + a[2:])
        a, b = b, a
    return a


def shrinking(x, n):
    y = x + 0
    for _ in range(n):
        y = y[1:]
    return y + 0


def transposed_in_a_loop(m):
    t = m.T
    for _ in range(3):
        t = (t + 1).T
        t = t.T
    return t + 0


def merged(x, flag):
    y = x + 1
    z = y if flag else y * 2
    return y, z


def raises_in_a_loop(x, flag):
    y = x + 1
    for k in range(3):
        if flag and k == 2:
            raise IndexError("late")
        y = y + k
    return y


def rows(m, n):
    total = np.zeros(5)
    for i in range(n):
        row = m[i]
        for j in range(5):
            total[j] += row[j]
    return total


CASES: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (fibonacci, (10,)),
    (fibonacci, (0,)),
    (halve, (100.0,)),
    (halve, (0.3,)),
    (nested, (3, 100)),
    (nested, (3, 1)),
    (counted_by_while, (V, 10)),
    (found_first, (V, 40)),
    (found_first, (V * 0, 5)),
    (backwards, (V,)),
    (maybe_unbound, (3, 1)),
    (maybe_unbound, (3, 0)),
    (raises, (3,)),
    (raises, (-3,)),
    (carried_array, (V, 0)),
    (carried_array, (V, 5)),
    (swapped, (V, V * 2, 0)),
    (swapped, (V, V * 2, 5)),
    (jacobi, (V, 0)),
    (jacobi, (V, 3)),
    (jacobi, (V, 4)),
    (shrinking, (V, 3)),
    (transposed_in_a_loop, (M,)),
    (merged, (V, True)),
    (merged, (V, False)),
    (raises_in_a_loop, (V, True)),
    (raises_in_a_loop, (V, False)),
    (rows, (M, 6)),
    (rows, (M, 7)),
]


@pytest.mark.parametrize(("f", "args"), CASES)
def test_control_flow(f: Callable[..., Any], args: tuple[Any, ...]) -> None:
    check(f, *args)


@pytest.mark.parametrize(
    ("f", "args"), [case for case in CASES if any(isinstance(one, np.ndarray) for one in case[1])]
)
def test_no_array_outlives_its_users(f: Callable[..., Any], args: tuple[Any, ...]) -> None:
    compiled = compile_graph(typed(f, *args), *args)
    outcome(lambda: compiled(*args))
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(200):
        outcome(lambda: compiled(*args))
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert after - before < 4000


def by_dtype(x):
    if x.dtype == np.float32 or x.dtype == bool:
        return x * 2
    if np.int64 != x.dtype:
        return x - 1
    return x + 1


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "i4", "?"])
def test_a_dtype_is_compared_with_classes(dtype: str) -> None:
    x = np.ones(5, dtype)
    check(by_dtype, x)
    assert not typed(by_dtype, x).find_all_nodes("prim::If")
