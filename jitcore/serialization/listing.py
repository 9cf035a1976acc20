"""What an archive shows to people: the code of its methods, as Python source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jitcore.frontend.layers import script_state
from jitcore.script import ScriptFunction

__all__ = ["code_entries"]

_HEADER = "# For reading; jitcore reads the graphs, and never this file.\n\n"


def code_entries(obj: Any) -> dict[str, bytes]:
    """One readable file for each compiled method, by its name in the archive."""
    return {
        f"code/{name or 'function'}.py": (_HEADER + function.code).encode()
        for name, function in _functions(obj)
    }


def _functions(obj: Any) -> Iterator[tuple[str, ScriptFunction]]:
    if isinstance(obj, ScriptFunction):
        yield _file_name(obj.__name__), obj
        return
    for path, module in obj.named_modules():
        compiled = script_state(module, "_compiled_methods") or {}  # a plain one may be inside
        for name, function in compiled.items():
            yield _file_name(f"{path}.{name}" if path else name), function


def _file_name(name: str) -> str:
    return "".join(sign if sign.isalnum() or sign in "._" else "_" for sign in name).strip(".")
