# mypy: allow-untyped-defs, allow-untyped-calls
"""Script modules keep what is theirs apart from what the user's class defines."""

import copy
import threading
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from saving import reloaded

from jitcore import freeze, nn, script, trace
from jitcore.freezing.freeze import dump_alias_db

X = np.arange(6.0).reshape(2, 3)


class NamesOfState(nn.Module):
    """Has members under names that script modules keep state under."""

    _folded = 3.0
    _frozen_reasons = "reasons"
    _frozen_summary = "summary"

    def __init__(self):
        super().__init__()
        self.k = 2.0

    def _numerics(self):
        return 4.0

    def compiled_method(self, x):
        return x + 7.0

    def forward(self, x):
        return self.compiled_method(x) * self._folded * self.k + self._numerics()


class AttributesOfState(nn.Module):
    """Has attributes of its own under such names."""

    def __init__(self):
        super().__init__()
        self.compiled_method = 2.0
        self._folded = 4.0
        self._numerics = 1.0

    def forward(self, x):
        return x * self.compiled_method + self._folded + self._numerics


class AsksForAll(nn.Module):
    """Has attributes that its code finds by no name."""

    def __init__(self):
        super().__init__()
        self.inner = {"z": 3.0}

    def __getattr__(self, name):
        return self.inner[name]

    def forward(self, x):
        return x * self.z


class AsksForOthers(nn.Module):
    """Reads an attribute that only ``__getattr__`` names."""

    def __init__(self):
        super().__init__()
        self.k = 1.0
        self.k2 = 2.0

    def __getattr__(self, name):
        if name == "z":
            return self.__dict__.get("k2", 9.0)
        raise AttributeError(name)

    def forward(self, x):
        return x * self.k + self.z


class Looks(AsksForOthers):
    """The same, with ``__getattribute__``."""

    def __getattribute__(self, name):
        return super().__getattribute__("k2" if name == "z" else name)


def copied(module):
    return copy.deepcopy(script(module))


def frozen(module):
    return freeze(script(module))


def traced(module):
    return trace(module, X)


def frozen_copy(module):
    return copy.deepcopy(frozen(module))


FORMS = [script, copied, traced, frozen, frozen_copy]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("class_", [NamesOfState, AttributesOfState, AsksForOthers, Looks])
def test_the_class_may_use_any_name(class_, form):
    module = class_().eval()
    made = form(module)
    for _ in range(3):
        assert_array_equal(made(X), module(X))


@pytest.mark.parametrize("form", [script, traced])
def test_attributes_that_raise_something_else(form):
    assert_array_equal(form(AsksForAll())(X), X * 3)


@pytest.mark.parametrize("class_", [NamesOfState, AttributesOfState])
@pytest.mark.parametrize("form", [script, frozen])
def test_files_of_such_modules(class_, form):
    module = class_().eval()
    assert_array_equal(reloaded(form(module))(X), module(X))


def test_frozen_modules_say_why_attributes_stay():
    made = frozen(AsksForOthers().eval())
    reason = "its module has a method __getattr__, which may use it"
    assert f"k2: {reason}" in dump_alias_db(made).splitlines()


# Copies


class Guarded(nn.Module):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()
        self.scale = 3.0

    def __getstate__(self):
        state = dict(self.__dict__)
        del state["lock"]
        return state

    def forward(self, x):
        return x * self.scale


class InTwoParts(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 3.0

    def __getstate__(self) -> Any:
        return dict(self.__dict__), {}

    def forward(self, x):
        return x * self.scale


class OfTheBase(InTwoParts):
    def __getstate__(self):
        state: Any = super(InTwoParts, self).__getstate__()
        return {**state, "scale": 5.0}


class WithoutState(InTwoParts):
    def __getstate__(self):
        return None


def test_copies_of_frozen_modules_ask_for_nothing_that_is_folded():
    made = frozen_copy(Guarded().eval())
    assert_array_equal(made(X), X * 3)


@pytest.mark.parametrize("class_", [InTwoParts, OfTheBase])
def test_states_have_the_forms_that_python_knows(class_):
    module = class_()
    assert_array_equal(copied(module)(X), copy.deepcopy(module)(X))


def test_copies_without_a_state():
    assert vars(copied(WithoutState())) == vars(copy.deepcopy(WithoutState())) == {}


# Methods that modules hold


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0.0
        self.one = partial(self.add)
        self.several = {"some": [partial(self.add, 2.0, scale=3.0)]}
        self.free = partial(max, 1.0)

    def add(self, step=1.0, scale=1.0):
        self.count = self.count + step * scale

    def forward(self, x):
        self.one()
        self.several["some"][0]()
        return x * self.count


def test_partials_of_methods_are_the_script_modules_own():
    module, other = Counting(), Counting()
    scripted = script(module)
    for _ in range(3):
        assert_array_equal(scripted(X), other(X))
    assert module.count == 0.0
    assert scripted.count == other.count
    assert scripted.free is module.free


# Descriptors


class Doubling:
    def __set__(self, instance, value):
        instance.__dict__["held"] = value * 2

    def __get__(self, instance, owner=None):
        return self if instance is None else instance.__dict__["held"]


class Described(nn.Module):
    gain = Doubling()

    def __init__(self):
        super().__init__()
        self.held = 1.0

    def forward(self, x):
        before = self.held
        self.gain = before + 1
        return x * self.held + self.gain * before


def test_descriptors_that_set_other_attributes():
    module, scripted = Described(), script(Described())
    for _ in range(3):
        assert_array_equal(scripted(X), module(X))
    assert scripted.held == module.held


class NamedPart(nn.Module):
    """Has a part under a name of which there is no negative."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleDict({"a": nn.Sigmoid()})
        self.kind: Any = "a"

    def forward(self, x, negative):
        return self.parts[-self.kind](x) if negative else self.parts[self.kind](x)


def test_a_negative_text_fails_when_it_is_asked_for():
    module, scripted = NamedPart(), script(NamedPart())
    assert_allclose(scripted(X, False), module(X, False), rtol=1e-6)
    for one in (module, scripted):
        with pytest.raises(TypeError, match=r"bad operand type for unary -: 'str'"):
            one(X, True)
