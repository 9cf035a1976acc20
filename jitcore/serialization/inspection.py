"""What is inside an archive, as text; nothing of it is made or run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jitcore.errors import SerializationError
from jitcore.serialization.archive import Archive, FileLike, read_file, unpack
from jitcore.serialization.arrays import array_header
from jitcore.serialization.fields import Fields, parse_json
from jitcore.serialization.storage import EXTRA
from jitcore.serialization.writer import PROGRAM

__all__ = ["inspect_file"]


def inspect_file(file: FileLike) -> str:
    """The methods of an archive, its code, its constants with their sizes, and its extra files.

    Raises
    ------
    SerializationError
        It is no archive of jitcore, or it is damaged.
    """
    data = read_file(file)
    archive = unpack(data)
    program = Fields(parse_json(archive.bytes(PROGRAM), PROGRAM), PROGRAM)
    rows = [Fields(row, f"object {number}") for number, row in enumerate(program.items("objects"))]
    root = program.integer("root")
    if not 0 <= root < len(rows):
        raise SerializationError(f"the archive has no object number {root}")
    parts = [
        f"{_title(rows[root], rows)}, {_size(len(data))}, format version {archive.version}, "
        f"written by {archive.written_by}",
        _section("functions and methods", _functions(rows)),
        _section("attributes and constants", _values(rows, archive)),
        _section("classes", _classes(rows)),
        _section("extra files", _extra_files(archive)),
        *(
            f"{name}\n\n{archive.text(name).rstrip()}"
            for name in archive.entries
            if name.startswith("code/")
        ),
    ]
    return "\n\n".join(_printable(part) for part in parts if part)


def _printable(text: str) -> str:
    """Text from a file that leaves a terminal as it is."""
    return "".join(sign if sign.isprintable() or sign == "\n" else "?" for sign in text)


def _section(title: str, lines: Iterator[str]) -> str:
    found = list(lines)
    return "\n  ".join([title, *found]) if found else ""


def _title(root: Fields, rows: list[Fields]) -> str:
    if root.text("kind") != "layer":
        return f"script function {root.text('name')}"
    return f"script module {_class_of(root, rows)}"


def _class_of(layer: Fields, rows: list[Fields]) -> str:
    number = layer.integer("class")
    known = 0 <= number < len(rows) and "name" in rows[number]
    return rows[number].text("name") if known else "of a class that is not in the file"


def _functions(rows: list[Fields]) -> Iterator[str]:
    for row in rows:
        kind = row.text("kind")
        if kind == "function" and row.boolean("script"):
            yield _signature(row.text("qualified"), row)
        methods = row.items("methods") if kind == "layer" and "methods" in row else []
        for method in methods:
            fields = Fields(method, row.where)
            name = f"{_class_of(row, rows)}.{fields.text('name')}"
            if "missing" in fields:
                yield f"{name}: left out, {fields.text('missing')}"
            else:
                yield _signature(name, fields)


def _signature(name: str, row: Fields) -> str:
    parameters = [
        f"{parameter}={_default(default)}" if default else str(parameter)
        for parameter, _, default in row.rows("parameters", 3)
    ]
    forms = len(row.items("forms"))
    return f"{name}({', '.join(parameters)})" + (f", for {forms} modes" if forms > 1 else "")


def _default(reference: Any) -> str:
    """A literal, or dots for an object of the table."""
    known = isinstance(reference, list) and isinstance(reference[0], str)
    return str(reference[0]) if known else "..."


def _values(rows: list[Fields], archive: Archive) -> Iterator[str]:
    names = _names(rows)
    for number, row in enumerate(rows):
        kind = row.text("kind")
        if kind == "array":
            yield f"{names.get(number, 'array')}: {_array(row, archive)}"
        elif kind in ("list", "dict", "set", "tuple") and number in names:
            yield f"{names[number]}: {kind} with {len(row.items('items'))} elements"


def _names(rows: list[Fields]) -> dict[int, str]:
    """What attributes and inputs of graphs are called, by the numbers of their objects."""
    names: dict[int, str] = {}
    for row in rows:
        sources: list[Any] = []
        if row.text("kind") == "layer":
            sources = row.rows("attributes", 2)
        forms = row.items("forms") if "forms" in row else []
        for form in forms:
            for name, source in Fields(form, row.where).rows("sources", 2):
                if isinstance(source, dict):
                    sources.append([name, source.get("object")])
        for name, reference in sources:
            if isinstance(reference, int):
                names.setdefault(reference, str(name))
    return names


def _array(row: Fields, archive: Archive) -> str:
    name = row.text("file")
    data = archive.bytes(name)
    shape, dtype = array_header(data, name)
    view = ", a view of it" if "strides" in row else ""
    extents = ", ".join(map(str, shape))
    return f"{dtype}[{extents}], {_size(len(data))} in {name}{view}"


def _classes(rows: list[Fields]) -> Iterator[str]:
    for row in rows:
        if row.text("kind") in ("class", "enum", "named tuple", "layer class"):
            yield f"{row.text('kind')} {row.text('module')}.{row.text('qualified')}"


def _extra_files(archive: Archive) -> Iterator[str]:
    for name, data in archive.entries.items():
        if name.startswith(EXTRA):
            yield f"{name.removeprefix(EXTRA)}: {_size(len(data))}"


def _size(count: int) -> str:
    size = float(count)
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"
