"""Small arrays that loops carry, and that may be kept in one place from iteration to iteration.

Such a variable has room of its own, to which each iteration copies the elements of its new value.
So neither needs to be an ``ndarray`` with a count of references, and LLVM keeps both in registers.
Nobody can tell as long as nothing writes to memory that the variable may share, and as long as the
array itself does not leave the function.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

from jitcore.codegen.lowering.facts import Escapes
from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.carried import sources_of
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.types import TensorType

__all__ = ["small_variables"]

MOST_BYTES = 512
"""Of an array that is copied sooner than an ``ndarray`` is made."""


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """A variable that a loop carries."""

    loop: Node
    number: int

    @property
    def param(self) -> Value:
        """What it is in an iteration."""
        return self.loop.blocks[0].params[1 + self.number]

    @property
    def returned(self) -> Value:
        """What it becomes."""
        return self.loop.blocks[0].returns[1 + self.number]

    @property
    def initial(self) -> Value:
        """What it is at first."""
        return self.loop.inputs[2 + self.number]

    @property
    def output(self) -> Value:
        """What it is in the end."""
        return self.loop.outputs[self.number]


def small_variables(graph: Graph, refused: Collection[Value] = ()) -> frozenset[Value]:
    """The parameters of loops' blocks that may be kept so, but for those that are refused."""
    found = [one for one in _variables(graph) if one.param not in refused]
    if not found:
        return frozenset()
    analysis = AliasAnalysis(graph)
    found = [one for one in found if not analysis.has_writers(one.param)]
    while True:
        chosen = frozenset(one.param for one in found)
        escapes = Escapes(graph, chosen)
        kept = [one for one in found if _stays(one, escapes, analysis)]
        if len(kept) == len(found):
            return chosen
        found = kept


def _variables(graph: Graph) -> Iterator[Variable]:
    for node in graph.nodes():
        if node.kind == "prim::Loop":
            for number, value in enumerate(node.inputs[2:]):
                variable = Variable(node, number)
                if variable.returned is not variable.param and _is_small(variable.param):
                    if value.type == variable.param.type == variable.returned.type:
                        if not _may_have_no_value(variable.initial):
                            yield variable


def _may_have_no_value(value: Value) -> bool:
    """Whether a variable may not have been assigned yet, so that there is nothing to copy."""
    seen: set[Value] = set()
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        if one.type != value.type or (one.node and one.node.kind == "prim::Uninitialized"):
            return True
        is_joined = one.node.blocks if one.node else one.block and one.block.owner
        waiting += sources_of(one) if is_joined else ()
    return False


def _is_small(value: Value) -> bool:
    type_ = value.type
    if not isinstance(type_, TensorType) or type_.scalar or not type_.dims or not type_.dtype:
        return False
    if type_.dtype.kind not in "biufc" or not all(isinstance(dim, int) for dim in type_.dims):
        return False
    elements = math.prod(dim for dim in type_.dims if isinstance(dim, int))
    return 0 < elements * type_.dtype.itemsize <= MOST_BYTES


def _stays(variable: Variable, escapes: Escapes, analysis: AliasAnalysis) -> bool:
    """Whether the array stays in the function, or a copy of it may leave in its place."""
    if escapes(variable.param):
        return False
    if not escapes(variable.output) or _surely_runs(variable.loop):
        return True
    # Where the loop never runs, the first array is the one that leaves.
    initial = variable.initial
    locations = analysis.points_to(initial)
    return not escapes(initial) and not any(one.escapes for one in locations)


def _surely_runs(loop: Node) -> bool:
    trips, condition = (value.constant_value for value in loop.inputs[:2])
    return isinstance(trips, int) and trips > 0 and condition is True
