"""Layers and functions against PyTorch, with the same weights.

PyTorch is no dependency of the project, not even of its tests: this file runs where it happens to
be installed, in an environment for benchmarks, say.  The other files ``test_nn_*.py`` test the
same layers without it.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
import pytest
from nn_cases import ACTIVATIONS, LAYERS, identifier, inputs_of, normal

from jitcore import nn
from jitcore.nn import functional as F

torch = pytest.importorskip("torch", reason="PyTorch is only in environments for benchmarks")

# PyTorch warns of choices it makes inside.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

RTOL = 1e-5


def tensors(value):
    """Arrays as tensors, inside tuples and lists too."""
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    if isinstance(value, tuple):
        return tuple(tensors(one) for one in value)
    return value


def assert_close(ours, theirs, rtol=RTOL, atol=None):
    """The same structure, shapes, dtypes and nearly the same values."""
    if isinstance(theirs, tuple):
        assert isinstance(ours, tuple) and len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_close(one, other, rtol, atol)
        return
    if theirs is None:
        assert ours is None
        return
    expected = theirs.detach().numpy()
    assert isinstance(ours, np.ndarray | np.generic)
    assert ours.shape == expected.shape
    assert ours.dtype == expected.dtype
    finite = np.abs(expected[np.isfinite(expected)])
    # Sums may cancel: what counts is the error in proportion to the largest value.
    scale = float(finite.max()) if finite.size else 0.0
    found: Any = ours
    np.testing.assert_allclose(
        found, expected, rtol=rtol, atol=rtol * scale if atol is None else atol
    )


def pair(name, args, kwargs):
    """The layer of PyTorch and ours with the same random weights."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = getattr(torch.nn, name)(*args, **kwargs)
    ours = getattr(nn, name)(*args, **kwargs)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.5)
    return ours, theirs


def assert_same_state(ours, theirs):
    """The same names in the same order, shapes and dtypes."""
    own, other = ours.state_dict(), theirs.state_dict()
    assert list(own) == list(other)
    for name, value in other.items():
        assert_close(own[name], value)


def in_modes(case):
    """The case in evaluation, and in training if that draws no random numbers."""
    modes = (False,) if case[0].startswith(("Dropout", "AlphaD", "Transformer")) else (False, True)
    return [(case, mode) for mode in modes]


@pytest.mark.parametrize(
    ("case", "training"),
    [one for case in LAYERS for one in in_modes(case)],
    ids=lambda one: identifier(one) if isinstance(one, tuple) else str(one),
)
def test_layer(case, training):
    name, args, kwargs, shapes = case
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    ours, theirs = pair(name, args, kwargs)
    assert repr(ours) == repr(theirs).replace("NonDynamicallyQuantizable", "")
    ours.load_state_dict(theirs.state_dict())
    assert_same_state(ours, theirs)
    ours.train(training)
    theirs.train(training)
    for _ in range(2):
        values = inputs_of(shapes, rng)
        with torch.no_grad():
            expected = theirs(*tensors(tuple(values)))
        assert_close(ours(*values), expected)
    assert_same_state(ours, theirs)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", ACTIVATIONS, ids=identifier)
def test_activation(case, dtype):
    name, args, kwargs = case
    ours, theirs = pair(name, args, kwargs)
    assert repr(ours) == repr(theirs)
    ours.to(dtype)
    theirs.to(getattr(torch, np.dtype(dtype).name))
    ours.load_state_dict(theirs.state_dict())
    ours.eval()
    theirs.eval()
    rng = np.random.default_rng(0)
    for scale in (1, 10, 200):
        values = normal(rng, 3, 4, 6, dtype=dtype) * dtype(scale)
        special = values.reshape(-1)[:6]
        special[:] = [np.inf, -np.inf, np.nan, 0, -0.0, 3]
        if name in ("GLU", "Softmax", "Softmin", "LogSoftmax", "Softmax2d"):
            special[:3] = 1, 2, 3
        if name == "GELU" and not args:
            # In single precision PyTorch's vectorized error function makes NaN of infinity.
            special[0] = 1
        given, copied = values.copy(), torch.from_numpy(values.copy())
        expected = theirs(copied)
        rtol = 2e-5 if dtype is np.float32 else 1e-12
        atol = 3e-7 * scale if dtype is np.float32 else 1e-13 * scale
        assert_close(ours(given), expected, rtol, atol)
        np.testing.assert_allclose(given, copied.detach().numpy(), rtol, atol)


def test_all_layers_of_pytorch_have_been_decided_on():
    left_out = {
        "AdaptiveLogSoftmaxWithLoss",
        "Buffer",
        "Container",
        "CrossMapLRN2d",
        "DataParallel",
        "FractionalMaxPool2d",
        "FractionalMaxPool3d",
        "LinearCrossEntropyLoss",
        "LinearCrossEntropyOptions",
        "MaxUnpool1d",
        "MaxUnpool2d",
        "MaxUnpool3d",
        "NLLLoss2d",
        "RNNBase",
        "RNNCellBase",
        "SyncBatchNorm",
        "UninitializedBuffer",
        "UninitializedParameter",
    }
    classes = {
        name
        for name, value in vars(torch.nn).items()
        if inspect.isclass(value) and not name.startswith(("Lazy", "_"))
    }
    assert classes - left_out - set(nn.__all__) == set()


@pytest.mark.parametrize("name", [n for n in nn.__all__ if hasattr(torch.nn, n) and n[0].isupper()])
def test_constructor_arguments(name):
    compare_signatures(getattr(nn, name).__init__, getattr(torch.nn, name).__init__)


def has_signature(name):
    """Whether a function of PyTorch is written in Python, and has no argument without effect.

    ``gumbel_softmax`` has one, and what follows it is keyword-only here.
    """
    return name != "gumbel_softmax" and inspect.isfunction(getattr(torch.nn.functional, name))


@pytest.mark.parametrize("name", [n for n in F.__all__ if has_signature(n)])
def test_function_arguments(name):
    compare_signatures(getattr(F, name), getattr(torch.nn.functional, name))


LEFT_OUT = {
    "out",
    "device",
    "dtype",
    "size_average",
    "reduce",
    "_stacklevel",
    "min_value",
    "max_value",
}


def compare_signatures(ours, theirs):
    """The same arguments and defaults, by position as far as positions may be given."""
    own = inspect.signature(ours).parameters
    other = inspect.signature(theirs).parameters
    if any(one.kind is one.VAR_POSITIONAL for one in other.values()):
        return
    expected = [name for name in other if name not in LEFT_OUT]
    found = [name for name in own if name not in LEFT_OUT]
    positional = [n for n in found if own[n].kind is not own[n].KEYWORD_ONLY]
    assert expected[: len(positional)] == positional
    assert set(expected) == set(found)
    before = list(other)[: len(positional)]
    assert before == positional or not set(before) & LEFT_OUT - {"dtype"}
    for name in found:
        default = other[name].default
        if callable(default) and default is not inspect.Parameter.empty:
            continue
        assert own[name].default == default, name


def compare(name, *args, rtol=RTOL, **kwargs):
    """Call a function of both on the same arguments."""
    theirs = getattr(torch.nn.functional, name)
    given = {key: tensors(value) for key, value in kwargs.items()}
    expected = theirs(*tensors(args), **given)
    assert_close(getattr(F, name)(*args, **kwargs), expected, rtol)


def probabilities(rng, *shape):
    return rng.uniform(0.05, 0.95, shape).astype(np.float32)


def signs(rng, *shape):
    return rng.choice([-1, 1], shape).astype(np.float32)


REDUCTIONS = ["none", "mean", "sum"]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", [(5,), (4, 5), (2, 3, 4)], ids=str)
def test_losses_of_arrays(shape, reduction):
    rng = np.random.default_rng(0)
    x, y, w = normal(rng, *shape), normal(rng, *shape), probabilities(rng, *shape)
    p, q = probabilities(rng, *shape), probabilities(rng, *shape)
    s = signs(rng, *shape)
    for name in ("l1_loss", "mse_loss", "huber_loss", "smooth_l1_loss"):
        compare(name, x, y, reduction=reduction)
    for name in ("l1_loss", "mse_loss", "huber_loss"):
        compare(name, x, y, reduction=reduction, weight=w)
    compare("huber_loss", x, y, reduction, 0.3)
    compare("smooth_l1_loss", x, y, reduction=reduction, beta=0.3)
    compare("smooth_l1_loss", x, y, reduction=reduction, beta=0.0)
    compare("binary_cross_entropy", p, q, reduction=reduction)
    compare("binary_cross_entropy", np.round(p), q, w, reduction=reduction)
    compare("binary_cross_entropy_with_logits", x * 9, q, reduction=reduction)
    compare("binary_cross_entropy_with_logits", x, q, w, reduction=reduction, pos_weight=w)
    compare("kl_div", np.log(p), q, reduction=reduction)
    compare("kl_div", np.log(p), np.log(q), reduction=reduction, log_target=True)
    compare("kl_div", np.log(p), np.round(q), reduction=reduction)
    compare("soft_margin_loss", x * 9, s, reduction=reduction)
    compare("poisson_nll_loss", x, np.round(q * 5), reduction=reduction)
    compare("poisson_nll_loss", p, np.round(q * 5), False, True, reduction=reduction)
    compare("gaussian_nll_loss", x, y, q, reduction=reduction)
    compare("gaussian_nll_loss", x, y, q[..., :1], full=True, reduction=reduction)
    compare("gaussian_nll_loss", x, y, 0.5, reduction=reduction)
    compare("hinge_embedding_loss", x, s, 0.7, reduction=reduction)
    compare("margin_ranking_loss", x, y, s, 0.7, reduction=reduction)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", [(5,), (4, 5)], ids=str)
def test_losses_of_vectors(shape, reduction):
    rng = np.random.default_rng(0)
    x, y, z = normal(rng, *shape), normal(rng, *shape), normal(rng, *shape)
    target = signs(rng, *shape[:-1])
    compare("cosine_embedding_loss", x, y, np.asarray(target), 0.1, reduction=reduction)
    compare("triplet_margin_loss", x, y, z, reduction=reduction)
    compare("triplet_margin_loss", x, y, z, 0.5, 3.0, swap=True, reduction=reduction)
    compare("triplet_margin_with_distance_loss", x, y, z, swap=True, reduction=reduction)
    classes = np.asarray(rng.integers(0, 5, shape[:-1]))
    w = probabilities(rng, 5)
    compare("multi_margin_loss", x, classes, reduction=reduction)
    compare("multi_margin_loss", x, classes, 2, 0.7, w, reduction=reduction)
    lists = np.broadcast_to(np.array([3, 1, -1, 0, 2]), shape).copy()
    compare("multilabel_margin_loss", x, lists, reduction=reduction)
    compare("multilabel_soft_margin_loss", x, np.round(w + y * 0), w, reduction=reduction)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", [(5,), (4, 5), (2, 5, 3), (2, 5, 3, 4)], ids=str)
def test_losses_of_classes(shape, reduction):
    rng = np.random.default_rng(0)
    axis = 0 if len(shape) == 1 else 1
    x, w = normal(rng, *shape), probabilities(rng, 5)
    target = np.asarray(rng.integers(0, 5, shape[:axis] + shape[axis + 1 :]))
    soft = F.softmax(normal(rng, *shape), axis)
    ignored = int(target.reshape(-1)[0]) if target.size > 1 else -100
    each: tuple[dict[str, Any], ...] = (
        {},
        {"weight": w},
        {"ignore_index": ignored},
        {"weight": w, "ignore_index": ignored},
    )
    for options in each:
        compare("nll_loss", x, target, reduction=reduction, **options)
        for smoothing in (0.0, 0.3):
            options["label_smoothing"] = smoothing
            compare("cross_entropy", x, target, reduction=reduction, **options)
            given = {k: v for k, v in options.items() if k != "ignore_index"}
            compare("cross_entropy", x, soft, reduction=reduction, **given)
            del options["label_smoothing"]


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_ctc_loss(reduction):
    rng = np.random.default_rng(0)
    scores = F.log_softmax(normal(rng, 12, 4, 6), -1)
    targets = rng.integers(1, 6, (4, 5))
    targets[0, :3] = 2
    inputs, lengths = np.array([12, 9, 12, 3]), np.array([5, 3, 1, 5])
    joined = np.concatenate([row[:n] for row, n in zip(targets, lengths, strict=True)])
    for options in ({}, {"zero_infinity": True}):
        for given in (targets, joined):
            compare("ctc_loss", scores, given, inputs, lengths, reduction=reduction, **options)
    compare(
        "ctc_loss", scores[:, 0], targets[0, :4], np.array(12), np.array(4), reduction=reduction
    )
    other = np.where(targets == 3, 0, targets)
    compare("ctc_loss", scores, other, inputs, lengths, 3, reduction, True)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "area"])
@pytest.mark.parametrize("shape", [(2, 3, 7), (2, 3, 7, 6), (1, 2, 7, 6, 5)], ids=str)
def test_interpolate_any_rank(shape, mode):
    x = normal(np.random.default_rng(0), *shape)
    for options in ({"size": 10}, {"size": 3}, {"scale_factor": 2.3}, {"scale_factor": 0.6}):
        compare("interpolate", x, mode=mode, **options)
        if "scale_factor" in options:
            compare("interpolate", x, mode=mode, recompute_scale_factor=True, **options)


@pytest.mark.parametrize("align", [None, False, True])
@pytest.mark.parametrize(
    ("mode", "rank"), [("linear", 1), ("bilinear", 2), ("bicubic", 2), ("trilinear", 3)]
)
def test_interpolate_smoothly(mode, rank, align):
    x = normal(np.random.default_rng(0), *(2, 3, 7, 6, 5)[: 2 + rank])
    for options in (
        {"size": 11},
        {"size": 4},
        {"size": 1},
        {"scale_factor": 1.7},
        {"scale_factor": (0.6, 1.3, 2.0)[:rank]},
    ):
        compare("interpolate", x, mode=mode, align_corners=align, **options)
        if rank == 2:
            compare("interpolate", x, mode=mode, align_corners=align, antialias=True, **options)


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample(mode, padding, align):
    rng = np.random.default_rng(0)
    x, grid = normal(rng, 2, 3, 5, 6), normal(rng, 2, 4, 7, 2)
    compare("grid_sample", x, grid, mode, padding, align, rtol=1e-4)
    if mode != "bicubic":
        volume, places = normal(rng, 2, 3, 5, 6, 4), normal(rng, 2, 4, 7, 3, 3)
        compare("grid_sample", volume, places, mode, padding, align, rtol=1e-4)


@pytest.mark.parametrize("align", [False, True])
def test_affine_grid(align):
    rng = np.random.default_rng(0)
    compare("affine_grid", normal(rng, 2, 2, 3), (2, 3, 4, 5), align)
    compare("affine_grid", normal(rng, 2, 3, 4), (2, 3, 4, 1, 5), align)


def test_embedding():
    rng = np.random.default_rng(0)
    weight = normal(rng, 10, 4)
    numbers = rng.integers(0, 10, (3, 5))
    compare("embedding", numbers, weight)
    compare("embedding", numbers, weight, padding_idx=-1)
    for norm in (1.0, 2.0, 3.0):
        ours, theirs = weight.copy(), torch.from_numpy(weight.copy())
        expected = torch.nn.functional.embedding(
            torch.from_numpy(numbers), theirs, max_norm=0.7, norm_type=norm
        )
        assert_close(F.embedding(numbers, ours, max_norm=0.7, norm_type=norm), expected)
        assert_close(ours, theirs)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag(mode):
    rng = np.random.default_rng(0)
    weight = normal(rng, 10, 4)
    rows, flat = rng.integers(0, 10, (3, 5)), rng.integers(0, 10, 12)
    offsets = np.array([0, 4, 4, 9])
    compare("embedding_bag", rows, weight, mode=mode)
    compare("embedding_bag", flat, weight, offsets, mode=mode)
    compare("embedding_bag", flat, weight, offsets, mode=mode, padding_idx=int(flat[0]))
    ends = np.append(offsets, 12)
    compare("embedding_bag", flat, weight, ends, mode=mode, include_last_offset=True)
    if mode == "sum":
        factors = normal(rng, 12)
        compare("embedding_bag", flat, weight, offsets, mode=mode, per_sample_weights=factors)


def test_one_hot():
    numbers = np.array([[0, 2], [1, 4]])
    compare("one_hot", numbers)
    compare("one_hot", numbers, 6)
    compare("one_hot", np.zeros((0, 2), np.int64), 3)


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.5, float("inf")])
def test_norms(p):
    rng = np.random.default_rng(0)
    x, y = normal(rng, 5, 4), normal(rng, 5, 4)
    compare("pairwise_distance", x, y, p)
    compare("pdist", x, p)
    compare("normalize", x, p)
    compare("normalize", x, p, -1, 5.0)


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_pad(mode):
    x = normal(np.random.default_rng(0), 2, 3, 4, 5)
    for widths in [(1, 2), (0, 0), (3, 0, 1, 2), (-1, 2, 1, -2)]:
        if mode != "constant" and len(widths) == 2:
            compare("pad", x[0], widths, mode)
        elif mode == "constant" or min(widths) >= 0:
            compare("pad", x, widths, mode)
    compare("pad", x, (1, 0, 0, 1, 2, 2, 0, 1), value=1.5)


@pytest.mark.parametrize("shapes", [((5, 8), (7, 8), (7, 6)), ((2, 4, 5, 8), (2, 4, 7, 8))])
def test_scaled_dot_product_attention(shapes):
    rng = np.random.default_rng(0)
    q, k, v = (normal(rng, *shape) for shape in (*shapes, shapes[-1])[:3])
    name = "scaled_dot_product_attention"
    mask = rng.uniform(size=(q.shape[-2], k.shape[-2])) < 0.5
    mask[1] = False
    compare(name, q, k, v)
    compare(name, q, k, v, mask)
    compare(name, q, k, v, normal(rng, *mask.shape))
    compare(name, q, k, v, is_causal=True)
    compare(name, q, k, v, scale=0.3)
    if q.ndim == 4:
        compare(name, q, k[:, :2], v[:, :2], enable_gqa=True)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("batched", [False, True])
def test_attention_masks(batched, need_weights):
    rng = np.random.default_rng(0)
    for options in ({}, {"add_bias_kv": True, "add_zero_attn": True}):
        ours, theirs = pair("MultiheadAttention", (8, 2), options)
        ours.load_state_dict(theirs.state_dict())
        batch = (3,) if batched else ()
        q, k = normal(rng, 5, *batch, 8), normal(rng, 7, *batch, 8)
        mask = np.triu(np.ones((5, 7), np.bool), 2)
        padding = np.zeros((*batch, 7), np.bool)
        padding[..., -2:] = True
        many = normal(rng, 6 if batched else 2, 5, 7)
        for masks in (
            {"attn_mask": mask},
            {"attn_mask": normal(rng, 5, 7)},
            {"attn_mask": many},
            {"key_padding_mask": padding},
            {"attn_mask": mask, "key_padding_mask": padding},
            {"attn_mask": many, "average_attn_weights": False},
        ):
            expected = theirs(
                *tensors((q, k, k)),
                need_weights=need_weights,
                **{name: tensors(value) for name, value in masks.items()},
            )
            assert_close(ours(q, k, k, need_weights=need_weights, **masks), expected)


@pytest.mark.parametrize("norm_first", [False, True])
def test_transformer_with_masks(norm_first):
    rng = np.random.default_rng(0)
    theirs = torch.nn.Transformer(16, 4, 2, 3, 32, norm_first=norm_first, batch_first=True)
    ours = nn.Transformer(16, 4, 2, 3, 32, norm_first=norm_first, batch_first=True)
    ours.load_state_dict(theirs.state_dict())
    ours.eval()
    theirs.eval()
    source, target = normal(rng, 3, 6, 16), normal(rng, 3, 5, 16)
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    assert_close(causal, torch.nn.Transformer.generate_square_subsequent_mask(5))
    # With a mask of keys PyTorch's fast path would leave out what is padded.
    with torch.enable_grad():
        expected = theirs(*tensors((source, target)), tgt_mask=tensors(causal))
    assert_close(ours(source, target, tgt_mask=causal), expected, 1e-4)


def random_options(rng):
    """Options of a convolution or a pooling of two axes."""
    kernel = tuple(int(k) for k in rng.integers(1, 5, 2))
    return {
        "kernel_size": kernel,
        "stride": tuple(int(s) for s in rng.integers(1, 4, 2)),
        "padding": tuple(int(rng.integers(0, k // 2 + 1)) for k in kernel),
        "dilation": tuple(int(d) for d in rng.integers(1, 3, 2)),
    }


@pytest.mark.parametrize("seed", range(60))
def test_random_convolutions_and_pooling(seed):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    options = random_options(rng)
    groups = int(rng.integers(1, 4))
    channels = groups * int(rng.integers(1, 4)), groups * int(rng.integers(1, 4))
    shape = (int(rng.integers(1, 4)), channels[0], *(int(n) for n in rng.integers(8, 15, 2)))
    x = normal(rng, *shape)
    bias = bool(rng.integers(2))
    cases: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("Conv2d", channels, {**options, "groups": groups, "bias": bias}),
        ("ConvTranspose2d", channels, {**options, "groups": groups, "bias": bias}),
        ("MaxPool2d", (), {**options, "return_indices": True, "ceil_mode": bias}),
    ]
    del options["dilation"]
    cases.append(
        ("AvgPool2d", (), {**options, "ceil_mode": bias, "count_include_pad": bool(seed % 2)})
    )
    output = tuple(int(n) for n in rng.integers(1, 9, 2))
    cases.append(("AdaptiveAvgPool2d", (output,), {}))
    cases.append(("AdaptiveMaxPool2d", (output,), {"return_indices": True}))
    for name, args, kwargs in cases:
        ours, theirs = pair(name, args, kwargs)
        ours.load_state_dict(theirs.state_dict())
        assert repr(ours) == repr(theirs)
        assert_close(ours(x), theirs(torch.from_numpy(x)))


def test_a_state_dict_goes_both_ways():
    def model(library):
        return library.Sequential(
            library.Conv2d(3, 8, 3, padding=1),
            library.BatchNorm2d(8),
            library.ReLU(),
            library.Sequential(library.AdaptiveAvgPool2d(2), library.Flatten()),
            library.ModuleList([library.Linear(32, 5), library.Linear(32, 5)])[0],
        )

    ours, theirs = model(nn), model(torch.nn)
    assert repr(ours) == repr(theirs)
    theirs.load_state_dict({name: torch.from_numpy(v) for name, v in ours.state_dict().items()})
    x = normal(np.random.default_rng(0), 2, 3, 8, 8)
    for training in (True, False):
        ours.train(training)
        theirs.train(training)
        assert_close(ours(x), theirs(torch.from_numpy(x)))
    assert_same_state(ours, theirs)


def test_initial_values_have_the_same_bounds():
    for name, args in [
        ("Linear", (50, 60)),
        ("Conv2d", (8, 16, 3)),
        ("ConvTranspose2d", (8, 16, 3)),
        ("Bilinear", (20, 30, 4)),
        ("LSTM", (16, 25)),
        ("MultiheadAttention", (32, 4)),
        ("Embedding", (40, 50)),
    ]:
        ours, theirs = getattr(nn, name)(*args), getattr(torch.nn, name)(*args)
        for (key, own), (_, other) in zip(
            ours.named_parameters(), theirs.named_parameters(), strict=True
        ):
            if own.size < 100:
                continue
            spread = float(other.detach().std())
            assert abs(float(own.std()) - spread) <= 0.25 * spread, (name, key)
            if name != "Embedding":
                most = float(other.detach().abs().max())
                assert abs(float(np.abs(own).max()) - most) <= 0.2 * most, (name, key)


@pytest.mark.parametrize("seed", range(20))
def test_interpolate_by_factors_that_hardly_change_the_size(seed):
    rng = np.random.default_rng(seed)
    for rank, mode in [(1, "linear"), (2, "bilinear"), (2, "bicubic"), (3, "trilinear")]:
        x = normal(rng, 2, 3, *(int(n) for n in rng.integers(3, 9, rank)))
        for name in (mode, "nearest", "nearest-exact"):
            factors = tuple(float(f) for f in rng.choice([0.9, 1.04, 1.2, 2.05, 2.0], rank))
            compare("interpolate", x, mode=name, scale_factor=factors)


@pytest.mark.parametrize("need_weights", [False, True])
def test_attention_to_given_keys(need_weights):
    rng = np.random.default_rng(0)
    q, k, given = normal(rng, 3, 2, 8), normal(rng, 5, 2, 8), normal(rng, 4, 6, 4)
    weights = normal(rng, 24, 8), normal(rng, 24), None, None, False, 0.0
    args = (q, k, k, 8, 2, *weights, normal(rng, 8, 8), normal(rng, 8))
    for options in ({}, {"static_k": given, "static_v": -given}):
        compare("multi_head_attention_forward", *args, need_weights=need_weights, **options)
