"""Objects of users' classes as arguments and results of compiled functions, beside plain Python."""

# mypy: allow-untyped-defs, allow-untyped-calls

import functools
import gc
import linecache
import random
import sys
from typing import Any

import numpy as np
import pytest
from object_subjects import Body, Field, Pair, Rocket, Settings, Slotted, Vector, check

from checking import outcome
from jitcore import script


def moved(body, n, dt):
    for _ in range(n):
        body.step(dt)
        if body.x > 2.0:
            body.slow(dt)
    return body.energy


def test_methods_properties_and_constants_of_the_class() -> None:
    check(
        moved,
        lambda: (Body(0.0), 40, 0.25),
        lambda: (Body(0.0, -3.0, "other"), 40, 0.25),
        lambda: (Body(5, 2), 3, 1),
        lambda: (Body(0.0), 0, 0.25),
    )
    check(moved, lambda: (Rocket(0.0, 7), 20, 0.5))


def test_only_what_is_looked_at_counts() -> None:
    compiled = script(moved)
    for label in ("a", "b", None, 3, [1]):
        assert outcome(compiled, (Body(0.0, label=label), 3, 0.5))
    assert len(compiled.specializations) == 1


def test_frozen_dataclasses() -> None:
    def total(settings, x):
        for _ in range(settings.steps):
            x = x + settings.dt
        return x

    def changed(settings):
        settings.dt = 1.0

    def named(settings, x):
        return x * 2 if settings.name == "double" else x

    def reduced(settings, x):
        return x.sum(axis=settings.axis)

    check(total, lambda: (Settings(0.5, 3), 1.0), lambda: (Settings(0.5, 30), np.ones(3)))
    check(changed, lambda: (Settings(0.5, 3),), native=False)
    check(named, lambda: (Settings(0.5, 3, "double"), 1.0), lambda: (Settings(0.5, 3), 1.0))
    x = np.arange(6.0).reshape(2, 3)
    check(reduced, lambda: (Settings(0.1, 1), x), lambda: (Settings(0.1, 1, axis=1), x))


def test_arrays_in_attributes() -> None:
    def advanced(field, n):
        for _ in range(n):
            field.advance(0.1)
        return field.u.sum()

    def renewed(field, n):
        for _ in range(n):
            field.renew(0.1)

    def replaced(field, other):
        field.u = other
        return field

    def doubled(field):
        field.u *= 2
        return field.u

    def part(field):
        field.u = field.u[1:]

    check(advanced, lambda: (Field(16), 5), lambda: (Field(9), 0), lambda: (Field(1), 1))
    check(renewed, lambda: (Field(16), 5), lambda: (Field(16), 0))
    check(replaced, lambda: (Field(4), np.ones(3)), lambda: (Field(4), np.ones(4, int)))
    check(doubled, lambda: (Field(4),))
    check(part, lambda: (Field(4),), native=False)


def test_exceptions() -> None:
    def divided(body, n):
        for i in range(n):
            body.x += 1.0
            body.v = 1 / (3 - i)

    def stored(field, places):
        for i in range(len(places)):
            field.set(places[i], 0.5)

    def counted(body, n):
        for _ in range(n):
            body.x += 1
        return body.x

    check(divided, lambda: (Body(0.0), 3), lambda: (Body(0.0), 5))
    check(stored, lambda: (Field(4), [1, 2]), lambda: (Field(4), [1, 7, 2]), lambda: (Field(1), []))
    check(counted, lambda: (Body(2**63 - 3), 2), lambda: (Body(2**63 - 3), 5))


def test_two_arguments() -> None:
    def pulled(one, other, n):
        for _ in range(n):
            distance = one.distance(other)
            one.x += 0.25 * distance
            other.x -= 0.125 * distance
        return one.x, other.x

    def measured(one, other):
        return one.distance(other), one.label == other.label

    def same():
        body = Body(1.0)
        return body, body, 3

    check(pulled, lambda: (Body(0.0), Body(3.0), 3), same, lambda: (Body(0.0), Rocket(1.0, 1), 2))
    check(measured, lambda: (Body(0.0), Body(3.0)), lambda: same()[:2])


def test_arrays_under_two_names() -> None:
    def shifted(one, other):
        one.u[:] = one.u + 1
        other.u[:] = other.u * 2
        return one.u[0]

    def shared():
        one, other = Field(4), Field(4)
        other.u = one.u[::-1]
        return one, other

    check(shifted, lambda: (Field(4), Field(5)), shared)


def test_arguments_that_are_returned() -> None:
    def itself(body):
        body.x += 1
        return body

    def both(body, other):
        return body, (other, body.x)

    def one_of(body, other, first):
        return body if first and body.x > 0 else other

    check(itself, lambda: (Body(1.0),), lambda: (Slotted(2),))
    check(both, lambda: (Body(1.0), Body(2)))
    for first in (True, False):
        make = functools.partial(lambda one: (Body(1.0), Body(2.0), one), first)
        check(one_of, make)


def test_objects_that_are_made() -> None:
    def moved_vector(start, velocity, n):
        place = start
        for _ in range(n):
            place = place + velocity * 0.5
        return place

    def nothing_moved(start, velocity, n):
        place = Vector(0.0)
        for _ in range(n):
            place = place + velocity
        return place

    def components(vector):
        return Vector(vector.x), Vector(0.0, vector.y), vector.norm()

    def twice(vector):
        made = vector * 2.0
        return made, made

    def fixed(n):
        return Settings(0.5 * n, n, "made")

    def vectors(n):
        return Vector(0.0, 1.0), Vector(2.0, 0.5), n

    check(moved_vector, lambda: vectors(3), lambda: vectors(0))
    check(nothing_moved, lambda: vectors(3), lambda: vectors(0))
    check(components, lambda: (Vector(3.0, 4.0),))
    check(twice, lambda: (Vector(3.0, 4.0),), native=False)
    check(fixed, lambda: (3,))


def test_objects_in_attributes() -> None:
    def length(pair):
        return pair.first.norm() + (pair.first + pair.second).norm()

    def new_sum(pair):
        pair.first = pair.first + pair.second
        return pair.first.x

    def swapped(pair):
        pair.first, pair.second = pair.second, pair.first

    def made(vector, n):
        return Pair(vector, Pair(Vector(0.5 * n), n))

    def vectors():
        return (Pair(Vector(3.0, 4.0), Vector(1.0, 1.0)),)

    def one_vector():
        vector = Vector(3.0, 4.0)
        return (Pair(vector, vector),)

    check(length, vectors, one_vector)
    check(new_sum, vectors, one_vector)
    check(swapped, vectors, one_vector)
    check(made, lambda: (Vector(1.0), 3))


def test_objects_that_leave_stay_python_s() -> None:
    kept: list[Any] = []

    def stored(body):
        kept.append(body)
        body.x += 1.0
        return body.x

    def compared(body, other):
        return body == other, body is other

    def asked(body):
        return hasattr(body, "x"), isinstance(body, Rocket)

    check(stored, lambda: (Body(0.0),), native=False)
    check(compared, lambda: (Body(0.0), Body(0.0)), native=False)
    check(asked, lambda: (Body(0.0),), lambda: (Rocket(0.0, 1),), native=False)


def test_references_are_counted() -> None:
    @script
    def advanced(field, other):
        field.renew(0.5)
        other.u = field.u
        return Pair(other, field)

    value, held = 1234.5, np.ones(3)
    field, other = Field(3), Field(3)
    field.rate, field.u = value, held
    for _ in range(3):
        result = advanced(field, other)
        field.u = held
    del result
    gc.collect()
    before = [sys.getrefcount(one) for one in (field, other, value, held, Field, Pair)]
    for _ in range(100):
        result = advanced(field, other)
        field.u = held
    del result
    assert [sys.getrefcount(one) for one in (field, other, value, held, Field, Pair)] == before


def test_misses_drop_what_they_hold() -> None:
    compiled = script(moved)
    compiled(Body(0.0), 3, 0.5)
    label = object()
    body = Body(0.0, v=label)
    before = sys.getrefcount(label), sys.getrefcount(body)
    for _ in range(10):
        with pytest.raises(TypeError):
            compiled(body, 3, 0.5)
    gc.collect()
    assert (sys.getrefcount(label), sys.getrefcount(body)) == before


def _random_body(numbers: random.Random, depth: int) -> list[str]:
    pad = "    " * depth
    lines: list[str] = []
    number = numbers.choice(["p.x", "q.y", "i", "1.5", "p.norm()", "n", "r.y"])
    for _ in range(numbers.randint(1, 3)):
        lines += numbers.choice(
            [
                [f"{pad}p.x = {number}"],
                [f"{pad}q.y += {number}"],
                [f"{pad}r = p + q"],
                [f"{pad}r = r * 0.5"],
                [f"{pad}r.x -= {number}"],
                [f"{pad}p.z = {number}"],
                [f"{pad}if p.x > {number}:", f"{pad}    q.y += {number}"],
                [f"{pad}if r.x > {number}:", f"{pad}    r = p * 2.0", f"{pad}    q.x = 0.25"],
            ]
        )
    return lines


@pytest.mark.parametrize("seed", range(30))
def test_random_programs(seed: int) -> None:
    numbers = random.Random(seed)
    result = numbers.choice(["r", "p", "(q, r)", "p.x + q.y", "(p, q, r.x)", "None"])
    lines = [
        "def program(p, q, n):",
        "    r, i = Vector(1.0, 2.0), 0",
        *_random_body(numbers, 1),
        "    for i in range(n):",
        *_random_body(numbers, 2),
        *_random_body(numbers, 1),
        f"    return {result}",
    ]
    text = "\n".join(lines) + "\n"
    file = f"<random objects {seed}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"Vector": Vector}
    exec(compile(text, file, "exec"), namespace)
    program = namespace["program"]
    compiled = script(program)
    one = Vector(2.0, 2.0)
    for args in (
        lambda: (Vector(1.0, 2.0), Vector(0.5), 3),
        lambda: (Vector(1.0, 2.0), Vector(0.5), 0),
        lambda: (Vector(1, 2), Vector(0.5, -1), 2),
        lambda: ((one := Vector(1.5)), one, 2),
    ):
        assert outcome(compiled, args()) == outcome(program, args()), text
    del one


class Node:
    """A list of linked nodes."""

    def __init__(self, value, following=None):
        self.value = value
        self.following = following


def test_forms_of_objects_without_end() -> None:
    def first_two(node):
        return node.value + (node.following.value if node.following is not None else 0.0)

    compiled = script(first_two)
    node: Any = None
    for number in range(30):
        value: Any = [0.5, 1, np.float32(2), True][number % 4 if number < 20 else 0]
        node = Node(value, node)
        assert outcome(compiled, (node,)) == outcome(first_two, (node,))
    node.following = node
    assert outcome(compiled, (node,)) == outcome(first_two, (node,))
    assert len(compiled.specializations) <= 16
