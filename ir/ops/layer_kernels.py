"""What the functions of layers become: a few kinds over channels-last arrays, with native kernels.

``nn::product`` is a convolution whose images are (batch, \\*spatial, channels), and a linear layer
where there are no spatial axes.  Its matrix is packed (``nn::packed``) in panels of as many columns
as the machine's kernels take at once, whatever that is: (groups, panels, \\*kernel, channels,
width).  ``nn::window_sum``, ``nn::window_max`` and ``nn::window_mean`` keep channels apart:
depthwise convolutions and pooling.  ``nn::transposed_product`` is the adjoint of a convolution.

All results may be limited, and a product adds a residual first, so that what follows a layer needs
no pass over memory of its own.

``nn::library_convolution`` is a convolution as a device's library knows it, channels before spatial
axes.  Which ones it takes only the library knows, when it is asked: it gives whether it has taken
this one, and written the result to ``out``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.ops.op import Builder, Call, Op, Rule, Untypable, tensor, tensor_dims
from jitcore.ir.types import BOOL, Dim, TensorType

__all__ = [
    "LINEARS",
    "MAX_TAPS",
    "NO_LIMITS",
    "OPS",
    "is_depthwise",
    "pack",
    "transposed_excess",
    "window_count",
]

LINEARS = ("nn::linear", "nn::transposed_linear", "nn::matmul")
"""Linear maps, whose second operand is a matrix of weights."""

MAX_TAPS = 4096
"""The kernels take windows of so many elements at most."""

PANEL = 64
"""The width of the panels that the reference packs: any gives the same results."""

NO_LIMITS = {"low": -math.inf, "high": math.inf}


def is_depthwise(shape: Sequence[Dim], groups: int) -> bool:
    """Whether every channel is convolved with one kernel; of weights (out, in, ...)."""
    return groups > 1 and shape[0] == groups and shape[1] == 1


def window_count(
    extent: int, span: int, stride: int, frame: tuple[int, int], ceil_mode: bool = False
) -> int:
    """How many windows lie along an axis with a frame around; 0 or less where none has room.

    With ``ceil_mode`` the last one may reach over the end, but must begin before that.
    """
    before, after = frame
    room = extent + before + after - span
    if not ceil_mode:
        return room // stride + 1
    count = -(-room // stride) + 1
    return count - 1 if (count - 1) * stride >= extent + before else count


def _positions(
    b: Builder,
    n: Dim,
    kernel: int,
    stride: int,
    frame: tuple[int, int],
    dilation: int,
    ceil_mode: bool,
) -> Dim:
    """How many positions a window has along an axis."""
    if not isinstance(n, int):
        return b.fresh_dim(("positions", n, kernel, stride, frame, dilation, ceil_mode))
    count = window_count(n, dilation * (kernel - 1) + 1, stride, frame, ceil_mode)
    if count < 1:
        raise Untypable("a kernel larger than the input")
    return count


# Types ------------------------------------------------------------------------------------


def _spatial(b: Builder, call: Call) -> tuple[Dim, ...]:
    """The axes of a result that windows move along."""
    kernel = call.static("kernel")
    dims = tensor_dims(call.value("x"))[1:-1] if kernel else ()
    numbers = zip(
        dims,
        kernel,
        call.static("stride"),
        call.static("padding"),
        call.static("dilation"),
        strict=True,
    )
    may_reach_over = any(one.name == "ceil_mode" for one in call.parameters)
    ceil_mode = may_reach_over and call.static("ceil_mode")
    return tuple(_positions(b, *one, ceil_mode) for one in numbers)


def _attributes(call: Call) -> dict[str, Any]:
    """The arguments that are no arrays, in the order of the parameters."""
    names = [one.name for one in call.parameters if one.keyword_only]
    return {name: call.static(name) for name in names}


def _packed_rule(b: Builder, call: Call) -> Value:
    weight, groups = call.value("weight"), call.static("groups")
    columns, channels, *kernel = tensor_dims(weight)
    panels = b.fresh_dim(("panels", columns, groups))
    dims = (groups, panels, *kernel, channels, b.fresh_dim("width of panels"))
    type_ = TensorType(tensor(weight).dtype, dims)
    return b.emit("nn::packed", [weight], {"groups": groups}, type_)


def _product_rule(b: Builder, call: Call) -> Value:
    x = call.value("x")
    rows = tensor_dims(x)[:1] if call.static("kernel") else tensor_dims(x)[:-1]
    dims = (*rows, *_spatial(b, call), call.static("columns"))
    return _emit(b, call, ("x", "packed", "bias", "residual"), dims)


def _window_rule(b: Builder, call: Call) -> Value:
    dims = tensor_dims(call.value("x"))
    names = tuple(one.name for one in call.parameters if not one.keyword_only)
    return _emit(b, call, names, (dims[0], *_spatial(b, call), dims[-1]))


def _library_rule(b: Builder, call: Call) -> Value:
    inputs = [call.value(name) for name in ("x", "weight", "out")]
    return b.emit(call.kind, inputs, _attributes(call), BOOL)


def _emit(b: Builder, call: Call, names: Sequence[str], dims: tuple[Dim, ...]) -> Value:
    given = [call.optional(name) for name in names]
    inputs = [b.constant(None) if one is None else one for one in given]
    type_ = TensorType(tensor(call.value("x")).dtype, dims)
    return b.emit(call.kind, inputs, _attributes(call), type_)


def _interleaved_rule(b: Builder, call: Call) -> Value:
    images, attributes = call.value("images"), _attributes(call)
    bias, phases = call.optional("bias"), call.bound.get("phases", [])
    inputs = [images, b.constant(None) if bias is None else bias, *phases]
    channels = tensor_dims(phases[0])[-1] if phases else tensor_dims(inputs[1])[0]
    numbers = zip(
        tensor_dims(images)[1:-1], attributes["stride"], attributes["excess"], strict=True
    )
    extents = [
        n * step + more if isinstance(n, int) else b.fresh_dim(("interleaved", n, step, more))
        for n, step, more in numbers
    ]
    type_ = TensorType(tensor(images).dtype, (tensor_dims(images)[0], *extents, channels))
    return b.emit(call.kind, inputs, attributes, type_)


def _transposed_product_rule(b: Builder, call: Call) -> Value:
    x, weight, attributes = call.value("x"), call.value("weight"), _attributes(call)
    _, columns, *kernel = tensor_dims(weight)
    extents: list[Dim] = []
    for axis, (n, taps) in enumerate(zip(tensor_dims(x)[1:-1], kernel, strict=True)):
        if not isinstance(taps, int) or not isinstance(columns, int):
            raise Untypable("weights whose extents only the run shows")
        stride, more = attributes["stride"][axis], transposed_excess(attributes, taps, axis)
        symbol = ("transposed", n, stride, more)
        extents.append(n * stride + more if isinstance(n, int) else b.fresh_dim(symbol))
    dims = (tensor_dims(x)[0], *extents, columns * attributes["groups"])
    return _emit(b, call, ("x", "weight", "bias"), dims)


def transposed_excess(attributes: Mapping[str, Any], taps: int, axis: int) -> int:
    """How many pixels more a transposed convolution gives than its stride makes of the image's."""
    names = ("stride", "dilation", "padding", "output_padding")
    stride, dilation, cut, extra = (attributes[name][axis] for name in names)
    return int(dilation * (taps - 1) + 1 + extra - 2 * cut - stride)


# What they mean ---------------------------------------------------------------------------


def _packed(weight: Any, groups: int) -> Any:
    return pack(weight, groups, PANEL)


def pack(weight: Any, groups: int, width: int) -> Any:
    """The matrix of a convolution in panels of a width.

    Parameters
    ----------
    weight : (out, channels, \\*kernel) array
    groups, width : int

    Returns
    -------
    (groups, panels, \\*kernel, channels, width) array
        Columns that the weights have not are zeros.
    """
    columns = len(weight) // groups
    panels = -(-columns // width)
    result = np.zeros((groups, panels * width, *weight.shape[1:]), weight.dtype)
    result[:, :columns] = weight.reshape(groups, columns, *weight.shape[1:])
    result = result.reshape(groups, panels, width, *weight.shape[1:])
    rank = weight.ndim - 2
    return np.ascontiguousarray(result.transpose(0, 1, *range(4, 4 + rank), 3, 2))


def _unpacked(packed: Any, columns: int) -> Any:
    """(groups, columns, channels, \\*kernel)."""
    rank = packed.ndim - 4
    moved = packed.transpose(0, 1, rank + 3, rank + 2, *range(2, rank + 2))
    return moved.reshape(len(packed), -1, *moved.shape[3:])[:, :columns]


def _windows(x: Any, fill: float, attributes: dict[str, Any]) -> Any:
    """(batch, \\*positions, channels, \\*kernel)."""
    kernel, dilation = attributes["kernel"], attributes["dilation"]
    around = ((0, 0), *attributes["padding"], (0, 0))
    padded = np.pad(x, around, constant_values=fill)
    spans = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True))
    axes = tuple(range(1, 1 + len(kernel)))
    every = np.lib.stride_tricks.sliding_window_view(padded, spans, axis=axes)
    steps = [slice(None, None, s) for s in attributes["stride"]]
    taps = [slice(None, None, d) for d in dilation]
    return every[(slice(None), *steps, slice(None), *taps)]


def _limited(result: Any, attributes: dict[str, Any]) -> Any:
    low, high = (result.dtype.type(attributes[name]) for name in ("low", "high"))
    return np.minimum(np.maximum(result, low), high)


def _product(x: Any, packed: Any, bias: Any = None, residual: Any = None, **attributes: Any) -> Any:
    columns, groups = attributes["columns"], len(packed)
    kernels = _unpacked(packed, columns // groups)
    if attributes["kernel"]:
        windows = _windows(x, 0, attributes)
    else:
        windows = x
    rank = len(attributes["kernel"])
    channels = windows.ndim - rank - 1
    parts = np.split(windows, groups, axis=channels)
    axes = tuple(range(channels, windows.ndim))
    sums = [
        np.tensordot(part, kernel, (axes, tuple(range(1, kernel.ndim))))
        for part, kernel in zip(parts, kernels, strict=True)
    ]
    result = np.concatenate(sums, axis=-1)
    result = result if bias is None else result + bias
    return _limited(result if residual is None else result + residual, attributes)


def _window_sum(x: Any, weight: Any, bias: Any = None, **attributes: Any) -> Any:
    windows = _windows(x, 0, attributes)
    rank = len(attributes["kernel"])
    axes = tuple(range(windows.ndim - rank, windows.ndim))
    result = np.sum(windows * np.moveaxis(weight, -1, 0), axis=axes)
    return _limited(result if bias is None else result + bias, attributes)


def _reached(x: Any, attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes with a frame that all windows lie in."""
    frames = []
    for n, k, s, frame, d in zip(
        x.shape[1:-1], *(attributes[name] for name in ("kernel", "stride", "padding", "dilation")),
        strict=True,
    ):  # fmt: skip
        span = d * (k - 1) + 1
        end = (window_count(n, span, s, frame, attributes["ceil_mode"]) - 1) * s + span
        frames.append((frame[0], max(frame[1], end - n - frame[0])))
    return {**attributes, "padding": frames}


def _window_max(x: Any, **attributes: Any) -> Any:
    windows = _windows(x, -np.inf, _reached(x, attributes))
    return np.max(windows, axis=tuple(range(x.ndim, windows.ndim)))


def _window_mean(x: Any, **attributes: Any) -> Any:
    attributes = _reached(x, attributes)
    windows = _windows(x, 0, attributes)
    axes = tuple(range(x.ndim, windows.ndim))
    counts = attributes["divisor"]
    if counts is None:
        border = attributes["border"]
        inside = np.ones(
            (1, *(n + a + b for n, (a, b) in zip(x.shape[1:-1], border, strict=True)), 1)
        )
        missing = [
            (p[0] - b[0], p[1] - b[1]) for p, b in zip(attributes["padding"], border, strict=True)
        ]
        counts = np.sum(_windows(inside, 0, {**attributes, "padding": missing}), axis=axes)
    return (np.sum(windows, axis=axes) / counts).astype(x.dtype)


def _library_convolution(x: Any, weight: Any, out: Any, groups: int, **attributes: Any) -> bool:
    windows = _windows(np.moveaxis(x, 1, -1), 0, attributes)
    channels = windows.ndim - weight.ndim + 1
    axes = tuple(range(channels, windows.ndim)), tuple(range(1, weight.ndim))
    pairs = zip(np.split(windows, groups, axis=channels), np.split(weight, groups), strict=True)
    sums = [np.tensordot(part, kernels, axes) for part, kernels in pairs]
    out[...] = np.moveaxis(np.concatenate(sums, axis=-1), -1, 1)
    return True


def _interleaved(images: Any, bias: Any = None, *phases: Any, **attributes: Any) -> Any:
    channels = phases[0].shape[-1] if phases else len(bias)
    numbers = zip(images.shape[1:-1], attributes["stride"], attributes["excess"], strict=True)
    extents = [n * step + more for n, step, more in numbers]
    result = np.zeros((len(images), *extents, channels), images.dtype)
    if bias is not None:
        result += bias
    for starts, phase in zip(attributes["starts"], phases, strict=True):
        steps = zip(starts, attributes["stride"], strict=True)
        result[:, *(slice(start, None, step) for start, step in steps)] = phase
    return result


def _transposed_product(x: Any, weight: Any, bias: Any = None, **attributes: Any) -> Any:
    groups, kernel = attributes["groups"], weight.shape[2:]
    names = ("stride", "dilation", "padding", "output_padding")
    numbers = list(zip(*(attributes[name] for name in names), strict=True))
    axes = list(zip(x.shape[1:-1], kernel, numbers, strict=True))
    full = [(n - 1) * s + d * (taps - 1) + 1 + more for n, taps, (s, d, _, more) in axes]
    parts = []
    for images, kernels in zip(np.split(x, groups, axis=-1), np.split(weight, groups), strict=True):
        part = np.zeros((len(x), *full, weight.shape[1]), x.dtype)
        for tap in np.ndindex(*kernel):
            places = [
                slice(t * d, t * d + n * s, s)
                for t, (n, _, (s, d, *_)) in zip(tap, axes, strict=True)
            ]
            part[:, *places] += images @ kernels[:, :, *tap]
        parts.append(part)
    ends = zip(full, numbers, strict=True)
    kept = [slice(cut, extent - cut) for extent, (*_, cut, _) in ends]
    result = np.concatenate(parts, axis=-1)[:, *kept]
    return result if bias is None else result + bias


_GEOMETRY = "*, kernel, stride, padding, dilation"


def _row(kind: str, reference: Any, rule: Rule, parameters: str, doc: str) -> Op:
    return Op(f"nn::{kind}", reference, rule, parameters, doc=doc)


OPS: tuple[Op, ...] = (
    _row("packed", _packed, _packed_rule, "weight, *, groups", "The weights of a product, packed."),
    _row(
        "product",
        _product,
        _product_rule,
        f"x, packed, bias=None, residual=None, {_GEOMETRY}, columns, low, high",
        "Channels-last windows times packed weights, plus bias and residual, limited.",
    ),
    _row(
        "transposed_product",
        _transposed_product,
        _transposed_product_rule,
        "x, weight, bias=None, *, stride, padding, output_padding, groups, dilation",
        "The adjoint of a convolution, of channels-last images.",
    ),
    _row(
        "window_sum",
        _window_sum,
        _window_rule,
        f"x, weight, bias=None, {_GEOMETRY}, low, high",
        "Weighted sums of channels-last windows, each channel for itself.",
    ),
    _row(
        "window_max",
        _window_max,
        _window_rule,
        f"x, {_GEOMETRY}, ceil_mode",
        "The largest of channels-last windows.",
    ),
    _row(
        "window_mean",
        _window_mean,
        _window_rule,
        f"x, {_GEOMETRY}, ceil_mode, border, divisor",
        "The means of channels-last windows.",
    ),
    _row(
        "interleaved",
        _interleaved,
        _interleaved_rule,
        "images, bias=None, *phases, *, excess, stride, starts, has_gaps",
        "Channels-last pixels of which every phase has some, and the bias in the gaps.",
    ),
    Op(
        "nn::library_convolution",
        _library_convolution,
        _library_rule,
        f"x, weight, out, {_GEOMETRY}, groups",
        writes=(2,),
        pure=False,
        doc="A convolution by a device's library, written to `out`; whether that has taken it.",
    ),
)
