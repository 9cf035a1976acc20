"""Weights from elsewhere: state dicts, ``.npz`` and ``.safetensors`` files."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jitcore.errors import Error, SerializationError
from jitcore.nn.arrays import Array

__all__ = ["IncompatibleKeys", "load_into", "read_weights"]


class IncompatibleKeys(NamedTuple):
    """The names that a state dict lacks, and those that it has too many."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (
            f"IncompatibleKeys(missing_keys={self.missing_keys}, "
            f"unexpected_keys={self.unexpected_keys})"
        )


def load_into(
    what: str,
    own: Mapping[str, Array],
    given: Mapping[str, Any],
    optional: set[str],
    *,
    strict: bool,
    copy: bool,
) -> tuple[dict[str, Array], IncompatibleKeys]:
    """Copy arrays into others of the same names, or give those that are to replace them.

    Parameters
    ----------
    what : str
        The module's name, for the error.
    own, given : mapping of str to array
    optional : set of str
        Names that may be missing.
    strict : bool
        No other name may be missing, and none may be too many.
    copy : bool

    Returns
    -------
    dict of str to array, IncompatibleKeys
        Without ``copy`` the arrays of ``given`` that fit.

    Raises
    ------
    Error
        Something does not fit; nothing has been copied then.
    """
    missing = [name for name in own if name not in given and name not in optional]
    unexpected = [name for name in given if name not in own]
    arrays = {name: _as_array(name, given[name]) for name in own if name in given}
    problems = [
        f"size mismatch for {name}: the module has {own[name].shape}, the state dict {value.shape}"
        for name, value in arrays.items()
        if value.shape != own[name].shape
    ]
    if strict and missing:
        problems.append(f"missing in the state dict: {', '.join(missing)}")
    if strict and unexpected:
        problems.append(f"not in the module: {', '.join(unexpected)}")
    if problems:
        raise Error("\n  ".join([f"cannot load the state dict into {what}:", *problems]))
    if copy:
        for name, value in arrays.items():
            own[name][...] = value
    return {} if copy else arrays, IncompatibleKeys(missing, unexpected)


def _as_array(name: str, value: Any) -> Array:
    found = np.asarray(value)
    if found.dtype.kind not in "biufc":
        raise TypeError(f"'{name}' in the state dict must be an array of numbers, found {value!r}")
    return found


def read_weights(path: str | os.PathLike[str]) -> dict[str, Array]:
    """The arrays in an ``.npz`` or ``.safetensors`` file.

    Nothing in the file is run: objects in an ``.npz`` are refused.

    Raises
    ------
    SerializationError
        The file is neither, or it is damaged.
    OSError
        It cannot be read.
    """
    file = Path(path)
    if file.suffix == ".safetensors":
        return _read_safetensors(file)
    if file.suffix != ".npz":
        raise SerializationError(f"{file}: expected an .npz or .safetensors file")
    with np.load(file, allow_pickle=False) as found:
        return {name: found[name] for name in found.files}


# https://github.com/huggingface/safetensors, section "Format".
_SAFETENSORS_DTYPES = {
    "BOOL": "?",
    "U8": "u1",
    "I8": "i1",
    "U16": "<u2",
    "I16": "<i2",
    "F16": "<f2",
    "U32": "<u4",
    "I32": "<i4",
    "F32": "<f4",
    "U64": "<u8",
    "I64": "<i8",
    "F64": "<f8",
    # NumPy has no bfloat16: the upper half of a float32.
    "BF16": "<u2",
}
_MAX_HEADER = 100_000_000


def _read_safetensors(file: Path) -> dict[str, Array]:
    contents = file.read_bytes()
    length = int.from_bytes(contents[:8], "little")
    if len(contents) < 8 or length > min(len(contents) - 8, _MAX_HEADER):
        raise SerializationError(f"{file}: the file ends inside its header")
    try:
        header = json.loads(contents[8 : 8 + length].decode("utf-8"))
    except ValueError as error:
        raise SerializationError(f"{file}: the header is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise SerializationError(f"{file}: the header is not a JSON object")
    data = memoryview(contents)[8 + length :]
    return {
        name: _safetensors_array(file, name, entry, data)
        for name, entry in header.items()
        if name != "__metadata__"
    }


def _safetensors_array(file: Path, name: str, entry: Any, data: memoryview) -> Array:
    try:
        kind, shape, (start, stop) = entry["dtype"], entry["shape"], entry["data_offsets"]
    except (KeyError, TypeError, ValueError) as error:
        raise SerializationError(
            f"{file}: '{name}' has no dtype, shape and data_offsets"
        ) from error
    if kind not in _SAFETENSORS_DTYPES:
        raise SerializationError(f"{file}: '{name}' has dtype {kind!r}, which NumPy does not have")
    numbers = [start, stop, *shape] if isinstance(shape, list) else [None]
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise SerializationError(f"{file}: '{name}' has no valid shape and data_offsets")
    dtype = np.dtype(_SAFETENSORS_DTYPES[kind])
    if stop > len(data) or stop - start != math.prod(shape) * dtype.itemsize:
        raise SerializationError(
            f"{file}: '{name}' of shape {tuple(shape)} does not fit bytes {start} to {stop} of "
            f"{len(data)}"
        )
    values = np.frombuffer(data[start:stop], dtype).reshape(shape)
    if kind == "BF16":
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(dtype.newbyteorder("="))
