"""Functions of layers in graphs: one node each, with the types of what NumPy gives."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest
from script_modules import array, assert_same_error

from checking import function_from_source
from jitcore import nn, script
from jitcore.frontend import compile_function
from jitcore.ir.ops import kind_of
from jitcore.ir.ops.layers import OPS, layer_kind
from jitcore.ir.specialize.specialize import specialize
from jitcore.ir.types import ANY, TensorType
from jitcore.nn import functional as F

SPATIAL = (9, 8, 7)


@pytest.mark.parametrize("op", OPS, ids=[op.kind for op in OPS])
def test_rows_have_the_parameters_of_their_functions(op):
    function = op.definition.function
    parameters = inspect.signature(function).parameters.values()
    wanted = [(one.name, one.default) for one in parameters]
    own = [
        (one.name, inspect.Parameter.empty if one.default is ... else one.default)
        for one in op.signature
        if one.name not in op.definition.hints
    ]
    assert own == wanted
    assert layer_kind(function) is op


CALLS = {
    "conv": ("F.conv{r}d(x, w)", "F.conv{r}d(x, w, b, stride=2, padding=1)"),
    "same": ("F.conv{r}d(x, w, padding='same')", "F.conv{r}d(x, w, padding='same', dilation=2)"),
    "valid": ("F.conv{r}d(x, w, b, 1, 'valid', 2)", "F.conv{r}d(x, w, dilation=(2,), stride=[2])"),
    "groups": ("F.conv{r}d(x, w[:, :2], groups=2)",),
    "transposed": (
        "F.conv_transpose{r}d(x, w.swapaxes(0, 1))",
        "F.conv_transpose{r}d(x, w.swapaxes(0, 1), b, stride=3, padding=1, output_padding=2)",
        "F.conv_transpose{r}d(x, w.swapaxes(0, 1)[:, :3], groups=2, dilation=2)",
    ),
    "pooling": (
        "F.max_pool{r}d(x, 3)",
        "F.max_pool{r}d(x, 3, 2, 1, 1, True)",
        "F.max_pool{r}d(x, 2, dilation=2, ceil_mode=True)",
        "F.avg_pool{r}d(x, 2, ceil_mode=True)",
        "F.avg_pool{r}d(x, 3, 2, 1, count_include_pad=False)",
        "F.adaptive_avg_pool{r}d(x, 4)",
        "F.adaptive_avg_pool{r}d(x, 3)",
    ),
}


@pytest.mark.parametrize("dims", ["known", "symbols"])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("what", CALLS)
def test_types_are_those_of_the_results(what, rank, dims):
    x, w, b = array(2, 4, *SPATIAL[:rank]), array(6, 4, *(3,) * rank), array(6)
    for text in CALLS[what]:
        for given in (x, x[0]):
            check_type(text.format(r=rank), (given, w, b), dims == "known")


def check_type(text, args, known):
    function: Any = function_from_source(f"def f(x, w, b):\n    return {text}\n", F=F)
    expected = function(*args)
    types = [
        TensorType(
            one.dtype, tuple(n if known else f"{name}{axis}" for axis, n in enumerate(one.shape))
        )
        for name, one in zip("xwb", args, strict=True)
    ]
    graph = specialize(compile_function(function, lookup_op=kind_of), types)
    (result,) = graph.outputs
    found: Any = result.type
    if found == ANY:
        assert "adaptive" in text
        return
    assert found.dtype == expected.dtype
    assert len(found.dims) == expected.ndim
    if known:
        assert found.dims == expected.shape


TRANSPOSED = {
    "as wide as the stride": "w.swapaxes(0, 1)[..., :2], b, stride=2",
    "wider": "w.swapaxes(0, 1), b, stride=2, padding=1, output_padding=1",
    "gaps": "w.swapaxes(0, 1)[..., :1], b, stride=3, output_padding=2",
    "gaps without bias": "w.swapaxes(0, 1), stride=4, dilation=2",
    "steps that share a factor": "w.swapaxes(0, 1), b, stride=4, dilation=6, padding=2",
    "groups": "w.swapaxes(0, 1)[:, :3], b, stride=2, groups=2",
    "each channel for itself": "w.swapaxes(0, 1)[:, :1], b[:4], stride=2, padding=1, groups=4",
    "cut to nothing at one end": "w.swapaxes(0, 1)[..., :1], b, stride=2, padding=2",
}


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("what", TRANSPOSED)
def test_transposed_convolutions_give_every_phase_its_taps(what, rank):
    text = f"def f(x, w, b):\n    return F.conv_transpose{rank}d(x, {TRANSPOSED[what]})\n"
    function: Any = function_from_source(text, F=F)
    scripted = script(function)
    for extents in (SPATIAL[:rank], (1,) * (rank - 1) + (4,), (3,) * rank):
        x, w, b = array(2, 4, *extents), array(6, 4, *(3,) * rank), array(6)
        try:
            expected = function(x, w, b)
        except ValueError as error:
            with pytest.raises(ValueError, match=re.escape(str(error))):
                scripted(x, w, b)
            continue
        found = scripted(x, w, b)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_model_has_a_node_for_each_function():
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout()
    ).eval()
    kinds = [node.kind for node in script(model).graph.nodes() if node.kind.startswith("nn::")]
    wanted = ["conv2d", "batch_norm", "relu", "max_pool2d", "dropout"]
    assert kinds == [f"nn::{name}" for name in wanted]


def test_dropout_in_training_is_no_function_of_its_own():
    graph = script(nn.Dropout()).graph
    assert not graph.find_all_nodes("nn::dropout")


def test_errors_of_calls_with_extents_that_are_not_known_name_the_layers():
    model = nn.Sequential(nn.Sequential(nn.Conv1d(3, 4, 3)))
    scripted = script(model)
    for length in range(5, 9):
        scripted(array(2, 3, length))
    for wrong in (array(2, 4, 9), array(2, 3, 2), array(7)):
        assert_same_error(scripted, model, wrong, error=ValueError, match="conv1d")
