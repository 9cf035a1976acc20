"""Products read their rows in the order of memory: transposes go behind them."""

from __future__ import annotations

from collections.abc import Sequence

from jitcore.ir import log
from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.graph import Block, Graph, Node, Value
from jitcore.ir.types import TensorType

__all__ = ["transpose_after_products"]

_VIEWS = ("np::transpose", "np::view", "np::reshape")
_KERNELS = ("nn::product", "nn::scaled_dot_product_attention")
"""What reads an array in any order, and gives a new one in C order."""

_RESIDUAL = 3


def transpose_after_products(graph: Graph) -> bool:
    """Multiply the rows of an array as they lie, and transpose the result.

    Before::

        graph(%x : Float32[2, 5, 8], %p : Float32[1, 1, 8, 16], %q : Float32[1, 1, 16, 16]):
          %0 : None = prim::Constant[value=None]()
          %1 : Float32[5, 2, 8] = np::transpose[axes=(1, 0, 2)](%x)
          %2 : Float32[5, 2, 16] = nn::product[kernel=(), stride=(), padding=(), dilation=(), \
columns=16, low=-inf, high=inf](%1, %p, %0, %0)
          %3 : Float32[5, 2, 16] = nn::product[kernel=(), stride=(), padding=(), dilation=(), \
columns=16, low=0.0, high=inf](%2, %q, %0, %0)
          return (%3)

    After::

        graph(%x : Float32[2, 5, 8], %p : Float32[1, 1, 8, 16], %q : Float32[1, 1, 16, 16]):
          %0 : None = prim::Constant[value=None]()
          %1 : Float32[5, 2, 8] = np::transpose[axes=(1, 0, 2)](%x)
          %4 : Float32[2, 5, 16] = nn::product[kernel=(), stride=(), padding=(), dilation=(), \
columns=16, low=-inf, high=inf](%x, %p, %0, %0)
          %5 : Float32[5, 2, 16] = np::transpose[axes=(1, 0, 2)](%4)
          %3 : Float32[5, 2, 16] = nn::product[kernel=(), stride=(), padding=(), dilation=(), \
columns=16, low=0.0, high=inf](%5, %q, %0, %0)
          return (%3)

    Only where nothing but kernels reads the result, itself or as a view, because nobody else may
    find it in another order than C.  What is then unused is left to dead code elimination.
    """
    analysis = AliasAnalysis(graph)
    changed = False
    for node in list(graph.nodes()):
        if node.kind == "nn::product" and _is_of_rows(node):
            changed = _move(node, analysis) or changed
    return changed


def _is_of_rows(product: Node) -> bool:
    return not product.attributes["kernel"] and product.inputs[_RESIDUAL].constant is not None


def _move(product: Node, analysis: AliasAnalysis) -> bool:
    made = product.inputs[0].node
    if made is None or made.kind != "np::transpose":
        return False
    x, axes = made.inputs[0], tuple(made.attributes["axes"])
    if axes[-1] != len(axes) - 1 or not _reads_only_in_kernels(product.output):
        return False
    if analysis.writers(x) or analysis.writers(product.output):
        return False
    type_ = product.output.type
    assert isinstance(type_, TensorType) and type_.dims is not None
    dims = tuple(type_.dims[axes.index(axis)] for axis in range(len(axes)))
    log.update("transposed_products", lambda: f"{product!r} multiplies %{x.name}")
    new = _insert(product, product.kind, (x, *product.inputs[1:]), TensorType(type_.dtype, dims))
    new.attributes.update(product.attributes)
    moved = _insert(product, "np::transpose", (new.output,), type_)
    moved.attributes["axes"] = axes
    product.output.replace_all_uses_with(moved.output)
    product.destroy()
    return True


def _insert(product: Node, kind: str, inputs: Sequence[Value], type_: TensorType) -> Node:
    made = product.insert_before(kind, inputs, outputs=(type_,), source=product.source)
    made.origin = product.origin
    return made


def _reads_only_in_kernels(value: Value) -> bool:
    """Whether kernels alone read an array, or views of it."""
    for use in value.uses:
        user = use.user
        if isinstance(user, Block) or user.kind not in (*_VIEWS, *_KERNELS):
            return False
        if user.kind in _VIEWS and not _reads_only_in_kernels(user.output):
            return False
    return True
