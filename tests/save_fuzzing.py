"""Damages archives at random, as files and, with true hashes, in what they hold."""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

import saving

import jitcore
from jitcore.serialization.inspection import inspect_file

__all__ = ["damaged_bytes", "damaged_entries", "outcome", "paths_in", "replaced"]

_STRANGE: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    3,
    2**70,
    1.5,
    "",
    "x",
    "1e999",
    "f():\n  pass\n#",
    [],
    [[]],
    {},
    {"kind": "list", "items": [0]},
)
_WORDS = re.compile(rb"[\w.]+|\S")


def outcome(data: bytes) -> str:
    """What loading gives: ``"refused"``, or ``"loaded"`` for a whole program."""
    with contextlib.suppress(jitcore.SerializationError):
        assert inspect_file(io.BytesIO(data))
    try:
        loaded = jitcore.load(io.BytesIO(data))
    except jitcore.SerializationError:
        return "refused"
    for function in [loaded] if hasattr(loaded, "__wrapped__") else _methods(loaded):
        assert compile(function.code, "<code>", "exec") and str(function.graph)
    return "loaded"


def _methods(module: Any) -> Iterator[Any]:
    for one in module.modules():
        yield from one._compiled_methods.values()


def damaged_bytes(data: bytes, chance: random.Random) -> bytes:
    """The archive with some bytes changed, cut out, doubled or taken from elsewhere in it."""
    made = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 3, 10))):
        at = chance.randrange(max(len(made), 1))
        made = made or bytearray(1)
        match chance.randrange(5):
            case 0:
                made[at] ^= 1 << chance.randrange(8)
            case 1:
                made[at] = chance.randrange(256)
            case 2:
                del made[at : at + chance.choice((1, 4, 100))]
            case 3:
                made[at:at] = made[at : at + chance.choice((1, 8, 64))]
            case _:
                del made[max(at, 1) :]
    return bytes(made) or b"\0"


def damaged_entries(data: bytes, chance: random.Random) -> bytes:
    """The archive with one of its entries changed, and hashes that are true."""
    entries = saving.entries_of(data)
    names = [name for name in entries if name.endswith((".json", ".ir", ".npy"))]
    name = chance.choice([one for one in names if one != saving.MANIFEST])
    if name.endswith(".json"):
        program = json.loads(entries[name])
        for _ in range(chance.choice((1, 1, 2, 4))):
            path = chance.choice(list(paths_in(program)))
            program = replaced(program, path, chance.choice(_STRANGE))
        entries[name] = json.dumps(program).encode()
    elif name.endswith(".ir"):
        entries[name] = _damaged_text(entries[name], chance)
    else:
        entries[name] = damaged_bytes(entries[name], chance)
    return saving.rebuilt(entries)


def _damaged_text(text: bytes, chance: random.Random) -> bytes:
    words = [(one.start(), one.end()) for one in _WORDS.finditer(text)]
    for _ in range(chance.choice((1, 1, 2, 4))):
        start, end = chance.choice(words)
        other = chance.choice(words)
        match chance.randrange(4):
            case 0:
                text = text[:start] + text[other[0] : other[1]] + text[end:]
            case 1:
                text = text[:start] + text[end:]
            case 2:
                text = text[:end] + b" " + text[other[0] : other[1]] + text[end:]
            case _:
                lines = text.split(b"\n")
                chosen = chance.randrange(len(lines))
                lines.insert(chance.randrange(len(lines)), lines.pop(chosen))
                text = b"\n".join(lines)
        words = [(one.start(), one.end()) for one in _WORDS.finditer(text)] or [(0, 0)]
    return text


Path = tuple[str | int, ...]


def paths_in(value: Any, path: Path = ()) -> Iterator[Path]:
    """Where the values inside a JSON value are."""
    inside: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        inside = list(value.items())
    elif isinstance(value, list):
        inside = list(enumerate(value))
    for key, one in inside:
        yield (*path, key)
        yield from paths_in(one, (*path, key))


def replaced(value: Any, path: Sequence[str | int], new: Any) -> Any:
    """A JSON value with another value in one place; gone where that is not there any more."""
    if not path:
        return new
    key, *rest = path
    copied: Any = dict(value) if isinstance(value, dict) else list(value)
    copied[key] = replaced(copied[key], rest, new)
    return copied
