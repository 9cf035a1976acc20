# mypy: allow-untyped-defs, allow-untyped-calls
"""Traces of layers and models."""

import copy
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from script_modules import LAYERS, Residual, array, assert_same, lenet

import jitcore
from jitcore import ScriptModule, TracerWarning, nn, trace, trace_module
from jitcore.nn import functional as F


def assert_close(found, expected):
    assert found.dtype == expected.dtype
    assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", LAYERS)
def test_every_layer(name):
    case: tuple[Any, ...] = LAYERS[name]
    layer, *inputs = copy.deepcopy(case)
    traced = trace(layer, tuple(inputs))
    assert isinstance(traced, ScriptModule)
    twin = copy.deepcopy(layer)
    for _ in range(2):
        assert_same(traced(*inputs), twin(*inputs))
    for (_, found), (_, expected) in zip(traced.named_buffers(), twin.named_buffers(), strict=True):
        assert_close(found, expected)


@pytest.mark.parametrize("make", [lambda: Residual(2, 4, 2), lenet])
def test_models(make):
    model = make().eval()
    shape = (1, 28, 28) if isinstance(model, nn.Sequential) else (2, 8, 8)
    traced = trace(model, array(2, *shape))
    for batch in (2, 3):
        x = array(batch, *shape)
        assert_allclose(traced(x), model(x), rtol=2e-5, atol=2e-6)


def test_models_are_native():
    model = Residual(2, 4, 2).eval()
    traced = trace(model, array(2, 2, 8, 8))
    traced(array(2, 2, 8, 8))
    assert traced.kernels


class Scaled(nn.Module):
    seen: Any

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.scale = nn.Parameter(array(3))
        self.register_buffer("seen", np.zeros((), np.int64))
        self.steps = 0

    def forward(self, x):
        return F.relu(self.linear(x)) * self.scale

    def weighted(self, w):
        return w * self.linear.weight.T @ self.scale

    @jitcore.export
    def shifted(self, x):
        return x + 2


def test_parameters_are_live():
    module = Scaled()
    traced = trace(module, array(2, 3))
    assert traced.scale is module.scale
    module.scale[:] = 2
    x = array(4, 3)
    assert_close(traced(x), module(x))
    other = Scaled()
    traced.load_state_dict(other.state_dict())
    assert_close(traced(x), other(x))
    traced.linear.weight = np.zeros((3, 3), np.float32)
    assert_array_equal(traced(x), F.relu(np.zeros((4, 3), "f4") + other.linear.bias) * other.scale)


def test_what_a_traced_module_has():
    traced = trace(Scaled(), array(2, 3))
    assert traced.original_name == "Scaled"
    assert issubclass(type(traced), Scaled)
    assert "scale" in str(traced.graph)
    assert "def forward(" in traced.code
    assert dict(traced.named_parameters()).keys() == dict(Scaled().named_parameters()).keys()
    assert_array_equal(traced.shifted(array(2)), array(2) + 2)
    assert repr(traced).startswith("ScriptModule(original_name=Scaled")


def test_tracing_leaves_a_module_as_it_is():
    module: Any = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.0))
    before = {name: value.copy() for name, value in module.state_dict().items()}
    traced = trace(module, array(5, 3))
    for state in (module.state_dict(), traced.state_dict()):
        for name, value in before.items():
            assert_array_equal(state[name], value)
    traced(array(5, 3))
    assert module[1].num_batches_tracked == 1


# State


def test_buffers_that_are_assigned():
    class Counting(Scaled):
        def forward(self, x):
            self.seen = self.seen + x.shape[0]
            y = x * self.seen
            self.seen = self.seen * 2
            return y + self.seen

    plain, module = Counting(), Counting()
    traced = trace(module, array(2, 3))
    assert module.seen == 0
    for count in (2, 3, 4):
        x = array(count, 3)
        assert_allclose(traced(x), plain(x))
        assert traced.seen == plain.seen


def test_buffers_that_are_written():
    class Counting(Scaled):
        def forward(self, x):
            self.seen += 1
            return x * self.seen

    plain, module = Counting(), Counting()
    traced = trace(module, array(2, 3))
    for _ in range(3):
        assert_allclose(traced(array(2, 3)), plain(array(2, 3)))
    assert traced.seen == plain.seen == module.seen == 3


def test_plain_attributes_that_are_assigned():
    class Counting(Scaled):
        def forward(self, x):
            self.steps += 1
            return x * self.steps

    module = Counting()
    with pytest.warns(TracerWarning, match=r"assigns the attribute 'self.steps'"):
        trace(module, array(2, 3))
    assert module.steps == 0


def test_generators_in_attributes():
    class Noisy(nn.Module):
        def __init__(self):
            super().__init__()
            self.rng = np.random.default_rng(3)

        def forward(self, x):
            return x + self.rng.normal(size=x.shape)

    plain, module = Noisy(), Noisy()
    traced = trace(module, array(2, 3))
    for _ in range(2):
        assert_array_equal(traced(array(4, 3)), plain(array(4, 3)))


def test_dropout_in_training():
    with pytest.warns(TracerWarning) as caught:
        trace(nn.Dropout(0.5), array(40))
    assert "nondeterministic" in str(caught[0].message)
    assert "Output nr 1. of the traced function does not match" in str(caught[1].message)
    assert_array_equal(trace(nn.Dropout(0.5).eval(), array(4))(array(5)), array(5))


# Methods


def test_several_methods():
    module = Scaled()
    inputs = {"forward": array(2, 3), "weighted": array(3, 3)}
    checks = [{"forward": array(5, 3), "weighted": array(3, 3) + 1}]
    traced = trace_module(module, inputs, check_inputs=checks)
    assert_close(traced(array(4, 3)), module(array(4, 3)))
    assert_close(traced.weighted(array(3, 3)), module.weighted(array(3, 3)))
    assert isinstance(traced.weighted, jitcore.ScriptFunction)


def test_bound_methods():
    module = Scaled()
    traced = trace(module.forward, array(2, 3), check_inputs=[array(4, 3)])
    assert_close(traced(array(4, 3)), module(array(4, 3)))
    with pytest.raises(AttributeError, match="trace_module"):
        trace(module.weighted, array(3, 3))


def test_what_is_no_module_and_no_example():
    with pytest.raises(AttributeError, match="trace_module expects a module, found type"):
        trace_module(Scaled, {"forward": array(2, 3)})
    with pytest.raises(TypeError, match=r"examples of each method in a dict.*found ndarray"):
        trace_module(Scaled(), array(2, 3))
    with pytest.raises(jitcore.Error, match="'Scaled' is a class"):
        trace(Scaled, array(2, 3))


def test_keyword_arguments():
    class Two(nn.Module):
        def forward(self, x, *, shift):
            return x + shift

    given = {"forward": {"x": array(2), "shift": array(2)}}
    traced = trace_module(Two(), given, example_inputs_is_kwarg=True)
    assert_array_equal(traced(array(3), shift=array(3)), array(3) * 2)


def test_names_of_arguments():
    class Named(nn.Module):
        def forward(self, first_arg, second_arg):
            return first_arg + second_arg

    traced = trace(Named(), (array(2), array(2)))
    assert [one.name for one in traced.graph.inputs] == ["first_arg", "second_arg"]


def test_a_script_module_is_given_back():
    scripted = jitcore.script(Scaled())
    with pytest.warns(TracerWarning, match="already a ScriptModule"):
        assert trace(scripted, array(2, 3)) is scripted


def test_modules_in_closures():
    linear = nn.Linear(3, 2)

    def projected(x):
        return linear(x) + linear.weight.sum()

    traced = trace(projected, array(2, 3))
    linear.weight[:] = 0
    assert_close(traced(array(5, 3)), projected(array(5, 3)))


# Structure


def test_lists_of_modules():
    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([Scaled() for _ in range(2)])
            self.missing = None

        def forward(self, x):
            assert self.missing is None
            for layer in self.layers:
                x = layer(x)
            return x

    module = Stack()
    traced = trace(module, array(2, 3))
    assert_close(traced(array(4, 3)), module(array(4, 3)))


def test_modules_that_are_arguments():
    class Apply(nn.Module):
        def forward(self, x, module):
            return module(x)

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.apply_to = Scaled(), Apply()

        def forward(self, x):
            return self.apply_to(x, self.inner)

    module = Outer()
    traced = trace(module, array(2, 3))
    assert_close(traced(array(4, 3)), module(array(4, 3)))


def test_shared_parameters():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = self.b = nn.Parameter(array(3))

        def forward(self, x):
            return x * self.a + self.b

    module = Tied()
    traced = trace(module, array(2, 3))
    assert traced.a is traced.b
    assert_close(traced(array(4, 3)), module(array(4, 3)))


@pytest.mark.parametrize(
    "hook",
    [
        lambda module, args, output: output - 3,
        lambda module, args, output: args[0].__iadd__(1) is None,
    ],
)
def test_hooks(hook):
    class Doubled(nn.Module):
        def forward(self, x):
            return x + x

    module = Doubled()
    module.register_forward_hook(lambda *given: hook(*given) if hook(*given) is not False else None)
    module.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    traced = trace(module, array(3))
    assert_array_equal(traced(array(4)), module(array(4)))


def test_dicts_between_modules():
    class Inner(nn.Module):
        def forward(self, given):
            return {"a": given["a"] * given["b"], "more": (given["a"],)}

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, a, b):
            found = self.inner({"a": a, "b": b})
            return found["a"] + found["more"][0]

    module = Outer()
    traced = trace(module, (array(3), array(3)))
    assert_array_equal(traced(array(4), array(4)), module(array(4), array(4)))


class Unscriptable(nn.Module):
    seen: Any

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("seen", np.zeros((), np.int64))

    def forward(self, x):
        globals()["LAST"] = None
        self.seen += 1
        return self.linear(x) * self.seen


def test_freeze():
    module = Unscriptable().eval()
    traced = trace(module, array(5, 3))
    frozen = jitcore.freeze(traced)
    assert not list(frozen.parameters())
    assert "seen" in jitcore.dump_alias_db(frozen)
    twin = copy.deepcopy(module)
    for _ in range(2):
        assert_close(frozen(array(4, 3)), twin(array(4, 3)))
    frozen = jitcore.freeze(jitcore.script(nn.Sequential(trace(module, array(5, 3)))).eval())
    assert_close(frozen(array(4, 3)), twin(array(4, 3)))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies(copied):
    module = Unscriptable()
    traced = trace(module, array(2, 3))
    other = copied(traced)
    other.seen = np.array(4)
    assert_close(other(array(4, 3)), traced(array(4, 3)) * 5)
    assert (other.seen, traced.seen) == (5, 1)
    assert isinstance(other.forward, jitcore.ScriptFunction)


def test_copies_of_what_holds_a_trace():
    inner = trace(Unscriptable(), array(2, 3))
    outer = jitcore.script(nn.Sequential(inner, nn.ReLU()))
    other = copy.deepcopy(outer)
    other[0].linear.weight[:] = 0
    other[0].linear.bias[:] = 1
    assert_array_equal(other(array(4, 3)), np.ones((4, 3)))
    assert inner.seen == 0
