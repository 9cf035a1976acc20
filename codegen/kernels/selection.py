"""Elements under a mask, one after the other: vectors whose selected lanes are moved together.

======================= ==========================================================================
``jc_compress_<bytes>`` writes the elements of a source at which the mask is true to a target
``jc_expand_<bytes>``   writes the elements of a source to the places where the mask is true
======================= ==========================================================================

All arrays are contiguous.  The mask has as many elements as what is selected from or written to,
and the other array as many as are true in it.  Elements have 1, 2, 4, 8 or 16 bytes.  On processors
that do not move lanes in one instruction, elements are moved one by one, each at the next bit of a
block of the mask: no branch depends on a single bit.
"""

from __future__ import annotations

from functools import partial

from jitcore.codegen.engine import add_library, has_feature

__all__ = ["SIZES", "compress_symbol", "expand_symbol"]

SIZES = (1, 2, 4, 8, 16)

_FEATURES = {1: "avx512vbmi2", 2: "avx512vbmi2"}
"""What a processor needs for elements of a size, where it is more than ``avx512f``."""

_VECTOR_BITS = 512
_AT_ONCE = 64
"""So many places of the mask are looked at together."""

MOST_ONE_BY_ONE = 8
"""So few of them that are true are moved faster one by one than as lanes."""

_COMPRESS = """
declare VECTOR @llvm.experimental.vector.compress.SUFFIX(VECTOR, <LANES x i1>, VECTOR)
declare i64 @llvm.ctpop.i64(i64)
declare i64 @llvm.cttz.i64(i64, i1)

define void @NAME(ptr %mask.memory, i64 %mask.offset, ptr %source.memory, i64 %source.offset,
                  ptr %target.memory, i64 %target.offset, i64 %length, i64 %count) {
entry:
  %mask = getelementptr i8, ptr %mask.memory, i64 %mask.offset
  %source = getelementptr ELEMENT, ptr %source.memory, i64 %source.offset
  %target = getelementptr ELEMENT, ptr %target.memory, i64 %target.offset
  %whole = and i64 %length, -64
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i.next, %latch ]
  %place = phi i64 [ 0, %entry ], [ %place.next, %latch ]
  %more = icmp slt i64 %i, %whole
  br i1 %more, label %look, label %rest
look:
  %flags.place = getelementptr i8, ptr %mask, i64 %i
  %flags = load <64 x i8>, ptr %flags.place, align 1
  %are.true = icmp ne <64 x i8> %flags, zeroinitializer
  %bits = bitcast <64 x i1> %are.true to i64
  %none = icmp eq i64 %bits, 0
  br i1 %none, label %latch, label %some
some:
  %first = getelementptr ELEMENT, ptr %source, i64 %i
TOGETHER
one:
  %left = phi i64 [ %bits, %some ], [ %left.next, %one ]
  %here = phi i64 [ %place, %some ], [ %here.next, %one ]
  %k = call i64 @llvm.cttz.i64(i64 %left, i1 true)
  %one.place = getelementptr ELEMENT, ptr %first, i64 %k
  %element = load ELEMENT, ptr %one.place, align 1
  %here.place = getelementptr ELEMENT, ptr %target, i64 %here
  store ELEMENT %element, ptr %here.place, align 1
  %here.next = add i64 %here, 1
  %less = sub i64 %left, 1
  %left.next = and i64 %left, %less
  %are.done = icmp eq i64 %left.next, 0
  br i1 %are.done, label %latch, label %one
latch:
  %place.next = phi i64 [ %place, %look ], [ %here.next, %one ] FROM
  %i.next = add i64 %i, 64
  br label %head
rest:
  %j = phi i64 [ %i, %head ], [ %j.next, %rest.latch ]
  %end = phi i64 [ %place, %head ], [ %end.next, %rest.latch ]
  %is.left = icmp slt i64 %j, %length
  br i1 %is.left, label %try, label %done
try:
  %flag.place = getelementptr i8, ptr %mask, i64 %j
  %flag = load i8, ptr %flag.place
  %is.true = icmp ne i8 %flag, 0
  br i1 %is.true, label %take, label %rest.latch
take:
  %last.place = getelementptr ELEMENT, ptr %source, i64 %j
  %last = load ELEMENT, ptr %last.place, align 1
  %end.place = getelementptr ELEMENT, ptr %target, i64 %end
  store ELEMENT %last, ptr %end.place, align 1
  %taken = add i64 %end, 1
  br label %rest.latch
rest.latch:
  %end.next = phi i64 [ %end, %try ], [ %taken, %take ]
  %j.next = add i64 %j, 1
  br label %rest
done:
  ret void
}
"""

_COMPRESS_LANES = """
  %all = call i64 @llvm.ctpop.i64(i64 %bits)
  %are.many = icmp ugt i64 %all, MOST
  %reach = add i64 %place, 64
  %is.room = icmp sle i64 %reach, %count
  %are.moved = and i1 %are.many, %is.room
  br i1 %are.moved, label %vectors, label %one
vectors:
  ; Wider than any number of lanes, so that every step may cut its own out.
  %wide = zext i64 %bits to i128
  %place.0 = add i64 %place, 0
STEPS
  br label %latch"""

_COMPRESS_STEP = """
  %shifted.K = lshr i128 %wide, FIRST
  %few.K = trunc i128 %shifted.K to iELEMENTS
  %flags.K = bitcast iELEMENTS %few.K to <ELEMENTS x i1>
  %lanes.K = shufflevector <ELEMENTS x i1> %flags.K, <ELEMENTS x i1> poison, <LANES x i32> ORDER
  %from.K = getelementptr ELEMENT, ptr %first, i64 FIRST
  %read.K = load VECTOR, ptr %from.K, align 1
  %moved.K = call VECTOR @llvm.experimental.vector.compress.SUFFIX(
    VECTOR %read.K, <LANES x i1> %lanes.K, VECTOR poison)
  %to.K = getelementptr ELEMENT, ptr %target, i64 %place.K
  store VECTOR %moved.K, ptr %to.K, align 1
  %these.K = zext iELEMENTS %few.K to i128
  %short.K = trunc i128 %these.K to i64
  %taken.K = call i64 @llvm.ctpop.i64(i64 %short.K)
  %place.NEXT = add i64 %place.K, %taken.K"""


_EXPAND = """
declare VECTOR @llvm.masked.expandload.SUFFIX(ptr, <LANES x i1>, VECTOR)
declare void @llvm.masked.store.SUFFIX.p0(VECTOR, ptr, i32, <LANES x i1>)
declare i64 @llvm.ctpop.i64(i64)
declare i64 @llvm.cttz.i64(i64, i1)

define void @NAME(ptr %mask.memory, i64 %mask.offset, ptr %source.memory, i64 %source.offset,
                  ptr %target.memory, i64 %target.offset, i64 %length) {
entry:
  %mask = getelementptr i8, ptr %mask.memory, i64 %mask.offset
  %source = getelementptr ELEMENT, ptr %source.memory, i64 %source.offset
  %target = getelementptr ELEMENT, ptr %target.memory, i64 %target.offset
  %whole = and i64 %length, -64
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i.next, %latch ]
  %place = phi i64 [ 0, %entry ], [ %place.next, %latch ]
  %more = icmp slt i64 %i, %whole
  br i1 %more, label %look, label %rest
look:
  %flags.place = getelementptr i8, ptr %mask, i64 %i
  %flags = load <64 x i8>, ptr %flags.place, align 1
  %are.true = icmp ne <64 x i8> %flags, zeroinitializer
  %bits = bitcast <64 x i1> %are.true to i64
  %none = icmp eq i64 %bits, 0
  br i1 %none, label %latch, label %some
some:
  %first = getelementptr ELEMENT, ptr %target, i64 %i
TOGETHER
one:
  %left = phi i64 [ %bits, %some ], [ %left.next, %one ]
  %here = phi i64 [ %place, %some ], [ %here.next, %one ]
  %k = call i64 @llvm.cttz.i64(i64 %left, i1 true)
  %here.place = getelementptr ELEMENT, ptr %source, i64 %here
  %element = load ELEMENT, ptr %here.place, align 1
  %one.place = getelementptr ELEMENT, ptr %first, i64 %k
  store ELEMENT %element, ptr %one.place, align 1
  %here.next = add i64 %here, 1
  %less = sub i64 %left, 1
  %left.next = and i64 %left, %less
  %are.done = icmp eq i64 %left.next, 0
  br i1 %are.done, label %latch, label %one
latch:
  %place.next = phi i64 [ %place, %look ], [ %here.next, %one ] FROM
  %i.next = add i64 %i, 64
  br label %head
rest:
  %j = phi i64 [ %i, %head ], [ %j.next, %rest.latch ]
  %end = phi i64 [ %place, %head ], [ %end.next, %rest.latch ]
  %is.left = icmp slt i64 %j, %length
  br i1 %is.left, label %try, label %done
try:
  %flag.place = getelementptr i8, ptr %mask, i64 %j
  %flag = load i8, ptr %flag.place
  %is.true = icmp ne i8 %flag, 0
  br i1 %is.true, label %give, label %rest.latch
give:
  %end.place = getelementptr ELEMENT, ptr %source, i64 %end
  %last = load ELEMENT, ptr %end.place, align 1
  %last.place = getelementptr ELEMENT, ptr %target, i64 %j
  store ELEMENT %last, ptr %last.place, align 1
  %given = add i64 %end, 1
  br label %rest.latch
rest.latch:
  %end.next = phi i64 [ %end, %try ], [ %given, %give ]
  %j.next = add i64 %j, 1
  br label %rest
done:
  ret void
}
"""

_EXPAND_LANES = """
  %all = call i64 @llvm.ctpop.i64(i64 %bits)
  %are.many = icmp ugt i64 %all, MOST
  br i1 %are.many, label %vectors, label %one
vectors:
  ; Wider than any number of lanes, so that every step may cut its own out.
  %wide = zext i64 %bits to i128
  %place.0 = add i64 %place, 0
STEPS
  br label %latch"""

_EXPAND_STEP = """
  %shifted.K = lshr i128 %wide, FIRST
  %few.K = trunc i128 %shifted.K to iELEMENTS
  %flags.K = bitcast iELEMENTS %few.K to <ELEMENTS x i1>
  %lanes.K = shufflevector <ELEMENTS x i1> %flags.K, <ELEMENTS x i1> poison, <LANES x i32> ORDER
  %from.K = getelementptr ELEMENT, ptr %source, i64 %place.K
  %moved.K = call VECTOR @llvm.masked.expandload.SUFFIX(
    ptr align 1 %from.K, <LANES x i1> %lanes.K, VECTOR poison)
  %to.K = getelementptr ELEMENT, ptr %first, i64 FIRST
  call void @llvm.masked.store.SUFFIX.p0(VECTOR %moved.K, ptr %to.K, i32 1, <LANES x i1> %lanes.K)
  %these.K = zext iELEMENTS %few.K to i128
  %short.K = trunc i128 %these.K to i64
  %taken.K = call i64 @llvm.ctpop.i64(i64 %short.K)
  %place.NEXT = add i64 %place.K, %taken.K"""


def compress_symbol(itemsize: int) -> str:
    """The name of the function that takes out elements of a size."""
    return f"jc_compress_{itemsize}"


def expand_symbol(itemsize: int) -> str:
    """The name of the function that puts elements of a size to their places."""
    return f"jc_expand_{itemsize}"


def _moves_lanes(itemsize: int) -> bool:
    """Whether this machine moves the lanes of vectors of elements of a size."""
    return has_feature(_FEATURES.get(itemsize, "avx512f"))


def _compress_text(itemsize: int) -> str:
    name = compress_symbol(itemsize)
    return _text(name, _COMPRESS, _COMPRESS_LANES, _COMPRESS_STEP, itemsize)


def _expand_text(itemsize: int) -> str:
    return _text(expand_symbol(itemsize), _EXPAND, _EXPAND_LANES, _EXPAND_STEP, itemsize)


def _text(name: str, text: str, lanes: str, step: str, itemsize: int) -> str:
    """A function, with a block that moves lanes where this machine does."""
    words = _words(itemsize)
    elements = int(words["ELEMENTS"])
    steps = [
        step.replace("FIRST", str(k * elements)).replace(".K", f".{k}").replace("NEXT", str(k + 1))
        for k in range(_AT_ONCE // elements)
    ]
    moves = _moves_lanes(itemsize)
    text = text.replace("TOGETHER", lanes if moves else "  br label %one")
    text = text.replace("FROM", ", [ %place.END, %vectors ]" if moves else "")
    text = text.replace("STEPS", "".join(steps)).replace("NAME", name)
    for word, replacement in words.items():
        text = text.replace(word, replacement)
    return text


def _words(itemsize: int) -> dict[str, str]:
    """What stands in the texts for the types of elements of a size."""
    bits = 8 * min(itemsize, 8)
    lanes = _VECTOR_BITS // bits
    elements = _VECTOR_BITS // (8 * itemsize)
    order = ", ".join(f"i32 {lane * elements // lanes}" for lane in range(lanes))
    return {
        "LANES": str(lanes),
        "ELEMENTS": str(elements),
        "VECTOR": f"<{lanes} x i{bits}>",
        "SUFFIX": f"v{lanes}i{bits}",
        "ORDER": f"<{order}>",
        "END": str(_AT_ONCE // elements),
        "MOST": str(MOST_ONE_BY_ONE),
        # The shorter word last: it is part of another one.
        "ELEMENT": f"i{8 * itemsize}",
    }


for _size in SIZES:
    add_library(compress_symbol(_size), partial(_compress_text, _size), "registers")
    add_library(expand_symbol(_size), partial(_expand_text, _size), "registers")
