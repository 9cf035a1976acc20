"""``save`` and ``load``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jitcore.errors import CompilationError, Error, SerializationError
from jitcore.frontend.constants import is_layer
from jitcore.frontend.layers import script_state
from jitcore.script import ScriptFunction
from jitcore.serialization.archive import FileLike, pack, read_file, unpack, write_file
from jitcore.serialization.listing import code_entries
from jitcore.serialization.reader import Reader
from jitcore.serialization.source_lines import describe_lines
from jitcore.serialization.writer import Writer

__all__ = ["EXTRA", "from_bytes", "load", "save", "to_bytes"]

EXTRA = "extra/"


def save(obj: Any, file: FileLike, _extra_files: Mapping[str, str | bytes] | None = None) -> None:
    """Write a script function or a script module to a file that needs no source to be loaded.

    Parameters
    ----------
    obj : ScriptFunction or ScriptModule
    file : path or file-like
        A file is replaced as a whole, or left alone where something fails; other objects must
        have a ``write`` that takes bytes.
    _extra_files : mapping of str to str or bytes, optional
        Further files for the archive, by name.

    Raises
    ------
    SerializationError
        It is neither, or it needs something that cannot be saved, such as a function marked with
        `ignore`; the message names the object and the line.

    Examples
    --------
    >>> import io
    >>> import numpy as np
    >>> import jitcore
    >>> @jitcore.script
    ... def scaled(x, k=2.0):
    ...     return (x - x.mean()) * k
    >>> file = io.BytesIO()
    >>> jitcore.save(scaled, file)
    >>> loaded = jitcore.load(io.BytesIO(file.getvalue()))
    >>> loaded(np.arange(3.0))
    array([-2.,  0.,  2.])
    """
    write_file(file, to_bytes(obj, _extra_files))


def to_bytes(
    obj: Any,
    extra_files: Mapping[str, str | bytes] | None = None,
    external: list[Any] | None = None,
    *,
    readable: bool = True,
) -> bytes:
    """The archive of a script function or module; see `save`.

    ``external`` takes what the archive does not hold because ``pickle`` will; without ``readable``
    it has no code for people.
    """
    scripted = isinstance(obj, ScriptFunction) or script_state(obj, "_compiled_methods") is not None
    if not scripted:
        what = "script it first" if callable(obj) or is_layer(obj) else "nothing else can be saved"
        raise SerializationError(
            "save() expects a script function or a script module, found "
            f"{type(obj).__name__}; {what}"
        )
    writer = Writer(external)
    try:
        entries = writer.program(obj)
    except RecursionError as error:
        raise SerializationError("cannot save: the program is nested too deeply") from error
    except CompilationError as error:
        raise SerializationError(f"cannot save: {error}") from error
    if readable:
        entries |= code_entries(obj) | describe_lines(writer.graphs)
    for name, content in (extra_files or {}).items():
        data = content.encode() if isinstance(content, str) else content
        if not isinstance(data, bytes):
            raise SerializationError(f"the extra file {name!r} is neither str nor bytes")
        entries[f"{EXTRA}{name}"] = data
    return pack(entries)


def load(
    file: FileLike,
    map_location: Any = None,
    _extra_files: dict[str, Any] | None = None,
) -> Any:
    """Read a script function or a script module that `save` wrote; nothing in the file is run.

    Parameters
    ----------
    file : path or file-like
    map_location : optional
        Where arrays are to be: ``"cpu"``, which is also the default.
    _extra_files : dict, optional
        Gets the contents of the extra files as bytes; names it has that are not in the archive
        get ``b""``.

    Returns
    -------
    ScriptFunction or ScriptModule
        With the same graph, code, results and speed as what was saved.  Arrays that shared memory
        do so again.

    Raises
    ------
    SerializationError
        The file is damaged, was not written by `save`, or by a newer version of it.
    """
    if map_location is not None and str(map_location) != "cpu":
        raise Error(f"map_location: arrays are on the CPU alone, found {map_location!r}")
    archive = unpack(read_file(file))
    found = from_archive(Reader(archive))
    if _extra_files is not None:
        held = {
            name.removeprefix(EXTRA): data
            for name, data in archive.entries.items()
            if name.startswith(EXTRA)
        }
        _extra_files.update(dict.fromkeys(_extra_files, b"") | held)
    return found


def from_bytes(data: bytes, external: Sequence[Any] = ()) -> Any:
    """What `to_bytes` has written."""
    return from_archive(Reader(unpack(data), external))


def from_archive(reader: Reader) -> Any:
    """The program of an archive."""
    found = reader.root()
    if not isinstance(found, ScriptFunction) and not is_layer(found):
        raise SerializationError("the archive holds no script function and no script module")
    return found
