"""What a native function takes and gives, and what must be checked before it may run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import FieldWrite

__all__ = [
    "ArrayParam",
    "ArrayResult",
    "ArraysKind",
    "ConstantParam",
    "ConstantResult",
    "GeneratorParam",
    "InputResult",
    "KindParam",
    "Layout",
    "ListParam",
    "NotedAttribute",
    "ObjectListParam",
    "ObjectParam",
    "Param",
    "Result",
    "RowsKind",
    "ScalarParam",
    "ScalarResult",
    "Signature",
    "TupleParam",
    "TupleResult",
    "UnionResult",
    "numbers_of_rows",
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
    referenced : bool
        The function puts it into lists: the object is passed on, too.
    """

    dtype: np.dtype[Any]
    dims: tuple[int | None, ...]
    layout: Layout = "C"
    written: bool = False
    referenced: bool = False


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
class KindParam:
    """An object of exactly this class, which a host program takes as it is.

    Parameters
    ----------
    class_ : type
    dtype : dtype or None
        Of an array, whose type number and byte order count.
    """

    class_: type
    dtype: np.dtype[Any] | None = None


@dataclass(frozen=True, slots=True)
class TupleParam:
    """A tuple of this length, or a NamedTuple of exactly the class ``named``; its elements are
    passed on one after the other."""

    elements: tuple[Param, ...]
    named: Any = None


@dataclass(frozen=True, slots=True)
class ObjectParam:
    """An object of exactly this class: the object, then the values of its attributes.

    Parameters
    ----------
    class_ : type
    names : tuple of str
        The attributes that are passed on.
    elements : tuple of Param
        What these are.
    inherited : tuple of (str, object)
        Methods and constants of the class that the object must not have under the same name.
    """

    class_: Any
    names: tuple[str, ...]
    elements: tuple[Param, ...]
    inherited: tuple[tuple[str, Any], ...] = ()


NumberKind = Literal["int", "float", "bool", "complex"]
ListKind = NumberKind | Literal["character"] | tuple["ListKind", ...] | None


@dataclass(frozen=True, slots=True)
class RowsKind:
    """The kind of lists whose elements are lists, ``depth`` deep, of elements of ``element``."""

    depth: int
    element: ListKind


@dataclass(frozen=True, slots=True)
class ArraysKind:
    """The kind of lists whose elements are arrays of this dtype and rank, all in C order."""

    dtype: np.dtype[Any]
    rank: int


def numbers_of_rows(kind: tuple[Any, ...]) -> Iterator[tuple[str, tuple[tuple[int, int], ...]]]:
    """The kind of each number in a tuple, and how one gets there: widths and places."""
    for place, one in enumerate(kind):
        here = (len(kind), place)
        if isinstance(one, tuple):
            yield from ((inner, (here, *path)) for inner, path in numbers_of_rows(one))
        else:
            yield one, (here,)


@dataclass(frozen=True, slots=True)
class ListParam:
    """An exact list whose elements are all Python numbers of this kind, or tuples of numbers.

    It is passed on as the object, the addresses of its numbers, one for each number in an element,
    and the count of its elements; the numbers are read from the list after all other checks.

    Parameters
    ----------
    kind : str, tuple, RowsKind, ArraysKind or None
        A tuple has the kinds of the numbers, or tuples, in each element. ``"character"`` is an
        exact ``str``, whose numbers are its code points. None is for a list without elements, of
        which only the object is passed on; so it is of lists of lists, which the function reads by
        itself. Of arrays references are passed on.
    written : bool
        The function writes to it, or to arrays in it: it must not be another argument as well, and
        these must be writeable.
    named : type or None
        The class of named tuples that the elements are.
    """

    kind: ListKind | RowsKind | ArraysKind
    written: bool = False
    named: Any = None

    @property
    def columns(self) -> int:
        """How many addresses are passed on."""
        return 1 if isinstance(self.kind, ArraysKind) else len(self.readers)

    @property
    def readers(self) -> tuple[str, ...]:
        """The functions of the runtime that read the numbers, one for each in an element."""
        if isinstance(self.kind, tuple):
            return tuple(f"jc_read_{one}_column" for one, _ in numbers_of_rows(self.kind))
        is_passed = self.kind is None or isinstance(self.kind, RowsKind | ArraysKind)
        return () if is_passed else (f"jc_read_{self.kind}s",)


@dataclass(frozen=True, slots=True)
class ObjectListParam:
    """An exact list of objects of exactly this class, all of them different, and not none.

    It is passed on as the object, the addresses of the attributes of all objects, one for each
    name, and the count of the objects; attributes are read after all other checks.

    Parameters
    ----------
    class_ : type
    names : tuple of str
    kinds : tuple of str
        What the attributes of these names are: ``"int"``, ``"float"`` or ``"bool"``.
    inherited : tuple of (str, object)
        Methods and constants of the class that no object must have under the same name.
    """

    class_: Any
    names: tuple[str, ...]
    kinds: tuple[NumberKind, ...]
    inherited: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class GeneratorParam:
    """An object of exactly this class of ``numpy.random``, whose interface is passed on.

    Its bit generator is locked while the function runs.
    """

    name: Literal["Generator", "RandomState"]


Param = (
    ArrayParam
    | ScalarParam
    | ConstantParam
    | KindParam
    | TupleParam
    | ObjectParam
    | ListParam
    | ObjectListParam
    | GeneratorParam
)


@dataclass(frozen=True, slots=True)
class ArrayResult:
    """A new ``ndarray`` or list; its slot holds its address, one reference owned by the caller.

    A null address stands for a variable that has no value, and becomes None.

    Parameters
    ----------
    argument : int or None
        The (flattened) argument that a null address stands for instead.
    named : type or None
        The class of named tuples that the tuples in a list become.
    """

    argument: int | None = None
    named: Any = None


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
    """A tuple, a NamedTuple of class ``named``, a new list, or what an `ObjectMaker` makes, of the
    results that follow."""

    elements: tuple[Result, ...]
    named: Any = None


@dataclass(frozen=True, slots=True)
class UnionResult:
    """One of several results: a slot with its number, then the slots of all of them."""

    alternatives: tuple[Result, ...]


Result = ArrayResult | ScalarResult | ConstantResult | InputResult | TupleResult | UnionResult


@dataclass(frozen=True, slots=True)
class NotedAttribute:
    """What an attribute of an argument is where an exception ends a native function.

    Slots behind the payload have 0 where it was not set yet, or the number of its type from 1, and
    then the values of all types.
    """

    write: FieldWrite
    types: tuple[ScalarResult | ConstantResult, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """All parameters in order, and the one result.

    Parameters
    ----------
    params : tuple of Param
    result : Result
    writes : tuple of (FieldWrite, Result)
        What attributes of arguments become at the end; their slots follow those of the result.
    noted : tuple of NotedAttribute
        What they are at exceptions after arrays were written.
    element_writes : tuple of FieldWrite
        The attributes of objects in lists that are written; the lists have the numbers.
    late_errors : tuple of int
        The statuses of exceptions after arrays were written: such attributes are set all the same,
        and generators are left as they are then.
    draws_globally : bool
        The function gets the interface of NumPy's own random generator after its parameters.
    """

    params: tuple[Param, ...]
    result: Result
    writes: tuple[tuple[FieldWrite, Result], ...] = ()
    noted: tuple[NotedAttribute, ...] = ()
    element_writes: tuple[FieldWrite, ...] = ()
    late_errors: tuple[int, ...] = ()
    draws_globally: bool = False
