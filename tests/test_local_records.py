"""Objects of plain classes in compiled loops, compared with plain Python."""

# mypy: allow-untyped-defs, allow-untyped-calls

import dataclasses
import linecache
import math
import random
from typing import Any

import numpy as np
import pytest
from language_checking import check_calls

from checking import observed
from jitcore import script


class Welford:
    """Mean and variance of numbers as they come."""

    def __init__(self):
        self.count = 0
        self.mean = 0.0
        self.squares = 0.0

    def add(self, x):
        self.count += 1
        step = x - self.mean
        self.mean += step / self.count
        self.squares += step * (x - self.mean)

    @property
    def variance(self):
        return self.squares / (self.count - 1)


class Point:
    """A place in a plane."""

    dimensions = 2

    def __init__(self, x, y=0.0):
        self.x = x
        self.y = y

    def __add__(self, other):
        if not isinstance(other, Point):
            return NotImplemented
        return Point(self.x + other.x, self.y + other.y)

    def __mul__(self, factor):
        return Point(self.x * factor, self.y * factor)

    def __rmul__(self, factor):
        return self * factor

    def __neg__(self):
        return Point(-self.x, -self.y)

    def __lt__(self, other):
        return self.norm() < other.norm()

    def norm(self):
        return math.sqrt(self.x * self.x + self.y * self.y)

    def shift(self, dx):
        self.x += dx
        return self

    def plus(self, other, scale=1.0):
        return Point(self.x + scale * other.x, self.y + scale * other.y)


@dataclasses.dataclass
class Particle:
    """Something that moves between two walls."""

    position: float
    velocity: float = 1.0

    def step(self, dt):
        self.position += self.velocity * dt
        if self.position > 1.0 or self.position < 0.0:
            self.velocity = -self.velocity


class Generator:
    """Linear congruences."""

    FACTOR = 1103515245

    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state * self.FACTOR + 12345) % 2147483648
        return self.state / 2147483648


class Counter(Generator):
    """A class with a base."""

    def __init__(self, seed):
        super().__init__(seed)
        self.calls = 0

    def draw(self):
        self.calls += 1
        return self.next()


def moments(xs):
    found = Welford()
    for x in xs:
        found.add(x)
    return found.count, found.mean, found.variance


def path(n):
    place, velocity = Point(0.0), Point(1.0, y=0.5)
    for i in range(n):
        place = place + velocity * 0.1
        if place.norm() > 2.0:
            velocity = -velocity
        if i % 3 == 0:
            place = place.plus(velocity, scale=0.5)
    return place.x, place.y, Point.dimensions, place.dimensions


def bounces(n):
    one, two = Particle(0.0), Particle(0.5, velocity=-0.3)
    for _ in range(n):
        one.step(0.07)
        two.step(0.02)
    return one.position, one.velocity, two.position


def estimate(n):
    source = Generator(42)
    hits = 0
    for _ in range(n):
        x, y = source.next(), source.next()
        if x * x + y * y < 1.0:
            hits += 1
    return hits, source.state


def farthest(xs):
    best = Point(0.0)
    for x in xs:
        candidate = 2.0 * Point(x, 1.0)
        if best < candidate:
            best = candidate
    return best.x


def pushed(point, by):
    point.x += by


def through_functions(n):
    point = Point(0.0, 1.0)
    for i in range(n):
        pushed(point, i)
    return point.x


def test_objects_that_change() -> None:
    check_calls(moments, ([1.0, 2.0, 4.0],), ([1.0],), ([],), ([1, 2, 3],))
    check_calls(moments, (np.arange(5.0),))
    check_calls(bounces, (100,), (0,))
    check_calls(estimate, (100,))
    check_calls(through_functions, (4,))


def test_objects_that_are_values() -> None:
    check_calls(path, (100,), (0,))
    check_calls(farthest, ([1.0, -5.0, 3.0],), ([],))


def test_exceptions_are_python_s() -> None:
    def overflowing(n):
        source = Generator(1)
        for _ in range(n):
            source.state = source.state * 1000
        return source.state

    check_calls(overflowing, (3,), (10,))


class Positive(Point):
    """A place that refuses to be on the left."""

    def __init__(self, x, y=0.0):
        super().__init__(x, y)
        if x < 0:
            raise ValueError(f"{x} is on the left")


def test_objects_made_where_exceptions_are_caught() -> None:
    def made(x):
        try:
            place = Positive(x)
        except ValueError as error:
            return str(error)
        for step in range(3):
            place.x += step
        return place.x, place.y

    def replaced(x):
        try:
            place: Point = Positive(x)
            place.x += 1.0
        except ValueError:
            place = Point(0.5, 2.0)
        place.y -= place.x
        return place.x, place.y

    def known_before(x):
        place = other = Point(1.0)
        try:
            place.x += 1.0
            other = Positive(x)
            other.y = place.x
        except ValueError:
            place.y = 3.0
        other.x += 2.0
        return place.x, place.y, other.x, other.y, other is place

    for function in (made, replaced, known_before):
        compiled = script(function)
        for x in (2.0, -1.0, 0.0):
            assert observed(compiled, (x,)) == observed(function, (x,))


def test_operators_that_are_not_implemented() -> None:
    def added(n):
        point = Point(1.0)
        for _ in range(n):
            point + None
        return point.x

    check_calls(added, (2,), (0,), native=False)


def test_objects_that_others_know_stay_objects() -> None:
    def kept(n):
        point = Point(0.0)
        for i in range(n):
            point.x += i
        return point.x, [point.y, len([point])]

    def two_names(n):
        one, two = Point(0.0), Point(5.0)
        for _ in range(n):
            two = one
            one.x += 1.0
        return two.x

    def same(n):
        one, two = Point(0.0), Point(0.0)
        for _ in range(n):
            one.x += 0.0
        return one == two, one is two, one is one

    for function in (kept, two_names, same):
        check_calls(function, (3,), (0,), native=False)


def test_changes_are_seen_under_all_names() -> None:
    def chained(n):
        point = Point(0.0)
        for _ in range(n):
            point.shift(1.0).shift(2.0)
        return point.x

    def inside_another(n):
        inner = Point(1.0)
        outer = Point(inner)
        for _ in range(n):
            inner.x += 1.0
        return outer.x.x

    for function in (chained, inside_another):
        check_calls(function, (3,), (0,))


def test_names_of_one_object() -> None:
    def renamed(n):
        one = Point(0.0)
        two = one
        for _ in range(n):
            one.x += 1.0
        return two.x

    check_calls(renamed, (3,))


def test_missing_attributes() -> None:
    def sometimes(n):
        point = Point(0.0)
        if n > 2:
            point.z = 1.0  # type: ignore[attr-defined]
        for _ in range(n):
            point.x += 1.0
        return point.z  # type: ignore[attr-defined]

    check_calls(sometimes, (5,), (1,), native=False)


def test_bases() -> None:
    def drawn(n):
        source = Counter(7)
        total = 0.0
        for _ in range(n):
            total += source.draw()
        return total, source.calls

    assert observed(script(drawn), (5,)) == observed(drawn, (5,))


def test_classes_may_change() -> None:
    class Step:
        def __init__(self, size):
            self.size = size

        def of(self, x):
            return x + self.size

    def walked(n):
        step, x = Step(1.0), 0.0
        for _ in range(n):
            x = step.of(x)
        return x

    compiled = script(walked)
    assert compiled(3) == 3.0
    Step.of = lambda self, x: x + 2 * self.size  # type: ignore[method-assign]
    assert compiled(3) == walked(3) == 6.0
    Step.size = property(lambda self: 5.0, lambda self, value: None)
    assert compiled(3) == walked(3) == 30.0


def test_classes_that_look_at_attributes_stay_python_s() -> None:
    class Logged:
        def __init__(self, x):
            self.x = x

        def __setattr__(self, name, value):
            object.__setattr__(self, name, value * 2)

    def doubled(n):
        found = Logged(1.0)
        for _ in range(n):
            found.x = found.x + 1.0
        return found.x

    check_calls(doubled, (3,), native=False)


def test_slots_and_frozen_dataclasses() -> None:
    class Slotted:
        __slots__ = ("x",)

        def __init__(self, x):
            self.x = x

    @dataclasses.dataclass(frozen=True)
    class Frozen:
        x: float
        y: float = 2.0

        def moved(self, dx):
            return Frozen(self.x + dx, self.y)

    def slotted(n):
        found = Slotted(1.0)
        for _ in range(n):
            found.x = found.x + 1.0
        return found.x

    def frozen(n):
        found = Frozen(1.0)
        for i in range(n):
            found = found.moved(i * 0.5)
        return found.x + found.y

    def set_anew(n):
        found = Frozen(1.0)
        found.x = n  # type: ignore[misc]
        return found.x

    def without_a_slot(n):
        found = Slotted(1.0)
        found.y = n  # type: ignore[attr-defined]
        return found.x

    check_calls(slotted, (3,), (0,))
    check_calls(frozen, (3,), (0,))
    check_calls(set_anew, (3,), native=False)
    check_calls(without_a_slot, (3,), native=False)


def _random_body(numbers: random.Random, depth: int) -> list[str]:
    pad = "    " * depth
    lines: list[str] = []
    number = numbers.choice(["p.x", "q.y", "i", "1.5", "p.norm()", "n", "w.mean"])
    for _ in range(numbers.randint(1, 3)):
        lines += numbers.choice(
            [
                [f"{pad}p.x = {number}"],
                [f"{pad}p = p + q"],
                [f"{pad}q = Point({number}, p.y)"],
                [f"{pad}q = -p"],
                [f"{pad}p.shift({number})"],
                [f"{pad}w.add({number})"],
                [f"{pad}q = p"],
                [f"{pad}p, q = q, p"],
                [f"{pad}r = 2 * q", f"{pad}q = r.plus(p, 0.5)"],
                [f"{pad}if p < q:", f"{pad}    p.y += {number}"],
                [f"{pad}if p.x > {number}:", f"{pad}    q = p", f"{pad}    q.x = 0.25"],
            ]
        )
    return lines


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    numbers = random.Random(seed)
    lines = [
        "def program(n):",
        "    p, q, w, i = Point(1.0, 2.0), Point(0.5), Welford(), 0",
        *_random_body(numbers, 1),
        "    for i in range(n):",
        *_random_body(numbers, 2),
        *_random_body(numbers, 1),
        "    return p.x, p.y, q.x, q.y, w.count, w.mean",
    ]
    text = "\n".join(lines) + "\n"
    file = f"<random records {seed}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"Point": Point, "Welford": Welford}
    exec(compile(text, file, "exec"), namespace)
    program = namespace["program"]
    compiled = script(program)
    for n in (3, 0, 1):
        assert observed(compiled, (n,)) == observed(program, (n,)), text
