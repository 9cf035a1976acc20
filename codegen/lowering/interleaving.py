"""Images whose pixels come from several arrays: the results of transposed convolutions."""

from __future__ import annotations

from jitcore.codegen.lowering.arithmetic import add, constant, integer, multiply
from jitcore.codegen.lowering.elements import load, store, uncollapsed
from jitcore.codegen.lowering.layers import result
from jitcore.codegen.lowering.nest import nest
from jitcore.codegen.lowering.operands import Operand
from jitcore.codegen.lowering.state import Lowering, Rule
from jitcore.ir.graph import Node

__all__ = ["RULES"]


def _interleaved(lowering: Lowering, node: Node) -> Operand:
    images = lowering.array(node.inputs[0])
    bias = node.inputs[1]
    phases = [lowering.array(value) for value in node.inputs[2:]]
    channels = phases[0].dims[-1] if phases else lowering.array(bias).dims[0]
    numbers = zip(
        images.dims[1:-1], node.attributes["stride"], node.attributes["excess"], strict=True
    )
    extents = [add(multiply(n, integer(step)), integer(more)) for n, step, more in numbers]
    target = result(lowering, node, images, [images.dims[0], *extents, channels])
    if node.attributes["has_gaps"]:
        is_absent = bias.constant is not None and bias.constant.attributes["value"] is None
        shift = None if is_absent else lowering.array(bias)
        zero = constant(0, images.dtype.name)
        with nest(lowering, target.dims, parallel=True) as index:
            channel = index.entries[-1]
            value = zero if shift is None else load(shift, uncollapsed([channel]))
            store(lowering, target, index, value)
    stride = node.attributes["stride"]
    for starts, phase in zip(node.attributes["starts"], phases, strict=True):
        with nest(lowering, phase.dims, parallel=True) as index:
            image, *places, channel = index.entries
            moved = [
                add(integer(start), multiply(place, integer(step)))
                for start, place, step in zip(starts, places, stride, strict=True)
            ]
            store(lowering, target, uncollapsed([image, *moved, channel]), load(phase, index))
    return target


RULES: dict[str, Rule] = {"nn::interleaved": _interleaved}
