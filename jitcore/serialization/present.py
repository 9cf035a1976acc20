"""Classes of an archive that the process has already.

Such a class stands for the archive's, and so does what it holds and what its methods read: lists,
dicts, arrays and objects that the rest of the archive refers to as well are its own then, too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

from jitcore.serialization.classes import is_own_class
from jitcore.serialization.fields import Fields
from jitcore.serialization.writer import Row, Writer, described_class

if TYPE_CHECKING:
    from jitcore.serialization.reader import Reader

__all__ = ["present_class"]

_SHARED = ("array", "dict", "instance", "list", "set")
"""The kinds of rows whose objects can change."""

_REFERRING = {
    "class": ("members", "dataclass"),
    "dict": ("items",),
    "enum": ("members",),
    "function": ("parameters", "forms"),
    "instance": ("attributes",),
    "list": ("items",),
    "named tuple": ("members", "defaults"),
    "tuple": ("items",),
}
"""The fields of rows that refer to other rows: all integers in them do."""


def present_class(reader: Reader, row: Fields, number: int) -> type | None:
    """A class of this name that has been imported and is described by the same rows.

    All that such a class consists of could have been made from the archive, so that nothing is run
    that the archive could not have.
    """
    digest = row.get("digest") if "digest" in row else None
    module = sys.modules.get(row.text("module"))
    found: Any = module
    for name in row.text("qualified").split(".") if module is not None else ():
        found = vars(found).get(name) if isinstance(found, type | ModuleType) else None
    if digest is None or not isinstance(found, type) or not is_own_class(found):
        return None
    described = described_class(found)
    if described is None or described[1] != digest:
        return None
    _share(reader, number, described[0])
    return found


def _share(reader: Reader, number: int, present: Writer) -> None:
    """Let what the present class refers to stand for what the archive's does."""
    objects, seen = present.objects(), set[int]()
    waiting = [(number, 0)]
    while waiting:
        theirs, ours = waiting.pop()
        row, own = reader.raw_row(theirs), present.rows[ours]
        if theirs in seen or row.get("kind") != own["kind"]:
            continue
        seen.add(theirs)
        if own["kind"] in _SHARED:
            reader.put(theirs, objects[ours])
        waiting += zip(_references(row), _references(own), strict=False)


def _references(row: Row) -> Iterator[int]:
    for name in _REFERRING.get(row["kind"], ()):
        yield from _integers(row.get(name))


def _integers(value: Any) -> Iterator[int]:
    if type(value) is int:
        yield value
    elif isinstance(value, list | dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _integers(one)
