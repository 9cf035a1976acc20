"""Attention by its own kernel, whatever the order in memory of heads and rows."""

from __future__ import annotations

import numpy as np

from jitcore.codegen.kernels import attention
from jitcore.codegen.loops import Binary, Call, Cast, Const, Do, Expr, Unary
from jitcore.codegen.lowering.arithmetic import (
    ONE,
    ZERO,
    add,
    compare,
    constant,
    integer,
    maximum,
    multiply,
    product,
)
from jitcore.codegen.lowering.layers import addresses, contiguous, result
from jitcore.codegen.lowering.operands import ArrayRef, Operand
from jitcore.codegen.lowering.state import Lowering, Rule
from jitcore.ir.graph import Node, Value
from jitcore.ir.ops.layer_types import MAX_KEYS

__all__ = ["RULES"]

HEAD_AXES = 2
"""So many axes before those of a matrix the kernel walks by their strides."""


def _attention(lowering: Lowering, node: Node) -> Operand:
    query, key, value = (_walkable(lowering, lowering.array(one)) for one in node.inputs[:3])
    dtype = query.dtype.name
    heads, (queries, features) = query.dims[:-2], query.dims[-2:]
    keys, columns = value.dims[-2:]
    shared, groups = _shared(lowering, node, heads, key.dims[:-2])
    for one, other in (
        *zip(groups, key.dims[:-2], strict=True),
        *zip(groups, value.dims[:-2], strict=True),
        (features, key.dims[-1]),
        (keys, key.dims[-2]),
    ):
        lowering.fail(compare("ne", one, other), None)
    lowering.fail(compare("gt", keys, integer(MAX_KEYS)), None)
    mask = _mask(lowering, node.inputs[3], (*heads, queries, keys))
    target = result(lowering, node, query, [*heads, queries, columns])
    count = lowering.size(heads)
    size = multiply(lowering.size(groups), _packed_size(dtype, keys, features, columns))
    packed = lowering.allocate("packed", [size], query.dtype, escapes=False)
    strides = [one for array in (query, key, value) for one in _strides(array)]
    inner = heads[-1] if heads else ONE
    causal = integer(int(node.attributes["is_causal"]))
    args = (
        *addresses((query, key, value, packed, target, mask)),
        *(count, inner, shared, queries, keys, features, columns),
        *strides,
        *(_mask_strides(mask) if mask else (ZERO, ZERO, ZERO)),
        causal,
        _scale(lowering, node.attributes["scale"], features, dtype),
    )
    symbol = attention.symbol(dtype, _kind(mask))
    lowering.emitter.emit(Do(Call(symbol, args, "void", external=True)))
    return target


def _shared(
    lowering: Lowering, node: Node, heads: tuple[Expr, ...], of_keys: tuple[Expr, ...]
) -> tuple[Expr, tuple[Expr, ...]]:
    """How many heads of the queries share one of the keys, and the extents of those."""
    if not node.attributes.get("enable_gqa"):
        return ONE, heads
    wanted, given = heads[-1], of_keys[-1]
    if isinstance(wanted, Const) and isinstance(given, Const):
        return integer(max(wanted.value // given.value, 1)), (*heads[:-1], given)
    lowering.fail(compare("lt", given, ONE), None)
    rest = Binary("rem", wanted, given, "int64")
    lowering.fail(compare("ne", rest, ZERO), None)
    # The kernel divides by it, also where there are no queries.
    return maximum(Binary("quot", wanted, given, "int64"), ONE), (*heads[:-1], given)


def _kind(mask: ArrayRef | None) -> str:
    if mask is None:
        return "none"
    return "chosen" if mask.dtype.kind == "b" else "added"


def _mask(lowering: Lowering, value: Value, scores: tuple[Expr, ...]) -> ArrayRef | None:
    """The mask of scores with these extents, with numbers side by side."""
    if value.constant is not None:
        return None
    mask = lowering.array(value)
    for one, other in zip(reversed(mask.dims), reversed(scores), strict=False):
        if one != ONE:
            lowering.fail(compare("ne", one, other), None)
    return mask if mask.strides[-1] == ONE else contiguous(lowering, mask)


def _mask_strides(mask: ArrayRef) -> tuple[Expr, ...]:
    """As `_strides`; zeros along axes that the mask has not, or that are of extent 1."""
    known = zip(mask.dims[:-1], mask.strides[:-1], strict=True)
    own = [ZERO if dim == ONE else stride for dim, stride in known]
    return (*[ZERO] * (HEAD_AXES + 1 - len(own)), *own)


def _walkable(lowering: Lowering, array: ArrayRef) -> ArrayRef:
    """The array, or a copy, where the kernel cannot walk it by its strides."""
    if array.rank <= HEAD_AXES + 2 and array.strides[-1] == ONE:
        return array
    return contiguous(lowering, array)


def _strides(array: ArrayRef) -> tuple[Expr, Expr, Expr]:
    """Those of the heads' two axes and of the rows; of more heads, which have no gaps, one axis."""
    rows = array.strides[-2]
    if array.rank == HEAD_AXES:
        return ZERO, ZERO, rows
    inner = array.strides[-3]
    if array.rank == HEAD_AXES + 1:
        return ZERO, inner, rows
    if array.rank == HEAD_AXES + 2:
        return array.strides[-4], inner, rows
    return product((array.dims[-3], inner)), inner, rows


def _packed_size(dtype: str, keys: Expr, features: Expr, columns: Expr) -> Expr:
    """How many elements the packed keys and values of one head are."""
    width = attention.width(dtype)

    def padded(extent: Expr) -> Expr:
        panels = Binary("quot", add(extent, integer(width - 1)), integer(width), "int64")
        return multiply(panels, integer(width))

    return add(multiply(padded(keys), features), multiply(padded(columns), keys))


def _scale(lowering: Lowering, given: float | None, features: Expr, dtype: str) -> Expr:
    """The factor of the scores, rounded to their dtype as NumPy rounds Python's numbers."""
    if given is not None:
        return constant(np.dtype(dtype).type(given), dtype)
    lowering.fail(compare("eq", features, ZERO), None)
    root = Unary("sqrt", Cast(features, "float64"), "float64")
    exact = Binary("div", constant(1.0, "float64"), root, "float64")
    return exact if dtype == "float64" else Cast(exact, dtype)


RULES: dict[str, Rule] = {"nn::scaled_dot_product_attention": _attention}
