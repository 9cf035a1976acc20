"""Which files are no user's."""

from __future__ import annotations

import os
import sysconfig
from functools import cache
from pathlib import Path

__all__ = ["is_library"]


@cache
def is_library(file: str) -> bool:
    """Whether a file is no user's: of Python, of an installed package, or of this compiler.

    The layers and the definitions of operations are like code of users.
    """
    if file.startswith("<frozen "):
        return True
    parts = Path(file).parts
    if parts[: len(_OWN.parts)] == _OWN.parts:
        return parts[len(_OWN.parts)] not in _COMPILED
    return os.path.isabs(file) and file.startswith(_library_folders())


_OWN = Path(__file__).parents[1]
_COMPILED = ("nn", "ir", "demo")


@cache
def _library_folders() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple({os.path.join(sysconfig.get_path(name), "") for name in names})
