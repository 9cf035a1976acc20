# mypy: allow-untyped-defs, allow-untyped-calls
"""What frozen optimizations do to the graphs of models, and where they must not."""

import copy
from typing import Any

import numpy as np
import pytest
from frozen_checking import applied, check, compare, kinds, names, randomized
from script_modules import Residual, array, assert_same_error, lenet

from jitcore import Error, freeze, nn, run_frozen_optimizations, script
from jitcore.nn import functional as F

CONV = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
NORM = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
EXTENTS = (7, 6, 5)


def images(rank, batch=2, channels=3):
    return array(batch, channels, *EXTENTS[:rank])


# Batch normalization


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_batch_normalization_goes_into_convolutions(rank, bias):
    for more in ({"stride": 2}, {"padding": 1, "groups": 3}, {"padding": "same", "dilation": 2}):
        conv = CONV[rank](3, 6, 3, bias=bias, **more)
        frozen = check(randomized(nn.Sequential(conv, NORM[rank](6, eps=0.001))), images(rank))
        assert kinds(frozen) == [f"nn::conv{rank}d"]


TRANSPOSED = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_transposed_convolutions_take_what_follows_into_their_weights(rank, bias):
    constant = array(4, *(1,) * rank)
    options: list[dict[str, Any]] = [{"stride": 2}, {"groups": 2, "padding": 1}]
    for more in options:
        conv = TRANSPOSED[rank](6, 4, 3, bias=bias, **more)
        for forward in (
            lambda self, x: self.norm(self.conv(x)),
            lambda self, x: self.conv(x) * self.constant + 2.5,
        ):
            model = applied(forward, conv=conv, norm=NORM[rank](4), constant=constant)
            frozen = check(randomized(model), images(rank, channels=6))
            assert kinds(frozen) == [f"nn::conv_transpose{rank}d"]


def test_weights_that_would_leave_the_range_of_their_dtype_stay():
    for weight, factor, x in ((1e30, 1e20, 1e-25), (1e-30, 1e-15, 1e30)):
        conv = nn.Conv2d(1, 1, 1, bias=False)
        conv.weight[...] = weight
        model = applied(lambda self, x: self.conv(x) * self.factor, conv=conv, factor=factor).eval()
        frozen = check(model, np.full((1, 1, 2, 2), x, np.float32), atol=0)
        assert kinds(frozen) == ["nn::conv2d", "prim::mul"]


def test_chains_of_layers_become_one_convolution():
    model = randomized(
        applied(
            lambda self, x: (self.norm(self.conv(x)) * 2 - self.shift) / self.scale,
            conv=nn.Conv2d(3, 4, 2),
            norm=nn.BatchNorm2d(4, affine=False),
            shift=array(4, 1, 1),
            scale=array(1, 4, 1, 1) + 3,
        )
    )
    assert kinds(check(model, images(2))) == ["nn::conv2d"]


def test_numerics_stay_where_that_is_asked_for():
    model, x = randomized(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))), images(2)
    scripted = script(model)
    frozen = freeze(scripted, optimize_numerics=False)
    assert names(frozen) == ["conv2d", "batch_norm"]
    np.testing.assert_array_equal(frozen(x), scripted(x))
    run_frozen_optimizations(frozen, optimize_numerics=False)
    assert names(frozen) == ["conv2d", "batch_norm"]
    run_frozen_optimizations(frozen)
    assert names(frozen) == ["conv2d"]
    np.testing.assert_allclose(frozen(x), model(x), 1e-4, 1e-5)


def test_calls_without_a_batch_run_what_was_frozen():
    model, x = randomized(nn.Sequential(nn.Conv1d(3, 4, 3), nn.BatchNorm1d(4))), images(1)
    frozen = check(model, x)
    assert names(frozen) == ["conv1d"]
    # (C, L) gives BatchNorm1d a matrix, whose second axis it takes for the channels.
    short = nn.Sequential(nn.Conv1d(3, 4, 3), randomized(nn.BatchNorm1d(5)))
    frozen = freeze(script(short.eval()))
    compare(frozen(x[0]), short(x[0]), 1e-6, 1e-6)
    for wrong in (x, array(3, 4), x.astype(np.float64), array(5)):
        assert_same_error(frozen, short, wrong)


def test_explanations_and_graphs_of_calls_without_a_batch():
    model = nn.Sequential(nn.Conv1d(3, 4, 3), nn.ReLU()).eval()
    frozen, x = freeze(script(model)), images(1)
    frozen.explain(x[0])
    frozen.graph_for(x[0])
    for given in (x[0], x, x[0]):
        compare(frozen(given), model(given), 1e-6, 1e-6)


REFUSED = {
    "another reader": lambda self, x: (self.norm(y := self.conv(x)), y),
    "two readers": lambda self, x: self.norm(y := self.conv(x)) + y,
    "statistics of the batch": lambda self, x: F.batch_norm(
        self.conv(x), None, None, training=True
    ),
    "statistics that are no constants": lambda self, x: F.batch_norm(
        self.conv(x), np.abs(x[0, 0, 0, :4]), np.abs(x[0, 0, 1, :4])
    ),
    "weights that are no constants": lambda self, x: self.norm(F.conv2d(x, x[:4, :, :2, :2])),
    "written in between": lambda self, x: self.norm(written(self.conv(x))),
}


def written(x):
    x[0] = 1
    return x


@pytest.mark.parametrize("what", REFUSED)
def test_batch_normalization_stays_where_it_must(what):
    model = applied(REFUSED[what], conv=nn.Conv2d(3, 4, 2), norm=nn.BatchNorm2d(4))
    frozen = check(randomized(model), array(4, 3, 6, 6), rtol=1e-5)
    assert names(frozen) == ["conv2d", "batch_norm"]


def test_shared_weights_are_not_changed_for_others():
    conv, norm = nn.Conv2d(3, 4, 2), nn.BatchNorm2d(4)
    model = applied(lambda self, x: self.norm(self.conv(x)) + self.conv(x), conv=conv, norm=norm)
    before = conv.weight.copy()
    frozen = check(randomized(model), images(2))
    assert names(frozen) == ["conv2d", "conv2d"]
    np.testing.assert_array_equal(conv.weight, before)


def test_other_dtypes_and_channels_stay_errors_or_conversions():
    model = nn.Sequential(nn.Conv2d(3, 4, 2), nn.BatchNorm2d(4)).eval()
    norm: Any = model[1]
    norm.running_mean = norm.running_mean.astype(np.float64)
    assert names(check(model, images(2))) == ["conv2d", "batch_norm"]
    for wrong in (nn.BatchNorm2d(5), nn.BatchNorm2d(4).double()):
        broken = nn.Sequential(nn.Conv2d(3, 4, 2), wrong).eval()
        frozen = freeze(script(broken))
        with pytest.raises((ValueError, TypeError)) as expected:
            broken(images(2))
        with pytest.raises(expected.type) as found:
            frozen(images(2))
        assert str(found.value) == str(expected.value)


def test_infinite_scales_are_not_folded():
    model = randomized(nn.Sequential(nn.Conv2d(3, 4, 2), nn.BatchNorm2d(4, eps=0.0)))
    norm: Any = model[1]
    norm.running_var[1] = 0
    frozen = freeze(script(model))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(np.isfinite(frozen(images(2))), np.isfinite(model(images(2))))
    assert names(frozen) == ["conv2d", "batch_norm"]


# Constants beside convolutions

OPERATIONS = {
    "add": (lambda x, c: x + c, lambda x, c: np.add(x, c), lambda x, c: c + x),
    "sub": (lambda x, c: x - c, lambda x, c: np.subtract(x, c)),
    "mul": (lambda x, c: x * c, lambda x, c: np.multiply(c, x)),
    "div": (lambda x, c: x / c, lambda x, c: np.divide(x, c), lambda x, c: np.true_divide(x, c)),
}


def augmented(x, c):
    x += c
    x *= c
    x -= c
    x /= c
    return x


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_constants_go_into_convolutions(rank, bias):
    shapes = [(1, 6, *(1,) * rank), (6, *(1,) * rank), (1, 1), (), (1,) * (rank + 2)]
    constants = [2.0, -3, *(array(*shape) + np.float32(2) for shape in shapes)]
    operations = [one for group in OPERATIONS.values() for one in group]
    for number, constant in enumerate(constants):
        for operation in (operations[number % len(operations)], operations[-1 - number], augmented):
            model = applied(
                lambda self, x: self.operation(self.conv(x), self.constant),
                conv=CONV[rank](3, 6, 2, bias=bias),
                constant=constant,
                operation=operation,
            ).eval()
            assert kinds(check(model, images(rank))) == [f"nn::conv{rank}d"], (constant, number)


UNFIT = {
    "other positions": np.ones((6, 1, 5), np.float32),
    "a row": np.ones((5,), np.float32),
    "more axes": np.ones((1, 1, 6, 1, 1), np.float32),
    "ints": np.ones((1,), np.int32),
    "a wider scalar": np.float64(2),
    "a wider array": np.ones((6, 1, 1)),
    "bools": np.ones((6, 1, 1), bool),
    "infinity": float("inf"),
    "too much": 1e300,
    "complex": 1j,
}


@pytest.mark.parametrize("what", UNFIT)
def test_constants_that_do_not_fit_stay(what):
    for name, (operation, *_) in OPERATIONS.items():
        model = applied(
            lambda self, x: self.operation(self.conv(x), self.constant),
            conv=nn.Conv2d(3, 6, 2),
            constant=UNFIT[what],
            operation=operation,
        ).eval()
        with np.errstate(all="ignore"):
            frozen = check(model, images(2), rtol=1e-5)
        assert len(kinds(frozen)) == 2, name


def test_divisors_of_zero_and_what_is_subtracted_from_stay():
    for function in (
        lambda self, x: self.conv(x) / self.c,
        lambda self, x: self.c - self.conv(x),
        lambda self, x: self.c / self.conv(x),
        lambda self, x: self.conv(x) // self.c,
        lambda self, x: self.conv(x) + x[:, :1, 1:, 1:],
        lambda self, x: (y := self.conv(x)) + y,
    ):
        model = applied(function, conv=nn.Conv2d(3, 2, 2), c=np.zeros((2, 1, 1), np.float32)).eval()
        with np.errstate(all="ignore"):
            frozen = freeze(script(model))
            np.testing.assert_allclose(frozen(images(2)), model(images(2)), 1e-5, 1e-6)
        assert len(kinds(frozen)) > 1


# What changes no bit


def exact(model, *args):
    """Freeze without changes of numerics; results are equal to the bit."""
    scripted = script(model)
    frozen = freeze(scripted, optimize_numerics=False)
    for _ in range(2):
        expected = scripted(*copy.deepcopy(args))
        compare(frozen(*copy.deepcopy(args)), expected, 0, 0)
    return frozen


def test_dropout_goes():
    layers = (nn.Dropout(0.5), nn.AlphaDropout(), nn.FeatureAlphaDropout(0.1), nn.Dropout2d())
    assert kinds(exact(nn.Sequential(*layers).eval(), array(2))) == []
    model = nn.Sequential(nn.Conv2d(3, 4, 2), nn.Dropout2d(0.3), nn.ReLU()).eval()
    assert names(exact(model, images(2))) == ["conv2d", "relu"]


def test_dropout_stays_in_training_and_where_it_would_raise():
    model = applied(lambda self, x: F.dropout(x, 0.5, True)).eval()
    frozen = freeze(script(model))
    assert len(kinds(frozen)) > 0
    assert (frozen(np.ones(1000, np.float32)) == 0).any()
    model = nn.Sequential(nn.Dropout1d()).eval()
    frozen = freeze(script(model))
    with pytest.raises(ValueError, match="dropout1d: expected input with 2 or 3 axes"):
        frozen(array(2))
    compare(frozen(array(2, 3, 4)), model(array(2, 3, 4)), 0, 0)


def test_what_depends_on_constants_only_is_computed_once():
    def forward(self, x):
        scale = np.exp(self.a) * 2 + self.a.mean()
        return x * scale.reshape(2, 2).T

    frozen = exact(applied(forward, a=array(4)).eval(), array(3, 2, 2))
    assert kinds(frozen) == ["prim::mul"]


def test_constants_that_a_caller_could_change_are_computed_at_each_call():
    def forward(self, x):
        made = self.a * 2
        made += x
        return made, self.a + 1

    frozen = exact(applied(forward, a=array(4)).eval(), array(4))
    first = frozen(array(4))
    first[1][...] = 0
    compare(frozen(array(4))[1], array(4) + np.float32(1), 0, 0)
    big = applied(lambda self, x: np.zeros((4000, 4000), np.float32)[:2] + x).eval()
    assert len(kinds(freeze(script(big)))) > 1


def test_dead_branches_go():
    def forward(self, x):
        x = self.conv(x)
        if x.ndim != 4:
            raise ValueError("no batch")
        return x.reshape(1, -1) if self.flat else x

    model = applied(forward, conv=nn.Conv2d(3, 4, 2), flat=False).eval()
    frozen = exact(model, images(2))
    assert kinds(frozen) == ["nn::conv2d"]
    with pytest.raises(ValueError, match="no batch"):
        frozen(images(2)[0])


# How many other nodes are left; a transpose that might raise stays, though nobody reads it.
TRANSPOSES = {
    "T": (lambda self, x: np.exp((F.relu(x)).T.T), 1),
    "swapaxes": (lambda self, x: F.gelu(x).swapaxes(0, 1).swapaxes(1, 0) * 2, 2),
    "transpose": (lambda self, x: F.gelu(x).transpose(1, 0).transpose(1, 0) * 2, 2),
    "tuples": (lambda self, x: F.gelu(x).transpose((1, 0)).transpose((1, 0)) * 2, 2),
    "reshape": (lambda self, x: F.gelu(x).reshape(2, 6).reshape(12) * 2, 3),
    "returned": (lambda self, x: F.gelu(x).T.T, 2),
    "other axes": (lambda self, x: F.gelu(x).T.swapaxes(0, 1) * 2, 3),
    "not known": (lambda self, x: x.T.T * 2, 3),
    "written": (lambda self, x: written(F.gelu(x).T.T) * 2, 4),
}


@pytest.mark.parametrize("what", TRANSPOSES)
def test_transposes_cancel(what):
    function, left = TRANSPOSES[what]
    frozen = exact(applied(function).eval(), array(3, 4))
    others = [kind for kind in kinds(frozen) if not kind.startswith("nn::")]
    assert len(others) == left


def test_joined_transposes():
    def forward(self, x):
        y = self.conv(x).transpose(1, 2, 0, 3).transpose(1, 2, 3, 0)
        return y + 1

    frozen = exact(applied(forward, conv=nn.Conv2d(3, 4, 2)).eval(), images(2))
    assert kinds(frozen) == ["nn::conv2d", "prim::CallMethod", "prim::add"]


# Modules


def test_models_keep_their_results():
    for model, x in (
        (randomized(Residual(3, 4, 2)), array(2, 3, 8, 8)),
        (randomized(lenet()), array(2, 1, 28, 28)),
        (nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2).eval(), array(4, 2, 8)),
    ):
        frozen = check(model, x)
        assert "batch_norm" not in names(frozen)
        assert "dropout" not in names(frozen)


def test_other_methods_are_optimized_as_well():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 2)
            self.norm = nn.BatchNorm2d(4)

        def predict(self, x):
            return self.norm(self.conv(x))

        def forward(self, x):
            return F.relu(self.predict(x))

    model, x = randomized(Model()), images(2)
    frozen = freeze(script(model), ["predict"], optimize_numerics=False)
    run_frozen_optimizations(frozen)
    assert names(frozen) == ["conv2d", "relu"]
    assert names(frozen, "predict") == ["conv2d", "batch_norm"]
    run_frozen_optimizations(frozen, preserved_methods=["predict"])
    assert names(frozen, "predict") == ["conv2d"]
    compare(frozen.predict(x), model.predict(x), 1e-4, 1e-5)
    compare(frozen(x), model(x), 1e-4, 1e-5)


def test_errors():
    for module in (nn.Linear(2, 2), script(nn.Linear(2, 2))):
        with pytest.raises(Error, match="expects a frozen module, found Linear"):
            run_frozen_optimizations(module)
    frozen = freeze(script(nn.Linear(2, 2).eval()))
    for name in ("nothing", "a.b", "weight"):
        with pytest.raises(Error, match=f"no method '{name}'"):
            run_frozen_optimizations(frozen, preserved_methods=[name])


def test_empty_batches_and_nans():
    model = randomized(nn.Sequential(nn.Conv2d(3, 4, 2), nn.BatchNorm2d(4), nn.ReLU()))
    frozen = check(model, images(2)[:0])
    x = images(2)
    x[0, 1, 2, 3] = np.nan
    compare(frozen(x), model(x), 1e-4, 1e-5)
