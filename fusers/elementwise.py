"""Which nodes the elementwise fuser takes, and why it refuses the others.

A group computes arrays of one shape, element by element, and may end in reductions over that shape
and in stores to memory of that shape.  Every refusal is a named predicate, so that ``explain`` and
``strict_fusion`` can say the reason.
"""

from __future__ import annotations

from collections.abc import Callable

from jitcore.ir.bfloat16 import is_stored
from jitcore.ir.graph import Node, Value
from jitcore.ir.ops import REDUCTIONS, is_elementwise
from jitcore.ir.reference import IndexOperand, IndexSlice, parse_index
from jitcore.ir.running import is_running
from jitcore.ir.types import Dim, TensorType

__all__ = [
    "PRODUCERS",
    "Refusal",
    "counts",
    "goes_over_memory",
    "is_lookup",
    "is_on_scalars",
    "iteration_dims",
    "refusal",
    "takes_rows_of",
]

PRODUCERS = frozenset({"np::full", "np::iota"})
"""Ops that cost nothing to compute again at each element."""

_NOT_COUNTED = frozenset({"np::cast", "np::full", "np::iota", "np::store", "np::view"})
_ON_SCALARS = "it works on single numbers"

_COMPUTED_LOOKUPS = frozenset({"np::rolled", "np::narrow_product"})
"""They read at places that are known without looking."""

_WHOLE = IndexSlice()
"""All of an axis."""

Refusal = tuple[str, Callable[[Node], bool]]


def is_lookup(node: Node) -> bool:
    """Whether a node reads an array at places that are looked up: of its elements, or of rows."""
    if node.kind in _COMPUTED_LOOKUPS:
        return True
    if node.kind != "np::gather":
        return False
    base, *operands = node.inputs
    parts = parse_index(node.attributes["index"])
    base_rank = len(base.type.dims or ()) if isinstance(base.type, TensorType) else None
    are_arrays = all(
        isinstance(one.type, TensorType) and not one.type.scalar and one.type.dims
        for one in operands
    )
    is_plain = all(isinstance(part, IndexOperand) or part == _WHOLE for part in parts)
    return is_plain and len(parts) == base_rank and are_arrays


def takes_rows_of(lookup: Node) -> bool:
    """Whether what is looked up are rows, whose elements lie side by side."""
    return lookup.kind == "np::gather" and parse_index(lookup.attributes["index"])[-1:] == (_WHOLE,)


def iteration_dims(node: Node) -> tuple[Dim, ...] | None:
    """The shape a group with this node iterates over."""
    if node.kind in REDUCTIONS or node.kind == "np::store":
        type_ = node.inputs[0].type
    elif node.outputs:
        type_ = node.outputs[0].type
    else:
        return None
    return type_.dims if isinstance(type_, TensorType) else None


def counts(node: Node) -> bool:
    """Whether the node is worth a kernel: casts, fills, views and stores alone are not."""
    return node.kind not in _NOT_COUNTED


def goes_over_memory(node: Node) -> bool:
    """Whether the node by itself would read or write arrays: all but views and work on scalars."""
    return node.kind != "np::view" and bool(iteration_dims(node))


def is_on_scalars(node: Node) -> bool:
    """Whether the node works on NumPy scalars, such as full reductions give."""
    return is_elementwise(node) and iteration_dims(node) == () and refusal(node) == _ON_SCALARS


def _is_incomplete(node: Node) -> bool:
    values: list[Value] = [*node.inputs, *node.outputs]
    return any(isinstance(v.type, TensorType) and not v.type.is_complete for v in values)


def _has_foreign_dtype(node: Node) -> bool:
    for value in [*node.inputs, *node.outputs]:
        type_ = value.type
        if isinstance(type_, TensorType) and type_.dtype is not None:
            if not is_stored(type_.dtype):
                return True
    return False


def _is_scalar(node: Node) -> bool:
    dims = iteration_dims(node)
    return dims is not None and len(dims) == 0


def _is_other_kind(node: Node) -> bool:
    return not (
        is_elementwise(node)
        or is_lookup(node)
        or node.kind in REDUCTIONS
        or node.kind in PRODUCERS
        or node.kind == "np::store"
        or is_running(node)
    )


REFUSALS: tuple[Refusal, ...] = (
    ("its types are known only when the program runs", lambda node: node.host_reason is not None),
    ("it is no elementwise operation, reduction, scan or store", _is_other_kind),
    ("dtype or rank of an operand is not known", _is_incomplete),
    ("kernels do not compute in this dtype", _has_foreign_dtype),
    (_ON_SCALARS, _is_scalar),
)


def refusal(node: Node) -> str | None:
    """The first reason this node cannot be in a group, or None."""
    for reason, predicate in REFUSALS:
        if predicate(node):
            return reason
    return None
