"""DLPack: handing arrays to other libraries, and taking theirs, without a copy.

The structures are those of ``dlpack.h``, version 1.0 and the unversioned ones before it; the
protocol is Python's array API standard's.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitcore.codegen.cuda import exchange
from jitcore.codegen.cuda.exchange import BFLOAT, CODES
from jitcore.ir.bfloat16 import bfloat16, is_bfloat16

if TYPE_CHECKING:
    from jitcore.cuda.array import Array

__all__ = ["DLDevice", "Imported", "export", "take"]


class DLDevice:
    """``DLDeviceType``: what kind of memory an array lies in."""

    CPU: Final = 1
    CUDA: Final = exchange.CUDA
    CUDA_MANAGED: Final = 13


_READ_ONLY = 1
_NAME, _USED = b"dltensor", b"used_dltensor"
_VERSIONED, _VERSIONED_USED = b"dltensor_versioned", b"used_dltensor_versioned"

_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _ManagedVersioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_api = ctypes.pythonapi
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]

# Of their own, because the destructor has a capsule that nobody may refer to any more.
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _api)
)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)

_exported: dict[int, tuple[Any, ...]] = {}
"""What consumers hold, by the address of the structure: it, its parts and the array."""


def _release(address: int) -> None:
    _exported.pop(address, None)


def _drop_capsule(capsule: int) -> None:
    """Release what a capsule holds that nobody has consumed."""
    for name in (_NAME, _VERSIONED):
        if _is_valid(capsule, name):
            _exported.pop(_pointer(capsule, name), None)


_release_pointer = _Deleter(_release)
_drop_pointer = _Deleter(_drop_capsule)


def export(array: Array, *, versioned: bool) -> Any:
    """A capsule that another library can make its array from.

    Raises
    ------
    BufferError
        The array is read-only, which the consumer's version of DLPack cannot say.
    """
    if array.read_only and not versioned:
        raise BufferError("a read-only array needs a consumer that knows DLPack 1.0")
    extents = (ctypes.c_int64 * max(1, array.ndim))(*array.shape)
    steps = [stride // array.itemsize for stride in array.strides]
    strides = (ctypes.c_int64 * max(1, array.ndim))(*steps)
    tensor = _Tensor(
        array.address if array.size else None,
        DLDevice.CUDA,
        array.device_number,
        array.ndim,
        BFLOAT if is_bfloat16(array.dtype) else CODES[array.dtype.kind],
        8 * array.itemsize,
        1,
        extents,
        strides,
        0,
    )
    deleter = ctypes.cast(_release_pointer, ctypes.c_void_p)
    if versioned:
        flags = _READ_ONLY if array.read_only else 0
        managed: Any = _ManagedVersioned(1, 0, None, deleter, flags, tensor)
    else:
        managed = _Managed(tensor, None, deleter)
    address = ctypes.addressof(managed)
    _exported[address] = (managed, extents, strides, array)
    destructor = ctypes.cast(_drop_pointer, ctypes.c_void_p)
    return _api.PyCapsule_New(address, _VERSIONED if versioned else _NAME, destructor)


class Imported:
    """Another library's memory, kept until nothing refers to it any more."""

    def __init__(self, managed: Any) -> None:
        self._managed = managed
        self._delete = _Deleter(managed.deleter) if managed.deleter else None

    def __del__(self) -> None:
        if self._delete is not None:
            self._delete(ctypes.addressof(self._managed))


def take(
    value: Any, stream: int
) -> tuple[int, tuple[int, ...], tuple[int, ...] | None, np.dtype[Any], bool, int, Imported]:
    """Another library's array.

    Parameters
    ----------
    value : object
        Has ``__dlpack__``.
    stream : int
        On which it will be used; the library makes it wait for its own work.

    Returns
    -------
    tuple
        Address, shape, strides in bytes (None for C order), dtype, whether it is read-only, the
        number of the device, and what keeps the memory.

    Raises
    ------
    TypeError
        NumPy has no such dtype.
    """
    try:
        capsule = value.__dlpack__(stream=stream or 1, max_version=(1, 0))
    except TypeError:
        # Libraries older than DLPack 1.0 do not know the second argument.
        capsule = value.__dlpack__(stream=stream or 1)
    versioned = bool(_is_valid(id(capsule), _VERSIONED))
    name, used = (_VERSIONED, _VERSIONED_USED) if versioned else (_NAME, _USED)
    address = _pointer(id(capsule), name)
    managed: Any = (_ManagedVersioned if versioned else _Managed).from_address(address)
    _api.PyCapsule_SetName(capsule, used)
    owner = Imported(managed)
    tensor = managed.tensor
    dtype = _dtype(tensor, value)
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = None
    if tensor.strides:
        strides = tuple(step * dtype.itemsize for step in tensor.strides[: tensor.ndim])
    read_only = versioned and bool(managed.flags & _READ_ONLY)
    start = (tensor.data or 0) + tensor.byte_offset
    return start, shape, strides, dtype, read_only, tensor.device_id, owner


def _dtype(tensor: _Tensor, value: object) -> np.dtype[Any]:
    if (tensor.code, tensor.bits, tensor.lanes) == (BFLOAT, 16, 1):
        return bfloat16()
    kind = next((kind for kind, code in CODES.items() if code == tensor.code), None)
    if kind is None or tensor.lanes != 1 or tensor.bits % 8:
        raise TypeError(
            f"an array of {type(value).__module__}.{type(value).__name__} has elements that NumPy "
            f"has no dtype for (DLPack's code {tensor.code}, {tensor.bits} bits)"
        )
    return np.dtype(f"{kind}{tensor.bits // 8}")
