"""New arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitcore.ir import reference
from jitcore.ir.bfloat16 import computed_in
from jitcore.ir.graph import Value
from jitcore.ir.ops.conversion import stored_dtype
from jitcore.ir.ops.elementwise import cast_to
from jitcore.ir.ops.op import Builder, Call, Op, Rule, Untypable, tensor, tensor_dtype
from jitcore.ir.ops.shaping import dims_of_values, shape_values
from jitcore.ir.reference import require
from jitcore.ir.types import FLOAT, INT, SUPPORTED, TensorType, is_number, is_scalar_tensor

__all__ = ["OPS"]


def _filled(
    b: Builder,
    number: Any,
    dtype: np.dtype[Any],
    extents: list[Value],
    like: Value | None = None,
    order: str = "K",
) -> Value:
    """A new array, in C order or in the order of ``like`` where that has as many axes."""
    type_ = TensorType(dtype, dims_of_values(b, extents))
    inputs, kind = extents, "np::empty"
    if number is not None:
        if not isinstance(number, Value):
            own = computed_in(dtype)
            constant = b.constant(own.type(number), TensorType(own, (), True))
            number = cast_to(b, constant, dtype)
        inputs, kind = [number, *extents], "np::full"
    if like is None or len(extents) < 2 or tensor(like).rank != len(extents):
        return b.emit(kind, inputs, {"dtype": dtype}, type_)
    attributes = {"dtype": dtype, "order": order}
    return b.emit(kind, [*inputs, like], attributes, type_, ["like"])


def _shape_rule(number: Any) -> Rule:
    """``zeros``, ``ones`` and ``empty``."""

    def rule(b: Builder, call: Call) -> Value:
        if call.static("order") not in ("C", None):
            raise Untypable("creation in another order than C")
        dtype = call.static("dtype")
        extents = shape_values(b, call.value("shape"))
        return _filled(b, number, stored_dtype(float if dtype is None else dtype), extents)

    return rule


def _like_rule(number: Any, name: str = "a") -> Rule:
    """``zeros_like`` and its kin."""

    def rule(b: Builder, call: Call) -> Value:
        x = call.value(name)
        type_ = tensor(x)
        if type_.scalar:
            raise Untypable("an array like a NumPy scalar")
        dtype = call.static("dtype")
        extents = [b.size(x, axis) for axis in range(len(type_.dims or ()))]
        if call.optional("shape") is not None:
            extents = shape_values(b, call.value("shape"))
        return _filled(b, number, stored_dtype(type_.dtype if dtype is None else dtype), extents, x)

    return rule


def _fill_value(b: Builder, value: Value, dtype: np.dtype[Any] | None) -> Value:
    if dtype is None:
        if is_number(value.type):
            dtype = np.dtype(
                {"int": np.int64, "float": np.float64}.get(str(value.type), str(value.type))
            )
        else:
            dtype = tensor(value).dtype
    assert dtype is not None
    if isinstance(value.type, TensorType) and value.type.dims != ():
        raise Untypable("np.full of an array")
    if (
        is_number(value.type)
        and value.constant is None
        and dtype.kind in "iu"
        and value.type == FLOAT
    ):
        raise Untypable("a float fills an integer array")
    if isinstance(value.type, TensorType) and not value.type.scalar:
        value = b.op("np::item", value)
    if value.type == FLOAT and dtype.kind in "iub" and value.constant is not None:
        raise Untypable("a float fills an integer array")
    return cast_to(b, value, stored_dtype(dtype))


def _full_rule(b: Builder, call: Call) -> Value:
    if call.static("order") != "C":
        raise Untypable("creation in another order than C")
    asked = call.static("dtype")
    value = _fill_value(b, call.value("fill_value"), None if asked is None else stored_dtype(asked))
    return _filled(b, value, tensor_dtype(value), shape_values(b, call.value("shape")))


def _full_like_rule(b: Builder, call: Call) -> Value:
    x = call.value("a")
    type_ = tensor(x)
    if type_.scalar or type_.dtype is None:
        raise Untypable("an array like a NumPy scalar")
    asked = call.static("dtype")
    value = _fill_value(
        b, call.value("fill_value"), stored_dtype(type_.dtype if asked is None else asked)
    )
    extents = [b.size(x, axis) for axis in range(len(type_.dims or ()))]
    return _filled(b, value, tensor_dtype(value), extents, x)


def _typed_empty_rule(b: Builder, call: Call) -> Value:
    dtype, like = stored_dtype(call.static("dtype")), call.optional("like")
    return _filled(b, None, dtype, call.bound["extents"], like, call.static("order"))


def _typed_full_rule(b: Builder, call: Call) -> Value:
    dtype = stored_dtype(call.static("dtype"))
    value, like = cast_to(b, call.value("value"), dtype), call.optional("like")
    order = call.static("order")
    return _filled(b, value, dtype, call.bound["extents"], like, order)


def _arange_rule(b: Builder, call: Call) -> Value:
    values = [call.value("start")]
    stop, step = call.optional("stop"), call.optional("step")
    values += [one for one in (stop, step) if one is not None]
    from_zero = stop is None
    values = [_python_number(b, one, from_zero and step is None) for one in values]
    if from_zero:
        values = [b.constant(0), *values]
    if len(values) == 2:
        values.append(b.constant(1))
    dtype = call.static("dtype")
    if all(value.type == INT for value in values):
        return _integer_arange(b, values, stored_dtype(np.int64 if dtype is None else dtype))
    known = [
        None if value.constant is None else value.constant.attributes["value"] for value in values
    ]
    if dtype is not None and np.dtype(dtype) != np.float64:
        raise Untypable(f"np.arange of floats as {dtype}")
    if any(one is None for one in known):
        return _float_arange(b, values)
    arguments: list[Any] = known
    try:
        sample = np.arange(*arguments)
    except (TypeError, ValueError) as error:
        raise Untypable(str(error)) from None
    if sample.dtype.char not in SUPPORTED:
        raise Untypable("np.arange of something else than numbers")
    start, _, step_value = known
    if start is None or step_value is None:
        raise Untypable("np.arange of floats that are not known")
    # NumPy computes the second element and steps by its difference from the first.
    delta = (start + step_value) - start
    return _iota(
        b, b.constant(float(start)), b.constant(float(delta)), b.constant(len(sample)), sample.dtype
    )


def _python_number(b: Builder, x: Value, counts_from_zero: bool) -> Value:
    """A scalar as Python's number where NumPy gets the same steps from both.

    Those between scalars of fewer bits are computed, and may overflow, in these.
    """
    dtype = tensor(x).dtype if is_scalar_tensor(x.type) else None
    if dtype == np.float64:
        return b.op("prim::float", x)
    is_exact = dtype is not None and dtype.kind in "iu" and np.can_cast(dtype, np.int64)
    if is_exact and (dtype == np.int64 or counts_from_zero):
        return b.op("prim::int", x)
    return x


def _integer_arange(b: Builder, values: list[Value], dtype: np.dtype[Any]) -> Value:
    start, stop, step = values
    if dtype.kind not in "iuf":
        raise Untypable(f"np.arange of {dtype}")
    if dtype == np.float16:
        raise Untypable("np.arange in float16, whose second element need not be one step on")
    if step.constant is None:
        return _iota(b, start, step, b.define(_steps_between, start, stop, step), dtype)
    if step.constant.attributes["value"] == 0:
        raise Untypable("np.arange with a step of zero")
    count = b.op("prim::range_length", start, stop, step)
    return _iota(b, start, step, count, dtype)


def _float_arange(b: Builder, values: list[Value]) -> Value:
    start, stop, step = values
    if any(value.type not in (INT, FLOAT) for value in values):
        raise Untypable("np.arange of something else than Python's numbers")
    count = b.define(_steps_between, start, stop, step)
    return _iota(b, start, b.define(_difference, start, step), count, np.dtype(np.float64))


def _steps_between(start: Any, stop: Any, step: Any) -> Any:
    """How many numbers ``np.arange`` gives (NumPy, ctors.c, ``_calc_length``)."""
    distance = stop - start
    steps = distance / step
    require(steps == steps, "ValueError", "arange: cannot compute length")
    require(abs(steps) < 2.0**63, "ValueError", "Maximum allowed size exceeded")
    if steps == 0 and distance != 0:
        return 0 if math.copysign(1.0, steps) < 0 else 1
    return max(math.ceil(steps), 0)


def _difference(start: Any, step: Any) -> Any:
    """What NumPy steps by: the difference of the second element from the first."""
    difference = float(start + step) - start
    # With an infinite step there is one element at most.
    return difference if abs(difference) < math.inf else 0.0


def _iota(b: Builder, start: Value, step: Value, count: Value, dtype: np.dtype[Any]) -> Value:
    dims = dims_of_values(b, [count])
    inputs = [cast_to(b, start, dtype), cast_to(b, step, dtype), count]
    return b.emit("np::iota", inputs, {"dtype": dtype}, TensorType(dtype, dims))


def _iota_rule(b: Builder, call: Call) -> Value:
    values = [call.value(name) for name in ("start", "step", "count")]
    return _iota(b, values[0], values[1], values[2], stored_dtype(call.static("dtype")))


def _eye_rule(b: Builder, call: Call) -> Value:
    rows = call.value("N")
    columns = call.optional("M") or rows
    dtype = call.static("dtype")
    return _diagonal_ones(
        b, rows, columns, call.static("k"), stored_dtype(float if dtype is None else dtype)
    )


def _identity_rule(b: Builder, call: Call) -> Value:
    n = call.value("n")
    dtype = call.static("dtype")
    return _diagonal_ones(b, n, n, 0, stored_dtype(float if dtype is None else dtype))


def _diagonal_ones(b: Builder, rows: Value, columns: Value, k: int, dtype: np.dtype[Any]) -> Value:
    if rows.type != INT or columns.type != INT:
        raise Untypable("np.eye of a shape that is not a number")
    down = b.op("np::view", _counted(b, rows), index=":, None")
    along = _counted(b, columns)
    on = b.op("np::equal", b.op("np::add", down, k), along)
    return b.op("np::cast", on, dtype=dtype)


def _counted(b: Builder, extent: Value) -> Value:
    """The places of an axis, whose extent is an error where it is negative."""
    return _iota(b, b.constant(0), b.constant(1), extent, np.dtype(np.int64))


def _tri(keep: str) -> Rule:
    """``tril`` and ``triu`` of a matrix."""

    def rule(b: Builder, call: Call) -> Value:
        m = call.value("m")
        type_ = tensor(m)
        if len(type_.dims or ()) != 2 or type_.dtype is None:
            raise Untypable("np.tril of something else than a matrix")
        k = call.static("k")
        down = b.op("np::view", b.op("np::arange", b.size(m, 0)), index=":, None")
        along = b.op("np::arange", b.size(m, 1))
        inside = b.op(keep, along, b.op("np::add", down, k))
        return b.op("np::where", inside, m, b.constant(type_.dtype.type(0)))

    return rule


OPS: tuple[Op, ...] = (
    Op(
        "np::empty",
        reference.empty,
        _typed_empty_rule,
        "*extents, dtype, like=None, order='K'",
        pure=False,
        doc="A new array with any contents.",
    ),
    Op(
        "np::full",
        reference.full,
        _typed_full_rule,
        "value, *extents, dtype, like=None, order='K'",
        doc="A new array of one value.",
    ),
    Op("np::iota", reference.iota, _iota_rule, "start, step, count, dtype", doc="Equal steps."),
    Op(
        "np::zeros",
        np.zeros,
        _shape_rule(0),
        "shape, dtype=float, order='C', *, device!=None, like!=None",
        functions=(np.zeros,),
        doc="A new array of zeros.",
    ),
    Op(
        "np::ones",
        np.ones,
        _shape_rule(1),
        "shape, dtype=None, order='C', *, device!=None, like!=None",
        functions=(np.ones,),
        doc="A new array of ones.",
    ),
    Op(
        "np::empty_function",
        np.empty,
        _shape_rule(None),
        "shape, dtype=float, order='C', *, device!=None, like!=None",
        functions=(np.empty,),
        pure=False,
        doc="A new array with any contents.",
    ),
    Op(
        "np::ndarray",
        np.ndarray,
        _shape_rule(None),
        "shape, dtype=float, buffer!=None, offset!=0, strides!=None, order=None",
        functions=(np.ndarray,),
        pure=False,
        doc="A new array with any contents.",
    ),
    Op(
        "np::zeros_like",
        np.zeros_like,
        _like_rule(0),
        "a, dtype=None, order!='K', subok!=True, shape=None, *, device!=None",
        functions=(np.zeros_like,),
        doc="Zeros in the form of another array.",
    ),
    Op(
        "np::ones_like",
        np.ones_like,
        _like_rule(1),
        "a, dtype=None, order!='K', subok!=True, shape=None, *, device!=None",
        functions=(np.ones_like,),
        doc="Ones in the form of another array.",
    ),
    Op(
        "np::empty_like",
        np.empty_like,
        _like_rule(None, "prototype"),
        "prototype, dtype=None, order!='K', subok!=True, shape=None, *, device!=None",
        pure=False,
        functions=(np.empty_like,),
        doc="A new array in the form of another.",
    ),
    Op(
        "np::full_function",
        np.full,
        _full_rule,
        "shape, fill_value, dtype=None, order='C', *, device!=None, like!=None",
        functions=(np.full,),
        doc="A new array of one value.",
    ),
    Op(
        "np::full_like",
        np.full_like,
        _full_like_rule,
        "a, fill_value, dtype=None, order!='K', subok!=True, shape!=None, *, device!=None",
        functions=(np.full_like,),
        doc="One value in the form of another array.",
    ),
    Op(
        "np::arange",
        np.arange,
        _arange_rule,
        "start, stop=None, step=None, dtype=None, *, device!=None, like!=None",
        functions=(np.arange,),
        doc="Equal steps from start to before stop.",
    ),
    Op(
        "np::eye",
        np.eye,
        _eye_rule,
        "N, M=None, k=0, dtype=float, order!='C', *, device!=None, like!=None",
        functions=(np.eye,),
        doc="Ones on a diagonal.",
    ),
    Op(
        "np::identity",
        np.identity,
        _identity_rule,
        "n, dtype=None, *, like!=None",
        functions=(np.identity,),
        doc="The identity matrix.",
    ),
    Op(
        "np::tril",
        np.tril,
        _tri("np::less_equal"),
        "m, k=0",
        functions=(np.tril,),
        doc="The lower triangle.",
    ),
    Op(
        "np::triu",
        np.triu,
        _tri("np::greater_equal"),
        "m, k=0",
        functions=(np.triu,),
        doc="The upper triangle.",
    ),
)
