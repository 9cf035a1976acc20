"""Saving and loading modules: attributes, modes, frozen modules, copies, other processes."""
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import copy
import os
import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest
from saving import reloaded, run_in, saved
from script_modules import LAYERS, Residual, array, assert_same, lenet, mlp, native

import jitcore
from jitcore import (
    SerializationError,
    export,
    freeze,
    ignore,
    nn,
    optimize_for_inference,
    script,
)

MODELS = {**LAYERS, "lenet": (lenet(), array(2, 1, 28, 28)), "mlp": (mlp(), array(4, 8))}
MODELS["residual"] = (Residual(3, 4), array(2, 3, 8, 8))


@pytest.mark.parametrize("name", MODELS)
def test_models(name):
    model, *args = MODELS[name]
    scripted = script(copy.deepcopy(model))
    loaded = reloaded(scripted)
    assert loaded.code == scripted.code
    assert str(loaded.graph) == str(scripted.graph)
    assert repr(loaded) == repr(scripted)
    assert list(loaded.state_dict()) == list(scripted.state_dict())
    for mode in (False, True):
        for one in (scripted, loaded):
            one.train(mode)
        nn.manual_seed(3)
        expected = scripted(*args)
        nn.manual_seed(3)
        assert_same(loaded(*args), expected)
    for key, value in scripted.state_dict().items():
        np.testing.assert_array_equal(loaded.state_dict()[key], value)
    assert native(loaded) == native(scripted)


@pytest.mark.parametrize("name", MODELS)
def test_frozen_models(name):
    model, *args = MODELS[name]
    frozen = freeze(script(copy.deepcopy(model).eval()))
    loaded = reloaded(frozen)
    assert_same(loaded(*args), frozen(*args))
    assert loaded.code == frozen.code
    assert str(loaded.graph) == str(frozen.graph)
    assert jitcore.dump_alias_db(loaded) == jitcore.dump_alias_db(frozen)
    assert list(loaded.state_dict()) == list(frozen.state_dict())
    assert saved(loaded) == saved(frozen)


class Counting(nn.Module):
    weight: np.ndarray
    total: np.ndarray

    def __init__(self):
        super().__init__()
        self.register_parameter("weight", np.full(3, 2.0, np.float32))
        self.register_buffer("total", np.zeros(3, np.float32))
        self.register_buffer("passing", np.ones(3, np.float32), persistent=False)
        self.calls = 0
        self.names = ["a", "b"]
        self.options = {"scale": 0.5}
        self.fallback = None

    def forward(self, x):
        self.calls += 1
        self.total += x
        if self.fallback is not None:
            return self.fallback
        return x * self.weight * self.options["scale"] + len(self.names)

    @export
    def doubled(self, x: Any, times: int = 2) -> Any:
        return self.forward(x) * times

    def left_out(self):
        return 3

    @property
    def size(self):
        return len(self.weight)


def test_attributes_live_on():
    scripted = script(Counting())
    loaded = reloaded(scripted)
    x = np.arange(3, dtype=np.float32)
    assert_same(loaded(x), scripted(x))
    assert loaded.calls == 1 and loaded.names == ["a", "b"]
    np.testing.assert_array_equal(loaded.total, x)
    loaded.weight[...] = 4.0
    assert_same(loaded(x), x * 2 + 2)
    loaded.weight = np.ones(3, np.float32)
    loaded.names.append("c")
    assert_same(loaded(x), x * np.float32(0.5) + 3)
    assert_same(loaded.doubled(x), 2 * (x * np.float32(0.5) + 3))
    assert_same(loaded.doubled(x, times=3), 3 * (x * np.float32(0.5) + 3))
    assert list(loaded.state_dict()) == ["weight", "total"]
    assert [name for name, _ in loaded.named_buffers()] == ["total", "passing"]
    loaded.load_state_dict(scripted.state_dict())
    assert_same(loaded.weight, scripted.weight)


def test_what_the_file_has_no_graph_for_is_said():
    loaded = reloaded(script(Counting()))
    x = np.zeros(3, np.float32)
    loaded.fallback = x
    with pytest.raises(jitcore.Error, match=r"'fallback' was None\nSave the module in the"):
        loaded(x)
    loaded.fallback = None
    assert_same(loaded(x), x + 2)
    for name in ("left_out", "size"):
        with pytest.raises(AttributeError, match=f"no attribute '{name}'; it is not in the file"):
            getattr(loaded, name)


class Odd(nn.Module):
    def __init__(self):
        super().__init__()
        self.log = open(os.devnull, "w")
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x)


def test_attributes_that_no_method_needs_are_left_out():
    model = Odd()
    loaded = reloaded(script(model))
    model.log.close()
    x = array(2, 3)
    assert_same(loaded(x), model(x))
    with pytest.raises(AttributeError, match="no attribute 'log'"):
        loaded.log


class Asks(nn.Module):
    @ignore
    def python(self, x):
        return x

    def forward(self, x):
        return self.python(x)


def test_what_cannot_be_saved():
    with pytest.raises(SerializationError, match="'python'.*\n.*test_save_modules.py:.*\n"):
        saved(script(Asks()))
    model = nn.Linear(2, 2)
    model.register_forward_hook(lambda module, args, result: result)
    with pytest.raises(SerializationError, match="forward hook"):
        saved(script(model))
    with pytest.raises(SerializationError, match="script it first"):
        saved(nn.Linear(2, 2))


def test_shared_modules_and_weights():
    model: Any = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    model[2] = model[0]
    loaded = reloaded(script(model))
    assert loaded[2] is loaded[0] and loaded[1].weight is loaded[0].weight
    x = array(2, 3)
    loaded[0].weight += 1
    model[0].weight += 1
    assert_same(loaded(x), model(x))


def test_another_module_in_a_container():
    loaded = reloaded(script(mlp()))
    other = nn.Linear(8, 16)
    loaded[0] = script(other)
    expected = mlp()
    expected.load_state_dict(loaded.state_dict())
    x = array(4, 8)
    assert_same(loaded(x), expected(x))


class Named(nn.Module):
    """Asks a container for names."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Sigmoid()})

    def forward(self, x: Any) -> Any:
        if "c" in self.parts or "b" not in self.parts:
            x = x * 3
        return x, list(self.parts.keys()), "a" in self.parts, not "b" in self.parts  # noqa: E713


def test_names_in_a_container():
    model, x = Named(), array(4)
    scripted = script(model)
    assert str(reloaded(scripted)(x)) == str(scripted(x)) == str(model(x))
    for one in (model, scripted):
        one.parts["c"] = nn.Tanh()
        del one.parts["a"]
    assert str(scripted(x)) == str(model(x))


class Chosen(nn.Module):
    """Finds parts by names and numbers that are attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Sigmoid()})
        self.more = nn.ModuleList([nn.Tanh(), nn.ReLU()])
        self.kind, self.place = "a", -1

    def forward(self, x: Any) -> Any:
        if self.kind in self.parts:
            x = self.parts[self.kind](x)
        x = self.more[self.place](x)
        return [part(x) for part in self.parts.values()], f"{self.kind}{self.place}"


def test_parts_that_attributes_name():
    model, x = Chosen(), array(2, 4)
    scripted = script(model)
    for kind, place in (("a", -1), ("b", 0), ("a", 0)):
        for one in (model, scripted):
            one.kind, one.place = kind, place
        assert_same(scripted(x), model(x))
        assert_same(reloaded(scripted)(x), model(x))


def test_loaded_modules_are_saved_pickled_and_used_again():
    model = script(Gated())
    loaded = reloaded(model)
    x = array(4, 3)
    for again in (reloaded(loaded), pickle.loads(pickle.dumps(loaded)), copy.deepcopy(loaded)):
        for mode in (True, False):
            assert_same(again.train(mode)(x), model.train(mode)(x))
    assert saved(loaded.train()) == saved(model.train())
    outer = script(Around(loaded))
    for mode in (True, False):
        assert_same(reloaded(outer).train(mode)(x), model.train(mode)(x) + 1)
    assert_same(freeze(loaded.eval())(x), model.eval()(x))


class Gated(nn.Module):
    def forward(self, x):
        return x * 2 if self.training else x


class Around(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x) + 1


def test_copies_of_loaded_modules():
    loaded = reloaded(script(Counting()))
    x = np.ones(3, np.float32)
    deep, shallow = copy.deepcopy(loaded), copy.copy(loaded)
    assert shallow.weight is loaded.weight and deep.weight is not loaded.weight
    loaded.weight[...] = 10.0
    assert_same(shallow(x), loaded(x))
    assert_same(deep(x), np.full(3, 3.0, np.float32))
    shallow.weight = np.zeros(3, np.float32)
    assert_same(shallow(x), np.full(3, 2.0, np.float32))
    assert_same(loaded(x), np.full(3, 7.0, np.float32))


MODEL = """
import numpy as np
from jitcore import nn, script

class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(size, size), nn.BatchNorm1d(size), nn.ReLU())
        self.skip = True

    def forward(self, x):
        y = self.inner(x)
        return x + y if self.skip else y

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        nn.manual_seed(1)
        self.blocks = nn.ModuleList([Block(4), Block(4)])
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.drop(x)

model = script(Model())
"""

REPORT = """
import numpy as np
from jitcore import nn
x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
nn.manual_seed(2)
print(model(x).tolist())
print(model.eval()(x).tolist(), model.blocks[1](x).tolist())
print(model)
print(model.code)
print({name: value.tolist() for name, value in model.state_dict().items()})
"""


def test_a_process_without_the_source(tmp_path):
    source = tmp_path / "models.py"
    source.write_text(MODEL, encoding="utf-8")
    expected = run_in(tmp_path, "from models import model\nmodel.save('m.jit')\n" + REPORT)
    source.unlink()
    load = partial(run_in, tmp_path)
    assert load("import jitcore\nmodel = jitcore.load('m.jit')\n" + REPORT) == expected


class Listing(nn.Module):
    def __init__(self):
        super().__init__()
        self.shift = nn.Buffer(np.full(3, 2, np.float32))
        self.scale = nn.Parameter(np.full(3, 5, np.float32))
        self.inner = nn.Sequential(nn.ReLU(), nn.Linear(3, 3))

    def forward(self, x):
        names = []
        for name, buffer in self.named_buffers():
            names.append(name)
            x = x + buffer
        for name, parameter in self.named_parameters():
            names.append(name)
            x = x * parameter.sum()
        for module in self.children():
            x = module(x)
        names.extend([name for name, _ in self.named_modules()])
        return x, names

    @export
    def replace(self, scale):
        self.scale = nn.Parameter(scale * 2)


def test_methods_that_go_through_parameters_and_modules():
    model = Listing()
    x = array(2, 3)
    loaded = reloaded(script(model))
    assert_same(loaded(x), model(x))
    for one in (model, loaded):
        one.replace(x[0])
    assert list(dict(loaded.named_parameters())) == list(dict(model.named_parameters()))
    assert_same(loaded(x), model(x))


class Stage(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.scale = 2

    def forward(self, x):
        return self.norm(self.linear(x)) * self.scale


class Accumulating(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList([Stage(), Stage()])
        self.total = np.zeros(4, np.float32)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        for stage in self.stages:
            x = stage(x)
        self.total += x.sum(axis=0)
        return x

    @export
    def scaled(self, x):
        first: Any = self.stages[0]
        return x * first.scale


def test_loaded_modules_freeze():
    model, x = Accumulating().eval(), array(3, 4)
    loaded = reloaded(script(model))
    frozen = freeze(loaded)
    assert str(frozen.graph) == str(freeze(script(model)).graph)
    assert list(frozen.parameters()) == []
    eager = copy.deepcopy(model)
    for _ in range(2):
        np.testing.assert_allclose(frozen(x), eager(x), rtol=1e-5)
    assert (frozen.calls, loaded.calls) == (2, 0)
    np.testing.assert_allclose(frozen.total, eager.total, rtol=1e-5)
    assert not hasattr(frozen, "scaled")
    np.testing.assert_allclose(reloaded(frozen)(x), eager(x), rtol=1e-5)
    fast = optimize_for_inference(reloaded(script(Accumulating())))
    assert "batch_norm" not in str(fast.graph)
    assert "packed=" in str(fast.graph)


def test_what_loaded_modules_keep_when_they_freeze():
    model, x = Accumulating().eval(), array(3, 4)
    loaded = reloaded(script(model))
    frozen = freeze(loaded, ["scaled", "stages.1.linear.weight"])
    assert_same(frozen.scaled(x), model.scaled(x))
    assert [name for name, _ in frozen.named_parameters()] == ["stages.1.linear.weight"]
    dict(frozen.named_parameters())["stages.1.linear.weight"][...] = 0
    eager = copy.deepcopy(model)
    dict(eager.named_parameters())["stages.1.linear.weight"][...] = 0
    np.testing.assert_allclose(frozen(x), eager(x), rtol=1e-5)
    with pytest.raises(
        jitcore.Error, match="'scale' is a constant in .*; freeze the module before"
    ):
        freeze(loaded, ["stages.0.scale"])


class Sized(nn.ModuleList):
    def __len__(self):
        return 7


class Measuring(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = Sized([nn.ReLU()])

    def forward(self, x):
        return x * len(self.parts)


def test_special_methods_that_are_not_in_the_file():
    loaded = reloaded(script(Measuring()))
    with pytest.raises(AttributeError, match="'__len__'; it is not in the file"):
        loaded(array(2))


class Replaced(nn.Module):
    def __init__(self):
        super().__init__()
        self.forward = self.twice  # type: ignore[method-assign]  # a thing people do

    def twice(self, x):
        return x * 2

    def forward(self, x):
        return x


class Borrowing(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = nn.ReLU().forward

    def forward(self, x):
        return self.part(x)


def test_methods_of_objects_that_are_attributes():
    x = array(2)
    for module in (Replaced().eval(), Borrowing().eval()):
        scripted = script(module)
        assert_same(scripted(x), module(x))
        with pytest.raises(SerializationError, match="'forward' stands for|'self.part': cannot"):
            saved(scripted)
    with pytest.raises(jitcore.Error, match="'forward' was set on the Replaced itself"):
        freeze(script(Replaced().eval()))
    assert_same(freeze(script(Borrowing().eval()))(x), Borrowing()(x))
