"""The container of saved programs: a zip file whose entries are known by size and hash.

Entries are stored, never compressed, so that no archive is larger in memory than it is as a file.
The same entries always give the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from jitcore import __version__
from jitcore.errors import SerializationError
from jitcore.ir.dataclass import dataclass
from jitcore.serialization.fields import Fields, parse_json

__all__ = [
    "FORMAT_VERSION",
    "Archive",
    "FileLike",
    "pack",
    "read_file",
    "unpack",
    "write_file",
]

FORMAT_VERSION = 1
"""Changes when an older jitcore could misread an archive; all older versions stay readable."""

FORMAT = "jitcore program"
MANIFEST = "manifest.json"
MAX_ENTRIES = 100_000
MAX_MANIFEST = 64 * 2**20

FileLike = str | os.PathLike[str] | IO[bytes]

_DATE = (1980, 1, 1, 0, 0, 0)
_UTF8_NAMES = 0x800
_DAMAGED = (
    zipfile.BadZipFile,
    EOFError,
    KeyError,
    NotImplementedError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
    struct.error,
)
"""What ``zipfile`` raises for files that are none, or are damaged."""


@dataclass(frozen=True, slots=True)
class Archive:
    """The entries of an archive whose sizes and hashes are right.

    Parameters
    ----------
    version : int
        Of the format.
    written_by : str
        The program that wrote it, for reports.
    entries : mapping of str to bytes
        Without the manifest.
    """

    version: int
    written_by: str
    entries: Mapping[str, bytes]

    def text(self, name: str) -> str:
        """An entry as text."""
        try:
            return self.bytes(name).decode("utf-8")
        except UnicodeDecodeError as error:
            raise SerializationError(f"'{name}' in the archive is not UTF-8 text") from error

    def bytes(self, name: str) -> bytes:
        """An entry as it is."""
        if name not in self.entries:
            raise SerializationError(f"the archive has no entry '{name}'")
        return self.entries[name]


def pack(entries: Mapping[str, bytes]) -> bytes:
    """The bytes of an archive with these entries.

    Raises
    ------
    SerializationError
        A name is not one that every system can store.
    """
    described = {name: _described(data) for name, data in sorted(entries.items())}
    manifest = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "written_by": f"jitcore {__version__}",
        "entries": described,
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
        _write_entry(file, MANIFEST, json.dumps(manifest, indent=1).encode())
        for name, data in sorted(entries.items()):
            _write_entry(file, name, data)
    return buffer.getvalue()


def _described(data: bytes) -> dict[str, Any]:
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _write_entry(file: zipfile.ZipFile, name: str, data: bytes) -> None:
    _check_name(name)
    entry = zipfile.ZipInfo(name, _DATE)
    entry.create_system = 3
    entry.external_attr = 0o644 << 16
    file.writestr(entry, data)


def _check_name(name: str) -> None:
    parts = name.split("/")
    plain = name.isprintable() and not any(sign in name for sign in '\\:*?"<>|')
    if not plain or any(part.strip(". ") == "" for part in parts) or len(name) > 500:
        raise SerializationError(
            f"{name!r} is not a name for an entry of an archive; expected a relative path such as "
            "'labels.txt'"
        )


def unpack(data: bytes) -> Archive:
    """Check an archive and give its entries.

    Raises
    ------
    SerializationError
        It is not a whole archive that jitcore wrote, or a newer jitcore did.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            return _unpacked(file, len(data))
    except SerializationError:
        raise
    except _DAMAGED as error:
        raise SerializationError(f"this is not an archive of jitcore: {error}") from error


def _unpacked(file: zipfile.ZipFile, size: int) -> Archive:
    infos = file.infolist()
    if len(infos) > MAX_ENTRIES:
        raise SerializationError(f"the archive has {len(infos)} entries; {MAX_ENTRIES} are allowed")
    by_name = {info.filename: info for info in infos}
    if len(by_name) < len(infos):
        raise SerializationError("two entries of the archive have the same name")
    if MANIFEST not in by_name:
        raise SerializationError(f"this is not an archive of jitcore: it has no {MANIFEST}")
    _check_entries(infos, size)
    if by_name[MANIFEST].file_size > MAX_MANIFEST:
        raise SerializationError("the archive's manifest is too large")
    manifest = Fields(parse_json(file.read(MANIFEST), MANIFEST), MANIFEST)
    if manifest.text("format") != FORMAT:
        raise SerializationError(f"this is not an archive of jitcore: {manifest.text('format')!r}")
    version = manifest.integer("version")
    if version > FORMAT_VERSION:
        raise SerializationError(
            f"the archive has version {version} of the format, and this jitcore reads versions up "
            f"to {FORMAT_VERSION}; load it with the jitcore that wrote it, or a newer one "
            f"({manifest.text('written_by')})"
        )
    described = manifest.mapping("entries")
    if described.keys() != by_name.keys() - {MANIFEST}:
        raise SerializationError("the archive's entries are not those in its manifest")
    entries = {name: file.read(name) for name in described}
    for name, found in entries.items():
        if described[name] != _described(found):
            raise SerializationError(f"'{name}' in the archive is damaged: its hash is another")
    return Archive(version, manifest.text("written_by"), entries)


def _check_entries(infos: list[zipfile.ZipInfo], size: int) -> None:
    for info in infos:
        _check_name(info.filename)
        plain = info.compress_type == zipfile.ZIP_STORED and info.file_size == info.compress_size
        if not plain or info.flag_bits & ~_UTF8_NAMES:
            raise SerializationError(
                f"'{info.filename}' in the archive is compressed or encrypted; "
                "jitcore stores entries as they are"
            )
    if sum(info.file_size for info in infos) > size:
        raise SerializationError("the archive's entries overlap: they are larger than the file")


def read_file(file: FileLike) -> bytes:
    """All bytes of a file or of a file-like object.

    Raises
    ------
    SerializationError
        It does not exist, cannot be read, or does not give bytes.
    """
    if not isinstance(file, str | os.PathLike):
        data = file.read() if hasattr(file, "read") else None
        if not isinstance(data, bytes):
            raise SerializationError(f"expected a path or a file opened in binary mode: {file!r}")
        return data
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise SerializationError(f"cannot read {os.fspath(file)!r}: {error}") from error


def write_file(file: FileLike, data: bytes) -> None:
    """Write to a file, which is either replaced as a whole or left alone, or to an object.

    Raises
    ------
    SerializationError
        It cannot be written.
    """
    if not isinstance(file, str | os.PathLike):
        if not hasattr(file, "write"):
            raise SerializationError(f"expected a path or a file opened in binary mode: {file!r}")
        file.write(data)
        return
    path = Path(file)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        try:
            with open(temporary, "xb") as opened:
                opened.write(data)
                opened.flush()
                os.fsync(opened.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise SerializationError(f"cannot write {os.fspath(file)!r}: {error}") from error
