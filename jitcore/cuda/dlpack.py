"""DLPack: handing arrays to other libraries, and taking theirs, without a copy.

The structures are those of ``dlpack.h``, version 1.0 and the unversioned ones before it; the
protocol is Python's array API standard's.
"""

from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitcore.codegen.cuda import exchange
from jitcore.codegen.cuda.exchange import BFLOAT, CODES
from jitcore.ir.bfloat16 import bfloat16, is_bfloat16

if TYPE_CHECKING:
    from jitcore.cuda.array import Array

__all__ = ["DLDevice", "export", "read"]


class DLDevice:
    """``DLDeviceType``: what kind of memory an array lies in."""

    CPU: Final = 1
    CUDA: Final = exchange.CUDA
    CUDA_MANAGED: Final = 13


_READ_ONLY, _IS_COPIED = 1, 2
_MAJOR = 1
_NAME, _VERSIONED = b"dltensor", b"dltensor_versioned"
_KINDS = {code: kind for kind, code in CODES.items()}

_WORDS = struct.Struct("=Q8xiBBHQQQ")
"""A ``DLTensor`` but for its device: data, ndim, dtype (code, bits, lanes), shape, strides, and
byte_offset."""

_HEAD = struct.Struct("=II16xQ")
"""What is before one in a ``DLManagedTensorVersioned``: version, and behind two pointers flags."""

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


_release_function, _drop_function = _Deleter(_release), _Deleter(_drop_capsule)
_RELEASE, _DROP = (
    ctypes.cast(one, ctypes.c_void_p).value for one in (_release_function, _drop_function)
)


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
    if versioned:
        flags = _READ_ONLY if array.read_only else 0
        managed: Any = _ManagedVersioned(_MAJOR, 0, None, _RELEASE, flags, tensor)
    else:
        managed = _Managed(tensor, None, _RELEASE)
    address = ctypes.addressof(managed)
    _exported[address] = (managed, extents, strides, array)
    return _api.PyCapsule_New(address, _VERSIONED if versioned else _NAME, _DROP)


def read(
    value: Any, stream: int
) -> tuple[int, tuple[int, ...], tuple[int, ...] | None, np.dtype[Any], bool]:
    """What another library's array is; whoever works with its memory has to keep it.

    Parameters
    ----------
    value : object
        Has ``__dlpack__``.
    stream : int
        On which it will be used; the library makes it wait for its own work.

    Returns
    -------
    tuple
        Address, shape, strides in bytes (None for C order), dtype, and whether it is read-only.

    Raises
    ------
    TypeError
        NumPy has no such dtype.
    BufferError
        The library's version of DLPack is another one, or it has made a copy.
    """
    try:
        capsule = value.__dlpack__(stream=stream or 1, max_version=(1, 0))
    except TypeError:
        # Libraries older than DLPack 1.0 do not know the second argument.
        capsule = value.__dlpack__(stream=stream or 1)
    # It keeps its name: what it holds goes with it, when this function ends.
    versioned = bool(_is_valid(id(capsule), _VERSIONED))
    place = _pointer(id(capsule), _VERSIONED if versioned else _NAME)
    read_only = False
    if versioned:
        major, minor, flags = _HEAD.unpack(ctypes.string_at(place, _HEAD.size))
        if major != _MAJOR:
            raise BufferError(
                f"an array of {_library(value)} came by DLPack {major}.{minor}, "
                f"of which jitcore knows no more than {_MAJOR}.x"
            )
        if flags & _IS_COPIED:
            # Its memory goes with the capsule.
            raise BufferError(f"an array of {_library(value)} came as a copy by DLPack")
        read_only = bool(flags & _READ_ONLY)
        place += _ManagedVersioned.tensor.offset
    words = _WORDS.unpack(ctypes.string_at(place, _WORDS.size))
    data, rank, code, bits, lanes, extents, steps, offset = words
    dtype = _dtype(code, bits, lanes, value)
    shape, strides = _numbers(extents, rank), None
    if steps:
        strides = tuple(step * dtype.itemsize for step in _numbers(steps, rank))
    return data + offset, shape, strides, dtype, read_only


def _numbers(place: int, count: int) -> tuple[int, ...]:
    return struct.unpack(f"{count}q", ctypes.string_at(place, 8 * count)) if count else ()


def _dtype(code: int, bits: int, lanes: int, value: object) -> np.dtype[Any]:
    if (code, bits, lanes) == (BFLOAT, 16, 1):
        return bfloat16()
    kind = _KINDS.get(code)
    if kind is None or lanes != 1 or bits % 8:
        raise TypeError(
            f"an array of {_library(value)} has elements that NumPy "
            f"has no dtype for (DLPack's code {code}, {bits} bits)"
        )
    return np.dtype(f"{kind}{bits // 8}")


def _library(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__name__}"
