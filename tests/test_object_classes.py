"""What classes say of their objects' attributes: properties, slots, defaults, methods that look."""

# mypy: allow-untyped-defs, allow-untyped-calls

import functools

from object_subjects import Body, Slotted, check

from jitcore import script


def test_properties_that_are_set() -> None:
    def braked(body, n):
        for _ in range(n):
            body.speed = body.speed * 0.5
        return body.speed

    check(braked, lambda: (Body(0.0, -8.0), 3), lambda: (Body(0.0, 8.0), 2))


def test_slots() -> None:
    def counted(one, n):
        for i in range(n):
            one.add(i * 0.5)
        return one.x, one.count

    def wrong(one):
        one.other = 3

    def unset(one):
        return one.unset

    def given(one):
        one.unset = one.x

    check(counted, lambda: (Slotted(1.0), 5), lambda: (Slotted(2), 3))
    check(given, lambda: (Slotted(1.0),))
    check(wrong, lambda: (Slotted(1.0),), native=False)
    check(unset, lambda: (Slotted(1.0),), native=False)


def test_attributes_that_come_and_go() -> None:
    def stepped(body, n):
        for _ in range(n):
            body.step(0.5)
        return body.x + body.drag

    def stays(dt):
        return None

    def named(body):
        body.note = 1.5
        return body.note

    def with_own_drag():
        body = Body(0.0)
        body.drag = 3.0
        return body, 2

    def with_own_step():
        body = Body(0.0)
        body.step = stays  # type: ignore[method-assign]
        return body, 2

    def without_v():
        body = Body(0.0)
        del body.v
        return body, 2

    check(stepped, lambda: (Body(0.0), 2), with_own_drag, with_own_step, without_v)
    check(named, lambda: (Body(0.0),))


def test_a_default_of_the_class() -> None:
    class Counter:
        count = 0

        def add(self):
            self.count += 1

    def counted(counter, n):
        for _ in range(n):
            counter.add()
        return counter.count

    counter, plain = Counter(), Counter()
    compiled = script(counted)
    for _ in range(3):
        assert compiled(counter, 2) == counted(plain, 2)
        assert vars(counter) == vars(plain)
    other = Counter()
    assert (compiled(other, 2), vars(other)) == (2, {"count": 2})
    Counter.count = 10
    other = Counter()
    assert (compiled(other, 2), vars(other)) == (12, {"count": 12})


class Answers:
    """It has any attribute."""

    def __init__(self, x):
        self.x = x

    def __getattr__(self, name):
        return 2.5


class Watches:
    """It could see each attribute that is read."""

    def __init__(self, x):
        self.x = x

    def __getattribute__(self, name):
        return object.__getattribute__(self, name)


class Doubles:
    """It changes what it is given."""

    def __init__(self, x):
        object.__setattr__(self, "x", x)

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value * 2)


class Held:
    """A descriptor."""

    def __get__(self, instance, owner=None):
        return 1.5 if instance is None else instance.held

    def __set__(self, instance, value):
        instance.held = value * 3


class Described:
    x = Held()

    def __init__(self, x):
        self.x = x


class Cached:
    def __init__(self, x):
        self.x = x
        self.computed = 0

    @functools.cached_property
    def double(self):
        self.computed += 1
        return self.x * 2


def test_classes_that_look_at_attributes_stay_python_s() -> None:
    def increased(one):
        one.x += 1.0
        return one.x

    def doubled(one):
        one.x = one.double + one.double
        return one.double

    for class_ in (Answers, Watches, Doubles, Described):
        check(increased, functools.partial(lambda one: (one(1.0),), class_), native=False)
    check(doubled, lambda: (Cached(1.0),), native=False)


def test_classes_may_change() -> None:
    class Step:
        def __init__(self, size):
            self.size = size

        def of(self, x):
            return x + self.size

    def walked(step, n):
        x = 0.0
        for _ in range(n):
            x = step.of(x)
        return x

    compiled = script(walked)
    assert compiled(Step(1.0), 3) == 3.0
    Step.of = lambda self, x: x + 2 * self.size  # type: ignore[method-assign]
    assert compiled(Step(1.0), 3) == walked(Step(1.0), 3) == 6.0
    step = Step(1.0)
    Step.size = property(lambda self: 5.0, lambda self, value: None)
    assert compiled(step, 3) == walked(step, 3) == 30.0
