"""Groups that oneDNN computes: a call, and the kernels of our own where it cannot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitcore.codegen.loops import Call, Const, Do, Expr, If, Load, Stmt, Store
from jitcore.codegen.lowering.arithmetic import ONE, ZERO, compare, integer
from jitcore.codegen.lowering.broadcasting import broadcast_extents, define_dims, type_dims
from jitcore.codegen.lowering.layers import addresses, contiguous, result_dims
from jitcore.codegen.lowering.nest import write
from jitcore.codegen.lowering.operands import ArrayRef, Operand
from jitcore.codegen.lowering.state import Lowering, Rule
from jitcore.codegen.onednn.functions import DONE, UNANSWERED, define
from jitcore.codegen.onednn.post_ops import FULL
from jitcore.codegen.onednn.program import Numbers, Operation, Program
from jitcore.ir.activations import find_activations
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.passes.transposed_convolutions import expand_transposed
from jitcore.ir.types import Dim, TensorType

__all__ = ["RULES"]


def _group(lowering: Lowering, node: Node) -> Operand:
    graph: Graph = node.attributes["graph"]
    inputs = [_forward(lowering, lowering.array(value)) for value in node.inputs]
    extents = _extents(lowering, graph, inputs)
    targets = [
        _target(lowering, outer, extents[inner])
        for outer, inner in zip(node.outputs, graph.outputs, strict=True)
    ]
    program, numbers = _program(graph, inputs, targets)
    node.attributes["symbol"] = symbol = define(program)
    notes = len(lowering.notes)
    answer = _answer(lowering, symbol, (*addresses([*inputs, *targets]), *numbers))
    # An exception has left the function, which only an interrupt does.  Python has dropped it, and
    # raises it once more as soon as it goes on, before the plain function would run in this place.
    is_open = compare("eq", answer, integer(UNANSWERED))
    again: Stmt = Do(Call("PyErr_SetInterrupt", (), "void", external=True))
    lowering.emitter.emit(If(is_open, [again], unlikely=True))
    lowering.fail(is_open, KeyboardInterrupt)
    body: list[Stmt] = []
    with lowering.scope(body):
        _compute(lowering, graph, inputs, targets)
    # What the other way needs is not what a call takes.
    del lowering.notes[notes:]
    lowering.emitter.emit(If(compare("ne", answer, integer(DONE)), body, unlikely=True))
    return targets[0] if len(targets) == 1 else tuple(targets)


def _answer(lowering: Lowering, symbol: str, args: tuple[Expr, ...]) -> Expr:
    """Call a group's function, and read what it answers."""
    word = lowering.allocate("answer", (ONE,), np.dtype(np.int64), escapes=False)
    lowering.emitter.emit(Store(word.pointer, ZERO, integer(UNANSWERED), word.root))
    call = Call(symbol, (*args, word.pointer), "void", external=True)
    lowering.emitter.emit(Do(call))
    return lowering.emitter.copy("answer", Load(word.pointer, ZERO, "int64", word.root))


def _forward(lowering: Lowering, array: ArrayRef) -> ArrayRef:
    """The array, or a copy where it is known to be walked backward or to stay in one place."""
    steps = [one.value for one in array.strides if isinstance(one, Const)]
    return contiguous(lowering, array) if any(step < 1 for step in steps) else array


def _target(lowering: Lowering, value: Value, dims: Sequence[Expr]) -> ArrayRef:
    extents = define_dims(lowering, value, dims)
    dtype = np.dtype(np.float32)
    return lowering.allocate(value.name, extents, dtype, escapes=lowering.escapes(value))


def _compute(
    lowering: Lowering, graph: Graph, inputs: Sequence[ArrayRef], targets: Sequence[ArrayRef]
) -> None:
    """Compute the group's nodes one by one, and copy what leaves it."""
    graph = graph.copy()
    expand_transposed(graph)
    for value, array in zip(graph.inputs, inputs, strict=True):
        lowering.bind(value, array)
    lowering.block(graph.block)
    for value, target in zip(graph.outputs, targets, strict=True):
        write(lowering, [(target, lowering.array(value))])


def _extents(
    lowering: Lowering, graph: Graph, inputs: Sequence[ArrayRef]
) -> dict[Value, Sequence[Expr]]:
    """The extents of all results but packed weights; leaves the function where there are none."""
    found: dict[Value, Sequence[Expr]] = {
        value: array.dims for value, array in zip(graph.inputs, inputs, strict=True)
    }
    for node in graph.block.nodes:
        if node.kind in ("prim::Constant", "nn::packed"):
            continue
        if node.kind.startswith("nn::"):
            found[node.output] = result_dims(lowering, node, found[node.inputs[0]])
        elif node.kind == "np::matmul":
            x, y = (found[value] for value in node.inputs)
            found[node.output] = (x[0], y[1])
        else:
            found[node.output] = _elementwise_extents(lowering, node, found)
    return found


def _elementwise_extents(
    lowering: Lowering, node: Node, found: dict[Value, Sequence[Expr]]
) -> Sequence[Expr]:
    """Those of an operand that nothing stretches, or what all operands broadcast to."""
    dims = type_dims(node.output)
    operands = [value for value in node.inputs if value in found]
    full = [value for value in operands if type_dims(value) == dims]
    if full:
        return found[full[0]]
    return broadcast_extents(lowering, [found[value] for value in operands], dims)[0]


# Programs ---------------------------------------------------------------------------------


def _program(
    graph: Graph, inputs: Sequence[ArrayRef], targets: Sequence[ArrayRef]
) -> tuple[Program, list[Expr]]:
    """What the group says to oneDNN, and the extents and strides that only a call knows."""
    numbers = {value: place for place, value in enumerate(graph.inputs)}
    operations = _operations(graph, numbers)
    outputs = tuple(numbers[value] for value in graph.outputs)
    left: list[Expr] = []
    given = tuple(_known((*one.dims, *one.strides), left) for one in inputs)
    results = tuple(_known(one.dims, left) for one in targets)
    return Program(given, tuple(operations), outputs, results), left


def _known(extents: Sequence[Expr], left: list[Expr]) -> Numbers:
    """The numbers that are constants; adds the others to ``left``."""
    left += [one for one in extents if not isinstance(one, Const)]
    return tuple(one.value if isinstance(one, Const) else None for one in extents)


def _operations(graph: Graph, numbers: dict[Value, int]) -> list[Operation]:
    """One operation for each node or activation; numbers their results."""
    activations = find_activations(graph.block.nodes)
    inner = {node for one in activations.values() for node in one.nodes} - activations.keys()
    found: list[Operation] = []
    for node in graph.block.nodes:
        if node.kind == "prim::Constant" or node in inner:
            continue
        if node in activations:
            activation = activations[node]
            argument = numbers[activation.argument]
            given = tuple(sorted(activation.numbers.items()))
            made = Operation(activation.name, (argument,), given)
        else:
            operands = tuple(_operand(value, numbers) for value in node.inputs)
            made = Operation(node.kind, operands, _attributes(node))
        found.append(made)
        numbers[node.output] = len(graph.inputs) + len(found) - 1
    return found


def _attributes(node: Node) -> tuple[tuple[str, Any], ...]:
    if node.kind.startswith("nn::"):
        return tuple(sorted(node.attributes.items()))
    dims = type_dims(node.output)
    return ((FULL, tuple(_is_full(value, dims) for value in node.inputs)),)


def _is_full(value: Value, dims: Sequence[Dim]) -> bool:
    return isinstance(value.type, TensorType) and value.type.dims == dims


def _operand(value: Value, numbers: dict[Value, int]) -> int | float | None:
    if value in numbers:
        return numbers[value]
    held = value.constant_value
    return None if held is None else float(held)


RULES: dict[str, Rule] = {"prim::oneDNNFusionGroup": _group}
