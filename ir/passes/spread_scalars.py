"""Operands that are a number at every place: the number itself, as broadcasting has it anyway."""

from __future__ import annotations

from dataclasses import replace

from jitcore.ir import log
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.ops import is_elementwise
from jitcore.ir.shapes import dims_of
from jitcore.ir.types import TensorType, is_scalar_tensor

__all__ = ["use_spread_scalars"]


def use_spread_scalars(graph: Graph) -> bool:
    """Compute with NumPy scalars where they were broadcast before.

    Before::

        graph(%x : Float64[n], %s : Float64, %t : Float64, %k : int):
          %0 : Float64[n] = np::broadcast_to(%s, %k)
          %1 : Float64[n] = np::multiply(%0, %t)
          %2 : Float64[n] = np::add(%1, %x)
          return (%2)

    After::

        graph(%x : Float64[n], %s : Float64, %t : Float64, %k : int):
          %3 : Float64 = np::multiply(%s, %t)
          %2 : Float64[n] = np::add(%3, %x)
          return (%2)

    What is differentiated by a sum gets such operands. As arrays they would have to be in memory,
    of which a device's host would have to ask a kernel of one thread.
    """
    changed = False
    for node in list(graph.nodes()):
        if not (node.kind.startswith("np::") and is_elementwise(node)):
            continue
        spread = {n: node.inputs[n] for n, one in enumerate(node.inputs) if _is_spread(one)}
        if not spread or not isinstance(node.output.type, TensorType):
            continue
        if _is_formed_by_others(node, spread):
            for number, one in spread.items():
                node.set_input(number, _source(one))
        elif _are_scalars(node, spread):
            _compute_before(node, next(iter(spread.values())))
        else:
            continue
        changed = True
        for one in dict.fromkeys(spread.values()):
            if not one.uses and one.node is not None:
                one.node.destroy()
    if changed:
        log.update("spread_scalars", lambda: "computed with numbers that were broadcast")
    return changed


def _is_spread(value: Value) -> bool:
    """Whether a value is a NumPy scalar that was broadcast."""
    node = value.node
    return (
        node is not None
        and node.kind == "np::broadcast_to"
        and is_scalar_tensor(node.inputs[0].type)
    )


def _source(spread: Value) -> Value:
    assert spread.node is not None
    return spread.node.inputs[0]


def _is_formed_by_others(node: Node, spread: dict[int, Value]) -> bool:
    """Whether an operand that is an array has the result's extents, all of which are known."""
    dims = dims_of(node.output)
    others = [one for number, one in enumerate(node.inputs) if number not in spread]
    return None not in dims and any(dims_of(one) == dims for one in others)


def _are_scalars(node: Node, spread: dict[int, Value]) -> bool:
    """Whether all operands are scalars, and what was broadcast has the result's extents."""
    dims = dims_of(node.output)
    if None in dims or any(dims_of(one) != dims for one in spread.values()):
        return False
    others = (one for number, one in enumerate(node.inputs) if number not in spread)
    return all(is_scalar_tensor(one.type) for one in others)


def _compute_before(node: Node, spread: Value) -> None:
    """Broadcast the result in the place of the operands."""
    assert spread.node is not None and isinstance(node.output.type, TensorType)
    inputs = [_source(one) if _is_spread(one) else one for one in node.inputs]
    type_ = replace(node.output.type, dims=(), scalar=True)
    made = node.value_before(node.kind, inputs, type_, node.attributes)
    extents = spread.node.inputs[1:]
    whole = node.value_before("np::broadcast_to", [made, *extents], node.output.type)
    node.output.replace_all_uses_with(whole)
    node.destroy()
