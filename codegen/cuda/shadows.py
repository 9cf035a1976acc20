"""A function that makes shadows: arrays of NumPy over addresses that the host cannot read.

NumPy's own way, its array interface, takes three times as long, and has no name for bfloat16.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Protocol

import numpy as np

from jitcore.codegen.engine import CompiledModule, add_symbol, compile_module
from jitcore.codegen.entries import layout
from jitcore.codegen.entries.entry import bind
from jitcore.codegen.runtime.functions import ensure_runtime, function_address

__all__ = ["shadow_function"]

_MOST_AXES = 64
"""Those of NumPy's arrays."""

_NONE, _ARRAY_TYPE, _TRUE = range(3)
_FUNCTIONS = ("PyErr_BadArgument", "PyErr_Occurred", "PyLong_AsLongLong", "PyLong_AsVoidPtr")
_TUPLES = ("PyTuple_GetItem", "PyTuple_Size")

_TEXT = """
@jc_shadow_objects = dso_local global [3 x ptr] zeroinitializer
declare ptr @jc_array_new(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare i32 @jc_array_set_base(ptr, ptr)
declare i32 @PyErr_BadArgument()
declare ptr @PyErr_Occurred()
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare i64 @PyTuple_Size(ptr)
declare void @Py_DecRef(ptr)
declare void @Py_IncRef(ptr)

; Whether a tuple has this many items; they go to memory.
define internal i1 @numbers(ptr %tuple, i64 %count, ptr %target) {{
entry:
  %size = call i64 @PyTuple_Size(ptr %tuple)
  %fits = icmp eq i64 %size, %count
  %some = icmp ne i64 %count, 0
  %go = and i1 %fits, %some
  br i1 %go, label %item, label %done
item:
  %place = phi i64 [ 0, %entry ], [ %next, %item ]
  %object = call ptr @PyTuple_GetItem(ptr %tuple, i64 %place)
  %number = call i64 @PyLong_AsLongLong(ptr %object)
  %slot = getelementptr i64, ptr %target, i64 %place
  store i64 %number, ptr %slot
  %next = add i64 %place, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %item, label %done
done:
  ret i1 %fits
}}

; The arguments: what the shadow keeps, address, shape, strides, dtype, whether it is read-only.
define ptr @jc_shadow_entry(ptr %self, ptr %args, i64 %nargs, ptr %names) {{
entry:
  %shape = alloca [{axes} x i64]
  %strides = alloca [{axes} x i64]
  %shape.slot = getelementptr ptr, ptr %args, i64 2
  %shape.object = load ptr, ptr %shape.slot
  %rank = call i64 @PyTuple_Size(ptr %shape.object)
  %is.rank = icmp ule i64 %rank, {axes}
  br i1 %is.rank, label %extents, label %wrong
extents:
  %has.shape = call i1 @numbers(ptr %shape.object, i64 %rank, ptr %shape)
  %strides.slot = getelementptr ptr, ptr %args, i64 3
  %strides.object = load ptr, ptr %strides.slot
  %none = load ptr, ptr @jc_shadow_objects
  %is.c = icmp eq ptr %strides.object, %none
  br i1 %is.c, label %fields, label %steps
steps:
  %has.strides = call i1 @numbers(ptr %strides.object, i64 %rank, ptr %strides)
  br i1 %has.strides, label %fields, label %wrong
fields:
  %steps.data = phi ptr [ null, %extents ], [ %strides, %steps ]
  %address.slot = getelementptr ptr, ptr %args, i64 1
  %address.object = load ptr, ptr %address.slot
  %found = call ptr @PyLong_AsVoidPtr(ptr %address.object)
  %raised = call ptr @PyErr_Occurred()
  %is.well = icmp eq ptr %raised, null
  br i1 %is.well, label %make, label %failed
make:
  ; Without elements nobody reads the address, but NumPy takes 0 for a wish for memory.
  %nowhere = icmp eq ptr %found, null
  %somewhere = inttoptr i64 4096 to ptr
  %address = select i1 %nowhere, ptr %somewhere, ptr %found
  %only.slot = getelementptr ptr, ptr %args, i64 5
  %only = load ptr, ptr %only.slot
  %true.slot = getelementptr ptr, ptr @jc_shadow_objects, i64 {true}
  %true = load ptr, ptr %true.slot
  %is.only = icmp eq ptr %only, %true
  %flags = select i1 %is.only, i32 {read_only}, i32 {writeable}
  %descr.slot = getelementptr ptr, ptr %args, i64 4
  %descr = load ptr, ptr %descr.slot
  call void @Py_IncRef(ptr %descr)
  %type.slot = getelementptr ptr, ptr @jc_shadow_objects, i64 {array_type}
  %type = load ptr, ptr %type.slot
  %nd = trunc i64 %rank to i32
  %made = call ptr @jc_array_new(ptr %type, ptr %descr, i32 %nd, ptr %shape, ptr %steps.data,
    ptr %address, i32 %flags, ptr null)
  %lost = icmp eq ptr %made, null
  br i1 %lost, label %failed, label %based
based:
  %owner = load ptr, ptr %args
  %is.free = icmp eq ptr %owner, %none
  br i1 %is.free, label %done, label %own
own:
  call void @Py_IncRef(ptr %owner)
  call i32 @jc_array_set_base(ptr %made, ptr %owner)
  br label %done
done:
  ret ptr %made
wrong:
  %before = call ptr @PyErr_Occurred()
  %is.new = icmp eq ptr %before, null
  br i1 %is.new, label %complain, label %failed
complain:
  call i32 @PyErr_BadArgument()
  br label %failed
failed:
  ret ptr null
}}
"""


class _NewShadow(Protocol):
    def __call__(
        self,
        owner: object,
        address: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None,
        dtype: np.dtype[Any],
        read_only: bool,
        /,
    ) -> np.ndarray[Any, Any]: ...


@cache
def _module() -> CompiledModule:
    ensure_runtime()
    for name in (*_FUNCTIONS, *_TUPLES):
        add_symbol(name, function_address(name))
    plain = layout.ARRAY_ALIGNED | layout.ARRAY_C_CONTIGUOUS
    text = _TEXT.format(
        array_type=_ARRAY_TYPE,
        axes=_MOST_AXES,
        read_only=plain,
        true=_TRUE,
        writeable=plain | layout.ARRAY_WRITEABLE,
    )
    module = compile_module(text, name="shadows", effort="code")
    objects = {_NONE: None, _ARRAY_TYPE: np.ndarray, _TRUE: True}
    layout.fill_table(module.address("jc_shadow_objects"), objects)
    return module


def _unreachable(*args: object) -> None:
    raise AssertionError(args)


@cache
def shadow_function() -> _NewShadow:
    """A function of (owner, address, shape, strides, dtype, read-only) that makes a shadow.

    The owner is its base, if it is not None. Strides are in bytes, or None for C order.
    """
    module = _module()
    address = module.address("jc_shadow_entry")
    made: Any = bind(address, "new_shadow", _unreachable, _unreachable, owner=module)
    return made  # type: ignore[no-any-return]
