"""Unrolling: short loops over whole arrays become straight lines, which groups can take in."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitcore.ir import log
from jitcore.ir.effects import is_array_view
from jitcore.ir.graph import Block, Graph, Node, Value, copy_node
from jitcore.ir.ops import TABLE, is_elementwise
from jitcore.ir.types import BOOL, FLOAT, INT, TensorType, Type

__all__ = ["MAX_UNROLLED", "unroll_array_loops"]

MAX_UNROLLED = 400
"""Nodes that all iterations of a loop may have together: some groups of code in a straight line."""

_LARGEST = 2**31
"""Ints below it have one float of each dtype but float16, whatever the way there."""

_PYTHON_NUMBERS: dict[Type, type] = {INT: int, FLOAT: float, BOOL: bool}


def unroll_array_loops(graph: Graph) -> bool:
    """Unroll loops of few iterations in which every node computes elements of arrays.

    They may read numbers and parts of arrays that the loop does not compute (``c[k]``), compute
    numbers (``k + 1``, which are constants then) and update arrays as a whole (``n += z < 4``).

    Before::

        graph(%x : Float32[n], %y : Float32[n]):
          %0 : int = prim::Constant[value=2]()
          %1 : bool = prim::Constant[value=True]()
          %z : Float32[n] = prim::Loop(%0, %1, %x)
            block0(%i : int, %a : Float32[n]):
              %b : Float32[n] = np::multiply(%a, %a)
              %c : Float32[n] = np::add(%b, %y)
              -> (%1, %c)
          return (%z)

    After::

        graph(%x : Float32[n], %y : Float32[n]):
          %0 : int = prim::Constant[value=2]()
          %1 : bool = prim::Constant[value=True]()
          %b.1 : Float32[n] = np::multiply(%x, %x)
          %c.1 : Float32[n] = np::add(%b.1, %y)
          %b.2 : Float32[n] = np::multiply(%c.1, %c.1)
          %c.2 : Float32[n] = np::add(%b.2, %y)
          return (%c.2)

    As a loop each iteration would read its arrays from memory and write them there.
    """
    changed = False
    for loop in reversed(graph.find_all_nodes("prim::Loop")):
        trips = _trip_count(loop)
        if trips is not None and _is_worth_it(loop.blocks[0], trips):
            _unroll(loop, trips)
            changed = True
    return changed


def _trip_count(loop: Node) -> int | None:
    """How often a loop surely runs, where that is known and at least once."""
    count, start = loop.inputs[:2]
    (block,) = loop.blocks
    if not (_is_true(start) and _is_true(block.returns[0])) or count.constant is None:
        return None
    trips = count.constant.attributes["value"]
    return int(trips) if count.type == INT and trips > 0 else None


def _is_true(value: Value) -> bool:
    return value.type == BOOL and value.constant_value is True


def _is_worth_it(block: Block, trips: int) -> bool:
    """Whether all nodes compute elements, some of them arrays', and there are not too many."""
    computed = [node for node in block.nodes if node.kind != "prim::Constant"]
    if len(computed) * trips > MAX_UNROLLED:
        return False
    if not all(_computes(node, block) for node in computed):
        return False
    return any(_is_array(value) for node in block.nodes for value in node.outputs)


def _computes(node: Node, block: Block) -> bool:
    """Whether a node computes elements or numbers, or stores to an array as a whole."""
    if is_elementwise(node) or _is_number_work(node):
        return True
    if node.kind == "np::store":
        target = node.inputs[0].node
        return target is None or not (is_array_view(target) and target.block is block)
    return _reads_outside(node, block)


def _is_number_work(node: Node) -> bool:
    """Whether a node only computes Python numbers."""
    op = TABLE.get(node.kind)
    is_pure = op is not None and op.pure and node.kind.startswith("prim::") and not node.blocks
    values = [*node.inputs, *node.outputs]
    return is_pure and bool(node.inputs) and all(one.type in _PYTHON_NUMBERS for one in values)


def _reads_outside(node: Node, block: Block) -> bool:
    """Whether a node is a view, or a number in it, of an array from before the loop."""
    base = node
    while base.kind in ("np::view", "np::item"):
        value = base.inputs[0]
        if value.node is None or value.node.block is not block:
            return value not in block.params
        base = value.node
    return False


def _is_array(value: Value) -> bool:
    return isinstance(value.type, TensorType) and bool(value.type.dims)


def _unroll(loop: Node, trips: int) -> None:
    """Put the iterations before a loop, and their last values in its place."""
    log.update("unroll", lambda: f"unroll {loop!r}, {trips} times")
    (block,), outer = loop.blocks, loop.block
    assert outer is not None
    position = outer.nodes.index(loop)
    # Copies are appended, so what follows the loop steps aside.
    following = outer.nodes[position:]
    del outer.nodes[position:]
    carried = list(loop.inputs[2:])
    for number in range(trips):
        mapping = dict(zip(block.params[1:], carried, strict=True))
        if block.params[0].uses:
            mapping[block.params[0]] = outer.constant(number, INT, loop.source)
        for node in block.nodes:
            known = _known_number(node, mapping)
            if known is None:
                copy_node(node, outer, mapping)
            else:
                mapping[node.output] = outer.constant(known, node.output.type, node.source)
        carried = [mapping.get(value, value) for value in block.returns[1:]]
    outer.nodes.extend(following)
    for output, value in zip(loop.outputs, carried, strict=True):
        output.replace_all_uses_with(value)
    loop.destroy()


def _known_number(node: Node, mapping: dict[Value, Value]) -> Any:
    """What a node gives in an iteration that makes its operands known numbers, or None."""
    if node.kind == "prim::Constant" or not node.inputs:
        return None
    values = [mapping.get(one, one).constant_value for one in node.inputs]
    if not all(type(one) in (int, float, bool) and abs(one) < _LARGEST for one in values):
        return None
    if node.kind == "np::cast":
        return _converted(values[0], node.output.type)
    if not _is_number_work(node):
        return None
    try:
        result = TABLE[node.kind].reference(*values, **node.attributes)
    except Exception:  # the program raises it, if it gets here
        return None
    return result if type(result) is _PYTHON_NUMBERS[node.output.type] else None


def _converted(number: Any, type_: Type) -> Any:
    """A Python number as a NumPy scalar of a dtype of floats, None for other dtypes."""
    if not isinstance(type_, TensorType) or not type_.scalar:
        return None
    if type_.dtype not in (np.float32, np.float64):
        return None
    return type_.dtype.type(number)
