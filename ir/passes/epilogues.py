"""What follows a product, done where its results are written: residuals and limits."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitcore.ir import log
from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.graph import Graph, Node, Value

__all__ = ["fuse_epilogues"]

_LIMITED = ("nn::product", "nn::window_sum")

_RESIDUAL = 3
"""The place of the residual among a product's operands."""


def fuse_epilogues(graph: Graph) -> bool:
    """Let products and depthwise convolutions add a residual and limit their results.

    Before::

        graph(%x : Float32[5, 8], %p : Float32[1, 1, 8, 16], %r : Float32[5, 16]):
          %0 : None = prim::Constant[value=None]()
          %1 : Float32 = prim::Constant[value=np.float32(0.0)]()
          %2 : Float32[5, 16] = nn::product[kernel=(), stride=(), padding=(), dilation=(), \
columns=16, low=-inf, high=inf](%x, %p, %0, %0)
          %3 : Float32[5, 16] = np::add(%2, %r)
          %4 : Float32[5, 16] = np::maximum(%3, %1)
          return (%4)

    After::

        graph(%x : Float32[5, 8], %p : Float32[1, 1, 8, 16], %r : Float32[5, 16]):
          %0 : None = prim::Constant[value=None]()
          %1 : Float32 = prim::Constant[value=np.float32(0.0)]()
          %6 : Float32[5, 16] = nn::product[kernel=(), stride=(), padding=(), dilation=(), \
columns=16, low=0.0, high=inf](%x, %p, %0, %r)
          return (%6)

    Only where nobody else reads the result in between, and nothing writes to an operand.
    """
    analysis = AliasAnalysis(graph)
    made: set[Value] = set()
    changed = False
    for node in list(graph.nodes()):
        if node.kind in ("np::add", "np::maximum", "np::minimum"):
            changed = _fuse(node, analysis, made) or changed
    return changed


def _fuse(node: Node, analysis: AliasAnalysis, made: set[Value]) -> bool:
    """Try to take one operation into the product that one of its operands is."""
    for number in (0, 1):
        result, other = node.inputs[number], node.inputs[1 - number]
        product = result.node
        if product is None or product.kind not in _LIMITED or not _is_alone(result, node):
            continue
        found = _with_residual(product, node, other) or _limited(product, node, other)
        if found is None:
            continue
        inputs, attributes = found
        if any(one not in made and analysis.writers(one) for one in (*inputs, node.output)):
            continue
        _replace(node, product, inputs, attributes, made)
        return True
    return False


def _is_alone(value: Value, user: Node) -> bool:
    assert value.node is not None
    return len(value.uses) == 1 and value.node.block is user.block


def _with_residual(
    product: Node, node: Node, other: Value
) -> tuple[list[Value], dict[str, Any]] | None:
    """The product with something of its shape added at the end."""
    if node.kind != "np::add" or product.kind != "nn::product":
        return None
    is_limited = (product.attributes["low"], product.attributes["high"]) != (-np.inf, np.inf)
    held = product.inputs[_RESIDUAL].constant
    if is_limited or held is None or other.type != product.output.type:
        return None
    inputs = list(product.inputs)
    inputs[_RESIDUAL] = other
    return inputs, product.attributes


def _limited(product: Node, node: Node, other: Value) -> tuple[list[Value], dict[str, Any]] | None:
    """The product with a limit more."""
    limit = other.constant_value
    if node.kind == "np::add" or not isinstance(limit, float | np.floating) or limit != limit:
        return None
    low, high = product.attributes["low"], product.attributes["high"]
    if node.kind == "np::maximum":
        low = max(low, float(limit))
    else:
        high = min(high, float(limit))
    if low > high:
        return None
    return list(product.inputs), {**product.attributes, "low": low, "high": high}


def _replace(
    node: Node, product: Node, inputs: list[Value], attributes: dict[str, Any], made: set[Value]
) -> None:
    log.update("epilogues", lambda: f"{node!r} becomes part of {product!r}")
    outputs = (node.output.type,)
    new = node.insert_before(
        product.kind, inputs, attributes, outputs=outputs, source=product.source
    )
    new.origin = product.origin
    made.add(new.output)
    node.output.replace_all_uses_with(new.output)
    node.destroy()
    product.destroy()
