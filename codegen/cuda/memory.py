"""Device memory: shadows of arrays, a pool, and the functions that native code calls for it.

A **shadow** is an exact ``numpy.ndarray`` whose dtype, shape, strides and address are those of an
array on a device, which it keeps alive.  Entries of native functions check and unpack it like any
other; whoever else touches its elements crashes the process, so shadows never leave a call.

============================================ ======================================================
``jc_cuda_empty(dtype, order, ndim, d0…d7)`` the shadow of a new array, as ``jc_empty`` makes them
``jc_cuda_malloc(bytes)``                    the address of memory for a temporary; null without
``jc_cuda_scratch(bytes)``                   the same for device scalars, after a counter that is 0
``jc_cuda_zeros(bytes)``                     the same for memory that is 0, and is left so
``jc_cuda_free(address)``                    gives it back to work that comes later on the stream
``jc_cuda_read(target, source, bytes)``      copies to the host after all work so far; 0 or an error
``jc_cuda_stream``                           the address of a word: the stream of the running call
============================================ ======================================================

They work for the running call (`codegen.cuda.calls`).  A function that fails keeps its exception in
the call, and the native function stops at its site.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from jitcore.codegen.cuda import calls, driver
from jitcore.codegen.cuda.callbacks import Callback, add_callback
from jitcore.codegen.cuda.shadows import shadow_function
from jitcore.codegen.engine import add_symbol
from jitcore.codegen.entries.layout import DTYPE_CHARS
from jitcore.codegen.runtime.arrays import MAX_RANK
from jitcore.ir.bfloat16 import bfloat16

__all__ = [
    "array_of",
    "array_strides",
    "ensure_memory",
    "make_shadow",
    "release_array",
]

Shadow = np.ndarray[Any, Any]


class _Holder:
    """The base of a shadow that keeps an array."""

    __slots__ = ("array",)
    array: Any


def array_of(shadow: Shadow) -> Any:
    """The array on the device that a shadow keeps; None where somebody else does."""
    holder = _holder(shadow)
    return None if holder is None else holder.array


def release_array(shadow: Shadow) -> None:
    """Have a shadow no longer keep its array, which may keep the shadow then."""
    holder = _holder(shadow)
    assert holder is not None
    holder.array = None


def _holder(shadow: Shadow) -> _Holder | None:
    """That of a shadow; None where it keeps memory only, as those of direct calls do."""
    base = shadow.base
    return base if isinstance(base, _Holder) else None


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
    return shadow_function()(holder, address, shape, strides, dtype, read_only)


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


_DTYPES: dict[int, np.dtype[Any]] = {np.dtype(char).num: np.dtype(char) for char in DTYPE_CHARS}


def _empty(dtype_number: int, order: int, ndim: int, *dims: int) -> int:
    dtype, shape = _DTYPES.get(dtype_number) or bfloat16(), dims[:ndim]
    strides = array_strides(order, shape, dtype.itemsize)
    address, array = calls.running_call().allocator.empty(dtype, shape, strides)
    shadow = make_shadow(array, address, shape, strides, dtype)
    _take_reference(shadow)
    return id(shadow)


def _malloc(size: int) -> int:
    call = calls.running_call()
    address, owner = call.allocator.block(max(1, size))
    call.blocks[address] = owner
    return address


def _scratch(size: int) -> int:
    call = calls.running_call()
    address, owner = call.allocator.scratch(size)
    call.blocks[address] = owner
    return address


def _zeros(size: int) -> int:
    call = calls.running_call()
    address, owner = call.allocator.zeros(size)
    call.blocks[address] = owner
    return address


def _free(address: int | None) -> None:
    if address:
        del calls.running_call().blocks[address]


def _read(target: int, source: int, size: int) -> int:
    call = calls.running_call()
    call.has_waited = True
    used = driver.current()
    calls.wait(call, lambda: used.copy_to_host(target, source, size, call.stream))
    return 0


_take_reference = ctypes.pythonapi.Py_IncRef
_take_reference.argtypes = [ctypes.py_object]
_take_reference.restype = None

_ARRAY = ("i64",) * (3 + MAX_RANK)

for _callback in (
    Callback("jc_cuda_empty", "ptr", _ARRAY, _empty, direct="jc_cuda_direct_empty"),
    Callback("jc_cuda_malloc", "ptr", ("i64",), _malloc, direct="jc_cuda_direct_malloc"),
    Callback("jc_cuda_scratch", "ptr", ("i64",), _scratch, direct="jc_cuda_direct_scratch"),
    Callback("jc_cuda_zeros", "ptr", ("i64",), _zeros, direct="jc_cuda_direct_zeros"),
    Callback("jc_cuda_free", "void", ("ptr",), _free, direct="jc_cuda_direct_free"),
    Callback("jc_cuda_read", "i32", ("ptr", "ptr", "i64"), _read, failed=1),
):
    add_callback(_callback)


def ensure_memory() -> None:
    """Make the words known to the engine, before code that uses them is made."""
    add_symbol("jc_cuda_stream", ctypes.addressof(calls.STREAM))
    add_symbol("jc_cuda_direct", ctypes.addressof(calls.DIRECT))
    add_symbol("jc_cuda_streams", ctypes.addressof(calls.STREAMS))
    add_symbol("jc_cuda_interrupts", ctypes.addressof(calls.INTERRUPTS))
