"""Means that a program has taken before a variance of the same elements, which starts from them."""

from __future__ import annotations

from jitcore.codegen.lowering.operands import ArrayRef
from jitcore.codegen.lowering.state import Lowering
from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.graph import Node
from jitcore.ir.types import TensorType

__all__ = ["known_means"]


def known_means(lowering: Lowering, variance: Node) -> ArrayRef | None:
    """The means along the axes of a variance, where they lie in memory in its dtype.

    They have to be there still, and nothing may have written to them or to the elements.
    """
    for use in variance.inputs[0].uses:
        mean = use.user
        if not isinstance(mean, Node) or mean.kind != "np::mean":
            continue
        if _is_same(mean, variance) and _is_read_later(mean, variance):
            found = lowering.operand(mean.output)
            if isinstance(found, ArrayRef) and not _is_written(mean):
                return found
    return None


def _is_same(mean: Node, variance: Node) -> bool:
    """Whether a mean is taken before the variance, of the same elements and in its dtype."""
    block = variance.block
    if mean.block is not block or mean.attributes["axis"] != variance.attributes["axis"]:
        return False
    assert block is not None
    types = (mean.inputs[0].type, mean.output.type, variance.output.type)
    dtypes = {one.dtype for one in types if isinstance(one, TensorType)}
    return len(dtypes) == 1 and block.nodes.index(mean) < block.nodes.index(variance)


def _is_written(mean: Node) -> bool:
    """Whether anything writes to the means, or to the elements that they are of."""
    analysis = AliasAnalysis(mean.graph)
    return any(map(analysis.has_writers, (mean.output, mean.inputs[0])))


def _is_read_later(mean: Node, variance: Node) -> bool:
    """Whether the means are needed after the variance, so that their memory is still theirs."""
    block = variance.block
    assert block is not None
    if mean.output in block.returns:
        return True
    later = block.nodes[block.nodes.index(variance) :]
    return any(use.user in later for use in mean.output.uses)
