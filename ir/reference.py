"""What the kinds mean that only typed graphs have, as plain NumPy functions.

Each takes a node's operands in order and its attributes by name; the op table's column
``reference`` points here where a kind is not simply NumPy's function of that name.
"""

from __future__ import annotations

import builtins
import itertools
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import CellType, MethodType
from typing import Any, TypeVar

import numpy as np

from jitcore.ir.dataclass import dataclass

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
    "field",
    "from_int",
    "full",
    "gather",
    "get_attribute",
    "getitem",
    "iota",
    "item",
    "list_construct",
    "mapping_rest",
    "mapping_values",
    "not_contained",
    "parse_index",
    "put_mask",
    "read_cell",
    "record",
    "require",
    "reshape",
    "same",
    "scatter",
    "set_attribute",
    "set_construct",
    "setitem",
    "size",
    "store",
    "transpose",
    "tuple_construct",
    "unbound_message",
    "unpack",
    "view",
]

Array = np.ndarray[Any, Any]

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])


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


def _left_to_python(function: AnyFunction) -> AnyFunction:
    """Mark a function that programs call: it is not compiled with them."""
    function.__jitcore_mark__ = "ignore"  # type: ignore[attr-defined]
    return function


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


def field(x: Array, *, name: str) -> Array:
    """The view of one field of a structured array."""
    found: Array = x[name]
    return found


def record(x: Array) -> Any:
    """The record in a structured array without axes."""
    return x[()]


def item(x: Array) -> Any:
    """The NumPy scalar in a 0-d array."""
    return x[()]


def cast(x: Any, *, dtype: np.dtype[Any]) -> Any:
    """``x.astype(dtype)`` of an array, a NumPy scalar or a Python number."""
    if isinstance(x, np.ndarray | np.generic):
        return x.astype(dtype)
    return np.asarray(x).astype(dtype)[()]


def from_int(x: int, *, dtype: np.dtype[Any]) -> Any:
    """A Python int as a NumPy scalar; OverflowError where the dtype does not hold it."""
    return np.dtype(dtype).type(x)


def size(x: Any, *, dim: int) -> int:
    """The extent of one axis, as a Python int."""
    extent: int = np.shape(x)[dim]
    return extent


def store(target: Array, value: Any, *, in_place: bool = False) -> None:
    """Write ``value`` to all of ``target``, as if it were computed before the first write.

    ``in_place`` says that the value was computed for that, as in ``target += x``.
    """
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


def empty(*dims: int, dtype: np.dtype[Any], like: Array | None = None, order: Any = "K") -> Array:
    """A new array of unspecified contents; ``order`` says how its axes are like those of another.

    With ``K`` they are in the same order, with ``A`` only where the other is Fortran-contiguous.
    """
    if like is None:
        return np.empty(dims, dtype)
    if order == "A":
        return np.empty(dims, dtype, "F" if like.flags.fnc else "C")
    return np.empty_like(like, dtype, shape=dims)


def full(
    value: Any,
    *dims: int,
    dtype: np.dtype[Any],
    like: Array | None = None,
    order: Any = "K",
) -> Array:
    """A new array that holds ``value`` everywhere; ``like`` and ``order`` as in ``empty``."""
    result = empty(*dims, dtype=dtype, like=like, order=order)
    result[...] = value
    return result


def iota(start: Any, step: Any, count: int, *, dtype: np.dtype[Any]) -> Array:
    """``start + i * step`` for ``i`` below ``count``, computed in ``dtype``.

    Raises
    ------
    ValueError
        ``count`` is negative.
    """
    kind = np.dtype(dtype)
    numbers = np.empty(count, np.int64)
    numbers[:] = np.arange(count)
    numbers = numbers.astype(kind)
    with np.errstate(over="ignore"):
        result = cast(start, dtype=kind) + numbers * cast(step, dtype=kind)
    return np.asarray(result)


def same(x: Any) -> Any:
    """``x`` itself."""
    return x


def copy(a: Any, order: Any = "K", *more: Any, **keywords: Any) -> Array:
    """``np.copy``; a fresh array with its axes in the same order if nothing else is asked for."""
    return np.copy(a, order, *more, **keywords)


def listed(x: Array) -> Array:
    """``np.array`` of the list of these numbers: of an empty list it is an array of float64."""
    return x.copy() if len(x) else np.array([])


def concatenate(*arrays: Array, axis: int = 0) -> Array:
    """``np.concatenate`` with one operand for each array."""
    return np.concatenate(arrays, axis)


def rolled(x: Array, *, shifts: tuple[int, ...]) -> Array:
    """``np.roll`` along all axes."""
    return np.roll(x, shifts, tuple(range(x.ndim)))


def gather(x: Array, *operands: Any, index: str, order: Any = "K") -> Any:
    """Advanced indexing by integer arrays: a copy, in the order NumPy gives it or in C order."""
    return np.asarray(x[build_index(index, operands)], order=order)


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


def argmin(a: Any, axis: Any = None, *more: Any, **keywords: Any) -> Any:
    """``np.argmin``; the typed form gives the axes as a tuple, of one axis or of all."""
    return np.argmin(a, _one_axis(axis, np.ndim(a)), *more, **keywords)


def argmax(a: Any, axis: Any = None, *more: Any, **keywords: Any) -> Any:
    """``np.argmax``; the typed form gives the axes as a tuple, of one axis or of all."""
    return np.argmax(a, _one_axis(axis, np.ndim(a)), *more, **keywords)


def contained(x: Any, container: Any) -> bool:
    """``x in container``."""
    return x in container


def not_contained(x: Any, container: Any) -> bool:
    """``x not in container``."""
    return x not in container


def tuple_construct(*values: Any, named: Any = None) -> Any:
    """A tuple of the values, a NamedTuple of the class ``named``, or a list."""
    if named is list:
        return list(values)
    return values if named is None else named(*values)


def list_construct(*values: Any) -> list[Any]:
    """A new list of the values."""
    return list(values)


def set_construct(*values: Any) -> set[Any]:
    """A new set of the values."""
    return set(values)


def dict_construct(*keys_and_values: Any, known: bool = False) -> dict[Any, Any]:
    """A new dict of keys and values, given in turn; nobody changes it if it is ``known``."""
    return dict(zip(keys_and_values[::2], keys_and_values[1::2], strict=True))


def check_bound(x: Any, flag: bool, *, name: str) -> Any:
    """``x``, or Python's error for a variable without a value where ``flag`` is false."""
    if flag:
        return x
    raise UnboundLocalError(
        f"cannot access local variable '{name}' where it is not associated with a value"
    )


def unbound_message(name: str, is_own: bool) -> str:
    """What Python says of a variable without a value, its own or one of a function around."""
    if is_own:
        return f"cannot access local variable '{name}' where it is not associated with a value"
    return (
        f"cannot access free variable '{name}' where it is not associated with a value "
        "in enclosing scope"
    )


@_left_to_python
def read_cell(cell: CellType, name: str, is_own: bool) -> Any:
    """The variable that a cell holds; ``is_own`` where the function that reads it assigns it."""
    try:
        return cell.cell_contents
    except ValueError:
        pass
    if is_own:
        return check_bound(None, False, name=name)
    raise NameError(unbound_message(name, is_own), name=name)


def require(condition: Any, exception: str, message: str, *numbers: Any) -> None:
    """Raise the built-in exception of this name where a condition does not hold.

    The message has a ``{}`` for each of the ints that are given.
    """
    if not condition:
        raise getattr(builtins, exception)(message.format(*numbers) if numbers else message)


def require_shape(condition: Any, x: Any, *, message: str) -> None:
    """Raise a ValueError about the shape of an array, ``{}`` in the message."""
    if not condition:
        raise ValueError(message.format(x.shape))


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


@_left_to_python
def enter_context(manager: Any) -> tuple[Any, Any]:
    """Enter a context as ``with`` does: the bound ``__exit__``, and what ``__enter__`` gave."""
    class_ = type(manager)
    message = f"{class_.__name__!r} object does not support the context manager protocol"
    if not hasattr(class_, "__enter__"):
        raise TypeError(message)
    if not hasattr(class_, "__exit__"):
        raise TypeError(f"{message} (missed __exit__ method)")
    leave = MethodType(class_.__exit__, manager)
    return leave, class_.__enter__(manager)


@_left_to_python
def leave_context(leave: Any, exception: BaseException) -> Any:
    """Leave a context in which an exception was raised; true where that is suppressed."""
    return leave(type(exception), exception, exception.__traceback__)


@_left_to_python
def exception_matches(exception: BaseException, classes: Any) -> bool:
    """Whether ``except classes:`` catches an exception."""
    kinds = classes if isinstance(classes, tuple) else (classes,)
    if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        raise TypeError("catching classes that do not inherit from BaseException is not allowed")
    return any(kind in type(exception).__mro__ for kind in kinds)


@_left_to_python
def numbers_of(array: Array) -> list[Any]:
    """The elements of an array as Python numbers."""
    numbers: list[Any] = array.tolist()
    return numbers


@_left_to_python
def scalars_of(array: Array) -> list[Any]:
    """The elements of an array as NumPy scalars."""
    return list(array)


@_left_to_python
def tuples_of(*columns: list[Any]) -> list[tuple[Any, ...]]:
    """The tuples whose elements are in these lists."""
    return list(zip(*columns, strict=True))


@_left_to_python
def named_rows(class_: Any, rows: list[tuple[Any, ...]]) -> list[Any]:
    """The named tuples of a class that have the elements of these tuples."""
    return [class_(*row) for row in rows]


@_left_to_python
def mixed_of(known: tuple[int, ...], codes: Array, *lists: list[Any]) -> list[Any]:
    """For each code the element of the list that it stands for."""
    by_code = dict(zip(known, lists, strict=True))
    return [by_code[code][place] for place, code in enumerate(codes.tolist())]


@_left_to_python
def mapping_values(mapping: Any, keys: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The values of a mapping for the keys of a pattern; None where it lacks one of them."""
    if len(mapping) < len(keys):
        return None
    for at, key in enumerate(keys):
        if key in keys[:at]:
            raise ValueError(f"mapping pattern checks duplicate key ({key!r})")
    missing = object()
    values = tuple(mapping.get(key, missing) for key in keys)
    return None if any(value is missing for value in values) else values


@_left_to_python
def mapping_rest(mapping: Any, keys: tuple[Any, ...]) -> dict[Any, Any]:
    """What a mapping has besides the keys of a pattern."""
    return {key: value for key, value in mapping.items() if key not in keys}
