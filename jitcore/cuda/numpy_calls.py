"""Calls of NumPy's functions with jitcore's own arrays: through CuPy, or on copies."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np

from jitcore.cuda.array import Array
from jitcore.cuda.libraries import Lent, library_of
from jitcore.cuda.mirror import call_on_host
from jitcore.cuda.streams import current_stream
from jitcore.ir.bfloat16 import is_bfloat16

__all__ = ["call", "is_of_library"]

_TRANSFORMS = ("fft", "fft2", "fftn", "rfft", "rfft2", "rfftn")
_OF_LIBRARY = frozenset(
    {"sort", *(f"fft.{name}" for name in _TRANSFORMS), *(f"fft.i{name}" for name in _TRANSFORMS)}
)
"""Functions of which CuPy's results are NumPy's, but for rounding."""


def is_of_library(name: str) -> bool:
    """Whether CuPy is installed and computes a function of NumPy, on the device.

    Examples
    --------
    >>> is_of_library("linalg.solve")
    False
    """
    return name in _OF_LIBRARY and _cupy() is not None


def call(function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """Call a function of NumPy, a ufunc, or a method of ``ndarray``.

    Parameters
    ----------
    function : callable
    args, keywords
        Some of them arrays on a device, also in tuples and lists.

    Raises
    ------
    TypeError
        Arrays lie on different devices.
    """
    arrays = list(_arrays([*args, *keywords.values()]))
    device = _common_device(arrays)
    stream, cupy = current_stream(device), _cupy()
    try:
        if cupy is not None and _has(cupy, function) and not _is_numpy_s(function, args, keywords):
            return _through_cupy(cupy, function, args, keywords, device)
        library = library_of(arrays[0])
        assert library is not None
        return call_on_host(function, args, keywords, library=library, device=device, stream=stream)
    finally:
        for one in arrays:
            one.used_on(stream)


def _arrays(values: Sequence[Any]) -> Iterator[Array]:
    for value in values:
        if isinstance(value, tuple | list):
            yield from _arrays(value)
        elif isinstance(value, Array):
            yield value


def _common_device(arrays: Sequence[Array]) -> int:
    found = sorted({array.device_number for array in arrays})
    if len(found) > 1:
        names = " and ".join(f"cuda:{number}" for number in found)
        raise TypeError(f"arrays on {names} cannot be used together; move them with jitcore.to")
    return found[0]


@cache
def _cupy() -> Any:
    """CuPy, if it is installed and works."""
    if importlib.util.find_spec("cupy") is None:
        return None
    with suppress(ImportError):
        return importlib.import_module("cupy")
    return None


def _has(cupy: Any, function: Callable[..., Any]) -> bool:
    """Whether CuPy has its own form of a function of NumPy."""
    if getattr(function, "__objclass__", None) is np.ndarray:
        return hasattr(cupy.ndarray, function.__name__)
    owner = getattr(function, "__self__", function)
    if isinstance(owner, np.ufunc):
        return hasattr(cupy, owner.__name__)
    module = getattr(function, "__module__", "") or ""
    if module in ("_operator", "operator"):
        return True
    part = cupy
    for name in (*module.split(".")[1:], function.__name__):
        part = getattr(part, name, None)
    return module.split(".")[0] == "numpy" and part is not None


def _is_numpy_s(
    function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any]
) -> bool:
    """Whether a call has arrays that CuPy has not: of bfloat16, or read-only and written."""
    ufunc = getattr(function, "__self__", function)
    only_out = isinstance(ufunc, np.ufunc) and function.__name__ != "at"
    written = [keywords.get("out")] if only_out else [*args, *keywords.values()]
    has_bfloat16 = any(is_bfloat16(one.dtype) for one in _arrays([*args, *keywords.values()]))
    return has_bfloat16 or any(one.read_only for one in _arrays(written))


def _through_cupy(
    cupy: Any, function: Callable[..., Any], args: Any, keywords: Mapping[str, Any], device: int
) -> Any:
    """Call CuPy on the arrays' own memory."""
    given: dict[int, tuple[Any, Array]] = {}
    computes = isinstance(getattr(function, "__self__", function), np.ufunc)

    def entered(value: Any) -> Any:
        if computes and isinstance(value, np.ndarray):
            # What code makes on the host and computes with, as NumPy's calls on copies do.
            return cupy.asarray(value)
        if isinstance(value, Array):
            made = cupy.asarray(Lent(value))
            given[id(made)] = (made, value)
            return made
        if type(value) in (tuple, list):
            return type(value)(map(entered, value))
        return value

    def left(value: Any) -> Any:
        if isinstance(value, cupy.ndarray):
            if id(value) in given:
                return given[id(value)][1]
            interface = value.__cuda_array_interface__
            address, strides = interface["data"][0], interface["strides"]
            return Array(address, value.shape, strides, value.dtype, value, device)
        if type(value) in (tuple, list):
            return type(value)(map(left, value))
        return value

    called = function
    if getattr(function, "__objclass__", None) is np.ndarray:
        called = getattr(cupy.ndarray, function.__name__)
    stream = cupy.cuda.ExternalStream(current_stream(device))
    with cupy.cuda.Device(device), stream:
        host_args = [entered(one) for one in args]
        host_keywords = {name: entered(one) for name, one in keywords.items()}
        return left(called(*host_args, **host_keywords))
