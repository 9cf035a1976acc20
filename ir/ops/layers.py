"""The functions of layers (``nn::conv2d``), which passes over whole models want to see as one node.

Such a call stays one node in the generic graph, with all its arguments in order.  When types are
known, `specialize` asks the row's rule; where that has no native form for the call it inlines the
function's own code, its *definition*, which is plain NumPy.  Definitions live where the layers
are; this package knows only their names and parameters (`define_layers`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jitcore.ir.graph import Value
from jitcore.ir.ops.framing import pad_rule
from jitcore.ir.ops.layer_loops import (
    adaptive_maximum_rule,
    embedding_bag_rule,
)
from jitcore.ir.ops.layer_types import (
    adaptive_rule,
    attention_rule,
    avg_pool_rule,
    convolution_rule,
    dropout_rule,
    linear_rule,
    max_pool_rule,
    transposed_rule,
)
from jitcore.ir.ops.op import Builder, Call, Definition, Op, Rule, Untypable
from jitcore.ir.ops.recurrence import recurrence_rule
from jitcore.ir.ops.resizing import interpolate_rule
from jitcore.ir.ops.sampling import grid_sample_rule

__all__ = ["DROPOUTS", "NAMES", "OPS", "define_layers", "layer_kind"]


def _by_definition(b: Builder, call: Call) -> Value:
    """The rule of functions that have no native form of their own."""
    raise Untypable("its definition is compiled")


def _row(
    name: str,
    parameters: str,
    doc: str,
    *,
    rule: Rule = _by_definition,
    only_if: Mapping[str, Any] | None = None,
    **more: Any,
) -> Op:
    definition = Definition(name, dict(only_if or {}))
    return Op(f"nn::{name}", definition, rule, parameters, definition=definition, doc=doc, **more)


_PACKED = "*, packed=None"
"""A hint: the weights as kernels read them, which a pass has packed where they never change."""

_CONVOLUTION = f"input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, {_PACKED}"
_TRANSPOSED = (
    "input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1"
)
_MAX_POOL = (
    "input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False"
)
_AVG_POOL = "input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True"
_MEANS = "The mean of every window."

DROPOUTS: Mapping[str, tuple[int, ...] | None] = {
    "dropout": None,
    "dropout1d": (2, 3),
    "dropout2d": None,
    "dropout3d": None,
    "alpha_dropout": None,
    "feature_alpha_dropout": None,
}
"""The ranks that each takes; None for any."""


def _of_each_rank(
    name: str, parameters: str, doc: str, rule: Callable[[int], Rule]
) -> tuple[Op, ...]:
    ranks = (1, 2, 3)
    return tuple(_row(f"{name}{rank}d", parameters, doc, rule=rule(rank)) for rank in ranks)


OPS: tuple[Op, ...] = (
    _row(
        "linear",
        f"input, weight, bias=None, {_PACKED}",
        "Product with the transposed weights, plus bias.",
        rule=linear_rule,
    ),
    _row(
        "transposed_linear",
        f"input, weight, bias=None, {_PACKED}",
        "Product with the weights, plus bias.",
        rule=linear_rule,
    ),
    _row("matmul", f"input, weight, {_PACKED}", "Product with the weights.", rule=linear_rule),
    *_of_each_rank("conv", _CONVOLUTION, "Cross-correlation with kernels.", convolution_rule),
    *_of_each_rank("conv_transpose", _TRANSPOSED, "The adjoint of a convolution.", transposed_rule),
    _row(
        "batch_norm",
        "input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, "
        "eps=1e-05",
        "Normalization of channels.",
        writes_if={"training": (1, 2)},
    ),
    _row(
        "layer_norm",
        "input, normalized_shape, weight=None, bias=None, eps=1e-05",
        "Normalization over the last axes.",
    ),
    *_of_each_rank("max_pool", _MAX_POOL, "The largest of every window.", max_pool_rule),
    _row("avg_pool1d", _AVG_POOL, _MEANS, rule=avg_pool_rule(1)),
    _row("avg_pool2d", f"{_AVG_POOL}, divisor_override=None", _MEANS, rule=avg_pool_rule(2)),
    _row("avg_pool3d", f"{_AVG_POOL}, divisor_override=None", _MEANS, rule=avg_pool_rule(3)),
    *_of_each_rank(
        "adaptive_avg_pool",
        "input, output_size",
        "Means of as many windows as asked.",
        adaptive_rule,
    ),
    *_of_each_rank(
        "adaptive_max_pool",
        "input, output_size, return_indices=False",
        "The largest of as many windows as asked.",
        adaptive_maximum_rule,
    ),
    _row(
        "interpolate",
        "input, size=None, scale_factor=None, mode='nearest', align_corners=None, "
        "recompute_scale_factor=None, antialias=False",
        "Images in another size.",
        rule=interpolate_rule,
        view=True,
    ),
    _row(
        "embedding_bag",
        "input, weight, offsets=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, "
        "mode='mean', sparse=False, per_sample_weights=None, include_last_offset=False, "
        "padding_idx=None",
        "Sums, means or maxima of rows of a table.",
        rule=embedding_bag_rule,
        only_if={"max_norm": None},
    ),
    _row(
        "pad",
        "input, pad, mode='constant', value=None",
        "A frame around the last axes.",
        rule=pad_rule,
        view=True,
    ),
    _row(
        "grid_sample",
        "input, grid, mode='bilinear', padding_mode='zeros', align_corners=None",
        "Images at the places of a grid.",
        rule=grid_sample_rule,
    ),
    *(
        _row(
            name,
            f"input, p=0.5, training={'alpha' not in name}, inplace=False",
            "Nothing, outside of training.",
            rule=dropout_rule(ranks),
            only_if={"training": False},
            view=True,
        )
        for name, ranks in DROPOUTS.items()
    ),
    _row("relu", "input, inplace=False", "max(x, 0).", view=True, writes_if={"inplace": (0,)}),
    _row("gelu", "input, approximate='none'", "x times the normal distribution function."),
    _row(
        "scaled_dot_product_attention",
        "query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, "
        "enable_gqa=False",
        "Values weighted by the softmax of products of queries and keys.",
        rule=attention_rule,
        for_processors=True,
        only_if={"dropout_p": 0.0},
    ),
    _row(
        "lstm_states",
        f"projected, hidden, cell, weight, bias=None, reverse=False, {_PACKED}",
        "The hidden states of a long short-term memory at all times, and its last cell.",
        rule=recurrence_rule,
        for_processors=True,
    ),
    _row(
        "gru_states",
        f"projected, hidden, weight, bias=None, reverse=False, {_PACKED}",
        "The states of gated recurrent units at all times.",
        rule=recurrence_rule,
        for_processors=True,
    ),
    _row(
        "rnn_states",
        f"projected, hidden, weight, bias=None, nonlinearity='tanh', reverse=False, {_PACKED}",
        "The states of an Elman network at all times.",
        rule=recurrence_rule,
        for_processors=True,
    ),
)

NAMES = tuple(op.kind.removeprefix("nn::") for op in OPS)
"""The functions that have rows."""

_KINDS: dict[Any, Op] = {}


def define_layers(functions: Mapping[str, Callable[..., Any]]) -> None:
    """Say which Python functions the rows stand for.

    Parameters
    ----------
    functions : mapping
        By name; every row has one.
    """
    for op in OPS:
        assert op.definition is not None
        op.definition.function = functions[op.definition.name]
        _KINDS[op.definition.function] = op


def layer_kind(function: Any) -> Op | None:
    """The row of a function of layers; None of all others."""
    try:
        return _KINDS.get(function)
    except TypeError:  # not hashable, so not one of these
        return None
