"""The exceptions and warnings of jitcore; a compilation error points at the user's own line."""

from __future__ import annotations

import linecache
import unicodedata

from jitcore.ir.graph import SourceRange

__all__ = [
    "CompilationError",
    "Error",
    "SerializationError",
    "TracerWarning",
    "TracingCheckError",
    "UnsupportedError",
    "excerpt",
]


class Error(RuntimeError):
    """The base of every exception that is jitcore's own."""


class CompilationError(Error):
    """A function cannot be compiled.

    Parameters
    ----------
    message : str
        What is wrong, in plain English.
    where : SourceRange, optional
        The place in the user's source; its line is shown with a caret.
    hint : str, optional
        What to write instead.
    """

    def __init__(self, message: str, where: SourceRange | None = None, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint
        self.calls: list[str] = []
        # Taken now: the file may have changed when the message is printed.
        self._excerpt = excerpt(where) if where is not None else ""

    def add_call(self, callee: str, caller: str, where: SourceRange | None) -> None:
        """Note that ``callee`` was being compiled because ``caller`` calls it at ``where``."""
        line = f"'{callee}' is being compiled since it was called from '{caller}'"
        if where is not None:
            line = f"{line}\n{excerpt(where)}"
        self.calls.append(line)

    def __str__(self) -> str:
        parts = [self.message, self._excerpt, self.hint, *self.calls]
        return "\n".join(part for part in parts if part)


class UnsupportedError(CompilationError):
    """A part of the language that compiled functions cannot use."""


class SerializationError(Error):
    """A saved program cannot be written, or what was read is not a valid one."""


class TracingCheckError(Error):
    """A traced function gave another result than the function itself when it was checked."""


class TracerWarning(Warning):
    """Something in a traced function was recorded as a constant and may differ in other calls."""


def excerpt(where: SourceRange) -> str:
    """``file:line:column``, and below it the source line with a caret under the place.

    Parameters
    ----------
    where : SourceRange
        Its columns count UTF-8 bytes, as those of ``ast`` do.
    """
    line = linecache.getline(where.file, where.line).rstrip()
    text = line.lstrip()
    if not text:
        return f"  {where}"
    indent = len(line) - len(text)
    start = max(_characters(line, where.column) - indent, 0)
    stop = len(text)
    if where.end_line == where.line:
        stop = min(_characters(line, where.end_column) - indent, stop)
    padding = "".join(map(_blank, text[:start]))
    marked = "".join(map(_blank, text[start:stop])).replace("\t", " ")
    caret = "^" + "~" * (len(marked) - 1)
    return f"  {where}\n    {text}\n    {padding}{caret}"


def _characters(line: str, column: int) -> int:
    """The number of characters in the first ``column`` bytes of a line."""
    return len(line.encode()[:column].decode(errors="replace"))


def _blank(character: str) -> str:
    """White space as wide as the character is in a terminal."""
    if character == "\t":
        return "\t"
    return "  " if unicodedata.east_asian_width(character) in "WF" else " "
