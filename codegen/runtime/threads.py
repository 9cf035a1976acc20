"""How many threads large loops run on, and the worker threads (``workers.py``) that run them."""

from __future__ import annotations

import ctypes
import operator
import os
import re
from functools import cache
from importlib import import_module
from typing import Any

from jitcore.codegen.engine import (
    CompiledModule,
    Source,
    add_maker,
    add_symbol,
    compile_source,
    compiler_lock,
)
from jitcore.codegen.runtime.workers import text

__all__ = ["available_cores", "checked_count", "get_num_threads", "set_num_threads"]

_module: CompiledModule | None = None
_count: int | None = None


def available_cores() -> int:
    """The number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def checked_count(count: int) -> int:
    """A number of threads; TypeError where it is no int, ValueError where there would be none."""
    try:
        count = operator.index(count)
    except TypeError:
        message = f"the number of threads is an int of at least 1; found {count!r}"
        raise TypeError(message) from None
    if count < 1:
        raise ValueError(f"the number of threads is at least 1; found {count}")
    return count


def _wanted() -> int:
    """What ``JITCORE_NUM_THREADS`` asks for, or all cores."""
    text = os.environ.get("JITCORE_NUM_THREADS")
    if text is None:
        return available_cores()
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"JITCORE_NUM_THREADS is a positive integer; found {text!r}")
    return int(text)


def get_num_threads() -> int:
    """The number of threads that large loops run on.

    It is the number of cores this process may use, unless ``JITCORE_NUM_THREADS`` or
    ``set_num_threads`` says otherwise.

    Returns
    -------
    int
    """
    global _count
    if _count is None:
        _count = _wanted()
    return _count


def set_num_threads(count: int) -> int:
    """Set the number of threads that large loops run on, the calling one included.

    Results do not depend on it: where long sums are divided depends on their lengths alone.

    Parameters
    ----------
    count : int
        At least 1, which runs all loops on the calling thread.

    Returns
    -------
    int
        The number before.

    Raises
    ------
    TypeError
        ``count`` is no int.
    ValueError
        ``count`` is below 1.

    Examples
    --------
    >>> import jitcore
    >>> before = jitcore.set_num_threads(1)
    >>> jitcore.set_num_threads(before)
    1
    """
    global _count
    previous, _count = get_num_threads(), checked_count(count)
    if _module is not None:
        _call("jc_set_threads", _count)
    return previous


@cache
def _source() -> Source:
    return Source(text(), "none")


def _make() -> None:
    """Compile ``jc_parallel`` and make it known to the engine."""
    global _module
    with compiler_lock():
        if _module is not None:
            return
        if os.name == "posix":
            _add_functions_of_the_system()
        _module = compile_source(_source(), "threads")
        add_symbol("jc_parallel", _module.address("jc_parallel"))
        _call("jc_forget_threads")
        _call("jc_set_threads", get_num_threads())
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=lambda: _call("jc_forget_threads"))


def _add_functions_of_the_system() -> None:
    process = ctypes.CDLL(None)
    for name in re.findall(r"^declare i32 @(\w+)", text(), flags=re.MULTILINE):
        address = ctypes.cast(getattr(process, name), ctypes.c_void_p).value
        assert address is not None
        add_symbol(name, address)


def _call(name: str, *args: int) -> None:
    assert _module is not None
    ctypes.CFUNCTYPE(None, *(ctypes.c_int64 for _ in args))(_module.address(name))(*args)


def _address() -> int:
    """The address of ``jc_parallel``, which is compiled where it is not yet."""
    _make()
    assert _module is not None
    return _module.address("jc_parallel")


@cache
def _make_late() -> tuple[CompiledModule, Any]:
    """Compile ``jc_parallel_if_large``; gives what has to be kept."""
    # A setting that is wrong is found before anything is written.
    get_num_threads()
    # To import jitcore is enough for the number of threads.
    late_workers = import_module("jitcore.codegen.runtime.late_workers")
    module, kept = late_workers.compile_late_workers(_address)
    add_symbol("jc_parallel_if_large", module.address("jc_parallel_if_large"))
    return module, kept


add_maker("jc_parallel", _make, _source)
add_maker("jc_parallel_if_large", _make_late)
