"""Values that have an exact text of their own, in graphs and in the table of objects."""

from __future__ import annotations

from types import EllipsisType, NoneType
from typing import Any

import numpy as np

from jitcore.errors import SerializationError
from jitcore.ir.literals import format_literal, parse_literal
from jitcore.ir.scanner import ParseError, Scanner

__all__ = ["is_literal", "literal_text", "read_literal"]

_ATOMS = (NoneType, EllipsisType, bool, int, float, complex, str, bytes)


def is_literal(value: Any) -> bool:
    """Whether a value is a number, a text, a dtype or the like, or a tuple of these."""
    kind = type(value)
    if kind in _ATOMS:
        return True
    if kind in (tuple, frozenset):
        return all(map(is_literal, value))
    if kind in (slice, range):
        return all(map(is_literal, (value.start, value.stop, value.step)))
    if isinstance(value, np.dtype):
        return not value.hasobject
    return isinstance(value, np.generic) and not value.dtype.hasobject


def literal_text(value: Any) -> str:
    """The text of a literal."""
    return format_literal(value)


def read_literal(text: str) -> Any:
    """The literal of a text.

    Raises
    ------
    SerializationError
        The text is not that of a literal.
    """
    scanner = Scanner(text)
    try:
        value = parse_literal(scanner)
        whole = scanner.at_end
    except (ParseError, ValueError, TypeError, OverflowError, RecursionError, MemoryError) as error:
        raise SerializationError(f"a value in the archive is no literal: {error}") from error
    if not whole or not is_literal(value):
        raise SerializationError(f"a value in the archive is no literal: {text[:80]!r}")
    return value
