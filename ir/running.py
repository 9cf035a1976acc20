"""Which nodes one loop may compute, element after element, together with running sums."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jitcore.ir.graph import Node
from jitcore.ir.ops import SCANS
from jitcore.ir.shapes import dims_of, known_dims
from jitcore.ir.types import TensorType

__all__ = ["is_running", "keep_step"]

_STEPPING = """absolute add cast divide equal full greater greater_equal less less_equal logical_and
    logical_not logical_or maximum minimum multiply negative not_equal subtract where"""
_STEPS = frozenset(f"np::{name}" for name in _STEPPING.split())
"""What a processor does beside the scan, whose elements wait four cycles for each other."""

_REDUCTIONS = frozenset({"np::sum", "np::mean", "np::min", "np::max"})
"""Those that take each element once."""

_MOST_STEPS = 12
"""More take longer than by whole vectors, in a loop of their own."""


def is_running(node: Node) -> bool:
    """Whether a node is a scan along the last axis, of numbers that vectors hold."""
    if node.kind not in SCANS:
        return False
    type_ = node.output.type
    if not isinstance(type_, TensorType) or type_.dtype is None or type_.dims is None:
        return False
    is_plain = type_.dtype.kind in "iuf" and type_.dtype != np.float16
    return is_plain and node.attributes["axis"] == len(type_.dims) - 1


def keep_step(nodes: Sequence[Node]) -> bool:
    """Whether all nodes compute one element each while a scan takes its next one."""
    found = [node for node in nodes if node.kind != "prim::Constant"]
    made = {value for node in found if node.kind in _REDUCTIONS for value in node.outputs}
    walked = (node.inputs[0] if node.kind in _REDUCTIONS else node.output for node in found)
    return (
        len(found) <= _MOST_STEPS
        and all(map(_is_step, found))
        and len(set(map(known_dims, walked))) == 1
        and not any(value in made for node in found for value in node.inputs)
    )


def _is_step(node: Node) -> bool:
    if node.kind in _REDUCTIONS:
        rank = len(dims_of(node.inputs[0]))
        return tuple(node.attributes["axis"]) == (rank - 1,)
    return node.kind in _STEPS or is_running(node)
