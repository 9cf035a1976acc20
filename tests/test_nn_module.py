"""Module: registered attributes, walks, hooks, modes, copies and text."""

# mypy: allow-untyped-defs, allow-untyped-calls
# What is registered is an array, and type checkers cannot know; other types are wrong on purpose.
# mypy: disable-error-code="arg-type, assignment, attr-defined, comparison-overlap"
# mypy: disable-error-code="func-returns-value, index"
from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

import jitcore
from jitcore import nn
from jitcore.nn import functional as F


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(np.full(3, 2.0, np.float32))
        self.register_buffer("shift", np.ones(3, np.float32))
        self.register_buffer("scratch", np.zeros(1), persistent=False)
        self.plain = np.zeros(2)
        self.inner = nn.Linear(3, 3)
        self.missing = None

    def forward(self, x):
        return self.inner(x * self.factor + self.shift)


def test_assignment_registers():
    module = Scale()
    assert [name for name, _ in module.named_parameters()] == [
        "factor",
        "inner.weight",
        "inner.bias",
    ]
    assert [name for name, _ in module.named_buffers()] == ["shift", "scratch"]
    assert [name for name, _ in module.named_children()] == ["inner"]
    assert [name for name, _ in module.named_modules()] == ["", "inner"]
    assert list(module.state_dict()) == ["factor", "shift", "inner.weight", "inner.bias"]
    assert len(list(module.parameters(recurse=False))) == 1
    assert len(list(module.buffers())) == 2
    assert list(module.children()) == [module.inner]


def test_parameters_are_plain_arrays():
    module = Scale()
    assert type(module.factor) is np.ndarray
    assert type(module.factor * 2) is np.ndarray
    data = np.ones(2, np.float32)
    assert nn.Parameter(data).data is data
    assert nn.Parameter([1.0, 2.0]).data.dtype == np.float32
    assert nn.Parameter([1, 2]).data.dtype == np.int64
    assert np.asarray(nn.Parameter([1.0, 2.0])).shape == (2,)

    class Other(np.ndarray):
        pass

    assert type(nn.Parameter(np.ones(2).view(Other)).data) is np.ndarray


def test_assignment_to_registered_names():
    module = Scale()
    new = np.zeros(3, np.float32)
    module.factor = new
    assert module.get_parameter("factor") is new
    module.factor = None
    assert "factor" not in module.state_dict()
    with pytest.raises(TypeError, match="'float' to parameter 'factor' of Scale"):
        module.factor = 1.0
    with pytest.raises(TypeError, match="'list' to buffer 'shift' of Scale"):
        module.shift = [1]
    with pytest.raises(TypeError, match="'ndarray' to module 'inner' of Scale"):
        module.inner = new
    module.inner = None
    assert list(module.named_children()) == []
    assert repr(module) == "Scale(\n  (inner): None\n)"
    module.shift = nn.ReLU()
    assert [name for name, _ in module.named_children()] == ["shift"]
    assert "shift" not in dict(module.named_buffers())
    module.plain = nn.Parameter(np.ones(1))
    assert "plain" in dict(module.named_parameters())
    module.marked = nn.Buffer(np.ones(1), persistent=False)
    assert "marked" in dict(module.named_buffers())
    assert "marked" not in module.state_dict()
    del module.plain
    assert "plain" not in dict(module.named_parameters())
    assert not hasattr(module, "plain")


def test_counts_stay_arrays():
    module = nn.BatchNorm1d(2)
    module(np.ones((3, 2), np.float32) * np.arange(3, dtype=np.float32)[:, None])
    assert isinstance(module.num_batches_tracked, np.ndarray)
    assert module.num_batches_tracked == 1
    module.num_batches_tracked = module.num_batches_tracked + 1
    assert isinstance(module.num_batches_tracked, np.ndarray)


def test_assignment_before_init():
    class Early(nn.Module):
        def __init__(self):
            self.layer = nn.ReLU()
            super().__init__()

    with pytest.raises(AttributeError, match="module 'layer' before Early has called super"):
        Early()


@pytest.mark.parametrize("name", ["a.b", "", "forward"])
def test_names_that_are_refused(name):
    module = nn.Module()
    for register in (
        lambda: module.register_parameter(name, np.ones(1)),
        lambda: module.register_buffer(name, np.ones(1)),
        lambda: module.add_module(name, nn.ReLU()),
    ):
        with pytest.raises(KeyError):
            register()


def test_values_that_are_refused():
    module = nn.Module()
    with pytest.raises(TypeError, match="'float' as parameter 'x'"):
        module.register_parameter("x", 1.0)
    with pytest.raises(TypeError, match="'float' as buffer 'x'"):
        module.register_buffer("x", 1.0)
    with pytest.raises(TypeError, match="expected a Module or None, found float"):
        module.add_module("x", 1.0)
    with pytest.raises(TypeError, match="must be a string"):
        module.register_buffer(1, np.ones(1))


def test_shared_parameters_come_once():
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    second.weight = first.weight
    both = nn.ModuleList([first, second, first])
    assert [name for name, _ in both.named_parameters()] == ["0.weight", "0.bias", "1.bias"]
    assert len(list(both.named_parameters(remove_duplicate=False))) == 6
    assert len(list(both.modules())) == 3
    assert len(both.state_dict()) == 6
    both.double()
    assert first.weight is second.weight
    copied = copy.deepcopy(both)
    assert copied[0].weight is copied[1].weight
    assert copied[0] is copied[2]
    assert copied[0].weight is not first.weight


def test_get_by_dotted_name():
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)))
    assert model.get_submodule("") is model
    assert model.get_submodule("0.1") is model[0][1]
    assert model.get_parameter("0.0.weight") is model[0][0].weight
    assert model.get_buffer("0.1.running_var") is model[0][1].running_var
    for get, name in [
        (model.get_submodule, "0.2"),
        (model.get_submodule, "0.0.weight"),
        (model.get_parameter, "0.1.running_var"),
        (model.get_buffer, "0.0.weight"),
    ]:
        with pytest.raises(AttributeError, match=name.rpartition(".")[2]):
            get(name)


def test_train_and_eval():
    model = nn.Sequential(nn.Dropout(), nn.Sequential(nn.BatchNorm1d(2)))
    assert model.eval() is model
    assert not any(module.training for module in model.modules())
    model.train()
    assert all(module.training for module in model.modules())
    with pytest.raises(ValueError, match="must be a bool"):
        model.train(1)


def test_apply_goes_inside_out():
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU()))
    seen = []
    assert model.apply(lambda module: seen.append(type(module).__name__)) is model
    assert seen == ["Linear", "ReLU", "Sequential", "Sequential"]


def test_to_converts_floats_only():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    x = np.ones((3, 2))
    assert model.double()(x).dtype == np.float64
    assert model[1].num_batches_tracked.dtype == np.int64
    assert model.to("float32")[0].weight.dtype == np.float32
    assert model.half()[0].weight.dtype == np.float16
    assert model.float()[0].weight.dtype == np.float32
    with pytest.raises(TypeError, match="floats only, found int32"):
        model.to(np.int32)


def test_requires_grad():
    model = nn.Linear(2, 2)
    assert {kind.name for kind in model._registered.values()} == {"PARAMETER"}
    assert model.requires_grad_(False) is model
    assert list(model._registered) == ["weight", "bias"]
    assert {kind.name for kind in model._registered.values()} == {"FIXED_PARAMETER"}
    assert len(list(model.parameters())) == 2
    assert len(model.requires_grad_().state_dict()) == 2


def test_hooks():
    module = nn.ReLU()
    calls = []
    handles = [
        module.register_forward_pre_hook(lambda m, args: calls.append("pre") or (args[0] + 1,)),
        module.register_forward_pre_hook(lambda m, args: calls.append("first"), prepend=True),
        module.register_forward_hook(lambda m, args, result: calls.append("post") or result * 10),
        module.register_forward_hook(
            lambda m, args, kwargs, result: calls.append(sorted(kwargs)), with_kwargs=True
        ),
    ]
    x = np.array([-3.0, 1.0])
    np.testing.assert_array_equal(module(x), [0, 20])
    assert calls == ["first", "pre", "post", []]
    for handle in handles:
        handle.remove()
        handle.remove()
    np.testing.assert_array_equal(module(x), [0, 1])
    with module.register_forward_pre_hook(lambda m, args: (-args[0],)):
        np.testing.assert_array_equal(module(x), [3, 0])
    np.testing.assert_array_equal(module(x), [0, 1])


def test_hooks_with_keyword_arguments():
    module = nn.ReLU()
    module.register_forward_pre_hook(
        lambda m, args, kwargs: (args, {"input": kwargs["input"] + 1}), with_kwargs=True
    )
    np.testing.assert_array_equal(module(input=np.array([-3.0, 1.0])), [0, 2])
    module.register_forward_pre_hook(lambda m, args, kwargs: 1, with_kwargs=True)
    with pytest.raises(TypeError, match="a tuple of arguments and keyword arguments, found 1"):
        module(input=np.ones(1))


def test_copies_are_independent():
    module = Scale()
    module.register_forward_hook(lambda m, args, result: result)
    deep, shallow = copy.deepcopy(module), copy.copy(module)
    assert shallow.factor is module.factor
    shallow.extra = nn.Parameter(np.ones(1))
    shallow.register_forward_hook(lambda m, args, result: None)
    assert "extra" not in dict(module.named_parameters())
    assert len(module._forward_hooks) == 1
    deep.factor[:] = 0
    assert module.factor[0] == 2
    x = np.ones((1, 3), np.float32)
    np.testing.assert_array_equal(copy.deepcopy(module)(x), module(x))
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).eval()
    loaded = pickle.loads(pickle.dumps(model))
    x = np.ones((1, 2), np.float32)
    np.testing.assert_array_equal(loaded(x), model(x))


def test_repr():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Linear(1, 2)])
            self.named = nn.ModuleDict({"a": nn.Sequential(nn.Tanh())})
            self.weights = nn.ParameterList([np.ones((2, 3), np.float32)])

    assert repr(Model()) == (
        "Model(\n"
        "  (layers): ModuleList(\n"
        "    (0-1): 2 x ReLU()\n"
        "    (2): Linear(in_features=1, out_features=2, bias=True)\n"
        "  )\n"
        "  (named): ModuleDict(\n"
        "    (a): Sequential(\n"
        "      (0): Tanh()\n"
        "    )\n"
        "  )\n"
        "  (weights): ParameterList(  (0): Parameter containing: [numpy.float32 of size 2x3])\n"
        ")"
    )
    assert repr(nn.Module()) == "Module()"
    assert repr(nn.Parameter([1.0])) == "Parameter containing:\narray([1.], dtype=float32)"
    assert repr(nn.Buffer([1.0])) == "Buffer containing:\narray([1.], dtype=float32)"


def test_forward_is_to_be_defined():
    with pytest.raises(NotImplementedError, match="module Module has no method 'forward'"):
        nn.Module()(1)


def test_errors_name_the_layers():
    model = nn.Sequential(nn.Sequential(nn.Linear(4, 3, bias=False)), nn.ReLU())
    with pytest.raises(ValueError, match="linear: expected 4 features") as caught:
        model(np.ones((2, 5), np.float32))
    assert caught.value.__notes__ == [
        "in Linear(in_features=4, out_features=3, bias=False)",
        "in Sequential()",
        "in Sequential()",
    ]


def test_a_model_with_functions():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(1, 2, 3)
            self.out = nn.Linear(2, 4)

        def forward(self, x):
            x = F.relu(self.conv(x))
            x = F.adaptive_avg_pool2d(x, 1).reshape(len(x), -1)
            return F.log_softmax(self.out(x), -1)

    result = Model()(np.ones((3, 1, 5, 5), np.float32))
    assert result.shape == (3, 4)
    assert result.dtype == np.float32
    np.testing.assert_allclose(np.exp(result).sum(1), 1, rtol=1e-6)


def test_layers_are_imported_when_they_are_asked_for():
    program = (
        "import sys, jitcore\n"
        "assert 'jitcore.nn' not in sys.modules\n"
        "assert jitcore.nn.Linear is sys.modules['jitcore.nn'].Linear\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    with pytest.raises(AttributeError, match="'jitcore' has no attribute 'nothing'"):
        getattr(jitcore, "nothing")  # noqa: B009
