"""``strict_fusion``: an error where something was not fused."""

from __future__ import annotations

import warnings
from types import TracebackType
from typing import TYPE_CHECKING

from jitcore.errors import Error
from jitcore.ir.graph import Graph, Node
from jitcore.ir.ops import TABLE
from jitcore.ir.types import is_ndarray

if TYPE_CHECKING:
    from jitcore.fusers.groups import Decision

__all__ = ["check_strict_fusion", "strict_fusion"]


class strict_fusion:
    """Say that everything inside a ``with`` block of a scripted function must be fused.

    The check is made when the function is compiled.  Outside of a scripted function the block does
    nothing but warn.

    Raises
    ------
    Error
        At the call that compiles: names each operator that was not fused, and the reason.

    Examples
    --------
    >>> import numpy as np, jitcore
    >>> @jitcore.script
    ... def f(x, y):
    ...     with jitcore.strict_fusion():
    ...         return x + y + x
    >>> f(np.ones(2), np.ones(2))
    array([3., 3.])
    """

    __jitcore_scope__ = "strict_fusion"

    def __enter__(self) -> None:
        warnings.warn("strict_fusion only works in scripted functions", stacklevel=2)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None


def check_strict_fusion(graph: Graph, decisions: list[Decision]) -> None:
    """Raise if an operator inside a ``strict_fusion`` block is in no fusion group.

    Parameters
    ----------
    graph : Graph
        After fusion.
    decisions : list of Decision
        What the fuser said of each node.
    """
    unfused = [
        node
        for node in graph.nodes()
        if node.attributes.get("scope") == "strict_fusion" and _is_operator(node)
    ]
    if not unfused:
        return
    reasons = {(one.node, one.source): one.reason for one in decisions}
    lines = []
    for node in unfused:
        where = str(node.source or "")
        reason = node.host_reason or reasons.get((node.kind, where)) or _reason_in_python(node)
        lines.append(f"  {node.kind} at {where}: {reason}")
    raise Error("strict_fusion: found unfused operators:\n" + "\n".join(lines))


def _reason_in_python(node: Node) -> str:
    """Why an operation of a program that Python runs is in none of its native regions."""
    op = TABLE.get(node.kind)
    if op is None or op.hosted:
        return "NumPy's own function computes it"
    if op.scalar is not None:
        return "Python runs what is around it, and it is too little for a region of its own"
    return "it is not an elementwise operation"


def _is_operator(node: Node) -> bool:
    if node.host_reason is not None:
        return True
    op = TABLE.get(node.kind)
    if op is None or op.view or not node.kind.startswith("np::"):
        return False
    return any(is_ndarray(value.type) for value in [*node.inputs, *node.outputs])
