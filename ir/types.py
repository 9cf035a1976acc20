"""The types of the IR: Python's own values, and arrays with dtype and dims.

Every type is an immutable value with a stable text form that the parser reads back.  ``Tensor`` is
an array of unknown dtype and rank, ``Float32[*]`` one of unknown rank, ``Float32[n, 4]`` a matrix
with a symbolic and a known dim, ``Float32[]`` a 0-d array and plain ``Float32`` a NumPy scalar.
NumPy scalars are *strong* under NEP 50, Python's ``int`` and ``float`` are *weak*, so the two are
never the same type.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = [
    "ANY",
    "BOOL",
    "CHARACTER",
    "COMPLEX",
    "DTYPE",
    "ELLIPSIS",
    "FLOAT",
    "INT",
    "NONE",
    "OBJECT",
    "SLICE",
    "STR",
    "TENSOR",
    "DictType",
    "Dim",
    "ListType",
    "LocalListType",
    "PrimType",
    "RecordType",
    "TensorType",
    "TupleType",
    "Type",
    "UnionType",
    "array_type",
    "dtype_name",
    "is_named_tuple",
    "is_number",
    "is_scalar_tensor",
    "scalar_type",
    "symbols_in",
    "type_of_constant",
]

Dim = int | str
"""One extent of an array: a number, or the name of a symbol (equal names are equal extents)."""


class Type:
    """The base of all types.  Types are compared by value and printed by ``str``."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class PrimType(Type):
    """A type without parameters, such as ``int`` or ``None``."""

    name: str

    def __str__(self) -> str:
        return self.name


INT = PrimType("int")
"""Python's ``int``, kept in 64 bits by compiled code, which reports an overflow."""
FLOAT = PrimType("float")
BOOL = PrimType("bool")
COMPLEX = PrimType("complex")
STR = PrimType("str")
NONE = PrimType("None")
ELLIPSIS = PrimType("ellipsis")
SLICE = PrimType("slice")
DTYPE = PrimType("dtype")
OBJECT = PrimType("object")
"""A Python object known at compile time: a function, a class, a module, an exception type."""
ANY = PrimType("Any")
"""A value nothing is known about until the program runs; only the host program touches it."""

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
    "complex64": "Complex64",
    "complex128": "Complex128",
}
DTYPES_BY_NAME = {text: np.dtype(name) for name, text in _DTYPE_NAMES.items()}


def dtype_name(dtype: np.dtype[Any]) -> str:
    """The IR's name of a dtype: ``Float32`` for ``float32``, or ``Array<dtype.str>``."""
    if dtype.isnative and dtype.name in _DTYPE_NAMES:
        return _DTYPE_NAMES[dtype.name]
    return f"Array<{dtype.str}>"


@dataclass(frozen=True, slots=True)
class TensorType(Type):
    """An ``ndarray`` or a NumPy scalar.

    Parameters
    ----------
    dtype : numpy.dtype or None
        None where it is not known yet.
    dims : tuple of Dim, or None
        One entry an axis; None where even the rank is not known.
    scalar : bool
        True for a NumPy scalar (``np.float32(3)``), which is immutable; ``dims`` is ``()`` then.
    """

    dtype: np.dtype[Any] | None = None
    dims: tuple[Dim, ...] | None = None
    scalar: bool = False

    def __str__(self) -> str:
        if self.dtype is None:
            return "Tensor"
        name = dtype_name(self.dtype)
        if self.scalar:
            return name
        if self.dims is None:
            return f"{name}[*]"
        return f"{name}[{', '.join(map(str, self.dims))}]"

    @property
    def rank(self) -> int | None:
        """The number of axes, or None where it is not known."""
        return None if self.dims is None else len(self.dims)

    @property
    def is_complete(self) -> bool:
        """Whether dtype and rank are known, which is what compiled code needs."""
        return self.dtype is not None and self.dims is not None


TENSOR = TensorType()


def array_type(dtype: Any, dims: tuple[Dim, ...] | None) -> TensorType:
    """The type of an array of this dtype and these dims."""
    return TensorType(np.dtype(dtype), dims)


def scalar_type(dtype: Any) -> TensorType:
    """The type of a NumPy scalar of this dtype."""
    return TensorType(np.dtype(dtype), (), True)


@dataclass(frozen=True, slots=True)
class TupleType(Type):
    """A tuple of known length; a NamedTuple also has its class, whose fields name the elements."""

    elements: tuple[Type, ...]
    named: Any = None

    def __str__(self) -> str:
        inner = ", ".join(map(str, self.elements))
        return f"{self.named.__name__}({inner})" if self.named else f"Tuple[{inner}]"


@dataclass(frozen=True, slots=True)
class ListType(Type):
    """A list whose elements all have one type."""

    element: Type

    def __str__(self) -> str:
        return f"List[{self.element}]"

    @property
    def dtypes(self) -> tuple[np.dtype[Any], ...]:
        """Of the arrays in which compiled code gets the elements of such an argument."""
        if self.element == CHARACTER:
            return (np.dtype(np.uint32),)
        return LocalListType(self.element).dtypes


@dataclass(frozen=True, slots=True)
class LocalListType(Type):
    """A list that only compiled code knows: arrays and a length, or ``count`` known elements.

    There is one array for each number in an element, which may be a tuple.  ``element`` is None
    while the list is empty, and Any where the elements have several types.  There are no such lists
    in a typed graph that is finished.
    """

    element: Type | None
    count: int | None = None

    def __str__(self) -> str:
        return f"LocalList[{self.element}]"

    @property
    def dtypes(self) -> tuple[np.dtype[Any], ...]:
        """Of the arrays that hold the elements; empty where no arrays can."""
        found = () if self.element is None else tuple(_dtypes_in(self.element))
        known = tuple(one for one in found if one is not None)
        return known if len(known) == len(found) else ()


def _dtypes_in(element: Type) -> Iterator[np.dtype[Any] | None]:
    """The dtypes of the numbers in an element of a list; None for what is no number."""
    if isinstance(element, TupleType | RecordType):
        for part in element.elements:
            yield from _dtypes_in(part)
    elif isinstance(element, TensorType) and element.scalar:
        yield element.dtype
    else:
        known = {INT: np.int64, FLOAT: np.float64, BOOL: np.bool_}
        found = known.get(element) if isinstance(element, PrimType) else None
        yield None if found is None else np.dtype(found)


@dataclass(frozen=True, slots=True)
class RecordType(Type):
    """An object that only compiled code knows: the values of its attributes, in this order.

    There are none in a typed graph that is finished.
    """

    class_: Any
    names: tuple[str, ...]
    elements: tuple[Type, ...]

    def __str__(self) -> str:
        fields = (f"{name}: {one}" for name, one in zip(self.names, self.elements, strict=True))
        return f"{self.class_.__name__}[{', '.join(fields)}]"


CHARACTER = RecordType(str, ("code",), (INT,))
"""A character of a text: its code point.  A text that is an argument is a list of them."""


@dataclass(frozen=True, slots=True)
class DictType(Type):
    """A dict whose keys, and whose values, all have one type."""

    key: Type
    value: Type

    def __str__(self) -> str:
        return f"Dict[{self.key}, {self.value}]"


@dataclass(frozen=True, slots=True)
class UnionType(Type):
    """One of several types of single values, told apart by a tag while the program runs."""

    alternatives: tuple[Type, ...]

    def __str__(self) -> str:
        return f"Union[{', '.join(map(str, self.alternatives))}]"


def symbols_in(type_: Type) -> Iterator[Dim]:
    """The symbols among the dims of a type, those in tuples too."""
    if isinstance(type_, TensorType):
        yield from (dim for dim in type_.dims or () if isinstance(dim, str))
    elif isinstance(type_, TupleType):
        for element in type_.elements:
            yield from symbols_in(element)


def is_number(type_: Type) -> bool:
    """Whether this is one of Python's own numbers (``bool`` among them)."""
    return type_ in (INT, FLOAT, BOOL, COMPLEX)


def is_scalar_tensor(type_: Type) -> bool:
    """Whether this is a NumPy scalar."""
    return isinstance(type_, TensorType) and type_.scalar


def type_of_constant(value: Any) -> Type:
    """The type of a Python object that is known at compile time."""
    known: dict[type, Type] = {
        bool: BOOL,
        int: INT,
        float: FLOAT,
        complex: COMPLEX,
        str: STR,
        type(None): NONE,
        type(Ellipsis): ELLIPSIS,
        slice: SLICE,
    }
    if type(value) in known:
        return known[type(value)]
    if isinstance(value, np.dtype):
        return DTYPE
    if isinstance(value, np.generic):
        return TensorType(value.dtype, (), True)
    if type(value) is np.ndarray:
        return TensorType(value.dtype, value.shape)
    if type(value) is tuple or is_named_tuple(type(value)):
        elements = tuple(type_of_constant(item) for item in value)
        return TupleType(elements, type(value) if type(value) is not tuple else None)
    return OBJECT


def is_named_tuple(class_: type) -> bool:
    """Whether a class is a NamedTuple itself, whose instances are nothing but their elements."""
    if class_.__bases__ != (tuple,) or not hasattr(class_, "_fields"):
        return False
    return not any(name in vars(class_) for name in _PROTOCOLS)


_PROTOCOLS = (
    "__bool__",
    "__contains__",
    "__getattr__",
    "__getattribute__",
    "__getitem__",
    "__iter__",
    "__len__",
)
"""A NamedTuple that defines one of these is more than its elements."""
