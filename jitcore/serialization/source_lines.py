"""The lines of the program's source that graphs mention: for reports, errors and tracebacks."""

from __future__ import annotations

import hashlib
import json
import linecache
import os
from collections.abc import Iterable, Mapping

from jitcore.errors import SerializationError
from jitcore.ir.graph import Graph
from jitcore.serialization.archive import Archive
from jitcore.serialization.fields import Fields, parse_json

__all__ = ["Lines", "describe_lines", "read_lines", "register_lines", "shown_folder"]

ENTRY = "sources.json"
MAX_LINE = 100_000
"""Later lines of a file are not kept."""
MAX_LENGTH = 400

Lines = Mapping[str, Mapping[int, str]]
"""The lines by their numbers, of each file by its name without the folder."""


def describe_lines(graphs: Iterable[Graph]) -> dict[str, bytes]:
    """The entry that holds the lines from which the nodes of these graphs come."""
    found: dict[str, dict[str, str]] = {}
    for graph in graphs:
        for node in graph.nodes():
            place = node.source
            line = linecache.getline(place.file, place.line).rstrip() if place else ""
            if place and line:
                lines = found.setdefault(os.path.basename(place.file), {})
                lines.setdefault(str(place.line), line)
    ordered = {
        file: dict(sorted(lines.items(), key=lambda item: int(item[0])))
        for file, lines in sorted(found.items())
    }
    return {ENTRY: json.dumps(ordered, indent=1).encode()} if ordered else {}


def shown_folder(archive: Archive) -> str:
    """The folder that the program's files are said to be in: none that there is."""
    return f"<jitcore {hashlib.sha256(archive.entries.get(ENTRY, b'')).hexdigest()[:12]}>"


def read_lines(archive: Archive) -> Lines:
    """The lines that an archive holds.

    Raises
    ------
    SerializationError
        They are not in the form that `describe_lines` writes.
    """
    if ENTRY not in archive.entries:
        return {}
    table = parse_json(archive.bytes(ENTRY), ENTRY)
    fields = Fields(table, ENTRY)
    return {file: _file_lines(fields, file) for file in table}


def _file_lines(fields: Fields, file: str) -> dict[int, str]:
    lines: dict[int, str] = {}
    for number, text in fields.mapping(file).items():
        if not (number.isascii() and number.isdigit() and len(number) < 10):
            raise SerializationError(f"{ENTRY} in the archive has a line {number!r}")
        if not isinstance(text, str):
            raise SerializationError(f"{ENTRY} in the archive has a line that is no text")
        if 0 < int(number) <= MAX_LINE:
            shown = (sign if sign.isprintable() or sign == "\t" else "?" for sign in text)
            lines[int(number)] = "".join(shown)[:MAX_LENGTH]
    return lines


def register_lines(folder: str, found: Lines) -> None:
    """Let ``linecache`` know the lines."""
    for file, lines in found.items():
        name = f"{folder}/{file}"
        text = [f"{lines.get(number, '')}\n" for number in range(1, max(lines, default=0) + 1)]
        linecache.cache[name] = (sum(map(len, text)), None, text, name)
