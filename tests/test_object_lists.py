"""Lists of objects as arguments of compiled functions, beside plain Python."""

# mypy: allow-untyped-defs, allow-untyped-calls

import gc
import linecache
import math
import random
import sys
from typing import Any

import numpy as np
import pytest
from object_subjects import Body, Field, Pair, Rocket, Slotted, Vector, check

from checking import outcome
from jitcore import script
from jitcore.execution.host_entries import CALLS_BEFORE_ENTRY
from jitcore.pipeline import NativePlan


class Star:
    """A body in space, which pulls others."""

    G = 0.5

    def __init__(self, x, y, mass=1.0):
        self.x, self.y = x, y
        self.vx = self.vy = 0.0
        self.mass = mass
        self.hits = 0
        self.fixed = False
        self.name = f"star {x}"

    def pull(self, other, dt):
        dx, dy = other.x - self.x, other.y - self.y
        factor = self.G * dt / (dx * dx + dy * dy + 0.01) ** 1.5
        self.vx += factor * other.mass * dx
        self.vy += factor * other.mass * dy
        other.vx -= factor * self.mass * dx
        other.vy -= factor * self.mass * dy

    def move(self, dt):
        if self.fixed:
            return
        self.x += self.vx * dt
        self.y += self.vy * dt
        if abs(self.x) > 2.0:
            self.hits += 1

    @property
    def energy(self):
        return 0.5 * self.mass * (self.vx**2 + self.vy**2)

    def __lt__(self, other):
        return self.energy < other.energy

    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y)


def stars(n, dt=None):
    made = [Star(math.cos(i), 0.5 * i, 1.0 + 0.25 * i) for i in range(n)]
    return (made,) if dt is None else (made, dt, 20)


def simulated(bodies, dt, steps):
    for _ in range(steps):
        for i in range(len(bodies)):
            for j in range(i + 1, len(bodies)):
                bodies[i].pull(bodies[j], dt)
        for body in bodies:
            body.move(dt)
    return sum([body.energy for body in bodies])


def test_bodies_that_pull_each_other() -> None:
    def energy(bodies, dt, steps):
        for _ in range(steps):
            for i in range(len(bodies)):
                for j in range(i + 1, len(bodies)):
                    bodies[i].pull(bodies[j], dt)
            for body in bodies:
                body.move(dt)
        total = 0.0
        for body in bodies:
            total += body.energy
        return total, bodies[-1].hits

    check(energy, lambda: stars(5, 0.1), lambda: stars(1, 0.1), lambda: ([], 0.1, 20))
    compiled = script(simulated)
    assert outcome(compiled, stars(5, 0.1)) == outcome(simulated, stars(5, 0.1))


def test_loops_over_several() -> None:
    def numbered(bodies, others, weights):
        total = 0.0
        for i, body in enumerate(bodies):
            body.hits = i
        for body, other, weight in zip(bodies, others, weights):  # noqa: B905
            body.x += weight * other.x
            total += body.x
        for body in reversed(bodies):
            total = total * 0.5 + body.x
        return total

    def make():
        return *stars(4), [Vector(0.5 * i) for i in range(3)], [1.0, 2.0, 3.0, 4.0]

    check(numbered, make)


def test_objects_under_several_names() -> None:
    def largest(bodies):
        best = bodies[0]
        for body in bodies:
            if best < body:
                best = body
        best.x = 100.0
        first, last = bodies[0], bodies[-1]
        first.y, last.y = last.y, first.y
        return best.x, best is bodies[-1], best is not first

    def same_place(bodies, i, j):
        one, other = bodies[i], bodies[j]
        one.x = 5.0
        other.x += 1.0
        return one.x, one is other

    check(largest, lambda: stars(4), lambda: stars(1))
    for places in ((0, 1), (1, 1), (-1, 2), (0, 3), (-4, 0)):
        check(same_place, lambda places=places: (*stars(3), *places))  # type: ignore[misc]


def test_objects_with_other_objects() -> None:
    def summed(bodies, place):
        total = Vector(0.0, 0.0)
        for body in bodies:
            total = total + body
        place.x = bodies[0].x
        body = bodies[0] + bodies[-1]
        return total, body.norm(), place

    def nearest(bodies, body):
        found = 0
        for i in range(len(bodies)):
            if body.distance(bodies[i]) < body.distance(bodies[found]):
                found = i
        return found

    check(summed, lambda: (*stars(3), Vector(1.0)))
    bodies = [Body(2.0), Body(0.5), Body(3.0)]
    check(nearest, lambda: (bodies, Body(0.75)), lambda: (bodies, bodies[2]))


def test_objects_twice_or_of_other_classes() -> None:
    def moved(bodies, n):
        for _ in range(n):
            for body in bodies:
                body.step(0.5)
        return bodies[0].x

    def twice():
        body = Body(1.0)
        return [body, Body(2.0), body], 3

    def in_both(bodies, body):
        for one in bodies:
            one.x += body.x
        return body.x

    def shared():
        body = Body(1.0)
        return [Body(0.5), body, Body(2.0)], body

    check(moved, lambda: ([Body(1.0), Body(2.0)], 3), twice)
    check(moved, lambda: ([Body(1.0), Body(2.0)], 3), lambda: ([Body(1.0), Rocket(0.0, 2)], 3))
    check(moved, lambda: ([Rocket(0.0, 2), Rocket(1.0, 3)], 4))
    check(moved, lambda: ([Body(1.0), Body(2)], 3))
    check(in_both, lambda: ([Body(0.5), Body(2.0)], Body(1.0)), shared)


def test_two_lists() -> None:
    def copied(ones, others):
        for one, other in zip(ones, others):  # noqa: B905
            one.x = other.x + other.v

    def distance(ones, others):
        total = 0.0
        for one in ones:
            for other in others:
                total += one.distance(other)
        return total

    bodies = [Body(1.0), Body(2.0)]
    check(copied, lambda: ([Slotted(1.0)] + [Slotted(2.0)], [Body(0.5), Body(3.0)]))
    check(copied, lambda: ([Body(1.0)], [Body(0.5), Body(3.0)]), native=False)
    check(distance, lambda: (bodies, [Body(0.5)]), lambda: (bodies, bodies))


def test_lists_in_objects() -> None:
    def advanced(pair, n):
        for _ in range(n):
            for body in pair.first:
                body.x += pair.second * body.v
            pair.second *= 0.5
        return pair

    check(advanced, lambda: (Pair([Body(1.0), Body(2.0, -1.0)], 0.5), 3))


def test_attributes_that_change_their_types() -> None:
    def halved(bodies):
        for body in bodies:
            body.x = body.x / 2

    def labelled(bodies):
        for body in bodies:
            body.label = "seen"

    def without_x():
        bodies = [Body(1.0), Body(2.0)]
        del bodies[1].x
        return (bodies,)

    def stays(dt):
        return 0.0

    def own_step():
        bodies = [Body(1.0), Body(2.0)]
        bodies[1].step = stays  # type: ignore[method-assign]
        return (bodies,)

    def stepped(bodies):
        total = 0.0
        for body in bodies:
            total += body.step(0.5)
        return total

    check(halved, lambda: ([Body(1.0), Body(2.0)],), lambda: ([Body(1.0), Body(2)],), without_x)
    check(halved, lambda: ([Body(1), Body(2)],), native=False)
    check(labelled, lambda: ([Body(1.0), Body(2.0)],), native=False)
    check(stepped, lambda: ([Body(1.0), Body(2.0)],), own_step)


class Dim:
    """A class with a default: only objects that were given another level keep one themselves."""

    level = 0

    def __init__(self, **given):
        vars(self).update(given)


@pytest.mark.parametrize("level", [0, 7])
def test_defaults_of_classes(level: int) -> None:
    def plain(bodies, level):
        for body in bodies:
            body.level = level
        return sum([body.level for body in bodies])

    compiled = script(plain)
    for given in ([1, 2], [1, None, 0], [1, 0], [1, None], [None, 1], [None], [3, 4]):
        lists = [[Dim() if one is None else Dim(level=one) for one in given] for _ in range(2)]
        assert compiled(lists[0], level) == plain(lists[1], level)
        assert [vars(body) for body in lists[0]] == [vars(body) for body in lists[1]]
    assert isinstance(compiled.specializations[0].plan, NativePlan)


def test_exceptions() -> None:
    def divided(bodies):
        for body in bodies:
            body.v = 1.0
            body.x = 1.0 / body.x

    def beyond(bodies, n):
        for i in range(n):
            bodies[i].x += 1.0

    def stored(bodies, out):
        for i in range(len(bodies)):
            bodies[i].x += 1.0
            out[i] = bodies[i].x

    check(divided, lambda: ([Body(1.0), Body(2.0)],), lambda: ([Body(1.0), Body(0.0)],))
    check(beyond, lambda: ([Body(1.0), Body(2.0)], 2), lambda: ([Body(1.0), Body(2.0)], 3))
    for n in (2, 1):
        make = [Body(1.0), Body(2.0)], np.zeros(n)
        assert outcome(script(stored), make) == outcome(
            stored, ([Body(1.0), Body(2.0)], np.zeros(n))
        )


def test_lists_that_are_more_than_looked_at() -> None:
    def grown(bodies):
        bodies.append(Body(0.0))
        for body in bodies:
            body.x += 1.0

    def first(bodies):
        for body in bodies:
            body.x += 1.0
        return bodies[0]

    def itself(bodies):
        for body in bodies:
            body.x += 1.0
        return bodies

    def collected(bodies):
        found = []
        for body in bodies:
            if body.x > 1.0:
                found.append(body)
        return found

    bodies = lambda: ([Body(1.0), Body(2.0)],)
    for function in (grown, first, collected):
        check(function, bodies, native=False)
    check(itself, bodies)


def test_other_attributes() -> None:
    def flagged(bodies, field):
        for body in bodies:
            body.fixed = body.x > 0.0
            body.hits += 2
            field.u[0] += body.x
        return field.u.sum()

    check(flagged, lambda: (*stars(3), Field(3)))


def test_calls_with_little_to_do_are_left_to_python() -> None:
    @script
    def first_x(bodies):
        return bodies[0].x

    bodies = [Body(0.5 * i) for i in range(1000)]
    for _ in range(200):
        assert first_x(bodies) == 0.0
    bodies[0].x = 2.0
    assert first_x(bodies) == 2.0


def test_references_are_counted() -> None:
    @script
    def moved(bodies, n):
        for _ in range(n):
            for body in bodies:
                body.step(0.5)
        return bodies

    bodies, speed = [Body(0.0), Body(1.0)], 1234.5
    bodies[0].v = speed
    moved(bodies, 3)
    bodies.append(Body(0.0, v=object()))
    for _ in range(CALLS_BEFORE_ENTRY):  # from then on an entry holds the class
        with pytest.raises(TypeError):
            moved(bodies, 1)
    gc.collect()
    counted = (bodies, bodies[0], bodies[2], speed, bodies[2].v, Body)
    before = [sys.getrefcount(one) for one in counted]
    for _ in range(100):
        moved(bodies[:2], 3)
        with pytest.raises(TypeError):
            moved(bodies, 1)
    gc.collect()
    assert [sys.getrefcount(one) for one in counted] == before


def _random_body(numbers: random.Random, depth: int) -> list[str]:
    pad = "    " * depth
    lines: list[str] = []
    number = numbers.choice(["a.x", "b.y", "i * 0.5", "1.5", "a.norm()", "len(ps) * 1.0", "p.y"])
    for _ in range(numbers.randint(1, 3)):
        lines += numbers.choice(
            [
                [f"{pad}a.x = {number}"],
                [f"{pad}b.y += {number}"],
                [f"{pad}a, b = b, a"],
                [f"{pad}a = ps[i % len(ps)]"],
                [f"{pad}b = ps[-1 - i % len(ps)]"],
                [f"{pad}p.y = (a + b).norm()"],
                [f"{pad}if a.x > {number}:", f"{pad}    b.y += {number}"],
                [f"{pad}if a is b:", f"{pad}    b = ps[0]", f"{pad}    p.x += 1.0"],
                [f"{pad}for c in ps:", f"{pad}    c.x = c.x * 0.5 + {number}"],
            ]
        )
    return lines


@pytest.mark.parametrize("seed", range(30))
def test_random_programs(seed: int) -> None:
    numbers = random.Random(seed)
    lines = [
        "def program(ps, p, n):",
        "    a, b, i = ps[0], ps[-1], 0",
        *_random_body(numbers, 1),
        "    for i in range(n):",
        *_random_body(numbers, 2),
        *_random_body(numbers, 1),
        "    return a.x, b.y, a is b, p.x",
    ]
    text = "\n".join(lines) + "\n"
    file = f"<random object lists {seed}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"Vector": Vector}
    exec(compile(text, file, "exec"), namespace)
    program = namespace["program"]
    compiled = script(program)

    def vectors(count):
        return [Vector(0.5 * i, 1.0 - i) for i in range(count)]

    one = Vector(2.0, 1.0)
    for make in (
        lambda: (vectors(3), Vector(1.0, 2.0), 3),
        lambda: (vectors(1), Vector(1.0, 2.0), 0),
        lambda: ([one, *vectors(2)], one, 2),
        lambda: (vectors(2) * 2, Vector(0.5), 2),
    ):
        one.x = 2.0
        one.y = 1.0
        expected = outcome(program, make())
        one.x = 2.0
        one.y = 1.0
        assert outcome(compiled, make()) == expected, text
    assert isinstance(compiled.specializations[0].plan, NativePlan), text


class Place:
    """An object whose neighbours have it among theirs."""

    def __init__(self, number):
        self.number = number
        self.weight = 0.5
        self.neighbours: list[Place] = []
        self.all: list[Place] = []


def connect(places, a, b):
    places[a].neighbours.append(places[b])
    places[b].neighbours.append(places[a])
    places[a].weight += places[b].number
    return len(places[a].neighbours), places[b].weight


def test_lists_of_objects_that_refer_to_each_other():
    def numbers(function):
        places = [Place(number) for number in range(4)]
        for place in places:
            place.all = places
        given = [function(places, a, b) for a, b in ((0, 1), (0, 2), (1, 2), (0, 0), (3, 1))]
        return given, [[one.number for one in place.neighbours] for place in places]

    assert numbers(script(connect)) == numbers(connect)
