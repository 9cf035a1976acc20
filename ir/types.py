"""The types of the IR: Python's own values, and arrays with dtype and dims.

Every type is an immutable value with a stable text form that the parser reads back.  ``Tensor`` is
an array of unknown dtype and rank, ``Float32[*]`` one of unknown rank, ``Float32[n, 4]`` a matrix
with a symbolic and a known dim, ``Float32[]`` a 0-d array and plain ``Float32`` a NumPy scalar.
NumPy scalars are *strong* under NEP 50, Python's ``int`` and ``float`` are *weak*, so the two are
never the same type.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from functools import partial
from types import CellType, FunctionType
from typing import Any, Literal

import numpy as np

from jitcore.ir.dataclass import dataclass
from jitcore.ir.dtype_names import dtype_name

__all__ = [
    "ANY",
    "ANY_EXTENT",
    "BOOL",
    "CHARACTER",
    "COMPLEX",
    "DTYPE",
    "ELLIPSIS",
    "FLOAT",
    "GENERATOR",
    "GENERATORS",
    "INT",
    "NONE",
    "OBJECT",
    "RANDOM_STATE",
    "REFERENCE",
    "SLICE",
    "STR",
    "SUPPORTED",
    "TENSOR",
    "DictType",
    "Dim",
    "KnownType",
    "ListType",
    "LocalListType",
    "ObjectElementType",
    "ObjectListType",
    "ObjectMaker",
    "OpenFunction",
    "OpenPartial",
    "Origin",
    "PrimType",
    "RecordType",
    "SharedListType",
    "TensorType",
    "TupleType",
    "Type",
    "UnionType",
    "array_type",
    "is_named_tuple",
    "is_ndarray",
    "is_number",
    "is_scalar_tensor",
    "is_tracked",
    "scalar_type",
    "symbols_in",
    "type_of_constant",
]

Dim = int | str
"""One extent of an array: a number, or the name of a symbol (equal names are equal extents)."""

ANY_EXTENT = "*"
"""An extent in which the arrays in a list differ; only types of elements have such."""


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
GENERATOR = PrimType("Generator")
RANDOM_STATE = PrimType("RandomState")
GENERATORS: dict[type, PrimType] = {
    np.random.Generator: GENERATOR,
    np.random.RandomState: RANDOM_STATE,
}
"""The types of NumPy's random generators."""
ANY = PrimType("Any")
"""A value nothing is known about until the program runs; only the host program touches it."""

SUPPORTED = "?bhilqBHILQefdFD"
"""Type characters of the dtypes that compiled code computes in."""


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

    There is one array for each number in an element, which may be a tuple; arrays in an element are
    references in an array of objects; elements of several types have an array with the codes of
    these, too.  ``element`` is None while the list is empty, and Any where its elements have no
    such form.  There are no such lists in a typed graph that is finished.
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


REFERENCE = np.dtype(object)
"""Of arrays that hold references to the arrays in a list."""


def _dtypes_in(element: Type) -> Iterator[np.dtype[Any] | None]:
    """The dtypes of the numbers in an element of a list; None for what is no number."""
    if isinstance(element, TupleType | RecordType):
        for part in element.elements:
            yield from _dtypes_in(part)
    elif is_array(element):
        yield REFERENCE
    elif isinstance(element, SharedListType):
        yield np.dtype(np.int64)
    elif isinstance(element, UnionType):
        yield np.dtype(np.int8)
        yield from dict.fromkeys(map(_dtype_of, element.held))
    else:
        yield _dtype_of(element)


def _dtype_of(type_: Type) -> np.dtype[Any] | None:
    """The dtype of a number in a list; None for what is no number."""
    if isinstance(type_, TensorType):
        return type_.dtype if type_.scalar else None
    known: dict[Type, Any] = {
        INT: np.int64,
        FLOAT: np.float64,
        BOOL: np.bool_,
        COMPLEX: np.complex128,
    }
    return np.dtype(known[type_]) if type_ in known else None


Origin = int | None | Literal["several"]


@dataclass(frozen=True, slots=True)
class RecordType(Type):
    """An object of a user's class as the values of its attributes, in this order.

    In a typed graph that is finished only arguments have such types.

    Parameters
    ----------
    class_ : type
    names : tuple of str
    elements : tuple of Type
    origin : int, None or ``"several"``
        Which object it is: arguments count from 0 upwards, objects that the function makes from -1
        downwards.  None is one of the latter, ``"several"`` may be an argument or another object.
    inherited : tuple of str
        The attributes of an argument that its class has, and the object itself has not.
    """

    class_: Any
    names: tuple[str, ...]
    elements: tuple[Type, ...]
    origin: Origin = field(default=None, compare=False)
    inherited: tuple[str, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        fields = (f"{name}: {one}" for name, one in zip(self.names, self.elements, strict=True))
        return f"{self.class_.__name__}[{', '.join(fields)}]"

    @property
    def is_argument(self) -> bool:
        """Whether it is surely an object that the caller has."""
        return isinstance(self.origin, int) and self.origin >= 0

    @property
    def is_made(self) -> bool:
        """Whether it is surely an object that the function has made."""
        return self.origin != "several" and not self.is_argument


@dataclass(frozen=True, slots=True)
class ObjectMaker:
    """What makes an object of a class with these attributes, in the place of a NamedTuple's class.

    Tuples are of such a class where compiled code returns objects.
    """

    class_: Any
    names: tuple[str, ...]

    @property
    def __name__(self) -> str:
        name: str = self.class_.__name__
        return name


@dataclass(frozen=True, slots=True, eq=False)
class OpenFunction:
    """The code of a function that is an argument, in the place of a record's class.

    The attributes of such records are the variables around the function, under their names, and the
    defaults of its parameters, under names that end with ``=``.
    """

    template: FunctionType

    @classmethod
    def of(cls, function: FunctionType) -> OpenFunction:
        """The code of a function, without what it holds."""
        code = function.__code__
        defaults = (None,) * len(function.__defaults__ or ())
        cells = tuple(CellType() for _ in code.co_freevars)
        return cls(FunctionType(code, function.__globals__, function.__name__, defaults, cells))

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables around the function that it reads."""
        return self.template.__code__.co_freevars

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes of such a record."""
        code = self.template.__code__
        parameters = code.co_varnames[: code.co_argcount]
        count = len(self.template.__defaults__ or ())
        defaults = parameters[len(parameters) - count :]
        return (*self.variables, *(f"{name}=" for name in defaults))

    @property
    def __name__(self) -> str:
        return self.template.__name__

    @staticmethod
    def values_of(function: FunctionType) -> list[Any]:
        """What a function with this code holds under these names; ValueError where it lacks one."""
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        return [*cells, *(function.__defaults__ or ())]


@dataclass(frozen=True, slots=True)
class OpenPartial:
    """A `functools.partial` that is an argument, in the place of a record's class.

    The attributes of such records are the function, the arguments, and those given by name.

    Parameters
    ----------
    count : int
        How many arguments are given by their places.
    keywords : tuple of str
    """

    count: int
    keywords: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes of such a record."""
        named = (f"{name}=" for name in self.keywords)
        return ("function", *(f"argument_{number}" for number in range(self.count)), *named)

    @property
    def __name__(self) -> str:
        return "partial"

    def values_of(self, function: partial[Any]) -> list[Any]:
        """What a partial function holds under these names."""
        named = [function.keywords[name] for name in self.keywords]
        return [function.func, *function.args, *named]


@dataclass(frozen=True, slots=True)
class ObjectListType(Type):
    """A list of objects of a class, all of them different, that is an argument.

    Parameters
    ----------
    class_ : type
    names : tuple of str
        The attributes that the program may look at.
    elements : tuple of Type
        What these are in all objects: numbers.
    number : int
        Which of the lists it is.
    inherited : tuple of str
        The attributes that the class has, and the objects themselves have not.
    """

    class_: Any
    names: tuple[str, ...]
    elements: tuple[Type, ...]
    number: int = 0
    inherited: tuple[str, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        return f"List[{RecordType(self.class_, self.names, self.elements)}]"

    @property
    def dtypes(self) -> tuple[np.dtype[Any], ...]:
        """Of the arrays in which compiled code gets the attributes."""
        return LocalListType(TupleType(self.elements)).dtypes


@dataclass(frozen=True, slots=True)
class ObjectElementType(Type):
    """One of the objects in such a list: its place; there are none in a finished graph."""

    objects: ObjectListType

    def __str__(self) -> str:
        return f"Element[{self.objects}]"


@dataclass(frozen=True, slots=True)
class KnownType(Type):
    """An attribute of an argument that is always this: a text, None, a function."""

    value: Any

    def __str__(self) -> str:
        return f"Known[{type(self.value).__name__}]"


CHARACTER = RecordType(str, ("code",), (INT,))
"""A character of a text: its code point.  A text that is an argument is a list of them."""


@dataclass(frozen=True, slots=True)
class SharedListType(Type):
    """A reference to a list that several names or lists may refer to: its place in a heap.

    There are none in a typed graph that is finished.

    Parameters
    ----------
    element : Type or None
        None while nothing is known of the elements of the lists that ``maker`` makes.
    maker : Node, optional
    """

    element: Type | None
    maker: Any = None

    def __str__(self) -> str:
        return f"SharedList[{self.element}]"


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

    @property
    def held(self) -> tuple[Type, ...]:
        """The alternatives that are more than a tag."""
        return tuple(one for one in self.alternatives if one != NONE)


def is_tracked(type_: RecordType) -> bool:
    """Whether it is known which object of a user's class this is."""
    return isinstance(type_.origin, int) and not isinstance(
        type_.class_, OpenFunction | OpenPartial
    )


def symbols_in(type_: Type) -> Iterator[Dim]:
    """The symbols among the dims of a type, those in tuples too."""
    if isinstance(type_, TensorType):
        yield from (dim for dim in type_.dims or () if isinstance(dim, str))
    elif isinstance(type_, TupleType | RecordType):
        for element in type_.elements:
            yield from symbols_in(element)


def is_number(type_: Type) -> bool:
    """Whether this is one of Python's own numbers (``bool`` among them)."""
    return type(type_) is PrimType and type_ in (INT, FLOAT, BOOL, COMPLEX)


def is_array(type_: Type | None) -> bool:
    """Whether this is an array of numbers, whose dtype and rank are known."""
    if not isinstance(type_, TensorType) or type_.scalar or not type_.is_complete:
        return False
    return type_.dtype is not None and type_.dtype.char in SUPPORTED


def is_ndarray(type_: Type | None) -> bool:
    """Whether this is an array, of whatever dtype and rank, and no NumPy scalar."""
    return isinstance(type_, TensorType) and not type_.scalar


def is_scalar_tensor(type_: Type) -> bool:
    """Whether this is a NumPy scalar."""
    return isinstance(type_, TensorType) and type_.scalar


MAX_TUPLES = 32
"""What lies in more tuples than these is Python's: of types, code and guards each is a part."""


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
    if issubclass(type(value), np.dtype):
        return DTYPE
    if issubclass(type(value), np.generic):
        return TensorType(value.dtype, (), True)
    if type(value) is np.ndarray:
        return TensorType(value.dtype, value.shape)
    if type(value) is tuple or is_named_tuple(type(value)):
        elements = tuple(type_of_constant(item) for item in value)
        return TupleType(elements, type(value) if type(value) is not tuple else None)
    return GENERATORS.get(type(value), OBJECT)


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
