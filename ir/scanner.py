"""A cursor over the IR's text, with errors that say where and what was expected."""

from __future__ import annotations

import re
from typing import NoReturn

__all__ = ["ParseError", "Scanner"]

_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_FOUND = re.compile(r"%?[\w.]+|\S")


class ParseError(ValueError):
    """Text that is not in the IR's form.

    Attributes
    ----------
    line, column : int
        Where the text goes wrong, both counted from 1.
    expected : str
        What would have been right there.
    """

    def __init__(self, text: str, position: int, expected: str) -> None:
        self.line = text.count("\n", 0, position) + 1
        start = text.rfind("\n", 0, position) + 1
        end = text.find("\n", position)
        self.column = position - start + 1
        self.expected = expected
        source_line = text[start : end if end >= 0 else len(text)]
        match = _FOUND.match(text, position)
        found = f"'{match[0]}'" if match else "the end of the line"
        if position >= len(text):
            found = "the end of the text"
        caret = " " * (self.column - 1) + "^"
        super().__init__(
            f"line {self.line}, column {self.column}: expected {expected}, found {found}\n"
            f"{source_line}\n{caret}"
        )


class Scanner:
    """Reads tokens by regular expression; blanks and comments between them mean nothing."""

    __slots__ = ("position", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def fail(self, expected: str, position: int | None = None) -> NoReturn:
        """Raise a ``ParseError`` at ``position`` (by default at the next token)."""
        if position is None:
            self.skip()
            position = self.position
        raise ParseError(self.text, position, expected)

    def skip(self) -> None:
        """Move over blanks and comments."""
        match = _BLANK.match(self.text, self.position)
        assert match is not None
        self.position = match.end()

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Read what the pattern matches at the next token, or read nothing."""
        self.skip()
        match = pattern.match(self.text, self.position)
        if match is not None:
            self.position = match.end()
        return match

    def require(self, pattern: re.Pattern[str], expected: str) -> re.Match[str]:
        """Read what the pattern matches; an error where it does not match."""
        match = self.match(pattern)
        if match is None:
            self.fail(expected)
        return match

    def accept(self, token: str) -> bool:
        """Read this token if it comes next."""
        self.skip()
        if self.text.startswith(token, self.position):
            self.position += len(token)
            return True
        return False

    def expect(self, token: str) -> None:
        """Read this token; an error where another one comes next."""
        if not self.accept(token):
            self.fail(f"'{token}'")

    @property
    def at_end(self) -> bool:
        """Whether nothing but blanks and comments is left."""
        self.skip()
        return self.position == len(self.text)
