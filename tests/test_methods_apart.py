"""Methods that are compiled for themselves, where Python runs the program that calls them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from checking import outcome
from jitcore import ScriptFunction, ignore, is_scripting, script
from jitcore.execution import methods_apart


class Heat:
    """Its constructor and ``run`` have containers of Python's; ``step`` is native."""

    def __init__(self, size: int, rate: float = 0.1) -> None:
        self.size, self.rate = size, rate
        self.u = np.zeros((size, size))
        self.u[size // 2, size // 2] = 100.0
        self.notes: dict[str, Any] = {}

    def step(self, times: int = 1) -> None:
        for _ in range(times):
            u = self.u.copy()
            for i in range(1, self.size - 1):
                for j in range(1, self.size - 1):
                    around = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
                    self.u[i, j] = u[i, j] + self.rate * (around - 4 * u[i, j])

    def run(self, steps: int) -> list[float]:
        history = []
        for number in range(steps):
            self.step()
            self.notes[str(number)] = self.u.shape
            history.append(float(self.u.sum()))
        return history


class Fast(Heat):
    def step(self, times: int = 2) -> None:
        super().step(times)


def heat(kind: type[Heat], size: int, steps: int) -> Any:
    model = kind(size)
    history = model.run(steps)
    model.step(times=3)
    return {"history": history, "u": model.u, "notes": model.notes}


class Window:
    """The loop is in the constructor."""

    def __init__(self, values: np.ndarray, width: int) -> None:
        self.sums = np.zeros(len(values))
        for i in range(len(values)):
            for j in range(max(0, i - width), i + 1):
                self.sums[i] += values[j]
        if width < 0:
            raise ValueError(f"a width of {width}")


def windows(values: np.ndarray, width: int) -> Any:
    return {"sums": Window(values, width).sums}


class Tree:
    """Its methods call themselves, as deep as Python allows."""

    def __init__(self, value: float) -> None:
        self.value = value
        self.child: Tree | None = None

    def add(self, value: float) -> None:
        if self.child is None:
            self.child = Tree(value)
        else:
            self.child.add(value)

    def total(self, weights: np.ndarray) -> Any:
        found = 0.0
        for one in weights:
            found += one * self.value
        return found if self.child is None else found + self.child.total(weights)


def deep(depth: int, weights: np.ndarray) -> Any:
    tree = last = Tree(1.0)
    for number in range(depth):
        last.child = Tree(float(number))
        last = last.child
    return {"total": tree.total(weights)}


class Scale:
    def __init__(self, factors: np.ndarray) -> None:
        self.factors = factors

    def __call__(self, x: np.ndarray) -> np.ndarray:
        out = np.zeros(len(x))
        for i in range(len(x)):
            for factor in self.factors:
                out[i] += factor * x[i]
        return out


class Model:
    def __init__(self, count: int) -> None:
        self.layers = {number: Scale(np.arange(1.0, 3.0 + number)) for number in range(count)}

    def __call__(self, x: np.ndarray) -> np.ndarray:
        for layer in self.layers.values():
            x = layer(x)
        return x


def model(x: np.ndarray) -> Any:
    return {"y": Model(3)(x)}


class Wrong:
    def __init__(self, values: np.ndarray) -> Any:  # type: ignore[misc]
        total = 0.0
        for value in values:
            total += value
        return total


def wrong(values: np.ndarray) -> Any:
    return {"made": Wrong(values)}


def native(compiled: ScriptFunction) -> set[str]:
    """The methods whose compiled forms are called, and are native."""
    found = set()
    for function, called in compiled.methods._forms.items():
        form = getattr(called, "form", called)
        if isinstance(form, ScriptFunction) and form.kernels:
            found.add(function.__qualname__)
    return found


VALUES = np.random.default_rng(5).normal(size=40)

PROGRAMS: list[tuple[Callable[..., Any], tuple[Any, ...], set[str]]] = [
    (heat, (Heat, 9, 5), {"Heat.step"}),
    (heat, (Fast, 9, 5), {"Heat.step"}),
    (windows, (VALUES, 3), {"Window.__init__"}),
    (windows, (VALUES, -2), set()),
    (model, (VALUES,), {"Scale.__call__"}),
    (wrong, (VALUES,), set()),
    (deep, (3, VALUES), set()),
]


@pytest.mark.parametrize(("function", "args", "wanted"), PROGRAMS)
def test_programs_of_classes(
    function: Callable[..., Any], args: tuple[Any, ...], wanted: set[str]
) -> None:
    compiled = script(function)
    expected = outcome(function, args)
    assert [outcome(compiled, args) for _ in range(8)] == [expected] * 8
    assert native(compiled) >= wanted


def test_methods_that_call_themselves_go_as_deep_as_python() -> None:
    depth = sys.getrecursionlimit() - 150
    compiled = script(deep)
    wanted = outcome(deep, (depth, VALUES[:2]))
    assert "Recursion" not in str(wanted)
    assert [outcome(compiled, (depth, VALUES[:2])) for _ in range(3)] == [wanted] * 3


def test_methods_that_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = script(heat)
    for _ in range(6):
        compiled(Heat, 7, 3)

    def step(self: Heat, times: int = 1) -> None:
        self.u[0, 0] += times

    monkeypatch.setattr(Heat, "step", step)
    wanted = outcome(heat, (Heat, 7, 3))
    assert [outcome(compiled, (Heat, 7, 3)) for _ in range(3)] == [wanted] * 3


def test_classes_whose_new_was_set_and_deleted() -> None:
    class Own(Window):
        pass

    Own.__new__ = lambda class_, *args: object.__new__(class_)  # type: ignore[method-assign]
    del Own.__new__
    compiled = script(made_by)
    wanted = outcome(made_by, (Own, VALUES))
    assert [outcome(compiled, (Own, VALUES)) for _ in range(6)] == [wanted] * 6


def made_by(kind: type[Window], values: np.ndarray) -> Any:
    return {"sums": kind(values, 2).sums}


def own_step(size: int, steps: int, log: list[Any]) -> Any:
    model = Heat(size)
    if steps > 2:
        vars(model)["step"] = log.append
    for number in range(steps):
        model.step(number)
    return {"u": model.u, "log": log}


def test_a_method_of_the_object_itself() -> None:
    compiled = script(own_step)
    for steps in (1, 2, 3, 2, 4):
        assert outcome(compiled, (6, steps, [])) == outcome(own_step, (6, steps, []))


def test_what_the_form_is_of_no_use_for_is_python_s_again() -> None:
    compiled = script(words)
    for _ in range(6):
        assert compiled(["a", "bb", "a"]) == {"a": 2, "bb": 1}
    assert compiled.specializations[0].plan.is_plain  # type: ignore[union-attr]


class Words:
    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def count(self, texts: list[str]) -> None:
        for text in texts:
            self.counts[text] = self.counts.get(text, 0) + 1


def words(texts: list[str]) -> Any:
    found = Words()
    found.count(texts)
    return found.counts


def test_threads() -> None:
    wanted = outcome(heat, (Heat, 8, 4))
    compiled = script(heat)
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(outcome, compiled, (Heat, 8, 4)) for _ in range(24)]
        assert {one.result() for one in calls} == {wanted}


def test_explain_names_the_methods() -> None:
    compiled = script(heat)
    for _ in range(6):
        compiled(Heat, 7, 3)
    assert "compiled for itself" in str(compiled.explain(Heat, 7, 3))


class Asking:
    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def total(self) -> Any:
        found = 0.0
        for value in self.values:
            found += value
        return found, is_scripting()


def asking(values: np.ndarray) -> Any:
    return {"total": Asking(values).total()}


def test_methods_that_ask_whether_they_are_compiled() -> None:
    compiled = script(asking)
    wanted = outcome(asking, (VALUES,))
    assert [outcome(compiled, (VALUES,)) for _ in range(6)] == [wanted] * 6


class Marked:
    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    @ignore
    def scaled(self, factor: float, /, *more: float, shift: float = 0.5, **others: float) -> Any:
        return [factor * value + shift for value in self.values], more, others

    def both(self, factor: float, /, *more: float, shift: float = 0.5, **others: float) -> Any:
        found = 0.0
        for value in self.values:
            found += factor * value + shift + len(more)
        return found, more, others


def marked(values: np.ndarray) -> Any:
    made = Marked(values)
    return {
        "scaled": made.scaled(2.0, 1.0, shift=0.25, other=1.0),
        "both": [made.both(2.0, 1.0, shift=0.25, other=1.0), made.both(3.0)],
    }


def test_all_kinds_of_parameters() -> None:
    compiled = script(marked)
    wanted = outcome(marked, (VALUES,))
    assert [outcome(compiled, (VALUES,)) for _ in range(6)] == [wanted] * 6


class Ship:
    """Its method has something native, and something of Python's."""

    def __init__(self) -> None:
        self.place, self.speed = np.zeros(3), np.array([1.0, 0.5, 0.25])
        self.log: list[Any] = []

    def step(self) -> None:
        for axis in range(2):
            new = self.place + self.speed * 0.1
            self.speed = np.where(new > 2.0, -self.speed, self.speed)
            self.place[axis] = new[axis]
        self.log.append({"x": float(self.place[0])})


def voyage(steps: int) -> Any:
    ship = Ship()
    for _ in range(steps):
        ship.step()
    return {"place": ship.place, "log": ship.log}


@pytest.mark.parametrize(("by_form", "by_python", "wanted"), [(2e-4, 1e-2, 2), (1e-3, 1e-4, 36)])
def test_forms_of_pythons_programs_are_timed(
    monkeypatch: pytest.MonkeyPatch, by_form: float, by_python: float, wanted: int
) -> None:
    by_name = []

    class Timed(methods_apart._Watched):
        __slots__ = ()

        def _note(self, called: Any, took: float) -> None:
            is_form = called is self.form
            by_name.append("form" if is_form else "python")
            super()._note(called, by_form if is_form else by_python)

    monkeypatch.setattr(methods_apart, "_Watched", Timed)
    compiled = script(voyage)
    assert outcome(compiled, (150,)) == outcome(voyage, (150,))
    is_left = not isinstance(compiled.methods._forms[Ship.step], Timed)
    assert (by_name.count("python"), is_left) == (wanted, by_python < by_form)
