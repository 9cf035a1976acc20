"""Convolutions are left to a device's library, and to arrays where that does not take them.

Which convolutions the library takes it says when it is asked, for each shape.  What it does not
take is a convolution without a bias again, in a branch of its own, which other passes make plain
array work of.
"""

from __future__ import annotations

import numpy as np

from jitcore.ir import log
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.ops.layer_kernels import window_count
from jitcore.ir.passes.layer_nodes import (
    Geometry,
    constant,
    insert,
    known_extents,
    none,
    require_extent_of,
    size_of,
    with_bias,
)
from jitcore.ir.shapes import dims_of
from jitcore.ir.types import BOOL, INT, NONE, TensorType

__all__ = ["LIBRARY_CONVOLUTION", "has_convolutions", "use_library_convolutions"]

LIBRARY_CONVOLUTION = "nn::library_convolution"

_KINDS = tuple(f"nn::conv{rank}d" for rank in (1, 2, 3))
_DTYPES = frozenset(map(np.dtype, (np.float16, np.float32, np.float64)))


def has_convolutions(graph: Graph) -> bool:
    """Whether there are any that a library may take."""
    return any(map(_is_known, graph.nodes()))


def use_library_convolutions(graph: Graph) -> bool:
    """Ask a library for convolutions of batches of images whose frame is even.

    Before::

        graph(%x : Float32[2, 4, 6, 6], %w : Float32[8, 4, 3, 3], %none : None):
          %0 : Float32[2, 8, 4, 4] = nn::conv2d[stride=(1, 1), padding=(0, 0), \
dilation=(1, 1), groups=1](%x, %w, %none)
          return (%0)

    After::

        graph(%x : Float32[2, 4, 6, 6], %w : Float32[8, 4, 3, 3], %none : None):
          %1 : int = prim::Constant[value=2]()
          %2 : int = prim::Constant[value=8]()
          %3 : int = prim::Constant[value=4]()
          %4 : int = prim::Constant[value=4]()
          %5 : Float32[2, 8, 4, 4] = np::empty[dtype=dtype("float32")](%1, %2, %3, %4)
          %6 : bool = nn::library_convolution[kernel=(3, 3), stride=(1, 1), \
padding=((0, 0), (0, 0)), dilation=(1, 1), groups=1](%x, %w, %5)
          %7 : None = prim::Constant[value=None]()
          %8 : Float32[2, 8, 4, 4] = prim::If(%6)
            block0():
              -> (%5)
            block1():
              %9 : Float32[2, 8, 4, 4] = nn::conv2d[stride=(1, 1), padding=(0, 0), \
dilation=(1, 1), groups=1](%x, %w, %7)
              -> (%9)
          return (%8)
    """
    found = list(filter(_is_known, graph.nodes()))
    for node in found:
        _replace(node)
    return bool(found)


def _replace(node: Node) -> None:
    log.update("library_convolutions", lambda: f"{node!r} is the library's, if that takes it")
    node.output.replace_all_uses_with(_asked(node))
    node.destroy()


def _is_known(node: Node) -> bool:
    """Whether a node is a convolution of a batch by kernels whose extents are known."""
    if node.kind not in _KINDS or node.attributes["padding"] == "same":
        return False
    x, weight = node.inputs[:2]
    if not isinstance(x.type, TensorType) or x.type.dtype not in _DTYPES:
        return False
    shape = dims_of(weight)
    is_known = all(isinstance(extent, int) and extent > 0 for extent in shape)
    return is_known and len(dims_of(x)) == len(shape)


def _asked(node: Node) -> Value:
    (x, weight, bias), attributes = node.inputs[:3], node.attributes
    columns, channels, *kernel = known_extents(dims_of(weight))
    frame = tuple((one, one) for one in attributes["padding"])
    geometry = Geometry(tuple(kernel), attributes["stride"], frame, attributes["dilation"])
    dims = dims_of(node.output)
    require_extent_of(node, x, 1, channels * attributes["groups"])
    extents = [_extent(node, x, 0), constant(node, columns, INT)]
    extents += [_positions(node, geometry, axis) for axis in range(len(kernel))]
    assert isinstance(x.type, TensorType)
    out = insert(node, "np::empty", extents, {"dtype": x.type.dtype}, x, dims)
    more = {**geometry.attributes, "groups": attributes["groups"]}
    is_taken = node.value_before(LIBRARY_CONVOLUTION, [x, weight, out], BOOL, more)
    made = _taken_or_plain(node, is_taken, out)
    return made if bias.type == NONE else with_bias(node, made, bias)


def _taken_or_plain(node: Node, is_taken: Value, out: Value) -> Value:
    """What the library has written, or else a convolution without a bias."""
    no_bias = none(node)
    choice = node.insert_before("prim::If", [is_taken], outputs=(out.type,))
    choice.origin = node.origin
    choice.add_block().add_return(out)
    plain = choice.add_block()
    inputs = [*node.inputs[:2], no_bias]
    made = plain.append(node.kind, inputs, node.attributes, outputs=(out.type,), source=node.source)
    made.origin = node.origin
    plain.add_return(made.output)
    return choice.output


def _extent(node: Node, x: Value, axis: int) -> Value:
    found = dims_of(x)[axis]
    return constant(node, found, INT) if isinstance(found, int) else size_of(node, x, axis)


def _positions(node: Node, geometry: Geometry, number: int) -> Value:
    """How many windows lie along a spatial axis."""
    x, axis = node.inputs[0], number + 2
    span = geometry.dilation[number] * (geometry.kernel[number] - 1) + 1
    stride, frame, extent = geometry.stride[number], geometry.padding[number], dims_of(x)[axis]
    if isinstance(extent, int):
        return constant(node, window_count(extent, span, stride, frame), INT)
    # One, and one more for each stride in what lies behind it.  If there is not even one, the node
    # that asks the library leaves the call to the definition.
    more = constant(node, sum(frame) - span + stride, INT)
    room = node.value_before("prim::add", [size_of(node, x, axis), more], INT)
    return node.value_before("prim::floordiv", [room, constant(node, stride, INT)], INT)
