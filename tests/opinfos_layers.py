"""Samples of the functions of layers; how exact these are is tested with the layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from op_samples import OpInfo, row

__all__ = ["layers_rows"]

_NEW_AXES = {1: "[None]", 2: "[None, None]", 3: "[None, None, None]"}
_KERNELS = {1: "q[None, :, :2]", 2: "q[None, None, :2, :3]", 3: "q[None, None, None, :2, :3]"}
_UPWARD = {1: "q[:, None, :2]", 2: "q[None, None, :2, :3]", 3: "q[None, None, None, :2, :3]"}


_EVERY: dict[str, Any] = {"dtypes": "lfd", "layouts": True, "reduction": True}
_FLOATS: dict[str, Any] = {"dtypes": "fd", "layouts": True, "reduction": True}


def layers_rows() -> Iterator[OpInfo]:
    yield from _linear_rows()
    for rank in (1, 2, 3):
        yield from _convolution_rows(rank)
        yield from _pooling_rows(rank)
    yield from _kernels_rows()
    yield from _resampling_rows()
    yield from _table_rows()
    yield from _normalization_rows()
    yield from _dropout_rows()
    yield from _activation_rows()
    yield from _recurrence_rows()


def _linear_rows() -> Iterator[OpInfo]:
    yield row(
        "nn::linear", "F.linear(p, q)", "F.linear(p, q, q[0, :3])", "F.linear(p[0], q[0])",
        "F.linear(p, bias=None, weight=q)", "F.linear(p, q[:, :3])", "F.linear(p)",
        "F.linear(p, q.astype(np.float32))", "F.linear(p[:0], q)", **_EVERY,
    )  # fmt: skip
    yield row(
        "nn::transposed_linear", "F.transposed_linear(p, q.T)",
        "F.transposed_linear(p, q.T, q[0, :3])", "F.transposed_linear(p, q)",
        "F.transposed_linear(p[0], q.T)", **_EVERY,
    )  # fmt: skip
    yield row("nn::matmul", "F.matmul(p, q.T)", "F.matmul(p, q)", "F.matmul(p[0], q.T)", **_EVERY)


def _convolution_rows(rank: int) -> Iterator[OpInfo]:
    x, w = f"p{_NEW_AXES[rank]}", _KERNELS[rank]
    yield row(
        f"nn::conv{rank}d", f"F.conv{rank}d({x}, {w})",
        f"F.conv{rank}d({x}[0], {w}, q[0, :1], padding=1, stride=2)",
        f"F.conv{rank}d({x}, {w}, padding='same')", f"F.conv{rank}d({x}, {w}, groups=2)",
        f"F.conv{rank}d({x}, {w}, dilation=5)", f"F.conv{rank}d(p[0], {w})",
        f"F.conv{rank}d({x}[:0], {w})", **_EVERY,
    )  # fmt: skip
    w = _UPWARD[rank]
    yield row(
        f"nn::conv_transpose{rank}d", f"F.conv_transpose{rank}d({x}, {w})",
        f"F.conv_transpose{rank}d({x}, {w}, q[0, :1], stride=2, output_padding=1)",
        f"F.conv_transpose{rank}d({x}[0], {w}, padding=1, dilation=2)",
        f"F.conv_transpose{rank}d({x}, {w}, output_padding=4)", **_EVERY,
    )  # fmt: skip


def _pooling_rows(rank: int) -> Iterator[OpInfo]:
    x = f"p{_NEW_AXES[rank]}"
    yield row(
        f"nn::max_pool{rank}d", f"F.max_pool{rank}d({x}[..., :1, :, :], (1, 2, 2)[-{rank}:])",
        f"F.max_pool{rank}d(x{_NEW_AXES[rank]}[0], 1, stride=2)",
        f"F.max_pool{rank}d({x}, 7)", f"F.max_pool{rank}d({x}, 1, return_indices=True)",
        f"F.max_pool{rank}d({x}, (1, 1, 2)[-{rank}:], padding=1)", **_EVERY,
    )  # fmt: skip
    yield row(
        f"nn::avg_pool{rank}d", f"F.avg_pool{rank}d({x}, (1, 1, 3)[-{rank}:], ceil_mode=True)",
        f"F.avg_pool{rank}d({x}[0], (1, 1, 2)[-{rank}:], count_include_pad=False)",
        f"F.avg_pool{rank}d({x}, 9)", **_EVERY,
    )  # fmt: skip
    yield row(
        f"nn::adaptive_avg_pool{rank}d", f"F.adaptive_avg_pool{rank}d({x}, 1)",
        f"F.adaptive_avg_pool{rank}d({x}, (1, 1, 3)[-{rank}:])",
        f"F.adaptive_avg_pool{rank}d({x}, -1)", **_EVERY,
    )  # fmt: skip
    yield row(
        f"nn::adaptive_max_pool{rank}d", f"F.adaptive_max_pool{rank}d({x}, 1)",
        f"F.adaptive_max_pool{rank}d({x}, (1, 1, 3)[-{rank}:])",
        f"F.adaptive_max_pool{rank}d({x}[0], None)", f"F.adaptive_max_pool{rank}d({x}, -1)",
        f"F.adaptive_max_pool{rank}d({x}, 1, return_indices=True)", **_EVERY,
    )  # fmt: skip


def _resampling_rows() -> Iterator[OpInfo]:
    yield row(
        "nn::interpolate", "F.interpolate(p, 7)", "F.interpolate(p, scale_factor=1.7)",
        "F.interpolate(p, 5, mode='linear', align_corners=True)", "F.interpolate(p, (4,))",
        "F.interpolate(p, scale_factor=2, mode='nearest-exact')", "F.interpolate(p, 0)",
        "F.interpolate(p[None], scale_factor=(2, 0.6), mode='bilinear')",
        "F.interpolate(p[None], (4, 7), mode='bicubic')", "F.interpolate(p[:0], 3)",
        "F.interpolate(p[None], scale_factor=2)", "F.interpolate(p, 3, mode='bilinear')",
        "F.interpolate(p[None, None], scale_factor=1.5, mode='trilinear')",
        "F.interpolate(p[None], (2, 3), mode='area')", "F.interpolate(p[None], 4, mode='linear')",
        "F.interpolate(p[None], (2, 3), mode='bilinear', antialias=True)",
        "F.interpolate(p, scale_factor=1.7, recompute_scale_factor=True)", **_EVERY,
    )  # fmt: skip
    yield row(
        "nn::pad", "F.pad(p, (1, 2))", "F.pad(p, (1, 0, 0, 2), value=1.5)", "F.pad(p, (-1, 2))",
        "F.pad(p, (1, 2, 1, 0), 'reflect')", "F.pad(p, (5, 2, 1, 3), 'replicate')",
        "F.pad(p, (4, 2, 1, 3, 0, 1), 'circular')", "F.pad(p, (0, 0), 'reflect')",
        "F.pad(p, (4, 0), 'reflect')", "F.pad(p, (1, 1), 'other')", "F.pad(p, (1, 1, 1))",
        "F.pad(p[0, 0], (1, 1, 1, 1))", "F.pad(p[:0], (1, 1), 'replicate')",
        "F.pad(p, (1, 1), 'reflect', 2.0)", "F.pad(p, (1, 1), value='a')",
        dtypes="fdlB?", layouts=True,
    )  # fmt: skip
    yield row(
        "nn::grid_sample", "F.grid_sample(p[None, None], p[None, :, None, :2])",
        "F.grid_sample(p[None, None], p[None, :, None, :2] / 3, 'nearest', 'border')",
        "F.grid_sample(p[None, None], p[None, :, None, :2] * 2, 'bilinear', 'reflection', True)",
        "F.grid_sample(p[None, None], p[None, :, None, :2] * np.nan, 'bilinear', 'zeros', False)",
        "F.grid_sample(p[:1, None, None, :1], p[None, :1, None, :2] * np.nan, 'nearest', "
        "'reflection', True)",
        "F.grid_sample(p[:1, None, None, :1], p[None, :1, None, :2] / 0, 'bilinear', "
        "'reflection', True)",
        "F.grid_sample(p[None, None], p[None, :, None, :2], 'bicubic')",
        "F.grid_sample(p[None, None], p[None, :, None, :2] * 3, 'bicubic', 'reflection')",
        "F.grid_sample(p[None, None], p[None, :, None, :2] * 2, 'bicubic', 'border', True)",
        "F.grid_sample(p[None, None, None], p[None, :, None, None, :3])",
        "F.grid_sample(p[None, None, :, :, None], p[None, :, None, None, :3], 'nearest', 'border')",
        "F.grid_sample(p[None, None, :, None], p[None, :, None, None, :3] * 2, 'bilinear', "
        "'reflection')",
        "F.grid_sample(p[None, None, None], p[None, :, None, None, :3], 'bicubic')",
        "F.grid_sample(p, p)",
        **_EVERY,
    )  # fmt: skip


def _table_rows() -> Iterator[OpInfo]:
    numbers = "np.abs(q * 4).astype(np.int64)"
    yield row(
        "nn::embedding_bag", f"F.embedding_bag({numbers} % 2, p[0])",
        f"F.embedding_bag({numbers} % 3, p[0], mode='sum')", f"F.embedding_bag({numbers}, p[0])",
        f"F.embedding_bag(-{numbers} % 2 - 1, p[0])", f"F.embedding_bag({numbers} % 2, p)",
        f"F.embedding_bag({numbers} % 2, p[0], mode='max')",
        f"F.embedding_bag({numbers} % 2, p[0], padding_idx=1)",
        f"F.embedding_bag({numbers}[:0], p[0])", f"F.embedding_bag({numbers}[:, :0], p[0])",
        f"F.embedding_bag({numbers} % 2, p[0], max_norm=0.5)\nreturn p", **_EVERY,
    )  # fmt: skip


def _normalization_rows() -> Iterator[OpInfo]:
    yield row(
        "nn::batch_norm", "F.batch_norm(p, q[0], q[1])", "F.batch_norm(p, v, v * v, v, v, eps=1)",
        "F.batch_norm(p, None, None, training=True)", "F.batch_norm(p, q[0, :2], q[1, :2])",
        "F.batch_norm(p, q[0], q[1], momentum=None)\nreturn q",
        "F.batch_norm(p, q[0], q[1], training=True)\nreturn q", **_EVERY,
    )  # fmt: skip
    yield row(
        "nn::layer_norm", "F.layer_norm(p, (4,))", "F.layer_norm(p, [3, 4], q, q, 0.1)",
        "F.layer_norm(p, (3,))", **_EVERY,
    )  # fmt: skip


def _dropout_rows() -> Iterator[OpInfo]:
    for name in ("dropout", "dropout2d", "dropout3d", "dropout1d"):
        yield row(
            f"nn::{name}", f"F.{name}(p[None], 0.3, False)", f"F.{name}(p[None], 2, False)",
            f"y = F.{name}(p[None], training=False)\ny[...] = 0\nreturn y", **_EVERY,
        )  # fmt: skip
    for name in ("alpha_dropout", "feature_alpha_dropout"):
        yield row(f"nn::{name}", f"F.{name}(p)", f"F.{name}(p, -1)", f"F.{name}(s)", **_EVERY)


def _activation_rows() -> Iterator[OpInfo]:
    yield row(
        "nn::relu", "F.relu(x)", "F.relu(x, inplace=True)", "F.relu(s)", "F.relu(x * np.nan)",
        "y = F.relu(x, True)\ny += 1\nreturn y", **_EVERY,
    )  # fmt: skip
    yield row(
        "nn::gelu", "F.gelu(p)", "F.gelu(p, 'tanh')", "F.gelu(p, 'other')", dtypes="fd", ulp=16,
        layouts=True,
    )  # fmt: skip
    yield row(
        "nn::scaled_dot_product_attention", "F.scaled_dot_product_attention(p, q, q)",
        "F.scaled_dot_product_attention(p, q, q, is_causal=True)",
        "F.scaled_dot_product_attention(p, q, q, mask[:, :3], scale=0.5)", dtypes="fd", ulp=64,
        layouts=True, reduction=True,
    )  # fmt: skip


def _recurrence_rows() -> Iterator[OpInfo]:
    times = "np.stack([p, q, -p, q])"
    yield row(
        "nn::lstm_states", f"F.lstm_states({times}, p[:, :1], q[:, :1], q.T[:, :1])",
        f"F.lstm_states({times}, p[:, :1], q[:, :1], q.T[:, :1], q[0], True)",
        "F.lstm_states(p[None], p, q, q)", dtypes="fd", ulp=64, layouts=True, reduction=True,
    )  # fmt: skip
    yield row(
        "nn::gru_states", f"F.gru_states({times}[..., :3], p[:, :1], q[:, :1])",
        f"F.gru_states({times}[..., :3], p[:, :1], q[:, :1], q[0, :3], True)",
        "F.gru_states(p[None], p, q)", dtypes="fd", ulp=64, layouts=True, reduction=True,
    )  # fmt: skip
    yield row(
        "nn::rnn_states", f"F.rnn_states({times}[..., :3], p[:, :3], q[:, :3])",
        f"F.rnn_states({times}[..., :3], p[:, :3], q[:, :3], q[0, :3], 'relu', True)",
        "F.rnn_states(p[None], p, q)", dtypes="fd", ulp=64, layouts=True, reduction=True,
    )  # fmt: skip


def _kernels_rows() -> Iterator[OpInfo]:
    """What the functions become where operands are floats."""
    for kind in ("product", "packed"):
        yield row(
            f"nn::{kind}", "F.conv1d(p, q[:, :3, None], q[0, :3], padding=1)",
            "np.minimum(F.conv1d(p, q[:, :3, None]) + p, np.float32(0.5))",
            "F.conv1d(p[0], q[:, :3, None], stride=2)", **_FLOATS,
        )  # fmt: skip
    yield row(
        "nn::library_convolution", "F.conv1d(p, q[:, :3, None], q[0, :3], padding=1)", **_FLOATS,
    )  # fmt: skip
    yield row(
        "nn::window_sum", "F.conv1d(p, q[:, None, :2], q[:, 0], padding=1, groups=3)",
        "F.relu(F.conv1d(p[0], q[:, None, :2], dilation=2, groups=3))", **_FLOATS,
    )  # fmt: skip
    yield row(
        "nn::transposed_product", "F.conv_transpose1d(p, q[:, None, :3], q[0, :1], stride=2)",
        "F.conv_transpose1d(p, q[:, None, :3], q[0, :2])",
        "F.conv_transpose1d(p[0], q[:, None, :2], q[0, :3], groups=3)", **_FLOATS,
    )  # fmt: skip
    yield row(
        "nn::interleaved", "F.conv_transpose1d(p, q[:, None, :3], q[0, :1], stride=2)",
        "F.conv_transpose1d(p, q[:, None, :2], q[0, :1], 3, 1)",
        "F.conv_transpose1d(p, q[:, :2, None], stride=3, output_padding=2)", **_FLOATS,
    )  # fmt: skip
    yield row(
        "nn::window_max", "F.max_pool1d(p, 3, 2, 1)", "F.max_pool1d(p * np.nan, 2)",
        "F.max_pool1d(p[0], 3, dilation=1, ceil_mode=True)", **_FLOATS,
    )  # fmt: skip
    yield row(
        "nn::window_mean", "F.avg_pool1d(p, 2, 2, 1)", "F.adaptive_avg_pool1d(p, 2)",
        "F.avg_pool1d(p[0], 3, 2, 1, True, False)", **_FLOATS,
    )  # fmt: skip
