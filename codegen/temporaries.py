"""Memory of large temporaries: ``jc_malloc`` and ``jc_free``, functions of native code.

Fresh memory is slow the first time it is touched, because the operating system hands it out page
by page.  So a few blocks are kept for the next call, and large ones ask for huge pages, as NumPy
does for its arrays.  Both functions may be called from any thread.

====================== ===========================================================================
``jc_malloc(bytes)``   the address of new memory on a cache line's border; null without memory
``jc_free(address)``    gives it back, null is fine
====================== ===========================================================================
"""

from __future__ import annotations

import sys

from jitcore.codegen.engine import CompiledModule, add_symbol, compile_module

__all__ = ["LEAST_KEPT", "make_temporaries"]

LEAST_KEPT = 64 * 1024
"""Below this ``malloc`` keeps memory itself, and is faster."""

_BLOCKS = 8
"""How many blocks are kept."""

_LARGEST_KEPT = 32 * 1024 * 1024
"""Larger blocks go back to the operating system."""

_LEAST_HUGE = 4 * 1024 * 1024
"""From this size on NumPy asks for huge pages (its ``alloc.c``), which have 2 MiB on Linux."""

# Before a block's memory stand the address that malloc gave and the number of usable bytes.
_TEXT = """
@blocks = internal global [BLOCKS x ptr] zeroinitializer
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
  %large = icmp uge i64 %size, %bytes
  %quarter = lshr i64 %size, 2
  %close = icmp ule i64 %quarter, %bytes
  %fits = and i1 %large, %close
  br i1 %fits, label %found, label %unfit
found:
  ret ptr %block
unfit:
  call void @jc_free(ptr %block)
  br label %latch
latch:
  %next = add i64 %i, 1
  br label %head
fresh:
  %with.header = add i64 %bytes, 128
  %start = call ptr @malloc(i64 %with.header)
  %failed = icmp eq ptr %start, null
  br i1 %failed, label %none, label %align
none:
  ret ptr null
align:
  %number = ptrtoint ptr %start to i64
  %behind = add i64 %number, 127
  %aligned = and i64 %behind, -64
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
  ret ptr %made
}

define void @jc_free(ptr %block) {
entry:
  %null = icmp eq ptr %block, null
  br i1 %null, label %done, label %measure
measure:
  %size.place = getelementptr i64, ptr %block, i64 -1
  %size = load i64, ptr %size.place
  %not.short = icmp uge i64 %size, LEAST_KEPT
  %not.long = icmp ule i64 %size, LARGEST_KEPT
  %is.kept = and i1 %not.short, %not.long
  br i1 %is.kept, label %head, label %drop
head:
  %i = phi i64 [ 0, %measure ], [ %next, %latch ]
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
  br i1 %is.null, label %done, label %drop
drop:
  %dropped = phi ptr [ %block, %measure ], [ %replaced, %replace ]
  %start.place = getelementptr ptr, ptr %dropped, i64 -2
  %start = load ptr, ptr %start.place
  call void @free(ptr %start)
  br label %done
done:
  ret void
}
"""


def make_temporaries() -> CompiledModule:
    """Compile the functions and make them known to the engine."""
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
        "LARGEST_KEPT": str(_LARGEST_KEPT),
        "LEAST_HUGE": str(_LEAST_HUGE),
    }
    for name, replacement in replacements.items():
        text = text.replace(name, replacement)
    module = compile_module(text, name="temporaries", optimize=False)
    for symbol in module.symbols:
        add_symbol(symbol, module.address(symbol))
    return module
