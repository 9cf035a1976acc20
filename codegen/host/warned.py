"""``warnings.warn`` of host programs: what it names are lines of the user's.

Python takes the place of a warning, and what has been shown already, from the frames of the stack.
Of these some are host programs', which stand for the user's functions, and some this package's.
"""

from __future__ import annotations

import operator
import sys
import warnings
from types import FrameType
from typing import Any

from jitcore.codegen.host.places import is_generated, is_internal, place_in

__all__ = ["warn"]

_BEYOND = 1 << 30
"""More calls than a stack has."""

_names: dict[str, str] = {}
"""The names of the modules that were read from files."""

_without_module: dict[str, dict[str, Any]] = {}
"""What stands for the variables of files that no module was read from."""


def warn(
    message: Any, category: Any = None, stacklevel: Any = 1, *sources: Any, **options: Any
) -> None:
    """``warnings.warn`` for a caller that is a host program."""
    kind = type(message) if isinstance(message, Warning) else category or UserWarning
    is_kind = isinstance(kind, type) and issubclass(kind, Warning)
    is_known = is_kind and len(sources) + len(options) <= 1 and options.keys() <= {"source"}
    level = operator.index(stacklevel)
    if not is_known or level > sys.maxsize:
        # Python itself says what is wrong; of an option of its own the place is not exact.
        warnings.warn(message, category, level + 1, *sources, **options)
        return
    source = next(iter((*sources, *options.values())), None)
    place = _place_of(sys._getframe(1), max(level, 1))
    if place is None:
        # Python has a name for what is beyond the first call.
        warnings.warn(message, category, _BEYOND, source)
        return
    file, line, namespace = place
    registry = namespace.setdefault("__warningregistry__", {})
    name = namespace.get("__name__") or file.removesuffix(".py")
    warnings.warn_explicit(message, kind, file, line, name, registry, source=source)


def _place_of(frame: FrameType | None, level: int) -> tuple[str, int, dict[str, Any]] | None:
    """File, line and globals of a call on the stack as users see them, the innermost being 1."""
    while frame is not None:
        file, line, namespace = frame.f_code.co_filename, frame.f_lineno, None
        if is_generated(file):
            where = place_in(file, line)
            if where is not None:
                file, line, namespace = where.file, where.line, _globals_of(where.file)
        elif not is_internal(file):
            namespace = frame.f_globals
        level -= namespace is not None
        if namespace is not None and level == 0:
            return file, line, namespace
        frame = frame.f_back
    return None


def _globals_of(file: str) -> dict[str, Any]:
    """The variables of the module that was read from a file; of others one stands for them."""
    if file in _without_module:
        return _without_module[file]
    module = sys.modules.get(_names.get(file, ""))
    if module is None or getattr(module, "__file__", None) != file:
        # All modules are looked at, so only once.
        known = sys.modules.copy().items()
        found = (name for name, one in known if getattr(one, "__file__", None) == file)
        _names[file] = next(found, "")
        module = sys.modules.get(_names[file])
    return vars(module) if module is not None else _without_module.setdefault(file, {})
