# mypy: allow-untyped-defs, allow-untyped-calls
"""Attributes of modules, and globals, that callbacks and ignored functions assign."""

import functools
from typing import Any

import numpy as np
import pytest
from script_modules import assert_same

from jitcore import ScriptModule, ignore, nn, script, warmup
from jitcore.frontend.assignments import ANY_ATTRIBUTE, assigned_by, is_among

TOTAL = 0


def raise_total(first, second=1):
    global TOTAL
    TOTAL += first + second


class Tally:
    total = 0


class Spring(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 2.0
        self.place = np.ones(2)

    def stretch(self):
        self.scale += 1
        self.place = self.place + 1

    def forward(self, x):
        return x * self.scale


SPRING = Spring()
KEPT: list[Spring] = []


class Hand:
    def __init__(self, held):
        self.held = held

    def pull(self):
        self.held.stretch()

    def __call__(self):
        self.held.scale = 9.0


def stretch_kept():
    KEPT[0].stretch()


@ignore
def stretched():
    SPRING.stretch()


@ignore
def stretched_by_name():
    for name, value in {"scale": SPRING.scale + 10}.items():
        setattr(SPRING, name, value)


@ignore
def stretched_in_its_namespace():
    SPRING.__dict__["scale"] += 77.0


@ignore
def stretched_by_vars():
    vars(SPRING).update(scale=SPRING.scale + 5)


@ignore
def stretched_by_another():
    stretch_kept()


def stretch_global():
    SPRING.scale *= 2


def stretch_by_method():
    SPRING.stretch()


def leave_alone():
    return SPRING.scale


def move_nothing(x):
    moved = Tally()
    return moved, np.exp(x)


IGNORED = [
    stretched,
    stretched_by_name,
    stretched_in_its_namespace,
    stretched_by_vars,
    stretched_by_another,
]
CALLBACKS = {
    "function": lambda: stretch_global,
    "function with a method": lambda: stretch_by_method,
    "lambda": lambda: lambda: SPRING.stretch(),
    "setattr": lambda: lambda: setattr(SPRING, "scale", 4.0),
    "bound method": lambda: SPRING.stretch,
    "partial": lambda: functools.partial(Spring.stretch, SPRING),
    "object": lambda: Hand(SPRING),
    "scripted": lambda: script(stretch_global),
}
WRAPPED = {
    "argument": (lambda self, one: one(), lambda one: one),
    "list": (lambda self, one: one[0](), lambda one: [one]),
    "dict": (lambda self, one: [each() for each in one.values()], lambda one: {"a": one}),
    "object": (lambda self, one: one.held(), Hand),
}


def springing(act, base):
    class Springing(base):  # type: ignore[valid-type, misc]
        change = act

        def __init__(self):
            super().__init__()
            self.spring = SPRING

        def forward(self, x, callback):
            before = x * self.spring.scale, self.spring.place * 1
            self.change(callback)
            return before, self.spring(x), self.spring.place * 2, x * self.spring.scale

    return Springing()


def with_and_without(act, arguments):
    """What modules give that are plain and scripted, each with a spring of its own."""
    global SPRING
    found, x = [], np.arange(2.0)
    for base in (nn.Module, ScriptModule):
        SPRING = Spring()
        KEPT[:] = [SPRING]
        module = springing(act, base)
        found.append([module(x, one) for one in arguments()])
    return found


@pytest.mark.parametrize("function", IGNORED)
def test_attributes_that_ignored_functions_assign_through_globals(function):
    plain, scripted = with_and_without(lambda self, _: function(), lambda: [None] * 3)
    assert_same(scripted, plain)


@pytest.mark.parametrize("kind", CALLBACKS)
def test_attributes_that_callbacks_assign(kind):
    act = WRAPPED["argument"][0]
    plain, scripted = with_and_without(act, lambda: [CALLBACKS[kind]() for _ in range(3)])
    assert_same(scripted, plain)


@pytest.mark.parametrize("place", WRAPPED)
def test_attributes_that_callbacks_assign_after_others_that_do_not(place):
    act, wrap = WRAPPED[place]
    callbacks = [leave_alone] * 70 + [stretch_by_method] * 2
    plain, scripted = with_and_without(act, lambda: [wrap(one) for one in callbacks])
    assert_same(scripted, plain)


def test_callbacks_that_read_what_was_assigned_before_them():
    def outer(read, change, x):
        global TOTAL
        SPRING.scale = SPRING.scale + 1
        TOTAL += 1
        change()
        return read(x), SPRING.scale, TOTAL

    def reader(x):
        return x * SPRING.scale + TOTAL

    global SPRING, TOTAL
    found = []
    for function in (outer, script(outer)):
        SPRING, TOTAL = Spring(), 0
        found.append([function(reader, stretch_by_method, np.arange(2.0)) for _ in range(3)])
    assert_same(found[1], found[0])


def test_callbacks_that_come_first_where_nothing_is_run():
    def around(callback, x):
        before = x * TOTAL
        callback(2)
        return before, x * TOTAL

    global TOTAL
    x, found = np.arange(2.0), []
    scripted = script(around)
    warmup(scripted, raise_total, x)
    for function in (around, scripted):
        TOTAL = 1
        found.append([function(raise_total, x) for _ in range(3)])
    assert_same(found[1], found[0])


def test_globals_that_callbacks_assign():
    def around(callback, x):
        before = x * TOTAL
        callback(2)
        return before, x * TOTAL

    global TOTAL
    found = []
    for function in (around, script(around)):
        TOTAL = 1
        found.append([function(one, np.arange(2.0)) for one in (abs, raise_total, raise_total)])
    assert_same(found[1], found[0])


def test_what_is_deep_inside_containers_is_found():
    inside: list[Any] = [stretch_global]
    for _ in range(5000):
        inside = [inside]
    assert "scale" in assigned_by([inside])
    assert not assigned_by([move_nothing, list(range(10)), {"a": np.ones(3)}, np.exp, sorted])
    assert is_among("whatever", assigned_by([stretched_by_name]))


class Settings:
    def __init__(self, **given):
        for name, value in given.items():
            setattr(self, name, value)
        self.given = given

    def update(self, **given):
        self.__dict__.update(given)
        object.__setattr__(self, "given", given)
        self.changes = 1
        self.changes += 1


class Endless:
    __slots__ = ("empty",)

    def __getattr__(self, name):
        return Endless()


class Imposing:
    def impose(self, owner, name):
        owner.__setattr__(name, "text")

    def drop(self, owner):
        del owner.level


def test_what_objects_assign_of_themselves_is_no_change_of_modules():
    assert assigned_by([Settings(scale=1), Settings]) == set()
    assert assigned_by([Settings.update]) == {ANY_ATTRIBUTE, "changes", "given"}
    assert assigned_by([Imposing.drop]) == {"level", "* level"}
    assert assigned_by([Endless()]) == set()
    assert assigned_by([Imposing()]) == {"level", "* level", ANY_ATTRIBUTE}
