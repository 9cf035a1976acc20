"""Which kinds of nodes read their operands at the place of their result."""

from __future__ import annotations

from jitcore.ir.ops import REDUCTIONS, elementwise, reductions, special

__all__ = ["ALIGNED", "JOINS", "PACKED", "POSITIONS", "SCALARS"]

SCALARS = {op.kind: op.scalar for op in (*elementwise.OPS, *special.OPS) if op.scalar is not None}
"""The value at one element of every elementwise kind."""

_OPERATIONS = {
    "np::add": "add",
    "np::multiply": "mul",
    "np::minimum": "min",
    "np::maximum": "max",
    "np::logical_and": "and",
    "np::logical_or": "or",
}

JOINS = {op.kind: _OPERATIONS[op.joins] for op in reductions.OPS if op.joins}
"""The operation that joins the elements of each kind of reduction and scan."""

POSITIONS = REDUCTIONS - JOINS.keys()
"""Reductions that say where an element is; their results are in C order, whatever they read."""

ALIGNED = frozenset({*SCALARS, "np::broadcast_to", "np::full", "np::store", "np::copy"})

PACKED = ALIGNED | frozenset(
    {
        *("np::view", "np::transpose", "np::field", "np::record", "np::item", "prim::size"),
        *("np::gather", "np::scatter", "np::compress", "np::put_mask", "np::reshape", "np::ravel"),
        *("prim::FusionGroup", *JOINS),
    }
)
"""What reads arrays element by element, and no further than their strides say."""
