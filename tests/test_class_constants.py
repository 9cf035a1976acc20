"""Attributes of classes that programs name: constants, arrays, members of enums, methods."""
# mypy: allow-untyped-defs, allow-untyped-calls

import enum

import numpy as np
import pytest

from jitcore import script
from jitcore.execution.executor import Executor


class Side(enum.Enum):
    LEFT = 1
    RIGHT = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Settings:
    rate = 2.0
    weights = np.ones(3)

    @staticmethod
    def changed(x):
        return x * 3

    @classmethod
    def scaled(cls, x):
        return x * cls.rate


class Model(Settings):
    steps = 3


class Naming(type):
    """A metaclass whose classes have an attribute of its own."""

    @property
    def rate(cls):
        return len(cls.__name__)


class Named(metaclass=Naming):
    steps = 1


def step(x, level):
    y = x * Model.rate + Model.steps
    if level > 1:
        y = y + Model.weights
    side = Side.LEFT if level == Level.HIGH else Side.RIGHT
    return Model.scaled(Model.changed(y)), side, side is Side.LEFT


def of_metaclass(x):
    return x * Named.rate + Named.steps


def assert_same(scripted, x):
    for level in Level:
        found, expected = scripted(x, level), step(x, level)
        np.testing.assert_array_equal(found[0], expected[0])
        assert found[0].dtype == expected[0].dtype and found[1:] == expected[1:]


@pytest.fixture
def entered(monkeypatch):
    """The arguments of calls that no entry has taken."""
    found = []
    run = Executor.run

    def noting(self, args, captured=()):
        found.append(args)
        return run(self, args, captured)

    monkeypatch.setattr(Executor, "run", noting)
    return found


def test_entries_check_attributes_of_classes(entered):
    scripted, x = script(step), np.linspace(0.0, 1.0, 3)
    assert_same(scripted, x)
    del entered[:]
    assert_same(scripted, x)
    assert not entered


def test_attributes_of_classes_that_change(monkeypatch):
    scripted, x = script(step), np.linspace(0.0, 1.0, 3)
    assert_same(scripted, x)
    changes = [
        (Settings, "rate", 5.0),
        (Model, "rate", np.float32(7)),
        (Model, "steps", 1),
        (Model, "weights", np.full(3, 9.0)),
        (Settings, "changed", staticmethod(lambda x: x - 1)),
        (Model, "changed", np.negative),
        (Settings, "scaled", classmethod(lambda cls, x: x + cls.steps)),
        (Model, "scaled", classmethod(lambda cls, x: x - cls.rate)),
        (Model, "scaled", staticmethod(np.abs)),
    ]
    for class_, name, value in changes:
        monkeypatch.setattr(class_, name, value, raising=False)
        assert_same(scripted, x)
    Model.weights[0] = 4
    assert_same(scripted, x)
    monkeypatch.undo()
    assert_same(scripted, x)
    Settings.weights *= 2
    assert_same(scripted, x)


def test_attributes_of_metaclasses_come_first():
    scripted, x = script(of_metaclass), np.ones(2)
    np.testing.assert_array_equal(scripted(x), of_metaclass(x))
    type.__setattr__(Named, "steps", 4)
    np.testing.assert_array_equal(scripted(x), of_metaclass(x))


class Shape:
    sides = 0

    def __init__(self, area):
        self.area = area

    @classmethod
    def made(cls, area, *, scale=1.0):
        return cls(area * scale)

    @classmethod
    def below(cls, n):
        return cls.sides if n == 0 else n + cls.below(n - 1)

    @classmethod
    def told(cls, *args, **names):
        return cls.__name__, len(args), sorted(names)


class Square(Shape):
    sides = 4

    @classmethod
    def made(cls, area, **names):
        shape = super().made(area, **names)
        shape.name = cls.__name__
        return shape


def by_class_methods(x):
    total = 0.0
    for scale in range(3):
        total += Shape.made(x, scale=scale).area.sum() + Square.sides
    square = Square.made(x, scale=2)
    return total, vars(square), type(square), Shape.below(3), Square.below(2)


def class_methods_as_values(x):
    areas = [one.area for one in map(Square.made, (x, x + 1))]
    try:
        return Shape.made(x, 3)  # type: ignore[call-arg]
    except TypeError as error:
        return areas, str(error), Shape.told(1, n=x), Square.told(*[x, x]), Shape.made == Shape.made


@pytest.mark.parametrize("function", [by_class_methods, class_methods_as_values])
def test_class_methods(function):
    scripted, x = script(function), np.linspace(0.0, 1.0, 3)
    for _ in range(3):
        np.testing.assert_equal(scripted(x), function(x))
