"""Operators between objects that Python has, by compiled forms of their methods, beside Python."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checking import outcome
from jitcore import script


class Field:
    """What Python keeps in it makes its objects Python's."""

    def __init__(self, data, notes):
        self.data, self.notes = data, notes

    def __add__(self, other):
        made = np.empty_like(self.data)
        for i in range(self.data.shape[0]):
            for j in range(self.data.shape[1]):
                made[i, j] = self.data[i, j] + other.data[i, j]
        return Field(made, {**self.notes, len(self.notes): "sum"})

    def __mul__(self, factor):
        if not isinstance(factor, float):
            return NotImplemented
        return Field(self.data * factor + np.sqrt(self.data) * 0.5, self.notes)

    def __matmul__(self, other):
        return Field(np.tanh(self.data) * other.data, {"from": "Field"})

    def __rmatmul__(self, other):
        return "asked from the right"


class Finer(Field):
    def __radd__(self, other):
        return Field(np.cos(other.data) + self.data, {"from": "Finer"})


class Number:
    def __init__(self, value):
        self.value = value

    def __add__(self, other):
        total = 0.0
        for part in range(3):
            total += self.value * part + other.value
        return Number(total)


def added(first, second, log):
    made = first
    for number in range(4):
        made = made + second
        log.append((number, dict(made.notes)))
    return made.data, made.notes


def scaled(first, second, log):
    made = first
    for factor in (0.5, 0.25):
        made = made * factor
        log.append(float(made.data[0, 0]))
    return made.data


def refused(first, second, log):
    log.append(1)
    return (first + second) * 2


def of_other_classes(first, second, log):
    log.append((first @ 3, 3 @ first) if isinstance(second, int) else None)
    return (first @ second).notes, [3] + log, "a" + "b", 2 + 3.5


def without_an_operator(first, second, log):
    log.append(first)
    return first - second


def numbers_between(first, second, log):
    total = Number(1.0)
    for one in log["numbers"]:
        total = total + one
        log["sum"] = log["sum"] + total.value
    return total.value


def field(seed: int, class_: type[Field] = Field) -> Field:
    return class_(np.random.default_rng(seed).random((4, 3)), {"seed": seed})


CASES: list[tuple[Any, Callable[[], Any], Callable[[], Any]]] = [
    (added, lambda: field(2), list),
    (added, lambda: field(2, Finer), list),
    (added, lambda: 3.0, list),
    (scaled, lambda: field(2), list),
    (refused, lambda: field(2), list),
    (of_other_classes, lambda: field(2), list),
    (of_other_classes, lambda: field(3, Finer), list),
    (without_an_operator, lambda: field(2), list),
    (numbers_between, lambda: None, lambda: {"numbers": [Number(2.0), Number(1.5)], "sum": 0}),
    (numbers_between, lambda: None, lambda: {"numbers": [Number(2.0), 7], "sum": 0}),
]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_programs(number: int) -> None:
    plain, second, log = CASES[number]
    compiled = script(plain)
    for seed in range(12):
        wanted = outcome(plain, (field(seed), second(), log()))
        assert outcome(compiled, (field(seed), second(), log())) == wanted


def test_forms_are_called_and_explained() -> None:
    compiled = script(added)
    for _ in range(3):
        compiled(field(1), field(2), [])
    assert compiled.methods._forms[Field.__add__] is not Field.__add__
    report = str(compiled.explain(field(1), field(2), []))
    assert "Field.__add__, which is called, is compiled for itself" in report
    assert "one native function" in report


def test_methods_that_change(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = script(added)
    compiled(field(1), field(2), [])
    monkeypatch.setattr(Field, "__add__", Field.__matmul__)
    wanted = outcome(added, (field(1), field(2), []))
    assert outcome(compiled, (field(1), field(2), [])) == wanted


class Counting:
    """Says by another function that it does not know an operand."""

    def __init__(self, value):
        self.value, self.asked = value, 0

    def __add__(self, other):
        self.asked += 1
        return self.combined(other)

    def __mul__(self, other):
        self.asked += 1
        return self.combined(other)

    def combined(self, other):
        total = 0.0
        for _ in range(5):
            total += self.value
        return Counting(total + other.value) if isinstance(other, Counting) else NotImplemented


class Reflected:
    def __radd__(self, other):
        return "reflected", other.value


def sums(first, second, log):
    log.append(1)
    return first + second


def products(first, second, log):
    log.append(1)
    return first * second


@pytest.mark.parametrize("plain", [sums, products], ids=lambda one: one.__name__)
def test_methods_that_refuse_are_called_once(plain: Callable[..., Any]) -> None:
    compiled = script(plain)
    for second in (Counting(2.0), 3.0, Reflected(), np.ones(2), None):
        one, other = Counting(1.0), Counting(1.0)
        assert outcome(compiled, (one, second, [])) == outcome(plain, (other, second, []))
        assert one.asked == other.asked
