"""Classes of the user's and their objects as rows of the table."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import inspect
import sys
from collections.abc import Iterator
from enum import Enum, EnumMeta
from functools import cached_property, partial
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import TYPE_CHECKING, Any, Generic

from jitcore.codegen.host.text import is_identifier
from jitcore.errors import Error, SerializationError
from jitcore.frontend import is_library
from jitcore.frontend.constants import function_mark
from jitcore.ir.types import is_named_tuple
from jitcore.serialization.attribute_names import method_problem
from jitcore.serialization.places import shown
from jitcore.serialization.vocabulary import is_base_class, known_name

if TYPE_CHECKING:
    from jitcore.serialization.writer import Row, Writer

__all__ = [
    "ENUM_MIXINS",
    "FLAGS",
    "LeftOut",
    "describe_class",
    "describe_instance",
    "is_own_class",
    "slot_of",
]

ENUM_MIXINS = (str, int, float)
"""What the members of an enum may be besides."""

FLAGS = ("init", "repr", "eq", "order", "unsafe_hash", "frozen", "match_args", "kw_only")
"""What a dataclass was made with."""

_MADE_BY_PYTHON_TEXT = """
    __abstractmethods__ __annotations__ __dataclass_fields__ __dataclass_params__ __dict__ __doc__
    __firstlineno__ __jitcore_mark__ __module__ __orig_bases__ __parameters__ __qualname__
    __slotnames__ __slots__ __static_attributes__ __type_params__ __weakref__ _abc_impl
"""
_MADE_BY_PYTHON = frozenset(_MADE_BY_PYTHON_TEXT.split())
_MADE_FOR_DATACLASSES = frozenset({"__match_args__", "__replace__"})
_MADE_FOR_TUPLES_TEXT = """
    __getnewargs__ __match_args__ __new__ __replace__ __repr__ __slots__ _asdict _field_defaults
    _fields _make _replace
"""
_MADE_FOR_TUPLES = frozenset(_MADE_FOR_TUPLES_TEXT.split())
_MADE_FOR_ENUMS_TEXT = """
    __and__ __invert__ __new__ __or__ __rand__ __ror__ __rxor__ __xor__ _all_bits_ _boundary_
    _flag_mask_ _generate_next_value_ _hashable_values_ _inverted_ _member_map_ _member_names_
    _member_type_ _new_member_ _singles_mask_ _unhashable_values_ _unhashable_values_map_
    _use_args_ _value2member_map_ _value_repr_
"""
_MADE_FOR_ENUMS = frozenset(_MADE_FOR_ENUMS_TEXT.split())


class LeftOut:
    """Stands for a member of a class that could not be saved."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        raise Error(f"'{self.name}' is not in the file the class was loaded from: {self.reason}")


def is_own_class(value: Any) -> bool:
    """Whether a value is a class that a Python file of the user's defines."""
    if not isinstance(value, type) or known_name(value) is not None:
        return False
    if type(value) not in (type, abc.ABCMeta) and not isinstance(value, EnumMeta):
        return False
    module = sys.modules.get(value.__module__)
    if module is None:
        return not value.__module__.startswith("jitcore.")
    file = getattr(module, "__file__", None)
    if file is None:
        # A notebook's, or one that is built into Python.
        return module.__name__ == "__main__"
    return not is_library(file) and not module.__name__.startswith("jitcore.")


def describe_class(writer: Writer, class_: type) -> Row:
    """The row of a class: what it is made from, and its methods as functions of the table.

    Raises
    ------
    SerializationError
        It has a base class or fields that cannot be saved.
    """
    if not is_identifier(class_.__name__):
        raise SerializationError(f"cannot save {shown(class_)}: its name is no identifier")
    row: Row = {
        "name": class_.__name__,
        "qualified": class_.__qualname__,
        "module": class_.__module__,
        "doc": class_.__doc__ if isinstance(class_.__doc__, str) else None,
    }
    if writer.with_digests:
        row["digest"] = writer.class_digest(class_)
    if isinstance(class_, EnumMeta):
        row |= _enum(writer, class_)
        hidden = _MADE_FOR_ENUMS | set(class_.__members__) | _inherited(class_)
    elif is_named_tuple(class_):
        row |= _named_tuple(writer, class_)
        hidden = _MADE_FOR_TUPLES | set(class_._fields)  # type: ignore[attr-defined]
    else:
        row |= _ordinary(writer, class_)
        hidden = frozenset()
    row["members"] = list(_members(writer, class_, hidden | _MADE_BY_PYTHON))
    return row


def _inherited(class_: EnumMeta) -> set[str]:
    """What a new enum gets as copies of what its base class has."""
    base = class_.__bases__[-1]
    return {name for name, value in vars(class_).items() if getattr(base, name, None) is value}


def _enum(writer: Writer, class_: EnumMeta) -> Row:
    *mixed, base = class_.__bases__
    if known_name(base) is None or (mixed and mixed[0] not in ENUM_MIXINS) or len(mixed) > 1:
        raise SerializationError(
            f"cannot save {shown(class_)}: only enums derived from Enum, IntEnum, StrEnum, Flag or "
            "IntFlag, and from str, int or float besides, can be saved"
        )
    members: Any = class_.__members__
    return {
        "kind": "enum",
        "base": " ".join([*(one.__name__ for one in mixed), str(known_name(base))]),
        "values": [[name, writer.reference(one.value)] for name, one in members.items()],
    }


def _named_tuple(writer: Writer, class_: Any) -> Row:
    defaults = class_._field_defaults
    return {
        "kind": "named tuple",
        "fields": list(class_._fields),
        "defaults": [[name, writer.reference(value)] for name, value in defaults.items()],
    }


def _ordinary(writer: Writer, class_: type) -> Row:
    bases = []
    for base in class_.__bases__:
        if not (is_base_class(base) or is_own_class(base)):
            raise SerializationError(
                f"cannot save {shown(class_)}: its base class '{base.__qualname__}' is not one "
                "that a saved program can have"
            )
        bases.append(writer.number(base))
    is_dataclass = "__dataclass_params__" in vars(class_)
    row: Row = {
        "kind": "class",
        "bases": bases,
        "dataclass": _dataclass(writer, class_) if is_dataclass else None,
    }
    if "__slots__" in vars(class_) and not is_dataclass:
        held = [name for name in ("__dict__", "__weakref__") if name in vars(class_)]
        row["slots"] = sorted(slots_of(class_)) + held
    parameters = vars(class_).get("__parameters__")
    if parameters:
        row["parameters"] = [one.__name__ for one in parameters]
    if inspect.isabstract(class_):
        row["abstract"] = sorted(getattr(class_, "__abstractmethods__"))  # noqa: B009
    return row


def _dataclass(writer: Writer, class_: Any) -> Row:
    params = class_.__dataclass_params__
    own = vars(class_).get("__annotations__", {})
    fields = [one for one in _fields(class_) if one.name in own]
    row: Row = {
        "flags": {name: bool(getattr(params, name, name == "match_args")) for name in FLAGS},
        "fields": [_field(writer, one) for one in fields],
    }
    if "__slots__" in vars(class_):
        inherited = {name for base in class_.__mro__[1:] for name in slots_of(base)}
        if slots_of(class_).keys() != {one.name for one in fields} - inherited:
            raise SerializationError(
                f"cannot save {shown(class_)}: a dataclass with slots that are not its fields"
            )
        row["slots"] = {"weakref_slot": "__weakref__" in vars(class_)}
    return row


def slot_of(class_: type, name: str) -> MemberDescriptorType | None:
    """The slot that objects of a class have for an attribute; None where there is none."""
    return next((slots_of(one)[name] for one in class_.__mro__ if name in slots_of(one)), None)


def slots_of(class_: type) -> dict[str, MemberDescriptorType]:
    """The slots that a class of Python code adds to those of its bases."""
    return {
        name: one
        for name, one in vars(class_).items()
        if isinstance(one, MemberDescriptorType) and one.__objclass__ is class_
    }


def _fields(class_: Any) -> list[Any]:
    """What ``__init__`` of a dataclass knows: its fields, and variables for ``__post_init__``."""
    # Where annotations are texts, nothing but the kind tells class variables.
    held = class_.__dataclass_fields__.values()
    return [one for one in held if one._field_type.name != "_FIELD_CLASSVAR"]


def _field(writer: Writer, field: Any) -> Row:
    row: Row = {
        "name": field.name,
        "flags": {
            "init": field.init,
            "repr": field.repr,
            "compare": field.compare,
            "kw_only": bool(field.kw_only),
        },
    }
    if field._field_type.name == "_FIELD_INITVAR":
        row["init_var"] = True
    if field.hash is not None:
        row["hash"] = field.hash
    if field.default is not dataclasses.MISSING:
        row["default"] = writer.reference(field.default)
    if field.default_factory is not dataclasses.MISSING:
        row["factory"] = writer.reference(field.default_factory)
    return row


def _members(writer: Writer, class_: type, hidden: frozenset[str]) -> Iterator[list[Any]]:
    """Name, form and references of what a class defines; the form of what is left out says why."""
    hidden |= _generated(class_) | slots_of(class_).keys()
    for name, value in vars(class_).items():
        if name in hidden:
            continue
        if isinstance(value, MemberDescriptorType | GetSetDescriptorType):
            raise SerializationError(f"cannot save {shown(class_)}: '{name}' is Python's own")
        if not is_identifier(name) or method_problem(name):
            yield [name, "missing", str(method_problem(name))]
            continue
        found, reason = writer.attempt(partial(_member, writer, value))
        if found is None and name.startswith("__") and name.endswith("__"):
            # Python calls it without being told to, so that it may be missed anywhere.
            raise SerializationError(f"cannot save {shown(class_)}: {reason}")
        yield [name, *found] if found is not None else [name, "missing", reason]


def _generated(class_: Any) -> frozenset[str]:
    """The methods that ``dataclass`` has made, and the defaults of its fields."""
    if "__dataclass_fields__" not in vars(class_):
        return frozenset()
    made = {
        name
        for name, value in vars(class_).items()
        if isinstance(value, FunctionType) and _is_generated(value)
    }
    if class_.__hash__ is None:
        made.add("__hash__")
    return frozenset(made | {one.name for one in _fields(class_)} | _MADE_FOR_DATACLASSES)


def _is_generated(function: FunctionType) -> bool:
    # Those of dataclass itself have no file, and a wrapper around __repr__ is from the library.
    return function.__code__.co_filename == "<string>" or is_library(function.__code__.co_filename)


def _member(writer: Writer, value: Any) -> list[Any]:
    if isinstance(value, LeftOut):
        return ["missing", value.reason]
    if isinstance(value, property):
        parts = (value.fget, value.fset, value.fdel)
        return ["property", [None if one is None else _method(writer, one) for one in parts]]
    if isinstance(value, cached_property):
        return ["cached property", _method(writer, value.func)]
    if isinstance(value, staticmethod | classmethod):
        return [type(value).__name__, _method(writer, value.__func__)]
    if isinstance(value, FunctionType):
        return ["method", _method(writer, value)]
    return ["value", writer.reference(value)]


def _method(writer: Writer, function: Any) -> Any:
    mark = function_mark(function)
    if mark in ("ignore", "unused"):
        raise SerializationError(f"{shown(function)} is marked with {mark}")
    if isinstance(function, FunctionType) and is_library(function.__code__.co_filename):
        if known_name(function) is None:
            raise SerializationError(f"{shown(function)} is not the program's own")
    return writer.reference(function)


def describe_instance(writer: Writer, value: Any, number: int) -> Row:
    """The row of an object of a class that can be saved.

    Raises
    ------
    SerializationError
        It is more than its attributes.
    """
    class_ = type(value)
    outside = writer.outside(value)
    if outside is not None:
        return outside
    bases = [one for one in class_.__mro__ if not is_own_class(one)]
    if any(one not in (object, abc.ABC, Generic) for one in bases) or issubclass(class_, Enum):
        raise SerializationError(f"cannot save {shown(value)}: it is more than its attributes")
    found = writer.number(class_)
    state = [[name, writer.reference(held)] for name, held in _attributes(value)]
    return {"kind": "instance", "class": found, "attributes": state}


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """What an object has in its slots, and else."""
    class_ = type(value)
    names = dict.fromkeys(name for one in class_.__mro__ for name in slots_of(one))
    for name in names:
        with contextlib.suppress(AttributeError):  # nothing is in the slot
            yield name, slot_of(class_, name).__get__(value)  # type: ignore[union-attr]
    if class_.__dictoffset__:
        yield from ((name, one) for name, one in vars(value).items() if name != "__orig_class__")
