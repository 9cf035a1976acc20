"""Arrays that native code makes, and the memory of large ones.

============================== =====================================================================
``jc_empty``                   a new array from (dtype number, order, ndim, d0 … d7); null and no
                               exception where there is no memory; see ``order_number``
``jc_incref``, ``jc_decref``   take and drop a reference to what ``jc_empty`` made, null is fine
``jc_malloc`` and others       see ``runtime.temporaries``
============================== =====================================================================

They may be called with and without the GIL: native functions that take long run without.  Programs
that make no arrays do not compile them.  All are one module: hardly any program needs a part only,
and each module takes its time.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from jitcore.codegen.engine import (
    CompiledModule,
    Source,
    add_maker,
    add_symbol,
    compile_source,
    compiler_lock,
)
from jitcore.codegen.entries.layout import DTYPE_CHARS, fill_table
from jitcore.codegen.runtime.temporaries import (
    LEAST_POOLED,
    make_array_handler,
    temporaries_text,
)

__all__ = ["MAX_RANK", "add_array_functions", "array_functions"]

MAX_RANK = 8
"""The number of axes ``jc_empty`` has parameters for."""

_SYMBOLS = ("jc_decref", "jc_empty", "jc_incref", "jc_malloc", "jc_free")

_ARRAY_TYPE = 32
"""The place of the type ``ndarray``, behind the dtypes by their numbers."""

_ARRAY_HANDLER = _ARRAY_TYPE + 1
"""And of what gives large arrays their memory."""

_TEXT = """
@jc_array_objects = dso_local global [{objects} x ptr] zeroinitializer
declare ptr @jc_array_empty(i32, ptr, ptr, i32)
declare ptr @jc_array_handler(ptr)
declare ptr @jc_array_new(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare void @PyErr_Clear()
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)

define internal ptr @new_array(i64 %dtype, i64 %order, i64 %ndim, {dims}) {{
entry:
  %shape = alloca [{rank} x i64]
  %strides = alloca [{rank} x i64]
{stores}
  %slot = getelementptr ptr, ptr @jc_array_objects, i64 %dtype
  %descr = load ptr, ptr %slot
  call void @Py_IncRef(ptr %descr)
  %nd = trunc i64 %ndim to i32
  %plain = icmp ule i64 %order, 1
  br i1 %plain, label %empty, label %rearranged
empty:
  %fortran = trunc i64 %order to i32
  %ordered = call ptr @jc_array_empty(i32 %nd, ptr %shape, ptr %descr, i32 %fortran)
  br label %made
rearranged:
  %itemsize = and i64 %order, 255
  %axes = lshr i64 %order, 8
  br label %axis
axis:
  %place = phi i64 [ 0, %rearranged ], [ %next.place, %axis ]
  %left = phi i64 [ %axes, %rearranged ], [ %next.left, %axis ]
  %stride = phi i64 [ %itemsize, %rearranged ], [ %next.stride, %axis ]
  %number = and i64 %left, 15
  %at.stride = getelementptr i64, ptr %strides, i64 %number
  store i64 %stride, ptr %at.stride
  %at.extent = getelementptr i64, ptr %shape, i64 %number
  %extent = load i64, ptr %at.extent
  %next.stride = mul i64 %stride, %extent
  %next.left = lshr i64 %left, 4
  %next.place = add i64 %place, 1
  %more = icmp slt i64 %next.place, %ndim
  br i1 %more, label %axis, label %new
new:
  %type.slot = getelementptr ptr, ptr @jc_array_objects, i64 {array_type}
  %type = load ptr, ptr %type.slot
  %strided = call ptr @jc_array_new(ptr %type, ptr %descr, i32 %nd, ptr %shape, ptr %strides,
    ptr null, i32 0, ptr null)
  br label %made
made:
  %array = phi ptr [ %ordered, %empty ], [ %strided, %new ]
  %failed = icmp eq ptr %array, null
  br i1 %failed, label %failure, label %success
failure:
  call void @PyErr_Clear()
  ret ptr null
success:
  ret ptr %array
}}

define ptr @jc_empty(i64 %dtype, i64 %order, i64 %ndim, {dims}) {{
entry:
  %state = call i32 @PyGILState_Ensure()
{product}
  %is.large = icmp uge i64 %n{last}, {large}
  br i1 %is.large, label %pooled, label %plain
plain:
  %small = call ptr @new_array(i64 %dtype, i64 %order, i64 %ndim, {dims})
  br label %done
pooled:
  %handler.slot = getelementptr ptr, ptr @jc_array_objects, i64 {handler}
  %handler = load ptr, ptr %handler.slot
  %before = call ptr @jc_array_handler(ptr %handler)
  %large = call ptr @new_array(i64 %dtype, i64 %order, i64 %ndim, {dims})
  %ours = call ptr @jc_array_handler(ptr %before)
  call void @Py_DecRef(ptr %ours)
  call void @Py_DecRef(ptr %before)
  br label %done
done:
  %array = phi ptr [ %small, %plain ], [ %large, %pooled ]
  call void @PyGILState_Release(i32 %state)
  ret ptr %array
}}
"""

_COUNTING = """
; The objects are arrays that jc_empty has made and that have not been returned: nobody else counts
; their references, so that no GIL is needed until the last one goes.
define void @jc_incref(ptr %object) {
entry:
  %null = icmp eq ptr %object, null
  br i1 %null, label %done, label %count
count:
  %references = load i64, ptr %object
  %more = add i64 %references, 1
  store i64 %more, ptr %object
  br label %done
done:
  ret void
}

define void @jc_decref(ptr %object) {
entry:
  %null = icmp eq ptr %object, null
  br i1 %null, label %done, label %look
look:
  %references = load i64, ptr %object
  %shared = icmp ugt i64 %references, 1
  br i1 %shared, label %count, label %last
count:
  %less = sub i64 %references, 1
  store i64 %less, ptr %object
  br label %done
last:
  %state = call i32 @PyGILState_Ensure()
  call void @Py_DecRef(ptr %object)
  call void @PyGILState_Release(i32 %state)
  br label %done
done:
  ret void
}
"""


def add_array_functions() -> None:
    """Have the functions compiled when code that calls them is."""
    for symbol in _SYMBOLS:
        add_maker(symbol, array_functions, _source)


def array_functions() -> CompiledModule:
    """The module with the functions, which is compiled when it is asked for first."""
    with compiler_lock():
        module, _ = _make()
        return module


@cache
def _source() -> Source:
    return Source(_text(), "none", ((temporaries_text(), "none"),))


def _text() -> str:
    axes = range(MAX_RANK)
    making = _TEXT.format(
        dims=", ".join(f"i64 %d{axis}" for axis in axes),
        stores="\n".join(
            f"  %p{axis} = getelementptr i64, ptr %shape, i64 {axis}\n"
            f"  store i64 %d{axis}, ptr %p{axis}"
            for axis in axes
        ),
        product="\n".join(
            f"  %n{axis} = mul i64 {f'%n{axis - 1}' if axis else '1'}, %d{axis}" for axis in axes
        ),
        rank=MAX_RANK,
        last=MAX_RANK - 1,
        large=LEAST_POOLED,
        objects=_ARRAY_HANDLER + 1,
        array_type=_ARRAY_TYPE,
        handler=_ARRAY_HANDLER,
    )
    return making + _COUNTING


@cache
def _make() -> tuple[CompiledModule, dict[int, Any]]:
    """Compile the functions; gives their module and what its table refers to, which are kept."""
    module = compile_source(_source(), "arrays")
    objects: dict[int, Any] = {np.dtype(char).num: np.dtype(char) for char in DTYPE_CHARS}
    objects[_ARRAY_TYPE] = np.ndarray
    objects[_ARRAY_HANDLER] = make_array_handler(module)
    fill_table(module.address("jc_array_objects"), objects)
    for name in _SYMBOLS:
        add_symbol(name, module.address(name))
    return module, objects
