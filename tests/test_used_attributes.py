# mypy: allow-untyped-defs, allow-untyped-calls
"""Which attributes of objects a program may look at, and classes that programs make anew."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from jitcore import script
from jitcore.ir import used_attributes


class Base:
    def __init__(self, x, y):
        self.x, self.y, self.rate, self.unused = x, y, 3.0, {}

    def first(self):
        return self.second() + self.x

    def second(self):
        return self.y * 2

    @property
    def total(self):
        return (self.x + self.y).sum()


class Derived(Base):
    def second(self):
        return super().second() * self.rate

    def __add__(self, other):
        return self.total + other


def reads(one):
    return one.first()


def adds(one):
    return one + 1


def makes(one):
    return Derived(one.x, one.x + 1).first()


@pytest.mark.parametrize("program", [reads, adds, makes])
@pytest.mark.parametrize("kind", [Base, Derived])
def test_attributes_that_only_methods_read(program, kind):
    x = np.arange(4.0)
    if program is adds and kind is Base:
        pytest.skip("it has no sum")
    scripted = script(program)
    for values in ((x, x + 1), (x[::-1], x[:1]), (x[:0], x[:0])):
        np.testing.assert_array_equal(scripted(kind(*values)), program(kind(*values)))
    changed = kind(x, x)
    changed.rate = np.float32(0.1)
    np.testing.assert_array_equal(scripted(changed), program(changed))


def new_class(factor):
    class New:
        def __init__(self, x):
            self.x = x

        def scaled(self):
            return self.x * factor

    return New


def scales(one):
    return one.scaled() + 1


def test_classes_that_each_call_makes_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jitcore.execution.executor.MAX_SPECIALIZATIONS", 2)
    looked_at = []
    functions = used_attributes._functions

    def noted(class_, name):
        looked_at.append(name)
        return functions(class_, name)

    monkeypatch.setattr(used_attributes, "_functions", noted)
    scripted, x = script(scales), np.arange(3.0)
    kept, counts = [], []
    for number in range(12):
        class_ = new_class(number)
        looked_at.clear()
        np.testing.assert_array_equal(scripted(class_(x)), x * number + 1)
        counts.append(len(looked_at))
        kept.append(weakref.ref(class_))
        del class_
    assert len(set(counts[4:])) == 1, "a class costs as much as those before"
    gc.collect()
    # Some of the first are known for ever: they tell that the class changes.
    assert [one() for one in kept[9:]] == [None] * 3
