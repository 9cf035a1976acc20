"""Calls of device functions without a step of Python between the caller and the driver.

A direct entry takes jitcore's own arrays: it reads the shadow that an array keeps, checks it as any
entry does, and calls the native function.  It holds the GIL from begin to end, so that it needs no
lock: what `codegen.cuda.calls` notes of a running call in Python is a **record** here::

    record: the direct call before, the stream before, the functions of Python for memory,
            where a block has its address

It lies in the entry's frame, and ``jc_cuda_direct`` has its address while the native function runs.
Where that needs memory, ``jc_cuda_ask`` calls Python, which may run other threads: for that time
the words are what they were before the call (``jc_cuda_leave``, ``jc_cuda_enter``).

All arrays have to lie in one pool, whose memory is the default stream's, while no thread works on
another stream, and the device has to be the thread's current one.  Any other call goes on to the
next entry, and to `jitcore.cuda.executor` in the end.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from jitcore.codegen.cuda.memory import ensure_memory
from jitcore.codegen.engine import CompiledModule, add_maker, add_symbol, compile_module
from jitcore.codegen.entries import layout
from jitcore.codegen.entries.boxing import box_results
from jitcore.codegen.entries.entry import CaptureGuard, Entry, EntryWriter, ReleaseGil
from jitcore.codegen.entries.entry_code import EntryCode
from jitcore.codegen.entries.signature import Signature
from jitcore.codegen.runtime.arrays import MAX_RANK
from jitcore.codegen.runtime.functions import ensure_runtime, function_address
from jitcore.ir.bfloat16 import bfloat16
from jitcore.ir.dataclass import dataclass

__all__ = ["DirectEntry", "Place", "ensure_direct", "make_direct_entry"]

_TAKE, _LEND, _LEND_SCRATCH, _GIVE_BACK = range(4)

_NUMPY_DTYPES: dict[int, np.dtype[Any]] = {
    np.dtype(char).num: np.dtype(char) for char in layout.DTYPE_CHARS
}
_BFLOAT16, _ARRAY_TYPE = 32, 33
"""Places in the table of objects, behind NumPy's dtypes by their numbers; bfloat16's is larger."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the arrays of direct calls lie, and what makes more there.

    Parameters
    ----------
    array_type, block_type : type
        Those of arrays and of their memory, whose slots ``owner``, ``_kept_shadow``, ``_pool``,
        ``stream`` and ``address`` are read.
    pool : object
    functions : tuple of four callables
        ``take(bytes)``: a block for a new array.  ``lend(bytes)`` and ``lend_scratch(bytes)``: the
        address of memory for a temporary.  ``give_back(address)``.
    adopt : callable
        Gets what the native function gives, with shadows for new arrays, and gives the arrays.
    """

    array_type: type
    block_type: type
    pool: object
    functions: tuple[Callable[[int], Any], ...]
    adopt: Callable[[Any], Any]


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
        layout.fill_table(_make().address("jc_cuda_objects"), {_BFLOAT16: bfloat16()})
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

    def _shadow(self, code: EntryCode, value: str) -> str:
        """The shadow that an array keeps; misses where the array does not lie in the pool."""
        array_type, block_type = self._place.array_type, self._place.block_type
        code.guard_type(value, array_type)
        owner = code.load("ptr", value, layout.slot_offset(array_type, "owner"))
        shadow = code.load("ptr", value, layout.slot_offset(array_type, "_kept_shadow"))
        code.guard(code.value(f"icmp ne ptr {owner}, null"))
        code.guard(code.value(f"icmp ne ptr {shadow}, null"))
        code.guard_type(owner, block_type)
        pool = code.load("ptr", owner, layout.slot_offset(block_type, "_pool"))
        stream = code.load("ptr", owner, layout.slot_offset(block_type, "stream"))
        code.guard(
            code.same(pool, code.constant(self._place.pool)), code.same(stream, code.constant(0))
        )
        return shadow

    def _check_arguments(self) -> None:
        super()._check_arguments()
        code = self._code
        _, ask, context = _words(self._name)
        found = code.alloca("ptr")
        code.effect(f"store ptr null, ptr {found}")
        code.effect(f"call i32 {code.load('ptr', f'@{ask}')}(ptr {found})")
        code.guard(
            code.same(code.load("ptr", found), code.load("ptr", f"@{context}")),
            code.same(code.load("i64", "@jc_cuda_streams"), "0", "i64"),
        )

    def _call_native(self, native_symbol: str, operands: str, release_gil: ReleaseGil) -> str:
        code = self._code
        native, _, _ = _words(self._name)
        record = code.alloca("[4 x ptr]")
        items = code.offset(code.constant(self._place.functions), layout.TUPLE_ITEMS)
        address = layout.slot_offset(self._place.block_type, "address")
        code.effect(f"store ptr {items}, ptr {code.offset(record, 16)}")
        code.effect(f"store i64 {address}, ptr {code.offset(record, 24)}")
        function = code.load("ptr", f"@{native}")
        code.call("void", "jc_cuda_enter", f"ptr {record}")
        status = code.value(f"call i64 {function}({operands})")
        code.call("void", "jc_cuda_leave", f"ptr {record}")
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
        adopt = code.constant(self._place.adopt)
        return code.call("ptr", "jc_cuda_adopt", f"ptr {adopt}", f"ptr {boxed}")

    def _text(self) -> str:
        words = [f"@{word} = dso_local global ptr null" for word in _words(self._name)]
        return "\n".join([*words, "@jc_cuda_streams = external global i64", super()._text()])


_SYMBOLS = (
    "jc_cuda_adopt",
    "jc_cuda_decref",
    "jc_cuda_direct_empty",
    "jc_cuda_direct_free",
    "jc_cuda_direct_malloc",
    "jc_cuda_direct_scratch",
    "jc_cuda_enter",
    "jc_cuda_leave",
    "jc_cuda_pause",
)

_TEXT = """
@jc_cuda_stream = external global ptr
@jc_cuda_direct = external global ptr
@jc_cuda_objects = dso_local global [{objects} x ptr] zeroinitializer
@sizes = internal constant [{objects} x i64] [{sizes}]
declare ptr @jc_array_new(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare i32 @jc_array_set_base(ptr, ptr)
declare void @jc_decref(ptr)
declare ptr @PyErr_Occurred()
declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare void @Py_DecRef(ptr)
declare void @Py_IncRef(ptr)

; Both do nothing without a record.
define void @jc_cuda_enter(ptr %record) {{
entry:
  %none = icmp eq ptr %record, null
  br i1 %none, label %done, label %enter
enter:
  %direct = load ptr, ptr @jc_cuda_direct
  %stream = load ptr, ptr @jc_cuda_stream
  %place = getelementptr ptr, ptr %record, i64 1
  store ptr %direct, ptr %record
  store ptr %stream, ptr %place
  store ptr %record, ptr @jc_cuda_direct
  store ptr null, ptr @jc_cuda_stream
  br label %done
done:
  ret void
}}

define void @jc_cuda_leave(ptr %record) {{
entry:
  %none = icmp eq ptr %record, null
  br i1 %none, label %done, label %leave
leave:
  %place = getelementptr ptr, ptr %record, i64 1
  %direct = load ptr, ptr %record
  %stream = load ptr, ptr %place
  store ptr %direct, ptr @jc_cuda_direct
  store ptr %stream, ptr @jc_cuda_stream
  br label %done
done:
  ret void
}}

; Leaves the direct call that runs, if one does, until jc_cuda_enter gets the record again.
define ptr @jc_cuda_pause() {{
  %record = load ptr, ptr @jc_cuda_direct
  call void @jc_cuda_leave(ptr %record)
  ret ptr %record
}}

; Python runs where the last reference goes.
define void @jc_cuda_decref(ptr %object) {{
  %record = call ptr @jc_cuda_pause()
  call void @jc_decref(ptr %object)
  call void @jc_cuda_enter(ptr %record)
  ret void
}}

; What a function of the record gives for a number: a new reference, or null with an exception set.
; After one has raised, none is called any more.
define internal ptr @jc_cuda_ask(ptr %record, i64 %function, i64 %number) {{
entry:
  %vector = alloca ptr
  %raised = call ptr @PyErr_Occurred()
  %well = icmp eq ptr %raised, null
  br i1 %well, label %ask, label %failed
ask:
  call void @jc_cuda_leave(ptr %record)
  %object = call ptr @PyLong_FromLongLong(i64 %number)
  store ptr %object, ptr %vector
  %missing = icmp eq ptr %object, null
  br i1 %missing, label %done, label %call
call:
  %functions.slot = getelementptr ptr, ptr %record, i64 2
  %functions = load ptr, ptr %functions.slot
  %slot = getelementptr ptr, ptr %functions, i64 %function
  %callable = load ptr, ptr %slot
  %given = call ptr @PyObject_Vectorcall(ptr %callable, ptr %vector, i64 1, ptr null)
  call void @Py_DecRef(ptr %object)
  br label %done
done:
  %result = phi ptr [ null, %ask ], [ %given, %call ]
  call void @jc_cuda_enter(ptr %record)
  ret ptr %result
failed:
  ret ptr null
}}

define internal ptr @address(ptr %object) {{
entry:
  %missing = icmp eq ptr %object, null
  br i1 %missing, label %done, label %read
read:
  %found = call ptr @PyLong_AsVoidPtr(ptr %object)
  call void @Py_DecRef(ptr %object)
  br label %done
done:
  %result = phi ptr [ null, %entry ], [ %found, %read ]
  ret ptr %result
}}

define ptr @jc_cuda_direct_malloc(ptr %record, i64 %size) {{
  %object = call ptr @jc_cuda_ask(ptr %record, i64 {lend}, i64 %size)
  %result = call ptr @address(ptr %object)
  ret ptr %result
}}

define ptr @jc_cuda_direct_scratch(ptr %record, i64 %size) {{
  %object = call ptr @jc_cuda_ask(ptr %record, i64 {lend_scratch}, i64 %size)
  %result = call ptr @address(ptr %object)
  ret ptr %result
}}

define void @jc_cuda_direct_free(ptr %record, ptr %address) {{
  %number = ptrtoint ptr %address to i64
  %object = call ptr @jc_cuda_ask(ptr %record, i64 {give_back}, i64 %number)
  call void @Py_DecRef(ptr %object)
  ret void
}}

; The shadow of a new array, which keeps the array's block: its base.
define ptr @jc_cuda_direct_empty(ptr %record, i64 %dtype, i64 %order, i64 %ndim, {dims}) {{
entry:
  %shape = alloca [{rank} x i64]
  %strides = alloca [{rank} x i64]
{stores}
  %kind = call i64 @llvm.umin.i64(i64 %dtype, i64 {bfloat16})
  %size.slot = getelementptr i64, ptr @sizes, i64 %kind
  %itemsize = load i64, ptr %size.slot
{product}
  ; No device has as much memory as the largest number that is asked for.
  %size = call i64 @llvm.umin.i64(i64 %n{last}, i64 4611686018427387904)
  %block = call ptr @jc_cuda_ask(ptr %record, i64 {take}, i64 %size)
  %none = icmp eq ptr %block, null
  br i1 %none, label %failed, label %taken
taken:
  %offset.slot = getelementptr ptr, ptr %record, i64 3
  %offset = load i64, ptr %offset.slot
  %address.slot = getelementptr i8, ptr %block, i64 %offset
  %address.object = load ptr, ptr %address.slot
  %address = call ptr @PyLong_AsVoidPtr(ptr %address.object)
  %is.ordered = icmp ule i64 %order, 1
  br i1 %is.ordered, label %new, label %rearranged
rearranged:
  %axes = lshr i64 %order, 8
  br label %axis
axis:
  %step = phi i64 [ 0, %rearranged ], [ %next.step, %axis ]
  %left = phi i64 [ %axes, %rearranged ], [ %next.left, %axis ]
  %stride = phi i64 [ %itemsize, %rearranged ], [ %next.stride, %axis ]
  %number = and i64 %left, 15
  %at.stride = getelementptr i64, ptr %strides, i64 %number
  store i64 %stride, ptr %at.stride
  %at.extent = getelementptr i64, ptr %shape, i64 %number
  %extent = load i64, ptr %at.extent
  ; Without elements NumPy computes strides as if there were one.
  %positive = call i64 @llvm.smax.i64(i64 %extent, i64 1)
  %next.stride = mul i64 %stride, %positive
  %next.left = lshr i64 %left, 4
  %next.step = add i64 %step, 1
  %more = icmp slt i64 %next.step, %ndim
  br i1 %more, label %axis, label %new
new:
  %steps = phi ptr [ null, %taken ], [ %strides, %axis ]
  %is.fortran = icmp eq i64 %order, 1
  %flags = select i1 %is.fortran, i32 {fortran}, i32 {c}
  %nd = trunc i64 %ndim to i32
  %descr.slot = getelementptr ptr, ptr @jc_cuda_objects, i64 %kind
  %descr = load ptr, ptr %descr.slot
  call void @Py_IncRef(ptr %descr)
  %type.slot = getelementptr ptr, ptr @jc_cuda_objects, i64 {array_type}
  %type = load ptr, ptr %type.slot
  %array = call ptr @jc_array_new(ptr %type, ptr %descr, i32 %nd, ptr %shape, ptr %steps,
    ptr %address, i32 %flags, ptr null)
  %lost = icmp eq ptr %array, null
  br i1 %lost, label %drop, label %based
based:
  call i32 @jc_array_set_base(ptr %array, ptr %block)
  ret ptr %array
drop:
  call void @Py_DecRef(ptr %block)
  br label %failed
failed:
  ret ptr null
}}

; What a function makes of an object, whose reference it takes; of null it makes null.
define ptr @jc_cuda_adopt(ptr %function, ptr %object) {{
entry:
  %vector = alloca ptr
  store ptr %object, ptr %vector
  %missing = icmp eq ptr %object, null
  br i1 %missing, label %done, label %call
call:
  %made = call ptr @PyObject_Vectorcall(ptr %function, ptr %vector, i64 1, ptr null)
  call void @Py_DecRef(ptr %object)
  br label %done
done:
  %result = phi ptr [ null, %entry ], [ %made, %call ]
  ret ptr %result
}}
"""


def _text() -> str:
    axes = range(MAX_RANK)
    writeable = layout.ARRAY_ALIGNED | layout.ARRAY_WRITEABLE
    sizes: dict[int, int] = {number: dtype.itemsize for number, dtype in _NUMPY_DTYPES.items()}
    sizes[_BFLOAT16] = 2
    products = (
        f"  %n{axis} = call i64 @llvm.umul.fix.sat.i64("
        f"i64 {f'%n{axis - 1}' if axis else '%itemsize'}, i64 %d{axis}, i32 0)"
        for axis in axes
    )
    return _TEXT.format(
        array_type=_ARRAY_TYPE,
        bfloat16=_BFLOAT16,
        c=writeable | layout.ARRAY_C_CONTIGUOUS,
        dims=", ".join(f"i64 %d{axis}" for axis in axes),
        fortran=writeable | layout.ARRAY_F_CONTIGUOUS,
        give_back=_GIVE_BACK,
        last=MAX_RANK - 1,
        lend=_LEND,
        lend_scratch=_LEND_SCRATCH,
        objects=_ARRAY_TYPE + 1,
        product="\n".join(products),
        rank=MAX_RANK,
        sizes=", ".join(f"i64 {sizes.get(number, 0)}" for number in range(_ARRAY_TYPE + 1)),
        stores="\n".join(
            f"  %p{axis} = getelementptr i64, ptr %shape, i64 {axis}\n"
            f"  store i64 %d{axis}, ptr %p{axis}"
            for axis in axes
        ),
        take=_TAKE,
    )


@cache
def _make() -> CompiledModule:
    """Compile what direct entries and their native functions call."""
    for name in ("PyErr_Occurred", "PyLong_AsVoidPtr"):
        add_symbol(name, function_address(name))
    module = compile_module(_text(), name="direct calls", effort="code")
    objects: dict[int, Any] = {**_NUMPY_DTYPES, _ARRAY_TYPE: np.ndarray}
    layout.fill_table(module.address("jc_cuda_objects"), objects)
    for symbol in _SYMBOLS:
        add_symbol(symbol, module.address(symbol))
    return module


def ensure_direct() -> None:
    """Make what native code calls for memory, and beside it, known to the engine."""
    ensure_memory()
    for symbol in _SYMBOLS:
        add_maker(symbol, _make)
