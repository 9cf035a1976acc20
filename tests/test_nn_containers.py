"""Sequential, lists and dicts of modules and parameters."""

# mypy: allow-untyped-defs, allow-untyped-calls
# mypy: disable-error-code="arg-type, attr-defined, operator"
from __future__ import annotations

import numpy as np
import pytest

from jitcore import nn


def names(module):
    return [type(one).__name__ for one in module]


def test_sequential():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    x = np.ones((5, 3), np.float32)
    np.testing.assert_array_equal(model(x), model[2](model[1](model[0](x))))
    assert len(model) == 3
    assert names(model[:2]) == ["Linear", "ReLU"]
    assert names(model[1:]) == ["ReLU", "Linear"]
    assert list(model[1:].state_dict()) == ["2.weight", "2.bias"]
    assert model[-1] is model[2]
    assert model[1] in model
    assert nn.ReLU() not in model
    with pytest.raises(IndexError, match="index 3 is out of range for 3 modules"):
        model[3]


def test_sequential_with_names():
    model = nn.Sequential({"one": nn.Linear(3, 4), "two": nn.Tanh()})
    assert list(model.state_dict()) == ["one.weight", "one.bias"]
    assert model.two is model[1]
    del model[0]
    assert [name for name, _ in model.named_children()] == ["two"]


def test_sequential_changes():
    model = nn.Sequential(nn.ReLU())
    assert model.append(nn.Tanh()) is model
    model.extend([nn.SiLU(), nn.GELU()])
    model.insert(1, nn.ELU())
    assert names(model) == ["ReLU", "ELU", "Tanh", "SiLU", "GELU"]
    model[0] = nn.Mish()
    del model[1:3]
    assert names(model) == ["Mish", "SiLU", "GELU"]
    assert [name for name, _ in model.named_children()] == ["0", "1", "2"]
    assert type(model.pop(0)) is nn.Mish
    assert [name for name, _ in model.named_children()] == ["0", "1"]
    assert names(model + model) == ["SiLU", "GELU"] * 2
    assert names(model * 2) == names(2 * model) == ["SiLU", "GELU"] * 2
    model += nn.Sequential(nn.ReLU())
    assert names(model) == ["SiLU", "GELU", "ReLU"]
    with pytest.raises(ValueError, match="once or more, found 0"):
        model * 0
    with pytest.raises(TypeError, match="expected a Module or None, found int"):
        model.append(3)
    with pytest.raises(TypeError):
        model + [nn.ReLU()]


def test_module_list():
    layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
    assert len(list(layers.parameters())) == 6
    assert list(layers.state_dict())[2] == "1.weight"
    first = layers[0]
    layers.insert(0, nn.ReLU())
    assert layers[1] is first
    assert layers[-1] is layers[3]
    assert names(layers[:2]) == ["ReLU", "Linear"]
    assert isinstance(layers[:2], nn.ModuleList)
    del layers[0]
    layers += [nn.Tanh()]
    assert names(layers + [nn.ReLU()]) == ["Linear"] * 3 + ["Tanh", "ReLU"]
    assert type(layers.pop()) is nn.Tanh
    assert repr(nn.ModuleList()) == "ModuleList()"
    with pytest.raises(NotImplementedError):
        layers(np.ones(2))


def test_module_dict():
    layers = nn.ModuleDict({"a": nn.Linear(1, 2), "b": nn.ReLU()})
    layers.update([("c", nn.Tanh())])
    layers.update(nn.ModuleDict({"b": nn.SiLU()}))
    assert list(layers) == layers.keys() == ["a", "b", "c"]
    assert names(layers.values()) == ["Linear", "SiLU", "Tanh"]
    assert dict(layers.items())["a"] is layers["a"]
    assert "a" in layers
    assert "forward" not in layers
    assert len(layers) == 3
    assert type(layers.pop("c")) is nn.Tanh
    del layers["b"]
    assert list(layers.state_dict()) == ["a.weight", "a.bias"]
    with pytest.raises(KeyError, match="b"):
        layers["b"]
    with pytest.raises(KeyError, match="already has an attribute 'keys'"):
        layers["keys"] = nn.ReLU()
    layers.clear()
    assert len(layers) == 0


def test_parameter_list():
    values = nn.ParameterList([np.ones(2, np.float32), nn.Parameter(np.zeros(3))])
    values.append(np.ones(1))
    assert len(values) == 3
    assert [one.size for one in values] == [2, 3, 1]
    assert list(values.state_dict()) == ["0", "1", "2"]
    assert values[-1] is values[2]
    values[0] = np.full(2, 7.0)
    assert values[0][0] == 7
    model = nn.Module()
    model.values = values
    assert [name for name, _ in model.named_parameters()] == ["values.0", "values.1", "values.2"]
    with pytest.raises(IndexError, match="index 3 is out of range for 3 parameters"):
        values[3]
    part = values[1:]
    assert isinstance(part, nn.ParameterList)
    assert [one is other for one, other in zip(part, list(values)[1:], strict=True)] == [True] * 2
    values += [np.ones(4)]
    assert model.values is values
    assert [one.size for one in values] == [2, 3, 1, 4]


def test_parameter_dict():
    values = nn.ParameterDict({"a": np.ones(2)})
    values["b"] = nn.Parameter(np.zeros(3))
    assert values.keys() == list(values) == ["a", "b"]
    assert [one.size for one in values.values()] == [2, 3]
    assert [name for name, _ in values.items()] == ["a", "b"]
    assert "a" in values
    assert len(values) == 2
    values["a"] = np.full(2, 7.0)
    assert values["a"][0] == 7
    del values["a"]
    assert list(values.state_dict()) == ["b"]
    for change in (lambda: values["a"], lambda: values.__delitem__("a"), lambda: values.pop("a")):
        with pytest.raises(KeyError, match="a"):
            change()


def test_parameter_dicts_are_used_as_dicts():
    first, second = np.ones(2), np.zeros(3)
    values = nn.ParameterDict({"a": first})
    assert values.get("b") is None
    assert values.get("a", second) is first
    assert values.setdefault("a", second) is first
    assert values.setdefault("b", second) is second
    copied = values.copy()
    values |= {"c": first}
    assert values.popitem() == ("c", first)
    assert values.pop("b") is second
    assert values.keys() == ["a"]
    values.clear()
    assert not list(values.parameters())
    with pytest.raises(KeyError, match="empty"):
        values.popitem()
    assert copied.keys() == ["a", "b"]
    assert copied["b"] is second
