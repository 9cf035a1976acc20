"""What holds for every layer: dtypes, state dicts, copies; and random numbers."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import copy
import inspect
import warnings

import numpy as np
import pytest
from nn_cases import ACTIVATIONS, LAYERS, identifier, inputs_of

from jitcore import nn
from jitcore.nn import functional as F
from jitcore.nn import init


def arrays(shapes, dtype):
    return inputs_of(shapes, np.random.default_rng(0), dtype)


def flat(value):
    """The arrays in a result."""
    if isinstance(value, tuple):
        return [one for part in value for one in flat(part)]
    return [] if value is None else [value]


CASES = [*LAYERS, *[(*case, [(2, 4, 6)]) for case in ACTIVATIONS]]


@pytest.mark.parametrize("case", CASES, ids=identifier)
def test_layer(case):
    name, args, kwargs, shapes = case
    layer = getattr(nn, name)(*args, **kwargs).eval()
    for dtype in (np.float32, np.float64):
        layer.to(dtype)
        results = flat(layer(*arrays(shapes, dtype)))
        for result in results:
            assert isinstance(result, np.ndarray | np.generic)
            assert type(result) is np.ndarray or result.ndim == 0
            assert result.dtype in (dtype, np.int64)
        for found, expected in zip(
            flat(copy.deepcopy(layer)(*arrays(shapes, dtype))), results, strict=True
        ):
            np.testing.assert_array_equal(found, expected)
    other = getattr(nn, name)(*args, **kwargs).eval()
    result = other.load_state_dict(layer.state_dict(), assign=True)
    assert result.missing_keys == result.unexpected_keys == []
    for found, expected in zip(flat(other(*arrays(shapes, dtype))), results, strict=True):
        np.testing.assert_array_equal(found, expected)


def takes_dtype(case):
    return "dtype" in inspect.signature(getattr(nn, case[0]).__init__).parameters


@pytest.mark.parametrize("case", [case for case in CASES if takes_dtype(case)], ids=identifier)
def test_dtype_argument(case):
    name, args, kwargs, shapes = case
    layer = getattr(nn, name)(*args, **kwargs, dtype=np.float64)
    for parameter in layer.parameters():
        assert parameter.dtype == np.float64
    default = getattr(nn, name)(*args, **kwargs)
    for parameter in default.parameters():
        assert parameter.dtype == np.float32
    assert all(one.dtype == np.float64 for one in flat(layer.eval()(*arrays(shapes, np.float64))))


BATCH_FIRST = [
    case
    for case in LAYERS
    if case[0].startswith(("Linear", "Conv", "Max", "Avg", "Adaptive", "Group", "Layer", "RMS"))
    and len(case[3][0]) == (5 if "3d" in case[0] else 3 if "1d" in case[0] else 4)
]


@pytest.mark.parametrize("case", BATCH_FIRST, ids=identifier)
def test_empty_batch(case):
    name, args, kwargs, shapes = case
    layer = getattr(nn, name)(*args, **kwargs).eval()
    x = arrays(shapes, np.float32)[0]
    full, empty = flat(layer(x)), flat(layer(x[:0]))
    assert [one.shape for one in empty] == [(0, *one.shape[1:]) for one in full]
    assert [one.dtype for one in empty] == [one.dtype for one in full]


def test_layers_do_not_change_their_input():
    for name, args, kwargs, shapes in CASES:
        if True in args or kwargs.get("inplace"):
            continue
        values = arrays(shapes, np.float32)
        before = copy.deepcopy(values)
        getattr(nn, name)(*args, **kwargs)(*values)
        for one, other in zip(flat(tuple(values)), flat(tuple(before)), strict=True):
            np.testing.assert_array_equal(one, other)


def test_views_are_as_good_as_copies():
    x = np.random.default_rng(0).normal(size=(8, 12, 10, 2)).astype(np.float32)
    view = x.transpose(3, 0, 2, 1)[:, ::2, ::-1, 1:]
    for layer in (
        nn.Conv2d(4, 6, 3, padding=1),
        nn.ConvTranspose2d(4, 6, 3, 2),
        nn.MaxPool2d(3, 2, 1),
        nn.AvgPool2d(2),
        nn.AdaptiveAvgPool2d(3),
        nn.BatchNorm2d(4),
        nn.GroupNorm(2, 4),
        nn.GELU(),
    ):
        np.testing.assert_allclose(layer(view), layer(view.copy()), 1e-5, 1e-5)


# Random numbers


def test_dropout():
    nn.manual_seed(0)
    x = np.ones((200, 300), np.float32)
    y = nn.Dropout(0.3)(x)
    assert y.dtype == np.float32
    kept = np.unique(y)
    np.testing.assert_allclose(kept, [0, 1 / 0.7], rtol=1e-6)
    assert abs((y == 0).mean() - 0.3) < 0.01
    layer = nn.Dropout(0.3)
    assert layer.eval()(x) is x
    assert nn.Dropout(0.0)(x) is x
    assert not np.any(nn.Dropout(1.0)(x))
    assert F.dropout(x, 0.5, inplace=True) is x
    assert 0.4 < (x == 0).mean() < 0.6


@pytest.mark.parametrize(
    ("layer", "shape", "axes"),
    [
        (nn.Dropout1d(), (100, 50, 7), 2),
        (nn.Dropout1d(), (500, 7), 1),
        (nn.Dropout2d(), (100, 50, 7, 3), (2, 3)),
        (nn.Dropout2d(), (100, 50, 7), 2),
        (nn.Dropout3d(), (100, 50, 7, 3, 2), (2, 3, 4)),
        (nn.Dropout3d(), (500, 7, 3, 2), (1, 2, 3)),
        (nn.FeatureAlphaDropout(), (100, 50, 7, 3), (2, 3)),
    ],
    ids=str,
)
def test_dropout_of_channels(layer, shape, axes):
    nn.manual_seed(0)
    y = layer(np.ones(shape))
    np.testing.assert_array_equal(y.max(axes), y.min(axes))
    assert abs((y.max(axes) == y.max()).mean() - 0.5) < 0.1


def test_alpha_dropout_keeps_mean_and_variance():
    nn.manual_seed(0)
    x = F.selu(np.random.default_rng(0).normal(size=500_000))
    y = nn.AlphaDropout(0.2)(x)
    assert abs(y.mean() - x.mean()) < 0.01
    assert abs(y.var() - x.var()) < 0.02
    assert nn.AlphaDropout(0.2).eval()(x) is x
    assert not np.any(nn.AlphaDropout(1.0)(x))


def test_random_slopes():
    nn.manual_seed(0)
    x = -np.ones(100_000)
    y = nn.RReLU(0.2, 0.4)(x)
    assert -0.4 <= y.min() < -0.399
    assert -0.201 < y.max() <= -0.2
    np.testing.assert_allclose(nn.RReLU(0.2, 0.4).eval()(x), -0.3)


def test_gumbel_softmax():
    nn.manual_seed(0)
    p = np.array([0.2, 0.5, 0.3])
    logits = np.broadcast_to(np.log(p), (100_000, 3))
    hard = F.gumbel_softmax(logits, hard=True)
    np.testing.assert_array_equal(hard.sum(1), 1)
    np.testing.assert_allclose(hard.mean(0), p, atol=0.01)
    soft = F.gumbel_softmax(logits, 0.5)
    np.testing.assert_allclose(soft.sum(1), 1)


def test_the_seed_decides():
    def draw():
        return nn.Linear(4, 5).weight, F.dropout(np.ones(50)), F.gumbel_softmax(np.ones((2, 3)))

    nn.manual_seed(3)
    first = draw()
    init.manual_seed(3)
    for one, other in zip(first, draw(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert np.any(draw()[0] != first[0])


def test_dropout_between_recurrent_layers():
    nn.manual_seed(0)
    layer = nn.LSTM(3, 4, 2, dropout=1.0)
    x = np.random.default_rng(0).normal(size=(5, 2, 3)).astype(np.float32)
    # The second layer sees zeros only, whatever the input.
    np.testing.assert_array_equal(layer(x)[0], layer(x * 2)[0])
    assert np.any(layer.eval()(x)[0] != layer(x * 2)[0])
    with pytest.warns(UserWarning, match="LSTM: dropout is between layers"):
        nn.LSTM(3, 4, dropout=0.5)


def test_output_size_of_transposed_convolutions():
    down, up = nn.Conv2d(3, 5, 3, stride=2, padding=1), nn.ConvTranspose2d(5, 3, 3, 2, 1)
    for size in (11, 12):
        x = np.ones((2, 3, size, size), np.float32)
        assert up(down(x), output_size=x.shape).shape == x.shape
    with pytest.raises(ValueError, match=r"ConvTranspose2d: output_size must be from \[11, 11\]"):
        up(down(x), output_size=(20, 20))


def test_embedding_from_a_table():
    table = np.arange(6.0).reshape(3, 2)
    layer = nn.Embedding.from_pretrained(table, padding_idx=-1)
    assert layer.weight is table
    assert layer.padding_idx == 2
    np.testing.assert_array_equal(layer(np.array([2, 0])), [[4, 5], [0, 1]])
    assert not np.any(nn.Embedding(4, 3, padding_idx=1).weight[1])


def test_initializers():
    shape = (200, 100, 3, 3)
    rng = np.random.default_rng(0)
    x = np.empty(shape, np.float32)
    for fill, std in [
        (lambda: init.kaiming_uniform_(x, generator=rng), np.sqrt(2 / 900)),
        (lambda: init.kaiming_normal_(x, mode="fan_out", generator=rng), np.sqrt(2 / 1800)),
        (lambda: init.kaiming_normal_(x, np.sqrt(5), generator=rng), np.sqrt(1 / 3 / 900)),
        (lambda: init.xavier_uniform_(x, 2.0, rng), 2 * np.sqrt(2 / 2700)),
        (lambda: init.xavier_normal_(x, generator=rng), np.sqrt(2 / 2700)),
        (lambda: init.normal_(x, 0, 0.5, rng), 0.5),
        (lambda: init.uniform_(x, -1, 1, rng), np.sqrt(1 / 3)),
    ]:
        assert fill() is x
        assert abs(x.std() - std) < 0.02 * std
        assert abs(x.mean()) < 0.02 * std
    init.trunc_normal_(x, 1, 2, 0, 2, rng)
    assert x.min() >= 0
    assert x.max() <= 2
    matrix = np.empty((30, 20))
    init.orthogonal_(matrix, 2.0, rng)
    np.testing.assert_allclose(matrix.T @ matrix, 4 * np.eye(20), atol=1e-12)
    wide = init.orthogonal_(np.empty((20, 5, 6))).reshape(20, 30)
    np.testing.assert_allclose(wide @ wide.T, np.eye(20), atol=1e-12)
    np.testing.assert_array_equal(init.eye_(matrix), np.eye(30, 20))
    assert np.all((init.sparse_(matrix, 0.1, generator=rng) == 0).sum(0) == 3)
    assert np.all(init.ones_(matrix) == 1)
    assert np.all(init.zeros_(nn.Parameter(matrix)) == 0)
    with pytest.warns(UserWarning, match="no initial values"):
        init.kaiming_uniform_(np.empty((0, 3)))


def test_dirac_passes_channels():
    x = np.random.default_rng(0).normal(size=(2, 4, 6, 6)).astype(np.float32)
    for groups in (1, 2):
        layer = nn.Conv2d(4, 4, 3, padding=1, groups=groups, bias=False)
        init.dirac_(layer.weight, groups)
        np.testing.assert_array_equal(layer(x), x)


def test_gains():
    assert init.calculate_gain("linear") == init.calculate_gain("conv_transpose2d") == 1
    assert init.calculate_gain("tanh") == 5 / 3
    assert init.calculate_gain("relu") == np.sqrt(2)
    assert init.calculate_gain("leaky_relu", 1.0) == 1
    assert init.calculate_gain("selu") == 0.75
    with pytest.raises(ValueError, match="no nonlinearity 'sine'"):
        init.calculate_gain("sine")


def test_activations_warn_of_nothing():
    x = np.array([-1e30, -100, 0, 100, 1e30], np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for layer in (nn.Sigmoid(), nn.SiLU(), nn.Softplus(), nn.ELU(), nn.SELU(), nn.Mish()):
            layer(x)


@pytest.mark.parametrize("layer", [nn.BatchNorm1d, nn.InstanceNorm1d])
def test_running_means_stay_infinite(layer):
    """As in PyTorch: the new part and the old one are added, no difference is taken."""
    norm = layer(2, track_running_stats=True)
    x = np.arange(24, dtype=np.float32).reshape(3, 2, 4)
    x[0, 1, 2] = np.inf
    with np.errstate(invalid="ignore"):
        norm(x)
    norm(np.ones_like(x))
    assert norm.running_mean[1] == np.inf
    assert np.isfinite(norm.running_mean[0])
