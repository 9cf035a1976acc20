"""Dicts whose items a graph says, and which nobody changes: their items cost nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitcore.ir.graph import Node, Value
from jitcore.ir.specialize.typed_builder import TypedBuilder, is_known_dict

__all__ = ["apply_to_known_dict"]


def apply_to_known_dict(worker: TypedBuilder, node: Node, inputs: Sequence[Value]) -> Value | None:
    """What is done with a known dict, by its items; None of all else.

    Before::

        %d = prim::DictConstruct[known=True]("w", %w, "b", %b)
        %1 = prim::getitem(%d, "b")

    After, ``%1`` is ``%b``.
    """
    if not inputs:
        return None
    if node.kind in ("prim::in_", "prim::notin"):
        items = _items(inputs[1])
        found = items is not None and inputs[0].constant is not None
        if items is None or not found:
            return None
        return worker.constant((inputs[0].constant_value in items) == (node.kind == "prim::in_"))
    items = _items(inputs[0])
    if items is None:
        return None
    if node.kind == "prim::len":
        return worker.constant(len(items))
    if node.kind == "prim::getitem" and inputs[1].constant is not None:
        return items.get(inputs[1].constant_value)
    if node.kind == "prim::CallMethod" and len(inputs) == 1:
        return _of_method(worker, node.attributes["name"], items)
    return None


def _of_method(worker: TypedBuilder, name: str, items: dict[Any, Value]) -> Value | None:
    if name == "keys":
        return worker.make_tuple([worker.constant(key) for key in items])
    if name == "values":
        return worker.make_tuple(list(items.values()))
    if name == "items":
        pairs = [[worker.constant(key), value] for key, value in items.items()]
        return worker.make_tuple([worker.make_tuple(pair) for pair in pairs])
    return None


def _items(value: Value) -> dict[Any, Value] | None:
    node = value.node
    if node is None or not is_known_dict(value):
        return None
    keys = [one.constant_value for one in node.inputs[::2]]
    return dict(zip(keys, node.inputs[1::2], strict=True))
