# mypy: allow-untyped-defs, allow-untyped-calls
"""Attributes and variables that callbacks assign in ways that no name in their code shows."""

import collections
import contextlib
import functools
import gc
import itertools
import operator
import sys
import weakref
from collections.abc import Callable
from types import CellType, ModuleType
from typing import Any

import numpy as np
import pytest

from jitcore import Error, load, nn, script
from jitcore.execution.host_entries import CALLS_BEFORE_ENTRY
from jitcore.frontend.assignments import KnownCode, assigned_by

X = np.arange(4.0)
SCALE = 1.0
NAMESPACE = globals()


def scaled(x, scale):
    return (x * scale + 0.5) * 2.0 + np.sqrt(x) * x


class Scaling(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 2.0

    def forward(self, x, held):
        held["call"]()
        return scaled(x, self.scale)


class Modal(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Identity()

    def forward(self, x, held):
        held["call"]()
        return scaled(self.inner(x), 2.0 if self.training else 1.0)


def grow(function, module):
    function(module, "scale", module.scale + 1)


def add_to(namespace):
    namespace["scale"] += 1


class Sharing:
    scale: float

    def __init__(self, module):
        self.__dict__ = module.__dict__

    def grow(self):
        other = self
        other.scale += 1


class Passing:
    def __set__(self, instance, value):
        instance.target.scale = value


class Forwarding:
    scale = Passing()

    def __init__(self, target):
        self.target = target


def by_alias(module):
    assign = setattr
    return lambda: assign(module, "scale", module.scale + 1)


def by_text(module):
    return lambda: exec("module.scale += 1", {"module": module})


def by_held_namespace(module):
    namespace = module.__dict__
    return lambda: add_to(namespace)


def by_descriptor(module):
    other = Forwarding(module)

    def call():
        other.scale = module.scale + 1

    return call


WAYS = {
    "alias": by_alias,
    "text": by_text,
    "held namespace": by_held_namespace,
    "descriptor": by_descriptor,
    "map": lambda m: lambda: list(map(setattr, [m], ["scale"], [m.scale + 1])),
    "argument": lambda m: lambda: grow(setattr, m),
    "passed namespace": lambda m: lambda: add_to(vars(m)),
    "library": lambda m: lambda: operator.setitem(m.__dict__, "scale", m.scale + 1),
    "method of namespace": lambda m: lambda: m.__dict__.__setitem__("scale", m.scale + 1),
    "bound method": lambda m: functools.partial(m.__setattr__, "scale", m.scale + 1),
    "partial": lambda m: functools.partial(setattr, m, "scale", m.scale + 1),
    "update": lambda m: functools.partial(m.__dict__.update, scale=m.scale + 1),
    "shared namespace": lambda m: Sharing(m).grow,
}

MODES = {
    "train": lambda m: lambda: m.train(not m.training),
    "partial": lambda m: functools.partial(m.train, not m.training),
    "caller": lambda m: functools.partial(operator.methodcaller("train", not m.training), m),
    "by name": lambda m: lambda: getattr(m, "eval" if m.training else "train")(),
    "apply": lambda m: lambda: m.apply(lambda one: one.train(not one.training)),
}


def check_calls(plain, scripted, make):
    for _ in range(3):
        expected = plain(X, {"call": make(plain)})
        np.testing.assert_array_equal(scripted(X, {"call": make(scripted)}), expected)


@pytest.mark.parametrize("way", WAYS)
def test_attributes_that_callbacks_assign(way):
    check_calls(Scaling(), script(Scaling()), WAYS[way])


@pytest.mark.parametrize("way", MODES)
def test_modes_that_callbacks_set(way):
    check_calls(Modal(), script(Modal()), MODES[way])


class Registering(nn.Module):
    offset: np.ndarray

    def __init__(self):
        super().__init__()
        self.register_buffer("offset", np.zeros(4))
        self.last = nn.Identity()

    def forward(self, x, held):
        held["call"]()
        return self.last(scaled(x, 2.0) - 3.0 + self.offset)


REGISTERING = {
    "buffer": lambda m: lambda: m.register_buffer("offset", m.offset + 1),
    "module": lambda m: lambda: m.add_module("last", nn.ReLU()),
    "hook": lambda m: lambda: m.last.register_forward_hook(lambda one, args, y: y + 1),
    "state": lambda m: lambda: m.load_state_dict({"offset": m.offset + 1}),
    "dtype": lambda m: lambda: m.to(np.float32),
}


@pytest.mark.parametrize("way", REGISTERING)
def test_what_callbacks_register(way):
    check_calls(Registering(), script(Registering()), REGISTERING[way])


def scaled_around(x, held):
    before = SCALE
    held["call"]()
    return scaled(x, SCALE) + before


def by_globals():
    globals()["SCALE"] = 3.0


def by_exec():
    exec("global SCALE; SCALE = 3.0")


def by_module():
    sys.modules[__name__].SCALE = 3.0  # type: ignore[attr-defined]


def by_name_in_module():
    setattr(sys.modules[__name__], "SC" + "ALE", 3.0)


def by_global_namespace():
    NAMESPACE["SCALE"] = 3.0


@pytest.mark.parametrize(
    "call",
    [
        by_globals,
        by_exec,
        by_module,
        by_name_in_module,
        by_global_namespace,
        functools.partial(NAMESPACE.update, SCALE=3.0),
    ],
)
def test_globals_that_callbacks_assign_by_other_ways(call, monkeypatch):
    scripted = script(scaled_around)
    for _ in range(3):
        monkeypatch.setitem(NAMESPACE, "SCALE", 1.0)
        found = scripted(X, {"call": call})
        np.testing.assert_array_equal(found, scaled(X, 3.0) + 1.0)


class Box:
    """Calls what it holds."""

    def __init__(self, call):
        self.call = call

    def __call__(self):
        self.call()


def in_attribute(call):
    def calling():
        return vars(calling)["call"]()

    vars(calling)["call"] = call
    return calling


def in_generator(call):
    def stepping():
        yield call()

    steps = stepping()
    return lambda: next(steps, None)


def in_weak_reference(call):
    box = Box(call)
    alive.append(box)
    reference: Callable[[], Any] = weakref.ref(box)
    return lambda: reference()()


alive: list[Box] = []


def in_default_dict(call):
    held = collections.defaultdict[str, None](call)
    return lambda: held["new"]


def in_ufunc(call):
    ufunc = np.frompyfunc(lambda one: call() or one, 1, 1)
    return lambda: ufunc(X)


def in_dispatch(call):
    dispatched = functools.singledispatch(lambda one: None)
    dispatched.register(int, lambda one: call())
    return lambda: dispatched(1)


def in_context(call):
    @contextlib.contextmanager
    def calling():
        yield call()

    def enter():
        with calling():
            pass

    return enter


def in_iterator(call):
    iterator = iter(collections.deque([call]))
    return lambda: next(iterator)()


def in_star_map(call):
    iterator = itertools.starmap(call, [()])
    return lambda: next(iterator)


def in_cell(call):
    cell = CellType(call)
    return lambda: cell.cell_contents()


def in_module(call):
    module = ModuleType("users_module")
    module.call = call  # type: ignore[attr-defined]
    return lambda: module.call()


def in_held_module(call):
    module = ModuleType("users_module")
    module.call = call  # type: ignore[attr-defined]
    return functools.partial(lambda held: held["module"].call(), {"module": module})


def in_inner_module(call):
    module, inner = ModuleType("users_module"), ModuleType("users_module.inner")
    module.inner, inner.call = inner, call  # type: ignore[attr-defined]
    return lambda: module.inner.call()


def in_vectorized(call):
    box = Box(call)
    vectorized = np.vectorize(lambda one, box=box: (box(), one)[1], otypes=[float])
    return lambda: vectorized(1.0)


def in_static_method(call):
    class Holding:
        call = staticmethod(Box(lambda: None))

        def run(self):
            self.call()

    vars(Holding)["call"].__func__.call = call
    return Holding().run


def in_method_of_a_class(call):
    class Holding:
        run = Box(call).__call__

    return lambda: Holding.run()


PLACES = [
    *(in_attribute, in_generator, in_weak_reference, in_default_dict, in_ufunc, in_dispatch),
    *(in_context, in_iterator, in_star_map, in_cell, in_module, in_held_module, in_inner_module),
    *(in_vectorized, in_static_method, in_method_of_a_class),
]


@pytest.mark.parametrize("place", PLACES)
def test_functions_that_are_held_in_any_place(place, monkeypatch):
    scripted = script(scaled_around)
    for call in (lambda: None, by_globals, by_globals):
        monkeypatch.setitem(NAMESPACE, "SCALE", 1.0)
        found = scripted(X, {"call": place(call)})
        np.testing.assert_array_equal(found, scaled(X, SCALE) + 1.0)
        assert SCALE == (3.0 if call is by_globals else 1.0)


def test_what_only_reads_assigns_nothing():
    def reads(one):
        names = sorted(vars(one)) + list(one.__dict__.items())
        return "a" in one.__dict__, {**vars(one)}, one.__dict__["a"], [*names]

    assert assigned_by([reads]) == set()


@pytest.mark.parametrize("way", WAYS)
def test_loaded_modules_never_miss_what_callbacks_assign(way, tmp_path):
    script(Scaling()).save(tmp_path / "scaling.jc")
    loaded = load(tmp_path / "scaling.jc")
    np.testing.assert_array_equal(loaded(X, {"call": lambda: None}), scaled(X, 2.0))
    with pytest.raises(Error, match="'forward' has no source .* it has read scale when the call"):
        loaded(X, {"call": WAYS[way](loaded)})


class Reading(nn.Module):
    """Nothing in this is native."""

    def __init__(self):
        super().__init__()
        self.scale = 2.0

    def forward(self, held):
        before = self.scale
        held["call"]()
        return [before, self.scale, sorted(held)]


def test_loaded_modules_miss_nothing_in_calls_that_come_again(tmp_path):
    script(Reading()).save(tmp_path / "reading.jc")
    loaded = load(tmp_path / "reading.jc")
    before = loaded.scale
    for _ in range(CALLS_BEFORE_ENTRY + 8):
        assert loaded({"call": lambda: None}) == [2.0, 2.0, ["call"]]
    with pytest.raises(Error, match="it has read scale when the call began"):
        loaded({"call": WAYS["alias"](loaded)})
    loaded.scale = before
    assert loaded({"call": lambda: None}) == [2.0, 2.0, ["call"]]


class Stepping:
    def __init__(self):
        self.values = {"a": 2.0}

    def look(self):
        return self.values["a"]


def looked_up(x, held):
    return scaled(x, held.look()) * SCALE


def test_methods_that_assign_since_a_class_was_changed(monkeypatch):
    scripted, held = script(looked_up), Stepping()
    for _ in range(CALLS_BEFORE_ENTRY + 8):
        np.testing.assert_array_equal(scripted(X, held), scaled(X, 2.0))

    def look(self):
        by_globals()
        return 2.0

    monkeypatch.setitem(NAMESPACE, "SCALE", 1.0)
    monkeypatch.setattr(Stepping, "look", look)
    np.testing.assert_array_equal(scripted(X, held), scaled(X, 2.0) * 3.0)


def called():
    return None


class Calling:
    def look(self):
        called()
        return 2.0


def test_functions_that_methods_call_are_watched(monkeypatch):
    scripted, held = script(looked_up), Calling()
    for _ in range(CALLS_BEFORE_ENTRY + 8):
        scripted(X, held)
    monkeypatch.setitem(NAMESPACE, "SCALE", 1.0)
    monkeypatch.setitem(NAMESPACE, "called", by_globals)
    np.testing.assert_array_equal(scripted(X, held), scaled(X, 2.0) * 3.0)


def test_what_is_known_of_code_holds_as_long_as_the_code_does(monkeypatch):
    known, before = KnownCode(), called
    assert assigned_by([Calling()], known) == set()
    monkeypatch.setitem(NAMESPACE, "SCALE", 5.0)
    assert assigned_by([Calling()], known) == set()
    monkeypatch.setitem(NAMESPACE, "called", by_module)
    assert "* SCALE" in assigned_by([Calling()], known)
    monkeypatch.setitem(NAMESPACE, "called", before)
    assert assigned_by([Calling()], known) == set()
    monkeypatch.setattr(before, "__code__", by_module.__code__)
    assert "* SCALE" in assigned_by([Calling()], known)


TABLE = np.arange(3.0)
BOX = Box(called)


def reads_table():
    return TABLE[0], BOX()


def test_what_is_known_of_code_keeps_no_data(monkeypatch):
    known, array, box = KnownCode(), np.arange(5.0), Box(called)
    references: list[Callable[[], Any]] = [weakref.ref(array), weakref.ref(box)]
    monkeypatch.setitem(NAMESPACE, "TABLE", array)
    monkeypatch.setitem(NAMESPACE, "BOX", box)
    assert assigned_by([reads_table], known) == set()
    del array, box
    monkeypatch.undo()
    gc.collect()
    assert all(one() is None for one in references)
    assert assigned_by([reads_table], known) == set()
    monkeypatch.setitem(NAMESPACE, "BOX", Box(by_module))
    assert "* SCALE" in assigned_by([reads_table], known)


class Lying:
    @property  # type: ignore[misc]
    def __class__(self):
        raise RuntimeError("no class")


class Hiding:
    def __getattribute__(self, name):
        raise RuntimeError(f"no {name}")


class Pretending:
    @property  # type: ignore[misc]
    def __class__(self):
        return int


HELD = Lying()


def held_global(x):
    return [HELD], scaled(x, 2.0)


@pytest.mark.parametrize("class_", [Lying, Hiding, Pretending])
def test_objects_are_what_their_types_say(class_, monkeypatch):
    def kept(one, x):
        return [one], scaled(x, 2.0)

    def is_int(one, x):
        return type(one) is int, scaled(x, 2.0)

    one = class_()
    monkeypatch.setitem(NAMESPACE, "HELD", one)
    for found, y in (script(kept)(one, X), script(held_global)(X)):
        assert found[0] is one
        np.testing.assert_array_equal(y, scaled(X, 2.0))
    assert script(is_int)(one, X)[0] is False


def nested(depth, value):
    for _ in range(depth):
        value = (value,)
    return value


DEEP = nested(3000, 1.0)


@pytest.mark.parametrize("depth", [1, 30, 200, 3000])
def test_tuples_nested_deep(depth):
    def first(t, x):
        return t[0], x * len(t)

    def same(t):
        return t

    def with_global(x):
        return x + len(DEEP)

    given = nested(depth, X)
    found, y = script(first)(given, X)
    for _ in range(depth - 1):
        (found,) = found
    assert found is X
    np.testing.assert_array_equal(y, X)
    assert script(same)([given])[0] is given
    np.testing.assert_array_equal(script(with_global)(X), X + 1)


def counting(function):
    @functools.wraps(function)
    def wrapper(*args):
        wrapper.calls += 1  # type: ignore[attr-defined]
        return function(*args)

    wrapper.calls = 0  # type: ignore[attr-defined]
    return wrapper


@counting
def energy(x):
    return (x * x).sum()


def numbered(x):
    numbered.count = getattr(numbered, "count", 0) + 1  # type: ignore[attr-defined]
    return x + numbered.count  # type: ignore[attr-defined]


def test_attributes_of_functions_are_read_when_the_program_gets_there():
    def energies(x):
        energy.calls = 0
        total = sum(energy(x * k) for k in range(3))
        return total, energy.calls

    def counts(x):
        before = energy.calls
        energy(x)
        return before, energy.calls

    def names(x):
        y = numbered(x)
        return y, numbered.count, numbered.__name__  # type: ignore[attr-defined]

    for _ in range(3):
        assert script(energies)(X) == energies(X)
    assert script(energies)(X) == (energies(X)[0], 3)
    compiled = script(counts)
    for calls in range(3, 9):
        assert compiled(X) == (calls, calls + 1)
    compiled = script(names)
    for count in range(1, 5):
        y, *rest = compiled(X)
        assert rest == [count, "numbered"]
        np.testing.assert_array_equal(y, X + count)
