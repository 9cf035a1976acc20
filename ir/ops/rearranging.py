"""Views made of other views: rot90, unstack, matrix transposes; the shape as a value."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.ops.op import Builder, Call, Op, Rule, Untypable, tensor
from jitcore.ir.ops.shaping import array_operand, checked_axis, rank_of, row
from jitcore.ir.types import TensorType, is_number

__all__ = ["OPS"]


def _rot90_rule(b: Builder, call: Call) -> Value:
    x, turns = array_operand(call.value("m")), call.static("k")
    axes = call.static("axes") if "axes" in call.bound else (0, 1)
    if not isinstance(turns, int) or not isinstance(axes, tuple | list) or len(axes) != 2:
        raise Untypable("np.rot90 by turns that are not known")
    one, two = (checked_axis(axis, rank_of(x)) for axis in axes)
    if one == two:
        raise Untypable("Axes must be different.")
    if turns % 4 == 2:
        return b.op("np::flip", x, axis=(one, two))
    if turns % 4 == 1:
        return b.op("np::swapaxes", b.op("np::flip", x, axis=two), one, two)
    if turns % 4 == 3:
        return b.op("np::flip", b.op("np::swapaxes", x, one, two), axis=two)
    return b.op("np::view", x, index=", ".join([":"] * rank_of(x)))


def _unstack_rule(b: Builder, call: Call) -> Value:
    x = array_operand(call.value("x"))
    axis = checked_axis(call.static("axis"), rank_of(x))
    extent = (tensor(x).dims or ())[axis]
    if not isinstance(extent, int):
        raise Untypable("np.unstack along an axis whose extent is not known")
    before, after = [":"] * axis, [":"] * (rank_of(x) - axis - 1)
    parts = [
        b.op("np::view", x, index=", ".join([*before, str(number), *after]))
        for number in range(extent)
    ]
    # A vector is taken apart into NumPy scalars.
    return b.make_tuple([b.op("np::item", one) for one in parts] if rank_of(x) == 1 else parts)


def _matrix_transpose_rule(b: Builder, call: Call) -> Value:
    x = array_operand(call.value("x"))
    if rank_of(x) < 2:
        raise Untypable("a matrix transpose of less than two dimensions")
    return b.op("np::swapaxes", x, -1, -2)


def _attribute_rule(name: str) -> Rule:
    """``np.shape`` and ``np.ndim``, which take Python numbers too."""

    def rule(b: Builder, call: Call) -> Value:
        x = call.value("a")
        if is_number(x.type):
            return b.make_tuple([]) if name == "shape" else b.constant(0)
        tensor(x)
        return b.op("prim::GetAttr", x, name=name)

    return rule


def _size_rule(b: Builder, call: Call) -> Value:
    x, axis = call.value("a"), call.static("axis")
    if not isinstance(x.type, TensorType):
        raise Untypable(f"np.size of {x.type}")
    if axis is None:
        return b.op("prim::GetAttr", x, name="size")
    return b.size(x, checked_axis(axis, rank_of(x)))


def _conj(x: Any) -> Any:
    return x.conj()


def _conj_rule(b: Builder, call: Call) -> Value:
    x = call.value("a")
    dtype = tensor(x).dtype
    if dtype is None or dtype.kind not in "fciu":
        raise Untypable(f"the conjugate of {dtype}")
    # The method gives real arrays back as they are.
    return b.op("np::conjugate", x) if dtype.kind == "c" else x


OPS: tuple[Op, ...] = (
    row(
        "rot90",
        np.rot90,
        _rot90_rule,
        "m, k=1, axes=None",
        "Turned by right angles, a view.",
        view=True,
    ),
    row("unstack", np.unstack, _unstack_rule, "x, *, axis=0", "Parts along an axis.", view=True),
    row(
        "matrix_transpose",
        np.matrix_transpose,
        _matrix_transpose_rule,
        "x",
        "The last two axes exchanged, a view.",
        view=True,
    ),
    row("shape", np.shape, _attribute_rule("shape"), "a", "The extents of all axes."),
    row("ndim", np.ndim, _attribute_rule("ndim"), "a", "The number of axes."),
    row("size", np.size, _size_rule, "a, axis=None", "The number of elements."),
    row(
        "conj_method",
        _conj,
        _conj_rule,
        "a",
        "The methods ``conj`` and ``conjugate``.",
        functions=(),
        methods={"conj": None, "conjugate": None},
        view=True,
    ),
)
