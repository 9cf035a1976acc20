"""Iterating over containers of layers: the elements are known, so that loops over them unroll."""

from __future__ import annotations

import ast
import builtins
from typing import Any

from jitcore.frontend.constants import is_layer
from jitcore.frontend.function_values import FunctionValues
from jitcore.frontend.layers import is_mapping
from jitcore.frontend.names import Static
from jitcore.ir.graph import Value

__all__ = ["Item", "StaticItems"]

Item = Any
"""What one iteration takes: a ``Static``, a number or a name, or a tuple of such."""


def _is_names(value: object) -> bool:
    """Whether a layer's attribute is a tuple of strings: names of other attributes, perhaps."""
    return type(value) is tuple and all(type(one) is str for one in value)


class StaticItems(FunctionValues):
    """Finds the elements of what a loop goes over: layers, or names that a layer has."""

    def static_items(self, node: ast.expr) -> list[Item] | None:
        """The elements of an iterable where they are layers; None of all others."""
        if isinstance(node, ast.Call):
            return self._items_of_call(node)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            return self._items_of_slice(node.value, node.slice)
        static = self.static(node)
        if static is None:
            return None
        if static.base is not None and is_layer(static.base.value) and _is_names(static.value):
            self.record(static)
            return list(static.value)
        found = self.elements(static)
        if found is None:
            return None
        return [name if is_mapping(static) else element for name, element in found]

    def is_element_name(self, node: ast.Compare) -> bool | None:
        """Whether a name is, or is not, one in a container of layers; None of all other tests."""
        operator = node.ops[0]
        if len(node.ops) > 1 or not isinstance(operator, ast.In | ast.NotIn):
            return None
        container = self.static(node.comparators[0])
        found = None if container is None else self.elements(container)
        known, name = self.known(node.left)
        if container is None or found is None or not (known and is_mapping(container)):
            return None
        return any(one == name for one, _ in found) == isinstance(operator, ast.In)

    def _items_of_slice(self, node: ast.expr, index: ast.Slice) -> list[Item] | None:
        bounds = [index.lower, index.upper, index.step]
        known = [(True, None) if one is None else self.known(one) for one in bounds]
        items = self.static_items(node)
        if items is None or not all(surely for surely, _ in known):
            return None
        return items[slice(*(value for _, value in known))]

    def _items_of_call(self, node: ast.Call) -> list[Item] | None:
        if isinstance(node.func, ast.Attribute) and not node.args and not node.keywords:
            base = self.static(node.func.value)
            found = None if base is None else self.elements(base)
            if base is None or found is None or not is_mapping(base):
                return None
            parts: dict[str, list[Item]] = {
                "keys": [name for name, _ in found],
                "values": [element for _, element in found],
                "items": [*found],
            }
            return parts.get(node.func.attr)
        if not isinstance(node.func, ast.Name) or node.func.id in self.locals:
            return None
        return self._items_of_builtin(node, self.resolver.name(node.func.id).value)

    def _items_of_builtin(self, node: ast.Call, function: Any) -> list[Item] | None:
        if node.keywords or not node.args:
            return None
        if function is builtins.enumerate and len(node.args) <= 2:
            first = self.static_items(node.args[0])
            known, start = self.known(node.args[1]) if len(node.args) == 2 else (True, 0)
            if first is None or not known or not isinstance(start, int):
                return None
            return list(enumerate(first, start))
        if function is builtins.zip:
            parts = [self.static_items(one) for one in node.args]
            if any(part is None for part in parts):
                return None
            return list(zip(*(part for part in parts if part is not None), strict=False))
        if function is builtins.reversed and len(node.args) == 1:
            last = self.static_items(node.args[0])
            return None if last is None else last[::-1]
        return None

    def item_value(self, item: Item) -> Value:
        """The value of one element."""
        if isinstance(item, Static):
            return self.static_value(item)
        if isinstance(item, tuple):
            return self.value("prim::TupleConstruct", *map(self.item_value, item))
        return self.constant(item)

    def assign_item(self, target: ast.expr, item: Item) -> None:
        """Assign one element to the target of a loop, part by part where it is a tuple."""
        parts = target.elts if isinstance(target, ast.Tuple | ast.List) else []
        starred = any(isinstance(part, ast.Starred) for part in parts)
        if isinstance(item, tuple) and len(parts) == len(item) and not starred:
            for part, one in zip(parts, item, strict=True):
                self.assign_item(part, one)
        else:
            self.assign(target, self.item_value(item))

    def assign(self, target: ast.expr, value: Value) -> None:
        """Assign to any target; statements define it."""
        raise NotImplementedError
