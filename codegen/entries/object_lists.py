"""Lists of objects in entries: the checks, and reading and writing attributes."""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType, MethodType
from typing import Any

from jitcore.codegen.entries import layout
from jitcore.codegen.entries.entry_code import EntryCode
from jitcore.codegen.entries.signature import ObjectListParam
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import FieldWrite

__all__ = [
    "ObjectListFields",
    "check_object_list",
    "check_objects_apart",
    "read_object_lists",
    "write_elements",
]

_KINDS: dict[str, tuple[int, Any]] = {"int": (0, int), "float": (1, float), "bool": (2, bool)}
"""How the runtime knows the kinds of attributes, and their types."""


@dataclass(slots=True)
class ObjectListFields:
    """A list of objects, its length, and the operands that its attributes become.

    Parameters
    ----------
    param : ObjectListParam
    value, length : str
    operand : int
        The number of the first of them.
    columns : list of str
        The memory, once it has been read.
    """

    param: ObjectListParam
    value: str
    length: str
    operand: int
    columns: list[str]


def check_object_list(
    code: EntryCode, param: ObjectListParam, value: str, operands: list[str]
) -> ObjectListFields:
    """Check that a list is not empty; its objects are looked at later."""
    code.guard_type(value, list)
    length = code.load("i64", value, layout.LIST_SIZE)
    code.guard(code.value(f"icmp ne i64 {length}, 0"))
    operands.append(f"ptr {value}")
    fields = ObjectListFields(param, value, length, len(operands), [])
    operands += [*("ptr null" for _ in param.names), f"i64 {length}"]
    return fields


def check_objects_apart(
    code: EntryCode, lists: Sequence[ObjectListFields], instances: Sequence[str]
) -> None:
    """Check that no object is known twice, and has what its class says about it."""
    for one in lists:
        for name, held in one.param.inherited:
            key, found = code.constant_name(name), code.constant(held)
            method = code.constant(MethodType) if isinstance(held, FunctionType) else "null"
            operands = [f"ptr {operand}" for operand in (one.value, key, found, method)]
            code.guard(code.call("i1", "jc_share_attribute", *operands))
        code.guard(code.call("i1", "jc_are_distinct", f"ptr {one.value}"))
        for other in instances:
            code.guard(code.call("i1", "jc_lacks", f"ptr {one.value}", f"ptr {other}"))


def read_object_lists(
    code: EntryCode,
    lists: Sequence[ObjectListFields],
    writes: Sequence[FieldWrite],
    operands: list[str],
) -> list[str]:
    """Read the attributes of all objects; gives the memory they are in, or null.

    An object gets one of its own even where it is set to what the class has.  Where it is written,
    it must therefore not be the class's before.
    """
    for place, one in enumerate(lists):
        for number, (name, kind) in enumerate(zip(one.param.names, one.param.kinds, strict=True)):
            is_written = FieldWrite(place, name) in writes
            given = [*_attribute(code, one, name, kind), f"i1 {str(is_written).lower()}"]
            one.columns.append(code.call("ptr", "jc_read_attributes", *given))
            operands[one.operand + number] = f"ptr {one.columns[-1]}"
    return [column for one in lists for column in one.columns]


def write_elements(
    code: EntryCode, lists: Sequence[ObjectListFields], writes: Sequence[FieldWrite]
) -> list[str]:
    """Set what has changed; gives an i32 for each attribute, which is 0 where that has worked."""
    statuses = []
    for write in writes:
        one = lists[write.object]
        number = one.param.names.index(write.name)
        given = _attribute(code, one, write.name, one.param.kinds[number])
        memory = (f"ptr {one.columns[number]}", f"i64 {one.length}")
        statuses.append(code.call("i32", "jc_write_attributes", *given, *memory))
    return statuses


def _attribute(code: EntryCode, one: ObjectListFields, name: str, kind: str) -> list[str]:
    """What the runtime's functions know an attribute of the objects by."""
    number, type_ = _KINDS[kind]
    class_, key = code.constant(one.param.class_), code.constant_name(name)
    objects = (f"ptr {one.value}", f"ptr {class_}", f"ptr {key}")
    return [*objects, f"i64 {number}", f"ptr {code.constant(type_)}"]
