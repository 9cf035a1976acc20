"""Device memory: shadows of arrays, a pool, and the functions that native code calls for it.

A **shadow** is an exact ``numpy.ndarray`` whose dtype, shape, strides and address are those of an
array on a device, which it keeps alive.  Entries of native functions check and unpack it like any
other; whoever else touches its elements crashes the process, so shadows never leave a call.

============================================ ======================================================
``jc_cuda_empty(dtype, order, ndim, d0…d7)`` the shadow of a new array, as ``jc_empty`` makes them
``jc_cuda_malloc(bytes)``                    the address of memory for a temporary; null without
``jc_cuda_free(address)``                    gives it back to work that comes later on the stream
``jc_cuda_read(target, source, bytes)``      copies to the host after all work so far; 0 or an error
``jc_cuda_stream``                           the address of a word: the stream of the running call
============================================ ======================================================

All memory is that of the running `Call`: arrays come from the pool of the library that the call's
arguments come from.  One call runs at a time in the whole process, since there is one word for the
stream.  That costs little, because a call only asks the driver for work, which serializes that
itself; where a call waits for the device, others run (``jc_cuda_read``).  A lock was preferred to
a word for each thread because native code is linked without a loader that knows of threads'
variables, and each launch would have to look the word up by a call.

A function that fails keeps its exception in the call, and the native function stops at its site.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from jitcore.codegen.cuda import driver
from jitcore.codegen.engine import add_maker, add_symbol
from jitcore.codegen.entries.layout import DTYPE_CHARS
from jitcore.codegen.runtime.functions import MAX_RANK

__all__ = [
    "Allocator",
    "Call",
    "array_of",
    "array_strides",
    "begin",
    "end",
    "ensure_memory",
    "make_shadow",
    "release_array",
    "running",
    "running_call",
]

Shadow = np.ndarray[Any, Any]


class Allocator(Protocol):
    """Where the memory of a call comes from."""

    def empty(
        self, dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...] | None
    ) -> tuple[int, Any]:
        """A new array: its address, and what owns it; strides in bytes, None for C order."""
        ...

    def block(self, size: int) -> tuple[int, Any]:
        """Memory for a temporary: its address, and what owns it."""
        ...


@dataclass(slots=True)
class Call:
    """One running call.

    Parameters
    ----------
    allocator : Allocator
    stream : int
        On which all its work goes.

    Attributes
    ----------
    blocks : dict of int to object
        Temporaries by their address.
    error : BaseException or None
        What went wrong in a function that native code called.
    has_waited : bool
        Whether the host has waited for a number of the device.
    """

    allocator: Allocator
    stream: int
    blocks: dict[int, Any] = field(default_factory=dict)
    error: BaseException | None = None
    has_waited: bool = False


class _Holder:
    """What NumPy reads a shadow's fields from, and keeps as its base."""

    __slots__ = ("__array_interface__", "array")
    __array_interface__: dict[str, Any]
    array: Any


def array_of(shadow: Shadow) -> Any:
    """The array on the device that a shadow keeps; None where somebody else does."""
    holder = shadow.base
    assert isinstance(holder, _Holder)
    return holder.array


def release_array(shadow: Shadow) -> None:
    """Have a shadow no longer keep its array, which may keep the shadow then."""
    holder = shadow.base
    assert isinstance(holder, _Holder)
    holder.array = None


def make_shadow(
    array: Any,
    address: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...] | None,
    dtype: np.dtype[Any],
    read_only: bool = False,
) -> Shadow:
    """The shadow of an array on a device.

    Parameters
    ----------
    array : object
        What owns the memory; None where the caller keeps that.
    address : int
        0 is fine where there are no elements.
    shape : tuple of int
    strides : tuple of int or None
        In bytes; None for C order.
    dtype : numpy.dtype
    read_only : bool
    """
    holder = _Holder()
    holder.array = array
    # Without elements nobody reads the address, but NumPy takes 0 for a wish for memory.
    holder.__array_interface__ = {
        "shape": shape,
        "typestr": dtype.str,
        "data": (address or 1 << 12, read_only),
        "strides": strides,
        "version": 3,
    }
    return np.asarray(holder)


def array_strides(order: int, shape: tuple[int, ...], itemsize: int) -> tuple[int, ...] | None:
    """The strides in bytes that ``order_number`` stands for; None for C order."""
    if order == 0 or len(shape) < 2:
        return None
    axes = range(len(shape))
    if order > 1:
        axes = [order >> 8 + 4 * place & 15 for place in axes]  # type: ignore[assignment]
    strides = [0] * len(shape)
    step = itemsize
    for axis in axes:
        strides[axis] = step
        # Where there are no elements NumPy computes strides as if there were one.
        step *= max(1, shape[axis])
    return tuple(strides)


_lock = threading.RLock()
_word = ctypes.c_uint64(0)
_running: list[Call] = []
_DTYPES: dict[int, np.dtype[Any]] = {np.dtype(char).num: np.dtype(char) for char in DTYPE_CHARS}


@contextmanager
def running(call: Call) -> Iterator[None]:
    """Have native code that runs inside a ``with`` block work for a call."""
    begin(call)
    try:
        yield
    finally:
        end()


def begin(call: Call) -> None:
    """Start a call: wait for the one that runs in another thread. `end` has to follow."""
    _lock.acquire()
    _running.append(call)
    _word.value = call.stream


def end() -> None:
    """Go back to the call before, which waits in this thread, or let other threads go on."""
    _running.pop()
    _word.value = _running[-1].stream if _running else 0
    _lock.release()


def running_call() -> Call:
    """The call that native code works for."""
    return _running[-1]


def _empty(dtype_number: int, order: int, ndim: int, *dims: int) -> int | None:
    call = _running[-1]
    try:
        dtype, shape = _DTYPES[dtype_number], dims[:ndim]
        strides = array_strides(order, shape, dtype.itemsize)
        address, array = call.allocator.empty(dtype, shape, strides)
        shadow = make_shadow(array, address, shape, strides, dtype)
    except BaseException as error:
        call.error = error
        return None
    _take_reference(shadow)
    return id(shadow)


def _malloc(size: int) -> int | None:
    call = _running[-1]
    try:
        address, owner = call.allocator.block(max(1, size))
    except BaseException as error:
        call.error = error
        return None
    call.blocks[address] = owner
    return address


def _free(address: int | None) -> None:
    if address:
        del _running[-1].blocks[address]


def _read(target: int, source: int, size: int) -> int:
    call = _running.pop()
    call.has_waited = True
    _lock.release()
    try:
        driver.current().copy_to_host(target, source, size, call.stream)
    except BaseException as error:
        call.error = error
    finally:
        begin(call)
    return 0 if call.error is None else 1


_take_reference = ctypes.pythonapi.Py_IncRef
_take_reference.argtypes = [ctypes.py_object]
_take_reference.restype = None

_I64, _PTR = ctypes.c_int64, ctypes.c_void_p

# They take the GIL where the native function has given it up.
_FUNCTIONS: dict[str, Any] = {
    "jc_cuda_empty": ctypes.CFUNCTYPE(_PTR, *[_I64] * (3 + MAX_RANK))(_empty),
    "jc_cuda_malloc": ctypes.CFUNCTYPE(_PTR, _I64)(_malloc),
    "jc_cuda_free": ctypes.CFUNCTYPE(None, _PTR)(_free),
    "jc_cuda_read": ctypes.CFUNCTYPE(ctypes.c_int32, _PTR, _PTR, _I64)(_read),
}


def ensure_memory() -> None:
    """Make the functions and the word known to the engine, before code that uses them is made."""
    for name, function in _FUNCTIONS.items():
        add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value or 0)
    add_symbol("jc_cuda_stream", ctypes.addressof(_word))


for _name in _FUNCTIONS:
    add_maker(_name, ensure_memory)
