"""Which kinds of nodes read their operands at the place of their result."""

from __future__ import annotations

from jitcore.ir.ops import elementwise, special

__all__ = ["ALIGNED", "PACKED", "SCALARS", "SCANS"]

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

PACKED = ALIGNED | frozenset(
    {
        *("np::view", "np::transpose", "np::field", "np::record", "np::item", "prim::size"),
        *("np::gather", "np::scatter", "np::compress", "np::put_mask", "np::reshape", "np::ravel"),
        *("np::sum", "np::prod", "np::min", "np::max", "np::any", "np::all", "np::mean", "np::var"),
        *("np::std", "np::count_nonzero", "prim::FusionGroup", *SCANS),
    }
)
"""What reads arrays element by element, and no further than their strides say."""
