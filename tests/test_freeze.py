# mypy: allow-untyped-defs, allow-untyped-calls
"""freeze: results stay, parameters go, and what a program may change stays an attribute."""

import copy
import functools
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from saving import reloaded
from script_modules import LAYERS, Residual, array, assert_same, lenet, mlp, native

import jitcore
from jitcore import Error, dump_alias_db, export, freeze, nn, script


def frozen_copy(module, *args, preserved_attrs=None):
    """Freeze a module, compare its results with the module's, and give it."""
    scripted = script(copy.deepcopy(module).eval())
    frozen = freeze(scripted, preserved_attrs)
    for _ in range(2):
        assert_same(frozen(*copy.deepcopy(args)), scripted(*copy.deepcopy(args)))
        assert_same(frozen(*copy.deepcopy(args)), module.eval()(*copy.deepcopy(args)))
    return frozen


def attributes(module):
    """The dotted names of all attributes but those that every module has."""
    return {
        ".".join(filter(None, (path, name)))
        for path, one in module.named_modules()
        for name in vars(one)
        if name not in ("_registered", "_forward_hooks", "_forward_pre_hooks")
    }


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    module, *args = LAYERS[name]
    frozen = frozen_copy(module, *args)
    assert list(frozen.parameters()) == list(frozen.buffers()) == list(frozen.children()) == []
    assert attributes(frozen) == set()
    assert dump_alias_db(frozen) == ""


def test_models():
    frozen = frozen_copy(mlp(), array(5, 8))
    assert native(frozen)
    assert attributes(frozen) == set()
    for module, x in (
        (lenet(), array(2, 1, 28, 28)),
        (Residual(3, 4, 2), array(2, 3, 8, 8)),
        (nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2), array(4, 2, 8)),
    ):
        assert attributes(frozen_copy(module, x)) == set()


def test_the_module_stays_as_it_is():
    scripted, x = script(mlp().eval()), array(5, 8)
    names, expected = [name for name, _ in scripted.named_parameters()], scripted(x)
    frozen = freeze(scripted)
    assert [name for name, _ in scripted.named_parameters()] == names
    scripted[0].weight = np.zeros_like(scripted[0].weight)
    assert_same(frozen(x), expected)
    del scripted
    assert_same(frozen(x * 2), frozen(x * 2))


def test_errors():
    with pytest.raises(Error, match="expects a ScriptModule as input, found Linear"):
        freeze(nn.Linear(2, 2))
    with pytest.raises(Error, match=r"in eval mode\. Please call \.eval\(\) .* this Linear is in"):
        freeze(script(nn.Linear(2, 2)))
    for name in ("nope", "weight.nope", "nope.weight"):
        with pytest.raises(Error, match=f"Unknown name: {name}"):
            freeze(script(nn.Linear(2, 2)).eval(), [name])
    with pytest.raises(Error, match="ModuleList has no forward; name methods in preserved_attrs"):
        freeze(script(nn.ModuleList()).eval())
    frozen = freeze(script(nn.Linear(2, 2)).eval())
    with pytest.raises(Error, match="not frozen"):
        freeze(frozen)
    with pytest.raises(Error, match="expects a module that .* has made, .*; found Linear"):
        dump_alias_db(script(nn.Linear(2, 2)))
    with pytest.raises(Error, match="found ScriptFunction"):
        dump_alias_db(script(nn.Linear(2, 2)).forward)
    with pytest.raises(AttributeError, match="'weight': freeze.. has made a constant of it"):
        frozen.weight
    with pytest.raises(AttributeError, match="cannot set 'weight'"):
        frozen.weight = np.zeros((2, 2), np.float32)
    assert dump_alias_db(copy.deepcopy(frozen)) == dump_alias_db(frozen)


def test_errors_of_calls_are_those_of_the_module():
    frozen = freeze(script(mlp().eval()))
    with pytest.raises(ValueError, match="expected 8 features") as caught:
        frozen(array(3, 4))
    assert "Linear(in_features=8" in caught.value.__notes__[0]


class Sub(nn.Module):
    shift: np.ndarray
    scale: float

    def __init__(self):
        super().__init__()
        self.scale = 2.0
        self.register_buffer("shift", np.arange(3.0))

    def forward(self, x):
        return x * self.scale + self.shift


class Model(nn.Module):
    bias: Any
    k: float

    def __init__(self):
        super().__init__()
        self.sub = Sub()
        self.k = 3
        self.count = 0
        self.bias = nn.Parameter(np.ones(3))
        self.unread = [1, 2]

    @jitcore.export
    def counted(self, x):
        self.count += 1
        return x + self.count

    @jitcore.export
    def other(self, x):
        return x * self.k

    def forward(self, x):
        return self.sub(x) * self.k + self.bias


X = np.array([1.0, -2.0, 0.5])


def test_preserved_attributes():
    frozen = frozen_copy(Model(), X, preserved_attrs=["k", "sub.scale", "unread"])
    assert attributes(frozen) == {"k", "sub", "sub.scale", "unread"}
    assert frozen.unread == [1, 2]
    plain = Model()
    for k, scale in ((5, 1.5), (2.5, 7), (5, 1.5)):
        frozen.k, frozen.sub.scale = plain.k, plain.sub.scale = k, scale
        assert_same(frozen(X), plain(X))
    assert native(frozen)
    assert dump_alias_db(frozen).splitlines() == [
        "k: it is preserved",
        "sub.scale: it is preserved",
        "unread: it is preserved",
    ]


def test_preserved_parameters_and_modules():
    frozen = frozen_copy(Model(), X, preserved_attrs=["bias", "sub"])
    assert [name for name, _ in frozen.named_parameters()] == ["bias"]
    assert attributes(frozen) == {"bias", "sub", "sub.scale", "sub.shift", "sub.training"}
    plain = Model()
    frozen.bias = plain.bias = np.array([4.0, 5.0, 6.0])
    frozen.sub.shift[1] = plain.sub.shift[1] = 9
    assert_same(frozen(X), plain(X))
    assert_same(frozen.sub(X), plain.sub(X))


def test_preserved_methods():
    frozen = frozen_copy(Model(), X, preserved_attrs=["counted", "other"])
    assert attributes(frozen) == {"count"}
    assert_array_equal(frozen.counted(X), X + 1)
    assert_array_equal(frozen.counted(X), X + 2)
    assert frozen.count == 2
    assert_array_equal(frozen.other(X), X * 3)
    (line,) = dump_alias_db(frozen).splitlines()
    assert line.startswith("count: it may be assigned, and prim::")
    assert "test_freeze.py:" in line


def test_methods_that_are_not_preserved_do_not_count():
    assert attributes(frozen_copy(Model(), X)) == set()


class Writes(nn.Module):
    total: np.ndarray

    def __init__(self):
        super().__init__()
        self.register_buffer("total", np.zeros(3))
        self.view = self.total[:2]
        self.same = self.total
        self.apart = np.zeros(3)
        self.seen = []
        self.table = {"a": 1}
        self.sizes = [3, 4]

    def forward(self, x):
        row = self.total
        row[:1] += x[0]
        self.seen.append(1)
        y = x + self.apart
        y += self.view[0] + self.same[0] + self.table["a"] + self.sizes[1]
        return y + len(self.seen)


def test_what_is_written_stays_with_all_that_shares_its_memory():
    module = Writes().eval()
    frozen = freeze(script(Writes()).eval())
    assert attributes(frozen) == {"total", "view", "same", "seen"}
    for _ in range(3):
        assert_same(frozen(X), module(X))
    assert_array_equal(frozen.total, module.total)
    assert frozen.same is frozen.total
    assert "total: it is written in place by prim::" in dump_alias_db(frozen)
    of_graph = dump_alias_db(frozen.graph)
    assert str(frozen.graph) in of_graph
    assert "prim::iadd" in of_graph.partition("WRITES")[2]


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.dropout = nn.Dropout(0.5)
        self.mode = "double"

    def forward(self, x):
        if self.training:
            self.calls += 1
        if self.mode == "double":
            return self.dropout(x) * 2
        return x


def test_branches_on_constants_go():
    frozen = frozen_copy(Branches(), X)
    assert attributes(frozen) == set()
    assert not frozen.graph.find_all_nodes("prim::If")
    assert frozen.code.count("return") == 1


class NoForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.k = 2

    @jitcore.export
    def doubled(self, x):
        return x * self.k


def test_a_module_without_forward():
    frozen = freeze(script(NoForward()).eval(), ["doubled"])
    assert_array_equal(frozen.doubled(X), X * 2)
    assert attributes(frozen) == set()


class Ignored(nn.Module):
    def __init__(self):
        super().__init__()
        self.k = 2
        self.sub = Sub()

    @jitcore.ignore
    def python(self, x):
        self.sub.scale += 1
        return x * self.k

    def forward(self, x):
        return self.sub(self.python(x))


def test_modules_that_python_sees_stay_whole():
    module = Ignored().eval()
    frozen = freeze(script(copy.deepcopy(module)))
    assert {"k", "sub", "sub.scale", "sub.shift"} <= attributes(frozen)
    for _ in range(3):
        assert_same(frozen(X), module(X))
    assert "k: its module is used as a value by prim::CallMethod" in dump_alias_db(frozen)


class Levelled(nn.Module):
    def __init__(self):
        super().__init__()
        self.held = 3
        self.seen = []
        self.weight = np.ones(2)

    def forward(self, x):
        before = self.held
        self.level = x.sum()
        return before, self.held, self.weight * 1, self.level

    @property
    def level(self):
        return self.held

    @level.setter
    def level(self, value):
        self.held = value if value > 0 else 0
        self.weight = self.weight + value
        self.seen.append(value)


class LevelledInPython(Levelled):
    @property
    def level(self):
        return self.held

    @level.setter
    @jitcore.ignore
    def level(self, value):
        self.held = value if value > 0 else 0
        self.weight = self.weight + value
        self.seen.append(value)


@pytest.mark.parametrize(
    ("class_", "reason"),
    [(Levelled, "it may be assigned"), (LevelledInPython, "its module's property level is used")],
)
def test_properties_keep_what_they_may_use(class_, reason):
    module, frozen = class_().eval(), freeze(script(class_()).eval())
    for x in (X, -X, X):
        assert_same(frozen(x), module(x))
    assert frozen.seen == module.seen
    assert f"weight: {reason}" in dump_alias_db(frozen)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 1
        self.inner = Stepped()

    def forward(self, x):
        self.scale += 1
        return self.inner(x) * self.scale

    @export
    def read(self, x):
        return x + self.scale + self.inner.steps


class Stepped(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = 0

    def forward(self, x):
        self.steps += 1
        return x * self.steps


def test_what_another_method_of_a_loaded_module_assigns():
    def results(module):
        return [one(X) for one in (module.read, module, module.read, module, module.read)]

    expected = results(Scaled().eval())
    scripted = script(Scaled().eval())
    assert_same(results(reloaded(freeze(scripted, ["read"]))), expected)
    with pytest.raises(Error, match="'scale' is a constant in what the module was loaded from"):
        freeze(reloaded(scripted), ["read"])


class Lengthy(nn.Module):
    def __init__(self):
        super().__init__()
        self.length = 1

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return self.length + index

    def __add__(self, other):
        return self.length + other

    def __contains__(self, one):
        return self.length == one

    def forward(self, x):
        return len(self) * x, self[0], self + 1, 1 in self, not self


def test_operators_of_modules_run_when_the_module_is_called():
    eager, frozen = Lengthy().eval(), freeze(script(Lengthy().eval()), ["length"])
    for length in (1, 0, 2):
        eager.length = frozen.length = length
        assert_same(frozen(X), eager(X))


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = np.arange(3.0)

    @functools.cached_property
    def norm(self):
        return float(np.sqrt((self.weight**2).sum()))

    def forward(self, x):
        return x / self.norm


def test_cached_properties():
    x = np.ones(3)
    expected = Normed()(x)
    assert_same(script(Normed())(x), expected)
    assert_same(freeze(script(Normed().eval()))(x), expected)
