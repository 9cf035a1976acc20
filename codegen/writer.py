"""An indenting line writer for the printers that make Python source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Writer", "one_line"]


def one_line(text: str) -> str:
    """The text on one line without control characters, fit for a comment in any language."""
    if text.isprintable():
        return text.strip()
    return "".join(char if char.isprintable() else " " for char in text).strip()


class Writer:
    """Collects lines at the current depth of indentation."""

    def __init__(self, indentation: str = "    ") -> None:
        self._indentation = indentation
        self._prefix = ""
        self._lines: list[str] = []

    def line(self, text: str = "") -> None:
        """Append one line; an empty one stays empty."""
        self._lines.append(self._prefix + text if text else "")

    def comment(self, text: str) -> None:
        """Append a ``#`` comment, one line for every line of ``text``."""
        for part in text.splitlines():
            self.line(f"# {one_line(part)}".rstrip())

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Append ``header`` and indent what is written inside the ``with`` statement."""
        self.line(header)
        outer = self._prefix
        self._prefix = outer + self._indentation
        try:
            yield
        finally:
            self._prefix = outer

    def text(self) -> str:
        """Everything written so far, ending in a newline."""
        return "\n".join(self._lines) + "\n" if self._lines else ""
