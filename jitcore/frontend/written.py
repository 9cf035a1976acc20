"""Whether a function still is what its file says, which may have been edited since.

Python keeps the code that it has imported; jitcore reads the file later, when a function is
compiled.  Where somebody has saved the file in between, a line may hold another function of the
same name, or another lambda.
"""

from __future__ import annotations
import __future__

import ast
import os
import time
import warnings
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import CodeType, FunctionType

__all__ = ["FEATURES", "codes", "compiled_quietly", "is_as_written", "is_older_than_process"]

FEATURES = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
"""What of a code's flags says for which ``from __future__ import`` it was compiled."""

_TIME_MARGIN = 2.0
"""Seconds by which the clock of a file's system and that of the process may differ."""


def is_as_written(function: FunctionType, text: str) -> bool:
    """Whether a function is one of those that Python makes of its file's text."""
    code = function.__code__
    return _fresh(code) in _codes_of_text(text, code.co_filename, code.co_flags & FEATURES)


def is_older_than_process(file: str) -> bool:
    """Whether a file was last written before this process began, so that imports saw it as it is.

    What is in no file, such as a notebook's cell, is not edited.
    """
    try:
        status = os.stat(file)
    except OSError:
        return True
    return max(status.st_mtime, status.st_ctime) < _STARTED - _TIME_MARGIN


def _time_of_start() -> float:
    """When this process began, in seconds since the epoch; 0 where the system does not say."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        running = float(Path("/proc/uptime").read_text().split()[0])
        # Field 22 of proc(5), counted from the third.
        return time.time() - running + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0


_STARTED = _time_of_start()
"""Taken when this is imported: the child of a fork has its parent's imports."""


@lru_cache(maxsize=8)
def _codes_of_text(text: str, file: str, flags: int) -> frozenset[CodeType]:
    # Cells of notebooks may wait for something outside of functions.
    flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    return frozenset(map(_fresh, _codes_within(compiled_quietly(text, file, flags))))


def compiled_quietly(text: str | ast.Module, file: str, flags: int) -> CodeType:
    """What Python makes of this; it has warned of it before, where there was something to say."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code: CodeType = compile(text, file, "exec", flags, dont_inherit=True)
    return code


def codes(code: CodeType) -> Iterator[CodeType]:
    """The codes of what is defined right inside of this one."""
    return (one for one in code.co_consts if isinstance(one, CodeType))


def _codes_within(code: CodeType) -> Iterator[CodeType]:
    for one in codes(code):
        yield one
        yield from _codes_within(one)


def _fresh(code: CodeType) -> CodeType:
    """The same code as if it had never run: CPython notes in it what it has met."""
    parts = (_fresh(one) if isinstance(one, CodeType) else one for one in code.co_consts)
    return code.replace(co_consts=tuple(parts))
