"""Arrays in archives: each memory once, as an ``.npy`` file, and views of it by their strides."""

from __future__ import annotations

import ctypes
import io
import math
import tokenize
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from jitcore.errors import SerializationError
from jitcore.serialization.fields import Fields

__all__ = ["ArrayReader", "array_header", "array_problem", "describe_arrays"]

Array = np.ndarray[Any, Any]

_MAX_RANK = 64
_MAX_HEADER = 10_000
_NOT_NPY = (
    EOFError,
    MemoryError,
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
    tokenize.TokenError,
)
"""What NumPy raises for headers that are none."""


def array_problem(array: Array) -> str | None:
    """Why an array cannot be saved; None where it can."""
    if type(array) is not np.ndarray:
        return f"arrays of the class {type(array).__qualname__} cannot be saved; np.asarray() can"
    if array.dtype.hasobject:
        return "an array of Python objects cannot be saved"
    return None


def describe_arrays(arrays: Sequence[Array]) -> tuple[list[dict[str, Any]], dict[str, bytes]]:
    """What is to be noted of each array, and the files with their contents.

    Arrays that overlap in memory share one file, so that they do again when they are loaded.
    """
    notes: list[dict[str, Any]] = [{} for _ in arrays]
    files: dict[str, bytes] = {}
    for group in _groups(arrays):
        name = f"arrays/{len(files)}.npy"
        stored, low = _stored([arrays[number] for number in group])
        files[name] = _npy(stored)
        whole = True
        for number in group:
            array = arrays[number]
            notes[number] = {"file": name, "writeable": array.flags.writeable}
            if low is not None and not (whole and _is_same(array, stored, low)):
                notes[number] |= _view(array, low)
            else:
                whole = False
    return notes, files


def _groups(arrays: Sequence[Array]) -> list[list[int]]:
    """The numbers of arrays whose bytes overlap, directly or through others."""
    bounds = [byte_bounds(array) if array.size else (0, 0) for array in arrays]
    order = sorted((low, high, number) for number, (low, high) in enumerate(bounds) if high)
    groups = [[number] for number, (_, high) in enumerate(bounds) if not high]
    end = 0
    for low, high, number in order:
        if low < end:
            groups[-1].append(number)
        else:
            groups.append([number])
        end = max(end, high) if low < end else high
    return sorted(groups, key=min)


def _stored(group: Sequence[Array]) -> tuple[Array, int | None]:
    """The array that is written for a group, and the address it starts at; None for a copy."""
    if len(group) == 1:
        array = group[0]
        plain = array.flags.c_contiguous or array.flags.f_contiguous
        return (array if plain else array.copy("K")), None
    bounds = [byte_bounds(array) for array in group]
    low, high = min(first for first, _ in bounds), max(last for _, last in bounds)
    for array in group:
        if array.flags.c_contiguous and byte_bounds(array) == (low, high):
            return array, low
    memory = memoryview((ctypes.c_ubyte * (high - low)).from_address(low))
    return np.frombuffer(memory, np.uint8).copy(), low


def _is_same(array: Array, stored: Array, low: int) -> bool:
    """Whether an array is just what is stored."""
    same = array.dtype == stored.dtype and array.shape == stored.shape
    return same and array.strides == stored.strides and array.ctypes.data == low


def _view(array: Array, low: int) -> dict[str, Any]:
    return {
        "dtype": np.lib.format.dtype_to_descr(array.dtype),
        "shape": list(array.shape),
        "strides": list(array.strides),
        "offset": array.ctypes.data - low,
    }


def _npy(array: Array) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, version=(2, 0), allow_pickle=False)
    return buffer.getvalue()


class ArrayReader:
    """Arrays from their files; each file's memory is there once."""

    def __init__(self, entries: Mapping[str, bytes]) -> None:
        self._entries = entries
        self._stored: dict[str, Array] = {}

    def read(self, note: Fields) -> Array:
        """The array that `describe_arrays` noted.

        Raises
        ------
        SerializationError
            The note or the file is damaged.
        """
        stored = self._file(note.text("file"))
        array = _viewed(stored, note) if "strides" in note else stored
        if not note.boolean("writeable"):
            array = array if array is not stored else array.view()
            array.flags.writeable = False
        return array

    def _file(self, name: str) -> Array:
        if name not in self._stored:
            if name not in self._entries:
                raise SerializationError(f"the archive has no entry '{name}'")
            self._stored[name] = read_npy(self._entries[name], name)
        return self._stored[name]


def read_npy(data: bytes, name: str) -> Array:
    """The array in an ``.npy`` file of exactly this size; objects are refused."""
    shape, fortran, dtype, start = _header(data, name)
    size = math.prod(shape) * dtype.itemsize
    if dtype.hasobject or min(shape, default=0) < 0 or size != len(data) - start:
        raise SerializationError(f"'{name}' in the archive does not hold the array it describes")
    # A new array, whose memory is aligned and writeable.
    try:
        array = np.empty(shape, dtype, "F" if fortran else "C")
    except ValueError as error:
        raise SerializationError(f"'{name}' in the archive has no valid shape: {error}") from None
    if size:
        flat = array.T if fortran else array
        flat.reshape(-1)[...] = np.frombuffer(data, dtype, offset=start)
    return array


def array_header(data: bytes, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and dtype of the array in an ``.npy`` file."""
    shape, _, dtype, _ = _header(data, name)
    return shape, dtype


def _header(data: bytes, name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    stream = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        read_header = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, fortran, dtype = read_header(stream, max_header_size=_MAX_HEADER)
    except (*_NOT_NPY, Warning) as error:
        raise SerializationError(
            f"'{name}' in the archive is no valid .npy file: {error}"
        ) from None
    return shape, fortran, dtype, stream.tell()


def _viewed(stored: Array, note: Fields) -> Array:
    shape, strides = note.integers("shape"), note.integers("strides")
    offset = note.integer("offset")
    problem = note.problem("describes no view of its file")
    try:
        dtype: Any = np.lib.format.descr_to_dtype(_as_descr(note.get("dtype")))
    except (ValueError, TypeError, RecursionError) as error:
        raise problem from error
    if len(shape) != len(strides) or len(shape) > _MAX_RANK or dtype.hasobject:
        raise problem
    if offset < 0 or min(shape, default=0) < 0 or stored.dtype.hasobject:
        raise problem
    memory = (stored.T if stored.flags.f_contiguous else stored).reshape(-1).view(np.uint8)
    try:
        # NumPy checks that the view lies inside the memory.
        return np.ndarray(tuple(shape), dtype, memory.data, offset, tuple(strides))
    except (ValueError, TypeError, OverflowError) as error:
        raise problem from error


def _as_descr(value: Any) -> Any:
    """NumPy's description of a dtype: JSON has lists where it has tuples."""
    if isinstance(value, list):
        return [tuple(map(_as_descr_item, row)) for row in value if isinstance(row, list)]
    return value


def _as_descr_item(value: Any) -> Any:
    if isinstance(value, list) and all(isinstance(one, int) for one in value):
        return tuple(value)
    return _as_descr(value)
