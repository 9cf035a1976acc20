"""Plans: how oneDNN runs a program for arrays of certain extents.

Formats are kept from one operation to the next; what others read is copied to channels-last at the
end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from jitcore.codegen.onednn import library as api
from jitcore.codegen.onednn.memory import Execute, Instance, Step
from jitcore.codegen.onednn.operations import rule_of
from jitcore.codegen.onednn.planner import Constants, Planner
from jitcore.codegen.onednn.post_ops import After
from jitcore.codegen.onednn.program import Program, Shape
from jitcore.ir.dataclass import dataclass

__all__ = ["Plan", "make_plan"]


@dataclass(eq=False, slots=True)
class Plan:
    """Steps, and memory for as many calls as there have been at a time."""

    library: api.Library
    steps: list[Step]
    _idle: list[Instance] = field(default_factory=list)

    def run(self, addresses: Sequence[int]) -> bool:
        """Compute; False where the numbers are too large."""
        try:
            instance = self._idle.pop()
        except IndexError:
            instance = Instance.of(self.library, self.steps)
        done = instance.run(addresses)
        self._idle.append(instance)
        return done

    @property
    def names(self) -> list[str]:
        """What the library calls the implementations, in order."""
        return [step.name for step in self.steps if isinstance(step, Execute)]


def make_plan(
    library: api.Library,
    program: Program,
    shapes: Sequence[Shape],
    results: Sequence[tuple[int, ...]],
    constants: Constants,
) -> Plan:
    """Plan a program for arrays of these extents and strides, and results of these extents.

    Raises
    ------
    Refused, LibraryError
        There is no plan.
    """
    planner = Planner(library, program, shapes, constants)
    for place, operation in enumerate(program.operations):
        if place in planner.done:
            continue
        after = After.of(planner, place)
        planner.done.update(after.places)
        result = rule_of(operation.kind)(planner, operation, after)
        planner.operands[program.result(after.places[-1])] = result
    for number, (output, dims) in enumerate(zip(program.outputs, results, strict=True)):
        planner.give(output, dims, len(shapes) + number)
    return Plan(library, planner.steps)
