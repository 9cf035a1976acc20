"""The rules for nodes of layers, which have kernels of their own."""

from __future__ import annotations

from jitcore.codegen.lowering import attention, interleaving, layers, onednn, recurrence
from jitcore.codegen.lowering.state import Rule

__all__ = ["RULES"]

RULES: dict[str, Rule] = {
    **layers.RULES,
    **interleaving.RULES,
    **attention.RULES,
    **onednn.RULES,
    **recurrence.RULES,
}
