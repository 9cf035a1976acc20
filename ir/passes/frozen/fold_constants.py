"""What depends on nothing but constants is a constant."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitcore.ir import log
from jitcore.ir.effects import node_effects
from jitcore.ir.graph import Graph, Node
from jitcore.ir.interpreter import evaluate
from jitcore.ir.names import base_name
from jitcore.ir.ops import TABLE
from jitcore.ir.passes.frozen.arrays import (
    add_array,
    array_of,
    constant_of,
    is_constant,
    replace_by_constant,
)
from jitcore.ir.passes.frozen.ranks import METADATA
from jitcore.ir.passes.frozen.readers import is_only_read, method_of

__all__ = ["fold_constants"]

MAX_GROWTH = 1 << 20
"""How many bytes an array may be larger than all that it is computed of."""

_VIEWS = ("T", "mT", "real", "imag")


def fold_constants(graph: Graph) -> bool:
    """Compute what has only constant operands, arrays among them.

    Before, with constant weights ``%w``::

        graph(%x : Float32[n, 4], %w : Float32[4, 4]):
          %k : float = prim::Constant[value=0.5]()
          %0 : Any = prim::mul(%w, %k)
          %1 : Any = prim::GetAttr[name="T"](%0)
          %2 : Any = prim::matmul(%x, %1)
          return (%2)

    After::

        graph(%x : Float32[n, 4], %w : Float32[4, 4], %3 : Float32[4, 4], %4 : Float32[4, 4]):
          %k : float = prim::Constant[value=0.5]()
          %2 : Any = prim::matmul(%x, %4)
          return (%2)

    An array stays computed at each call where the caller might see or change it, or where it is
    much larger than its operands.
    """
    changed = False
    for node in list(graph.nodes()):
        if len(node.outputs) == 1 and _is_foldable(node):
            changed = _fold(node) or changed
    return changed


def _is_foldable(node: Node) -> bool:
    if node.blocks or not node.inputs or not all(map(is_constant, node.inputs)):
        return False
    if any(hasattr(type(constant_of(one)), "__jitcore_module__") for one in node.inputs):
        return False  # its operators are methods, which may use attributes that change
    if node.kind == "prim::GetAttr":
        return array_of(node.inputs[0]) is not None and node.attributes["name"] in (
            *METADATA,
            *_VIEWS,
        )
    if node.kind == "prim::CallMethod":
        return method_of(node) is not None
    row = TABLE.get(node.kind)
    if row is None or not row.pure or row.writes or node.kind in _KEPT:
        return False
    if node.kind == "prim::TupleConstruct":
        return "named" not in node.attributes
    effects = node_effects(node)
    return not (effects.writes or effects.wildcard or effects.observable)


_KEPT = frozenset({"prim::ListConstruct", "prim::slice", "prim::range"})
"""What makes objects that a graph holds no constants of."""


def _fold(node: Node) -> bool:
    operands = [constant_of(value) for value in node.inputs]
    if node.kind == "prim::TupleConstruct" and not _is_plain(tuple(operands)):
        return False
    try:
        with np.errstate(all="ignore"):
            result = evaluate(node, operands)
    except Exception:  # the program raises it, if it gets here
        return False
    if isinstance(result, np.ndarray):
        return _fold_array(node, result, operands)
    if not _is_plain(result):
        return False
    log.update("fold_constants", lambda: f"{node!r} is {result!r}")
    replace_by_constant(node, result)
    return True


def _fold_array(node: Node, result: Any, operands: list[Any]) -> bool:
    held = sum(one.nbytes for one in operands if isinstance(one, np.ndarray))
    if result.nbytes > held + MAX_GROWTH or result.dtype.hasobject or not is_only_read(node.output):
        return False
    log.update("fold_constants", lambda: f"{node!r} is an array of {result.shape}")
    value = add_array(node.graph, result, base_name(node.output.name))
    node.output.replace_all_uses_with(value)
    node.destroy()
    return True


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, int | float | complex | str | np.generic | np.dtype)
