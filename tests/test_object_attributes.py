"""Attributes that objects have themselves beside those of their class; objects left to Python."""

# mypy: allow-untyped-defs, allow-untyped-calls

import dataclasses
import functools
from collections import deque
from collections.abc import Callable
from types import MethodType
from typing import Any

import numpy as np
import pytest

from checking import outcome
from jitcore import script
from jitcore.codegen.runtime.functions import last_native_call
from jitcore.execution import compilation
from jitcore.ir.used_attributes import UsedAttributes
from jitcore.pipeline import NativePlan


@dataclasses.dataclass
class Counter:
    """Fields with defaults, which the class has too."""

    hits: int = 0
    step: float = 0.5


class Shared:
    """A class with a constant and a method that objects may hide."""

    factor = 1

    def __init__(self, own=2):
        self.own = own

    def read(self):
        return self.own


class Bounded:
    """Objects that look different from what their dict says."""

    factor = 1

    @property
    def __dict__(self):  # type: ignore[override]
        return {"factor": 1}


def with_attribute(name: str, value: Any) -> Shared:
    made = Shared()
    setattr(made, name, value)
    return made


def same(function: Callable[..., Any], *makers: Callable[[], tuple[Any, ...]]) -> Any:
    compiled = script(function)
    for make in makers:
        for _ in range(2):
            assert outcome(compiled, make()) == outcome(function, make())
    return compiled


def count(counter, n):
    for _ in range(n):
        counter.hits += 1
    return counter.hits


def add_up(counter, n):
    total = 0.0
    for _ in range(n):
        counter.step += 0.5
        total += counter.step
    return total


def scale(one):
    return one.factor + one.own


def call(one):
    return one.read()


def set_sometimes(one, wanted):
    if wanted:
        one.factor = 7
    return one.own


def test_fields_that_are_what_the_class_has_are_native() -> None:
    for function in (count, add_up):
        compiled = same(function, lambda: (Counter(), 200), lambda: (Counter(5, 2.5), 3))
        plans = [one.plan for one in compiled.specializations]
        assert len(plans) == 1 and isinstance(plans[0], NativePlan)


def test_attributes_that_hide_what_the_class_has() -> None:
    values = (2**70, 1, 5, 1.5, 2**70)
    with_values = [functools.partial(with_attribute, "factor", one) for one in values]
    makers = [lambda make=make: (make(),) for make in (*with_values, Shared)]
    same(scale, *makers)
    same(scale, *reversed(makers))


def other_method() -> Shared:
    return with_attribute("read", MethodType(Shared.read, Shared(50)))


def own_method() -> Shared:
    made = Shared()
    made.read = made.read  # type: ignore[method-assign]
    return made


def test_objects_that_hide_methods() -> None:
    def without_form() -> Shared:
        return with_attribute("read", functools.partial(int, "99"))

    kinds: tuple[Callable[[], Shared], ...] = (Shared, other_method, own_method, without_form)
    for first in kinds:
        compiled = script(call)
        for make in (first, *kinds, first):
            assert compiled(make()) == make().read()


def test_lists_whose_objects_hide_methods_and_constants() -> None:
    def total(objects):
        found = 0
        for one in objects:
            found += one.read() * one.factor
        return found

    values = (3.5, 2, 2**70, 2j)
    kinds: tuple[Callable[[], Shared], ...] = (
        Shared,
        other_method,
        *(functools.partial(with_attribute, "factor", one) for one in values),
    )
    for first in kinds:
        compiled = script(total)
        for make in (first, *kinds):
            for objects in ([Shared(), make(), Shared()], [make(), make()]):
                assert compiled(objects) == total(objects)
                assert compiled(objects) == total(objects)


def test_an_attribute_that_is_left_alone_stays_the_class_s() -> None:
    makers = [
        lambda: (with_attribute("factor", 5), False),
        lambda: (Shared(), False),
        lambda: (Shared(), True),
        lambda: (with_attribute("factor", 1), False),
        lambda: (with_attribute("factor", 1), True),
    ]
    same(set_sometimes, *makers)
    same(set_sometimes, *reversed(makers))


def test_classes_that_have_another_dict() -> None:
    def read(one):
        return one.factor

    compiled = script(read)
    for _ in range(3):
        assert compiled(Bounded()) == 1


class Track:
    """Objects with a deque, which compiled code does not take apart."""

    def __init__(self):
        self.level = 1.0
        self.history = deque([1.0, 2.0])

    def later(self):
        return self.history[-1]


def record(track, n):
    for _ in range(n):
        track.level += 0.5
        track.history.append(track.level)
    return track.later()


def test_objects_left_to_python_are_compiled_and_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    done = {"read": 0, "attempt": 0}

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **keywords: Any) -> Any:
            done[name] += 1
            return function(*args, **keywords)

        return run

    read = counted("read", UsedAttributes._read_methods)
    monkeypatch.setattr(UsedAttributes, "_read_methods", read)
    monkeypatch.setattr(compilation, "attempt", counted("attempt", compilation.attempt))
    compiled, tracks = script(record), (Track(), Track())
    assert compiled(tracks[0], 2) == record(tracks[1], 2)
    after = dict(done)
    assert after["read"] > 0 and after["attempt"] > 0
    for n in range(5):
        assert compiled(tracks[0], n) == record(tracks[1], n)
        assert vars(tracks[0]) == vars(tracks[1])
    assert done == after


def test_methods_that_read_other_attributes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = script(call)
    plain = Shared(3)
    for _ in range(2):
        assert compiled(plain) == 3
    plain.__dict__["more"] = 2.5
    monkeypatch.setattr(Shared, "read", lambda self: self.own * self.more)
    for _ in range(2):
        assert compiled(plain) == 7.5


def test_what_keeps_objects_and_functions_in_python_is_told() -> None:
    def search(function, x):
        for i in range(50):
            x = function(x)
            if x > 100.0:
                return x, i
        return {x}

    compiled = script(search)
    assert compiled(lambda x: x * 1.5, 3.0) == search(lambda x: x * 1.5, 3.0)
    told = " ".join(str(compiled.explain(lambda x: x * 1.5, 3.0)).split())
    assert "Python runs a part of the function in line" in told
    assert "it makes a Python object" in told
    assert "list of ints" not in told
    compiled = script(record)
    compiled(Track(), 2)
    told = " ".join(str(compiled.explain(Track(), 2)).split())
    assert "history, an attribute that compiled code has no form of" in told


WEIGHTS = np.array([1.0, 2.0, 4.0])


def weighted(one, x):
    return WEIGHTS[one.own] + x


def test_entries_of_objects_take_calls_beside_captured_arrays():
    compiled, one, x = script(weighted), Shared(1), np.ones((2, 2))
    for _ in range(3):
        np.testing.assert_array_equal(compiled(one, x), weighted(one, x))
    (found,) = compiled.specializations
    assert isinstance(found.plan, NativePlan)
    assert all(capture.input is None for capture in found.assumed)
    assert compiled._executor.is_receiver(last_native_call())
