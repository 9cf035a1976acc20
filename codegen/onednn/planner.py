"""The arrays of a plan: their formats, how large their numbers may be, and the steps so far.

oneDNN's maximum, ReLU and limits lose NaN, and it leaves out what is multiplied by the zeros
around an image.  So a plan only computes with numbers that are finite: it checks the arrays that
are given and follows how large results may become at most, and where that is beyond float32 it
checks what they are.  A call whose numbers are too large is left to other kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from jitcore.codegen.onednn import library as api
from jitcore.codegen.onednn.memory import Buffer, Check, Execute, Instance, Step
from jitcore.codegen.onednn.program import Program, Shape
from jitcore.ir.dataclass import dataclass

__all__ = ["LARGEST_GIVEN", "Array", "Constants", "Operand", "Planner", "Refused", "image_order"]

LARGEST_GIVEN = 2.0**24
"""Arrays with larger numbers are left to other kernels."""

LARGEST = 2.0**120
"""No sum of results below it overflows."""

Array = np.ndarray[Any, np.dtype[Any]]


class Refused(Exception):
    """The program has a form for these arrays that oneDNN does not take, or is not right."""


class Constants(Protocol):
    """What is known of arrays that never change."""

    def array(self, number: int) -> Array | None:
        """The given array with this number, if it never changes."""
        ...

    def magnitude(self, array: Array) -> float:
        """The size of its largest element; NaN or infinity where there is one."""
        ...

    def formatted(
        self, array: Array, source: api.Owned, wanted: api.Owned, make: Callable[[], Buffer]
    ) -> Buffer:
        """Its numbers in another format, which are made once."""
        ...


@dataclass(eq=False, slots=True)
class Operand:
    """An array of a program: where it lies in which format, and how large its numbers may be.

    ``dims`` are the extents in the graph.  The descriptor of images has channels second, that of
    weights is in the order of the library.
    """

    dims: tuple[int, ...]
    descriptor: api.Owned
    buffer: Buffer
    bound: float


class Planner:
    """What is planned so far.

    Parameters
    ----------
    library : Library
    program : Program
    shapes : sequence of Shape
        Of the arrays that are given.
    constants : Constants

    Attributes
    ----------
    steps : list of Step
    operands : dict
        The arrays that there are, by number.
    done : set of int
        The places of the operations that are planned, with the one at hand.
    """

    def __init__(
        self,
        library: api.Library,
        program: Program,
        shapes: Sequence[Shape],
        constants: Constants,
    ) -> None:
        self.library = library
        self.program = program
        self.shapes = shapes
        self.steps: list[Step] = []
        self.operands: dict[int, Operand] = {}
        self.done: set[int] = set()
        self._constants = constants
        self._copies: dict[Operand, list[Operand]] = {}

    # What is given ------------------------------------------------------------------------

    def operand(self, number: int) -> Operand:
        """An array by its number; one that is given is looked at when it is needed first."""
        if number not in self.operands:
            dims, strides = (image_order(one) for one in self.shape(number))
            self.operands[number] = self.given(number, self.library.strided(dims, strides), dims)
        return self.operands[number]

    def shape(self, number: int) -> Shape:
        """The extents and the strides of an array that is given."""
        dims, strides = self.shapes[number]
        if 0 in dims or any(s < 1 for n, s in zip(dims, strides, strict=True) if n > 1):
            raise Refused("an empty array, or one that is walked backward")
        return dims, strides

    def given(self, number: int, descriptor: api.Owned, extents: tuple[int, ...]) -> Operand:
        """An array that is given, by the descriptor that says how its memory is to be read.

        ``extents`` are those of the descriptor.
        """
        dims, strides = self.shapes[number]
        constant = self._constants.array(number)
        if constant is not None:
            magnitude = self._constants.magnitude(constant)
            if not magnitude <= LARGEST_GIVEN:
                raise Refused("constants that are too large")
            return Operand(dims, descriptor, Buffer(constant.nbytes, constant=constant), magnitude)
        span = 1 + sum((n - 1) * s for n, s in zip(dims, strides, strict=True))
        operand = Operand(dims, descriptor, Buffer(4 * span, given=number), math.inf)
        if span > math.prod(dims):
            plain = self.library.strided(extents, row_major_strides(extents))
            operand = self.moved(operand, plain)
        self.check(operand)
        return operand

    def in_c_order(self, number: int) -> tuple[int, ...]:
        """The extents of a given array that has no gaps and lies in C order."""
        if number >= len(self.shapes):
            raise Refused("weights that are computed")
        dims, strides = self.shapes[number]
        expected = zip(dims, strides, row_major_strides(dims), strict=True)
        if any(own != wanted for n, own, wanted in expected if n > 1):
            raise Refused("weights that are not in C order")
        return dims

    # How large numbers are ----------------------------------------------------------------

    def check(self, operand: Operand) -> None:
        """See to it that the numbers are not too large from here on."""
        if operand.buffer.constant is None:
            self.steps.append(Check(operand.buffer, LARGEST_GIVEN))
            operand.bound = LARGEST_GIVEN

    def bounded(
        self, operands: Sequence[Operand], bounds: Callable[[Sequence[float]], list[float]]
    ) -> float:
        """How large a result may be at most; operands are checked where it might overflow.

        ``bounds`` gives how large it may be at each point on the way, the end last.
        """
        found = bounds([one.bound for one in operands])
        if max(found) > LARGEST:
            for one in operands:
                self.check(one)
            found = bounds([one.bound for one in operands])
        if not max(found) <= LARGEST:
            raise Refused("results that may overflow")
        return found[-1]

    # Memory that is written again -------------------------------------------------------------

    def is_free(self, residual: tuple[Operand, Operand], others: Sequence[Operand]) -> bool:
        """Whether the operation at hand may write its result over an array that it adds.

        Parameters
        ----------
        residual : two operands
            The array, and the same in the format of the result.
        others : sequence of Operand
            What else the operation reads.

        Returns
        -------
        bool
            The memory is the plan's own, and nobody reads the array any more.
        """
        array, formatted = residual
        buffers = {array.buffer, formatted.buffer}
        read = [copy for one in others for copy in (one, *self._copies.get(one, []))]
        if not formatted.buffer.is_own or any(one.buffer in buffers for one in read):
            return False
        numbers = [number for number, one in self.operands.items() if one.buffer in buffers]
        users = {place for number in numbers for place in self.program.users(number)}
        return users <= self.done and not any(one in self.program.outputs for one in numbers)

    def write_over(self, operand: Operand, dims: tuple[int, ...], bound: float) -> Operand:
        """A result in the memory of an array that is free."""
        for known in self._copies.values():
            known[:] = [one for one in known if one.buffer is not operand.buffer]
        return Operand(dims, operand.descriptor, operand.buffer, bound)

    # Steps --------------------------------------------------------------------------------

    def row_major(self, dims: Sequence[int]) -> api.Owned:
        """The descriptor of an array of the graph in C order."""
        return self.library.strided(image_order(dims), image_order(row_major_strides(dims)))

    def new(self, dims: tuple[int, ...], descriptor: api.Owned, bound: float) -> Operand:
        """An array that the plan computes."""
        return Operand(dims, descriptor, Buffer(self.library.size_of(descriptor)), bound)

    def moved(self, operand: Operand, wanted: api.Owned) -> Operand:
        """The same numbers in a format; they are copied once."""
        known: list[Operand] = [operand, *self._copies.get(operand, [])]
        for one in known:
            if self.library.are_equal(one.descriptor, wanted):
                return one
        constant = operand.buffer.constant
        if constant is None:
            copy = self.new(operand.dims, wanted, operand.bound)
            self.steps.append(self._reorder(operand, copy))
        else:
            source = operand.descriptor
            buffer = self._constants.formatted(
                constant, source, wanted, lambda: self._reordered(operand, wanted)
            )
            copy = Operand(operand.dims, wanted, buffer, operand.bound)
        self._copies.setdefault(operand, []).append(copy)
        return copy

    def _reordered(self, operand: Operand, wanted: api.Owned) -> Buffer:
        """A constant in another format, now."""
        memory = np.empty(self.library.size_of(wanted) // 4, np.float32)
        buffer = Buffer(memory.nbytes, constant=memory)
        step = self._reorder(operand, Operand(operand.dims, wanted, buffer, operand.bound))
        Instance.of(self.library, [step]).run([])
        return buffer

    def _reorder(self, source: Operand, target: Operand) -> Execute:
        description = self.library.reorder(source.descriptor, target.descriptor)
        return self._step(description, {api.SOURCE: source, api.RESULT: target})

    def execute(
        self,
        description: api.Description,
        arrays: dict[int, Operand],
        added: Sequence[Operand | None] = (),
    ) -> None:
        """Append a primitive; ``added`` are the arrays of its post-ops, in their order."""
        numbers = {api.POST_OP * (n + 1) | api.SECOND_SOURCE: one for n, one in enumerate(added)}
        arrays = arrays | {number: one for number, one in numbers.items() if one is not None}
        self.steps.append(self._step(description, arrays))

    def _step(self, description: api.Description, arrays: dict[int, Operand]) -> Execute:
        arguments = {name: (one.buffer, one.descriptor) for name, one in arrays.items()}
        scratchpad = self.library.argument(description, api.SCRATCHPAD)
        size = self.library.size_of(scratchpad)
        if size:
            arguments[api.SCRATCHPAD] = (Buffer(size), scratchpad)
        primitive = self.library.primitive(description)
        return Execute(primitive, arguments, str(description))

    def give(self, number: int, dims: tuple[int, ...], given: int) -> None:
        """Put what others read where they want it, in C order."""
        operand = self.operands[number]
        if operand.dims != dims:
            raise Refused("a result of other extents")
        wanted = self.row_major(dims)
        if operand.buffer.is_own and self.library.are_equal(operand.descriptor, wanted):
            operand.buffer.given = given
            return
        size = 4 * math.prod(dims)
        target = Operand(dims, wanted, Buffer(size, given=given), operand.bound)
        self.steps.append(self._reorder(operand, target))


def image_order(numbers: Sequence[int]) -> tuple[int, ...]:
    """Numbers for the axes of an array of the graph, with those of channels second."""
    if len(numbers) < 3:
        return tuple(numbers)
    return (numbers[0], numbers[-1], *numbers[1:-1])


def row_major_strides(dims: Sequence[int]) -> tuple[int, ...]:
    """The strides of an array in C order."""
    return tuple(math.prod(dims[axis + 1 :]) for axis in range(len(dims)))
