# mypy: allow-untyped-defs, allow-untyped-calls
"""Attributes of modules, and globals, that code assigns which is not compiled with the reader."""

import functools

import numpy as np
import pytest
from script_modules import assert_same

from jitcore import ScriptModule, freeze, ignore, nn, script


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


class Placed(nn.Module):
    def __init__(self):
        super().__init__()
        self.place = np.zeros(2)
        self.steps = 0

    def go(self, step):
        self.place = self.place + step
        self.steps += 1

    @classmethod
    def push(cls, one, step):
        one.place = one.place + step


class Pusher:
    def __init__(self, held):
        self.held = held

    def touch(self, step):
        self.held.place = self.held.place + step

    def __len__(self):
        self.held.steps += 1
        return 1


HELD = [Placed()]


def changed_in_a_list(self, step):
    for one in self.listed:
        one.go(step)


def changed_in_a_dict(self, step):
    self.named["inner"].go(step)


def changed_in_an_object(self, step):
    self.pusher.held.go(step)


def changed_by_an_object(self, step):
    self.pusher.touch(step)


def changed_by_a_length(self, step):
    return len(self.pusher) * step


def changed_by_a_bound_method(self, step):
    self.bound(step)


def changed_in_a_global(self, step):
    HELD[0].go(step)


def changed_after_a_walrus(self, step):
    (one := self.inner).go(step)
    return one.steps


def changed_by_a_class_method(self, step):
    self.inner.push(self.inner, step)


def changed_by_a_class_method_of_a_choice(self, step):
    name = "push" if step.sum() > 0 else "go"
    getattr(self.inner, name)(self.inner, step)


@pytest.mark.parametrize(
    "way",
    [
        changed_in_a_list,
        changed_in_a_dict,
        changed_in_an_object,
        changed_by_an_object,
        changed_by_a_length,
        changed_by_a_bound_method,
        changed_in_a_global,
        changed_after_a_walrus,
        changed_by_a_class_method,
        changed_by_a_class_method_of_a_choice,
    ],
)
def test_attributes_of_modules_that_are_also_elsewhere(way):
    class Outer(nn.Module):
        change = way

        def __init__(self):
            super().__init__()
            self.inner = HELD[0] = Placed()
            self.listed = [self.inner]
            self.named = {"inner": self.inner}
            self.pusher = Pusher(self.inner)
            self.bound = self.inner.go

        def forward(self, step):
            before = self.inner.place * 1, self.inner.steps
            self.change(step)
            return before, self.inner.place * 2, self.inner.steps

    class Scripted(Outer, ScriptModule):
        pass

    step, found = np.ones(2), []
    for made in (Outer, Scripted):
        module = made()
        found.append([module(step) for _ in range(3)])
    assert_same(found[1], found[0])


class Tally:
    total = 0


def tallied(step):
    Tally.total += step
    return Tally.total


def tallied_by_name(step):
    setattr(Tally, "total", Tally.total + step)  # noqa: B010
    return Tally.total


@ignore
def tally(step):
    Tally.total += step


def tallied_by_ignored_code(step):
    before = Tally.total
    tally(step)
    return before, Tally.total


@pytest.mark.parametrize("function", [tallied, tallied_by_name, tallied_by_ignored_code])
def test_attributes_of_classes_that_functions_assign(function):
    found = []
    for called in (function, script(function)):
        Tally.total = 0
        found.append([called(step) for step in (1, 2, 3)])
    assert found[1] == found[0]


class Tallying(nn.Module):
    total = 0

    def by_class(self, step):
        type(self).total += step

    @classmethod
    def by_class_method(cls, step):
        cls.total += step


def added_by_name_of_the_class(self, step):
    Tallying.total += step


def added_by_type(self, step):
    self.by_class(step)


def added_by_a_class_method(self, step):
    self.by_class_method(step)


@pytest.mark.parametrize(
    "way", [added_by_name_of_the_class, added_by_type, added_by_a_class_method]
)
def test_attributes_of_their_classes_that_modules_assign(way):
    class Adding(Tallying):
        add = way

        def forward(self, step):
            before = self.total
            self.add(step)
            return before, self.total, Tallying.total

    found = []
    for made in (Adding(), script(Adding())):
        Tallying.total = 0
        if "total" in vars(Adding):
            del Adding.total
        found.append([made(step) for step in (1, 2, 3)])
    assert found[1] == found[0]


class Checked(nn.Module):
    def __init__(self):
        super().__init__()
        self.low, self.high = 1.0, 2.0

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name == "low":
            super().__setattr__("high", value * 2)

    def forward(self, x):
        before = x * self.high
        self.low = self.low + 1
        return before, x * self.high


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 2.0

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        return found * 3 if name == "scale" else found

    def forward(self, x):
        return x * self.scale


@pytest.mark.parametrize("class_", [Checked, Counted])
def test_modules_with_ways_of_their_own_to_read_and_set(class_):
    plain, scripted = class_(), script(class_())
    for _ in range(3):
        assert_same(scripted(np.ones(2)), plain(np.ones(2)))
