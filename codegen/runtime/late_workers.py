"""``jc_parallel_if_large``: parallel loops of which only a run tells whether they are large enough.

It runs a body with little work itself, and has the code of the workers (``workers.py``) compiled
when there is more for the first time.  Many programs never have so much, and to compile that code
takes as long as to compile a kernel of theirs.  Python compiles it, so this needs the GIL, and
other threads may run meanwhile.  What Python raises there, such as KeyboardInterrupt, cannot leave
native code: loops run on their own thread then, until a pending call has raised it when Python goes
on.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

from jitcore.codegen.engine import CompiledModule, compile_module
from jitcore.codegen.entries import layout
from jitcore.codegen.runtime.workers import LEAST_WORK

__all__ = ["compile_late_workers"]

_TEXT = """
@jc_workers_maker = dso_local global ptr null
@jc_workers = dso_local global ptr null
@jc_workers_error = dso_local global ptr null
@waiting = internal global i64 0
declare i32 @Py_AddPendingCall(ptr, ptr)
declare void @PyErr_SetObject(ptr, ptr)
declare void @Py_DecRef(ptr)

define void @jc_parallel_if_large(ptr %body, ptr %context, i64 %start, i64 %stop, i64 %work) {{
  %is_large = icmp sge i64 %work, {least}
  br i1 %is_large, label %look, label %alone
look:
  %known = load atomic ptr, ptr @jc_workers acquire, align 8
  %is_known = icmp ne ptr %known, null
  br i1 %is_known, label %divide, label %ask
ask:
  ; One thread asks at a time, and none while an error waits: Python would go on in the maker.
  %waits = atomicrmw xchg ptr @waiting, i64 1 seq_cst
  %is_waiting = icmp ne i64 %waits, 0
  br i1 %is_waiting, label %alone, label %make
make:
  %maker = load ptr, ptr @jc_workers_maker
  call void %maker()
  %made = load atomic ptr, ptr @jc_workers acquire, align 8
  %is_made = icmp ne ptr %made, null
  br i1 %is_made, label %first, label %failed
first:
  store atomic i64 0, ptr @waiting seq_cst, align 8
  br label %divide
divide:
  %parallel = phi ptr [ %known, %look ], [ %made, %first ]
  call void %parallel(ptr %body, ptr %context, i64 %start, i64 %stop, i64 %work)
  ret void
failed:
  %error = atomicrmw xchg ptr @jc_workers_error, ptr null seq_cst
  %is_raised = icmp ne ptr %error, null
  br i1 %is_raised, label %raise, label %forget
forget:
  store atomic i64 0, ptr @waiting seq_cst, align 8
  br label %alone
raise:
  %ignored = call i32 @Py_AddPendingCall(ptr @raise, ptr %error)
  br label %alone
alone:
  call void %body(ptr %context, i64 %start, i64 %stop)
  ret void
}}

define internal i32 @raise(ptr %error) {{
  store atomic i64 0, ptr @waiting seq_cst, align 8
  %type.at = getelementptr i8, ptr %error, i64 {type_}
  %type = load ptr, ptr %type.at
  call void @PyErr_SetObject(ptr %type, ptr %error)
  call void @Py_DecRef(ptr %error)
  ret i32 -1
}}
"""


def compile_late_workers(make: Callable[[], int]) -> tuple[CompiledModule, Any]:
    """Compile the function.

    Parameters
    ----------
    make : callable
        Compiles the code of the workers; gives the address of ``jc_parallel``.

    Returns
    -------
    module : CompiledModule
    kept : object
        What it calls, for as long as it may be called.
    """
    text = _TEXT.format(least=LEAST_WORK, type_=layout.OBJECT_TYPE)
    module = compile_module(text, name="late workers", effort="none")
    maker, made, error = (
        ctypes.c_void_p.from_address(module.address(symbol))
        for symbol in ("jc_workers_maker", "jc_workers", "jc_workers_error")
    )

    def calls() -> Iterator[None]:
        while True:
            try:
                yield
                made.value = make()
            except BaseException as problem:
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(problem))
                error.value = id(problem)

    # A call of a generator goes on in its ``try``.  The handler of a signal that has come before
    # runs as soon as Python does, which is before the first line of a function.
    waiting = calls()
    next(waiting)
    kept = ctypes.CFUNCTYPE(None)(waiting.__next__)
    maker.value = ctypes.cast(kept, ctypes.c_void_p).value
    return module, kept
