"""The rank that values surely have, where no dtype or extent is known."""

from __future__ import annotations

from jitcore.ir.graph import Node, Value
from jitcore.ir.ops.layer_kernels import LINEARS
from jitcore.ir.passes.frozen.arrays import array_of, items_of
from jitcore.ir.types import TensorType

__all__ = [
    "METADATA",
    "is_array",
    "is_in_place",
    "is_rearranging",
    "keeps_rank",
    "origin_of_rank",
    "rank_of",
    "takes_weights",
]

METADATA = ("ndim", "shape", "dtype", "size")
"""Attributes that say nothing of what an array holds."""

_KEEP_RANK = frozenset(
    f"nn::{name}"
    for name in (
        *("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d"),
        *("conv_transpose3d", "batch_norm", "layer_norm", "avg_pool1d", "avg_pool2d"),
        *("avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"),
        *("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout"),
        *("feature_alpha_dropout", "relu", "gelu", "interpolate", "pad", "grid_sample"),
    )
)
_POOLING = tuple(f"nn::{name}pool{k}d" for name in ("max_", "adaptive_max_") for k in (1, 2, 3))
_AUGMENTED = frozenset(f"prim::i{name}" for name in ("add", "sub", "mul", "truediv"))
_BINARY = frozenset(
    f"prim::{name}" for name in ("add", "sub", "mul", "truediv", "iadd", "isub", "imul", "itruediv")
) | frozenset(f"np::{name}" for name in ("add", "subtract", "multiply", "divide", "true_divide"))


def rank_of(value: Value, but: Node | None = None) -> int | None:
    """How many axes an array surely has; None where that is not known.

    With ``but`` no check is taken for granted that the rank which this node asks for goes into.
    """
    node = value.node
    if isinstance(value.type, TensorType) and value.type.rank is not None:
        return value.type.rank
    array = array_of(value)
    if array is not None:
        return array.ndim
    if node is None:
        return None
    checked = _checked_rank(value) if but is None else None
    if checked is not None:
        return checked
    return _rank_of_result(node, but)


def origin_of_rank(value: Value) -> Value:
    """What a value has its rank from, through functions that keep it."""
    while value.node is not None and keeps_rank(value.node):
        value = value.node.inputs[0]
    return value


def keeps_rank(node: Node) -> bool:
    """Whether a function of layers gives an array of the rank and the dtype of the one it gets."""
    return node.kind in _KEEP_RANK or _is_pooling(node)


def takes_weights(node: Node) -> bool:
    """Whether a function of layers only takes arrays of the dtype that its weights have."""
    return node.kind in LINEARS or node.kind.startswith("nn::conv")


def is_array(value: Value) -> bool:
    """Whether a value is surely an array, of whatever rank, rather than some other object."""
    if isinstance(value.type, TensorType) and value.type.dtype is not None:
        return True
    node = value.node
    if node is None:
        return array_of(value) is not None
    if node.kind in _BINARY or node.kind == "prim::matmul":
        return any(map(is_array, node.inputs))
    if is_rearranging(node):
        return is_array(node.inputs[0])
    return keeps_rank(node) or node.kind in LINEARS


def is_in_place(node: Node) -> bool:
    """Whether this is an augmented assignment to what surely is an array."""
    return node.kind in _AUGMENTED and is_array(node.inputs[0])


def _rank_of_result(node: Node, but: Node | None) -> int | None:
    if keeps_rank(node):
        return rank_of(node.inputs[0], but)
    if node.kind in LINEARS:
        weight = array_of(node.inputs[1])
        return rank_of(node.inputs[0], but) if weight is not None and weight.ndim == 2 else None
    if is_rearranging(node):
        return _rank_of_rearranged(node, but)
    if node.kind in _BINARY:
        ranks = [0 if _is_number(one) else rank_of(one, but) for one in node.inputs]
        known = [rank for rank in ranks if rank is not None]
        return max(known) if len(known) == len(ranks) else None
    return None


def _rank_of_rearranged(node: Node, but: Node | None) -> int | None:
    name = node.attributes["name"]
    if name == "ravel":
        return 1
    if name != "reshape":
        return rank_of(node.inputs[0], but)
    arguments = node.inputs[1:]
    if node.keywords or "starred" in node.attributes:
        return None
    if len(arguments) > 1:
        return len(arguments)
    held = arguments[0].constant_value
    made = arguments[0].node
    if made is not None and made.kind == "prim::TupleConstruct":
        return len(made.inputs)
    return len(held) if isinstance(held, tuple) else None


def is_rearranging(node: Node) -> bool:
    """Whether this is an attribute or a method that gives another array of an array."""
    name = node.attributes.get("name")
    if node.kind == "prim::GetAttr":
        return name == "T"
    return node.kind == "prim::CallMethod" and name in _REARRANGING


_REARRANGING = ("astype", "copy", "ravel", "reshape", "swapaxes", "transpose")


def _is_pooling(node: Node) -> bool:
    """Whether this is a maximum that gives no indices as well."""
    if node.kind not in _POOLING:
        return False
    return node.inputs[-1].constant_value is False


def _is_number(value: Value) -> bool:
    return isinstance(value.constant_value, int | float)


def _checked_rank(value: Value) -> int | None:
    """The rank that an array has because all others have raised an exception before.

    This is what ``if x.ndim != 4: raise`` says to all that comes after in the same block.
    """
    for use in value.uses:
        asked = use.user
        if not isinstance(asked, Node) or asked.attributes.get("name") != "ndim":
            continue
        for compared in asked.output.uses:
            rank = _required(compared.user)
            if rank is not None and asked.block is (value.node.block if value.node else None):
                return rank
    return None


def _required(node: object) -> int | None:
    """The rank that a comparison asks for, where anything else raises."""
    if not isinstance(node, Node) or node.kind not in ("prim::ne", "prim::notin"):
        return None
    held = node.inputs[1].constant_value
    if node.kind == "prim::notin":
        items = items_of(node.inputs[1])
        held = items[0] if items is not None and len(items) == 1 else None
    tests = [use.user for use in node.output.uses if isinstance(use.user, Node)]
    tests = [
        inner.user
        for test in tests
        for inner in (test.output.uses if test.kind == "prim::bool" else [])
        if isinstance(inner.user, Node)
    ] or tests
    raises = any(
        test.kind == "prim::If" and test.block is node.block and test.blocks[0].raises
        for test in tests
    )
    return held if raises and isinstance(held, int) else None
