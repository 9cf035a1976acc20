"""Methods of NumPy's binary ufuncs: ``outer``."""

from __future__ import annotations

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.ops.conversion import as_array, default_dtype
from jitcore.ir.ops.elementwise import cast_to
from jitcore.ir.ops.op import Builder, Call, Op, Rule, tensor
from jitcore.ir.ops.scalars import SCALARS
from jitcore.ir.types import TensorType, is_number

__all__ = ["OPS"]


def _rank(value: Value) -> int:
    return len(tensor(value).dims or ()) if isinstance(value.type, TensorType) else 0


def _strong(b: Builder, value: Value) -> Value:
    """An operand, which is made an array first: a Python number has its own dtype then."""
    return cast_to(b, value, default_dtype(value)) if is_number(value.type) else as_array(b, value)


def _outer_rule(name: str) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        x, y = (_strong(b, call.value(operand)) for operand in ("A", "B"))
        if _rank(x) and _rank(y):
            x = b.op("np::view", x, index=", ".join([":"] * _rank(x) + ["None"] * _rank(y)))
        return b.op(f"np::{name}", x, y)

    return rule


def _outer(name: str) -> Op:
    ufunc: np.ufunc = getattr(np, name)
    return Op(
        f"np::{name}_outer",
        ufunc.outer,
        _outer_rule(name),
        "A, B",
        functions=(ufunc.outer,),
        doc=f"``{name}`` of every element of one operand and every element of the other.",
    )


OPS: tuple[Op, ...] = tuple(
    _outer(name) for name in SCALARS if (ufunc := getattr(np, name)).nin == 2 and ufunc.nout == 1
)
