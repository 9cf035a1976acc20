"""How entries call host programs: exceptions that leave one are looked at before the caller is."""

from __future__ import annotations

from jitcore.codegen.engine import add_library
from jitcore.codegen.entries.layout import OBJECT_TYPE, TUPLE_ITEMS

__all__ = ["add_program_functions"]

_TEXT = """
declare void @Py_DecRef(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_NormalizeException(ptr, ptr, ptr)
declare void @PyErr_Restore(ptr, ptr, ptr)
declare ptr @PyException_GetTraceback(ptr)
declare i32 @PyException_SetTraceback(ptr, ptr)

; program(*args), whose exceptions %translate gets to give them another traceback; or, where that
; is a tuple, program[0](*args), whose exceptions stay as they are.
define ptr @jc_run_program(ptr %program, ptr %args, ptr %translate, ptr %tuple, i64 %count) {
entry:
  %type.slot = getelementptr i8, ptr %program, i64 OBJECT_TYPE
  %program.type = load ptr, ptr %type.slot
  %is.plain = icmp eq ptr %program.type, %tuple
  br i1 %is.plain, label %plain, label %run
plain:
  %items = getelementptr i8, ptr %program, i64 TUPLE_ITEMS
  %function = load ptr, ptr %items
  %own = call ptr @PyObject_Vectorcall(ptr %function, ptr %args, i64 %count, ptr null)
  ret ptr %own
run:
  %type = alloca ptr
  %error = alloca ptr
  %traceback = alloca ptr
  %result = call ptr @PyObject_Vectorcall(ptr %program, ptr %args, i64 %count, ptr null)
  %failed = icmp eq ptr %result, null
  br i1 %failed, label %fetch, label %done
done:
  ret ptr %result
fetch:
  call void @PyErr_Fetch(ptr %type, ptr %error, ptr %traceback)
  call void @PyErr_NormalizeException(ptr %type, ptr %error, ptr %traceback)
  %class = load ptr, ptr %type
  %exception = load ptr, ptr %error
  %frames = load ptr, ptr %traceback
  %has.frames = icmp ne ptr %frames, null
  br i1 %has.frames, label %attach, label %look
attach:
  %attached = call i32 @PyException_SetTraceback(ptr %exception, ptr %frames)
  call void @Py_DecRef(ptr %frames)
  br label %look
look:
  %same = call ptr @PyObject_Vectorcall(ptr %translate, ptr %error, i64 1, ptr null)
  %is.well = icmp ne ptr %same, null
  br i1 %is.well, label %raise, label %give.up
give.up:
  call void @Py_DecRef(ptr %class)
  call void @Py_DecRef(ptr %exception)
  ret ptr null
raise:
  call void @Py_DecRef(ptr %same)
  %shown = call ptr @PyException_GetTraceback(ptr %exception)
  call void @PyErr_Restore(ptr %class, ptr %exception, ptr %shown)
  ret ptr null
}
"""


def add_program_functions() -> None:
    """Have the function compiled when code that calls it is."""
    add_library("jc_run_program", _text, "code")


def _text() -> str:
    return _TEXT.replace("OBJECT_TYPE", str(OBJECT_TYPE)).replace("TUPLE_ITEMS", str(TUPLE_ITEMS))
