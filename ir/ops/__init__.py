"""The op table: one row per op, assembled from its families.

Anything true of an op is a column of its row (``ir.ops.op.Op``).  Lists of names elsewhere are a
pass's own choice, such as what it takes for worth its while, or tables of what a file does for each
op.  To add an op, add a row to the family it belongs to, and samples to ``tests/opinfos.py``.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from jitcore.ir.graph import Node
from jitcore.ir.ops import (
    arrangements,
    assigning,
    attributes,
    calculus,
    comparing,
    complex_math,
    contractions,
    conversion,
    creation,
    elementwise,
    elementwise_functions,
    factorizations,
    grids,
    histograms,
    hosted,
    indexing,
    joining,
    layer_kernels,
    layers,
    linalg,
    mathematics,
    operators,
    overwriting,
    python,
    rearranging,
    reductions,
    searching,
    selecting,
    shaping,
    sliding_windows,
    special,
    statistics,
    ufunc_methods,
    unbuffered,
)
from jitcore.ir.ops.op import Op
from jitcore.ir.ops.special import special_kind
from jitcore.ir.types import type_of_constant

__all__ = [
    "METHODS",
    "REDUCTIONS",
    "SCANS",
    "TABLE",
    "Op",
    "is_cheap",
    "is_elementwise",
    "kind_of",
    "type_of_constant",
]

_ROWS: tuple[Op, ...] = (
    *operators.OPS,
    *python.OPS,
    *mathematics.OPS,
    *complex_math.OPS,
    *attributes.OPS,
    *indexing.OPS,
    *assigning.OPS,
    *elementwise.OPS,
    *elementwise_functions.OPS,
    *special.OPS,
    *ufunc_methods.OPS,
    *reductions.OPS,
    *shaping.OPS,
    *joining.OPS,
    *creation.OPS,
    *grids.OPS,
    *linalg.OPS,
    *arrangements.OPS,
    *contractions.OPS,
    *sliding_windows.OPS,
    *conversion.OPS,
    *overwriting.OPS,
    *unbuffered.OPS,
    *rearranging.OPS,
    *hosted.OPS,
    *factorizations.OPS,
    *comparing.OPS,
    *statistics.OPS,
    *selecting.OPS,
    *calculus.OPS,
    *searching.OPS,
    *histograms.OPS,
    *layers.OPS,
    *layer_kernels.OPS,
)

TABLE: dict[str, Op] = {op.kind: op for op in _ROWS}
"""All ops by kind."""

METHODS: dict[str, tuple[Op, str | None]] = {
    name: (op, parameters) for op in _ROWS for name, parameters in op.methods.items()
}
"""The ndarray methods that are ops, with their parameters after the array."""

_KINDS: dict[Hashable, str] = {function: op.kind for op in _ROWS for function in op.functions}

REDUCTIONS = frozenset(op.kind for op in _ROWS if op.reduces)
SCANS = frozenset(op.kind for op in _ROWS if op.scans)


def is_elementwise(node: Node) -> bool:
    """Whether each element of a node's result comes from the elements at the same place."""
    op = TABLE.get(node.kind)
    return op is not None and op.scalar is not None and bool(node.outputs)


def is_cheap(node: Node) -> bool:
    """Whether an element takes less time to compute than to be written and read again."""
    op = TABLE.get(node.kind)
    return op is not None and op.scalar is not None and op.scalar.cheap


def kind_of(function: Any) -> str | None:
    """The kind of the op that a call of this Python object is, or None.

    Examples
    --------
    >>> import numpy as np
    >>> kind_of(np.tanh), kind_of(len), kind_of(print)
    ('np::tanh', 'prim::len', None)
    """
    try:
        return _KINDS.get(function) or special_kind(function)
    except TypeError:  # not hashable, so not a function of the table
        return None
