"""Python's ``round``."""

from __future__ import annotations

from jitcore.ir.graph import Value
from jitcore.ir.ops.op import Builder, Call, Untypable, tensor
from jitcore.ir.types import FLOAT, INT, is_scalar_tensor

__all__ = ["round_rule"]


def round_rule(b: Builder, call: Call) -> Value:
    """``round``; NumPy's scalars give an int without digits, and what `numpy.round` does with."""
    x, digits = call.value("x"), call.optional("ndigits")
    dtype = tensor(x).dtype if is_scalar_tensor(x.type) else None
    if dtype is not None and dtype.kind in "iuf":
        if digits is not None:
            return b.op("np::round", x, digits)
        x = b.op("prim::float" if dtype.kind == "f" else "prim::int", x)
    if x.type not in (INT, FLOAT) or digits is not None:
        raise Untypable(f"round() of {x.type}")
    return x if x.type == INT else b.emit("prim::round", [x], {}, INT)
