"""Loops that read, call and set objects in programs that Python runs, beside plain Python."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from checking import outcome
from jitcore import script
from jitcore.execution.plans import HostPlan, NativePlan


@dataclass(frozen=True)
class Settings:
    step: float
    rate: float
    count: int
    name: str = "plain"


@dataclass
class Body:
    place: float
    speed: float
    rate: float = 2.0

    def move(self, step):
        self.speed -= self.rate * self.place * step
        self.place += self.speed * step

    def energy(self):
        return 0.5 * self.speed**2 + 0.5 * self.rate * self.place**2


@dataclass
class World:
    body: Body
    field_: np.ndarray
    log: list[Any] = field(default_factory=list)
    time: float = 0.0

    def advance(self, step):
        self.field_[1:-1] += 0.1 * (self.field_[2:] - 2 * self.field_[1:-1] + self.field_[:-2])
        self.time += step


class Checked:
    """Its class looks at what is set."""

    def __init__(self):
        self.total = 0.0

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)
        object.__setattr__(self, "sets", getattr(self, "sets", 0) + 1)


def settings_beside_a_dict(settings, x, log):
    v = 0.0
    for _ in range(settings.count):
        v = v - settings.rate * x * settings.step
        x = x + v * settings.step
    log[settings.name] = x
    return x, v


def settings_in_arrays(settings, x, log):
    v = np.zeros_like(x)
    for number in range(settings.count):
        v = v - settings.rate * x * settings.step
        x = x + v * settings.step
        if number % 5 == 0:
            log[number] = float(x.sum())
    return x, v


def counts_of_a_dict(settings, x, log):
    n, total = log["n"], 0.0
    for number in range(n):
        total += number * x
    log["total"] = total
    return total


def rows_of_a_dict(settings, x, log):
    made = []
    for row in range(log["n"]):
        total = 0.0
        for column in range(log["m"]):
            total += x * row + column
        made.append(total)
    return made


def a_body_that_moves(body, count, log):
    for _ in range(count):
        body.move(0.01)
    log["energy"] = body.energy()
    return body


def a_body_set_from_outside(body, count, log):
    for number in range(count):
        body.move(0.01)
        if number % 7 == 3:
            body.speed = -body.speed
    log["place"] = body.place


def a_body_that_fails(body, count, log):
    values = log["values"]
    for number in range(count):
        body.move(0.01)
        body.speed += values[number]
    log["place"] = body.place


def a_world(world, count, log):
    for _ in range(count):
        world.advance(0.5)
        world.body.move(0.01)
    world.log.append({"time": world.time})
    return world.time


def a_body_under_two_names(world, count, log):
    body = world.body
    for _ in range(count):
        body.move(0.01)
        world.body.speed += 0.5
    log["is"] = body is world.body
    return body.speed


def setters_of_their_own(checked, count, log):
    for number in range(count):
        checked.total += number
    log["total"] = checked.total
    return checked.sets


def a_new_attribute(body, count, log):
    for number in range(count):
        body.last = number
    log["names"] = sorted(vars(body))


def arguments(name: str) -> tuple[Any, ...]:
    settings = Settings(0.01, 2.0, 30)
    if name in ("settings_beside_a_dict", "counts_of_a_dict", "rows_of_a_dict"):
        return settings, 1.5, {"n": 12, "m": 5}
    if name == "settings_in_arrays":
        return settings, np.linspace(0.0, 1.0, 9), {}
    if name in ("a_world", "a_body_under_two_names"):
        return World(Body(1.0, 0.25), np.linspace(0.0, 1.0, 9) ** 2), 20, {}
    if name == "setters_of_their_own":
        return Checked(), 20, {}
    return Body(1.0, 0.25), 20, {"values": [0.5] * 15}


PROGRAMS = [
    *(settings_beside_a_dict, settings_in_arrays, counts_of_a_dict, rows_of_a_dict),
    *(a_body_that_moves, a_body_set_from_outside, a_body_that_fails, a_world),
    *(a_body_under_two_names, setters_of_their_own, a_new_attribute),
]

NATIVE_LOOPS = [
    *(settings_beside_a_dict, counts_of_a_dict, rows_of_a_dict, a_body_that_moves),
    *(a_body_set_from_outside, a_world),
]


@pytest.mark.parametrize("plain", PROGRAMS, ids=lambda one: one.__name__)
def test_programs(plain: Callable[..., Any]) -> None:
    compiled = script(plain)
    for _ in range(40):  # until regions have been given up, and calls have entries
        args = arguments(plain.__name__)
        assert outcome(compiled, copy.deepcopy(args)) == outcome(plain, args)


@pytest.mark.parametrize("plain", NATIVE_LOOPS, ids=lambda one: one.__name__)
def test_native_loops(plain: Callable[..., Any]) -> None:
    compiled = script(plain)
    compiled(*arguments(plain.__name__))
    (found,) = compiled.specializations
    assert isinstance(found.plan, HostPlan)
    plans = [one.plan for region in found.plan.regions.values() for one in region.specializations]
    loops = [
        one for one in plans if isinstance(one, NativePlan) and one.graph.find_node("prim::Loop")
    ]
    assert loops


def test_other_objects_than_before() -> None:
    compiled = script(settings_beside_a_dict)
    given = [
        Settings(0.01, 2.0, 10),
        Settings(1, 2, 10),
        Body(1.0, 2.0),
        copy.deepcopy(Checked()),
        Settings(0.5, np.float64(2.0), 3),
        None,
    ]
    for one in [*given, *given]:
        assert outcome(compiled, (one, 1.0, {})) == outcome(settings_beside_a_dict, (one, 1.0, {}))


def test_methods_that_change() -> None:
    class Mover:
        def __init__(self):
            self.total = 0.0

        def move(self):
            self.total += 1.0

    def plain(mover, count, log):
        for _ in range(count):
            mover.move()
        log["total"] = mover.total
        return mover.total

    compiled, mover = script(plain), Mover()
    assert compiled(mover, 10, {}) == 10.0

    def other(self):
        self.total -= 2.0

    Mover.move = other  # type: ignore[method-assign]
    assert compiled(mover, 10, {}) == -10.0


def test_texts_in_attributes_that_arithmetic_refuses() -> None:
    def change(body):
        body.place = "far"

    compiled = script(changed_between_loops)
    for callback in (lambda body: None, change, change):
        wanted = outcome(changed_between_loops, (Body(1.0, 2.0), callback, []))
        assert outcome(compiled, (Body(1.0, 2.0), callback, [])) == wanted


def changed_between_loops(body, callback, log):
    total = 0.0
    for _ in range(10):
        total += body.place * body.rate
    callback(body)
    for _ in range(10):
        total += body.place * body.rate
    log.append(total)
    return total
