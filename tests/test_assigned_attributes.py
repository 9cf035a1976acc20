# mypy: allow-untyped-defs, allow-untyped-calls
"""Attributes of modules, and globals, that code assigns which is not compiled with the reader."""

import functools

import numpy as np
import pytest
from script_modules import assert_same

from jitcore import freeze, nn, script


class Remembering(nn.Module):
    def __init__(self):
        super().__init__()
        self.total = np.zeros(3)
        self.calls = 0

    def forward(self, x, step=1):
        self.total = self.total + x
        self.calls += step
        return x * 2


class PassingOn(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Remembering()
        self.count = 0

    def add(self, first, second=1):
        self.count += first + second

    def forward(self, *args):
        y = self.inner(*args)
        self.add(3, *args[1:])
        return y + self.inner.total, self.inner.calls, self.count


def test_what_calls_with_starred_arguments_assign():
    x = np.arange(3.0)
    for scripted in (script(PassingOn().eval()), freeze(script(PassingOn().eval()))):
        eager = PassingOn()
        for args in ((x,), (x, 2), (x + 1,)):
            assert_same(scripted(*args), eager(*args))
    with pytest.raises(TypeError, match=r"Remembering.forward\(\) takes from 2 to 3 "):
        script(PassingOn())(x, 1, 2)


TOTAL = 0


def raise_total(first, second=1):
    global TOTAL
    TOTAL += first + second


def test_globals_that_calls_with_starred_arguments_assign():
    @script
    def totals(*args):
        before = TOTAL
        raise_total(*args)
        return before, TOTAL

    assert totals(1) == (0, 2)
    assert totals(2, 3) == (2, 7)


def move(owner, step):
    owner.place = owner.place + step


def move_by_name(owner, name, step):
    setattr(owner, name, getattr(owner, name) + step)


class Moving(nn.Module):
    def __init__(self):
        super().__init__()
        self.place = np.zeros(2)
        self.moves = [move]
        self.doubled = functools.partial(move, step=np.ones(2))

    def go(self, step):
        self.place = self.place + step


def moved_in_a_list(self, step):
    self.moves[0](self, step)


def moved_by_a_partial(self, step):
    self.doubled(self)


def moved_by_name(self, step):
    move_by_name(self, "place", step)


def moved_by_map(self, step):
    list(map(self.go, [step]))


def moved_through_a_key(self, step):
    sorted([1, 2], key=lambda one: (self.go(step), one)[1])


def moved_through_a_list(self, step):
    for one in [self, self]:
        one.go(step)


def moved_through_a_choice(self, step):
    (self if step.sum() > 0 else self.moves).go(step)


def moved_by_getattr(self, step):
    name = "go"
    getattr(self, name)(step)


def moved_in_the_namespace(self, step):
    self.__dict__["place"] = self.place + step


def moved_by_its_class(self, step):
    type(self).go(self, step)


@pytest.mark.parametrize(
    "way",
    [
        moved_in_a_list,
        moved_by_a_partial,
        moved_by_name,
        moved_by_map,
        moved_through_a_key,
        moved_through_a_list,
        moved_through_a_choice,
        moved_by_getattr,
        moved_in_the_namespace,
        moved_by_its_class,
    ],
)
def test_attributes_that_others_assign(way):
    class Mover(Moving):
        change = way

        def forward(self, step):
            before = self.place * 1
            self.change(step)
            return before, self.place * 2

    step = np.ones(2)
    for scripted in (script(Mover().eval()), freeze(script(Mover().eval()))):
        eager = Mover()
        for _ in range(3):
            assert_same(scripted(step), eager(step))
