"""Numbers from outside that change from call to call: as inputs they cost no compilation."""
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from language_checking import is_native
from saving import reloaded

import jitcore
from checking import observed
from jitcore import nn, script
from jitcore.forms import CHANGES

FACTOR: object = 1.5
SIZES = (2, 3)


def scaled(x):
    for i in range(3):
        x = x * FACTOR + i
    return x


def shaped(x):
    return np.full(SIZES, x), SIZES[0]


def compilations(function, args, values, name):
    """Compare calls with each value of a global; gives how many graphs there have been."""
    scripted, graphs = script(function), list[Any]()
    for value in values:
        globals()[name] = value
        assert observed(scripted, args) == observed(function, args), value
        if not any(scripted.current_graph() is one for one in graphs):
            graphs.append(scripted.current_graph())
    return scripted, len(graphs)


@pytest.mark.parametrize(
    "values",
    [
        [float(i) for i in range(20)],
        list(range(-5, 15)),
        [np.float32(i) / 3 for i in range(20)],
        [1.5, 2, 2.5j, np.float64(3), 7, 0.25, 2**70, True, np.int8(3), 1.0, 3, -2.0],
    ],
)
def test_a_global(values, monkeypatch):
    monkeypatch.setitem(globals(), "FACTOR", FACTOR)
    x = np.linspace(-1, 1, 5)
    scripted, graphs = compilations(scaled, (x,), values, "FACTOR")
    assert graphs <= CHANGES + 2
    assert is_native(scripted)


def test_a_tuple(monkeypatch):
    monkeypatch.setitem(globals(), "SIZES", SIZES)
    values = [(i, 2) for i in range(9)] + [(3,), (1, 2, 3)]
    _, graphs = compilations(shaped, (2.5,), values, "SIZES")
    assert graphs <= CHANGES + 2


def test_what_is_no_number_any_more_is_read(monkeypatch):
    monkeypatch.setitem(globals(), "FACTOR", FACTOR)
    values = [*map(float, range(9)), "a", None, np.arange(5.0), [1.0], 3.5]
    compilations(scaled, (np.ones(5),), values, "FACTOR")


def test_equal_numbers_change_nothing(monkeypatch):
    monkeypatch.setitem(globals(), "FACTOR", FACTOR)
    _, graphs = compilations(scaled, (np.ones(3),), [float("2.5") for _ in range(9)], "FACTOR")
    assert graphs <= CHANGES + 2


def doubled(x):
    return x * 2


def negated(x):
    return -x


def called(x):
    if callable(FACTOR):
        return FACTOR(x) * SIZES[0]
    return x * FACTOR


def test_functions_in_the_place_of_numbers_are_told_apart(monkeypatch):
    monkeypatch.setitem(globals(), "FACTOR", FACTOR)
    monkeypatch.setitem(globals(), "SIZES", SIZES)
    scripted, x = script(called), np.ones(3)
    later = [(one, (2,)) for one in (doubled, negated, 7, doubled)]
    for factor, sizes in [*((one, (1,)) for one in range(9)), *later]:
        globals()["FACTOR"], globals()["SIZES"] = factor, sizes
        assert observed(scripted, (x,)) == observed(called, (x,)), (factor, sizes)


def read_late(x):
    x[0] = 7
    try:
        return x * FACTOR
    except NameError as error:
        return str(error)


@pytest.mark.parametrize("before", [[2.0], [*map(float, range(9))], [np.ones(3)]])
def test_what_is_deleted_is_missing_where_it_is_read(before, monkeypatch):
    monkeypatch.setitem(globals(), "FACTOR", FACTOR)
    scripted = script(read_late)
    for value in (*before, None, 3.0, None, np.ones(3)):
        globals().pop("FACTOR", None)
        if value is not None:
            globals()["FACTOR"] = value
        assert observed(scripted, (np.zeros(3),)) == observed(read_late, (np.zeros(3),)), value


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.times = 2
        self.weight: Any = nn.Parameter(np.ones(3))

    def forward(self, x):
        for i in range(self.times):
            x = x + self.weight * i
        return x


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.size, self.index, self.mode = 300000, (2, 3), 0, "plain"
        self.inner = Inner()
        self.layers = nn.ModuleList([nn.ReLU(), nn.Tanh()])

    def forward(self, x):
        if self.training:
            x = x + 1
        if self.mode == "plain":
            x = self.layers[self.index](x)
        return self.inner(x) * self.scale, x.sum(axis=self.index), np.zeros(self.size)


CHANGED = [
    ("scale", 7),
    ("scale", 2.5),
    ("size", (1, 2, 1)),
    ("index", 1),
    ("index", 7),
    ("inner.times", 4),
    ("scale", None),
    ("scale", 300000),
    ("index", 0),
]


def assign(module, path, value):
    *inside, name = path.split(".")
    for one in inside:
        module = getattr(module, one)
    setattr(module, name, value)


@pytest.mark.parametrize("kind", ["scripted", "loaded", "loaded twice", "copied"])
def test_attributes_of_modules(kind):
    plain, x = Outer(), np.linspace(-1, 1, 3)
    module = script(copy.deepcopy(plain))
    module = reloaded(module) if "loaded" in kind else module
    module = reloaded(module) if "twice" in kind else module
    module = copy.deepcopy(module) if kind == "copied" else module
    for path, value in CHANGED:
        for training in (True, False):
            for one in (plain, module):
                assign(one, path, value)
                one.train(training)
            assert observed(module, (x,)) == observed(plain, (x,)), (path, value)


def test_a_loaded_module_takes_equal_literals():
    module, plain = reloaded(script(Outer())), Outer()
    x = np.linspace(-1, 1, 3)
    for path, value in (("scale", int("300000")), ("mode", "".join(["pl", "ain"]))):
        for one in (module, plain):
            assign(one, path, value)
        assert observed(module, (x,)) == observed(plain, (x,))
    assign(module, "mode", "other")
    with pytest.raises(jitcore.Error, match="'mode' was 'plain'"):
        module(x)


def reshaped(x, a, b):
    y = x.reshape(a, b)
    y += 1
    return y.sum(axis=0)


def test_extents_below_zero_that_only_a_run_tells():
    compiled = script(reshaped)
    for a, b in ((3, 4), (4, 3), (2, 6), (6, 2), (-1, 6), (2, -1)):
        x, y = np.arange(12.0), np.arange(12.0)
        np.testing.assert_array_equal(compiled(x, a, b), reshaped(y, a, b))
        np.testing.assert_array_equal(x, y)
    for size, a, b in ((12, -3, -4), (12, -1, -12), (0, 0, -3), (0, -1, 0)):
        x = np.arange(float(size))
        with pytest.raises(ValueError):
            compiled(x, a, b)
        np.testing.assert_array_equal(x, np.arange(float(size)))
