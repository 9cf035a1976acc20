"""Wrong shapes, dtypes and options: the error names the function or layer, and what it found."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import re

import numpy as np
import pytest

from jitcore import nn
from jitcore.nn import functional as F
from jitcore.nn import init


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


SHAPES = [
    (lambda: nn.Linear(4, 3)(zeros(2, 5)), "linear: expected 4 features.*(2, 5)"),
    (lambda: nn.Linear(4, 3)(zeros()), "linear: expected 4 features.*()"),
    (lambda: nn.Bilinear(2, 3, 4)(zeros(5, 2), zeros(5, 2)), "bilinear: expected inputs.*3"),
    (lambda: nn.Bilinear(2, 3, 4)(zeros(5, 2), zeros(6, 3)), "bilinear: .*(5, 2) and (6, 3)"),
    (lambda: nn.Conv2d(3, 4, 3)(zeros(2, 4, 8, 8)), "conv2d: expected 3 channels.*(2, 4, 8, 8)"),
    (lambda: nn.Conv2d(3, 4, 3)(zeros(8, 8)), "conv2d: expected input of shape (C, H, W) or"),
    (lambda: nn.Conv2d(3, 4, 5)(zeros(1, 3, 4, 8)), "conv2d: a kernel of (5, 5).*(4, 8)"),
    (lambda: nn.Conv1d(3, 4, 3)(zeros(1, 3, 4, 8)), "conv1d: expected input of shape (C, L) or"),
    (lambda: nn.Conv3d(3, 4, 3)(zeros(1, 3, 8)), "conv3d: expected input of shape (C, D, H, W)"),
    (lambda: F.conv2d(zeros(1, 4, 5, 5), zeros(3, 2, 3, 3), groups=2), "2 groups do not divide 3"),
    (lambda: F.conv2d(zeros(1, 4, 5, 5), zeros(3, 4, 3)), "conv2d: expected weight with 4 axes"),
    (
        lambda: nn.ConvTranspose2d(3, 4, 3)(zeros(2, 4, 8, 8)),
        "conv_transpose2d: expected 3 channels on axis 1, found input of shape (2, 4, 8, 8)",
    ),
    (lambda: F.conv_transpose1d(zeros(1, 1, 1), zeros(1, 1, 2), padding=1), "leaves nothing"),
    (lambda: F.conv_transpose1d(zeros(1, 1, 3), zeros(1, 1, 2), output_padding=1), "less than"),
    (lambda: nn.MaxPool2d(3)(zeros(1, 1, 2, 5)), "max_pool2d: a window of (3, 3).*(2, 5)"),
    (lambda: nn.MaxPool2d(3, padding=2)(zeros(1, 1, 5, 5)), "max_pool2d: padding.*half"),
    (lambda: nn.AvgPool1d(3)(zeros(5)), "avg_pool1d: expected input of shape (C, L) or (N, C, L)"),
    (lambda: F.avg_pool2d(zeros(1, 4, 4), 2, divisor_override=0), "divisor_override must not"),
    (lambda: nn.AdaptiveAvgPool2d(2)(zeros(1, 1, 0, 5)), "adaptive_avg_pool2d: cannot pool"),
    (lambda: nn.AdaptiveMaxPool2d((2, 2, 2))(zeros(1, 1, 4, 5)), "output_size must be.*2 ints"),
    (
        lambda: nn.BatchNorm2d(3)(zeros(2, 3, 4)),
        "BatchNorm2d: expected input with 4 axes",
    ),
    (lambda: nn.BatchNorm2d(3)(zeros(2, 4, 5, 5)), "batch_norm: expected 3 channels"),
    (lambda: nn.BatchNorm1d(3)(zeros(1, 3)), "batch_norm: training needs more than one value"),
    (lambda: nn.BatchNorm1d(3)(zeros(0, 3)), "batch_norm: training needs more than one value"),
    (lambda: F.batch_norm(zeros(2, 3), None, None), "batch_norm: running_mean and running_var"),
    (lambda: F.batch_norm(zeros(3), None, None), "batch_norm: expected input of shape (N, C, ...)"),
    (lambda: nn.InstanceNorm1d(3)(zeros(2, 3, 1)), "instance_norm: more than one position"),
    (lambda: nn.GroupNorm(3, 3)(zeros(1, 3, 1)), "group_norm: more than one value"),
    (lambda: nn.InstanceNorm2d(3)(zeros(3, 4)), "InstanceNorm2d: expected input with 3 or 4 axes"),
    (lambda: nn.InstanceNorm1d(3, affine=True)(zeros(2, 4, 5)), "InstanceNorm1d: expected 3 cha"),
    (lambda: nn.GroupNorm(2, 4)(zeros(2, 5, 3)), "group_norm: expected 4 channels"),
    (lambda: F.group_norm(zeros(2, 5), 2), "group_norm: 2 groups do not divide 5 channels"),
    (
        lambda: nn.LayerNorm((3, 4))(zeros(2, 4, 3)),
        "layer_norm: expected input of.*, 3, 4)",
    ),
    (lambda: nn.RMSNorm(4)(zeros(2, 3)), "rms_norm: expected input of shape (..., 4)"),
    (lambda: nn.LocalResponseNorm(2)(zeros(2, 3)), "local_response_norm: expected input with 3"),
    (lambda: nn.PReLU(3)(zeros(2, 4)), "prelu: expected 1 or 4 slopes"),
    (lambda: nn.GLU()(zeros(2, 3)), "glu: axis -1 must have even extent"),
    (lambda: nn.Softmax2d()(zeros(2, 3)), "Softmax2d: expected input with 3 or 4 axes"),
    (lambda: nn.ReflectionPad1d(3)(zeros(1, 2, 3)), "pad: reflect padding by 3 and 3 needs more"),
    (lambda: nn.ZeroPad2d(1)(zeros(3, 4)), "ZeroPad2d: expected input with 3 or more axes"),
    (lambda: F.pad(zeros(3), (1, 1, 1)), "pad: expected two numbers for each of at most 1 axes"),
    (lambda: F.pad(zeros(3), (-2, -2)), "pad: (-2, -2) cuts more off"),
    (lambda: F.pad(zeros(3), (1, 1), "mirror"), "pad: mode must be .* found 'mirror'"),
    (lambda: F.pad(zeros(3), (1, 1), "reflect", 1.0), "pad: mode 'reflect' takes no value"),
    (lambda: nn.LSTM(3, 4)(zeros(5, 2, 4)), "LSTM: expected input of shape (T, N, 3) or (T, 3)"),
    (
        lambda: nn.LSTM(3, 4)(zeros(5, 2, 3), (zeros(2, 2, 4), zeros(1, 2, 4))),
        "LSTM: expected the hidden state of shape (1, 2, 4), found (2, 2, 4)",
    ),
    (lambda: nn.LSTM(3, 4)(zeros(0, 2, 3)), "LSTM: expected one step or more, found.*(0, 2, 3)"),
    (lambda: nn.GRU(3, 4, batch_first=True)(zeros(2, 0, 3)), "GRU: expected one step or more"),
    (lambda: nn.GRU(3, 4)(zeros(5, 2, 3), zeros(1, 3, 4)), "GRU: expected hx of shape (1, 2, 4)"),
    (lambda: nn.RNNCell(3, 4)(zeros(2, 4)), "RNNCell: expected input of shape (N, 3) or (3,)"),
    (
        lambda: nn.GRUCell(3, 4)(zeros(2, 3), zeros(2, 3)),
        "GRUCell: expected a state of.*(2, 4)",
    ),
    (
        lambda: nn.MultiheadAttention(4, 2)(zeros(5, 1, 3), zeros(5, 1, 3), zeros(5, 1, 3)),
        "multi_head_attention_forward: expected 4 features on the query's last axis",
    ),
    (
        lambda: nn.MultiheadAttention(4, 2)(*[zeros(5, 1, 4)] * 3, attn_mask=zeros(5, 4)),
        "expected attn_mask for 5 queries and 5 keys, found (5, 4)",
    ),
    (
        lambda: nn.MultiheadAttention(4, 2)(*[zeros(5, 1, 4)] * 3, key_padding_mask=zeros(5, 1)),
        "expected key_padding_mask of shape (1, 5), found (5, 1)",
    ),
    (
        lambda: nn.MultiheadAttention(4, 2)(*[zeros(5, 4)] * 3, is_causal=True),
        "is_causal is a hint; give attn_mask too",
    ),
    (
        lambda: F.scaled_dot_product_attention(zeros(5, 4), zeros(6, 3), zeros(6, 3)),
        "scaled_dot_product_attention: expected query (..., L, E)",
    ),
    (
        lambda: F.scaled_dot_product_attention(
            zeros(5, 4), zeros(5, 4), zeros(5, 4), zeros(5, 5), is_causal=True
        ),
        "give either attn_mask or is_causal",
    ),
    (
        lambda: F.scaled_dot_product_attention(
            zeros(3, 5, 4), zeros(2, 5, 4), zeros(2, 5, 4), enable_gqa=True
        ),
        "the heads of key and value must divide",
    ),
    (lambda: nn.Transformer(4, 2)(zeros(3, 1, 4), zeros(3, 1, 3)), "Transformer: expected 4 feat"),
    (lambda: nn.Flatten(2)(zeros(2, 3)), "Flatten: input of shape (2, 3) has no axes 2 to -1"),
    (lambda: nn.Flatten(1, 0)(zeros(2, 3)), "Flatten: axis 1 comes after axis 0"),
    (lambda: nn.Unflatten(3, (1, 2))(zeros(2, 3)), "Unflatten: input of shape (2, 3) has no axis"),
    (lambda: nn.Unflatten(1, (2, 4))(zeros(4, 6)), "Unflatten: axis 1.*(4, 6) cannot.*(2, 4)"),
    (lambda: nn.Unflatten(1, (4, -1))(zeros(4, 6)), "Unflatten: axis 1.*(4, 6) cannot.*(4, -1)"),
    (lambda: nn.PixelShuffle(2)(zeros(1, 3, 2, 2)), "pixel_shuffle: expected input.*C * 4"),
    (lambda: nn.PixelUnshuffle(2)(zeros(1, 3, 3, 2)), "pixel_unshuffle: expected input"),
    (lambda: nn.ChannelShuffle(2)(zeros(1, 3, 3, 2)), "channel_shuffle: expected input"),
    (lambda: nn.Unfold(4)(zeros(1, 1, 3, 3)), "unfold: a kernel of (4, 4)"),
    (lambda: nn.Fold(4, 2)(zeros(1, 4, 8)), "fold: expected input of shape (..., C * 4, 9)"),
    (lambda: nn.Upsample(3, mode="bilinear")(zeros(1, 1, 3)), "interpolate: mode 'bilinear' is"),
    (lambda: nn.Upsample()(zeros(1, 1, 3)), "interpolate: give either size or scale_factor"),
    (lambda: F.interpolate(zeros(1, 1, 3), 3, mode="sinc"), "interpolate: there is no mode 'sinc'"),
    (lambda: F.interpolate(zeros(1, 1, 3), scale_factor=0.1), "leaves nothing of input"),
    (lambda: F.interpolate(zeros(1, 1, 3), 3, align_corners=True), "takes no align_corners"),
    (lambda: F.grid_sample(zeros(1, 1, 3, 3), zeros(1, 3, 3, 3)), "grid_sample: expected input"),
    (lambda: F.grid_sample(zeros(1, 1, 3, 3), zeros(1, 3, 3, 2), "cubic"), "mode 'cubic' does not"),
    (lambda: F.affine_grid(zeros(1, 2, 3), (1, 1, 2, 2, 2)), "affine_grid: expected theta"),
    (lambda: F.pdist(zeros(3)), "pdist: expected input of shape (N, M)"),
    (lambda: F.dropout1d(zeros(3)), "dropout1d: expected input with 2 or 3 axes"),
    (lambda: F.dropout1d(zeros(3)), "dropout1d: expected input with 2 or 3 axes"),
    (lambda: F.dropout2d(zeros(3)), "dropout2d: expected input with 2 axes or more"),
    (lambda: F.conv2d(zeros(1, 3, 4, 4), zeros(2, 3, 3, 3), zeros(1)), "expected bias of shape"),
    (
        lambda: F.conv_transpose1d(zeros(1, 4, 4), zeros(4, 2, 3), zeros(2), groups=2),
        "conv_transpose1d: expected bias of shape (4,)",
    ),
    (
        lambda: F.conv_transpose1d(zeros(1, 3, 4), zeros(3, 2, 3), groups=2),
        "conv_transpose1d: 2 groups do not divide 3 channels",
    ),
]

LOSSES = [
    (
        lambda: nn.CrossEntropyLoss()(zeros(2, 3), zeros(3, dtype=np.int64)),
        "nll_loss: expected",
    ),
    (lambda: nn.CrossEntropyLoss()(zeros(2, 3), zeros(2)), "cross_entropy: expected probabilities"),
    (
        lambda: nn.NLLLoss(zeros(2))(zeros(1, 3), zeros(1, dtype=np.int64)),
        "nll_loss: expected 3",
    ),
    (lambda: F.cross_entropy(zeros(3), zeros(3), label_smoothing=2.0), "label_smoothing must be"),
    (lambda: nn.BCELoss()(zeros(2), zeros(3)), "binary_cross_entropy: expected the input's shape"),
    (lambda: nn.BCELoss()(zeros(2) + 2, zeros(2)), "binary_cross_entropy: all of the input must"),
    (lambda: nn.BCELoss()(zeros(2) * np.nan, zeros(2)), "binary_cross_entropy: all of the input"),
    (lambda: nn.MSELoss(reduction="product")(zeros(2), zeros(2)), "mse_loss: reduction must be"),
    (lambda: nn.HuberLoss(delta=0)(zeros(2), zeros(2)), "huber_loss: delta must be positive"),
    (lambda: nn.SmoothL1Loss(beta=-1)(zeros(2), zeros(2)), "smooth_l1_loss: beta must not be"),
    (lambda: F.l1_loss(zeros(2), zeros(2), weight=zeros(1)), "l1_loss: weight: expected the inp"),
    (lambda: F.gaussian_nll_loss(zeros(2), zeros(2), -1.0), "gaussian_nll_loss: var must not be"),
    (lambda: F.cosine_embedding_loss(*[zeros(2, 3)] * 3), "cosine_embedding_loss: expected inputs"),
    (lambda: F.multi_margin_loss(zeros(3), zeros(), 3), "multi_margin_loss: p must be 1 or 2"),
    (
        lambda: F.multilabel_margin_loss(zeros(2), zeros(3)),
        "multilabel_margin_loss: expected",
    ),
    (
        lambda: F.ctc_loss(zeros(4, 2, 3), zeros(2, 2, dtype=int), np.array([5, 4]), np.ones(2)),
        "ctc_loss: lengths exceed log_probs",
    ),
    (
        lambda: F.ctc_loss(zeros(4, 2, 3), zeros(2, 2, dtype=int), np.array([4]), np.ones(2, int)),
        "ctc_loss: expected lengths for a batch of 2",
    ),
    (
        lambda: F.ctc_loss(zeros(4, 1, 3), zeros(1, dtype=int), np.array([4]), np.array([2])),
        "ctc_loss: expected 2 labels in all, found 1",
    ),
    (
        lambda: F.one_hot(np.array([1, 3]), 3),
        "one_hot: expected numbers.*found 1",
    ),
    (lambda: F.one_hot(zeros(0, dtype=int)), "one_hot: num_classes must be given"),
    (
        lambda: F.embedding_bag(zeros(3, dtype=int), zeros(2, 2)),
        "embedding_bag: expected input of shape (bags, n), or",
    ),
    (
        lambda: F.embedding_bag(zeros(3, dtype=int), zeros(2, 2), np.array([1, 2])),
        "embedding_bag: offsets must start at 0",
    ),
    (
        lambda: F.embedding_bag(zeros(1, 3, dtype=int), zeros(2, 2), mode="median"),
        "embedding_bag: mode must be",
    ),
    (
        lambda: F.embedding_bag(
            zeros(1, 3, dtype=int), zeros(2, 2), per_sample_weights=zeros(1, 3)
        ),
        "embedding_bag: per_sample_weights need mode 'sum'",
    ),
]

OPTIONS = [
    (lambda: nn.Conv2d(3, 4, 3, groups=2), "Conv2d: 2 groups must divide 3 input and 4 output"),
    (lambda: nn.Conv2d(3, 4, 3, groups=0), "Conv2d: groups must be positive"),
    (lambda: nn.Conv2d(3, 4, (3, 3, 3)), "Conv2d: kernel_size must be an int or 2 ints"),
    (lambda: nn.Conv2d(3, 4, 3, padding="full"), "Conv2d: padding must be ints, 'same' or"),
    (lambda: nn.Conv2d(3, 4, 3, 2, "same"), "Conv2d: padding='same' takes no stride"),
    (lambda: nn.Conv2d(3, 4, 3, padding_mode="mirror"), "Conv2d: padding_mode must be one of"),
    (lambda: nn.ConvTranspose2d(3, 4, 3, padding_mode="reflect"), "ConvTranspose2d: padding_mode"),
    (lambda: F.conv1d(zeros(1, 1, 3), zeros(1, 1, 1), padding=-1), "conv1d: padding must not be"),
    (lambda: F.conv1d(zeros(1, 1, 3), zeros(1, 1, 1), padding="x"), "conv1d: padding must be ints"),
    (lambda: nn.GroupNorm(3, 4), "GroupNorm: 3 groups must divide 4 channels"),
    (lambda: nn.Bilinear(0, 1, 1), "Bilinear: in1_features must be positive"),
    (lambda: nn.Dropout(1.5), "Dropout: p must be from 0 to 1, found 1.5"),
    (lambda: F.dropout(zeros(2), -0.1), "dropout: p must be a probability"),
    (lambda: F.alpha_dropout(zeros(2), 2), "alpha_dropout: p must be a probability"),
    (lambda: nn.Embedding(3, 2, padding_idx=3), "Embedding: padding_idx must be one of 3 rows"),
    (lambda: nn.Embedding(3, 2, _weight=zeros(2, 2)), "Embedding: expected weight of shape (3, 2)"),
    (lambda: nn.Embedding.from_pretrained(zeros(2)), "Embedding: expected a matrix"),
    (lambda: nn.LSTM(3, 4, proj_size=4), "LSTM: proj_size must be less than hidden_size 4"),
    (lambda: nn.GRU(3, 4, dropout=2), "GRU: dropout must be from 0 to 1, found 2"),
    (lambda: nn.GRU(3, 0), "GRU: hidden_size and num_layers must be positive"),
    (lambda: nn.RNN(3, 4, nonlinearity="sine"), "RNN: nonlinearity must be 'tanh' or 'relu'"),
    (lambda: nn.RNNCell(3, 4, nonlinearity="sine"), "RNNCell: nonlinearity must be"),
    (lambda: nn.MultiheadAttention(5, 2), "MultiheadAttention: num_heads must divide embed_dim"),
    (
        lambda: nn.TransformerEncoderLayer(4, 2, activation="sine"),
        "activation must be 'relu'",
    ),
    (lambda: nn.Hardtanh(1, 0), "Hardtanh: min_val must be below max_val"),
    (lambda: nn.GELU("erf")(zeros(2)), "gelu: approximate must be 'none' or 'tanh', found 'erf'"),
    (lambda: F.rrelu(zeros(2), 0.4, 0.3), "rrelu: lower must not be above upper"),
    (lambda: F.celu(zeros(2), 0), "celu: alpha must not be zero"),
    (lambda: F.softshrink(zeros(2), -1), "softshrink: lambd must not be negative"),
    (lambda: nn.ZeroPad2d((1, 2)), "ZeroPad2d: padding must be an int or 4 ints"),
    (lambda: nn.MultiMarginLoss(3), "MultiMarginLoss: p must be 1 or 2"),
    (lambda: nn.TripletMarginLoss(0), "TripletMarginLoss: margin must be positive"),
    (lambda: init.xavier_uniform_(zeros(3)), "xavier_uniform_: expected an array of 2 or more"),
    (lambda: init.kaiming_normal_(zeros(3, 3), mode="fan"), "kaiming_normal_: mode must be"),
    (lambda: init.eye_(zeros(3)), "eye_: expected a matrix"),
    (lambda: init.sparse_(zeros(3), 0.1), "sparse_: expected a matrix"),
    (lambda: init.orthogonal_(zeros(3)), "orthogonal_: expected an array of 2 or more axes"),
    (lambda: init.dirac_(zeros(3)), "dirac_: expected an array of 3, 4 or 5 axes"),
    (lambda: init.dirac_(zeros(3, 3, 3), 2), "dirac_: 2 groups do not divide 3"),
]


def pattern(message):
    """Everything but ``.*`` is meant as it is."""
    return ".*".join(re.escape(part) for part in message.split(".*"))


ALL = [*SHAPES, *LOSSES, *OPTIONS]


@pytest.mark.parametrize(("call", "message"), ALL, ids=[message for _, message in ALL])
def test_value(call, message):
    with pytest.raises(ValueError, match=pattern(message)):
        call()


DTYPES = [
    (lambda x: nn.Linear(4, 3)(x(2, 4)), "linear: the input is {} and weight is float32"),
    (lambda x: nn.Conv2d(3, 4, 3)(x(1, 3, 8, 8)), "conv2d: the input is {} and weight is float32"),
    (lambda x: nn.ConvTranspose1d(3, 4, 3)(x(1, 3, 8)), "conv_transpose1d: the input is {} and"),
    (lambda x: nn.Bilinear(3, 4, 3)(x(1, 3), x(1, 4)), "bilinear: the input is {} and weight is"),
    (lambda x: nn.BatchNorm1d(3)(x(2, 3)), "batch_norm: the input is {} and weight is float32"),
    (lambda x: nn.LayerNorm(3)(x(2, 3)), "layer_norm: the input is {} and weight is float32"),
    (lambda x: nn.RMSNorm(3)(x(2, 3)), "rms_norm: the input is {} and weight is float32"),
    (lambda x: nn.GroupNorm(1, 3)(x(2, 3)), "group_norm: the input is {} and weight is float32"),
    (lambda x: nn.PReLU()(x(2, 3)), "prelu: the input is {} and weight is float32"),
    (lambda x: nn.LSTM(3, 4)(x(5, 2, 3)), "linear: the input is {} and weight is float32"),
    (
        lambda x: F.scaled_dot_product_attention(x(5, 4), zeros(5, 4), zeros(5, 4)),
        "scaled_dot_product_attention: the input is {} and key is float32",
    ),
]


@pytest.mark.parametrize("dtype", [np.float64, np.int64], ids=["float64", "int64"])
@pytest.mark.parametrize(("call", "message"), DTYPES, ids=[message for _, message in DTYPES])
def test_dtypes_that_differ(call, message, dtype):
    name = np.dtype(dtype).name
    with pytest.raises(TypeError, match=message.format(name)) as caught:
        call(lambda *shape: zeros(*shape, dtype=dtype))
    assert f"module.to(np.{name})" in str(caught.value)


def test_numbers_that_are_no_ints():
    for call, message in [
        (lambda: nn.Embedding(3, 2)(zeros(2)), "embedding: the input must be ints.*float32"),
        (lambda: F.one_hot(zeros(2)), "one_hot: expected an array of ints, found float32"),
        (lambda: F.nll_loss(zeros(2, 3), zeros(2)), "nll_loss: classes must be ints"),
    ]:
        with pytest.raises(TypeError, match=message):
            call()


def test_numbers_that_do_not_exist():
    for call, message in [
        (lambda: nn.Embedding(3, 2)(np.array([0, 3])), "embedding: .* from 0 to 3.* 3 rows"),
        (lambda: nn.Embedding(3, 2)(np.array([-1, 2])), "embedding: .* from -1 to 2.* 3 rows"),
        (lambda: F.nll_loss(zeros(2, 3), np.array([0, 3])), "nll_loss: .*below 3, found 0 to 3"),
        (lambda: F.cross_entropy(zeros(2, 3), np.array([0, -1])), "nll_loss: .*found -1 to 0"),
    ]:
        with pytest.raises(IndexError, match=message):
            call()
