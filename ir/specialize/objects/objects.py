"""Objects of users' classes and functions in ``specialize``: those that nobody else knows while
they change, those that are arguments, and those in lists that are arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitcore.ir.graph import Node, Value
from jitcore.ir.specialize.branches import BranchBuilder
from jitcore.ir.specialize.objects.object_lists import apply_to_elements
from jitcore.ir.specialize.objects.records import apply_to_record
from jitcore.ir.types import ObjectListType, RecordType, Type

__all__ = ["OBJECT_TYPES", "apply_to_object", "object_inputs"]

OBJECT_TYPES = (RecordType, ObjectListType)
"""The types of inputs that only exist where compiled code has objects."""


def object_inputs(types: Sequence[Type]) -> dict[int, Any]:
    """The numbers of inputs that are, or have in them, objects; the classes of such as are one."""
    return {
        number: one.class_ if isinstance(one, RecordType) else None
        for number, one in enumerate(types)
        if isinstance(one, OBJECT_TYPES)
    }


def apply_to_object(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value | None:
    """The result of a node that has to do with an object; None of all others."""
    found = apply_to_elements(worker, node, inputs)
    return apply_to_record(worker, node, inputs) if found is None else found
