"""Python source in small pieces: expressions with their precedence, identifiers, docstrings."""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Callable
from enum import IntEnum

from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import SourceRange

__all__ = [
    "PlaceComment",
    "Precedence",
    "Text",
    "docstring",
    "identifier",
    "is_identifier",
]

PlaceComment = Callable[[SourceRange], str]
"""Gives what a comment says about a place in the user's source."""


class Precedence(IntEnum):
    """How tightly the operator of an expression binds, as in Python's reference manual (6.17)."""

    CONDITIONAL = 1
    OR = 2
    AND = 3
    NOT = 4
    COMPARISON = 5
    BIT_OR = 6
    BIT_XOR = 7
    BIT_AND = 8
    SHIFT = 9
    SUM = 10
    PRODUCT = 11
    UNARY = 12
    POWER = 13
    LITERAL = 14
    """A display or a number: complete in itself, but not to be called or subscripted."""
    PRIMARY = 15


@dataclass(frozen=True, slots=True)
class Text:
    """An expression and the precedence of its outermost operator."""

    text: str
    precedence: Precedence = Precedence.PRIMARY

    def at(self, least: Precedence) -> str:
        """The text for a place that needs this precedence, in parentheses if it has less."""
        return self.text if self.precedence >= least else f"({self.text})"


_NOT_IN_WORDS = re.compile(r"\W+")


def is_identifier(name: str) -> bool:
    """Whether Python reads this text as a name, and as this very name."""
    return (
        name.isidentifier()
        and not keyword.iskeyword(name)
        and name != "__debug__"
        and unicodedata.normalize("NFKC", name) == name
    )


def identifier(name: str, default: str) -> str:
    """A valid identifier like ``name``: ``x_1`` for ``x.1``; ``t7`` for ``7``, by default ``t``."""
    word = _NOT_IN_WORDS.sub("_", unicodedata.normalize("NFKC", name))
    if word[:1].isdecimal():
        word = f"{default}{word}"
    for candidate in (word, f"{word}_"):
        if word and is_identifier(candidate):
            return candidate
    return default


def docstring(text: str) -> str:
    """A string literal for a function's docstring, over several lines where the text has some."""
    if not all(char.isprintable() or char == "\n" for char in text):
        return repr(text)
    escaped = text.replace("\\", "\\\\")
    if '"""' in text or text.endswith('"'):
        escaped = escaped.replace('"', '\\"')
    return f'"""{escaped}"""'
