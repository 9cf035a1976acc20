"""Where in the user's source a node is recorded, and the variable its result is assigned to."""

from __future__ import annotations

import contextlib
import dis
import itertools
import os
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType

import numpy as np

from jitcore.frontend import is_library
from jitcore.ir.graph import SourceRange

__all__ = [
    "calling_frame",
    "is_in_subscript",
    "is_of_compiler",
    "names_assigned",
    "place_of",
    "user_place",
]

_TRACING = os.path.join(Path(__file__).parent, "")
_JITCORE = os.path.join(Path(__file__).parents[1], "")
_LAYERS = os.path.join(_JITCORE, "nn", "")
_NUMPY = os.path.join(Path(np.__file__).parent, "")


def is_of_compiler(file: str) -> bool:
    """Whether a file is one of jitcore's own, other than those of layers."""
    return file.startswith(_JITCORE) and not file.startswith(_LAYERS)


def calling_frame() -> FrameType | None:
    """The frame that runs the operation being recorded: neither the tracer's nor NumPy's."""
    return next(_frames((_TRACING, _NUMPY)), None)


def user_place() -> SourceRange | None:
    """The line of the user's own that is running."""
    frames = list(_frames((_JITCORE, _NUMPY, contextlib.__file__)))
    own = (frame for frame in frames if not is_library(frame.f_code.co_filename))
    return next(map(place_of, itertools.chain(own, frames)), None)


def _frames(left_out: tuple[str, ...]) -> Iterator[FrameType]:
    """The frames that are running, the innermost first, but for those of some files."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(left_out):
            yield frame
        frame = frame.f_back


def place_of(frame: FrameType) -> SourceRange:
    """The source of the instruction that a frame is at."""
    code = frame.f_code
    line, end_line, column, end_column = _positions(code)[frame.f_lasti // 2]
    return SourceRange(
        code.co_filename,
        line or frame.f_lineno,
        column or 0,
        end_line or line or frame.f_lineno,
        end_column or 0,
    )


@lru_cache(maxsize=256)
def _positions(
    code: CodeType,
) -> tuple[tuple[int | None, int | None, int | None, int | None], ...]:
    return tuple(code.co_positions())


_STORES = ("STORE_FAST", "STORE_DEREF", "STORE_NAME", "STORE_GLOBAL")


def names_assigned(frame: FrameType) -> tuple[str, ...]:
    """The variables that take what the current instruction gives, several for ``a, b = ...``."""
    return _assigned_after(frame.f_code).get(frame.f_lasti, ())


@lru_cache(maxsize=256)
def _assigned_after(code: CodeType) -> dict[int, tuple[str, ...]]:
    instructions = list(dis.get_instructions(code))
    found: dict[int, tuple[str, ...]] = {}
    for number, one in enumerate(instructions[:-1]):
        following = instructions[number + 1]
        if one.opname == "PRECALL" and number + 2 < len(instructions):
            # CPython 3.11 may make the call here already.
            number, following = number + 1, instructions[number + 2]
        stores = instructions[number + 1 : number + 2]
        if following.opname == "UNPACK_SEQUENCE":
            stores = instructions[number + 2 : number + 2 + following.argval]
        if all(store.opname in _STORES for store in stores):
            names = tuple(str(store.argval) for store in stores)
            # A frame that has called another one is at the end of the instruction's cache.
            found |= dict.fromkeys(range(one.offset, following.offset, 2), names)
    return found


def is_in_subscript(frame: FrameType) -> bool:
    """Whether the current instruction is the operator of ``x[i] += y``."""
    return frame.f_lasti in _before_subscript_stores(frame.f_code)


@lru_cache(maxsize=256)
def _before_subscript_stores(code: CodeType) -> frozenset[int]:
    instructions = list(dis.get_instructions(code))
    found = set()
    for number, one in enumerate(instructions):
        following = [i.opname for i in instructions[number + 1 : number + 5]]
        rest = list(itertools.dropwhile(lambda name: name == "SWAP", following))
        if one.opname != "SWAP" and rest != following and rest[:1] in _SUBSCRIPT_STORES:
            found.add(one.offset)
    return frozenset(found)


_SUBSCRIPT_STORES = (["STORE_SUBSCR"], ["STORE_SLICE"])
