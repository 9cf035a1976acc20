"""Layers with arguments and inputs, for the tests that go through all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["ACTIVATIONS", "LAYERS", "identifier", "inputs_of", "normal"]

LAYERS: list[tuple[str, tuple[Any, ...], dict[str, Any], list[Any]]] = [
    ("Identity", (), {}, [(2, 3)]),
    ("Linear", (5, 3), {}, [(4, 5)]),
    ("Linear", (5, 3), {"bias": False}, [(2, 4, 5)]),
    ("Linear", (5, 3), {}, [(5,)]),
    ("Linear", (5, 3), {}, [(0, 5)]),
    ("Bilinear", (4, 5, 3), {}, [(6, 4), (6, 5)]),
    ("Bilinear", (4, 5, 3), {"bias": False}, [(2, 6, 4), (2, 6, 5)]),
    ("Flatten", (), {}, [(2, 3, 4, 5)]),
    ("Flatten", (0, 1), {}, [(2, 3, 4, 5)]),
    ("Flatten", (-2, -1), {}, [(2, 3, 4, 5)]),
    ("Unflatten", (1, (2, 3)), {}, [(4, 6, 5)]),
    ("Unflatten", (-1, (5, -1)), {}, [(4, 6, 5)]),
    ("Conv1d", (4, 6, 3), {}, [(2, 4, 9)]),
    ("Conv1d", (4, 6, 3), {"padding": 1, "bias": False}, [(4, 9)]),
    ("Conv2d", (4, 6, 3), {}, [(2, 4, 9, 8)]),
    ("Conv2d", (4, 6, (3, 2)), {"stride": (2, 1), "padding": (1, 2)}, [(2, 4, 9, 8)]),
    ("Conv2d", (4, 6, 3), {"dilation": 2, "groups": 2, "bias": False}, [(2, 4, 9, 8)]),
    ("Conv2d", (4, 8, 3), {"groups": 4, "padding": "same"}, [(2, 4, 9, 8)]),
    ("Conv2d", (4, 8, 4), {"padding": "same", "dilation": (1, 2)}, [(2, 4, 9, 8)]),
    ("Conv2d", (4, 8, 4), {"padding": "valid"}, [(4, 9, 8)]),
    ("Conv2d", (4, 6, 3), {"padding": 2, "padding_mode": "reflect"}, [(2, 4, 9, 8)]),
    ("Conv2d", (4, 6, 3), {"padding": 2, "padding_mode": "circular"}, [(2, 4, 9, 8)]),
    ("Conv2d", (4, 6, 4), {"padding": "same", "padding_mode": "replicate"}, [(2, 4, 9, 8)]),
    ("Conv2d", (3, 5, 1), {}, [(2, 3, 4, 4)]),
    ("Conv2d", (3, 5, 3), {}, [(0, 3, 4, 4)]),
    ("Conv3d", (2, 4, 3), {"stride": 2, "padding": 1}, [(2, 2, 5, 6, 7)]),
    ("Conv3d", (2, 4, (1, 2, 3)), {"groups": 2}, [(2, 5, 6, 7)]),
    ("ConvTranspose1d", (4, 6, 3), {"stride": 2, "output_padding": 1}, [(2, 4, 5)]),
    ("ConvTranspose2d", (4, 6, 3), {}, [(2, 4, 5, 6)]),
    ("ConvTranspose2d", (4, 6, (3, 2)), {"stride": (2, 3), "padding": 1}, [(2, 4, 5, 6)]),
    ("ConvTranspose2d", (4, 6, 3), {"groups": 2, "dilation": 2, "bias": False}, [(4, 5, 6)]),
    ("ConvTranspose3d", (2, 4, 3), {"stride": 2, "padding": 1}, [(2, 2, 3, 4, 3)]),
    ("Unfold", ((2, 3),), {"padding": 1, "stride": 2}, [(2, 3, 6, 7)]),
    ("Fold", ((5, 6), (2, 3)), {}, [(2, 12, 16)]),
    ("Fold", ((5, 6), 2), {"stride": 2, "padding": 1}, [(2, 12, 12)]),
    ("BatchNorm1d", (4,), {}, [(5, 4)]),
    ("BatchNorm1d", (4,), {"momentum": None}, [(5, 4, 6)]),
    ("BatchNorm2d", (4,), {}, [(3, 4, 5, 6)]),
    ("BatchNorm2d", (4,), {"affine": False, "eps": 1e-3}, [(3, 4, 5, 6)]),
    ("BatchNorm2d", (4,), {"track_running_stats": False}, [(3, 4, 5, 6)]),
    ("BatchNorm3d", (4,), {"momentum": 0.3}, [(3, 4, 2, 3, 2)]),
    ("LayerNorm", (6,), {}, [(3, 5, 6)]),
    ("LayerNorm", ((5, 6),), {"bias": False}, [(3, 5, 6)]),
    ("LayerNorm", ([6],), {"elementwise_affine": False}, [(3, 5, 6)]),
    ("GroupNorm", (2, 6), {}, [(3, 6, 4, 5)]),
    ("GroupNorm", (3, 6), {"affine": False}, [(3, 6)]),
    ("GroupNorm", (6, 6), {}, [(2, 6, 7)]),
    ("InstanceNorm1d", (4,), {}, [(2, 4, 5)]),
    ("InstanceNorm1d", (4,), {"affine": True}, [(4, 5)]),
    ("InstanceNorm2d", (4,), {"affine": True, "track_running_stats": True}, [(2, 4, 5, 6)]),
    ("InstanceNorm3d", (4,), {}, [(2, 4, 3, 2, 3)]),
    ("RMSNorm", (6,), {}, [(3, 5, 6)]),
    ("RMSNorm", ((5, 6),), {"eps": 1e-3, "elementwise_affine": False}, [(3, 5, 6)]),
    ("LocalResponseNorm", (3,), {}, [(2, 5, 4, 4)]),
    ("LocalResponseNorm", (2,), {"alpha": 0.3, "k": 2.0}, [(2, 5, 4)]),
    ("Dropout", (), {}, [(3, 4)]),
    ("Dropout2d", (0.2,), {}, [(3, 4, 5, 5)]),
    ("AlphaDropout", (), {}, [(3, 4)]),
    ("MaxPool1d", (3,), {"padding": 1}, [(2, 3, 10)]),
    ("MaxPool2d", (3,), {"stride": 2, "padding": 1}, [(2, 3, 9, 10)]),
    ("MaxPool2d", ((3, 2),), {"dilation": 2, "return_indices": True}, [(2, 3, 9, 10)]),
    ("MaxPool2d", (3,), {"stride": 2, "ceil_mode": True, "return_indices": True}, [(3, 8, 8)]),
    ("MaxPool3d", (2,), {"ceil_mode": True, "return_indices": True}, [(2, 3, 5, 4, 3)]),
    ("AvgPool1d", (3,), {"padding": 1}, [(2, 3, 10)]),
    ("AvgPool2d", (3,), {"stride": 2, "padding": 1, "ceil_mode": True}, [(2, 3, 8, 9)]),
    ("AvgPool2d", ((3, 2),), {"padding": 1, "count_include_pad": False}, [(3, 8, 9)]),
    ("AvgPool2d", (3,), {"divisor_override": 5}, [(2, 3, 8, 9)]),
    ("AvgPool3d", (2,), {"stride": 1, "padding": 1, "ceil_mode": True}, [(2, 3, 5, 4, 3)]),
    ("LPPool1d", (3, 4), {"stride": 2}, [(2, 3, 10)]),
    ("LPPool2d", (2, 3), {}, [(2, 3, 8, 9)]),
    ("AdaptiveAvgPool1d", (4,), {}, [(2, 3, 10)]),
    ("AdaptiveAvgPool2d", (1,), {}, [(2, 3, 7, 9)]),
    ("AdaptiveAvgPool2d", ((3, None),), {}, [(3, 7, 9)]),
    ("AdaptiveAvgPool2d", ((5, 9),), {}, [(2, 3, 7, 4)]),
    ("AdaptiveAvgPool3d", ((2, 3, 4),), {}, [(2, 3, 5, 6, 7)]),
    ("AdaptiveMaxPool1d", (4,), {"return_indices": True}, [(2, 3, 10)]),
    ("AdaptiveMaxPool2d", ((3, 4),), {"return_indices": True}, [(2, 3, 7, 9)]),
    ("AdaptiveMaxPool2d", ((None, 2),), {}, [(3, 7, 9)]),
    ("AdaptiveMaxPool3d", ((2, 3, 4),), {"return_indices": True}, [(2, 3, 5, 6, 7)]),
    ("ConstantPad1d", (2, 1.5), {}, [(2, 3, 4)]),
    ("ConstantPad2d", ((1, 0, -1, 2), 1.5), {}, [(2, 3, 4, 5)]),
    ("ConstantPad3d", (1, 0.5), {}, [(2, 3, 4, 5, 3)]),
    ("ZeroPad1d", ((1, 2),), {}, [(2, 3, 4)]),
    ("ZeroPad2d", (1,), {}, [(2, 3, 4, 5)]),
    ("ZeroPad3d", (1,), {}, [(2, 3, 4, 5, 3)]),
    ("ReflectionPad1d", ((2, 1),), {}, [(2, 3, 4)]),
    ("ReflectionPad2d", (2,), {}, [(3, 4, 5)]),
    ("ReflectionPad3d", (1,), {}, [(2, 3, 4, 5, 3)]),
    ("ReplicationPad1d", ((2, 5),), {}, [(2, 3, 4)]),
    ("ReplicationPad2d", ((2, 0, 1, 7),), {}, [(2, 3, 4, 5)]),
    ("ReplicationPad3d", (1,), {}, [(2, 3, 4, 5, 3)]),
    ("CircularPad1d", (3,), {}, [(2, 3, 4)]),
    ("CircularPad2d", ((1, 2, 0, 3),), {}, [(2, 3, 4, 5)]),
    ("CircularPad3d", (1,), {}, [(2, 3, 4, 5, 3)]),
    ("Upsample", (), {"scale_factor": 2}, [(2, 3, 4)]),
    ("Upsample", ((5, 7),), {"mode": "bilinear"}, [(2, 3, 4, 6)]),
    ("Upsample", (), {"scale_factor": (1.5, 2.5), "mode": "bicubic"}, [(2, 3, 4, 6)]),
    ("UpsamplingNearest2d", (), {"scale_factor": 3}, [(2, 3, 4, 6)]),
    ("UpsamplingBilinear2d", ((9, 8),), {}, [(2, 3, 4, 6)]),
    ("PixelShuffle", (2,), {}, [(2, 8, 3, 4)]),
    ("PixelShuffle", (2,), {}, [(8, 1, 4)]),
    ("PixelUnshuffle", (2,), {}, [(2, 3, 4, 6)]),
    ("ChannelShuffle", (3,), {}, [(2, 6, 4, 4)]),
    ("CosineSimilarity", (), {}, [(3, 4), (3, 4)]),
    ("CosineSimilarity", (0,), {"eps": 1e-2}, [(3, 4), (3, 1)]),
    ("PairwiseDistance", (), {}, [(3, 4), (3, 4)]),
    ("PairwiseDistance", (3.0,), {"keepdim": True}, [(3, 4), (4,)]),
    ("RNNCell", (3, 4), {}, [(5, 3)]),
    ("RNNCell", (3, 4), {"nonlinearity": "relu", "bias": False}, [(5, 3), (5, 4)]),
    ("LSTMCell", (3, 4), {}, [(5, 3)]),
    ("LSTMCell", (3, 4), {"bias": False}, [(3,), [(4,), (4,)]]),
    ("GRUCell", (3, 4), {}, [(5, 3), (5, 4)]),
    ("GRUCell", (3, 4), {"bias": False}, [(3,)]),
    ("RNN", (3, 4), {}, [(6, 2, 3)]),
    ("RNN", (3, 4, 2), {"nonlinearity": "relu", "bidirectional": True}, [(6, 2, 3), (4, 2, 4)]),
    ("RNN", (3, 4), {"batch_first": True, "bias": False}, [(2, 6, 3)]),
    ("LSTM", (3, 4), {}, [(6, 2, 3)]),
    ("LSTM", (3, 4, 2), {"batch_first": True, "bidirectional": True}, [(2, 6, 3)]),
    ("LSTM", (3, 4, 3), {"bias": False}, [(6, 2, 3), [(3, 2, 4), (3, 2, 4)]]),
    ("LSTM", (3, 4, 2), {"proj_size": 2, "bidirectional": True}, [(6, 3)]),
    ("LSTM", (3, 4), {"proj_size": 3}, [(6, 2, 3), [(1, 2, 3), (1, 2, 4)]]),
    ("GRU", (3, 4), {}, [(6, 2, 3)]),
    ("GRU", (3, 4, 2), {"batch_first": True, "bidirectional": True}, [(2, 6, 3), (4, 2, 4)]),
    ("GRU", (3, 4, 2), {"bias": False}, [(6, 3), (2, 4)]),
    ("MultiheadAttention", (8, 2), {}, [(5, 3, 8), (7, 3, 8), (7, 3, 8)]),
    ("MultiheadAttention", (8, 2), {"bias": False}, [(5, 8), (7, 8), (7, 8)]),
    ("MultiheadAttention", (8, 4), {"batch_first": True, "add_bias_kv": True}, [(3, 5, 8)] * 3),
    (
        "MultiheadAttention",
        (8, 2),
        {"kdim": 5, "vdim": 6, "add_zero_attn": True},
        [(5, 3, 8), (7, 3, 5), (7, 3, 6)],
    ),
    ("TransformerEncoderLayer", (8, 2, 16), {}, [(5, 3, 8)]),
    (
        "TransformerEncoderLayer",
        (8, 2, 16),
        {"activation": "gelu", "batch_first": True, "norm_first": True, "bias": False},
        [(3, 5, 8)],
    ),
    ("TransformerDecoderLayer", (8, 2, 16), {}, [(5, 3, 8), (7, 3, 8)]),
    ("TransformerDecoderLayer", (8, 2, 16), {"norm_first": True}, [(5, 8), (7, 8)]),
    ("Transformer", (8, 2, 2, 2, 16), {"batch_first": True}, [(3, 5, 8), (3, 4, 8)]),
]
"""The class, its arguments, and the shapes of its inputs; a list of shapes is a tuple of arrays."""

ACTIVATIONS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("ReLU", (), {}),
    ("ReLU", (True,), {}),
    ("ReLU6", (), {}),
    ("LeakyReLU", (0.2,), {}),
    ("LeakyReLU", (), {"inplace": True}),
    ("PReLU", (), {}),
    ("PReLU", (4,), {"init": 0.1}),
    ("RReLU", (), {}),
    ("ELU", (0.7,), {}),
    ("ELU", (), {"inplace": True}),
    ("SELU", (), {}),
    ("CELU", (0.7,), {}),
    ("GELU", (), {}),
    ("GELU", ("tanh",), {}),
    ("SiLU", (), {}),
    ("SiLU", (True,), {}),
    ("Mish", (), {}),
    ("Sigmoid", (), {}),
    ("LogSigmoid", (), {}),
    ("Tanh", (), {}),
    ("Tanhshrink", (), {}),
    ("Softsign", (), {}),
    ("Softplus", (), {}),
    ("Softplus", (2.0, 3.0), {}),
    ("Softshrink", (0.3,), {}),
    ("Hardshrink", (0.3,), {}),
    ("Hardtanh", (), {}),
    ("Hardtanh", (-0.5, 2), {}),
    ("Hardswish", (), {}),
    ("Hardsigmoid", (), {}),
    ("Threshold", (0.1, 20), {}),
    ("GLU", (1,), {}),
    ("Softmax", (1,), {}),
    ("Softmax", (-1,), {}),
    ("Softmin", (2,), {}),
    ("LogSoftmax", (1,), {}),
    ("Softmax2d", (), {}),
]
"""The class and its arguments; the input is an array of three axes with four channels."""


def identifier(case: tuple[Any, ...]) -> str:
    """The case as text, for pytest."""
    options = [f"{name}={value}" for name, value in case[2].items()]
    return f"{case[0]}:{','.join([*map(str, case[1]), *options])}"


def normal(
    rng: np.random.Generator, *shape: int, dtype: npt.DTypeLike = np.float32
) -> npt.NDArray[Any]:
    """A random array, also of the empty shape, where NumPy gives a number."""
    return np.asarray(rng.normal(size=shape)).astype(dtype)


def inputs_of(
    shapes: list[Any], rng: np.random.Generator, dtype: npt.DTypeLike = np.float32
) -> list[Any]:
    """Random arrays; a list of shapes gives a tuple of arrays."""
    return [
        tuple(inputs_of(shape, rng, dtype))
        if isinstance(shape, list)
        else normal(rng, *shape, dtype=dtype)
        for shape in shapes
    ]
