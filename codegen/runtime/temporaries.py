"""Memory of large temporaries and results: functions of native code that keep what was freed.

Fresh memory is slow the first time it is touched, because the operating system hands it out page
by page.  So a few blocks are kept for the next call, and large ones ask for huge pages, as NumPy
does for its arrays.  All functions may be called from any thread.

Processors tell loads from earlier stores by the place in a page first, so a load waits for a store
to the same place of another page.  A loop has many loads under way before its stores: where its
result lies up to 512 bytes further in a page than what it reads, it takes up to 1.5 times as long
(out of any cache, on a Zen 4; Intel's manuals call it 4K aliasing).  Large arrays of NumPy begin 16
bytes into a page, with ``malloc``, so large blocks begin at 1, 2 or 3 KB, in turns: what one loop
reads and writes of them is then apart as well, where it reads neighbours.

============================= ====================================================================
``jc_malloc(bytes)``          the address of new memory on a cache line's border; null without
``jc_free(address)``          gives it back, null is fine
``jc_array_malloc`` and its   the same in the form of NumPy's ``PyDataMem_Handler``, so that large
like                          results are kept as well when the program drops them
``jc_memory_in_use()``        the bytes that all of these have given out
``jc_most_memory_in_use(x)``  the most at any time since the last call; begins anew
============================= ====================================================================
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

from jitcore.codegen.engine import CompiledModule

__all__ = ["LEAST_KEPT", "LEAST_POOLED", "make_array_handler", "temporaries_text"]

LEAST_KEPT = 64 * 1024
"""Below this ``malloc`` keeps memory itself, and is faster."""

LEAST_POOLED = 16 * 1024
"""Results with so many elements come from here.  Smaller ones cost no new pages: NumPy and
``malloc`` keep their memory."""

_BLOCKS = 16
"""How many blocks are kept."""

_LEAST_ROOM, _MOST_ROOM = 256 * 1024 * 1024, 1024 * 1024 * 1024
_SHARE = 32
"""A part of the machine's memory may be kept, within these bounds; what is over goes back to the
operating system."""

_LEAST_HUGE = 4 * 1024 * 1024
"""From this size on NumPy asks for huge pages (its ``alloc.c``), which have 2 MiB on Linux."""

# Before a block's memory stand the address that malloc gave and the number of usable bytes.
_TEXT = """
@blocks = internal global [BLOCKS x ptr] zeroinitializer
@kept = internal global i64 0
@in_use = internal global i64 0
@most = internal global i64 0
@made = internal global i64 0
declare ptr @malloc(i64)
declare void @free(ptr)
ADVISE

define ptr @jc_malloc(i64 %bytes) {
entry:
  %short = icmp ult i64 %bytes, LEAST_KEPT
  br i1 %short, label %fresh, label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %latch ]
  %more = icmp ult i64 %i, BLOCKS
  br i1 %more, label %look, label %fresh
look:
  %slot = getelementptr ptr, ptr @blocks, i64 %i
  %seen = load atomic ptr, ptr %slot monotonic, align 8
  %empty = icmp eq ptr %seen, null
  br i1 %empty, label %latch, label %take
take:
  %block = atomicrmw xchg ptr %slot, ptr null acquire
  %taken = icmp eq ptr %block, null
  br i1 %taken, label %latch, label %measure
measure:
  %size.place = getelementptr i64, ptr %block, i64 -1
  %size = load i64, ptr %size.place
  %ignored.kept = atomicrmw sub ptr @kept, i64 %size monotonic
  %large = icmp uge i64 %size, %bytes
  %quarter = lshr i64 %size, 2
  %close = icmp ule i64 %quarter, %bytes
  %fits = and i1 %large, %close
  br i1 %fits, label %found, label %unfit
found:
  call void @count_in(i64 %size)
  ret ptr %block
unfit:
  call void @put_away(ptr %block)
  br label %latch
latch:
  %next = add i64 %i, 1
  br label %head
fresh:
  %number.made = atomicrmw add ptr @made, i64 1 monotonic
  %turn = urem i64 %number.made, 3
  %turn.place = shl i64 %turn, 10
  %large.place = add i64 %turn.place, 1024
  %place = select i1 %short, i64 0, i64 %large.place
  %mask = select i1 %short, i64 63, i64 4095
  %before.place = sub i64 %mask, %place
  %beside = add i64 %mask, 65
  %with.header = add i64 %bytes, %beside
  %start = call ptr @malloc(i64 %with.header)
  %failed = icmp eq ptr %start, null
  br i1 %failed, label %none, label %align
none:
  ret ptr null
align:
  %number = ptrtoint ptr %start to i64
  %behind.header = add i64 %number, 64
  %behind = add i64 %behind.header, %before.place
  %inverse = xor i64 %mask, -1
  %page.before = and i64 %behind, %inverse
  %aligned = add i64 %page.before, %place
  %made = inttoptr i64 %aligned to ptr
  %start.place = getelementptr ptr, ptr %made, i64 -2
  store ptr %start, ptr %start.place
  %bytes.place = getelementptr i64, ptr %made, i64 -1
  store i64 %bytes, ptr %bytes.place
  %huge = icmp uge i64 %bytes, LEAST_HUGE
  br i1 %huge, label %advise, label %ready
advise:
  %page.end = add i64 %aligned, 4095
  %page = and i64 %page.end, -4096
  %page.place = inttoptr i64 %page to ptr
  %whole.pages = sub i64 %bytes, 4096
  ADVICE
  br label %ready
ready:
  call void @count_in(i64 %bytes)
  ret ptr %made
}

define void @jc_free(ptr %block) {
entry:
  %null = icmp eq ptr %block, null
  br i1 %null, label %done, label %count
count:
  %size.place = getelementptr i64, ptr %block, i64 -1
  %size = load i64, ptr %size.place
  %ignored = atomicrmw sub ptr @in_use, i64 %size monotonic
  call void @put_away(ptr %block)
  br label %done
done:
  ret void
}

define internal void @count_in(i64 %bytes) {
  %before = atomicrmw add ptr @in_use, i64 %bytes monotonic
  %now = add i64 %before, %bytes
  %ignored = atomicrmw umax ptr @most, i64 %now monotonic
  ret void
}

; Keep a block that nobody uses, or let another one go for it, or drop it.
define internal void @put_away(ptr %block) {
entry:
  %size.place = getelementptr i64, ptr %block, i64 -1
  %size = load i64, ptr %size.place
  %is.short = icmp ult i64 %size, LEAST_KEPT
  br i1 %is.short, label %drop, label %reserve
reserve:
  %before = atomicrmw add ptr @kept, i64 %size monotonic
  %after = add i64 %before, %size
  %is.much = icmp ugt i64 %after, MOST_KEPT
  br i1 %is.much, label %give.up, label %head
give.up:
  %ignored.1 = atomicrmw sub ptr @kept, i64 %size monotonic
  br label %drop
head:
  %i = phi i64 [ 0, %reserve ], [ %next, %latch ]
  %more = icmp ult i64 %i, BLOCKS
  br i1 %more, label %keep, label %replace
keep:
  %slot = getelementptr ptr, ptr @blocks, i64 %i
  %exchange = cmpxchg ptr %slot, ptr null, ptr %block release monotonic
  %kept = extractvalue { ptr, i1 } %exchange, 1
  br i1 %kept, label %done, label %latch
latch:
  %next = add i64 %i, 1
  br label %head
replace:
  %replaced = atomicrmw xchg ptr @blocks, ptr %block acq_rel
  %is.null = icmp eq ptr %replaced, null
  br i1 %is.null, label %done, label %forget
forget:
  %replaced.size.place = getelementptr i64, ptr %replaced, i64 -1
  %replaced.size = load i64, ptr %replaced.size.place
  %ignored.2 = atomicrmw sub ptr @kept, i64 %replaced.size monotonic
  br label %drop
drop:
  %dropped = phi ptr [ %block, %entry ], [ %block, %give.up ], [ %replaced, %forget ]
  %start.place = getelementptr ptr, ptr %dropped, i64 -2
  %start = load ptr, ptr %start.place
  call void @free(ptr %start)
  br label %done
done:
  ret void
}

define i64 @jc_memory_in_use() {
  %bytes = load atomic i64, ptr @in_use monotonic, align 8
  ret i64 %bytes
}

define i64 @jc_most_memory_in_use() {
  %bytes = load atomic i64, ptr @in_use monotonic, align 8
  %most = atomicrmw xchg ptr @most, i64 %bytes monotonic
  ret i64 %most
}

; The functions of a PyDataMem_Handler.
declare i64 @llvm.umin.i64(i64, i64)
declare {i64, i1} @llvm.umul.with.overflow.i64(i64, i64)

define ptr @jc_array_malloc(ptr %context, i64 %bytes) {
  %block = call ptr @jc_malloc(i64 %bytes)
  ret ptr %block
}

define ptr @jc_array_calloc(ptr %context, i64 %count, i64 %size) {
entry:
  %product = call {i64, i1} @llvm.umul.with.overflow.i64(i64 %count, i64 %size)
  %overflows = extractvalue {i64, i1} %product, 1
  br i1 %overflows, label %none, label %make
make:
  %bytes = extractvalue {i64, i1} %product, 0
  %block = call ptr @jc_malloc(i64 %bytes)
  %failed = icmp eq ptr %block, null
  br i1 %failed, label %none, label %clear
clear:
  call void @llvm.memset.p0.i64(ptr %block, i8 0, i64 %bytes, i1 false)
  ret ptr %block
none:
  ret ptr null
}

define ptr @jc_array_realloc(ptr %context, ptr %block, i64 %bytes) {
entry:
  %made = call ptr @jc_malloc(i64 %bytes)
  %failed = icmp eq ptr %made, null
  %fresh = icmp eq ptr %block, null
  %nothing = or i1 %failed, %fresh
  br i1 %nothing, label %done, label %copy
copy:
  %size.place = getelementptr i64, ptr %block, i64 -1
  %size = load i64, ptr %size.place
  %length = call i64 @llvm.umin.i64(i64 %size, i64 %bytes)
  call void @llvm.memcpy.p0.p0.i64(ptr %made, ptr %block, i64 %length, i1 false)
  call void @jc_free(ptr %block)
  br label %done
done:
  ret ptr %made
}

define void @jc_array_free(ptr %context, ptr %block, i64 %bytes) {
  call void @jc_free(ptr %block)
  ret void
}
"""


def temporaries_text() -> str:
    """The functions, as LLVM code; `runtime.arrays` compiles them with those for arrays."""
    text = _TEXT
    advises = sys.platform == "linux"
    replacements = {
        "ADVISE": "declare i32 @madvise(ptr, i64, i32)" if advises else "",
        "ADVICE": (
            "%ignored = call i32 @madvise(ptr %page.place, i64 %whole.pages, i32 14)"
            if advises
            else ""
        ),
        "BLOCKS": str(_BLOCKS),
        "LEAST_KEPT": str(LEAST_KEPT),
        "MOST_KEPT": str(_most_kept()),
        "LEAST_HUGE": str(_LEAST_HUGE),
    }
    for name, replacement in replacements.items():
        text = text.replace(name, replacement)
    return text


def _most_kept() -> int:
    """How many bytes are kept at most."""
    if sys.platform == "win32":
        return _LEAST_ROOM
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(max(memory // _SHARE, _LEAST_ROOM), _MOST_ROOM)


class _Handler(ctypes.Structure):
    """NumPy's ``PyDataMem_Handler``, version 1 (its ``ndarraytypes.h``)."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        *((field, ctypes.c_void_p) for field in ("context", "malloc", "calloc", "realloc", "free")),
    )


def make_array_handler(module: CompiledModule) -> Any:
    """A capsule that makes NumPy take the memory of an array from here.

    Arrays refer to it as long as they live, which may be longer than this module does, so neither
    it nor the machine code is ever given back.

    Parameters
    ----------
    module : CompiledModule
        That with the functions.

    Returns
    -------
    PyCapsule
        For ``PyDataMem_SetHandler``.
    """
    handler = _Handler(b"jitcore", 1, None)
    for field in ("malloc", "calloc", "realloc", "free"):
        setattr(handler, field, module.address(f"jc_array_{field}"))
    new_capsule = ctypes.pythonapi.PyCapsule_New
    new_capsule.restype = ctypes.py_object
    new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    capsule = new_capsule(ctypes.addressof(handler), _CAPSULE_NAME, None)
    for owner in (handler, capsule, module):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))
    return capsule


_CAPSULE_NAME = b"mem_handler"
