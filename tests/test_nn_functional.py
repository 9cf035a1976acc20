"""Functions of nn against SciPy, closed forms, and loops that say what is meant."""

# mypy: allow-untyped-defs, allow-untyped-calls
# mypy: disable-error-code="attr-defined, union-attr"
from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import signal, special

from jitcore import nn, script
from jitcore.nn import functional as F


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def close(ours, expected, rtol=1e-12, atol=1e-12):
    assert np.shape(ours) == np.shape(expected)
    np.testing.assert_allclose(ours, expected, rtol, atol)


# Convolution


@pytest.mark.parametrize(
    ("function", "extents", "kernel"),
    [
        (F.conv1d, (9,), (3,)),
        (F.conv2d, (7, 8), (2, 3)),
        (F.conv3d, (5, 6, 4), (2, 3, 1)),
    ],
)
def test_convolution_is_a_sum_of_correlations(function, extents, kernel):
    x, weight, bias = normal(2, 3, *extents), normal(4, 3, *kernel, seed=1), normal(4, seed=2)
    expected = np.stack(
        [
            np.stack(
                [
                    sum(signal.correlate(x[n, c], weight[o, c], "valid") for c in range(3))
                    + bias[o]
                    for o in range(4)
                ]
            )
            for n in range(2)
        ]
    )
    close(function(x, weight, bias), expected)
    close(function(x[0], weight, bias), expected[0])


def naive_conv2d(x, weight, stride, padding, dilation, groups):
    """The definition, pixel by pixel."""
    (n, _, h, w), (o, c, kh, kw) = x.shape, weight.shape
    x = np.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    oh = (h + 2 * padding[0] - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    ow = (w + 2 * padding[1] - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    result = np.zeros((n, o, oh, ow))
    for b, f, i, j in np.ndindex(*result.shape):
        group = f // (o // groups)
        for k, s, t in np.ndindex(c, kh, kw):
            row, column = i * stride[0] + s * dilation[0], j * stride[1] + t * dilation[1]
            result[b, f, i, j] += x[b, group * c + k, row, column] * weight[f, k, s, t]
    return result


OPTIONS = [
    ((1, 1), (0, 0), (1, 1), 1),
    ((2, 1), (1, 2), (1, 1), 2),
    ((1, 3), (2, 0), (2, 1), 1),
    ((2, 2), (1, 1), (1, 2), 2),
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options_of_convolution(options):
    x, weight = normal(2, 4, 7, 8), normal(6, 4 // options[3], 3, 2, seed=1)
    close(F.conv2d(x, weight, None, *options), naive_conv2d(x, weight, *options))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_transposed_convolution_is_the_adjoint(options):
    stride, padding, dilation, groups = options
    x, weight = normal(2, 4, 7, 8), normal(6, 4 // groups, 3, 2, seed=1)
    y = F.conv2d(x, weight, None, *options)
    z = normal(*y.shape, seed=2)
    # What the strides have left over at the end.
    extra = tuple(
        (n + 2 * p - d * (k - 1) - 1) % s
        for n, p, d, k, s in zip((7, 8), padding, dilation, (3, 2), stride, strict=True)
    )
    back = F.conv_transpose2d(z, weight, None, stride, padding, extra, groups, dilation)
    assert back.shape == x.shape
    close(np.sum(y * z), np.sum(x * back), 1e-10)


def test_same_padding_keeps_the_size():
    for kernel, dilation in itertools.product(range(1, 6), (1, 2)):
        x, weight = normal(1, 1, 11), normal(1, 1, kernel, seed=1)
        y = F.conv1d(x, weight, padding="same", dilation=dilation)
        spread = np.zeros(dilation * (kernel - 1) + 1)
        spread[::dilation] = weight[0, 0]
        total = len(spread) - 1
        padded = np.pad(x[0, 0], (total // 2, total - total // 2))
        close(y[0, 0], signal.correlate(padded, spread, "valid"))
        close(F.conv1d(x, weight, padding="valid"), F.conv1d(x, weight))


def test_fold_is_the_adjoint_of_unfold():
    options = {"kernel_size": (2, 3), "dilation": (2, 1), "padding": (1, 0), "stride": (1, 2)}
    x = normal(2, 3, 6, 7)
    columns = F.unfold(x, **options)
    other = normal(*columns.shape, seed=1)
    close(np.sum(columns * other), np.sum(x * F.fold(other, (6, 7), **options)), 1e-10)
    close(F.fold(F.unfold(x[0], 2, stride=2), (6, 6), 2, stride=2), x[0, :, :, :6])
    weight = normal(4, 3, 2, 3, seed=2)
    product = weight.reshape(4, -1) @ columns
    close(product.reshape(2, 4, 6, 3), F.conv2d(x, weight, None, (1, 2), (1, 0), (2, 1)))


# Pooling


def windows_of(n, kernel, stride, padding, dilation, ceil_mode):
    """For every window of an axis the places of the input in it, and how many count with frame."""
    span = dilation * (kernel - 1) + 1
    room = n + 2 * padding - span
    count = (math.ceil if ceil_mode else math.floor)(room / stride) + 1
    if ceil_mode and (count - 1) * stride >= n + padding:
        count -= 1
    result = []
    for i in range(count):
        places = [i * stride - padding + t * dilation for t in range(kernel)]
        result.append(
            ([p for p in places if 0 <= p < n], sum(-padding <= p < n + padding for p in places))
        )
    return result


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding"), [(2, 2, 0), (3, 2, 1), (3, 1, 1), (4, 3, 2), (2, 3, 0)]
)
def test_pooling(kernel, stride, padding, ceil_mode):
    x = normal(2, 3, 10, 9)
    rows = windows_of(10, kernel, stride, padding, 1, ceil_mode)
    columns = windows_of(9, kernel, stride, padding, 1, ceil_mode)
    shape = (2, 3, len(rows), len(columns))
    most, mean, total = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    places = np.zeros(shape, np.int64)
    for i, (r, rc) in enumerate(rows):
        for j, (c, cc) in enumerate(columns):
            part = x[:, :, r][:, :, :, c]
            flat = part.reshape(2, 3, -1)
            most[:, :, i, j] = flat.max(-1)
            mean[:, :, i, j] = flat.mean(-1)
            total[:, :, i, j] = flat.sum(-1) / (rc * cc)
            numbers = (np.array(r)[:, None] * 9 + np.array(c)).reshape(-1)
            places[:, :, i, j] = numbers[flat.argmax(-1)]
    options = {"stride": stride, "padding": padding, "ceil_mode": ceil_mode}
    found, found_places = F.max_pool2d(x, kernel, return_indices=True, **options)
    close(found, most)
    close(found_places, places)
    close(F.max_pool2d(x, kernel, **options), most)
    close(F.avg_pool2d(x, kernel, **options), total)
    close(F.avg_pool2d(x, kernel, count_include_pad=False, **options), mean)
    powers = F.lp_pool2d(np.abs(x), 3, kernel, stride) ** 3
    close(powers, F.avg_pool2d(np.abs(x) ** 3, kernel, stride, divisor_override=1), 1e-9)


def test_dilated_max_pooling():
    x = normal(1, 1, 12)
    expected = [x[0, 0, places].max() for places, _ in windows_of(12, 3, 2, 1, 2, False)]
    close(F.max_pool1d(x, 3, 2, 1, 2)[0, 0], expected)


def test_max_pooling_of_what_is_not_finite():
    x = np.array([[[np.nan, 1.0, -np.inf, -np.inf]]])
    found, places = F.max_pool1d(x, 2, return_indices=True)
    np.testing.assert_array_equal(found, [[[np.nan, -np.inf]]])
    np.testing.assert_array_equal(places, [[[0, 2]]])
    # Not the padding, though it is as small.
    _, places = F.max_pool1d(np.full((1, 1, 2), -np.inf), 2, padding=1, return_indices=True)
    np.testing.assert_array_equal(places, [[[0, 1]]])
    numbers = np.array([[[3, -5, 2, 2]]], np.int8)
    found, places = F.max_pool1d(numbers, 2, padding=1, return_indices=True)
    np.testing.assert_array_equal(found, [[[3, 2, 2]]])
    assert found.dtype == np.int8
    assert places.dtype == np.int64


@pytest.mark.parametrize("size", [1, 2, 3, 7, 9, (4, None), (None, 5)], ids=str)
def test_adaptive_pooling(size):
    x = normal(2, 3, 9, 7)
    asked = (size, size) if isinstance(size, int) else size
    extents = [n if s is None else s for s, n in zip(asked, (9, 7), strict=True)]
    bins = [
        [(i * n // s, math.ceil((i + 1) * n / s)) for i in range(s)]
        for s, n in zip(extents, (9, 7), strict=True)
    ]
    mean, most = np.zeros((2, 3, *extents)), np.zeros((2, 3, *extents))
    for (i, (a, b)), (j, (c, d)) in itertools.product(*map(enumerate, bins)):
        mean[:, :, i, j] = x[:, :, a:b, c:d].mean((2, 3))
        most[:, :, i, j] = x[:, :, a:b, c:d].max((2, 3))
    close(F.adaptive_avg_pool2d(x, size), mean)
    close(F.adaptive_max_pool2d(x, size), most)
    found, places = F.adaptive_max_pool2d(x, size, return_indices=True)
    close(found, most)
    flat, numbers = x.reshape(2, 3, -1), places.reshape(2, 3, -1)
    close(np.take_along_axis(flat, numbers, 2), most.reshape(2, 3, -1))


# Padding


def test_pad():
    x = normal(2, 3, 5)
    names: list[Any] = [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")]
    for mode, theirs in names:
        close(F.pad(x, (2, 1), mode), np.pad(x, ((0, 0), (0, 0), (2, 1)), theirs))
        close(F.pad(x, (2, 1, 0, 2), mode), np.pad(x, ((0, 0), (0, 2), (2, 1)), theirs))
    close(F.pad(x, (1, 2), value=3.0), np.pad(x, ((0, 0), (0, 0), (1, 2)), constant_values=3.0))
    close(F.pad(x, (-1, -2)), x[:, :, 1:3])
    assert F.pad(np.ones(2, np.int32), (1, 1)).dtype == np.int32


# Activations


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_activations_against_scipy(dtype):
    x = np.linspace(-30, 30, 2001, dtype=dtype)
    # Softplus is a straight line from 20 on, and so is what mish makes of it.
    rtol = 1e-6 if dtype is np.float32 else 1e-13
    pairs = [
        (F.sigmoid(x), special.expit(x)),
        (F.logsigmoid(x), special.log_expit(x)),
        (F.softplus(x, 1.0, 100.0), np.logaddexp(0, x)),
        (F.silu(x), x * special.expit(x)),
        (F.mish(x), x * np.tanh(np.logaddexp(0, x))),
        (F.softmax(x, 0), special.softmax(x)),
        (F.log_softmax(x, 0), special.log_softmax(x)),
        (F.relu6(x), np.clip(x, 0, 6)),
        (F.softsign(x), x / (1 + abs(x))),
        (F.elu(x, 2.0), np.where(x > 0, x, 2 * np.expm1(x))),
        (F.celu(x, 2.0), np.where(x > 0, x, 2 * np.expm1(x / 2))),
        (F.hardsigmoid(x), np.clip(x / 6 + 0.5, 0, 1)),
        (F.hardswish(x), x * np.clip(x / 6 + 0.5, 0, 1)),
        (F.softshrink(x), np.sign(x) * np.maximum(abs(x) - 0.5, 0)),
        (F.hardshrink(x), np.where(abs(x) > 0.5, x, 0)),
        (F.threshold(x, 1.0, 7.0), np.where(x > 1, x, 7)),
        (F.tanhshrink(x), x - np.tanh(x)),
    ]
    for ours, expected in pairs:
        assert ours.dtype == dtype
        close(ours, expected, rtol, rtol)
    # Far below zero both terms of 1 + erf cancel, in PyTorch too.
    close(F.gelu(x), x * special.ndtr(x), rtol, rtol)
    close(F.gelu(x, "tanh"), F.gelu(x), 0, 1e-3)


def test_activations_do_not_overflow():
    x = np.array([-1e4, -1e3, 0, 1e3, 1e4], np.float32)
    with np.errstate(all="raise", under="ignore"):
        for function in (F.sigmoid, F.logsigmoid, F.silu, F.softplus, F.mish, F.elu, F.selu):
            assert np.all(np.isfinite(function(x)))


def test_selu_keeps_mean_and_variance():
    y = F.selu(normal(1_000_000))
    assert abs(y.mean()) < 0.01
    assert abs(y.var() - 1) < 0.01


def test_inplace():
    for function in (F.relu, F.relu6, F.elu, F.selu, F.silu, F.mish, F.leaky_relu, F.hardswish):
        x = normal(5).astype(np.float32)
        expected = function(x)
        assert expected is not x
        assert function(x, inplace=True) is x
        close(x, expected)


def test_activations_of_axes():
    x = normal(2, 4, 6)
    close(F.glu(x, 1), x[:, :2] * special.expit(x[:, 2:]))
    close(F.prelu(x, np.array([0.5])), np.where(x > 0, x, x / 2))
    slopes = normal(4, seed=1)
    close(F.prelu(x, slopes), np.where(x > 0, x, x * slopes[:, None]))
    close(F.softmin(x, 2), special.softmax(-x, 2))
    for shape, axis in [((4,), 0), ((3, 4), 1), ((2, 3, 4), 0), ((2, 3, 4, 5), 1)]:
        close(F.softmax(normal(*shape)), special.softmax(normal(*shape), axis))
    assert F.softmax(np.ones((2, 2), np.float32), 1, np.float64).dtype == np.float64


# Normalization


def test_batch_norm():
    x, weight, bias = normal(4, 3, 5), normal(3, seed=1), normal(3, seed=2)
    mean, var = np.zeros(3), np.ones(3)
    y = F.batch_norm(x, mean, var, weight, bias, True, 0.3)
    flat = x.swapaxes(0, 1).reshape(3, -1)
    expected = (x - flat.mean(1)[:, None]) / np.sqrt(flat.var(1)[:, None] + 1e-5)
    close(y, expected * weight[:, None] + bias[:, None])
    close(mean, 0.3 * flat.mean(1))
    close(var, 0.7 + 0.3 * flat.var(1, ddof=1))
    y = F.batch_norm(x, mean, var, eps=1e-3)
    close(y, (x - mean[:, None]) / np.sqrt(var[:, None] + 1e-3))


def test_the_mean_of_all_batches():
    layer = nn.BatchNorm1d(3, momentum=None, dtype=np.float64)
    batches = [normal(6, 3, seed=seed) for seed in range(4)]
    for batch in batches:
        layer(batch)
    close(layer.running_mean, np.mean([batch.mean(0) for batch in batches], 0))
    close(layer.running_var, np.mean([batch.var(0, ddof=1) for batch in batches], 0))
    layer.reset_running_stats()
    assert layer.num_batches_tracked == 0


def test_other_norms():
    x = normal(4, 6, 5)

    def standard(values, axes):
        return (values - values.mean(axes, keepdims=True)) / np.sqrt(
            values.var(axes, keepdims=True) + 1e-5
        )

    close(F.layer_norm(x, (5,)), standard(x, (2,)))
    close(F.layer_norm(x, (6, 5)), standard(x, (1, 2)))
    close(F.instance_norm(x), standard(x, (2,)))
    close(F.group_norm(x, 6), standard(x, (2,)))
    close(F.group_norm(x, 1), standard(x, (1, 2)))
    close(F.group_norm(x, 2), standard(x.reshape(4, 2, 15), (2,)).reshape(x.shape))
    close(F.rms_norm(x, (5,), eps=0.1), x / np.sqrt((x**2).mean(2, keepdims=True) + 0.1))
    square = np.pad(x**2, ((0, 0), (1, 1), (0, 0)))
    mean = (square[:, :-2] + square[:, 1:-1] + square[:, 2:]) / 3
    close(F.local_response_norm(x, 3, 0.5, 0.75, 2.0), x / (2 + 0.5 * mean) ** 0.75)


# Attention and recurrent layers


def test_attention_by_hand():
    q, k, v = normal(2, 5, 8), normal(2, 7, 8, seed=1), normal(2, 7, 6, seed=2)
    expected = special.softmax(q @ k.swapaxes(1, 2) / np.sqrt(8), -1) @ v
    close(F.scaled_dot_product_attention(q, k, v), expected)
    mask = np.random.default_rng(3).uniform(size=(5, 7)) < 0.5
    mask[:, 0] = True
    scores = np.where(mask, q @ k.swapaxes(1, 2) / np.sqrt(8), -np.inf)
    close(F.scaled_dot_product_attention(q, k, v, mask), special.softmax(scores, -1) @ v)
    mask[2] = False
    assert np.all(F.scaled_dot_product_attention(q, k, v, mask)[:, 2] == 0)
    causal = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    close(causal[:, 0], v[:, 0])


def test_heads_attend_by_themselves():
    layer = nn.MultiheadAttention(8, 2, dtype=np.float64)
    x = normal(5, 3, 8)
    projected = x @ layer.in_proj_weight.T + layer.in_proj_bias
    q, k, v = np.split(projected, 3, -1)
    heads = []
    for head in range(2):
        part = slice(head * 4, head * 4 + 4)
        scores = np.einsum("lne,sne->nls", q[..., part], k[..., part]) / 2
        heads.append(np.einsum("nls,sne->lne", special.softmax(scores, -1), v[..., part]))
    joined = np.concatenate(heads, -1)
    output, weights = layer(x, x, x)
    close(output, joined @ layer.out_proj.weight.T + layer.out_proj.bias)
    close(weights.sum(-1), np.ones((3, 5)))
    assert layer(x, x, x, need_weights=False)[1] is None


def test_layers_run_their_cells():
    x = normal(6, 2, 3)
    for layer_class, cell_class in [(nn.RNN, nn.RNNCell), (nn.GRU, nn.GRUCell)]:
        layer = layer_class(3, 4, dtype=np.float64)
        cell = cell_class(3, 4, dtype=np.float64)
        cell.load_state_dict({k.removesuffix("_l0"): v for k, v in layer.state_dict().items()})
        hidden, seen = None, []
        for step in x:
            hidden = cell(step, hidden)
            seen.append(hidden)
        output, last = layer(x)
        close(output, np.stack(seen))
        close(last[0], hidden)


def test_lstm_step_by_step():
    layer = nn.LSTM(3, 4, dtype=np.float64)
    x = normal(6, 2, 3)
    h = c = np.zeros((2, 4))
    for step in x:
        gates = step @ layer.weight_ih_l0.T + layer.bias_ih_l0
        gates = gates + h @ layer.weight_hh_l0.T + layer.bias_hh_l0
        i, f, g, o = np.split(gates, 4, -1)
        c = special.expit(f) * c + special.expit(i) * np.tanh(g)
        h = special.expit(o) * np.tanh(c)
    output, (hidden, cell) = layer(x)
    close(output[-1], h)
    close(hidden[0], h)
    close(cell[0], c)


def test_the_other_direction_is_the_reversed_sequence():
    both = nn.GRU(3, 4, bidirectional=True, dtype=np.float64)
    one = nn.GRU(3, 4, dtype=np.float64)
    state = both.state_dict()
    one.load_state_dict({name: state[f"{name}_reverse"] for name in one.state_dict()})
    x = normal(6, 2, 3)
    output, last = both(x)
    backward, _ = one(x[::-1])
    close(output[..., 4:], backward[::-1])
    close(last[1], backward[-1])


# Losses and tables


def test_losses_by_hand():
    x, t = normal(6, 4), np.array([0, 3, 1, 1, 2, 0])
    scores = special.log_softmax(x, 1)
    close(F.cross_entropy(x, t), -scores[np.arange(6), t].mean())
    close(F.cross_entropy(x, t, reduction="none"), -scores[np.arange(6), t])
    close(F.nll_loss(scores, t, ignore_index=1), -scores[[0, 1, 4, 5], [0, 3, 2, 0]].mean())
    hot = F.one_hot(t, 4).astype(float)
    close(F.cross_entropy(x, hot), F.cross_entropy(x, t))
    smooth = F.cross_entropy(x, 0.9 * hot + 0.025)
    close(F.cross_entropy(x, t, label_smoothing=0.1), smooth)
    y = normal(6, 4, seed=1)
    close(F.mse_loss(x, y), ((x - y) ** 2).mean())
    close(F.l1_loss(x, y, reduction="sum"), abs(x - y).sum())
    close(F.huber_loss(x, y), special.huber(1.0, x - y).mean())
    close(F.smooth_l1_loss(x, y, beta=0.5), special.huber(0.5, x - y).mean() / 0.5)
    p, q = special.expit(x), special.expit(y)
    close(F.kl_div(np.log(p), q, reduction="none"), special.rel_entr(q, p))
    close(F.binary_cross_entropy(p, q), -(q * np.log(p) + (1 - q) * np.log(1 - p)).mean())
    close(F.binary_cross_entropy_with_logits(x, q), F.binary_cross_entropy(p, q))


def alignments(scores, label, blank):
    """The log of the sum over all paths that read as the label, path by path."""
    steps, classes = scores.shape
    total = -np.inf
    for path in itertools.product(range(classes), repeat=steps):
        read = [c for c, _ in itertools.groupby(path) if c != blank]
        if read == list(label):
            total = np.logaddexp(total, sum(scores[t, c] for t, c in enumerate(path)))
    return -total


@pytest.mark.parametrize("label", [(), (1,), (1, 2), (1, 1), (2, 1, 2), (1, 1, 1)], ids=str)
def test_ctc_loss_sums_all_alignments(label):
    scores = special.log_softmax(normal(5, 3), 1)
    found = F.ctc_loss(
        scores[:, None],
        np.array([label], np.int64).reshape(1, -1),
        np.array([5]),
        np.array([len(label)]),
        reduction="none",
    )
    close(found, [alignments(scores, label, 0)])


def test_one_hot_and_embedding():
    numbers = np.array([[0, 2], [1, 3]])
    weight = normal(4, 5)
    close(F.embedding(numbers, weight), weight[numbers])
    close(F.one_hot(numbers), np.eye(4, dtype=np.int64)[numbers])
    close(F.embedding_bag(numbers, weight, mode="sum"), weight[numbers].sum(1))
    close(F.embedding_bag(numbers, weight, mode="max"), weight[numbers].max(1))
    bags = F.embedding_bag(np.array([0, 1, 2]), weight, np.array([0, 2, 2]))
    close(bags, np.stack([weight[:2].mean(0), np.zeros(5), weight[2]]))


# Images


def test_interpolation_of_straight_lines():
    x = np.arange(5.0)[None, None]
    close(F.interpolate(x, 9, mode="linear", align_corners=True)[0, 0], np.arange(9) / 2)
    inner = F.interpolate(x, 10, mode="linear")[0, 0]
    close(inner, np.clip((np.arange(10) + 0.5) / 2 - 0.5, 0, 4))
    plane = np.arange(6.0)[:, None] + np.arange(7.0) * 10
    smooth = F.interpolate(plane[None, None], (11, 13), mode="bicubic", align_corners=True)
    expected = (np.arange(11) / 2)[:, None] + np.arange(13) * 5
    close(smooth[0, 0, 3:-3, 3:-3], expected[3:-3, 3:-3])
    close(F.interpolate(x, 10)[0, 0], np.repeat(np.arange(5.0), 2))
    close(F.interpolate(x, scale_factor=2), F.interpolate(x, 10))
    close(F.interpolate(plane[None, None], (3, 7), mode="area")[0, 0, :, 0], [0.5, 2.5, 4.5])


def test_the_grid_of_the_identity_is_the_image():
    x = normal(2, 3, 5, 6)
    theta = np.broadcast_to(np.eye(2, 3), (2, 2, 3))
    for align, mode in itertools.product((False, True), ("bilinear", "nearest", "bicubic")):
        grid = F.affine_grid(theta, (2, 3, 5, 6), align)
        close(F.grid_sample(x, grid, mode, align_corners=align), x)


def test_shuffles():
    x = normal(2, 8, 3, 4)
    shuffled = F.pixel_shuffle(x, 2)
    for i, j in np.ndindex(2, 2):
        close(shuffled[:, :, i::2, j::2], x[:, i * 2 + j :: 4])
    close(F.pixel_unshuffle(shuffled, 2), x)
    close(F.channel_shuffle(x, 2)[:, ::2], x[:, :4])


@pytest.mark.filterwarnings("ignore:divide by zero")
def test_axes_without_elements():
    for function in (F.softmax, F.log_softmax, F.softmin):
        for shape in ((3, 0), (0, 3), (0,)):
            x = np.zeros(shape, np.float32)
            found, compiled = function(x, -1), script(lambda x, of=function: of(x, -1))(x)
            assert found.shape == compiled.shape == shape
            assert found.dtype == compiled.dtype == np.float32
    assert F.local_response_norm(np.zeros((2, 0, 3)), 2).shape == (2, 0, 3)
    assert nn.Unflatten(-1, (5, -1))(np.zeros((0, 3, 5))).shape == (0, 3, 5, 1)
    query, keys = np.ones((2, 4, 8), np.float32), np.ones((2, 0, 8), np.float32)
    close(F.scaled_dot_product_attention(query, keys, keys), np.zeros((2, 4, 8)))


def test_distances():
    x, y = normal(6, 4), normal(6, 4, seed=1)
    for p in (1.0, 2.0, 3.0, math.inf):
        expected = np.linalg.norm(x - y + 1e-6, p, axis=1)
        close(F.pairwise_distance(x, y, p), expected)
        close(F.normalize(x, p), x / np.linalg.norm(x, p, axis=1, keepdims=True))
    products = (x * y).sum(1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1)
    close(F.cosine_similarity(x, y), products)
