"""Types of calls of layers' functions that stay one node in typed graphs.

The typed node has the arrays as operands, and all else as attributes under the function's own
names, with one number for each axis.  It checks its operands itself where their extents are not
known: dims of the result that depend on such extents are new symbols.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.ops.layer_kernels import window_count
from jitcore.ir.ops.layer_loops import adaptive_mean
from jitcore.ir.ops.op import Builder, Call, Rule, Untypable, tensor, tensor_dims
from jitcore.ir.ops.shaping import array_operand
from jitcore.ir.types import Dim, TensorType

__all__ = [
    "MAX_KEYS",
    "adaptive_rule",
    "attention_rule",
    "avg_pool_rule",
    "convolution_rule",
    "dropout_rule",
    "linear_rule",
    "max_pool_rule",
]
__all__ += ["transposed_rule"]

_Sizes = tuple[int, ...]

MAX_KEYS = 4096
"""The kernel keeps rows of so many scores at most."""

MAX_MASKED_AXES = 4
"""The kernel walks so many axes of a mask by their strides."""

MAX_BOX = 1024
"""The kernel adds up a box one number after the other; larger ones deserve more accuracy."""


def convolution_rule(rank: int) -> Rule:
    """``conv1d`` and its like."""

    def rule(b: Builder, call: Call) -> Value:
        x, weight, bias = _operands(call, rank, "efd" if b.is_by_definition else "fd")
        stride, dilation = _sizes(call, "stride", rank, 1), _sizes(call, "dilation", rank, 1)
        groups = _number(call.static("groups"), 1)
        out, inside, *kernel = tensor_dims(weight)
        _require_equal(tensor_dims(x)[-rank - 1], inside, groups)
        _require_equal(tensor_dims(bias)[0] if bias else out, out, 1)
        if isinstance(out, int) and out % groups:
            raise Untypable("groups that do not divide the output channels")
        padding = call.static("padding")
        frame = _frame(padding, kernel, stride, dilation, call, rank)
        extents = [
            _positions(b, n, k, s, p, d)
            for n, k, s, p, d in zip(
                tensor_dims(x)[-rank:], kernel, stride, frame, dilation, strict=True
            )
        ]
        even = all(total % 2 == 0 for total in frame if total is not None)
        known = (
            padding if not even or None in frame else tuple(p // 2 for p in frame if p is not None)
        )
        attributes = {"stride": stride, "padding": known, "dilation": dilation, "groups": groups}
        dims = (*tensor_dims(x)[: -rank - 1], out, *extents)
        return _emit(b, call, (x, weight, bias), attributes, dims)

    return rule


def linear_rule(b: Builder, call: Call) -> Value:
    """A linear layer whose weights are packed; others are products of matrices by BLAS."""
    x, packed, bias = call.value("input"), call.optional("packed"), call.optional("bias")
    weight = array_operand(call.value("weight"))
    if packed is None:
        raise Untypable("weights that may change")
    for other in (weight, bias):
        if other is not None and tensor(other).dtype != tensor(array_operand(x)).dtype:
            raise Untypable("operands of different dtypes")
    columns, terms = tensor_dims(weight)
    if call.kind != "nn::linear":
        columns, terms = terms, columns
    if not isinstance(columns, int) or not tensor_dims(x):
        raise Untypable("extents that are not known")
    _require_equal(tensor_dims(x)[-1], terms, 1)
    _require_equal(tensor_dims(bias)[0] if bias else columns, columns, 1)
    operands = (x, weight) if call.kind == "nn::matmul" else (x, weight, bias)
    return _emit(b, call, operands, {}, (*tensor_dims(x)[:-1], columns))


def transposed_rule(rank: int) -> Rule:
    """``conv_transpose1d`` and its like."""

    def rule(b: Builder, call: Call) -> Value:
        x, weight, bias = _operands(call, rank)
        stride, dilation = _sizes(call, "stride", rank, 1), _sizes(call, "dilation", rank, 1)
        cut, extra = _sizes(call, "padding", rank, 0), _sizes(call, "output_padding", rank, 0)
        groups = _number(call.static("groups"), 1)
        inside, out, *kernel = tensor_dims(weight)
        _require_equal(tensor_dims(x)[-rank - 1], inside, 1)
        if any(e >= max(s, d) for e, s, d in zip(extra, stride, dilation, strict=True)):
            raise Untypable("more output padding than there is room for")
        if isinstance(inside, int) and inside % groups:
            raise Untypable("groups that do not divide the input channels")
        channels = out * groups if isinstance(out, int) else b.fresh_dim(("times", out, groups))
        _require_equal(tensor_dims(bias)[0] if bias else channels, channels, 1)
        extents = [
            _spread(b, *numbers)
            for numbers in zip(
                tensor_dims(x)[-rank:], kernel, stride, cut, dilation, extra, strict=True
            )
        ]
        attributes = {
            "stride": stride,
            "padding": cut,
            "output_padding": extra,
            "groups": groups,
            "dilation": dilation,
        }
        dims = (*tensor_dims(x)[: -rank - 1], channels, *extents)
        return _emit(b, call, (x, weight, bias), attributes, dims)

    return rule


def max_pool_rule(rank: int) -> Rule:
    """``max_pool1d`` and its like, without indices."""

    def rule(b: Builder, call: Call) -> Value:
        x = _images(call, rank)
        if call.static("return_indices") is not False:
            raise Untypable("pooling that gives indices, too")
        dilation = _sizes(call, "dilation", rank, 1)
        attributes, dims = _pooled(b, call, x, rank, dilation)
        return _emit(b, call, (x,), {**attributes, "dilation": dilation}, dims)

    return rule


def avg_pool_rule(rank: int) -> Rule:
    """``avg_pool1d`` and its like."""

    def rule(b: Builder, call: Call) -> Value:
        x = _images(call, rank)
        attributes, dims = _pooled(b, call, x, rank, (1,) * rank)
        attributes["count_include_pad"] = bool(call.static("count_include_pad"))
        divisor = call.static("divisor_override") if rank > 1 else None
        if divisor is not None:
            attributes["divisor_override"] = _number(divisor, 1)
        return _emit(b, call, (x,), attributes, dims)

    return rule


def adaptive_rule(rank: int) -> Rule:
    """``adaptive_avg_pool1d`` and its like."""

    def rule(b: Builder, call: Call) -> Value:
        x = _images(call, rank)
        asked = call.static("output_size")
        sizes = tuple(asked) if isinstance(asked, tuple | list) else (asked,) * rank
        spatial = tensor_dims(x)[-rank:]
        if asked is None or len(sizes) != rank or 0 in spatial:
            raise Untypable("an output size that does not fit")
        extents = [
            n if size is None else _number(size, 0) for size, n in zip(sizes, spatial, strict=True)
        ]
        boxes = [
            n // e
            for n, e in zip(spatial, extents, strict=True)
            if isinstance(n, int) and isinstance(e, int) and e and n % e == 0
        ]
        is_large = math.prod(boxes) > MAX_BOX and any(extent != 1 for extent in extents)
        if len(boxes) == rank and (max(boxes) == 1 or is_large):
            raise Untypable("means of boxes, which are compiled as such")
        known = [one for one in extents if isinstance(one, int) and one > 0]
        if len(boxes) < rank and len(known) == rank and max(known) > 1:
            return adaptive_mean(b, x, known)
        dims = (*tensor_dims(x)[:-rank], *extents)
        return _emit(b, call, (x,), {"output_size": sizes}, dims)

    return rule


def dropout_rule(ranks: tuple[int, ...] | None) -> Rule:
    """Dropout outside of training, which gives the array itself; of these ranks, or of any."""

    def rule(b: Builder, call: Call) -> Value:
        x, p = call.value("input"), call.static("p")
        rank = len(tensor(x).dims or ())
        if call.static("training") is not False:
            raise Untypable("dropout in training")
        if not isinstance(p, int | float) or not 0 <= p <= 1:
            raise Untypable(f"a probability of {p!r}")
        if ranks is not None and rank not in ranks:
            raise Untypable(f"an input with {rank} axes")
        return x

    return rule


def attention_rule(b: Builder, call: Call) -> Value:
    """Attention whose keys have as many heads or share them; those of its mask may be broadcast."""
    query, key, value = (array_operand(call.value(name)) for name in ("query", "key", "value"))
    dtype = tensor(query).dtype
    if dtype is None or dtype.char not in "fd" or not dtype.isnative:
        raise Untypable(f"dtype {dtype} has no compiled form here")
    dims, shares = tensor_dims(query), bool(call.static("enable_gqa"))
    heads = _heads_of_keys(dims[:-2], tensor_dims(key)[:-2]) if shares else dims[:-2]
    for other in (key, value):
        if tensor(other).dtype != dtype or len(tensor_dims(other)) != len(dims):
            raise Untypable("operands of different dtypes or ranks")
        for extent, wanted in zip(tensor_dims(other)[:-2], heads, strict=True):
            if 1 in (extent, wanted) and extent != wanted:
                raise Untypable("heads that are broadcast")
            _require_equal(extent, wanted, 1)
    if len(dims) < 2:
        raise Untypable("vectors")
    _require_equal(dims[-1], tensor_dims(key)[-1], 1)
    _require_equal(tensor_dims(key)[-2], tensor_dims(value)[-2], 1)
    if _is_long(tensor_dims(key)[-2]):
        raise Untypable("more keys than a row of scores has room for")
    scale = call.static("scale")
    if scale is None and dims[-1] == 0:
        raise Untypable("no features")
    if scale is not None and type(scale) not in (int, float):
        raise Untypable(f"a scale of {scale!r}")
    is_causal, mask = bool(call.static("is_causal")), call.optional("attn_mask")
    if mask is not None:
        mask = array_operand(mask)
        _check_mask(mask, dtype, (*dims[:-1], tensor_dims(key)[-2]), is_causal)
    attributes = {"is_causal": is_causal, "scale": scale}
    attributes |= {"enable_gqa": True} if shares else {}
    inputs = [query, key, value, b.constant(None) if mask is None else mask]
    return b.emit(
        call.kind, inputs, attributes, TensorType(dtype, (*dims[:-1], tensor_dims(value)[-1]))
    )


def _heads_of_keys(heads: Sequence[Dim], given: Sequence[Dim]) -> tuple[Dim, ...]:
    """The heads that keys and values must have where several of the queries share one."""
    if not heads or not given:
        raise Untypable("no axis of heads")
    wanted, found = heads[-1], given[-1]
    if found == 0 or (isinstance(wanted, int) and isinstance(found, int) and wanted % found):
        raise Untypable(f"{wanted} heads that cannot share {found}")
    return (*heads[:-1], found)


def _check_mask(
    mask: Value, dtype: np.dtype[Any], scores: tuple[Dim, ...], is_causal: bool
) -> None:
    """Refuse what is wrong, and masks that more than the scores' axes are needed for."""
    found = tensor(mask).dtype
    if is_causal or found not in (dtype, np.dtype(np.bool)):
        raise Untypable(f"a mask of {found}, or one besides is_causal")
    own = tensor_dims(mask)
    if not own or len(own) > len(scores) or len(scores) > MAX_MASKED_AXES:
        raise Untypable(f"a mask with {len(own)} axes for scores with {len(scores)}")
    for axis, (extent, wanted) in enumerate(zip(reversed(own), reversed(scores), strict=False)):
        is_shared = extent == 1 and axis > 0
        if not is_shared and extent != wanted and 1 in (extent, wanted):
            raise Untypable("a mask that is broadcast along the keys, or broadcasts the scores")
        if not is_shared:
            _require_equal(extent, wanted, 1)


def _is_long(keys: Dim) -> bool:
    return isinstance(keys, int) and keys > MAX_KEYS


# Operands


def _operands(call: Call, rank: int, dtypes: str = "fd") -> tuple[Value, Value, Value | None]:
    x, weight, bias = _images(call, rank, dtypes), call.value("weight"), call.optional("bias")
    if len(tensor_dims(array_operand(weight))) != rank + 2:
        raise Untypable("weights of another rank")
    if bias is not None and len(tensor_dims(array_operand(bias))) != 1:
        raise Untypable("a bias that is no vector")
    for other in (weight, bias):
        if other is not None and tensor(other).dtype != tensor(x).dtype:
            raise Untypable("operands of different dtypes")
    return x, weight, bias


def _images(call: Call, rank: int, dtypes: str = "fd") -> Value:
    """The images, of a dtype that has one of these characters."""
    x = array_operand(call.value("input"))
    dtype = tensor(x).dtype
    if dtype is None or dtype.char not in dtypes or not dtype.isnative:
        raise Untypable(f"dtype {dtype} has no compiled form here")
    if len(tensor_dims(x)) not in (rank + 1, rank + 2):
        raise Untypable(f"an input with {len(tensor_dims(x))} axes")
    return x


def _require_equal(extent: Dim, other: Dim, times: int) -> None:
    """Refuse what is surely wrong; the definition raises the error."""
    if isinstance(extent, int) and isinstance(other, int) and extent != other * times:
        raise Untypable(f"{extent} channels where {other * times} are expected")


def _number(value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise Untypable(f"{value!r} for a number of {least} or more")
    return int(value)


def _sizes(call: Call, name: str, rank: int, least: int) -> _Sizes:
    return _checked_sizes(call.static(name), rank, least)


def _checked_sizes(value: Any, rank: int, least: int) -> _Sizes:
    if not isinstance(value, tuple | list):
        return (_number(value, least),) * rank
    if len(value) not in (1, rank):
        raise Untypable(f"{len(value)} numbers for {rank} axes")
    return tuple(_number(one, least) for one in value) * (rank if len(value) == 1 else 1)


# Extents


def _frame(
    padding: Any,
    kernel: Sequence[Dim],
    stride: _Sizes,
    dilation: _Sizes,
    call: Call,
    rank: int,
) -> tuple[int | None, ...]:
    """How much is added to each axis, on both sides together; None where that is not known."""
    if padding == "valid":
        return (0,) * rank
    if padding == "same":
        if max(stride) > 1:
            raise Untypable("padding='same' with a stride")
        pairs = zip(kernel, dilation, strict=True)
        return tuple(d * (k - 1) if isinstance(k, int) else None for k, d in pairs)
    return tuple(2 * p for p in _sizes(call, "padding", rank, 0))


def _positions(
    b: Builder, n: Dim, kernel: Dim, stride: int, frame: int | None, dilation: int
) -> Dim:
    """How many positions a window has along an axis."""
    if not isinstance(n, int) or not isinstance(kernel, int) or frame is None:
        if frame is None and stride == 1:
            return n
        return b.fresh_dim(("positions", n, kernel, stride, frame, dilation))
    count = window_count(n, dilation * (kernel - 1) + 1, stride, (0, frame))
    if count < 1:
        raise Untypable("a kernel larger than the input")
    return count


def _spread(
    b: Builder, n: Dim, kernel: Dim, stride: int, cut: int, dilation: int, extra: int
) -> Dim:
    if not isinstance(n, int) or not isinstance(kernel, int):
        return b.fresh_dim(("spread", n, kernel, stride, cut, dilation, extra))
    extent = (n - 1) * stride + dilation * (kernel - 1) + 1 + extra - 2 * cut
    if extent <= 0:
        raise Untypable("padding that leaves nothing")
    return extent


def _pooled(
    b: Builder, call: Call, x: Value, rank: int, dilation: _Sizes
) -> tuple[dict[str, Any], tuple[Dim, ...]]:
    kernel = _sizes(call, "kernel_size", rank, 1)
    given = call.static("stride")
    stride = kernel if given is None else _checked_sizes(given, rank, 1)
    padding = _sizes(call, "padding", rank, 0)
    ceil_mode = bool(call.static("ceil_mode"))
    for k, p, d in zip(kernel, padding, dilation, strict=True):
        if 2 * p > d * (k - 1) + 1:
            raise Untypable("padding of more than half of the window")
    extents = [
        _windows(b, *numbers, ceil_mode)
        for numbers in zip(tensor_dims(x)[-rank:], kernel, stride, padding, dilation, strict=True)
    ]
    attributes = {
        "kernel_size": kernel,
        "stride": stride,
        "padding": padding,
        "ceil_mode": ceil_mode,
    }
    return attributes, (*tensor_dims(x)[:-rank], *extents)


def _windows(
    b: Builder, n: Dim, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool
) -> Dim:
    """How many windows lie along an axis; see ``max_pool2d`` for ``ceil_mode``."""
    if not isinstance(n, int):
        return b.fresh_dim(("windows", n, kernel, stride, padding, dilation, ceil_mode))
    span = dilation * (kernel - 1) + 1
    count = window_count(n, span, stride, (padding, padding), ceil_mode)
    if count < 1:
        raise Untypable("a window larger than the input")
    return count


def _emit(
    b: Builder,
    call: Call,
    operands: Sequence[Value | None],
    attributes: dict[str, Any],
    dims: tuple[Dim, ...],
) -> Value:
    x = operands[0]
    assert x is not None
    inputs = [b.constant(None) if one is None else one for one in operands]
    packed = call.optional("packed")
    type_ = TensorType(tensor(x).dtype, dims)
    if packed is None:
        return b.emit(call.kind, inputs, attributes, type_)
    return b.emit(call.kind, [*inputs, packed], attributes, type_, ("packed",))
