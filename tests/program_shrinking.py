"""Programs as trees of lines, and how a failing one is made small."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

__all__ = ["Line", "render", "shrink"]


@dataclass(frozen=True, slots=True)
class Line:
    """A statement; a compound one has a body, and its text ends with a colon.

    A line with ``kept`` stays as long as its block does: without it a loop would not end.
    """

    text: str
    body: tuple[Line, ...] = ()
    kept: bool = False


Lines = tuple[Line, ...]


def render(lines: Lines, indent: str = "    ") -> str:
    """The source of a block."""
    text = ""
    for line in lines:
        text += f"{indent}{line.text}\n{render(line.body, indent + '    ')}"
    return text


def shrink(lines: Lines, still_fails: Callable[[Lines], bool], seconds: float = 20) -> Lines:
    """A smaller program that still fails: lines are left out, blocks replaced by their bodies.

    Parameters
    ----------
    lines : tuple of Line
    still_fails : callable
        Whether a candidate, which may not even compile, fails as the original does.
    seconds : float
        When to stop trying.
    """
    end = time.monotonic() + seconds
    improved = True
    while improved:
        improved = False
        for candidate in _smaller(lines):
            if time.monotonic() > end:
                return lines
            if still_fails(candidate):
                lines, improved = candidate, True
                break
    return lines


def _smaller(lines: Lines) -> Iterator[Lines]:
    for number, line in enumerate(lines):
        if line.kept:
            continue
        before, after = lines[:number], lines[number + 1 :]
        yield before + after
        if line.body:
            yield before + line.body + after
            for body in _smaller(line.body):
                if body:
                    yield (*before, Line(line.text, body), *after)
