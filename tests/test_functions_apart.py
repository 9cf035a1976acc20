"""Called functions that are compiled for themselves, where Python runs their caller."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np
import pytest

from checking import check
from jitcore import ScriptFunction, script


class Curve:
    """An object that Python makes, so that its maker is a program of Python's."""

    made: ClassVar[list[str]] = []

    def __init__(self, points: np.ndarray) -> None:
        self.made.append("curve")
        self.points = points

    def __call__(self, x: float) -> float:
        return float(self.points.sum()) * x


def lagrange(x: np.ndarray, y: np.ndarray, at: float) -> Any:
    total = 0.0
    for i in range(len(x)):
        weight = 1.0
        for j in range(len(x)):
            if i != j:
                weight *= (at - x[j]) / (x[i] - x[j])
        total += weight * y[i]
    return total


def interpolated(n: int, m: int) -> Any:
    x = np.linspace(-1.0, 1.0, n)
    y = x**2 - x
    curve = Curve(x)
    return curve(2.0), [lagrange(x, y, at) for at in np.linspace(-1.0, 1.0, m)]


def scaled(values: np.ndarray, scale: Any, log: list[str]) -> Any:
    """Writes to its argument, and raises."""
    for i in range(len(values)):
        weight = 1 if i == 0 else scale
        if values[i] < 0:
            raise ValueError(f"negative at {i}")
        values[i] = values[i] * weight
    return values.sum()


def logged(values: np.ndarray, scale: Any) -> Any:
    log: list[str] = []
    log.append(str(sorted({1: 2}.items())))
    total = scaled(values, scale, log)
    return log, total, values


def power(base: int, exponent: int, modulus: int) -> int:
    result = 1
    while exponent > 0:
        if exponent & 1:
            result = result * base % modulus
        base = base * base % modulus
        exponent >>= 1
    return result


def ciphered(text: str, exponent: int, modulus: int) -> Any:
    numbers = np.arange(50000)
    codes = [power(ord(c), exponent, modulus) for c in text]
    places = np.flatnonzero(numbers % 7 == 0)
    return {"codes": codes}, places[-1], power(3, exponent, modulus)


def apart(function: ScriptFunction) -> set[str]:
    return {one.__name__ for one in function._executor.apart}


@pytest.mark.parametrize("sizes", [(4, 5), (1, 3), (0, 2), (7, 9)])
def test_a_loop_whose_variables_change_their_type(sizes: tuple[int, int]) -> None:
    compiled = script(interpolated)
    for _ in range(4):
        got, wanted = compiled(*sizes), interpolated(*sizes)
        assert [type(one) for one in got[1]] == [type(one) for one in wanted[1]]
        np.testing.assert_allclose(got[1], wanted[1], rtol=1e-12, atol=1e-12)
        assert got[0] == wanted[0]
    assert apart(compiled) <= {"lagrange"}


def test_what_is_compiled_apart_is_native() -> None:
    compiled = script(ciphered)
    for _ in range(3):
        compiled("attack", 65537, 2**61 - 1)
    (form,) = (one for one in compiled._executor.apart.values() if one.__wrapped__ is power)
    assert form(7, 1000, 1009) == power(7, 1000, 1009)
    assert form.kernels
    assert "power" in str(compiled.explain("attack", 65537, 2**61 - 1))


@pytest.mark.parametrize("values", [[1.0, 2.0, 3.0], [1.0, -2.0, 3.0], []])
@pytest.mark.parametrize("scale", [2, 2.5, np.float32(0.5)])
def test_effects_and_exceptions(values: list[float], scale: Any) -> None:
    def outcome(function: Callable[..., Any]) -> Any:
        array = np.array(values)
        try:
            return repr(function(array, scale)), array.tolist()
        except ValueError as error:
            return repr(error), array.tolist()

    compiled = script(logged)
    wanted = outcome(logged)
    assert [outcome(compiled) for _ in range(4)] == [wanted] * 4
    assert apart(compiled) == ({"scaled"} if values else set())


@pytest.mark.parametrize("modulus", [1009, 2**61 - 1, 2**89 - 1])
def test_integers_beyond_64_bits_are_the_plain_function_s(modulus: int) -> None:
    compiled = script(ciphered)
    wanted = ciphered("attack", 65537, modulus)
    for _ in range(4):
        assert repr(compiled("attack", 65537, modulus)) == repr(wanted)
    assert ("power" in apart(compiled)) or modulus == 1009


@pytest.mark.parametrize("numerics", [None, "strict", "contract"])
def test_the_arithmetic_is_the_caller_s(
    numerics: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "power", script(power, numerics=numerics))
    compiled = script(ciphered, numerics="strict")
    for modulus in (2**61 - 1, 2**62 - 57):
        compiled("attack", 65537, modulus)
    (form,) = compiled._executor.apart.values()
    assert form.numerics == "strict"


def test_forms_stay_for_other_arguments() -> None:
    compiled = script(ciphered)
    for _ in range(3):
        compiled("attack", 65537, 2**61 - 1)
    before = dict(compiled._executor.apart)
    assert before
    compiled("attack", np.int32(65537), 2**61 - 1)
    assert compiled._executor.apart == before


def test_threads_that_find_the_same_loops() -> None:
    wanted = ciphered("attack", 65537, 2**61 - 1)
    for _ in range(3):
        compiled = script(ciphered)
        with ThreadPoolExecutor(4) as pool:
            calls = [pool.submit(compiled, "attack", 65537, 2**61 - 1) for _ in range(16)]
            assert all(repr(one.result()) == repr(wanted) for one in calls)
        assert apart(compiled) == {"power"}


def test_a_callee_that_is_bound_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = script(interpolated)
    for _ in range(3):
        compiled(5, 4)
    monkeypatch.setitem(globals(), "lagrange", lambda x, y, at: at)
    assert repr(compiled(5, 4)) == repr(interpolated(5, 4))


class Folded:
    """The default of a method has contents that may change."""

    def __init__(self, values: np.ndarray, operation: Any = np.add) -> None:
        self.total = values[0]
        for one in values[1:]:
            self.total = operation(self.total, one)


def folded(values: np.ndarray) -> Any:
    return Folded(values).total


def test_a_default_that_is_no_number() -> None:
    check(folded, np.array([1.5, 2.0, -4.0]))


def valid(values: Any) -> list[float]:
    found = []
    for one in values:
        if one is not np.ma.masked and one > 0:
            found.append(float(one))
    return found


def test_the_masked_constant() -> None:
    values = np.ma.masked_less(np.array([3.0, -1.0, 2.0, 0.5]), 1.0)
    compiled = script(valid)
    assert [compiled(values) for _ in range(3)] == [valid(values)] * 3
