"""Calls of device functions with as few steps of Python as there may be before the driver.

A direct entry gets the shadow of each array, checks it as any entry does, and calls the native
function.  One of jitcore's own arrays keeps a shadow, which is read where it lies.  For the types
of other arrays a dict has **functions** of Python, a tuple in the order of ``FUNCTIONS``
(`codegen.cuda.direct_runtime`), that read such arrays and make new ones; those of the first array's
type are the call's.

The entry holds the GIL from begin to end, so that it needs no lock: what `codegen.cuda.calls` notes
of a running call in Python is a **record** here::

    record: the direct call before, the stream before, the call's functions, the call's stream

It lies in the entry's frame, and ``jc_cuda_direct`` has its address while the native function runs.
Where that needs memory, ``jc_cuda_ask`` calls Python, which may run other threads: for that time
the words are what they were before the call (``jc_cuda_leave``, ``jc_cuda_enter``).

The device has to be the thread's current one.  Any other call goes on to the next entry, and to
`jitcore.cuda.executor` in the end.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitcore.codegen.cuda.direct_runtime import STREAM_WORD, ensure_direct, know_bfloat16
from jitcore.codegen.engine import CompiledModule, compile_module
from jitcore.codegen.entries import layout
from jitcore.codegen.entries.boxing import box_results
from jitcore.codegen.entries.entry import CaptureGuard, Entry, EntryWriter, ReleaseGil
from jitcore.codegen.entries.entry_code import EntryCode
from jitcore.codegen.entries.signature import ArrayResult, Result, Signature, TupleResult
from jitcore.codegen.runtime.functions import ensure_runtime
from jitcore.ir.dataclass import dataclass

__all__ = ["DirectEntry", "Place", "make_direct_entry"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where the arrays of direct calls lie.

    Parameters
    ----------
    array_type, block_type : type
        Those of jitcore's own arrays and of their memory, whose slots ``owner``, ``_kept_shadow``,
        ``_pool`` and ``stream`` are read.
    pool : object
        That of the device.
    functions : dict of type to tuple of callable
        By the types of arrays, jitcore's own among them; more may come.
    """

    array_type: type
    block_type: type
    pool: object
    functions: dict[type, tuple[Callable[..., Any], ...]]


@dataclass(frozen=True, slots=True)
class DirectEntry:
    """A compiled direct entry, to be bound as any other."""

    entry: Entry
    module: CompiledModule

    @property
    def address(self) -> int:
        """That of the entry function."""
        return self.module.address(self.entry.symbol)


def make_direct_entry(
    signature: Signature,
    native: int,
    place: Place,
    context: tuple[int, int],
    *,
    name: str,
    captures: Sequence[CaptureGuard],
) -> DirectEntry:
    """Compile the direct entry of a native function that holds the GIL.

    Parameters
    ----------
    signature : Signature
        Its arrays are those of ``place``.
    native : int
        The function's address.
    place : Place
    context : tuple of two int
        The address of ``cuCtxGetCurrent``, and what it has to give.
    name : str
        A C identifier.
    captures : sequence of CaptureGuard
    """
    ensure_direct()
    ensure_runtime()
    if "bfloat16" in np.sctypeDict:
        know_bfloat16()
    writer = _DirectEntryWriter(signature, f"direct_{name}", captures, place)
    entry = writer.entry("", release_gil="never", check_errstate=True)
    module = compile_module(entry.text, name=name, effort="code")
    entry.fill(module)
    words = zip(_words(entry.name), (native, *context), strict=True)
    for symbol, value in words:
        ctypes.c_uint64.from_address(module.address(symbol)).value = value
    return DirectEntry(entry, module)


def _words(name: str) -> tuple[str, str, str]:
    """The words of an entry's module: the native function, ``cuCtxGetCurrent``, the context."""
    return f"native_{name}", f"ask_context_{name}", f"context_{name}"


class _DirectEntryWriter(EntryWriter):
    """Writes one direct entry."""

    def __init__(
        self, signature: Signature, name: str, captures: Sequence[CaptureGuard], place: Place
    ) -> None:
        super().__init__(signature, name, captures)
        self._place = place
        self._found.header = self._shadow
        self._record = self._code.alloca("[4 x ptr]")

    def _shadow(self, code: EntryCode, value: str) -> str:
        """The shadow of an array, which lives until the entry returns."""
        table = code.constant(self._place.functions)
        if not self._found.arrays:
            own = code.constant(self._place.array_type)
            first = (f"ptr {self._record}", f"ptr {table}", f"ptr {own}", f"ptr {value}")
            self._check_answer(code.call("i1", "jc_cuda_start", *first))
        kept = self._kept_shadow(code, value)
        read, done, before = code.new_label("read"), code.new_label("shadow"), code.block
        code.branch_as_usual(code.value(f"icmp ne ptr {kept}, null"), done, read)
        code.start(read)
        operands = (f"ptr {self._record}", f"ptr {table}", f"ptr {value}")
        made = code.call("ptr", "jc_cuda_shadow", *operands)
        self._check_answer(code.value(f"icmp ne ptr {made}, null"))
        code.own(made)
        after = code.block
        code.jump(done)
        code.start(done)
        return code.value(f"phi ptr [ {kept}, %{before} ], [ {made}, %{after} ]")

    def _kept_shadow(self, code: EntryCode, value: str) -> str:
        """The shadow that one of jitcore's own arrays keeps; null of all others.

        Its memory has to be the pool's and the default stream's, which is the call's, while no
        thread works on another stream.
        """
        array_type, block_type = self._place.array_type, self._place.block_type
        before = code.block
        labels = [code.new_label(name) for name in ("own", "block", "kept")]
        type_ = code.load("ptr", value, layout.OBJECT_TYPE)
        is_own = code.same(type_, code.constant(array_type))
        code.branch_as_usual(is_own, labels[0], labels[2])
        code.start(labels[0])
        owner = code.load("ptr", value, layout.slot_offset(array_type, "owner"))
        owner_type = code.load("ptr", owner, layout.OBJECT_TYPE)
        is_block = code.same(owner_type, code.constant(block_type))
        code.branch_as_usual(is_block, labels[1], labels[2])
        code.start(labels[1])
        pool = code.load("ptr", owner, layout.slot_offset(block_type, "_pool"))
        stream = code.load("ptr", owner, layout.slot_offset(block_type, "stream"))
        shadow = code.load("ptr", value, layout.slot_offset(array_type, "_kept_shadow"))
        fits = [
            code.same(pool, code.constant(self._place.pool)),
            code.same(stream, code.constant(0)),
            code.same(code.load("ptr", self._record, STREAM_WORD), "null"),
            code.same(code.load("i64", "@jc_cuda_streams"), "0", "i64"),
            code.value(f"icmp ne ptr {shadow}, {code.constant(None)}"),
        ]
        suits = code.value(f"and i1 {fits[0]}, {fits[1]}")
        for one in fits[2:]:
            suits = code.value(f"and i1 {suits}, {one}")
        kept = code.value(f"select i1 {suits}, ptr {shadow}, ptr null")
        code.jump(labels[2])
        code.start(labels[2])
        ways = [f"[ null, %{before} ]", f"[ null, %{labels[0]} ]", f"[ {kept}, %{labels[1]} ]"]
        return code.value(f"phi ptr {', '.join(ways)}")

    def _check_answer(self, answered: str) -> None:
        """Go on where Python has answered, and miss where it has no answer but no error either."""
        code = self._code
        silent, stop = code.new_label("silent"), code.new_label("raised")
        go_on = code.new_label("answered")
        code.branch_as_usual(answered, go_on, silent)
        code.start(silent)
        raised = code.call("ptr", "PyErr_Occurred")
        code.branch_as_usual(code.same(raised, "null"), "miss", stop)
        code.start(stop)
        self._write_return("null", [])
        code.start(go_on)

    def _check_arguments(self) -> None:
        super()._check_arguments()
        code = self._code
        _, ask, context = _words(self._name)
        found = code.alloca("ptr")
        code.effect(f"store ptr null, ptr {found}")
        code.effect(f"call i32 {code.load('ptr', f'@{ask}')}(ptr {found})")
        code.guard(code.same(code.load("ptr", found), code.load("ptr", f"@{context}")))

    def _call_native(self, native_symbol: str, operands: str, release_gil: ReleaseGil) -> str:
        code = self._code
        native, _, _ = _words(self._name)
        function = code.load("ptr", f"@{native}")
        code.call("void", "jc_cuda_enter", f"ptr {self._record}")
        status = code.value(f"call i64 {function}({operands})")
        code.call("void", "jc_cuda_leave", f"ptr {self._record}")
        return status

    def _write_error(self, status: str, results: str, captured: list[str]) -> None:
        code = self._code
        raised = code.call("ptr", "PyErr_Occurred")
        stop, go_on = code.new_label("raised"), code.new_label("silent")
        code.branch_as_usual(code.same(raised, "null"), go_on, stop)
        code.start(stop)
        self._write_return("null", captured)
        code.start(go_on)
        super()._write_error(status, results, captured)

    def _box(self, results: str) -> str:
        code = self._code
        boxed = box_results(code, self._signature, self._found, results)
        if not _has_arrays(self._signature.result):
            return boxed
        return code.call("ptr", "jc_cuda_adopt", f"ptr {self._record}", f"ptr {boxed}")

    def _text(self) -> str:
        words = [f"@{word} = dso_local global ptr null" for word in _words(self._name)]
        return "\n".join([*words, "@jc_cuda_streams = external global i64", super()._text()])


def _has_arrays(result: Result) -> bool:
    """Whether there may be new arrays in a result."""
    if isinstance(result, TupleResult):
        return any(map(_has_arrays, result.elements))
    return isinstance(result, ArrayResult)
