"""Classes of an archive, made anew from their description; no code of theirs runs meanwhile."""

from __future__ import annotations

import abc
import collections
import dataclasses
import functools
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from jitcore.codegen.host.text import is_identifier
from jitcore.errors import SerializationError
from jitcore.serialization.attribute_names import attribute_problem, method_problem
from jitcore.serialization.classes import ENUM_MIXINS, FLAGS, LeftOut, is_own_class, slot_of
from jitcore.serialization.fields import Fields
from jitcore.serialization.literals import is_literal
from jitcore.serialization.present import present_class
from jitcore.serialization.vocabulary import is_base_class, known_object

if TYPE_CHECKING:
    from jitcore.serialization.reader import Reader

__all__ = ["CLASS_BUILDERS", "OF_CLASSES", "checked_name"]


def checked_name(row: Fields, name: Any) -> str:
    """A text that is an identifier.

    Raises
    ------
    SerializationError
        It is something else.
    """
    if not isinstance(name, str) or not is_identifier(name):
        raise row.problem(f"has {name!r} for a name")
    return name


def _or_present(build: Callable[[Reader, Fields, int], type]) -> Callable[..., type]:
    """The class that the process has already, if it is the one described; else a new one."""

    def build_or_find(reader: Reader, row: Fields, number: int) -> type:
        return present_class(reader, row, number) or build(reader, row, number)

    return build_or_find


def _class(reader: Reader, row: Fields, number: int) -> type:
    """An ordinary class, or a dataclass; its methods come when all classes are there."""
    bases = tuple(map(reader.object, row.integers("bases")))
    if not all(map(_may_be_base, bases)):
        raise row.problem("has a base class it cannot have")
    namespace: dict[str, Any] = {"__doc__": row.get("doc")}
    if any(isinstance(one, list) and one[:1] == ["__post_init__"] for one in row.items("members")):
        # The __init__ of a dataclass calls it only where there is one when it is made.
        namespace["__post_init__"] = _not_yet
    fields = row.get("dataclass")
    if fields is not None:
        fields = Fields(fields, row.where)
        _add_fields(reader, fields, namespace)
    if "slots" in row:
        namespace["__slots__"] = tuple(_slot_name(row, one) for one in row.texts("slots"))
    parameters = (
        tuple(TypeVar(one) for one in row.texts("parameters")) if "parameters" in row else ()
    )
    try:
        if Generic in bases:
            generic: Any = Generic
            namespace["__orig_bases__"] = (generic[parameters],)
        made: Any = type(checked_name(row, row.text("name")), bases or (object,), namespace)
        if fields is not None:
            made = dataclasses.dataclass(**_dataclass_flags(fields))(made)
    except (TypeError, ValueError) as error:
        raise row.problem(f"is no valid class: {error}") from error
    if parameters:
        made.__parameters__ = parameters
    _finish(reader, row, made)
    found: type = made
    return found


def _dataclass_flags(row: Fields) -> dict[str, bool]:
    """What ``dataclass`` is called with."""
    flags = Fields(row.mapping("flags"), row.where)
    given = {name: flags.boolean(name) for name in FLAGS}
    if "slots" in row:
        slots = Fields(row.mapping("slots"), row.where)
        given |= {"slots": True, "weakref_slot": slots.boolean("weakref_slot")}
    return given


def _slot_name(row: Fields, name: str) -> str:
    if name in ("__dict__", "__weakref__"):
        return name
    if attribute_problem(checked_name(row, name)):
        raise row.problem(f"has a slot {name!r}")
    return name


def _not_yet(*_: Any) -> None:
    """Stands for a method that comes when all classes are there."""


def _may_be_base(class_: Any) -> bool:
    return is_base_class(class_) or is_own_class(class_)


def _add_fields(reader: Reader, row: Fields, namespace: dict[str, Any]) -> None:
    annotations: dict[str, Any] = {}
    for one in row.items("fields"):
        field = Fields(one, row.where)
        name = checked_name(row, field.text("name"))
        if attribute_problem(name):
            raise row.problem(f"has a field {name!r}")
        annotations[name] = dataclasses.InitVar[object] if "init_var" in field else object
        flags = Fields(field.mapping("flags"), row.where)
        given: dict[str, Any] = {
            flag: flags.boolean(flag) for flag in ("init", "repr", "compare", "kw_only")
        }
        if "hash" in field:
            given["hash"] = field.boolean("hash")
        if "default" in field:
            given["default"] = reader.value(field.get("default"))
        if "factory" in field:
            given["default_factory"] = reader.value(field.get("factory"))
        namespace[name] = dataclasses.field(**given)
    namespace["__annotations__"] = annotations


def _named_tuple(reader: Reader, row: Fields, number: int) -> type:
    fields = row.texts("fields")
    defaults = {str(name): reader.value(value) for name, value in row.rows("defaults", 2)}
    last = fields[len(fields) - len(defaults) :]
    if set(last) != set(defaults):
        raise row.problem("has defaults for other fields")
    try:
        # Called by another name: the arguments are not known before.
        make: Any = collections.namedtuple
        made: Any = make(
            checked_name(row, row.text("name")), fields, defaults=[defaults[one] for one in last]
        )
    except (TypeError, ValueError) as error:
        raise row.problem(f"is no NamedTuple: {error}") from error
    made.__doc__ = row.get("doc")
    _finish(reader, row, made)
    found: type = made
    return found


_ENUM_MIXINS = {one.__name__: one for one in ENUM_MIXINS}


def _enum(reader: Reader, row: Fields, number: int) -> type:
    mixed, _, base = row.text("base").rpartition(" ")
    if not base.startswith("enum.") or mixed not in ("", *_ENUM_MIXINS):
        raise row.problem("is no enum")
    values = [
        (checked_name(row, name), reader.value(value)) for name, value in row.rows("values", 2)
    ]
    if not all(is_literal(value) for _, value in values):
        raise row.problem("has a member that is no literal")
    try:
        class_: Any = known_object(base)
        made: Any = class_(
            checked_name(row, row.text("name")), values, type=_ENUM_MIXINS.get(mixed)
        )
    except (KeyError, TypeError, ValueError) as error:
        raise row.problem(f"is no enum: {error}") from error
    _finish(reader, row, made)
    found: type = made
    return found


def _finish(reader: Reader, row: Fields, made: Any) -> None:
    """Name a class now, and give it its methods later."""
    made.__qualname__ = row.text("qualified")
    made.__module__ = row.text("module")

    def fill() -> None:
        for member in row.items("members"):
            if not isinstance(member, list) or len(member) != 3:
                raise row.problem("has no valid members")
            name, form, content = member
            checked_name(row, name)
            add = _MEMBERS.get(form) if isinstance(form, str) else None
            problem = method_problem(name) if form != "missing" else None
            if add is None or problem:
                raise SerializationError(f"{row.where} in the archive: {problem or form!r}")
            add(reader, made, name, content)
        if "abstract" in row:
            made.__abstractmethods__ = frozenset(row.texts("abstract"))

    reader.fill(fill)


def _add_method(reader: Reader, class_: Any, name: str, content: Any) -> None:
    setattr(class_, name, reader.value(content))


def _add_static_method(reader: Reader, class_: Any, name: str, content: Any) -> None:
    setattr(class_, name, staticmethod(reader.value(content)))


def _add_class_method(reader: Reader, class_: Any, name: str, content: Any) -> None:
    setattr(class_, name, classmethod(reader.value(content)))


def _add_property(reader: Reader, class_: Any, name: str, content: Any) -> None:
    if not isinstance(content, list) or len(content) != 3:
        raise SerializationError(f"the property {name!r} in the archive is not valid")
    parts = [None if one is None else reader.value(one) for one in content]
    setattr(class_, name, property(*parts))


def _add_cached_property(reader: Reader, class_: Any, name: str, content: Any) -> None:
    made = functools.cached_property(reader.value(content))
    setattr(class_, name, made)
    made.__set_name__(class_, name)


def _add_missing(reader: Reader, class_: Any, name: str, content: Any) -> None:
    if not attribute_problem(name):
        setattr(class_, name, LeftOut(name, str(content)))


_MEMBERS: dict[str, Callable[[Reader, Any, str, Any], None]] = {
    "cached property": _add_cached_property,
    "classmethod": _add_class_method,
    "method": _add_method,
    "missing": _add_missing,
    "property": _add_property,
    "staticmethod": _add_static_method,
    "value": _add_method,
}


def _instance(reader: Reader, row: Fields, number: int) -> Any:
    """An object of a class of the archive, made without calling anything of it."""
    class_ = reader.object(row.integer("class"))
    if not isinstance(class_, type) or issubclass(class_, Enum | abc.ABCMeta):
        raise row.problem("is no object of a class")
    try:
        made: Any = object.__new__(class_)
    except TypeError as error:
        raise row.problem(f"cannot be made: {error}") from error

    def fill() -> None:
        for name, value in row.rows("attributes", 2):
            slot = slot_of(class_, name)
            is_held = slot is not None or class_.__dictoffset__ != 0
            if attribute_problem(checked_name(row, name)) or not is_held:
                raise row.problem(f"has an attribute {name!r}")
            if slot is not None:
                slot.__set__(made, reader.value(value))
            else:
                vars(made)[name] = reader.value(value)

    if not is_own_class(class_):
        raise row.problem("is no object of a class of its own")
    reader.fill(fill)
    return made


OF_CLASSES = {
    "class": _or_present(_class),
    "enum": _or_present(_enum),
    "named tuple": _or_present(_named_tuple),
}

CLASS_BUILDERS = {**OF_CLASSES, "instance": _instance}
