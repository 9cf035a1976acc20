"""Per-pass logs and dumps, turned on by the environment.

``JITCORE_LOG`` names channels and levels as ``PYTORCH_JIT_LOG_LEVEL`` does: ``dce`` logs the graph
before and after the pass, ``>dce`` its updates as well, ``>>dce`` everything.  Channels are
separated by colons; ``*`` stands for all of them.  ``JITCORE_DUMP=folder`` writes every stage to a
numbered file.  Both are read when something is to be logged, so they may change at run time.
"""

from __future__ import annotations

import itertools
import os
import re
import sys
import threading
from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

__all__ = ["Level", "debug", "dump", "enabled", "graph_dump", "update"]

_NOT_IN_FILES = re.compile(r"[^\w.-]+")
_PARTS = re.compile(r"(>*)(.+)")
_numbers = itertools.count()
_lock = threading.Lock()

Text = str | Callable[[], str]
"""A message, or what makes it; the latter is called only where the message is wanted."""


class Level(IntEnum):
    """How much a channel says."""

    DUMP = 1
    UPDATE = 2
    DEBUG = 3


@lru_cache(maxsize=16)
def _parse(setting: str) -> Mapping[str, int]:
    """The level of each channel in a setting such as ``"dce:>fusion:>>lower"``."""
    levels: dict[str, int] = {}
    for part in setting.split(":"):
        match = _PARTS.fullmatch(part.strip())
        if match is not None:
            levels[match[2].strip()] = min(1 + len(match[1]), Level.DEBUG)
    return MappingProxyType(levels)


def enabled(channel: str, level: Level = Level.DUMP) -> bool:
    """Whether messages of this level are wanted from this channel now."""
    setting = os.environ.get("JITCORE_LOG", "")
    if not setting:
        return False
    levels = _parse(setting)
    return levels.get(channel, levels.get("*", 0)) >= level


def _write(channel: str, level: Level, text: Text) -> None:
    if not enabled(channel, level):
        return
    prefix = f"[{level.name} {channel}] "
    lines = (text if isinstance(text, str) else text()).splitlines()
    message = "".join(f"{prefix}{line}\n" for line in lines)
    with _lock:
        sys.stderr.write(message)


def graph_dump(channel: str, title: str, text: Text) -> None:
    """Log a whole graph, under a title, at the level of plain ``channel``."""
    _write(
        channel,
        Level.DUMP,
        lambda: f"{title}\n{text if isinstance(text, str) else text()}",
    )


def update(channel: str, text: Text) -> None:
    """Log one change to a graph, at the level of ``>channel``."""
    _write(channel, Level.UPDATE, text)


def debug(channel: str, text: Text) -> None:
    """Log what explains a decision, at the level of ``>>channel``."""
    _write(channel, Level.DEBUG, text)


def dump(stage: str, text: Text, suffix: str = ".txt") -> Path | None:
    """Write a stage's text to a numbered file in the folder that ``JITCORE_DUMP`` names.

    Parameters
    ----------
    stage : str
        Part of the file's name: ``0007_fusion.txt``.
    text : str or callable
        The contents, or what makes them.
    suffix : str
        The end of the file's name.

    Returns
    -------
    Path or None
        The file; None where the variable is not set.
    """
    setting = os.environ.get("JITCORE_DUMP", "")
    if not setting:
        return None
    folder = Path(setting)
    folder.mkdir(parents=True, exist_ok=True)
    name = _NOT_IN_FILES.sub("_", stage)
    path = folder / f"{next(_numbers):04d}_{name}{suffix}"
    path.write_text(text if isinstance(text, str) else text(), encoding="utf-8")
    return path
