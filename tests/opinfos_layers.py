"""Samples of the functions of layers; how exact these are is tested with the layers."""

from __future__ import annotations

from collections.abc import Iterator

from op_samples import OpInfo, row

__all__ = ["layers_rows"]

_NEW_AXES = {1: "[None]", 2: "[None, None]", 3: "[None, None, None]"}
_KERNELS = {1: "q[None, :, :2]", 2: "q[None, None, :2, :3]", 3: "q[None, None, None, :2, :3]"}
_UPWARD = {1: "q[:, None, :2]", 2: "q[None, None, :2, :3]", 3: "q[None, None, None, :2, :3]"}


def layers_rows() -> Iterator[OpInfo]:
    every = {"dtypes": "lfd", "layouts": True, "reduction": True}
    yield row(
        "nn::linear", "F.linear(p, q)", "F.linear(p, q, q[0, :3])", "F.linear(p[0], q[0])",
        "F.linear(p, bias=None, weight=q)", "F.linear(p, q[:, :3])", "F.linear(p)",
        "F.linear(p, q.astype(np.float32))", "F.linear(p[:0], q)", **every,
    )  # fmt: skip
    yield row(
        "nn::transposed_linear", "F.transposed_linear(p, q.T)",
        "F.transposed_linear(p, q.T, q[0, :3])", "F.transposed_linear(p, q)",
        "F.transposed_linear(p[0], q.T)", **every,
    )  # fmt: skip
    for rank in (1, 2, 3):
        x, w = f"p{_NEW_AXES[rank]}", _KERNELS[rank]
        yield row(
            f"nn::conv{rank}d", f"F.conv{rank}d({x}, {w})",
            f"F.conv{rank}d({x}[0], {w}, q[0, :1], padding=1, stride=2)",
            f"F.conv{rank}d({x}, {w}, padding='same')", f"F.conv{rank}d({x}, {w}, groups=2)",
            f"F.conv{rank}d({x}, {w}, dilation=5)", f"F.conv{rank}d(p[0], {w})",
            f"F.conv{rank}d({x}[:0], {w})", **every,
        )  # fmt: skip
        w = _UPWARD[rank]
        yield row(
            f"nn::conv_transpose{rank}d", f"F.conv_transpose{rank}d({x}, {w})",
            f"F.conv_transpose{rank}d({x}, {w}, q[0, :1], stride=2, output_padding=1)",
            f"F.conv_transpose{rank}d({x}[0], {w}, padding=1, dilation=2)",
            f"F.conv_transpose{rank}d({x}, {w}, output_padding=4)", **every,
        )  # fmt: skip
        yield row(
            f"nn::max_pool{rank}d", f"F.max_pool{rank}d({x}[..., :1, :, :], (1, 2, 2)[-{rank}:])",
            f"F.max_pool{rank}d(x{_NEW_AXES[rank]}[0], 1, stride=2)",
            f"F.max_pool{rank}d({x}, 7)", f"F.max_pool{rank}d({x}, 1, return_indices=True)",
            f"F.max_pool{rank}d({x}, (1, 1, 2)[-{rank}:], padding=1)", **every,
        )  # fmt: skip
        yield row(
            f"nn::avg_pool{rank}d", f"F.avg_pool{rank}d({x}, (1, 1, 3)[-{rank}:], ceil_mode=True)",
            f"F.avg_pool{rank}d({x}[0], (1, 1, 2)[-{rank}:], count_include_pad=False)",
            f"F.avg_pool{rank}d({x}, 9)", **every,
        )  # fmt: skip
        yield row(
            f"nn::adaptive_avg_pool{rank}d", f"F.adaptive_avg_pool{rank}d({x}, 1)",
            f"F.adaptive_avg_pool{rank}d({x}, (1, 1, 3)[-{rank}:])",
            f"F.adaptive_avg_pool{rank}d({x}, -1)", **every,
        )  # fmt: skip
    yield from _kernels_rows()
    yield row(
        "nn::batch_norm", "F.batch_norm(p, q[0], q[1])", "F.batch_norm(p, v, v * v, v, v, eps=1)",
        "F.batch_norm(p, None, None, training=True)", "F.batch_norm(p, q[0, :2], q[1, :2])",
        "F.batch_norm(p, q[0], q[1], momentum=None)\nreturn q",
        "F.batch_norm(p, q[0], q[1], training=True)\nreturn q", **every,
    )  # fmt: skip
    yield row(
        "nn::layer_norm", "F.layer_norm(p, (4,))", "F.layer_norm(p, [3, 4], q, q, 0.1)",
        "F.layer_norm(p, (3,))", **every,
    )  # fmt: skip
    for name in ("dropout", "dropout2d", "dropout3d", "dropout1d"):
        yield row(
            f"nn::{name}", f"F.{name}(p[None], 0.3, False)", f"F.{name}(p[None], 2, False)",
            f"y = F.{name}(p[None], training=False)\ny[...] = 0\nreturn y", **every,
        )  # fmt: skip
    for name in ("alpha_dropout", "feature_alpha_dropout"):
        yield row(f"nn::{name}", f"F.{name}(p)", f"F.{name}(p, -1)", f"F.{name}(s)", **every)
    yield row(
        "nn::relu", "F.relu(x)", "F.relu(x, inplace=True)", "F.relu(s)", "F.relu(x * np.nan)",
        "y = F.relu(x, True)\ny += 1\nreturn y", **every,
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


def _kernels_rows() -> Iterator[OpInfo]:
    """What the functions become where operands are floats."""
    every = {"dtypes": "fd", "layouts": True, "reduction": True}
    for kind in ("product", "packed"):
        yield row(
            f"nn::{kind}", "F.conv1d(p, q[:, :3, None], q[0, :3], padding=1)",
            "np.minimum(F.conv1d(p, q[:, :3, None]) + p, np.float32(0.5))",
            "F.conv1d(p[0], q[:, :3, None], stride=2)", **every,
        )  # fmt: skip
    yield row(
        "nn::window_sum", "F.conv1d(p, q[:, None, :2], q[:, 0], padding=1, groups=3)",
        "F.relu(F.conv1d(p[0], q[:, None, :2], dilation=2, groups=3))", **every,
    )  # fmt: skip
    yield row(
        "nn::window_max", "F.max_pool1d(p, 3, 2, 1)", "F.max_pool1d(p * np.nan, 2)",
        "F.max_pool1d(p[0], 3, dilation=1, ceil_mode=True)", **every,
    )  # fmt: skip
    yield row(
        "nn::window_mean", "F.avg_pool1d(p, 2, 2, 1)", "F.adaptive_avg_pool1d(p, 2)",
        "F.avg_pool1d(p[0], 3, 2, 1, True, False)", **every,
    )  # fmt: skip
