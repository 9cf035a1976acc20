"""Objects that are attributes of others, changed under all their names, compared with Python."""

# mypy: allow-untyped-defs, allow-untyped-calls

import dataclasses

import pytest

from checking import outcome
from jitcore import script
from jitcore.execution.plans import NativePlan


class Vector:
    """A place or a velocity."""

    def __init__(self, x, y):
        self.x = x
        self.y = y

    def add(self, other):
        self.x += other.x
        self.y += other.y

    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y)

    @property
    def squared(self):
        return self.x * self.x + self.y * self.y


class Body:
    """Something with a place and a velocity, which may be one object."""

    def __init__(self, position, velocity):
        self.position = position
        self.velocity = velocity
        self.steps = 0
        self.tag = "body"
        self.parent = None

    def step(self, dt):
        self.position.x += self.velocity.x * dt
        self.position.y += self.velocity.y * dt
        self.steps += 1

    def kick(self, change):
        self.velocity.add(change)

    def rest(self):
        self.position = Vector(0.0, 0.0)

    def place(self):
        return self.position


@dataclasses.dataclass
class Inner:
    """What is inside."""

    value: float
    count: int = 0


@dataclasses.dataclass
class Outer:
    """What is around."""

    child: Inner
    other: Inner

    def bump(self):
        self.child.value *= 2
        self.child.count += 1


def attribute_of_attribute(body):
    body.position.x += 1.0


def by_methods(body, n):
    for _ in range(n):
        body.step(0.5)
    return body.position.x


def of_two_arguments(body, n):
    other = body.velocity
    for i in range(n):
        body.position.x += other.y
        other.y += i
    return body.position.x


def second_name(body):
    place = body.position
    place.x = 5.0
    return body.position.x, body.place().x


def with_new_objects(body, n):
    for i in range(n):
        body.kick(Vector(1.0, i))
    return body.velocity.squared


def another_object(body):
    before = body.position
    body.rest()
    body.position.x = 3.0
    before.x += 1.0
    return before.x + body.position.x


def shared_from_here(body):
    body.velocity = body.position
    body.velocity.x = 7.0
    return body.position.x


def exchanged(body):
    body.position, body.velocity = body.velocity, body.position
    body.position.x += 1.0
    body.velocity.y -= 1.0


def one_of_two(body, n):
    if n > 2:
        chosen = body.position
    else:
        chosen = body.velocity
    chosen.x += 1.0
    return chosen


def in_a_branch(body, n):
    if body.position.x < n:
        body.position.x = 0.5
        body.velocity.add(body.position)
    else:
        body.step(1.0)
    return body.position.x


def changed_until(body, n):
    while body.position.x < n:
        body.step(0.25)
        if body.position.y > 3.0:
            body.rest()
            break
    return body.steps


def returned(body):
    body.position.x += 1.0
    return body.position


def is_same(body):
    place = body.place()
    body.position.x += 2.0
    return place is body.position, place is body


NATIVE = [
    *(attribute_of_attribute, second_name, another_object, shared_from_here, exchanged),
    *(returned, is_same, by_methods, of_two_arguments, with_new_objects, one_of_two),
    in_a_branch,
]


def made(n):
    body = Body(Vector(0.0, 1.0), Vector(1.0, 2.0))
    for _ in range(n):
        body.step(0.5)
    return body.position.x + body.position.y


def made_and_returned(n):
    body = Body(Vector(0.0, 1.0), Vector(1.0, 2.0))
    for _ in range(n):
        body.step(0.5)
    return body


def moved_on(n):
    place = Vector(0.0, 0.0)
    start = place
    for i in range(n):
        place = place + Vector(1.0, i)
    return place.x, place.y, start.x


def cycle_in_a_branch(body, n):
    if n > 1:
        body.parent = body
    body.steps += 1
    return body.steps


def cycle_in_a_loop(body, n):
    for _ in range(n):
        body.parent = body
    body.steps += 1
    return body


def cycle_of_two(body, n):
    for _ in range(n):
        body.position.parent = body.velocity
        body.velocity.parent = body.position
    return n


def cycle_made_here(n):
    vector = Vector(1.0, 2.0)
    while n > 0:
        vector.y = vector
        n -= 1
    return vector.x


class Odd:
    """Its ``__init__`` gives something, which Python refuses."""

    def __init__(self):
        return 5


def bodies():
    yield Body(Vector(1.0, 2.0), Vector(0.5, 0.25))
    yield Body(Vector(-1.0, 5.0), Vector(2.5, 4.0))
    both = Vector(1.0, 2.0)
    yield Body(both, both)


@pytest.mark.parametrize("program", [*NATIVE, changed_until], ids=lambda one: str(one.__name__))
def test_like_python(program):
    compiled = script(program)
    counts = (3, 0, 1) if program.__code__.co_argcount == 2 else ((),)
    for more in counts:
        args = () if more == () else (more,)
        for one, other in zip(bodies(), bodies(), strict=True):
            assert outcome(compiled, (one, *args)) == outcome(program, (other, *args))
    is_native = isinstance(compiled.specializations[0].plan, NativePlan)
    assert is_native == (program in NATIVE)


@pytest.mark.parametrize("program", [made, made_and_returned, moved_on])
def test_made_here(program):
    compiled = script(program)
    for n in (0, 1, 5):
        assert outcome(compiled, (n,)) == outcome(program, (n,))
    assert isinstance(compiled.specializations[0].plan, NativePlan)


@pytest.mark.parametrize("program", [cycle_in_a_branch, cycle_in_a_loop, cycle_of_two])
def test_cycles(program):
    compiled = script(program)
    for n in (0, 1, 2, 3):
        for one, other in zip(bodies(), bodies(), strict=True):
            for body in (one, other):
                body.parent = Vector(3.0, 4.0)
                body.position.parent = body.velocity.parent = None
            assert outcome(compiled, (one, n)) == outcome(program, (other, n))


def test_cycles_made_here():
    compiled = script(cycle_made_here)
    for n in (0, 1, 3):
        assert compiled(n) == cycle_made_here(n)


def test_an_init_that_gives_something():
    def made_odd(n):
        Odd()
        return n

    for function in (script(made_odd), made_odd):
        with pytest.raises(TypeError, match=r"__init__\(\) should return None, not 'int'"):
            function(1)


def test_dataclasses():
    def bumped(outer):
        outer.bump()
        outer.child.count += outer.other.count
        return outer.child.value

    compiled = script(bumped)
    both = Inner(2.5)
    for outer in (Outer(Inner(1.5), Inner(2.0, 4)), Outer(both, both)):
        expected = Outer(dataclasses.replace(outer.child), dataclasses.replace(outer.other))
        if outer.child is outer.other:
            expected.other = expected.child
        assert compiled(outer) == bumped(expected)
        assert outer == expected
    assert isinstance(compiled.specializations[0].plan, NativePlan)


def test_two_arguments_that_are_one():
    def pulled(one, other):
        one.position.add(other.position)
        other.position.x *= 2.0
        return one.position.x

    compiled = script(pulled)
    for is_one in (False, True):
        one, two = next(bodies()), next(bodies())
        found = outcome(compiled, (one, one if is_one else two))
        one, two = next(bodies()), next(bodies())
        assert found == outcome(pulled, (one, one if is_one else two))


def test_what_is_kept_twice_is_python_s():
    """A list would have copies of an object that changes later."""

    def kept(n):
        point, points = Vector(0.0, 0.0), []
        for i in range(n):
            point.x += i
            points.append(point)
        return [one.x for one in points]

    compiled = script(kept)
    assert compiled(4) == kept(4)


def test_exceptions_leave_what_python_leaves():
    def stopped(body, n):
        for i in range(n):
            body.position.x += 1.0
            if i == 2:
                raise ValueError("far")

    compiled = script(stopped)
    for n in (2, 5):
        wanted = outcome(stopped, (next(bodies()), n))
        assert outcome(compiled, (next(bodies()), n)) == wanted
        assert (n > 2) == ("far" in str(wanted))
