"""What the kinds mean that only typed graphs have, as plain NumPy functions.

Each takes a node's operands in order and its attributes by name; the op table's column
``reference`` points here where a kind is not simply NumPy's function of that name.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

__all__ = [
    "IndexOperand",
    "IndexPart",
    "IndexSlice",
    "argmax",
    "argmin",
    "broadcast_to",
    "build_index",
    "call_method",
    "cast",
    "check_bound",
    "compress",
    "concatenate",
    "contained",
    "copy",
    "delitem",
    "dict_construct",
    "empty",
    "full",
    "gather",
    "get_attribute",
    "getitem",
    "iota",
    "item",
    "list_construct",
    "not_contained",
    "parse_index",
    "put_mask",
    "reshape",
    "scatter",
    "set_attribute",
    "set_construct",
    "setitem",
    "size",
    "store",
    "transpose",
    "tuple_construct",
    "unpack",
    "view",
]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class IndexOperand:
    """``$2`` in the text of an index: the node's operand number 2 after the array."""

    number: int


@dataclass(frozen=True, slots=True)
class IndexSlice:
    """``start:stop:step`` in the text of an index; None where a part is absent."""

    start: int | IndexOperand | None = None
    stop: int | IndexOperand | None = None
    step: int | IndexOperand | None = None


IndexPart = int | IndexOperand | IndexSlice | None
_NUMBER = re.compile(r"-?\d+")
_OPERAND = re.compile(r"\$(\d+)")


@lru_cache(maxsize=1024)
def parse_index(text: str) -> tuple[IndexPart, ...]:
    """The parts of an index: ``"1:-1, $0, None"`` gives a slice, an operand and a new axis.

    Raises
    ------
    ValueError
        The text has a part that is none of these.
    """
    return tuple(_parse_part(part.strip(), text) for part in text.split(",") if part.strip())


def _parse_part(part: str, text: str) -> IndexPart:
    if part == "None":
        return None
    if ":" not in part:
        return _parse_bound(part, text)
    bounds = part.split(":")
    if len(bounds) > 3:
        raise ValueError(f"expected start:stop:step in the index {text!r}, found {part!r}")
    return IndexSlice(*(_parse_bound(b.strip(), text) if b.strip() else None for b in bounds))


def _parse_bound(part: str, text: str) -> int | IndexOperand:
    if _NUMBER.fullmatch(part):
        return int(part)
    match = _OPERAND.fullmatch(part)
    if match is None:
        raise ValueError(f"expected a number, a slice or $k in the index {text!r}, found {part!r}")
    return IndexOperand(int(match[1]))


def build_index(text: str, operands: Sequence[Any]) -> tuple[Any, ...]:
    """The Python index that a text and its operands stand for."""

    def bound(part: int | IndexOperand | None) -> Any:
        return operands[part.number] if isinstance(part, IndexOperand) else part

    def subscript(part: IndexPart) -> Any:
        if isinstance(part, IndexSlice):
            return slice(bound(part.start), bound(part.stop), bound(part.step))
        return bound(part)

    return tuple(subscript(part) for part in parse_index(text))


def view(x: Array, *operands: int, index: str) -> Array:
    """Basic indexing that always gives a view, a 0-d array where nothing else is left."""
    result = x[(*build_index(index, operands), Ellipsis)]
    assert isinstance(result, np.ndarray)
    return result


def item(x: Array) -> Any:
    """The NumPy scalar in a 0-d array."""
    return x[()]


def cast(x: Any, *, dtype: np.dtype[Any]) -> Any:
    """``x.astype(dtype)`` of an array, a NumPy scalar or a Python number."""
    if isinstance(x, np.ndarray | np.generic):
        return x.astype(dtype)
    return np.asarray(x).astype(dtype)[()]


def size(x: Any, *, dim: int) -> int:
    """The extent of one axis, as a Python int."""
    extent: int = np.shape(x)[dim]
    return extent


def store(target: Array, value: Any) -> None:
    """Write ``value`` to all of ``target``, as if it were computed before the first write."""
    target[...] = value


def transpose(x: Array, *, axes: tuple[int, ...] | None = None) -> Array:
    """``np.transpose``."""
    return np.transpose(x, axes)


def _extents(dims: tuple[Any, ...]) -> Any:
    # The generic form gives one shape where the typed form gives one int for each axis.
    return dims[0] if len(dims) == 1 and np.ndim(dims[0]) == 1 else dims


def reshape(x: Array, *dims: Any, **keywords: Any) -> Array:
    """``np.reshape`` with the shape as one int for each axis."""
    return np.reshape(x, keywords.pop("shape", _extents(dims)), **keywords)


def broadcast_to(x: Any, *dims: Any, **keywords: Any) -> Array:
    """``np.broadcast_to`` with the shape as one int for each axis."""
    return np.broadcast_to(x, keywords.pop("shape", _extents(dims)), **keywords)


def empty(*dims: int, dtype: np.dtype[Any]) -> Array:
    """A new array of unspecified contents."""
    return np.empty(dims, dtype)


def full(value: Any, *dims: int, dtype: np.dtype[Any]) -> Array:
    """A new array that holds ``value`` everywhere."""
    return np.full(dims, value, dtype)


def iota(start: Any, step: Any, count: int, *, dtype: np.dtype[Any]) -> Array:
    """``start + i * step`` for ``i`` below ``count``, computed in ``dtype``."""
    kind = np.dtype(dtype)
    numbers = np.arange(count, dtype=np.int64).astype(kind)
    with np.errstate(over="ignore"):
        result = cast(start, dtype=kind) + numbers * cast(step, dtype=kind)
    return np.asarray(result)


def copy(x: Any) -> Array:
    """A fresh array in C order."""
    return np.array(x, order="C")


def concatenate(*arrays: Array, axis: int = 0) -> Array:
    """``np.concatenate`` with one operand for each array."""
    return np.concatenate(arrays, axis)


def gather(x: Array, *operands: Any, index: str) -> Any:
    """Advanced indexing by integer arrays: a copy."""
    return x[build_index(index, operands)]


def scatter(x: Array, *operands: Any, index: str) -> None:
    """Write the last operand to the elements that ``gather`` would read."""
    *subscripts, value = operands
    x[build_index(index, subscripts)] = value


def compress(x: Array, mask: Array) -> Array:
    """The elements of ``x`` where ``mask``, which spans the leading axes, is true."""
    result = x[mask]
    assert isinstance(result, np.ndarray)
    return result


def put_mask(x: Array, mask: Array, value: Any) -> None:
    """Write ``value`` to the elements that ``compress`` would read."""
    x[mask] = value


def _one_axis(axis: Any, rank: int) -> Any:
    if not isinstance(axis, tuple):
        return axis
    return axis[0] if len(axis) == 1 and rank > 1 else None


def argmin(x: Any, axis: Any = None, **keywords: Any) -> Any:
    """``np.argmin``; the typed form gives the axes as a tuple, of one axis or of all."""
    return np.argmin(x, _one_axis(axis, np.ndim(x)), **keywords)


def argmax(x: Any, axis: Any = None, **keywords: Any) -> Any:
    """``np.argmax``; the typed form gives the axes as a tuple, of one axis or of all."""
    return np.argmax(x, _one_axis(axis, np.ndim(x)), **keywords)


def contained(x: Any, container: Any) -> bool:
    """``x in container``."""
    return x in container


def not_contained(x: Any, container: Any) -> bool:
    """``x not in container``."""
    return x not in container


def tuple_construct(*values: Any, named: Any = None) -> Any:
    """A tuple of the values, or a NamedTuple of the class ``named``."""
    return values if named is None else named(*values)


def list_construct(*values: Any) -> list[Any]:
    """A new list of the values."""
    return list(values)


def set_construct(*values: Any) -> set[Any]:
    """A new set of the values."""
    return set(values)


def dict_construct(*keys_and_values: Any) -> dict[Any, Any]:
    """A new dict of keys and values, given in turn."""
    return dict(zip(keys_and_values[::2], keys_and_values[1::2], strict=True))


def check_bound(x: Any, flag: bool, *, name: str) -> Any:
    """``x``, or Python's error for a variable without a value where ``flag`` is false."""
    if flag:
        return x
    raise UnboundLocalError(
        f"cannot access local variable '{name}' where it is not associated with a value"
    )


def unpack(x: Any, *, count: int, star: int | None = None) -> tuple[Any, ...]:
    """The values that ``a, b = x`` binds; target number ``star`` is a starred one.

    Raises
    ------
    TypeError, ValueError
        Python's own errors for what cannot be unpacked so.
    """
    if not hasattr(type(x), "__iter__") and not hasattr(type(x), "__getitem__"):
        raise TypeError(f"cannot unpack non-iterable {type(x).__name__} object")
    iterator = iter(x)
    needed = count if star is None else count - 1
    # One value more than are needed shows whether there are too many, as Python looks.
    values = list(itertools.islice(iterator, count + 1)) if star is None else list(iterator)
    if len(values) < needed:
        least = "" if star is None else "at least "
        raise ValueError(
            f"not enough values to unpack (expected {least}{needed}, got {len(values)})"
        )
    if star is None:
        if len(values) > count:
            raise ValueError(f"too many values to unpack (expected {count})")
        return tuple(values)
    end = len(values) - (needed - star)
    return (*values[:star], values[star:end], *values[end:])


def getitem(x: Any, index: Any) -> Any:
    """``x[index]``."""
    return x[index]


def setitem(x: Any, index: Any, value: Any) -> None:
    """``x[index] = value``."""
    x[index] = value


def delitem(x: Any, index: Any) -> None:
    """``del x[index]``."""
    del x[index]


def get_attribute(x: Any, *, name: str) -> Any:
    """``x.name``."""
    return getattr(x, name)


def set_attribute(x: Any, value: Any, *, name: str) -> None:
    """``x.name = value``."""
    setattr(x, name, value)


def call_method(x: Any, /, *values: Any, name: str, **keywords: Any) -> Any:
    """``x.name(*values, **keywords)``."""
    return getattr(x, name)(*values, **keywords)
