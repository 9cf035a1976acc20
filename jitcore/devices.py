"""Where arrays lie, as far as everyone has to know it: whether a call has to do with a device.

This module is imported by all programs, so nothing of CUDA is; `jitcore.cuda` is when the first
array on a device comes.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any, Final

import numpy as np

from jitcore.ir.types import MAX_TUPLES

__all__ = ["device", "device_number", "is_device_array", "to"]

_HOST = frozenset({np.ndarray, int, float, bool, complex, str, NoneType, list, dict})
"""What most arguments are."""

_known: list[Callable[[object], int | None]] = []
"""What knows the array libraries, once it was needed."""


def device_number(values: Sequence[Any], nesting: int = MAX_TUPLES) -> int | None:
    """The number of the device that the first array on one lies on; None without such arrays.

    Parameters
    ----------
    values : sequence
        Tuples among them are looked into, lists and dicts are not.
    nesting : int
        How deep the tuples are looked into.
    """
    for value in values:
        if type(value) in _HOST:
            continue
        is_tuple = nesting > 0 and issubclass(type(value), tuple)
        found = device_number(value, nesting - 1) if is_tuple else _device_of(value)
        if found is not None:
            return found
    return None


def is_device_array(value: object) -> bool:
    """Whether an object is an array on a CUDA device, of whatever library."""
    return type(value) not in _HOST and _device_of(value) is not None


def _device_of(value: object) -> int | None:
    if _known:
        return _known[0](value)
    kind = type(value)
    if issubclass(kind, np.generic):
        return None
    if not (hasattr(kind, "__cuda_array_interface__") or hasattr(kind, "__dlpack_device__")):
        return None
    if isinstance(value, np.ndarray | type):
        return None
    _known.append(importlib.import_module("jitcore.cuda.libraries").device_of)
    return _known[0](value)


class device:
    """Where arrays lie: ``"cpu"``, or a GPU, ``"cuda"`` or ``"cuda:1"``.

    Parameters
    ----------
    name : str or device
    index : int, optional
        The GPU's number, where the name has none; 0 by default.

    Raises
    ------
    ValueError
        There is no such kind of device.
    TypeError
        The index is no int.

    Examples
    --------
    >>> import jitcore
    >>> jitcore.device("cuda", 1)
    device('cuda:1')
    """

    __slots__ = ("index", "type")
    type: Final[str]  # type: ignore[misc]  # set below, as nothing may set it again
    index: Final[int]  # type: ignore[misc]

    def __init__(self, name: str | device, index: int | None = None) -> None:
        kind, _, number = str(name).partition(":")
        if kind not in ("cpu", "cuda") or (number and not number.isdecimal()):
            raise ValueError(f"a device is 'cpu', 'cuda' or 'cuda:1', say; found {name!r}")
        if not isinstance(index, int | None):
            raise TypeError(f"a device's index is an int; found {index!r}")
        if number and index not in (None, int(number)):
            raise ValueError(f"device {name!r} has another number than {index}")
        found = int(number) if number else index or 0
        if found < 0 or (kind == "cpu" and found):
            raise ValueError(f"there is no device {kind}:{found}")
        object.__setattr__(self, "type", kind)
        object.__setattr__(self, "index", found)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a device is a value: its {name} cannot be set")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (str(self),)

    def __str__(self) -> str:
        return self.type if self.type == "cpu" else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        return f"device({str(self)!r})"


def to(value: Any, where: str | device) -> Any:
    """Move an array, or the arrays in tuples, lists and dicts, to a device; modules, too.

    Parameters
    ----------
    value : array, jitcore.nn.Module, or tuple, list or dict of such
        All else stays as it is.
    where : str or device
        ``"cpu"`` gives NumPy arrays, ``"cuda"`` `jitcore.cuda.Array`\\ s.

    Returns
    -------
    object
        The same object where nothing has to move.

    Raises
    ------
    DriverError
        There is no such device; the message says what to install.

    Examples
    --------
    >>> import numpy as np, jitcore
    >>> jitcore.to(np.ones(2), "cpu")
    array([1., 1.])
    """
    target = device(where)
    if isinstance(value, list):
        return [to(item, target) for item in value]
    if type(value) is tuple:
        return tuple(to(item, target) for item in value)
    if isinstance(value, tuple):
        return type(value)(*(to(item, target) for item in value))
    if isinstance(value, dict):
        return {key: to(item, target) for key, item in value.items()}
    if hasattr(type(value), "__jitcore_module__"):
        return value.to(target)
    if isinstance(value, np.ndarray) and target.type == "cpu":
        return value
    if isinstance(value, np.ndarray) or is_device_array(value):
        return importlib.import_module("jitcore.cuda.transfers").moved(value, target)
    return value
