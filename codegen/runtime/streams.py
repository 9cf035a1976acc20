"""Writing past the caches: ``jc_stream``, a function of native code.

================================================= ================================================
``jc_stream(array, place, from, size)``           copies ``size`` bytes to ``place`` bytes after
                                                  ``array``, whole lines of the cache past it
================================================= ================================================

Stores past the caches are not in order with others, on x86.  Other threads see them after the next
instruction of this one that locks memory, such as the one by which a worker says that its part is
done, or a thread gives the GIL up (AMD64 Architecture Programmer's Manual, volume 2, and Intel 64
and IA-32 Architectures Software Developer's Manual, volume 3, on write combining).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jitcore.codegen.engine import add_library

__all__ = ["largest_cache"]

USUAL_CACHE = 32 * 1024 * 1024
"""What is assumed of a processor that the system says nothing about."""

_UNITS = {"K": 1024, "M": 1024 * 1024, "G": 1024 * 1024 * 1024}

_TEXT = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.umin.i64(i64, i64)
define void @jc_stream(ptr %array, i64 %place, ptr readonly captures(none) %from, i64 %size) {
entry:
  %to = getelementptr i8, ptr %array, i64 %place
  %address = ptrtoint ptr %to to i64
  %negated = sub i64 0, %address
  %to.line = and i64 %negated, 63
  %head = call i64 @llvm.umin.i64(i64 %to.line, i64 %size)
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %head, i1 false)
  %rest = sub i64 %size, %head
  %whole = and i64 %rest, -64
  %end = add i64 %head, %whole
  br label %next
next:
  %at = phi i64 [ %head, %entry ], [ %then, %line ]
  %more = icmp ult i64 %at, %end
  br i1 %more, label %line, label %done
line:
  %source = getelementptr i8, ptr %from, i64 %at
  %target = getelementptr i8, ptr %to, i64 %at
  %bytes = load <16 x i32>, ptr %source, align 1
  store <16 x i32> %bytes, ptr %target, align 64, !nontemporal !0
  %then = add i64 %at, 64
  br label %next
done:
  %last.from = getelementptr i8, ptr %from, i64 %end
  %last.to = getelementptr i8, ptr %to, i64 %end
  %tail = sub i64 %size, %end
  call void @llvm.memcpy.p0.p0.i64(ptr %last.to, ptr %last.from, i64 %tail, i1 false)
  ret void
}

!0 = !{i32 1}
"""


@cache
def largest_cache() -> int:
    """The size of the largest cache that this process's threads share, in bytes."""
    sizes = [_size(path) for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("*/size")]
    return max(sizes, default=0) or USUAL_CACHE


def _size(path: Path) -> int:
    """What a file of the system says, such as ``32768K``; 0 where that is nothing."""
    try:
        text = path.read_text().strip()
        return int(text[:-1]) * _UNITS[text[-1]] if text[-1:] in _UNITS else int(text)
    except (OSError, ValueError):
        return 0


add_library("jc_stream", lambda: _TEXT, "registers")
