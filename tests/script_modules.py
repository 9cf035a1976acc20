# mypy: allow-untyped-defs, allow-untyped-calls
"""Layers and models for the tests of scripted and of frozen modules."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from jitcore import nn
from jitcore.nn import functional as F


def array(*shape, dtype=np.float32):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


def assert_same(found, expected):
    """Equal types, dtypes and shapes, and values up to the order of additions."""
    assert type(found) is type(expected)
    if isinstance(expected, tuple | list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, np.ndarray | np.generic):
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        assert_allclose(np.asarray(found), np.asarray(expected), rtol=2e-5, atol=2e-6)
    else:
        assert found == expected


def assert_same_error(found, expected, *args, error=(ValueError, TypeError), match=None):
    """Both raise the same error, with notes of the same layers."""
    with pytest.raises(error, match=match) as wanted:
        expected(*args)
    with pytest.raises(wanted.type) as raised:
        found(*args)
    assert str(raised.value) == str(wanted.value)
    assert raised.value.__notes__ == wanted.value.__notes__


def native(scripted):
    """Whether the youngest specialization is one native function."""
    return type(scripted.forward.specializations[-1].plan).__name__ == "NativePlan"


LAYERS = {
    "linear": (nn.Linear(8, 5), array(4, 8)),
    "linear without bias": (nn.Linear(8, 5, bias=False), array(2, 4, 8)),
    "float64": (nn.Linear(8, 5, dtype=np.float64), array(4, 8, dtype=np.float64)),
    "bilinear": (nn.Bilinear(4, 3, 5), array(2, 4), array(2, 3)),
    "conv1d": (nn.Conv1d(3, 4, 3, stride=2), array(2, 3, 11)),
    "conv2d": (nn.Conv2d(4, 6, 3, padding=1, groups=2), array(2, 4, 7, 8)),
    "conv transposed": (nn.ConvTranspose2d(3, 4, 2, stride=2), array(2, 3, 5, 5)),
    "batch norm": (nn.BatchNorm1d(8), array(4, 8)),
    "batch norm 2d": (nn.BatchNorm2d(3), array(2, 3, 6, 6)),
    "group norm": (nn.GroupNorm(2, 4), array(2, 4, 5)),
    "layer norm": (nn.LayerNorm(8), array(4, 8)),
    "instance norm": (nn.InstanceNorm2d(3), array(2, 3, 4, 4)),
    "embedding": (nn.Embedding(10, 4), np.array([[1, 2], [3, 9]])),
    "max pool": (nn.MaxPool2d(2), array(2, 3, 6, 6)),
    "average pool": (nn.AvgPool2d(3, stride=2, padding=1), array(2, 3, 7, 7)),
    "adaptive pool": (nn.AdaptiveAvgPool2d((2, 3)), array(2, 3, 7, 7)),
    "flatten": (nn.Flatten(), array(2, 3, 4)),
    "padding": (nn.ReflectionPad2d(1), array(2, 3, 4, 4)),
    "upsample": (nn.Upsample(scale_factor=2), array(1, 2, 3, 3)),
    "gelu": (nn.GELU(), array(4, 8)),
    "softmax": (nn.Softmax(dim=-1), array(4, 8)),
    "dropout": (nn.Dropout(0.5).eval(), array(4, 8)),
    "rnn": (nn.RNN(4, 3), array(5, 2, 4)),
    "lstm": (nn.LSTM(4, 3, num_layers=2, batch_first=True), array(2, 5, 4)),
    "gru": (nn.GRU(4, 3, bidirectional=True), array(5, 2, 4)),
    "attention": (
        nn.MultiheadAttention(8, 2, batch_first=True).eval(),
        *(array(2, 3, 8), array(2, 5, 8), array(2, 5, 8)),
    ),
    "encoder layer": (
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(),
        array(2, 5, 8),
    ),
    "loss": (nn.CrossEntropyLoss(), array(4, 6), np.array([0, 5, 2, 2])),
}


class Residual(nn.Module):
    def __init__(self, inside, outside, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.downsample = None
        if inside != outside:
            self.downsample = nn.Sequential(nn.Conv2d(inside, outside, 1, stride))

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        x = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(x)) + identity)


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Linear(120, 10),
    )


def mlp():
    return nn.Sequential(
        nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3)
    )
