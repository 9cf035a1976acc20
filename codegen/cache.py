"""Object code on disk: what one process has compiled, the next one loads.

A file holds one module and is named by a hash of all that its code depends on, so an entry is never
out of date: text that would be compiled in another way has another name.  A file begins with a
checksum of its name and the rest, so that what belongs under another name counts as damaged.
Files are written under another name and then renamed, so that no reader
sees half of one; what is damaged all the same is compiled anew and replaced.  Beside the modules
lie plans (``jitcore.execution.stored_plans``), which say what a module is the code of, in the same
form.

Machine code is only loaded from files of a folder that nobody but this user can write to.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from jitcore.ir.dataclass import dataclass

__all__ = ["ObjectCache", "StoredObject", "current", "default_directory"]

_MAGIC: Final = b"jitcore3"
_CHECKSUM: Final = 32
_COUNTS: Final = struct.Struct("<III")
_LENGTH: Final = struct.Struct("<I")
_SUFFIX: Final = ".object"
_PLAN: Final = ".plan"
_UNFINISHED: Final = ".part"

_DEFAULT_LIMIT: Final = 512
"""Megabytes."""

_KEPT: Final = 0.75
"""The part of the limit that is left after old files were removed."""

_HOUR: Final = 3600.0


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One compiled module.

    Parameters
    ----------
    objects : tuple of bytes
        Relocatable object files.
    symbols : tuple of str
        What they define for others.
    required : tuple of str
        The functions of this process that they call.
    """

    objects: tuple[bytes, ...]
    symbols: tuple[str, ...]
    required: tuple[str, ...]

    def to_bytes(self) -> bytes:
        """What a file holds."""
        symbols, required = ("\n".join(names).encode() for names in (self.symbols, self.required))
        counts = _COUNTS.pack(len(symbols), len(required), len(self.objects))
        lengths = [_LENGTH.pack(len(one)) for one in self.objects]
        return b"".join([counts, *lengths, symbols, required, *self.objects])

    @staticmethod
    def from_bytes(held: bytes) -> StoredObject | None:
        """The module in a file that holds this, or None where that is none."""
        if len(held) < _COUNTS.size:
            return None
        *names, objects = _COUNTS.unpack_from(held)
        start = _COUNTS.size + objects * _LENGTH.size
        if len(held) < start:
            return None
        lengths = [one for (one,) in _LENGTH.iter_unpack(held[_COUNTS.size : start])]
        parts: list[bytes] = []
        for length in (*names, *lengths):
            parts.append(held[start : start + length])
            start += length
        symbols, required, *found = parts
        return StoredObject(tuple(found), _names(symbols), _names(required))


def _checked(name: str, held: bytes) -> bytes:
    """The contents of the file of a name, with what shows damage before what it holds."""
    return b"".join([_MAGIC, _checksum(name, held), held])


def _unchecked(name: str, contents: bytes) -> bytes | None:
    """What ``_checked`` was given, or None where a file is damaged, or another one's."""
    start = len(_MAGIC) + _CHECKSUM
    held = contents[start:]
    if len(contents) < start or not contents.startswith(_MAGIC):
        return None
    return held if _checksum(name, held) == contents[len(_MAGIC) : start] else None


def _checksum(name: str, held: bytes) -> bytes:
    return hashlib.sha256(b"\0".join([name.encode(), held])).digest()


def _names(text: bytes) -> tuple[str, ...]:
    return tuple(text.decode().split("\n")) if text else ()


class ObjectCache:
    """The files of one folder.

    Nothing here raises because of what the folder is or holds: where it cannot be read, nothing is
    found, and where it cannot be written, nothing is kept.

    Parameters
    ----------
    directory : Path
        Made when the first file is stored.
    limit : int
        How many bytes all files may have together; the least recently used are removed.
    """

    def __init__(self, directory: Path, limit: int) -> None:
        self.directory = directory
        self.limit = limit
        self._size: int | None = None

    def load(self, key: str) -> StoredObject | None:
        """The module of this key, or None."""
        held = self._read(self._path(key))
        return None if held is None else StoredObject.from_bytes(held)

    def store(self, key: str, module: StoredObject) -> None:
        """Keep a module under this key."""
        self._write(self._path(key), module.to_bytes())

    def load_plan(self, key: str) -> bytes | None:
        """The plan of this key, or None."""
        return self._read(self._path(key, _PLAN))

    def store_plan(self, key: str, plan: bytes) -> None:
        """Keep a plan under this key."""
        self._write(self._path(key, _PLAN), plan)

    def _read(self, path: Path) -> bytes | None:
        try:
            # Who opens a pipe would wait until somebody writes to it.
            with open(path, "rb", opener=_opened_at_once) as file:
                status = os.fstat(file.fileno())
                if not (self.is_private() and _is_own(status) and stat.S_ISREG(status.st_mode)):
                    return None
                contents = file.read()
        except OSError:
            return None
        _note_use(path, status.st_mtime)
        return _unchecked(path.name, contents)

    def _write(self, path: Path, held: bytes) -> None:
        contents = _checked(path.name, held)
        unfinished = path.with_name(f"{path.stem}.{os.urandom(8).hex()}{_UNFINISHED}")
        try:
            if not self.is_private():
                self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                if not self.is_private():
                    return
            try:
                descriptor = os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
                with os.fdopen(descriptor, "wb") as file:
                    file.write(contents)
                unfinished.replace(path)
            except BaseException:
                unfinished.unlink(missing_ok=True)
                raise
        except OSError:
            return
        self._keep_limit(len(contents))

    def is_private(self) -> bool:
        """Whether the folder exists and nobody else can put files there."""
        try:
            found = self.directory.stat()
        except OSError:
            return False
        return _is_own(found) and stat.S_ISDIR(found.st_mode)

    def files(self) -> list[tuple[Path, os.stat_result]]:
        """All modules and plans, those used last at the end."""
        found = self._entries((_SUFFIX, _PLAN))
        return sorted(found, key=lambda one: (one[1].st_mtime, one[0].name))

    def size(self) -> int:
        """The bytes of all modules and plans."""
        return sum(status.st_size for _, status in self.files())

    def clear(self) -> int:
        """Remove all files, those too that writers who were killed have left; counts modules."""
        removed = [path for path, _ in self.files() if _remove(path)]
        self._remove_unfinished(age=0.0)
        self._size = None
        return sum(path.suffix == _SUFFIX for path in removed)

    def count(self) -> int:
        """The number of modules."""
        return len(self._entries((_SUFFIX,)))

    def _path(self, key: str, suffix: str = _SUFFIX) -> Path:
        return self.directory / f"{key}{suffix}"

    def _entries(self, suffix: tuple[str, ...]) -> list[tuple[Path, os.stat_result]]:
        try:
            with os.scandir(self.directory) as found:
                names = [one.name for one in found if one.name.endswith(suffix)]
        except OSError:
            return []
        paths = [self.directory / name for name in names]
        statuses = [(path, _status(path)) for path in paths]
        return [(path, status) for path, status in statuses if status is not None]

    def _keep_limit(self, added: int) -> None:
        """Remove the modules that were used least recently, where there are too many bytes."""
        if self._size is None:
            self._size = self.size()
            self._remove_unfinished(age=_HOUR)
        else:
            self._size += added
        if self._size <= self.limit:
            return
        files = self.files()
        self._size = sum(status.st_size for _, status in files)
        for path, status in files:
            if self._size <= self.limit * _KEPT:
                break
            if _remove(path):
                self._size -= status.st_size

    def _remove_unfinished(self, age: float) -> None:
        for path, status in self._entries((_UNFINISHED,)):
            if time.time() - status.st_mtime >= age:
                _remove(path)


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True


def _is_own(status: os.stat_result) -> bool:
    """Whether this user owns it and no other can write to it."""
    if sys.platform == "win32":
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _opened_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _note_use(path: Path, noted: float) -> None:
    """Note in a file's time that it was used, but not at each use.

    Where that cannot be written, what the file holds is right all the same.
    """
    if time.time() - noted > _HOUR:
        with suppress(OSError):
            os.utime(path)


def default_directory() -> Path:
    """Where the platform keeps caches of this user.

    Raises
    ------
    RuntimeError
        The user has no home.
    """
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return (Path(base) if base else Path.home() / "AppData" / "Local") / "jitcore" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "jitcore"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache") / "jitcore"


def current() -> ObjectCache | None:
    """The cache that the environment asks for.

    ``JITCORE_CACHE_DIR`` is the folder, ``JITCORE_CACHE_SIZE`` the limit in megabytes, and with
    ``JITCORE_CACHE=0`` there is none.

    Raises
    ------
    ValueError
        The limit is no positive number.
    """
    if os.environ.get("JITCORE_CACHE", "1") == "0":
        return None
    asked = (os.environ.get("JITCORE_CACHE_DIR"), os.environ.get("JITCORE_CACHE_SIZE"))
    if asked not in _CACHES:
        _CACHES[asked] = _make(*asked)
    return _CACHES[asked]


_CACHES: dict[tuple[str | None, str | None], ObjectCache | None] = {}


def _make(folder: str | None, limit: str | None) -> ObjectCache | None:
    megabytes = _DEFAULT_LIMIT if limit is None else _positive(limit)
    try:
        directory = Path(folder) if folder else default_directory()
    except RuntimeError:
        return None
    return ObjectCache(directory / "objects", megabytes * 2**20)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise ValueError(f"JITCORE_CACHE_SIZE is a positive number of megabytes; found {text!r}")
    return int(text)
