"""Products of matrices and vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitcore.ir.bfloat16 import is_bfloat16
from jitcore.ir.graph import Value
from jitcore.ir.ops.conversion import as_array
from jitcore.ir.ops.elementwise import cast_to, with_output
from jitcore.ir.ops.op import Builder, Call, Op, Untypable, common_dtype, tensor
from jitcore.ir.ops.shaping import checked_axis, rank_of
from jitcore.ir.shapes import BroadcastError
from jitcore.ir.types import SUPPORTED, Dim, TensorType

__all__ = ["OPS"]


def _pair(b: Builder, x: Value, y: Value) -> tuple[Value, Value, np.dtype[Any]]:
    """Both operands in their common dtype."""
    one, two = tensor(x).dtype, tensor(y).dtype
    assert one is not None and two is not None
    dtype = common_dtype(one, two)
    if dtype.char not in SUPPORTED:
        raise Untypable(f"dtype {dtype} is not compiled")
    return cast_to(b, x, dtype), cast_to(b, y, dtype), dtype


def _factors(b: Builder, x: Value, y: Value) -> tuple[Value, Value, np.dtype[Any]]:
    """The matrices of a product, and its dtype.

    ml_dtypes has no product of matrices of bfloat16: NumPy computes it in float32, and leaves it.
    """
    one, two = tensor(x).dtype, tensor(y).dtype
    assert one is not None and two is not None
    if not (is_bfloat16(one) or is_bfloat16(two)):
        return _pair(b, x, y)
    dtype = np.matmul.resolve_dtypes((one, two, None))[-1]
    if one == two:
        return x, y, dtype
    return cast_to(b, x, dtype), cast_to(b, y, dtype), dtype


def _check_contracted(one: Dim, two: Dim) -> None:
    if isinstance(one, int) and isinstance(two, int) and one != two:
        raise Untypable(f"contracted extents {one} and {two} differ")


def _matmul_rule(b: Builder, call: Call) -> Value:
    x, y, dtype = _factors(b, call.value("x"), call.value("y"))
    left, right = tensor(x).dims or (), tensor(y).dims or ()
    if not left or not right:
        raise Untypable("matmul of a scalar")
    _check_contracted(left[-1], right[-2] if len(right) > 1 else right[0])
    try:
        batch = b.broadcast([left[:-2], right[:-2]])
    except BroadcastError as error:
        raise Untypable(str(error)) from None
    rows = left[-2:-1]
    columns = right[-1:] if len(right) > 1 else ()
    dims = (*batch, *rows, *columns)
    function = call.static("function")
    # Where operands do not fit, NumPy's error names the function that was called.
    attributes = {} if function == "matmul" else {"function": function}
    return b.emit("np::matmul", [x, y], attributes, TensorType(dtype, dims, dims == ()))


def _narrow_product_rule(b: Builder, call: Call) -> Value:
    product = _matmul_rule(b, call)
    assert product.node is not None
    inputs, type_ = list(product.node.inputs), product.type
    return b.emit("np::narrow_product", inputs, {}, type_)


def _dot_rule(b: Builder, call: Call) -> Value:
    x, y = call.value("a"), call.value("b")
    left, right = tensor(x).dims or (), tensor(y).dims or ()
    if not left or not right:
        return b.op("np::multiply", x, y)
    if len(left) <= 2 and len(right) <= 2:
        return _like_both(b, b.op("np::matmul", x, y, function="dot"), x, y)
    raise Untypable("np.dot of stacks of matrices")


def _like_both(b: Builder, product: Value, x: Value, y: Value) -> Value:
    """The product of arrays of bfloat16 as such; ml_dtypes adds up in float32, too."""
    one, two = tensor(x).dtype, tensor(y).dtype
    assert one is not None
    return cast_to(b, product, one) if is_bfloat16(one) and one == two else product


def _inner_rule(b: Builder, call: Call) -> Value:
    x, y = call.value("a"), call.value("b")
    left, right = tensor(x).dims or (), tensor(y).dims or ()
    if not left or not right:
        return b.op("np::multiply", x, y)
    if len(left) == len(right) == 1:
        return _like_both(b, b.op("np::matmul", x, y), x, y)
    if len(left) <= 2 and len(right) == 2:
        return _like_both(b, b.op("np::matmul", x, b.op("np::transpose", y)), x, y)
    raise Untypable("np.inner of stacks of matrices")


def _vdot_rule(b: Builder, call: Call) -> Value:
    x, y = call.value("a"), call.value("b")
    if not tensor(x).dims or not tensor(y).dims:
        raise Untypable("np.vdot of scalars")
    x, y = (one if len(tensor(one).dims or ()) == 1 else b.op("np::ravel", one) for one in (x, y))
    dtype = tensor(x).dtype
    if dtype is not None and dtype.kind == "c":
        x = b.op("np::conjugate", x)
    return _like_both(b, b.op("np::matmul", x, y), x, y)


def _outer_rule(b: Builder, call: Call) -> Value:
    x, y = (_flat(b, call.value(name)) for name in ("a", "b"))
    return b.op("np::multiply", b.op("np::view", x, index=":, None"), y)


def _kron_rule(b: Builder, call: Call) -> Value:
    x, y = (as_array(b, call.value(name)) for name in ("a", "b"))
    x, y, dtype = _pair(b, x, y)
    rank = max(rank_of(x), rank_of(y))
    if not rank_of(x) or not rank_of(y):
        return b.op("np::multiply", x, y)
    x, y = (_with_leading_axes(b, one, rank) for one in (x, y))
    pairs = [(b.size(x, axis), b.size(y, axis)) for axis in range(rank)]
    result = b.op("np::empty", *(b.op("prim::mul", *pair) for pair in pairs), dtype=dtype)
    opened = b.op("np::reshape", result, *(extent for pair in pairs for extent in pair))
    outer = b.op("np::view", x, index=", ".join([":", "None"] * rank))
    inner = b.op("np::view", y, index=", ".join(["None", ":"] * rank))
    b.op("np::store", opened, b.op("np::multiply", outer, inner))
    return result


def _with_leading_axes(b: Builder, value: Value, rank: int) -> Value:
    missing = rank - rank_of(value)
    entries = ["None"] * missing + [":"] * rank_of(value)
    return b.op("np::view", value, index=", ".join(entries)) if missing else value


def _cross_rule(b: Builder, call: Call) -> Value:
    x, y = (as_array(b, call.value(name)) for name in ("a", "b"))
    x, y, dtype = _pair(b, x, y)
    given = call.static("axis")
    places = [given] * 3 if given is not None else [call.static(f"axis{one}") for one in "abc"]
    x, y = (b.op("np::moveaxis", one, axis, -1) for one, axis in zip((x, y), places, strict=False))
    if any((tensor(one).dims or (0,))[-1] != 3 for one in (x, y)) or dtype.kind == "b":
        raise Untypable("np.cross of something else than vectors of three elements")
    product = b.define(_cross_product, *_components(b, x), *_components(b, y))
    rank = max(rank_of(x), rank_of(y))
    end = checked_axis(places[2], rank)
    return b.op("np::stack", product, axis=end)


def _components(b: Builder, x: Value) -> list[Value]:
    entries = [":"] * (rank_of(x) - 1)
    return [b.op("np::view", x, index=", ".join([*entries, str(one)])) for one in range(3)]


def _cross_product(x: Any, y: Any, z: Any, u: Any, v: Any, w: Any) -> Any:
    return y * w - z * v, z * u - x * w, x * v - y * u


def _flat(b: Builder, value: Value) -> Value:
    if tensor(value).scalar:
        raise Untypable("np.outer of a NumPy scalar")
    return value if len(tensor(value).dims or ()) == 1 else b.op("np::ravel", value)


def _matmul(*operands: Any, function: str = "matmul", **keywords: Any) -> Any:
    return getattr(np, function)(*operands, **keywords)


def _named(name: str, rule: Any, parameters: str, doc: str, **more: Any) -> Op:
    function = getattr(np, name)
    return Op(f"np::{name}", function, rule, parameters, functions=(function,), doc=doc, **more)


_UFUNC = "out=None, *, casting!='same_kind', order!='K', dtype!=None, subok!=True"


OPS: tuple[Op, ...] = (
    Op(
        "np::matmul",
        _matmul,
        with_output(_matmul_rule),
        f"x, y, {_UFUNC}, function='matmul'",
        functions=(np.matmul,),
        doc="Matrix product.",
    ),
    Op(
        "np::narrow_product",
        np.matmul,
        _narrow_product_rule,
        "x, y, function='matmul'",
        functions=(),
        doc="The same where sums have few terms, and rows of the result few elements.",
    ),
    _named("dot", _dot_rule, "a, b, out!=None", "Dot product.", methods={"dot": "b, out!=None"}),
    _named("inner", _inner_rule, "a, b", "Inner product over the last axes."),
    _named("vdot", _vdot_rule, "a, b", "Dot product of conjugate and vector."),
    _named("outer", _outer_rule, "a, b, out!=None", "Outer product."),
    _named("kron", _kron_rule, "a, b", "Products of all pairs, in blocks."),
    _named(
        "cross",
        _cross_rule,
        "a, b, axisa=-1, axisb=-1, axisc=-1, axis=None",
        "Products of vectors that stand on both.",
    ),
)
