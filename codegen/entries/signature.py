"""What a native function takes and gives, and what must be checked before it may run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

__all__ = [
    "ArrayParam",
    "ArrayResult",
    "ConstantParam",
    "ConstantResult",
    "InputResult",
    "Layout",
    "ListParam",
    "Param",
    "Result",
    "ScalarParam",
    "ScalarResult",
    "Signature",
    "TupleParam",
    "TupleResult",
    "UnionResult",
]

Layout = Literal["C", "F", "strided"] | tuple[int, ...]
"""``C`` and ``F``: contiguous in that order; ``strided``: any strides that are whole elements; a
tuple: those, with the axes in this order (see ``array_orders``)."""


@dataclass(frozen=True, slots=True)
class ArrayParam:
    """An exact ``numpy.ndarray``, aligned and native-endian.

    Parameters
    ----------
    dtype : numpy.dtype
    dims : tuple of int or None
        An int must match exactly; None stands for any extent but 1.
    layout : Layout
        Arrays of one element or none, and axes of extent 1, fit any layout.
    written : bool
        The function writes to it: it must be writeable, and must not share memory with any other
        array parameter.
    """

    dtype: np.dtype[Any]
    dims: tuple[int | None, ...]
    layout: Layout = "C"
    written: bool = False


@dataclass(frozen=True, slots=True)
class ScalarParam:
    """A Python number (``"int"``, ``"float"``, ``"bool"``, ``"complex"``) or a NumPy scalar.

    Parameters
    ----------
    kind : str
        The Python type's name, or ``"numpy"`` for a NumPy scalar of exactly this dtype.
    dtype : numpy.dtype
        What the native function receives (``int64`` for an ``int``).
    """

    kind: Literal["int", "float", "bool", "complex", "numpy"]
    dtype: np.dtype[Any]


@dataclass(frozen=True, slots=True)
class ConstantParam:
    """An argument the function was compiled for: it must be this object (or, for str, int, float,
    bool, complex and tuples of them, of the same type and equal).  Nothing is passed on."""

    value: Any


@dataclass(frozen=True, slots=True)
class TupleParam:
    """A tuple of this length, or a NamedTuple of exactly the class ``named``; its elements are
    passed on one after the other."""

    elements: tuple[Param, ...]
    named: Any = None


NumberKind = Literal["int", "float", "bool"]
ListKind = NumberKind | Literal["character"] | tuple[NumberKind, ...] | None


@dataclass(frozen=True, slots=True)
class ListParam:
    """An exact list whose elements are all Python numbers of this kind, or tuples of numbers.

    It is passed on as the object, the addresses of its numbers, one for each number in an element,
    and the count of its elements; the numbers are read from the list after all other checks.

    Parameters
    ----------
    kind : str, tuple of str or None
        A tuple has the kinds of the numbers in each element.  ``"character"`` is an exact ``str``,
        whose numbers are its code points.  None is for a list without elements, of which only the
        object is passed on.
    written : bool
        The function writes to it: it must not be another argument as well.
    """

    kind: ListKind
    written: bool = False

    @property
    def readers(self) -> tuple[str, ...]:
        """The functions of the runtime that read the numbers, one for each in an element."""
        if isinstance(self.kind, tuple):
            return tuple(f"jc_read_{one}_column" for one in self.kind)
        return () if self.kind is None else (f"jc_read_{self.kind}s",)


Param = ArrayParam | ScalarParam | ConstantParam | TupleParam | ListParam


@dataclass(frozen=True, slots=True)
class ArrayResult:
    """A new ``ndarray`` or list; its slot holds its address, one reference owned by the caller.

    A null address stands for a variable that has no value, and becomes None.

    Parameters
    ----------
    argument : int or None
        The (flattened) argument that a null address stands for instead.
    """

    argument: int | None = None


@dataclass(frozen=True, slots=True)
class ScalarResult:
    """A Python number or a NumPy scalar, from its slot (two slots for complex)."""

    kind: Literal["int", "float", "bool", "complex", "numpy"]
    dtype: np.dtype[Any]


@dataclass(frozen=True, slots=True)
class ConstantResult:
    """An object known at compile time (None, a str, a dtype …); it has no slot."""

    value: Any


@dataclass(frozen=True, slots=True)
class InputResult:
    """The very object that was passed as this (flattened) argument; it has no slot."""

    index: int


@dataclass(frozen=True, slots=True)
class TupleResult:
    """A tuple, a NamedTuple of class ``named``, or a new list, of the results that follow."""

    elements: tuple[Result, ...]
    named: Any = None


@dataclass(frozen=True, slots=True)
class UnionResult:
    """One of several results: a slot with its number, then the slots of all of them."""

    alternatives: tuple[ScalarResult | ConstantResult, ...]


Result = ArrayResult | ScalarResult | ConstantResult | InputResult | TupleResult | UnionResult


@dataclass(frozen=True, slots=True)
class Signature:
    """All parameters in order, and the one result."""

    params: tuple[Param, ...]
    result: Result
