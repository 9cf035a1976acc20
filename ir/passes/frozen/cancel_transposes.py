"""Transposes and reshapes that follow each other are one, or none."""

from __future__ import annotations

import math

from jitcore.ir import log
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.passes.frozen.ranks import is_array, rank_of
from jitcore.ir.passes.frozen.readers import is_only_read
from jitcore.ir.types import INT

__all__ = ["cancel_transposes"]


def cancel_transposes(graph: Graph) -> bool:
    """Read through a transpose that another one undoes, and join those that do not cancel.

    Before::

        graph(%x : Float32[n, 4, 6]):
          %0 : int = prim::Constant[value=0]()
          %1 : int = prim::Constant[value=1]()
          %2 : int = prim::Constant[value=2]()
          %a : Any = prim::CallMethod[name="transpose"](%x, %0, %2, %1)
          %b : Any = prim::CallMethod[name="transpose"](%a, %0, %2, %1)
          %c : Any = prim::neg(%b)
          return (%c)

    After::

        graph(%x : Float32[n, 4, 6]):
          %0 : int = prim::Constant[value=0]()
          %1 : int = prim::Constant[value=1]()
          %2 : int = prim::Constant[value=2]()
          %c : Any = prim::neg(%x)
          return (%c)

    Likewise ``x.T.T``, ``x.swapaxes(1, 2).swapaxes(1, 2)``, and a reshape of a reshape, where all
    extents are constants.  Not where the result leaves the graph, whose object would be another.
    """
    changed = False
    for node in list(graph.nodes()):
        if node.kind in ("prim::GetAttr", "prim::CallMethod") and node.block is not None:
            changed = _simplify(node) or changed
    return changed


def _simplify(node: Node) -> bool:
    inner = node.inputs[0].node
    if inner is None or not inner.inputs or not is_array(inner.inputs[0]):
        return False
    if not is_only_read(node.output):
        return False
    if _cancels(inner, node):
        log.update("cancel_transposes", lambda: f"{node!r} undoes {inner!r}")
        node.output.replace_all_uses_with(inner.inputs[0])
        node.destroy()
    elif not (_join_transposes(inner, node) or _join_reshapes(inner, node)):
        return False
    if not inner.output.uses and _never_raises(inner):
        inner.destroy()
    return True


def _never_raises(node: Node) -> bool:
    """Whether a transpose surely fits the array."""
    if _is_attribute(node, "T"):
        return True
    if _is_method(node, "reshape"):
        return False
    rank, axes = rank_of(node.inputs[0]), _numbers(node) or ()
    if _is_method(node, "swapaxes"):
        return rank is not None and all(-rank <= axis < rank for axis in axes)
    return rank == len(axes)


def _cancels(inner: Node, outer: Node) -> bool:
    if _is_attribute(inner, "T") and _is_attribute(outer, "T"):
        return True
    if _is_method(inner, "swapaxes") and _is_method(outer, "swapaxes"):
        first, second = _numbers(inner), _numbers(outer)
        return first is not None and second is not None and set(first) == set(second)
    first, second = _axes(inner), _axes(outer)
    if first is None or second is None or len(first) != len(second):
        return False
    return all(first[axis] == place for place, axis in enumerate(second))


def _join_transposes(inner: Node, outer: Node) -> bool:
    """``x.transpose(p).transpose(q)`` as one transpose."""
    first, second = _axes(inner), _axes(outer)
    if first is None or second is None or len(first) != len(second):
        return False
    joined = [first[axis] for axis in second]
    return _call_instead(outer, "transpose", inner.inputs[0], joined)


def _join_reshapes(inner: Node, outer: Node) -> bool:
    """``x.reshape(p).reshape(q)`` as one reshape of as many elements."""
    if not (_is_method(inner, "reshape") and _is_method(outer, "reshape")):
        return False
    first, second = _numbers(inner), _numbers(outer)
    if first is None or second is None or min((*first, *second), default=-1) < 0:
        return False
    if math.prod(first) != math.prod(second):
        return False
    return _call_instead(outer, "reshape", inner.inputs[0], list(second))


def _call_instead(node: Node, method: str, value: Value, numbers: list[int]) -> bool:
    constants = [
        node.insert_before("prim::Constant", (), {"value": number}, outputs=[INT]).output
        for number in numbers
    ]
    inputs, attributes = [value, *constants], {"name": method}
    made = node.insert_before("prim::CallMethod", inputs, attributes, outputs=[node.output.type])
    log.update("cancel_transposes", lambda: f"{made!r} in the place of {node!r}")
    node.output.replace_all_uses_with(made.output)
    node.destroy()
    return True


def _is_attribute(node: Node, name: str) -> bool:
    return node.kind == "prim::GetAttr" and node.attributes.get("name") == name


def _is_method(node: Node, name: str) -> bool:
    plain = (
        node.kind == "prim::CallMethod" and not node.keywords and "starred" not in (node.attributes)
    )
    return plain and node.attributes["name"] == name


def _axes(node: Node) -> tuple[int, ...] | None:
    """The permutation that a transpose makes, where it is a constant."""
    axes = _numbers(node) if _is_method(node, "transpose") else None
    return axes if axes is not None and sorted(axes) == list(range(len(axes))) else None


def _numbers(node: Node) -> tuple[int, ...] | None:
    """The arguments of a method, ints one by one or in one tuple, where they are constants."""
    values = node.inputs[1:]
    made = values[0].node if len(values) == 1 else None
    if made is not None and made.kind == "prim::TupleConstruct":
        values = made.inputs
    held = [one.constant_value for one in values]
    if len(held) == 1 and isinstance(held[0], tuple):
        held = list(held[0])
    numbers = tuple(one for one in held if type(one) is int)
    return numbers if len(numbers) == len(held) and numbers else None
