"""Operations on values that may have several types: done for each type, chosen by the tag."""

from __future__ import annotations

from collections.abc import Callable

from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.specialize.branches import BranchBuilder
from jitcore.ir.specialize.none_errors import error_of_none
from jitcore.ir.specialize.value_kinds import is_single
from jitcore.ir.types import UnionType

__all__ = ["for_each_alternative", "has_wide_unions"]


def for_each_alternative(
    worker: BranchBuilder,
    node: Node,
    inputs: list[Value],
    number: int,
    run: Callable[[list[Value]], list[Value]],
) -> list[Value]:
    """Do a node once for each type that an operand may have here.

    Parameters
    ----------
    worker : BranchBuilder
    node : Node
    inputs : list of Value
    number : int
        Which of them may be a union.
    run : callable
        Gives the results of the node for other inputs.
    """
    union = inputs[number]
    if not isinstance(union.type, UnionType):
        return run(inputs)
    assert union.node is not None
    tag, *values = union.node.inputs

    def choose(possible: list[int]) -> list[Value]:
        first, *others = possible

        def run_first() -> list[Value]:
            changed = [*inputs[:number], values[first], *inputs[number + 1 :]]
            error = error_of_none(node, changed)
            return run(changed) if error is None else _raising(worker, node, error)

        if not others:
            return run_first()
        is_this = worker.op("prim::eq", tag, first)
        if is_this.constant is not None:
            return run_first() if is_this.constant.attributes["value"] else choose(others)
        worker.union_facts.note_test(is_this, union, first)
        return worker.split(is_this, [run_first, lambda: choose(others)])

    possible = worker.union_facts.possible(union)
    worker.budget -= len(possible)
    return choose(possible)


def has_wide_unions(graph: Graph) -> bool:
    """Whether values may be numbers or None, and something else as well."""
    return any(
        not is_single(value.type)
        for node in graph.find_all_nodes("prim::UnionConstruct")
        for value in node.inputs[1:]
    )


def _raising(worker: BranchBuilder, node: Node, error: Exception) -> list[Value]:
    """Raise what a node is known to raise."""
    parts = [worker.constant(type(error)), worker.constant(str(error))]
    made = worker.block.append("prim::Call", parts, source=node.source)
    worker.block.append("prim::Raise", [made.output], outputs=(), source=node.source)
    return [worker.uninitialized() for _ in node.outputs]
