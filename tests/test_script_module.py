# mypy: allow-untyped-defs, allow-untyped-calls
"""ScriptModule: what compiled layers and models give, beside the same modules in plain NumPy."""

import copy
import gc
import pickle
import weakref
from typing import Any, Final

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from script_modules import LAYERS, Residual, array, assert_same, lenet, mlp, native

import jitcore
from jitcore import CompilationError, freeze, nn, script
from jitcore.nn import functional as F


def check(module, *args, times=3, **keywords):
    """Call a scripted copy of a module and the module, and compare results and states."""
    scripted = script(copy.deepcopy(module))
    for _ in range(times):
        expected = module(*copy.deepcopy(args), **copy.deepcopy(keywords))
        assert_same(scripted(*copy.deepcopy(args), **copy.deepcopy(keywords)), expected)
    assert list(scripted.state_dict()) == list(module.state_dict())
    for name, value in module.state_dict().items():
        assert_same(scripted.state_dict()[name], value)
    return scripted


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    module, *args = LAYERS[name]
    check(module, *args)


@pytest.mark.parametrize("training", [False, True])
def test_models(training):
    check(mlp().train(training), array(5, 8))
    check(lenet().train(training), array(2, 1, 28, 28))
    check(Residual(3, 4, 2).train(training), array(2, 3, 8, 8))
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), 2)
    check(encoder.train(training), array(4, 2, 8))


def test_dropout_draws_the_same_numbers():
    module, x = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)), array(4, 8)
    scripted = script(module)
    nn.manual_seed(3)
    expected = [module(x), module(x)]
    nn.manual_seed(3)
    assert_same([scripted(x), scripted(x)], expected)


def test_a_model_is_one_native_function():
    scripted = check(mlp(), array(5, 8))
    assert native(scripted)
    assert len(scripted.forward.specializations) == 1


def test_parameters_are_shared_and_read_anew():
    module, x = nn.Sequential(nn.Linear(8, 4), nn.ReLU()), array(3, 8)
    layer: Any = module[0]
    scripted = script(module)
    assert scripted[0].weight is layer.weight
    before = scripted(x)
    layer.weight *= 2
    assert_same(scripted(x), module(x))
    assert not np.array_equal(scripted(x), before)
    scripted[0].weight = layer.weight * 3
    layer.weight = scripted[0].weight
    assert_same(scripted(x), module(x))
    assert native(scripted)
    assert len(scripted.forward.specializations) == 1
    scripted.load_state_dict({"0.weight": np.zeros((4, 8)), "0.bias": np.ones(4)})
    assert_array_equal(scripted(x), np.ones((3, 4), np.float32))


def test_other_parameters_make_another_specialization():
    scripted, x = script(nn.Linear(8, 4)), array(3, 8)
    scripted(x)
    scripted.bias = None
    assert_same(scripted(x), x @ scripted.weight.T)
    scripted.double()
    assert_same(scripted(x.astype(np.float64)), x.astype(np.float64) @ scripted.weight.T)
    with pytest.raises(TypeError, match="float64"):
        scripted(x)


def test_modes_keep_what_was_compiled():
    module, x = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4)), array(6, 8)
    scripted = script(copy.deepcopy(module))
    graphs = []
    for mode in (True, False, True, False):
        assert scripted.train(mode) is scripted
        assert scripted.training is scripted[1].training is mode
        assert_same(scripted(x), module.train(mode)(x))
        graphs.append(scripted.forward._graph)
    assert graphs[0] is graphs[2]
    assert graphs[1] is graphs[3]
    assert graphs[0] is not graphs[1]


class Counter(nn.Module):
    total: np.ndarray

    def __init__(self):
        super().__init__()
        self.count = 0
        self.scale = 2
        self.register_buffer("total", np.zeros(3))
        self.seen = []

    def forward(self, x):
        self.count += 1
        self.total += x
        self.seen.append(self.count)
        return x * self.scale + self.count


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Counter()
        self.first: Any = nn.Linear(3, 3, dtype=np.float64)

    def forward(self, x):
        before = self.inner.count
        x = self.inner(self.first(x))
        x = self.inner(x) + before
        self.first.bias = self.first.bias + 1
        return x, self.inner.count, self.first(x)


def test_attributes_that_forward_changes():
    check(Counter(), np.arange(3.0))
    scripted = check(Outer(), np.arange(3.0))
    assert scripted.inner.count == 6
    scripted.inner.count = 10
    assert scripted(np.arange(3.0))[1] == 12
    assert len(scripted.forward._forms) == 1


class Python(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.scale = 3.0

    @jitcore.ignore
    def note(self, x):
        yield_free = [one for one in x.flat]
        self.calls += len(yield_free)
        self.scale = 4.0

    @jitcore.unused
    def never(self, x):
        yield x

    def forward(self, x):
        first = x * self.scale
        self.note(x)
        if self.calls > 10**9:
            return self.never(x)
        return first + x * self.scale, self.calls


def test_ignored_methods_may_change_attributes():
    check(Python(), array(4))


class Setter(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0

    @property
    def p(self):
        return self.n * 2

    @p.setter
    def p(self, value):
        self.n = value

    def forward(self, x):
        first = x + self.n
        self.p = self.n + 1
        return first, self.p, [k for k in range(self.n)]


def test_properties_with_setters():
    check(Setter(), array(3))


class Structure(nn.Module):
    depth: Final = 3
    wide = 2.0

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.acts = nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})
        self.weights = nn.ParameterList([np.ones(4, np.float32), np.zeros(4, np.float32)])
        self.shift: float = 0.5

    @property
    def doubled(self):
        return self.shift * 2

    @staticmethod
    def halved(x):
        return x / 2

    @classmethod
    def widened(cls, x):
        return x * cls.wide

    def through(self, layer, x):
        return layer(x) * self.shift

    @jitcore.export
    def last(self, x):
        return self.layers[-1](x)

    def forward(self, x):
        for number, layer in enumerate(self.layers):
            x = layer(x) + number
            if isinstance(layer, nn.ReLU):
                x = x * 100
        for name, act in self.acts.items():
            x = act(x) if name == "tanh" else act(x) + 1
        for key in self.acts:
            x = self.acts[key](x)
        for layer, weight in zip(self.layers[1:], self.weights, strict=False):
            x = layer(x) * weight + 1
        for layer in reversed(self.layers):
            if len(self.layers) > 5:
                break
            x = layer(x)
        stacked = [layer(x) for layer in self.layers]
        x = x + stacked[1] + len(self.acts) + self.doubled + self.depth
        x = self.through(self.layers[0], self.widened(self.halved(x)))
        chosen = self.layers[2]
        return chosen(x) + (lambda y: self.layers[1](y))(x)


def test_containers_methods_and_properties():
    module, x = Structure(), array(2, 4)
    scripted = check(module, x)
    assert_same(scripted.last(x), module.last(x))
    assert scripted.doubled == 1.0
    scripted.shift = module.shift = 1.5
    assert_same(scripted(x), module(x))
    added = nn.Linear(4, 4)
    scripted.layers.append(added)
    module.layers.append(added)
    assert_same(scripted(x), module(x))


class Early(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(4)])

    def forward(self, x, stop):
        for number, layer in enumerate(self.layers):
            if number == stop:
                return x, number
            if number == 1:
                continue
            x = layer(x)
            if x.sum() > 1e6:
                break
        return x, -1


def test_loops_over_layers_that_are_left():
    module, x = Early(), array(2, 4)
    scripted = script(module)
    for stop in (0, 1, 2, 7):
        assert_same(scripted(x, stop), module(x, stop))
    assert_same(scripted(x * np.float32(1e7), stop=9), module(x * np.float32(1e7), stop=9))


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.k = 2

    def forward(self, x):
        return x * self.k


class Derived(Base):
    def forward(self, x):
        return super().forward(x) + 1


def test_inherited_methods():
    scripted = check(Derived(), array(3))
    assert native(scripted)
    assert isinstance(scripted, Derived)
    assert isinstance(scripted, jitcore.ScriptModule)
    assert scripted.original_name == "Derived"


def test_methods_that_change_are_seen(monkeypatch):
    module, x = nn.Sequential(Base(), Derived()), array(3)
    scripted = script(module)
    assert_same(scripted(x), module(x))
    monkeypatch.setattr(Base, "forward", lambda self, x: x - self.k)
    assert_same(scripted(x), module(x))
    for one in (scripted, module):
        vars(one[0])["forward"] = lambda x: x * 100
    assert_same(scripted(x), module(x))


def test_hooks_run_as_in_eager():
    x, log = array(3, 4), []

    def before(module, args):
        log.append("before")
        return (args[0] * 2,)

    def after(module, args, result):
        module.scale = 5.0
        return result + 1

    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    scripted = script(copy.deepcopy(module))
    assert_same(scripted(x), module(x))
    for one in (module, scripted):
        one[0].register_forward_pre_hook(before)
        handle = one[0].register_forward_hook(after)
        one.register_forward_hook(after)
    assert_same(scripted(x), module(x))
    assert scripted.scale == 5.0
    assert log == ["before"] * 2
    handle.remove()
    expected = F.relu(scripted[0].weight @ (2 * x.T) + scripted[0].bias[:, None]).T + 1
    assert_same(scripted(x), np.ascontiguousarray(expected))


@jitcore.interface
class Shape(nn.Module):
    def area(self, x):
        pass


class Square(nn.Module):
    def area(self, x):
        return x * x


class Circle(nn.Module):
    def __init__(self):
        super().__init__()
        self.pi = 3.0

    def area(self, x):
        return x * x * self.pi


class Holder(nn.Module):
    shape: Shape

    def __init__(self, shape):
        super().__init__()
        self.shape = shape

    def forward(self, x):
        return self.shape.area(x) + 1


def test_interfaces():
    x = array(3)
    scripted = check(Holder(Square()), x)
    scripted.shape = script(Circle())
    assert_same(scripted(x), Holder(Circle())(x))
    with pytest.raises(CompilationError, match="ReLU has no method 'area'"):
        scripted.shape = nn.ReLU()
    with pytest.raises(CompilationError, match="has no method 'area'"):
        script(Holder(nn.Linear(2, 2)))


def test_copies_have_parameters_of_their_own():
    x = array(3, 4)
    scripted = script(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    expected = scripted(x)
    deep, shallow = copy.deepcopy(scripted), copy.copy(scripted)
    pickled = pickle.loads(pickle.dumps(scripted))
    assert shallow[0] is scripted[0]
    scripted[0].weight[...] = 0
    for one in (deep, pickled):
        assert type(one) is type(scripted)
        assert one[0] is not scripted[0]
        assert_same(one(x), expected)
    assert_same(shallow(x), scripted(x))


def test_what_a_script_module_is():
    module = mlp()
    scripted = script(module)
    assert script(scripted) is scripted
    assert [name for name, _ in scripted.named_parameters()] == [
        name for name, _ in module.named_parameters()
    ]
    assert repr(script(nn.Sequential(nn.ReLU()))) == (
        "ScriptModule(original_name=Sequential\n  (0): ScriptModule(original_name=ReLU)\n)"
    )
    assert "np::" in str(scripted.graph)
    assert "def forward" in scripted.code
    assert scripted[0].forward.graph.inputs[0].name == "input"
    with pytest.raises(AttributeError, match="'Sequential' object has no attribute 'nope'"):
        scripted.nope
    inside = nn.Sequential(scripted, nn.ReLU())
    assert_same(script(inside)(array(2, 8)), inside(array(2, 8)))


def test_functions_that_call_models():
    model = mlp()

    @script
    def predict(x):
        return np.argmax(model(x), axis=-1)

    x = array(4, 8)
    assert_array_equal(predict(x), predict.__wrapped__(x))
    model[4].weight *= -1
    assert_array_equal(predict(x), predict.__wrapped__(x))
    model[1] = nn.Sigmoid()
    assert_array_equal(predict(x), predict.__wrapped__(x))


def test_errors_name_the_layer():
    scripted = script(mlp())
    for _ in range(2):
        with pytest.raises(ValueError, match="expected 8 features") as caught:
            scripted(array(4, 7))
        assert "Linear(in_features=8" in caught.value.__notes__[0]
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        scripted()


class Unsupported(nn.Module):
    def forward(self, x):
        yield x


def test_what_is_not_supported_is_an_error_when_it_is_scripted():
    with pytest.raises(CompilationError, match="yield"):
        script(nn.Sequential(Unsupported()))


def test_modules_that_nobody_uses_go():
    scripted, x = script(mlp()), array(2, 8)
    scripted(x)
    frozen = freeze(scripted.eval())
    frozen(x)
    references = [weakref.ref(one) for one in (scripted, scripted[0], frozen, scripted[0].weight)]
    del scripted, frozen
    gc.collect()
    assert [reference() for reference in references] == [None] * 4


def test_reports_name_attributes():
    report = str(script(nn.Sequential(nn.ReLU())).explain(array(3)))
    assert "self.0.inplace" in report
    assert "self.0.forward" in report
    assert "still absent" in report
