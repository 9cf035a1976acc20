"""Prints loops over vectors in a function: whole blocks of them first, then the rest."""

from __future__ import annotations

from collections import ChainMap
from importlib import import_module

from jitcore.codegen.loops import Call, Expr, For
from jitcore.codegen.printers.llvm_instructions import Instructions, identifier
from jitcore.codegen.printers.llvm_module import Module
from jitcore.codegen.printers.loop_hints import loop_hints
from jitcore.codegen.printers.loop_metadata import NOT_UNROLLED, OF_VECTORS
from jitcore.codegen.printers.open_rows import (
    RowSums,
    is_all_blocks,
    is_left,
    is_short_step,
    vectors_of_rest,
)
from jitcore.codegen.printers.side_by_side import SideBySide, is_few
from jitcore.codegen.printers.vector_calls import VectorCalls

__all__ = ["LoopsOfVectors"]


class LoopsOfVectors:
    """The part of a function's printer that prints loops over vectors."""

    _code: Instructions
    _module: Module
    _variables: ChainMap[str, str]
    _scopes: dict[str, str]
    _contract: bool
    _block: str
    _allocas: list[str]
    _calls: VectorCalls | None = None
    """How the loop that is printed calls vector math, where it does."""

    def _expression(self, x: Expr) -> str:
        raise NotImplementedError

    def _address(self, pointer: Expr, index: Expr, dtype: str) -> str:
        raise NotImplementedError

    def _twin(self, call: Call) -> str:
        raise NotImplementedError

    def _terminate(self, instruction: str) -> None:
        raise NotImplementedError

    def _label(self, name: str) -> None:
        raise NotImplementedError

    def _number(self) -> int:
        raise NotImplementedError

    def _slot(self, name: str, type_: str) -> str:
        """The address of a place on the stack for a value of this type."""
        slot = f"%{identifier(name)}.slot{len(self._allocas)}"
        self._allocas.append(f"  {slot} = alloca {type_}")
        return slot

    def _row_of_vectors(
        self, loop: For, start: str, stop: str, blocks: VectorCalls | SideBySide
    ) -> None:
        """The loops along a row of unknown length, and what joins what they add up."""
        number, is_rest = self._number(), is_left(loop)
        if is_rest:
            self._enter(start, stop, f"row{number}.body", f"row{number}.end")
            self._label(f"row{number}.body")
        sums = RowSums(self._code, loop, blocks, self._slot, lambda var: self._variables[var.name])
        if is_rest:
            self._rest_of_row(loop, start, stop, blocks, sums)
        elif is_few(loop):
            self._loop_of_vectors(loop, start, stop, blocks, sums, is_rest=True)
        elif is_all_blocks(loop, blocks.together):
            self._loop_of_vectors(loop, start, stop, blocks, sums, is_rest=False)
        else:
            middle = self._code.end_of_blocks(start, stop, blocks.together)
            self._loop_of_vectors(loop, start, middle, blocks, sums, is_rest=False)
            are_single, narrow = blocks.lanes == blocks.together, vectors_of_rest(loop, blocks)
            if narrow is not None:
                blocks, self._calls, are_single = narrow, None, False
            self._rest_of_row(loop, middle, stop, blocks, sums, is_masked_only=are_single)
        sums.join(self._label)
        if is_rest:
            self._terminate(f"br label %row{number}.end")
            self._label(f"row{number}.end")

    def _rest_of_row(
        self,
        loop: For,
        start: str,
        stop: str,
        blocks: VectorCalls | SideBySide,
        sums: RowSums,
        *,
        is_masked_only: bool = False,
    ) -> None:
        """Single vectors, and then one that is masked, where that is not too much code.

        Masks that change from one vector to the next would take as long as what they are for; this
        one is the same in all rows.
        """
        if not is_short_step(blocks):
            self._loop_of_vectors(loop, start, stop, blocks, sums, is_rest=True)
            return
        size, middle = blocks.lanes, start
        if not is_masked_only:
            middle = self._code.end_of_blocks(start, stop, size)
            self._loop_of_vectors(loop, start, middle, blocks, sums, is_rest=False, step=size)
        number = self._number()
        self._enter(middle, stop, f"masked{number}.body", f"masked{number}.end")
        self._label(f"masked{number}.body")
        self._vectors(loop, middle, stop, blocks, sums, size, is_rest=True)
        self._terminate(f"br label %masked{number}.end")
        self._label(f"masked{number}.end")

    def _loop_of_vectors(
        self,
        loop: For,
        start: str,
        stop: str,
        blocks: VectorCalls | SideBySide,
        sums: RowSums | None = None,
        *,
        is_rest: bool,
        step: int | None = None,
    ) -> None:
        """A loop over vectors: several side by side, or over the rest, some of which is masked.

        So many elements, where that is given, are taken at a time.
        """
        step = step or (blocks.lanes if is_rest else blocks.together)
        if start.isdigit() and stop.isdigit() and int(stop) - int(start) <= step:
            self._vectors(loop, start, stop, blocks, sums, step, is_rest=is_rest)
            return
        number = self._number()
        body, end = f"for{number}.body", f"for{number}.end"
        index = f"%{identifier(loop.var.name)}.for{number}"
        entry = self._block
        self._enter(start, stop, body, end)
        self._label(body)
        place = len(self._code.lines)
        self._vectors(loop, index, stop, blocks, sums, step, is_rest=is_rest)
        # Known now: the block that the body ends in.
        phi = f"  {index} = phi i64 [ {start}, %{entry} ], [ {index}.next, %{self._block} ]"
        self._code.lines.insert(place, phi)
        flags = "nuw nsw" if start.isdigit() else "nsw"
        self._code.effect(f"{index}.next = add {flags} i64 {index}, {step}")
        self._code.effect(f"{index}.more = icmp slt i64 {index}.next, {stop}")
        # Copies of a loop that a row runs a few times would take more pointers through the rows.
        known = blocks.hints_of_vectors(is_rest) if sums is None else [*OF_VECTORS, NOT_UNROLLED]
        hints = loop_hints(loop, self._module.metadata, known)
        are_several = sums is not None and sums.has_several and step == blocks.together
        after = f"for{number}.joined" if are_several else end
        self._terminate(f"br i1 {index}.more, label %{body}, label %{after}, !llvm.loop {hints}")
        if sums is not None and after != end:
            self._label(after)
            sums.join_vectors()
            self._terminate(f"br label %{end}")
        self._label(end)

    def _vectors(
        self,
        loop: For,
        index: str,
        stop: str,
        blocks: VectorCalls | SideBySide,
        sums: RowSums | None,
        step: int,
        *,
        is_rest: bool,
    ) -> None:
        """The body of a loop over vectors, from one index on."""
        self._variables = self._variables.new_child()

        def bind(place: str) -> None:
            self._variables[loop.var.name] = place

        # Many programs have no such loops, and to import what prints them takes time.
        vector_loops = import_module("jitcore.codegen.printers.vector_loops")
        around = vector_loops.Surroundings(
            bind,
            self._expression,
            self._address,
            {} if sums is None else sums.steps,
            () if sums is None else sums.slots,
            self._twin,
            self._label,
            self._scopes,
        )
        # Functions are printed for all vectors at once, so that their operations take turns.
        lanes = step if blocks.is_width else blocks.lanes
        printer = vector_loops.VectorLoop(self._code, lanes, loop, around, contract=self._contract)
        printer.body(index, step, stop if is_rest else None)
        self._variables = self._variables.parents

    def _enter(self, start: str, stop: str, body: str, end: str) -> None:
        """Go to the body of a loop that has an iteration, which is known or asked."""
        if start.isdigit() and stop.isdigit():
            self._terminate(f"br label %{body if int(start) < int(stop) else end}")
            return
        has_any = self._code.value(f"icmp slt i64 {start}, {stop}")
        self._terminate(f"br i1 {has_any}, label %{body}, label %{end}")
