"""The IR's names of dtypes: ``Float32``, ``Array<>f4>``, ``Array<x:<f8@0 id:<i4@8 12>``."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

__all__ = ["DTYPE_TEXT", "dtype_by_name", "dtype_name", "parse_dtype"]

_DTYPE_NAMES = {
    "bool": "Bool",
    "int8": "Int8",
    "int16": "Int16",
    "int32": "Int32",
    "int64": "Int64",
    "uint8": "UInt8",
    "uint16": "UInt16",
    "uint32": "UInt32",
    "uint64": "UInt64",
    "float16": "Float16",
    "float32": "Float32",
    "float64": "Float64",
    "bfloat16": "BFloat16",
    "complex64": "Complex64",
    "complex128": "Complex128",
}
_NUMBERS_BY_NAME = {text: name for name, text in _DTYPE_NAMES.items()}

_SIMPLE = r"[<>|=]?[A-Za-z]\d*(?:\[\w+\])?"
_FIELD = rf"(?P<name>\w+):(?P<shape>\((?:\d+,)*\))?(?P<dtype>{_SIMPLE})@(?P<offset>\d+)"
_ONE_FIELD = re.compile(_FIELD)
_ANY_FIELD = re.sub(r"\?P<\w+>", "?:", _FIELD)
DTYPE_TEXT = re.compile(rf"<({_SIMPLE}|(?:{_ANY_FIELD} )+\d+)>")
"""What stands behind ``Array``."""


def dtype_by_name(text: str) -> np.dtype[Any] | None:
    """The dtype with this name in the IR; None where there is none, or none in this process."""
    name = _NUMBERS_BY_NAME.get(text)
    is_known = name is not None and (name in np.sctypeDict or name == "bool")
    return np.dtype(name) if is_known else None


def dtype_name(dtype: np.dtype[Any]) -> str:
    """The IR's name of a dtype: ``Float32`` for ``float32``, or ``Array<dtype.str>``.

    That of records has their fields, with the offsets in bytes, and the size of a record.
    """
    if dtype.isnative and dtype.name in _DTYPE_NAMES:
        return _DTYPE_NAMES[dtype.name]
    fields = dtype.fields
    if fields is None or dtype.names is None:
        return f"Array<{dtype.str}>"
    texts = (f"{name}:{_field_text(*fields[name][:2])} " for name in dtype.names)
    return f"Array<{''.join(texts)}{dtype.itemsize}>"


def _field_text(dtype: np.dtype[Any], offset: int) -> str:
    shape = f"({''.join(f'{extent},' for extent in dtype.shape)})" if dtype.shape else ""
    return f"{shape}{dtype.base.str}@{offset}"


def parse_dtype(text: str) -> np.dtype[Any]:
    """The dtype that ``dtype_name`` writes so between ``<`` and ``>``.

    Raises
    ------
    TypeError
        NumPy does not know it.
    """
    if "@" not in text:
        return np.dtype(text)
    *fields, itemsize = text.split(" ")
    found = [match for match in map(_ONE_FIELD.fullmatch, fields) if match is not None]
    return np.dtype(
        {
            "names": [one["name"] for one in found],
            "formats": [_format(one["dtype"], one["shape"] or "") for one in found],
            "offsets": [int(one["offset"]) for one in found],
            "itemsize": int(itemsize),
        }
    )


def _format(dtype: str, shape: str) -> Any:
    extents = tuple(int(extent) for extent in shape.strip("()").split(",") if extent)
    return (dtype, extents) if extents else dtype
