"""Which kinds of nodes read their operands at the place of their result."""

from __future__ import annotations

from jitcore.ir.ops import elementwise, special

__all__ = ["ALIGNED", "SCALARS", "SCANS"]

SCALARS = {op.kind: op.scalar for op in (*elementwise.OPS, *special.OPS) if op.scalar is not None}
"""The value at one element of every elementwise kind."""

SCANS = {
    "np::cumsum": "add",
    "np::cumprod": "mul",
    "np::maximum_accumulate": "max",
    "np::minimum_accumulate": "min",
}
"""What joins the elements of each kind of scan."""

ALIGNED = frozenset({*SCALARS, "np::broadcast_to", "np::full", "np::store", "np::copy"})
