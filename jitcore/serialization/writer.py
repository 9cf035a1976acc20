"""Describes a program: objects become rows of a table, which refer to each other by number."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Callable
from enum import Enum
from types import FunctionType, MethodType
from typing import Any, TypeVar

import numpy as np

from jitcore.devices import is_device_array, to
from jitcore.errors import SerializationError
from jitcore.frontend.constants import function_mark, is_layer, wrapped_function
from jitcore.ir.graph import Graph, Node
from jitcore.ir.types import is_named_tuple
from jitcore.script import ScriptFunction
from jitcore.serialization.annotations import describe_annotation, is_annotation
from jitcore.serialization.arrays import array_problem, describe_arrays
from jitcore.serialization.classes import describe_class, describe_instance, is_own_class
from jitcore.serialization.functions import (
    Unknown,
    describe_function,
    describe_maker,
    maker_of,
)
from jitcore.serialization.layers import (
    Layers,
    check_layer_uses,
    describe_layer,
    describe_layer_class,
    is_layer_class,
)
from jitcore.serialization.literals import is_literal, literal_text
from jitcore.serialization.places import excerpt_of, is_known_by_name, shown
from jitcore.serialization.vocabulary import known_name

__all__ = ["PROGRAM", "Reference", "Row", "Writer", "class_digest", "described_class"]

Reference = int | str
"""The number of a row, or the text of a literal."""

Row = dict[str, Any]

Found = TypeVar("Found")

PROGRAM = "program.json"


class Writer:
    """A table of objects and the entries of the archive that go with it.

    Parameters
    ----------
    external : list, optional
        Takes the objects that the archive does not hold, because ``pickle`` knows how to: classes,
        functions that stay Python, and objects that no row can describe.
    with_digests : bool
        Note of each class what a class in the process that loads it has to be to stand for it.
    """

    def __init__(
        self,
        external: list[Any] | None = None,
        *,
        with_digests: bool = True,
    ) -> None:
        self.with_digests = with_digests
        self.entries: dict[str, bytes] = {}
        self.layers = Layers()
        self.graphs: list[Graph] = []
        self._external = external
        self._rows: list[Row] = []
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []
        self._arrays: list[tuple[int, np.ndarray[Any, Any]]] = []

    # References

    def reference(self, value: Any) -> Reference:
        """What stands for a value in another row.

        Raises
        ------
        SerializationError
            It cannot be saved.
        """
        return literal_text(value) if is_literal(value) else self.number(value)

    def number(self, value: Any) -> int:
        """The number of a value's row, which is new where it has none."""
        known = self._numbers.get(id(value))
        if known is not None:
            return known
        number = len(self._rows)
        self.stand_for(value, number)
        self._rows.append({})
        self._rows[number] = self._described(value, number)
        return number

    def number_at(self, value: Any, node: Node) -> int:
        """The number of an object that a graph uses; errors show where."""
        try:
            return self.number(value)
        except SerializationError as error:
            raise SerializationError(f"{error}{excerpt_of(node)}") from error

    def stand_for(self, value: Any, number: int) -> None:
        """Let an object have the row of this number."""
        # An object that is gone could leave its id to another one.
        self._kept.append(value)
        self._numbers[id(value)] = number

    def row(self, value: Any, row: Row) -> int:
        """Give an object a row that is known already; gives its number."""
        number = self._numbers.get(id(value))
        if number is None:
            number = len(self._rows)
            self.stand_for(value, number)
            self._rows.append(row)
        return number

    def attempt(self, describe: Callable[[], Found]) -> tuple[Found | None, str]:
        """What a description gives, or None and the reason; what was begun is taken back."""
        rows, kept, arrays = len(self._rows), len(self._kept), len(self._arrays)
        entries = set(self.entries)
        externals = len(self._external or ())
        try:
            return describe(), ""
        except SerializationError as error:
            for one in self._kept[kept:]:
                self._numbers.pop(id(one), None)
            del self._rows[rows:], self._kept[kept:], self._arrays[arrays:]
            del (self._external or [])[externals:]
            for name in self.entries.keys() - entries:
                del self.entries[name]
            return None, str(error).partition("\n")[0]

    def entry(self, folder: str, name: str, data: bytes) -> str:
        """Add an entry to the archive; gives its name, which is new."""
        number = sum(one.startswith(f"{folder}/") for one in self.entries)
        stem, _, ending = name.rpartition(".")
        word = "".join(sign if sign.isalnum() and sign.isascii() else "_" for sign in stem)[:60]
        path = f"{folder}/{number}_{word}.{ending}"
        self.entries[path] = data
        return path

    # Rows

    def _described(self, value: Any, number: int) -> Row:
        name = known_name(value)
        if name is not None:
            return {"kind": "known", "name": name}
        for applies, describe in _DESCRIBERS:
            if applies(value):
                return describe(self, value, number)
        if isinstance(value, Unknown):
            raise SerializationError(
                "cannot save a nested function that calls itself and is passed on or stored"
            )
        if self._external is not None:
            return self._outside(value)
        raise SerializationError(
            f"cannot save {shown(value)}: it is none that a saved program may use"
        )

    def check_graph(self, graph: Graph) -> None:
        """Raise where a graph needs what neither the archive nor ``pickle`` has."""
        if self._external is None:
            check_layer_uses(graph)

    def outside(self, value: Any) -> Row | None:
        """The row of an object that ``pickle`` takes care of; None where nothing else does."""
        return None if self._external is None else self._outside(value)

    def _outside(self, value: Any) -> Row:
        assert self._external is not None
        self._external.append(value)
        return {"kind": "external", "number": len(self._external) - 1}

    def own_class(self, value: type, number: int) -> Row:
        """A class of the user's: ``pickle`` takes care of it, or the archive describes it."""
        outside = self._external is not None and is_known_by_name(value)
        return self._outside(value) if outside else describe_class(self, value)

    def layer_class(self, value: type, number: int) -> Row:
        """A class of layers."""
        row = describe_layer_class(self, value, number)
        outside = self._external is not None and is_known_by_name(value)
        return self._outside(value) if outside and row["kind"] == "layer class" else row

    def layer(self, value: Any, number: int) -> Row:
        """A layer."""
        return describe_layer(self, value, number)

    def python(self, value: Any, number: int) -> Row:
        """A function that stays Python."""
        if self._external is not None:
            return self._outside(value)
        if value.__module__.startswith("jitcore."):
            raise SerializationError(
                "cannot save an import, or an assignment to a variable outside of the program"
            )
        raise SerializationError(
            f"cannot save {shown(value)}: it is marked with ignore and stays Python; "
            "mark it with unused, or take the call out of what is saved"
        )

    def class_digest(self, class_: type) -> str | None:
        """What tells a class from others of the same name; None where it is not all described."""
        return class_digest(class_)

    def array(self, value: np.ndarray[Any, Any], number: int) -> Row:
        """An array; its row is filled when all arrays are known."""
        problem = array_problem(value)
        if problem is not None:
            raise SerializationError(f"cannot save {shown(value)}: {problem}")
        self._arrays.append((number, value))
        return {"kind": "array"}

    def device_array(self, value: Any, number: int) -> Row:
        """An array on a device; whoever loads it gets it on the host, and has no need of a GPU."""
        return self.array(to(value, "cpu"), number)

    # The archive

    @property
    def rows(self) -> list[Row]:
        """The table so far."""
        return self._rows

    def objects(self) -> dict[int, Any]:
        """The objects of the rows, by their numbers."""
        return {self._numbers[id(one)]: one for one in self._kept}

    def program(self, root: Any) -> dict[str, bytes]:
        """All entries of the archive whose root is this object."""
        number = self.number(root)
        notes, files = describe_arrays([array for _, array in self._arrays])
        for (row, _), note in zip(self._arrays, notes, strict=True):
            self._rows[row].update(note)
        program = {"root": number, "objects": self._rows}
        return {**self.entries, **files, PROGRAM: json.dumps(program, indent=1).encode()}


def class_digest(class_: type) -> str | None:
    """The hash of all that an archive says about a class; None where that is not all of it."""
    described = described_class(class_)
    return None if described is None else described[1]


def described_class(class_: type) -> tuple[Writer, str] | None:
    """What has described a class in rows, and their hash; None where these are not all of it.

    Where the class stands in its file is no part of it.
    """
    writer = Writer(with_digests=False)
    try:
        entries = writer.program(class_)
    except SerializationError:
        return None
    if any(one[1] == "missing" for row in writer.rows for one in row.get("members", ())):
        return None
    digest = hashlib.sha256()
    for name in sorted(entries):
        text = entries[name]
        if name.endswith(".ir"):
            text = _PLACES.sub(b"", text)
        digest.update(b"%d %d " % (len(name), len(text)) + name.encode() + text)
    return writer, digest.hexdigest()


_PLACES = re.compile(rb" # [^\n]*:\d+:\d+$", re.MULTILINE)


def _elements(kind: str) -> Callable[[Writer, Any, int], Row]:
    def describe(writer: Writer, value: Any, number: int) -> Row:
        return {"kind": kind, "items": [writer.reference(item) for item in value]}

    return describe


def _dict(writer: Writer, value: Any, number: int) -> Row:
    items = [[writer.reference(key), writer.reference(item)] for key, item in value.items()]
    return {"kind": "dict", "items": items}


def _set(writer: Writer, value: Any, number: int) -> Row:
    # In an order of its own, so that equal programs give equal archives.
    items = sorted((writer.reference(item) for item in value), key=str)
    return {"kind": type(value).__name__, "items": items}


def _named_tuple(writer: Writer, value: Any, number: int) -> Row:
    class_ = writer.reference(type(value))
    return {"kind": "tuple", "class": class_, "items": [writer.reference(one) for one in value]}


def _enum_member(writer: Writer, value: Enum, number: int) -> Row:
    return {"kind": "member", "class": writer.reference(type(value)), "name": value.name}


def _is_class_method(value: Any) -> bool:
    return isinstance(value, MethodType) and isinstance(value.__self__, type)


def _class_method(writer: Writer, value: MethodType, number: int) -> Row:
    """A method of a class as a value; of a NamedTuple ``_make``, which every one has."""
    class_ = value.__self__
    own = value.__name__ != "_make" or not is_named_tuple(class_)  # type: ignore[arg-type]
    function = writer.reference(value.__func__) if own else None
    return {"kind": "method", "self": writer.reference(class_), "function": function}


def _partial(writer: Writer, value: functools.partial[Any], number: int) -> Row:
    return {
        "kind": "partial",
        # That of a recursive call has the name of its function.
        "named": "__name__" in vars(value),
        "function": writer.reference(value.func),
        "arguments": [writer.reference(one) for one in value.args],
        "keywords": [[name, writer.reference(one)] for name, one in value.keywords.items()],
    }


def _ignored(value: Any) -> bool:
    function = wrapped_function(value)
    return function is not None and function_mark(function) == "ignore"


_DESCRIBERS: tuple[tuple[Callable[[Any], bool], Callable[[Writer, Any, int], Row]], ...] = (
    (lambda value: type(value) is list, _elements("list")),
    (lambda value: type(value) is tuple, _elements("tuple")),
    (lambda value: type(value) is dict, _dict),
    (lambda value: type(value) in (set, frozenset), _set),
    (lambda value: isinstance(value, np.ndarray), Writer.array),
    (is_device_array, Writer.device_array),
    (lambda value: isinstance(value, Enum), _enum_member),
    (lambda value: is_named_tuple(type(value)), _named_tuple),
    (is_layer, Writer.layer),
    (is_annotation, describe_annotation),
    (_is_class_method, _class_method),
    (lambda value: type(value) is functools.partial, _partial),
    (lambda value: maker_of(value) is not None, describe_maker),
    (_ignored, Writer.python),
    (lambda value: isinstance(value, FunctionType), describe_function),
    (lambda value: isinstance(value, ScriptFunction), describe_function),
    (is_layer_class, Writer.layer_class),
    (is_own_class, Writer.own_class),
    (lambda value: is_own_class(type(value)), describe_instance),
)
"""Which objects there are rows for, and what makes them; the first that applies does."""
