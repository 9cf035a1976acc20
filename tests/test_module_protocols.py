# mypy: allow-untyped-defs, allow-untyped-calls
"""What a module's class says about attributes, text, copies and arithmetic holds when scripted."""

import copy
import threading
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from saving import reloaded
from script_modules import assert_same

import jitcore
from jitcore import (
    CompilationError,
    ScriptModule,
    TracerWarning,
    freeze,
    nn,
    optimize_for_inference,
    script,
    trace,
)

X = np.arange(6, dtype=np.float32).reshape(2, 3)


# Methods that Python calls by itself


class Wrapper(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 2)
        self.log = []
        self.scale = 2.0

    def __getattr__(self, name):
        if name.startswith("__") or "inner" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __setattr__(self, name, value):
        if "log" in self.__dict__:
            self.log.append(name)
        super().__setattr__(name, value * 2 if name == "scale" else value)

    def __repr__(self):
        return f"Wrapper of {self.in_features}"

    def __dir__(self):
        return ["scale", "forward"]

    def __len__(self):
        return 7

    def __iter__(self):
        return iter(["a", "b"])

    def __contains__(self, name):
        return name == "a"

    def __getitem__(self, index):
        return index * 10

    def __setitem__(self, index, value):
        self.log.append((index, value))

    def __eq__(self, other):
        return other == "wrapper"

    def __hash__(self):
        return 12

    def __bool__(self):
        return False

    def __call__(self, *args):
        return super().__call__(*args) + 1

    def save(self, place):
        return f"saved in {place}"

    def forward(self, x):
        self.scale = self.scale + 1
        return self.inner(x) * self.scale * self.in_features + len(self) + self[3]


class Derived(Wrapper, ScriptModule):  # type: ignore[misc]  # its save is the user's own
    pass


def seen(module):
    module.scale = 5.0
    module[4] = "four"
    return (
        module.scale,
        module.log,
        module.in_features,
        repr(module),
        dir(module),
        len(module),
        list(module),
        ("a" in module, "b" in module),
        module[6],
        (module == "wrapper", hash(module), bool(module)),
        module.save("here"),
        module(X),
        module.scale,
        module.log,
    )


@pytest.mark.parametrize("make", [lambda: script(Wrapper()), Derived])
def test_methods_that_python_calls_are_those_of_the_class(make):
    plain, scripted = Wrapper(), make()
    scripted.load_state_dict(plain.state_dict())
    plain.log, scripted.log = [], []
    assert_same(seen(scripted), seen(plain))
    for one in (plain, scripted):
        with pytest.raises(AttributeError, match="nope"):
            one.nope
    assert "prim::SetAttr" in str(scripted.graph)


class Taken(nn.Module):
    kernels = "class attribute"

    def __init__(self):
        super().__init__()
        self.graph = [(0, 1), (1, 2)]
        self.original_name = "mine"

    def code(self):
        return "method"

    def forward(self, x):
        return x * len(self.graph)


def test_names_of_compiled_methods_are_free_for_attributes():
    scripted = script(Taken())
    assert scripted.graph == [(0, 1), (1, 2)]
    assert (scripted.original_name, scripted.code()) == ("mine", "method")
    assert scripted.kernels == "class attribute"
    assert_array_equal(scripted(X), X * 2)
    scripted.graph = [1, 2, 3]
    assert_array_equal(scripted(X), X * 3)
    scripted.schema = "an attribute"
    assert scripted.schema == "an attribute"
    del scripted.schema
    assert scripted.schema.startswith("forward(")
    assert "nowhere" not in dir(scripted)
    assert not hasattr(script(nn.ParameterList()), "graph")


# Copies


class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.calls = 0
        self.names = ["a"]

    def forward(self, x):
        self.calls += 1
        y = self.linear(x) * self.calls
        return y + 1 if self.training else y


def traced(module):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TracerWarning)
        return trace(module, X)


FORMS: dict[str, Any] = {
    "scripted": script,
    "loaded": lambda module: reloaded(script(module)),
    "frozen": lambda module: freeze(script(module.eval())),
    "frozen and loaded": lambda module: reloaded(freeze(script(module.eval()))),
    "traced": traced,
    "traced and loaded": lambda module: reloaded(traced(module)),
    "optimized": lambda module: optimize_for_inference(script(module.eval())),
    "loaded inside": lambda module: nn.Sequential(reloaded(script(module))),
    "loaded inside scripted": lambda module: script(nn.Sequential(reloaded(script(module)))),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("calls", [0, 1])
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies_do_what_the_module_does(form, calls, copied):
    module = FORMS[form](Part())
    if "inside" in form and copied is copy.copy:
        module = module[0]  # what is inside, both would share
    for _ in range(calls):
        module(X)
    made = copied([module])[0] if copied is copy.deepcopy else copied(module)
    assert made is not module
    assert type(made) is type(module)
    assert_same([made(X), made(X)], [module(X), module(X)])


def test_deep_copies_share_nothing_and_shallow_ones_all():
    for form in ("scripted", "loaded", "traced"):
        module: Any = FORMS[form](Part())
        both = copy.deepcopy({"one": module, "names": getattr(module, "names", None)})
        deep, shallow = both["one"], copy.copy(module)
        assert deep.names is both["names"] and deep.names is not module.names
        assert shallow.names is module.names
        module.linear.weight[...] = 0
        assert_same(shallow(X), module(X))
        assert not np.allclose(deep(X), module(X))
        deep.linear.weight[...] = 0
        deep.linear.bias[...] = 0
        assert len(set(deep(X).flat)) == 1


def test_copies_of_loaded_modules_have_all_modes():
    loaded = reloaded(script(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))))
    plain: Any = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    plain.load_state_dict(loaded.state_dict())
    made = copy.copy(copy.deepcopy(loaded.eval()))
    for mode in (False, True, False):
        assert_same(made.train(mode)(X), plain.train(mode)(X))


class Guarded(nn.Module):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()
        self.scale = 3.0

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name != "lock"}

    def __setstate__(self, state):
        self.__dict__.update(state, lock=threading.Lock())

    def forward(self, x):
        with self.lock:
            return x * self.scale


def test_copies_ask_the_class_for_the_state():
    scripted = script(Guarded())
    made = copy.deepcopy(scripted)
    assert made.lock is not scripted.lock
    assert_array_equal(made(X), X * 3)
    assert copy.copy(scripted).lock is scripted.lock


class OwnCopy(nn.Module):
    def __init__(self, scale=1.0):
        super().__init__()
        self.scale = scale

    def __deepcopy__(self, memo):
        return type(self)(self.scale * 2)

    def forward(self, x):
        return x * self.scale


def test_copies_by_the_class_itself():
    made = copy.deepcopy(script(OwnCopy()))
    assert isinstance(made, ScriptModule) and made.scale == 2.0
    assert_array_equal(made(X), X * 2)


# Arithmetic


def multiplied(x):
    return x * 3 + 1


def test_arithmetic_that_was_asked_for_is_no_other():
    contract = script(multiplied, numerics="contract")
    assert script(contract) is script(contract, numerics="contract") is contract
    for known in (contract, script(multiplied), reloaded(contract), trace(multiplied, X)):
        with pytest.raises(CompilationError, match="cannot give 'multiplied' numerics='strict'"):
            script(known, numerics="strict")
    values: list[Any] = [Guarded, [1, 2], {}]
    for value in values:
        with pytest.raises(CompilationError, match="numerics='contract'"):
            script(value, numerics="contract")
    with pytest.raises(ValueError, match="numerics is one of"):
        script(numerics="loose")


def test_arithmetic_of_a_module_is_that_of_all_its_methods():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = OwnCopy()

        @jitcore.export
        def other(self, x):
            return self.part(x) * 3 + 1

        def forward(self, x):
            return self.part(x)

    scripted = script(Two(), numerics="contract")
    for one in (
        scripted,
        copy.deepcopy(script(nn.Sequential(nn.Linear(3, 3)), numerics="contract")),
    ):
        assert one.forward.numerics == "contract"
    assert scripted.other.numerics == scripted.part.forward.numerics == "contract"
    assert copy.copy(scripted).other.numerics == "contract"
    frozen = freeze(scripted.eval(), ["part.forward"])
    assert frozen.part.forward.numerics == "contract"
    assert script(Two()).part.forward.numerics is None


# What modules hold, and what classes say


class Numbered(nn.Module):
    number = 3

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.calls = 0
        self.level = 1.0

    @property
    def twice(self):
        return self.level * 2

    @twice.setter
    def twice(self, value):
        self.level = value / 2

    def forward(self, x):
        self.calls += 1
        self.twice = self.twice + 1
        self.twice *= 2
        return self.linear(x) * self.twice


class Holding(Numbered):
    number = 4

    def __init__(self):
        super().__init__()
        self.part = Numbered()
        self.listed = [self.part, Numbered()]
        self.named = {"one": (self.part, [self.part])}
        self.same = self.listed
        self.around = [self]
        self.bound = self.part.forward
        self.features = None
        self.plain = [1, 2]
        self.part.register_forward_hook(self.keep)

    def keep(self, module, args, result):
        self.features = result * module.number

    def forward(self, x):
        y = self.listed[0](x) + self.part(x) + self.named["one"][1][0](x) + self.bound(x)
        inherited = super(Holding, self).forward  # noqa: UP008
        z = inherited(self.listed[1](x)) - Numbered.forward(self, x)
        return (
            (self.part.calls, self.listed[1].calls, self.calls, self.features),
            (self.listed[0] is self.part, self.named["one"][0] is self.part),
            (self.around[0] is self, self.same is self.listed),
            (type(self) is Holding, self.__class__ is Holding, type(self.part).__name__),
            (type(self).number, self.__class__.number, Holding.number, self.part.number),
            (y, z),
        )


def test_modules_that_are_held_elsewhere_as_well():
    plain, module = Holding(), Holding()
    module.load_state_dict(plain.state_dict())
    module.listed[1].load_state_dict(plain.listed[1].state_dict())
    scripted: Any = script(module)
    assert scripted.plain is module.plain
    for _ in range(3):
        assert_same(scripted(X), plain(X))
    assert module.calls == module.part.calls == 0


class Settled(Numbered):
    def forward(self, x):
        y = super(Settled, self).forward(x)  # noqa: UP008
        return y * type(self).number, type(self) is Settled


def test_properties_and_classes_are_in_files():
    plain, scripted = Settled(), script(Settled())
    scripted.load_state_dict(plain.state_dict())
    loaded = reloaded(scripted)
    for _ in range(3):
        expected = plain(X)
        assert_same(scripted(X), expected)
        assert_same(loaded(X)[0], expected[0])
    assert loaded.level == plain.level


def test_properties_that_are_replaced(monkeypatch):
    plain, scripted = Numbered(), script(Numbered())
    scripted.load_state_dict(plain.state_dict())
    assert_same(scripted(X), plain(X))

    def setter(self, value):
        self.level = value * 3

    monkeypatch.setattr(Numbered, "twice", property(lambda self: self.level + 1, setter))
    assert_same(scripted(X), plain(X))


def test_errors_are_pythons():
    class Lacking(nn.Module):
        def forward(self, x):
            return x + self.missing  # type: ignore[attr-defined]

    for module in (Lacking(), script(Lacking())):
        with pytest.raises(AttributeError) as caught:
            module(X)
        assert str(caught.value) == "'Lacking' object has no attribute 'missing'"
        assert caught.value.name == "missing"


# Frozen modules inside others

FROZEN: dict[str, Any] = {
    "frozen": lambda module: freeze(script(module)),
    "loaded": lambda module: reloaded(freeze(script(module))),
    "optimized": lambda module: optimize_for_inference(script(module)),
}
AROUND: dict[str, Any] = {
    "scripted": script,
    "frozen": lambda module: freeze(script(module)),
    "loaded": lambda module: reloaded(script(module)),
    "copied": lambda module: copy.deepcopy(script(module)),
}


@pytest.mark.parametrize("inside", FROZEN)
@pytest.mark.parametrize("around", AROUND)
def test_frozen_modules_inside_others(inside, around):
    plain = Part().eval()
    frozen = FROZEN[inside](copy.deepcopy(plain))
    module = AROUND[around](nn.Sequential(frozen, nn.ReLU()).eval())
    expected = nn.Sequential(plain, nn.ReLU()).eval()
    for _ in range(3):
        assert_same(module(X), expected(X))
    assert "CallMethod" not in str(module.graph)
