"""Where the arrays of a plan lie, and the plan's steps as memory that native code walks."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np

from jitcore.codegen.engine import CompiledModule, add_symbol, compile_module
from jitcore.codegen.onednn import library as api
from jitcore.ir.dataclass import dataclass

__all__ = ["Buffer", "Check", "Execute", "Instance", "Step", "placed", "runner"]

_ALIGNMENT = 64


@dataclass(eq=False, slots=True)
class Buffer:
    """Memory of a plan: given by the caller, constant, or a part of the plan's own.

    Parameters
    ----------
    size : int
        In bytes.
    given : int or None
        The number of the address that the caller gives.
    constant : array or None
        What it always holds.
    """

    size: int
    given: int | None = None
    constant: Any = None

    @property
    def is_own(self) -> bool:
        """Whether it is a part of the plan's own memory."""
        return self.given is None and self.constant is None


@dataclass(frozen=True, slots=True)
class Execute:
    """Run a primitive with buffers and their descriptors, by argument number."""

    primitive: api.Owned
    arguments: dict[int, tuple[Buffer, api.Owned]]
    name: str

    @property
    def buffers(self) -> list[Buffer]:
        """All that it reads or writes."""
        return [buffer for buffer, _ in self.arguments.values()]


@dataclass(frozen=True, slots=True)
class Check:
    """Stop where an element of a buffer is NaN or larger than a limit."""

    buffer: Buffer
    limit: float

    @property
    def buffers(self) -> list[Buffer]:
        """What it reads."""
        return [self.buffer]


Step = Execute | Check


def placed(steps: Sequence[Step]) -> tuple[dict[Buffer, int], int]:
    """Where each of the plan's own buffers begins in one piece of memory, and how large that is.

    Buffers that are needed at the same time do not overlap: the largest come first, each at the
    first place where there is room (Pisarchyk and Lee, "Efficient Memory Management for Deep
    Neural Net Inference", 2020: greedy by size).
    """
    spans: dict[Buffer, tuple[int, int]] = {}
    for number, step in enumerate(steps):
        for buffer in step.buffers:
            if buffer.is_own:
                spans[buffer] = (spans.get(buffer, (number, 0))[0], number)
    places: dict[Buffer, int] = {}
    for buffer in sorted(spans, key=lambda one: -one.size):
        first, last = spans[buffer]
        taken = sorted(
            (place, place + other.size)
            for other, place in places.items()
            if spans[other][0] <= last and first <= spans[other][1]
        )
        start = 0
        for begin, end in taken:
            if start + buffer.size <= begin:
                break
            start = max(start, _aligned(end))
        places[buffer] = start
    return places, max((place + one.size for one, place in places.items()), default=0)


def _aligned(address: int) -> int:
    return -(-address // _ALIGNMENT) * _ALIGNMENT


class _Word(ctypes.Structure):
    """A step: 0 runs a primitive, 1 checks numbers."""

    _fields_ = (
        ("kind", ctypes.c_int64),
        ("object", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("argument", ctypes.c_void_p),
    )


@dataclass(eq=False, slots=True)
class Instance:
    """Memory for one call of a plan at a time, with all steps written down."""

    library: api.Library
    words: ctypes.Array[_Word]
    memories: list[tuple[int, api.Owned]] = field(default_factory=list)
    checks: list[tuple[int, int]] = field(default_factory=list)
    held: list[Any] = field(default_factory=list)

    @classmethod
    def of(cls, library: api.Library, steps: Sequence[Step]) -> Instance:
        """New memory for these steps."""
        places, size = placed(steps)
        own = np.empty(size + _ALIGNMENT, np.uint8)
        start = _aligned(own.ctypes.data)
        made = cls(library, (_Word * len(steps))())
        made.held += [own, steps]
        addresses = {buffer: start + place for buffer, place in places.items()}
        for number, step in enumerate(steps):
            if isinstance(step, Execute):
                made._add_primitive(number, step, addresses)
            else:
                made._add_check(number, step, addresses)
        return made

    def _add_primitive(self, number: int, step: Execute, places: dict[Buffer, int]) -> None:
        arguments = (api.Argument * len(step.arguments))()
        for place, (name, (buffer, descriptor)) in enumerate(step.arguments.items()):
            memory = self.library.memory(descriptor, _address(buffer, places))
            arguments[place] = api.Argument(name, memory.address)
            self.held.append(memory)
            if buffer.given is not None:
                self.memories.append((buffer.given, memory))
        self.held.append(arguments)
        address = ctypes.addressof(arguments)
        self.words[number] = _Word(0, step.primitive.address, len(arguments), address)

    def _add_check(self, number: int, step: Check, places: dict[Buffer, int]) -> None:
        limit = int(np.float32(step.limit).view(np.int32))
        address = _address(step.buffer, places)
        self.words[number] = _Word(1, address, step.buffer.size // 4, limit)
        if step.buffer.given is not None:
            self.checks.append((step.buffer.given, number))

    def run(self, addresses: Sequence[int]) -> bool:
        """Run all steps with the caller's memory; False where a check fails."""
        for given, memory in self.memories:
            self.library.call("memory_set_data_handle", memory, api.Handle(addresses[given]))
        for given, number in self.checks:
            self.words[number].object = addresses[given]
        status = runner(self.library)(self.words, len(self.words), self.library.stream.address)
        if status > 1:
            raise api.LibraryError("a primitive could not be run")
        return bool(status == 0)


def _address(buffer: Buffer, places: dict[Buffer, int]) -> int:
    if buffer.constant is not None:
        return int(buffer.constant.ctypes.data)
    return places.get(buffer, 0)


_RUNNER = """
%word = type { i64, ptr, i64, ptr }

declare i32 @dnnl_primitive_execute(ptr, ptr, i32, ptr)

define internal i1 @exceeds(ptr %numbers, i64 %count, i32 %limit) {
entry:
  br label %head
head:
  %number = phi i64 [ 0, %entry ], [ %next, %body ]
  %largest = phi i32 [ 0, %entry ], [ %larger, %body ]
  %is.done = icmp sge i64 %number, %count
  br i1 %is.done, label %end, label %body
body:
  %place = getelementptr i32, ptr %numbers, i64 %number
  %bits = load i32, ptr %place
  %magnitude = and i32 %bits, 2147483647
  %is.larger = icmp ugt i32 %magnitude, %largest
  %larger = select i1 %is.larger, i32 %magnitude, i32 %largest
  %next = add nuw nsw i64 %number, 1
  br label %head
end:
  %exceeds = icmp ugt i32 %largest, %limit
  ret i1 %exceeds
}

define i64 @jc_onednn_run(ptr %words, i64 %count, ptr %stream) {
entry:
  br label %head
head:
  %number = phi i64 [ 0, %entry ], [ %next, %after ]
  %is.done = icmp sge i64 %number, %count
  br i1 %is.done, label %succeeded, label %body
body:
  %word = getelementptr %word, ptr %words, i64 %number
  %kind = load i64, ptr %word
  %object.place = getelementptr %word, ptr %word, i64 0, i32 1
  %object = load ptr, ptr %object.place
  %size.place = getelementptr %word, ptr %word, i64 0, i32 2
  %size = load i64, ptr %size.place
  %argument.place = getelementptr %word, ptr %word, i64 0, i32 3
  %argument = load ptr, ptr %argument.place
  %is.check = icmp eq i64 %kind, 1
  br i1 %is.check, label %check, label %execute
check:
  %limit.wide = ptrtoint ptr %argument to i64
  %limit = trunc i64 %limit.wide to i32
  %exceeds = call i1 @exceeds(ptr %object, i64 %size, i32 %limit)
  br i1 %exceeds, label %refused, label %after
execute:
  %count32 = trunc i64 %size to i32
  %status = call i32 @dnnl_primitive_execute(ptr %object, ptr %stream, i32 %count32, ptr %argument)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %broken, label %after
after:
  %next = add nuw nsw i64 %number, 1
  br label %head
succeeded:
  ret i64 0
refused:
  ret i64 1
broken:
  ret i64 2
}
"""
"""All steps in a row: numbers compare as their bits do, and NaN is above infinity."""

_runners: dict[api.Library, tuple[Any, CompiledModule]] = {}


def runner(library: api.Library) -> Any:
    """The native function that walks the steps; it holds no lock of Python's."""
    if library not in _runners:
        execute = ctypes.cast(library.function("primitive_execute"), ctypes.c_void_p).value
        assert execute is not None
        add_symbol("dnnl_primitive_execute", execute)
        module = compile_module(_RUNNER, name="jc_onednn_run")
        signature = ctypes.CFUNCTYPE(
            ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p
        )
        _runners[library] = (signature(module.address("jc_onednn_run")), module)
    return _runners[library][0]
