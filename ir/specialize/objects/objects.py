"""Objects of users' classes and functions in ``specialize``: those that nobody else knows while
they change, those that are arguments, and those in lists that are arguments."""

from __future__ import annotations

from jitcore.ir.graph import Node, Value
from jitcore.ir.specialize.branches import BranchBuilder
from jitcore.ir.specialize.objects.object_lists import apply_to_elements
from jitcore.ir.specialize.objects.records import apply_to_record

__all__ = ["apply_to_object"]


def apply_to_object(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value | None:
    """The result of a node that has to do with an object; None of all others."""
    found = apply_to_elements(worker, node, inputs)
    return apply_to_record(worker, node, inputs) if found is None else found
