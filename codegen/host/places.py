"""Where generated code comes from, so that tracebacks show the user's own lines.

The statements of a host program know their places in the user's source.  When an exception leaves
compiled code, its traceback gets the user's lines in the place of the generated ones, and the
frames of this package that lie between are left out.
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import CodeType, TracebackType
from typing import TypeVar

from jitcore.ir.graph import SourceRange

__all__ = [
    "PlaceNotes",
    "at_place",
    "forget_places",
    "in_user_code",
    "is_generated",
    "is_internal",
    "place_in",
    "remember_places",
]

AnyException = TypeVar("AnyException", bound=BaseException)

_PACKAGE = Path(__file__).parents[2]

_known: dict[str, dict[int, SourceRange]] = {}
_NOTE = re.compile(r"  # @(\d+)$")


class PlaceNotes:
    """Collects the places of statements while a program is printed.

    A statement gets a note at its end, which `taken` removes from the finished text.
    """

    def __init__(self) -> None:
        self._places: list[SourceRange] = []

    def note(self, where: SourceRange) -> str:
        """What is written behind a statement."""
        self._places.append(where)
        return f"@{len(self._places) - 1}"

    def taken(self, source: str) -> tuple[str, dict[int, SourceRange]]:
        """The text without notes, and the places by its line numbers."""
        lines, places = [], {}
        for number, line in enumerate(source.split("\n"), 1):
            found = _NOTE.search(line)
            if found is not None:
                places[number] = self._places[int(found.group(1))]
                line = line[: found.start()]
            lines.append(line)
        return "\n".join(lines), places


def remember_places(file: str, places: dict[int, SourceRange]) -> None:
    """Note the places of the lines of a generated file."""
    _known[file] = places


def is_generated(file: str) -> bool:
    """Whether a file is the source of a host program."""
    return file in _known


@lru_cache(maxsize=1024)
def is_internal(file: str) -> bool:
    """Whether a file is of the part of the package that runs compiled functions."""
    parts = Path(file).parts
    inside = parts[: len(_PACKAGE.parts)] == _PACKAGE.parts
    return inside and parts[len(_PACKAGE.parts)] != "nn"


def place_in(file: str, line: int) -> SourceRange | None:
    """The place of a line of a generated file, if it has one."""
    return _known[file].get(line)


def forget_places(file: str) -> None:
    """Forget a generated file."""
    _known.pop(file, None)


def in_user_code(error: AnyException) -> AnyException:
    """The exception with the user's lines in the place of generated code.

    Frames of what only runs compiled functions are left out.
    """
    kept: TracebackType | None = None
    inner: tuple[str, int] | None = None
    for step in reversed(list(_steps(error.__traceback__))):
        file = step.tb_frame.f_code.co_filename
        places = _known.get(file)
        if places is not None:
            where = places.get(step.tb_lineno)
            # A loop and the region in it may have the same place.
            if where is not None and (where.file, where.line) != inner:
                kept = _joined(_frame_at(where), kept)
                inner = (where.file, where.line)
        elif not is_internal(file):
            kept = _joined(step, kept)
            made = step.tb_frame.f_globals.get("error") is _Marker
            inner = (file, step.tb_lineno) if made else None
    return error.with_traceback(kept)


def at_place(error: AnyException, where: SourceRange | None) -> AnyException:
    """The exception as if the user's code had raised it there."""
    return error if where is None else error.with_traceback(_frame_at(where))


def _steps(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _joined(first: TracebackType, rest: TracebackType | None) -> TracebackType:
    return TracebackType(rest, first.tb_frame, first.tb_lasti, first.tb_lineno)


def _frame_at(where: SourceRange) -> TracebackType:
    """The traceback of an exception that is raised at a place by code made for that."""
    # Not kept: its frame holds those of all callers.
    try:
        exec(_raising_code(where, _function_at(where)), {"error": _Marker})
    except _Marker as marker:
        assert marker.__traceback__ is not None and marker.__traceback__.tb_next is not None
        return marker.__traceback__.tb_next
    raise AssertionError("internal error: the code of a place does not raise")


@lru_cache(maxsize=256)
def _raising_code(where: SourceRange, name: str) -> CodeType:
    raising = ast.Raise(ast.Name("error", ast.Load()))
    for node in ast.walk(raising):
        if isinstance(node, ast.stmt | ast.expr):
            node.lineno, node.col_offset = where.line, where.column
            node.end_lineno, node.end_col_offset = where.end_line, where.end_column
    code = compile(ast.Module([raising], []), where.file, "exec")
    return code.replace(co_name=name, co_qualname=name)


class _Marker(Exception):
    """Raised and caught for the sake of its traceback."""


def _function_at(where: SourceRange) -> str:
    """The name of the innermost function around a place."""
    text = "".join(linecache.getlines(where.file))
    around = [one for one in _functions(text) if one[1] <= where.line <= one[2]]
    return max(around, key=lambda one: one[1])[0] if around else "<module>"


@lru_cache(maxsize=32)
def _functions(text: str) -> list[tuple[str, int, int]]:
    """The functions of a file: their names, first and last lines."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # The lines of a saved program are not all there, and may be anything.
        return []
    return [
        (node.name, node.lineno, node.end_lineno or node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    ]
