"""Classes of users whose objects the tests give to calls, and the comparison with plain Python."""

# mypy: allow-untyped-defs, allow-untyped-calls

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from checking import outcome
from jitcore import script
from jitcore.pipeline import NativePlan


class Body:
    """Something that moves; ``log`` is what compiled code has no form of."""

    drag = 0.5

    def __init__(self, x, v=1.0, label="body"):
        self.x = x
        self.v = v
        self.label = label
        self.log = {"made": 1}

    def step(self, dt):
        self.x += self.v * dt
        return self.x

    def slow(self, dt):
        self.v -= self.drag * self.v * dt

    @property
    def energy(self):
        return 0.5 * self.v * self.v

    @property
    def speed(self):
        return abs(self.v)

    @speed.setter
    def speed(self, value):
        self.v = value if self.v >= 0 else -value

    def distance(self, other):
        return abs(self.x - other.x)


class Rocket(Body):
    """A class with a base."""

    def __init__(self, x, fuel):
        super().__init__(x, 0.0)
        self.fuel = fuel

    def step(self, dt):
        if self.fuel > 0:
            self.fuel -= 1
            self.v += 2.0 * dt
        return super().step(dt)


class Slotted:
    """A class whose objects have no dict."""

    __slots__ = ("count", "unset", "x")

    def __init__(self, x):
        self.x = x
        self.count = 0

    def add(self, y):
        self.x += y
        self.count += 1


@dataclasses.dataclass
class Vector:
    x: float
    y: float = 0.0

    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y)

    def __mul__(self, factor):
        return Vector(self.x * factor, self.y * factor)

    def norm(self):
        return math.sqrt(self.x * self.x + self.y * self.y)


@dataclasses.dataclass(frozen=True)
class Settings:
    dt: float
    steps: int
    name: str = "settings"
    axis: int = 0


@dataclasses.dataclass(slots=True)
class Pair:
    first: Any
    second: Any


class Field:
    """A state of arrays, as programs with NumPy have it."""

    def __init__(self, n):
        self.u = np.linspace(0.0, 1.0, n)
        self.rate = 0.1
        self.time = 0.0
        self.steps = 0

    def advance(self, dt):
        self.u[1:-1] += dt * self.rate * (self.u[2:] - 2 * self.u[1:-1] + self.u[:-2])
        self.time += dt
        self.steps += 1

    def renew(self, dt):
        self.u = self.u + dt * self.rate
        self.time += dt

    def set(self, place, value):
        self.steps += 1
        self.u[place] = value
        self.time = value


def check(
    function: Callable[..., Any], *makers: Callable[[], Sequence[Any]], native: bool = True
) -> None:
    """Compare calls with Python, twice each; the first decides whether compiled code takes them."""
    compiled = script(function)
    for number, make in enumerate(makers):
        for _ in range(2):
            assert outcome(compiled, make()) == outcome(function, make())
        if number == 0:
            assert isinstance(compiled.specializations[-1].plan, NativePlan) == native
