"""What a call's arguments are, as far as compiled code depends on it.

``describe`` gives a hashable description of a value; ``type_and_param`` turns it into the type that
specialization starts from and the guard that the compiled entry checks.  A description with None in
the place of an extent (`description_keys.dynamic_key`) is one for any extent but 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dis import get_instructions
from functools import lru_cache, partial
from types import (
    CodeType,
    FunctionType,
    MemberDescriptorType,
)
from typing import Any

import numpy as np

from jitcore.codegen.entries.array_orders import axis_order
from jitcore.codegen.entries.signature import (
    ArrayParam,
    ConstantParam,
    GeneratorParam,
    Layout,
    ObjectListParam,
    ObjectParam,
    Param,
    ScalarParam,
    TupleParam,
)
from jitcore.execution.list_signatures import held_and_param, list_and_param, number_type
from jitcore.frontend.constants import final_graph, wrapped_function
from jitcore.ir.bfloat16 import is_bfloat16
from jitcore.ir.classes import (
    class_attribute,
    function_of,
    has_default,
    has_plain_attributes,
    is_definition,
)
from jitcore.ir.dataclass import dataclass
from jitcore.ir.structured import alignment, is_structured_dtype
from jitcore.ir.types import (
    ANY,
    BOOL,
    COMPLEX,
    FLOAT,
    GENERATORS,
    INT,
    MAX_TUPLES,
    SUPPORTED,
    Dim,
    KnownType,
    ObjectListType,
    OpenFunction,
    OpenPartial,
    PrimType,
    RecordType,
    TensorType,
    TupleType,
    Type,
    is_named_tuple,
    type_of_constant,
)

__all__ = [
    "Description",
    "describe",
    "describe_all",
    "describe_constant",
    "describe_callable",
    "describe_object",
    "describe_text",
    "describe_unknown",
    "parts_of",
    "structure",
    "type_and_param",
    "with_parts",
    "without_bfloat16",
    "without_structured",
]

Description = tuple[Any, ...]

MAX_RANK = 8
"""Arrays of higher rank are left to NumPy."""

MAX_NESTING = 4
"""How many objects may be attributes of one another."""

_NUMBERS: dict[type, tuple[Type, str, Any]] = {
    int: (INT, "int", np.dtype(np.int64)),
    float: (FLOAT, "float", np.dtype(np.float64)),
    bool: (BOOL, "bool", np.dtype(bool)),
    complex: (COMPLEX, "complex", np.dtype(np.complex128)),
}

_CONTAINERS = frozenset({dict, set, frozenset, bytes, bytearray})
"""Whose contents are Python's."""

_ARRAY_DTYPES = {np.dtype(one): np.dtype(np.dtype(one).str) for one in SUPPORTED}
"""The dtypes that loops work on, with the one that stands for all of the same numbers."""

_IN_LISTS: frozenset[type] = frozenset({int, float, bool, complex})
"""The numbers that lists may have."""

_IN_ROWS: frozenset[type] = frozenset({int, float, bool})
"""Those that lists in lists and in attributes may have."""

_FOREIGN: Description = ("any",)


def describe(value: Any, nesting: int = MAX_TUPLES) -> Description:
    """A hashable description of one argument; what is in too many tuples is Python's."""
    kind = type(value)
    if kind is np.ndarray:
        return _describe_array(value)
    if kind in _NUMBERS:
        if kind is int and not -(2**63) <= value < 2**63:
            return _FOREIGN
        return (kind.__name__,)
    if kind in _CONTAINERS:
        return _FOREIGN
    if kind in GENERATORS:
        return ("generator", str(GENERATORS[kind]))
    if issubclass(kind, np.generic):
        return ("numpy", value.dtype) if _is_native(value.dtype) else _FOREIGN
    if kind is list:
        return _describe_list(value)
    if value is None or kind is str or issubclass(kind, np.dtype):
        return ("constant", kind, value)
    if is_definition(value) or _is_compiled(value):
        return ("constant", kind, _Identity(value))
    if nesting and (kind is tuple or is_named_tuple(kind)):
        items = (_describe_item(item, nesting - 1) for item in value)
        return ("tuple", None if kind is tuple else kind, *items)
    return _FOREIGN


def _describe_item(value: Any, nesting: int = MAX_TUPLES) -> Description:
    """An item of a tuple: lists in there stay Python's."""
    return _FOREIGN if type(value) is list else describe(value, nesting)


def _describe_list(value: list[Any], numbers: frozenset[type] = _IN_LISTS) -> Description:
    """A list by its first element: whether all others are like it, the entry sees."""
    if not value:
        return ("list", None)
    kind: Any
    nesting = MAX_NESTING if numbers is _IN_LISTS else 1
    if type(value[0]) is np.ndarray:
        kind = _kind_of_arrays(value[0])
    elif is_named_tuple(type(value[0])):
        kind = _kind_in_list(tuple(value[0]), numbers, nesting)
        return _FOREIGN if kind is None else ("list", kind, type(value[0]))
    else:
        is_nested = type(value[0]) is list
        kind = _kind_of_rows(value) if is_nested else _kind_in_list(value[0], numbers, nesting)
    return _FOREIGN if kind is None else ("list", kind)


def _kind_of_arrays(first: np.ndarray[Any, Any]) -> tuple[Any, ...] | None:
    """The kind of a list of arrays, which differ in extents at most."""
    one = _describe_array(first)
    is_plain = one[0] == "array" and one[3] == "C" and not is_structured_dtype(one[1])
    return ("arrays", one[1], first.ndim) if is_plain else None


def _kind_of_rows(value: list[Any]) -> tuple[Any, ...] | None:
    """The kind of a list of lists, by the first element of the first of them that has one."""
    depth = 0
    while value and type(value[0]) is list and depth < MAX_NESTING:
        depth += 1
        value = next((row for row in value if type(row) is not list or row), [])
        if type(value) is not list:
            return None
    kind = _kind_in_list(value[0], _IN_ROWS) if value else None
    return None if value and kind is None else ("rows", depth, kind)


def _kind_in_list(
    element: Any, numbers: frozenset[type], nesting: int = 1
) -> str | tuple[Any, ...] | None:
    """The kind of an element that compiled code takes: of a number, or of those in a tuple."""
    kind = type(element)
    if kind is tuple and nesting and 0 < len(element) <= MAX_RANK:
        kinds = tuple(_kind_in_list(part, numbers, nesting - 1) for part in element)
        return None if None in kinds or _count(kinds) > MAX_RANK else kinds
    return kind.__name__ if kind in numbers else None


def _count(kind: str | tuple[Any, ...] | None) -> int:
    """How many numbers there are in elements of a kind."""
    return sum(map(_count, kind)) if isinstance(kind, tuple) else 1


def describe_text() -> Description:
    """The description of a text that the program reads character by character."""
    return ("list", "character")


def _is_compiled(value: object) -> bool:
    return wrapped_function(value) is not None or final_graph(value) is not None


@dataclass(frozen=True, slots=True, eq=False)
class _Identity:
    """An object that equals nothing but itself, whatever its class says about equality."""

    value: Any

    def __repr__(self) -> str:
        return repr(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def _is_native(dtype: np.dtype[Any]) -> bool:
    return dtype.char in SUPPORTED and dtype.isnative


def _describe_array(array: np.ndarray[Any, Any]) -> Description:
    flags, dtype = array.flags, _ARRAY_DTYPES.get(array.dtype)
    if dtype is None and (is_bfloat16(array.dtype) or _is_array_of_records(array)):
        dtype = array.dtype
    if dtype is None or array.ndim > MAX_RANK or not flags.aligned:
        return _FOREIGN
    layout: Layout = "strided"
    if flags.c_contiguous:
        layout = "C"
    elif flags.f_contiguous:
        layout = "F"
    elif any(stride % array.itemsize for stride in array.strides):
        return _FOREIGN
    elif array.ndim > 1:
        layout = axis_order(array.shape, array.strides)
    return ("array", dtype, array.shape, layout)


def _is_array_of_records(array: np.ndarray[Any, Any]) -> bool:
    """Whether this is a structured array whose fields lie as compiled code needs them."""
    if not is_structured_dtype(array.dtype):
        return False
    address: int = array.ctypes.data
    return address % alignment(array.dtype) == 0


def without_structured(description: Description) -> Description:
    """A description in which structured arrays, which devices have no code for, are unknown."""
    if description[0] == "array" and is_structured_dtype(description[1]):
        return _FOREIGN
    return with_parts(description, without_structured)


def without_bfloat16(description: Description) -> Description:
    """A description in which arrays of bfloat16, which processors have no code for, are unknown."""
    if description[0] == "array" and is_bfloat16(description[1]):
        return _FOREIGN
    return with_parts(description, without_bfloat16)


def describe_unknown() -> Description:
    """The description of an argument about which nothing is assumed."""
    return _FOREIGN


def describe_constant(value: Any, nesting: int = MAX_TUPLES) -> Description:
    """The description of an argument that the program must know when it is compiled."""
    if type(value) in (int, bool):
        return ("constant", type(value), value)
    if type(value) is tuple and nesting:
        return ("tuple", None, *(describe_constant(item, nesting - 1) for item in value))
    return describe(value, nesting)


def describe_all(values: tuple[Any, ...], constants: frozenset[int]) -> tuple[Description, ...]:
    """The descriptions of all arguments; those numbered in ``constants`` by their values."""
    return tuple(
        describe_constant(value) if number in constants else describe(value)
        for number, value in enumerate(values)
    )


def describe_object(
    value: Any, names_of: Callable[[type], Sequence[str]], *, constant: bool = False
) -> Description:
    """The description of an object of a user's class by those attributes that are looked at.

    Parameters
    ----------
    value : object
    names_of : callable
        Gives the names that matter in objects of a class, in order.
    constant : bool
        The program must know the numbers among the attributes when it is compiled.
    """
    return _describe_attributes(value, names_of, constant, ())


def _describe_attributes(
    value: Any,
    names_of: Callable[[type], Sequence[str]],
    constant: bool,
    around: tuple[Any, ...],
) -> Description:
    if type(value) is list:
        return _describe_objects(value, names_of, around)
    class_ = type(value)
    is_cycle = any(value is one for one in around)
    if is_cycle or len(around) >= MAX_NESTING or not has_plain_attributes(class_):
        return _FOREIGN
    names = names_of(class_)
    if not names:
        return _FOREIGN
    found: dict[str, Description] = {}
    inherited = []
    for name in names:
        held = class_attribute(class_, name)
        runs_code = not isinstance(function_of(held), _READ_WITHOUT_CODE)
        if hasattr(type(held), "__get__") and runs_code:
            continue
        try:
            attribute = getattr(value, name)
        except AttributeError:
            continue
        if not _is_own(value, name, held):
            inherited.append(name)
            continue
        one = describe_constant(attribute) if constant else _describe_item(attribute)
        if one == _FOREIGN:
            one = _describe_attributes(attribute, names_of, constant, (*around, value))
        if one == _FOREIGN and type(attribute) is list:
            one = _describe_attached(attribute)
        if one != _FOREIGN:
            found[name] = one
        elif has_default(class_, name):
            # What the class has under this name would be taken for it.
            return _FOREIGN
    return ("object", _Identity(class_), tuple(found), tuple(inherited), *found.values())


def _describe_attached(value: list[Any]) -> Description:
    """A list that is an attribute, by its first element as other lists."""
    found = _describe_list(value, _IN_ROWS)
    if len(found) != 2 or (isinstance(found[1], tuple) and found[1][0] == "arrays"):
        return _FOREIGN
    return ("held", *found[1:])


def _describe_objects(
    values: list[Any], names_of: Callable[[type], Sequence[str]], around: tuple[Any, ...]
) -> Description:
    """A list of objects of one class by the first: whether others are like it, the entry sees."""
    if not values or not has_plain_attributes(type(values[0])):
        return _FOREIGN
    if any(type(one) is not type(values[0]) for one in values):
        return _FOREIGN
    one = _describe_attributes(values[0], names_of, False, around)
    if one == _FOREIGN:
        return _FOREIGN
    _, held, names, inherited, *parts = one
    numbers = [(name, part) for name, part in zip(names, parts, strict=True) if part in _NUMERIC]
    kept = tuple(name for name, _ in numbers)
    if any(has_default(type(values[0]), name) for name in set(names) - set(kept)):
        return _FOREIGN
    return ("objects", held, kept, inherited, *(part for _, part in numbers))


_NUMERIC = frozenset({("int",), ("float",), ("bool",)})

_READ_WITHOUT_CODE = (FunctionType, MemberDescriptorType)
"""What a class may have under a name so that reading the attribute runs nothing."""


def describe_callable(value: Any) -> Description | None:
    """The description of a function, or a partial one, by its code and what it holds.

    None of other objects, and where compiled code needs the very function: nothing is known of what
    it holds, it assigns that, or somebody has put something into its ``__dict__``.
    """
    if type(value) is FunctionType:
        return _describe_function(value)
    return _describe_partial(value) if type(value) is partial else None


def _describe_function(function: FunctionType, around: tuple[Any, ...] = ()) -> Description | None:
    is_cycle = any(function is one for one in around)
    if is_cycle or vars(function) or function.__kwdefaults__ or _assigns_outer(function.__code__):
        return None
    try:
        values = OpenFunction.values_of(function)
    except ValueError:
        return None
    parts = _describe_held(values, (*around, function))
    return None if parts is None else ("function", _Code(OpenFunction.of(function)), *parts)


def _describe_partial(function: partial[Any]) -> Description | None:
    if vars(function):
        return None
    shape = OpenPartial(len(function.args), tuple(sorted(function.keywords)))
    parts = _describe_held(shape.values_of(function), ())
    return None if parts is None else ("function", shape, *parts)


def _describe_held(
    values: Sequence[Any], around: tuple[FunctionType, ...]
) -> list[Description] | None:
    """The descriptions of what a function holds."""
    parts = []
    for value in values:
        one = describe_constant(value)
        if type(value) is FunctionType:
            inner = _describe_function(value, around)
            one = _FOREIGN if inner is None else inner
        if one == _FOREIGN or type(value) is list:
            return None
        parts.append(one)
    return parts


@lru_cache(maxsize=256)
def _assigns_outer(code: CodeType) -> bool:
    """Whether a function assigns variables around it, or functions inside it do."""
    for instruction in get_instructions(code):
        if instruction.opname in ("STORE_DEREF", "DELETE_DEREF"):
            if instruction.argval in code.co_freevars:
                return True
    return any(_assigns_outer(one) for one in code.co_consts if isinstance(one, CodeType))


@dataclass(frozen=True, slots=True, eq=False)
class _Code:
    """A function, which equals all others with the same code and the same globals."""

    function: OpenFunction

    def __repr__(self) -> str:
        return f"code of {self.function.__name__}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Code):
            return False
        one, two = self.function.template, other.function.template
        return one.__code__ is two.__code__ and one.__globals__ is two.__globals__

    def __hash__(self) -> int:
        return id(self.function.template.__code__)

    @property
    def names(self) -> tuple[str, ...]:
        """Of what such functions hold."""
        return self.function.names

    @property
    def __name__(self) -> str:
        return self.function.__name__


def _is_own(value: Any, name: str, held: Any) -> bool:
    """Whether an object has an attribute itself, and not from its class, which has ``held``."""
    return isinstance(held, MemberDescriptorType) or name in getattr(value, "__dict__", {})


def structure(description: Description) -> Description:
    """The part of a description that has nothing to do with arrays' dtypes and shapes."""
    if description[0] == "array":
        return ("array",)
    return with_parts(description, structure)


def with_parts(
    description: Description, change: Callable[..., Description], *others: Description
) -> Description:
    """A description with other descriptions of the elements, or attributes, that it has.

    ``change`` gets the parts of alike descriptions, too.
    """
    parts = map(parts_of, (description, *others))
    start = _PARTS_FROM.get(description[0], len(description))
    return (*description[:start], *map(change, *parts))


def parts_of(description: Description) -> Description:
    """The descriptions of the elements, or attributes, that a value has."""
    return description[_PARTS_FROM.get(description[0], len(description)) :]


_PARTS_FROM = {"tuple": 2, "function": 2, "object": 4, "objects": 4}
"""Where in a description those of the parts begin."""


def constant_of(param: Param | None) -> tuple[bool, Any]:
    """Whether a parameter is known at compile time, and its value."""
    if isinstance(param, ConstantParam):
        return True, param.value
    if isinstance(param, TupleParam) and param.elements:
        parts = [constant_of(element) for element in param.elements]
        return all(known for known, _ in parts), tuple(value for _, value in parts)
    return False, None


def type_and_param(description: Description, name: str) -> tuple[Type, Param | None]:
    """The type of an argument and the guard for it (None: it has none, nothing is native)."""
    kind = description[0]
    if kind == "array":
        return _array(description, name)
    if kind == "numpy":
        return TensorType(description[1], (), True), ScalarParam("numpy", description[1])
    if kind == "constant":
        held = description[2].value if isinstance(description[2], _Identity) else description[2]
        return type_of_constant(held), ConstantParam(held)
    if kind == "tuple":
        return _tuple(description, name)
    if kind == "list":
        return list_and_param(description)
    if kind == "held":
        return held_and_param(description)
    if kind == "object":
        _, held, names, inherited, *parts = description
        kept = tuple((one, class_attribute(held.value, one)) for one in inherited)
        return _object(held.value, names, parts, kept, name)
    if kind == "objects":
        return _objects(description)
    if kind == "function":
        held = description[1]
        shape = held.function if isinstance(held, _Code) else held
        return _object(shape, shape.names, description[2:], (), name)
    if kind == "generator":
        return PrimType(description[1]), GeneratorParam(description[1])
    if kind == "any":
        return ANY, None
    type_, python_name, dtype = next(row for row in _NUMBERS.values() if row[1] == kind)
    return type_, ScalarParam(python_name, dtype)  # type: ignore[arg-type]


def _array(description: Description, name: str) -> tuple[Type, Param]:
    _, dtype, shape, layout = description
    dims: tuple[Dim, ...] = tuple(
        f"{name}{axis}" if extent is None else extent for axis, extent in enumerate(shape)
    )
    return TensorType(dtype, dims), ArrayParam(dtype, shape, layout)


def _objects(description: Description) -> tuple[Type, Param]:
    _, held, names, inherited, *parts = description
    kinds = tuple(part[0] for part in parts)
    kept = tuple((one, class_attribute(held.value, one)) for one in inherited)
    types = tuple(map(number_type, kinds))
    param = ObjectListParam(held.value, names, kinds, kept)
    return ObjectListType(held.value, names, types, inherited=inherited), param


def _object(
    class_: Any,
    names: Sequence[str],
    parts: Sequence[Description],
    inherited: tuple[tuple[str, Any], ...],
    name: str,
) -> tuple[Type, Param | None]:
    types: list[Type] = []
    params: list[Param] = []
    for attribute, part in zip(names, parts, strict=True):
        type_, param = type_and_param(part, f"{name}.{attribute}.")
        if param is None:
            return ANY, None
        types.append(KnownType(param.value) if isinstance(param, ConstantParam) else type_)
        params.append(param)
    param = ObjectParam(class_, tuple(names), tuple(params), inherited)
    kept = tuple(one for one, _ in inherited)
    return RecordType(class_, tuple(names), tuple(types), inherited=kept), param


def _tuple(description: Description, name: str) -> tuple[Type, Param | None]:
    items = [
        type_and_param(item, f"{name}.{number}.") for number, item in enumerate(description[2:])
    ]
    params = [param for _, param in items if param is not None]
    type_ = TupleType(tuple(one for one, _ in items), description[1])
    if len(params) < len(items):
        return type_, None
    return type_, TupleParam(tuple(params), description[1])
