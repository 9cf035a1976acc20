"""Loops along rows whose length only a run tells, printed as loops over vectors.

LLVM takes four vectors at a time and what is left element by element, and a row of a few dozen
elements is such a rest, or has one that takes longer than all the others.  Here a row is two loops:
one over whole blocks, and one over the rest, a vector at a time, the last of which is masked.  What
is added up stays in vectors until both are done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Final

from jitcore.codegen.loop_passes.traversal import expressions, known_trips, loads_in, variables
from jitcore.codegen.loops import Assign, Binary, Cast, Const, Expr, For, Stmt, Store, Var
from jitcore.codegen.printers.llvm_instructions import (
    BITS,
    FLOATS,
    Instructions,
    register_type,
)
from jitcore.codegen.printers.loop_hints import ASSOCIATIVE, joins_flags, vectors_of_sum
from jitcore.codegen.printers.side_by_side import SideBySide, is_straight
from jitcore.codegen.printers.vector_calls import REGISTERS, VectorCalls, calls_in
from jitcore.codegen.printers.vector_forms import is_vector_loop, is_vector_value

__all__ = [
    "RowSums",
    "is_all_blocks",
    "is_left",
    "is_open",
    "is_short_step",
    "sum_steps",
    "vector_of_known_rest",
    "vectors_of_rest",
]

_MOST_LEFT: Final = 128

IDENTITIES: Final = {
    "add": -0.0,
    "mul": 1.0,
    "min": inf,
    "minnum": inf,
    "max": -inf,
    "maxnum": -inf,
}
"""What changes no float, to the bit."""


def is_open(loop: For) -> bool:
    """Whether only a run tells how many iterations there are."""
    return loop.step == 1 and known_trips(loop) is None


def sum_steps(loop: For, vector_bits: int) -> SideBySide | None:
    """How many vectors a loop joins at a time; None where it does something else.

    Parameters
    ----------
    loop : For
    vector_bits : int
        The size of a vector register.
    """
    if not _is_vector_sum(loop) or joins_flags(loop):
        return None
    accessed = [load.dtype for load in loads_in(loop.body)]
    accessed += [one.value.dtype for one in loop.body if isinstance(one, Store)]
    lanes = vector_bits // max([8, *(BITS[dtype] for dtype in accessed)])
    own, several = vectors_of_sum(loop, vector_bits)
    return SideBySide(lanes, max(own * several // lanes, 1), 0)


def is_left(loop: For) -> bool:
    """Whether a loop is over what is left beside whole blocks: it begins at a multiple."""
    start = loop.start
    return (
        isinstance(start, Binary)
        and start.op == "and"
        and start.x == loop.stop
        and isinstance(start.y, Const)
        and -_MOST_LEFT <= start.y.value < 0
    )


def is_all_blocks(loop: For, size: int) -> bool:
    """Whether a loop is over whole blocks."""
    stop = loop.stop
    return (
        isinstance(stop, Binary)
        and stop.op == "add"
        and stop.x == loop.start
        and isinstance(stop.y, Const)
        and stop.y.value % size == 0
    )


def vectors_of_rest(loop: For, blocks: VectorCalls | SideBySide) -> SideBySide | None:
    """Single vectors for the rest of a row, where its functions come in place.

    Of the several registers that a call fills, most would have nothing in short rows.
    """
    if isinstance(blocks, SideBySide):
        return None
    called = {call.name for one in loop.body for x in expressions(one) for call in calls_in(x)}
    return SideBySide(blocks.lanes // REGISTERS, 1, 0) if called <= {"divide", "root"} else None


def vector_of_known_rest(
    loop: For, blocks: VectorCalls | SideBySide, start: str, stop: str
) -> SideBySide | None:
    """The shortest vector of whole registers for a known rest, where its functions come in place.

    None where it is no shorter than that of a block.
    """
    narrow = vectors_of_rest(loop, blocks)
    if narrow is None or not (start.isdigit() and stop.isdigit()):
        return None
    lanes = narrow.lanes
    while lanes < int(stop) - int(start):
        lanes *= 2
    return SideBySide(lanes, 1, 0) if lanes < blocks.lanes else None


def is_short_step(blocks: VectorCalls | SideBySide) -> bool:
    """Whether what several vectors compute is there once more for single ones."""
    return isinstance(blocks, SideBySide) and not blocks.operations


def _is_vector_sum(loop: For) -> bool:
    """Whether a loop joins elements, in any order, that lie side by side."""
    steps = [one for one in loop.body if isinstance(one, Assign)]
    others: list[Stmt] = [one for one in loop.body if not isinstance(one, Assign)]
    sums = {one.var.name for one in steps}
    terms = [_term(one) for one in steps]
    values = [*terms, *(x for one in others for x in expressions(one))]
    return (
        bool(steps)
        and len(sums) == len(steps)
        and None not in terms
        and all(x is not None and sums.isdisjoint(variables(x)) for x in values)
        and all(x is not None and is_vector_value(x, loop) for x in terms)
        and is_vector_loop(replace(loop, body=others))
        and all(is_straight(call) for x in values if x is not None for call in calls_in(x))
    )


def _term(step: Assign) -> Expr | None:
    """What a step joins to a variable; None where the order counts."""
    value = step.value
    if not isinstance(value, Binary) or value.x != step.var:
        return None
    if value.dtype in FLOATS:
        is_free = value.reassoc and value.op in IDENTITIES and value.dtype != "float16"
    else:
        is_free = value.op in ASSOCIATIVE
    return value.y if is_free else None


class RowSums:
    """What the loops along a row join, in vectors.

    Sums of float32 that are kept in float64 are sums of float32 in what is left beside the blocks
    that `loop_passes.lane_sums` adds up, and one number is converted: an element has as many
    roundings as in a row without a second block there.

    Parameters
    ----------
    code : Instructions
        Those of the function, for scalars.
    loop : For
    blocks : SideBySide or VectorCalls
        The vectors that are computed side by side.
    slot : function
        Gives the address of a place on the stack for a name and a type.
    place_of : function
        Gives a variable's address.
    """

    def __init__(
        self,
        code: Instructions,
        loop: For,
        blocks: SideBySide | VectorCalls,
        slot: Callable[[str, str], str],
        place_of: Callable[[Var], str],
    ) -> None:
        self._code = code
        self._place_of = place_of
        self._lanes = blocks.lanes
        self._vectors = code.for_vectors(blocks.lanes, contract=False)
        steps = [one for one in loop.body if isinstance(one, Assign)]
        step_of = _narrow if is_left(loop) else _step
        self.steps = {one.var.name: step_of(one) for one in steps}
        self._variables = [one.var for one in steps]
        self.slots: list[dict[str, str]] = []
        several = 1 if is_left(loop) else blocks.together // blocks.lanes
        for number in range(several if steps else 0):
            own = {}
            for var in self._variables:
                step = self.steps[var.name]
                type_ = self._vectors.type(step.dtype)
                own[var.name] = slot(var.name, type_)
                first = self._vectors.number(_identity(step), step.dtype)
                if number == 0 and step.dtype == var.dtype:
                    scalar = code.type(var.dtype)
                    before = code.value(f"load {scalar}, ptr {place_of(var)}")
                    first = code.value(f"insertelement {type_} {first}, {scalar} {before}, i64 0")
                code.effect(f"store {type_} {first}, ptr {own[var.name]}")
            self.slots.append(own)

    @property
    def has_several(self) -> bool:
        """Whether vectors side by side join elements to places of their own."""
        return len(self.slots) > 1

    def join_vectors(self) -> None:
        """Join what vectors side by side have, which rows shorter than a block have not."""
        for name, step in self.steps.items():
            type_ = self._vectors.type(step.dtype)
            places = [own[name] for own in self.slots]
            parts = [self._code.value(f"load {type_}, ptr {place}") for place in places]
            while len(parts) > 1:
                pairs = zip(parts[::2], parts[1::2], strict=True)
                parts = [
                    self._vectors.binary(step.op, x, y, step.dtype, step.reassoc) for x, y in pairs
                ]
            self._code.effect(f"store {type_} {parts[0]}, ptr {places[0]}")

    def join(self, label: Callable[[str], None]) -> None:
        """Join the lanes, and give that to the variables; ``label`` begins a named block."""
        for var in self._variables:
            step, scalar = self.steps[var.name], self._code.type(var.dtype)
            type_ = self._vectors.type(step.dtype)
            vector = self._code.value(f"load {type_}, ptr {self.slots[0][var.name]}")
            total, place = self._across(step, vector, label), self._place_of(var)
            if step.dtype != var.dtype:
                before = self._code.value(f"load {scalar}, ptr {place}")
                wide = self._code.cast(total, step.dtype, var.dtype)
                total = self._code.binary(step.op, before, wide, var.dtype, step.reassoc)
            self._code.effect(f"store {scalar} {total}, ptr {place}")

    def _across(self, value: Binary, vector: str, label: Callable[[str], None]) -> str:
        """Join the lanes of a vector; a minimum asks once whether there is NaN."""
        if value.op not in ("min", "max") or value.dtype not in FLOATS:
            return self._halved(value, vector)
        type_ = self._vectors.type(value.dtype)
        are_nan = self._code.value(f"fcmp uno {type_} {vector}, {vector}")
        bits = self._code.value(f"bitcast <{self._lanes} x i1> {are_nan} to i{self._lanes}")
        is_number = self._code.value(f"icmp eq i{self._lanes} {bits}, 0")
        numbers, any_, end = (
            f"across{is_number.removeprefix('%.')}.{part}" for part in ("numbers", "any", "end")
        )
        self._code.effect(f"br i1 {is_number}, label %{numbers}, label %{any_}")
        label(numbers)
        short = self._halved(replace(value, op=f"{value.op}num"), vector)
        self._code.effect(f"br label %{end}")
        label(any_)
        long = self._halved(value, vector)
        self._code.effect(f"br label %{end}")
        label(end)
        scalar = self._code.type(value.dtype)
        return self._code.value(f"phi {scalar} [ {short}, %{numbers} ], [ {long}, %{any_} ]")

    def _halved(self, value: Binary, vector: str) -> str:
        """Join half of a vector's lanes to the others, until one is left."""
        lanes, type_ = self._lanes, register_type(value.dtype)
        while lanes > 1:
            whole, lanes = f"<{lanes} x {type_}>", lanes // 2
            low, high = (
                self._code.value(
                    f"shufflevector {whole} {vector}, {whole} poison, <{lanes} x i32> "
                    f"<{', '.join(f'i32 {first + lane}' for lane in range(lanes))}>"
                )
                for first in (0, lanes)
            )
            code = self._code.for_vectors(lanes, contract=False)
            vector = code.binary(value.op, low, high, value.dtype, value.reassoc)
        return self._code.value(f"extractelement <1 x {type_}> {vector}, i64 0")


def _step(step: Assign) -> Binary:
    assert isinstance(step.value, Binary)
    return step.value


def _narrow(step: Assign) -> Binary:
    """A step that adds up float32 in that, where it converts each of them."""
    value = _step(step)
    term = value.y
    if value.op != "add" or not isinstance(term, Cast) or term.bits or term.x.dtype != "float32":
        return value
    return Binary("add", Var(step.var.name, "float32"), term.x, "float32", reassoc=True)


def _identity(value: Binary) -> float | int | bool:
    """What changes nothing where a step joins it."""
    op, dtype = value.op, value.dtype
    if dtype in FLOATS:
        return IDENTITIES[op]
    if dtype == "bool":
        return op in ("and", "mul", "min")
    bits = BITS[dtype]
    is_signed = dtype.startswith("int")
    largest = (1 << (bits - is_signed)) - 1
    least = -largest - 1 if is_signed else 0
    return {"mul": 1, "min": largest, "max": least, "and": -1 if is_signed else largest}.get(op, 0)
