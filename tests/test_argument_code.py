# mypy: allow-untyped-defs, allow-untyped-calls
"""Code in arguments that assigns what a graph takes for granted, and calls that need no look."""

import types
from collections import ChainMap, UserList, deque
from dataclasses import dataclass, field, fields
from importlib import import_module

import numpy as np
import pytest

from jitcore import nn, script
from jitcore.execution.host_entries import CALLS_BEFORE_ENTRY

X = np.arange(5.0)
SCALE = 1.0


def scaled(x, scale):
    return (x * scale + 0.5) * 2.0 + np.sqrt(x) * x


def harmless():
    return None


def set_scale():
    global SCALE
    SCALE = 3.0


@pytest.fixture(autouse=True)
def scale(monkeypatch):
    monkeypatch.setitem(globals(), "SCALE", 1.0)


class Scaling(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 1.0

    def forward(self, x, held):
        return scaled(x, self.scale) * len(held)


class Plain:
    def __init__(self, **held):
        vars(self).update(held)


class Slotted:
    __slots__ = ("call",)

    def __init__(self, call):
        self.call = call

    def __iter__(self):
        return iter((self.call,))


class Holding:
    def __init__(self, call):
        self.call = call

    def __iter__(self):
        yield self.call


class Iterating(tuple[object, ...]):
    __slots__ = ()


def closure(call):
    return [lambda: call()]


def call_all(calls, x):
    for call in calls:
        call()
    return scaled(x, SCALE)


def call_first(calls, x):
    calls[0]()
    return scaled(x, SCALE)


WAYS = {
    "list": lambda call: [call],
    "tuple": lambda call: (call,),
    "set": lambda call: {call},
    "frozenset": lambda call: frozenset([call]),
    "deque": lambda call: deque([call]),
    "keys": lambda call: {call: 1}.keys(),
    "values": lambda call: {1: call}.values(),
    "iterator": lambda call: iter([call]),
    "map": lambda call: map(lambda one: one, [call]),
    "proxy": lambda call: types.MappingProxyType({call: 1}),
    "chain map": lambda call: ChainMap({call: 1}),
    "user list": lambda call: UserList([call]),
    "subclass": lambda call: Iterating((call,)),
    "slotted": Slotted,
    "object": Holding,
    "closure": closure,
    "array": lambda call: np.array([call]),
    "nested": lambda call: [vars(Plain(one=call))["one"]],
}


@pytest.mark.parametrize("way", WAYS)
def test_globals_that_callbacks_assign_after_many_calls(way, monkeypatch):
    scripted = script(call_all)
    for _ in range(CALLS_BEFORE_ENTRY + 8):
        np.testing.assert_array_equal(scripted(WAYS[way](harmless), X), scaled(X, 1.0))
    np.testing.assert_array_equal(scripted(WAYS[way](set_scale), X), scaled(X, 3.0))


def test_items_that_assign_after_many_calls():
    scripted = script(call_first)
    for _ in range(CALLS_BEFORE_ENTRY + 8):
        scripted([harmless, set_scale], X)
    np.testing.assert_array_equal(scripted([set_scale], X), scaled(X, 3.0))


@dataclass
class Quiet:
    size: int = field(default=1, metadata={"call": harmless})


@dataclass
class Assigning:
    size: int = field(default=1, metadata={"call": set_scale})


def call_fields(described, x):
    for one in fields(described):
        one.metadata["call"]()
    return scaled(x, SCALE)


def test_functions_that_fields_of_dataclasses_hold():
    scripted = script(call_fields)
    for _ in range(CALLS_BEFORE_ENTRY + 8):
        np.testing.assert_array_equal(scripted(Quiet(), X), scaled(X, 1.0))
    np.testing.assert_array_equal(scripted(Assigning(), X), scaled(X, 3.0))


class Multiplying:
    def __mul__(self, other):
        set_scale()
        return other


def item_times(d, x):
    return scaled(x, d["k"] * 2.0) * SCALE


def attribute_times(o, x):
    return scaled(x, o.k * 2.0) * SCALE


def asked(d, x):
    return scaled(x, SCALE) * len(d)


class Sized:
    def __len__(self):
        set_scale()
        return 2


@pytest.mark.parametrize(
    ("function", "make"),
    [
        (item_times, lambda: {"k": Multiplying()}),
        (attribute_times, lambda: Plain(k=Multiplying())),
        (asked, Sized),
    ],
)
def test_operators_of_parts_of_arguments(function, make, monkeypatch):
    monkeypatch.setitem(globals(), "SCALE", 1.0)
    expected = function(make(), X)
    monkeypatch.setitem(globals(), "SCALE", 1.0)
    np.testing.assert_array_equal(script(function)(make(), X), expected)


@pytest.mark.parametrize(
    ("function", "make"),
    [
        (asked, lambda: {number: Plain(k=1) for number in range(5)}),
        (asked, lambda: [[1], [2]]),
        (item_times, lambda: {"k": 1.0, "others": [Plain()]}),
        (attribute_times, lambda: Plain(k=1.0, others=[Plain()])),
        (Scaling(), lambda: {str(number): np.ones(3) for number in range(5)}),
    ],
)
def test_what_is_not_run_is_not_looked_at(function, make, monkeypatch):
    looks: list[object] = []
    monkeypatch.setattr(
        import_module("jitcore.execution.argument_code"), "assigned_by", looks.append
    )
    scripted, held = script(function), make()
    for x in (X, 2.0, np.arange(5), np.arange(6.0).reshape(2, 3)):
        args = (x, held) if isinstance(function, nn.Module) else (held, x)
        np.testing.assert_array_equal(scripted(*args), function(*args))
    assert not looks


def scaled_by_global(x):
    return x * SCALE


def one_after_another(first, second, x):
    first()
    return second(x) + x * 2


def test_functions_that_read_what_others_beside_them_assign(monkeypatch):
    scripted = script(one_after_another)
    for first, expected in ((harmless, X * 3), (set_scale, X * 5)):
        monkeypatch.setitem(globals(), "SCALE", 1.0)
        np.testing.assert_array_equal(scripted(first, scaled_by_global, X), expected)


class RaisingAttributes:
    __slots__ = ()

    def __getattr__(self, name):
        raise RuntimeError(name)


class RaisingNamespace:
    @property
    def __dict__(self):  # type: ignore[override]
        raise RuntimeError("no namespace")


class OfNoModule:
    __module__ = 5  # type: ignore[assignment]


@pytest.mark.parametrize("class_", [RaisingAttributes, RaisingNamespace, OfNoModule])
def test_looking_at_objects_runs_none_of_their_code(class_):
    def kept(one, x):
        return [one], scaled(x, SCALE)

    scripted, one = script(kept), class_()
    for _ in range(CALLS_BEFORE_ENTRY + 8):
        (found,), y = scripted(one, X)
        assert found is one
        np.testing.assert_array_equal(y, scaled(X, 1.0))
