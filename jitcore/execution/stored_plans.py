"""Plans on disk: what another process has compiled runs without being compiled again.

Object code is found by the text that it is compiled from (``codegen.cache``), and writing that text
takes most of the time of a first call.  A plan is found earlier: by the generic graph, the
descriptions of the arguments, and all that decides what becomes of them.  That is the source of
this package, the versions of what it uses, the processor and the environment.

A plan holds the names of its functions and of the module's file, the signature and the error sites.
The entry is written anew, since it refers to objects of this process; where its text is another
one, the plan is not used.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

from jitcore import config
from jitcore.codegen import cache as files
from jitcore.codegen.engine import CompiledModule, cpu_identity, load_library, load_stored
from jitcore.codegen.entries.entry import ABSENT, CaptureGuard, Entry, ReleaseGil, make_entry
from jitcore.codegen.entries.error_sites import ErrorSite
from jitcore.codegen.entries.signature import Signature
from jitcore.execution.plans import NativePlan, StoredPlan
from jitcore.execution.signatures import Description
from jitcore.ir.dataclass import dataclass
from jitcore.ir.fingerprint import NoFingerprint, exact_text, fingerprint
from jitcore.ir.graph import Graph

__all__ = ["StoredConstants", "Subject", "load", "store"]

_VERSION: Final = "2"
_ROOT: Final = Path(__file__).parents[1]
_IMPORTED: Final = time.time_ns()
_PACKAGE: Final = "jitcore."
_modules_checked = set[str]()
_NOT_PICKLED: Final = (
    pickle.UnpicklingError,
    ArithmeticError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    TypeError,
    ValueError,
)
_MAKERS: Final = (
    "jitcore.codegen.runtime.blas",
    "jitcore.codegen.runtime.lapack",
    "jitcore.codegen.runtime.numpy_loops",
    "jitcore.codegen.runtime.streams",
    "jitcore.codegen.kernels.matrices",
    "jitcore.codegen.kernels.selection",
    "jitcore.codegen.lowering.layer_rules",
)
"""Modules that know how to make functions which machine code calls; all that there are."""

_OTHER_VARIABLES: Final = ("JITCORE_CACHE", "JITCORE_NUM_THREADS")
"""What the names of variables begin with that do not change what is compiled."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a plan is made of, beside the environment.

    Parameters
    ----------
    graph : Graph
    captures : sequence of CaptureGuard
    settings : tuple
        Texts and numbers that compilation depends on.
    """

    graph: Graph
    captures: Sequence[CaptureGuard]
    settings: tuple[Any, ...]

    def key(self, descriptions: tuple[Description, ...], sources: list[str]) -> str | None:
        """The name of the plan's file; None where another process could not know it.

        ``sources`` gets the names of the graph's source files.
        """
        try:
            parts = [
                _environment(),
                fingerprint(self.graph, sources),
                exact_text(self.settings),
                _described(descriptions),
                *_captured(self.captures),
            ]
        except NoFingerprint:
            return None
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _described(description: Description) -> str:
    """The exact text of a description, which is a tuple of tuples, texts, numbers and dtypes."""
    parts = [
        _described(part) if type(part) is tuple else _named_class(part) or exact_text(part)
        for part in description
    ]
    return f"({', '.join(parts)})"


def _named_class(part: object) -> str:
    """The name of the class of a constant, or nothing where that is something else."""
    return next((one.__name__ for one in (str, int, bool, type(None)) if part is one), "")


def _captured(captures: Sequence[CaptureGuard]) -> Iterator[str]:
    """What an entry's text depends on: which names are looked for in which of the containers."""
    containers: list[Any] = []
    for capture in captures:
        if not any(one is capture.container for one in containers):
            containers.append(capture.container)
        number = next(n for n, one in enumerate(containers) if one is capture.container)
        is_absent = capture.expected is ABSENT
        is_given = capture.expected is None
        kind = type(capture.container).__name__
        yield repr((number, kind, capture.key, is_absent, is_given, capture.is_input))


def _environment() -> str:
    variables = sorted(
        f"{name}={value}"
        for name, value in os.environ.items()
        if name.startswith("JITCORE_") and not name.startswith(_OTHER_VARIABLES)
    )
    return "\0".join([_installed(), *variables])


@cache
def _installed() -> str:
    """The versions of everything, and what tells the sources of this package from changed ones.

    Raises
    ------
    NoFingerprint
        A source was changed after it may have been imported.
    """
    sources = sorted(_described_sources().items())
    if any(changed > _IMPORTED for _, (changed, _) in sources):
        raise NoFingerprint("the sources of this package are being changed")
    versions = (_VERSION, sys.version, sys.platform, np.__version__, np.__file__, cpu_identity())
    return "\0".join([*map(str, versions), *map(str, sources)])


@cache
def _described_sources() -> dict[str, tuple[int, int]]:
    """The sources as they were when the first key was made."""
    return _sources()


def _sources() -> dict[str, tuple[int, int]]:
    """The source files of this package, with their times in nanoseconds and their sizes."""
    try:
        return dict(_sources_in(str(_ROOT)))
    except OSError as error:
        raise NoFingerprint("the sources of this package cannot be looked at") from error


def _sources_in(folder: str) -> Iterator[tuple[str, tuple[int, int]]]:
    with os.scandir(folder) as found:
        for one in found:
            if one.name.endswith(".py"):
                yield one.path, _state(one.stat())
            elif one.name != "__pycache__" and one.is_dir():
                yield from _sources_in(one.path)


def _state(status: os.stat_result) -> tuple[int, int]:
    return status.st_mtime_ns, status.st_size


def _are_sources_unchanged() -> bool:
    """Whether what was imported, also after the first key was made, is what that key says."""
    known = _described_sources()
    # Another thread may import meanwhile, so what is walked is a copy.
    new = {name for name in list(sys.modules) if name.startswith(_PACKAGE)} - _modules_checked
    files = [getattr(sys.modules.get(name), "__file__", None) for name in new]
    try:
        if not all(one is None or known.get(one) == _state(os.stat(one)) for one in files):
            return False
    except OSError:
        return False
    _modules_checked.update(new)
    return True


@dataclass(frozen=True, slots=True)
class _Record:
    """What the file of a plan holds; in error sites a file is its number among the sources."""

    name: str
    module: str
    libraries: tuple[tuple[str, str | None], ...]
    entry: str
    signature: Signature
    release_gil: ReleaseGil
    sites: tuple[ErrorSite, ...]


@dataclass(frozen=True, slots=True)
class StoredConstants:
    """Which arguments turned out to be part of the key by their values, see ``Executor``."""

    constants: frozenset[int]
    extents: frozenset[int]


def is_possible() -> bool:
    """Whether plans are stored and loaded at all.

    Who wants to see what happens, or compiles with another engine, gets the whole way.
    """
    is_watched = os.environ.get("JITCORE_LOG") or os.environ.get("JITCORE_DUMP")
    # Who has enabled it has imported it.
    products = sys.modules.get("jitcore.codegen.onednn.switch")
    by_onednn = products is not None and products.onednn_fusion_enabled()
    return not (is_watched or config.engine() != "llvm" or by_onednn)


def load(
    subject: Subject, descriptions: tuple[Description, ...]
) -> StoredPlan | StoredConstants | None:
    """What another process has found for these arguments, or None."""
    store = files.current()
    if store is None or not is_possible():
        return None
    sources: list[str] = []
    key = subject.key(descriptions, sources)
    contents = None if key is None else store.load_plan(key)
    if contents is None:
        return None
    record = _unpickled(contents)
    return _loaded(record, subject, sources) if isinstance(record, _Record) else record


def _unpickled(contents: bytes) -> _Record | StoredConstants | None:
    """A record, or None where a file holds something else.

    The folder is this user's own, and the file has the right checksum.
    """
    try:
        record = pickle.loads(contents)
    except _NOT_PICKLED:
        return None
    return record if isinstance(record, (_Record, StoredConstants)) else None


def _loaded(record: _Record, subject: Subject, sources: Sequence[str]) -> StoredPlan | None:
    entry = make_entry(
        record.signature,
        record.name,
        name=record.name,
        captures=subject.captures,
        release_gil=record.release_gil,
        check_errstate=True,
    )
    if _hash(entry) != record.entry:
        return None
    module = _module(record)
    if module is None:
        return None
    entry.fill(module)
    sites = tuple(_with_file(site, lambda number: sources[int(number)]) for site in record.sites)
    return StoredPlan(module, entry, record.signature, sites)


def _module(record: _Record) -> CompiledModule | None:
    """The machine code, with that of the libraries it calls."""
    module = _known_module(record)
    for maker in _MAKERS:
        if module is None:
            import_module(maker)
            module = _known_module(record)
    return module


def _known_module(record: _Record) -> CompiledModule | None:
    """The same, or None where it calls a function of ours whose maker is not known yet."""
    for symbol, key in record.libraries:
        if key is not None:
            load_library(symbol, key)
    return load_stored(record.module, name=record.name)


def _hash(entry: Entry) -> str:
    return hashlib.sha256(entry.text.encode()).hexdigest()


def _with_file(site: ErrorSite, name: Callable[[str], str]) -> ErrorSite:
    if site.source is None:
        return site
    return replace(site, source=replace(site.source, file=name(site.source.file)))


def store(
    subject: Subject, descriptions: tuple[Description, ...], found: NativePlan | StoredConstants
) -> None:
    """Keep a plan, or which arguments are part of the key, for other processes."""
    cache_files = files.current()
    if cache_files is None or not is_possible():
        return
    sources: list[str] = []
    key = subject.key(descriptions, sources)
    record = _record(found, sources) if isinstance(found, NativePlan) else found
    if key is not None and record is not None and _are_sources_unchanged():
        cache_files.store_plan(key, _pickled(record))


def _record(plan: NativePlan, sources: list[str]) -> _Record | None:
    """A plan as another process can use it, or None where it has to do with objects of this one."""
    module = plan.kernel.module.key
    places = {site.source.file for site in plan.sites if site.source is not None}
    if module is None or not places <= set(sources) or not _is_plain(plan):
        return None
    sites = (_with_file(one, lambda file: str(sources.index(file))) for one in plan.sites)
    return _Record(
        plan.entry.name,
        module,
        tuple(plan.kernel.module.libraries()),
        _hash(plan.entry),
        plan.signature,
        plan.release_gil,
        tuple(sites),
    )


def _is_plain(plan: NativePlan) -> bool:
    """Whether all objects that a plan refers to are the same in each process."""
    exceptions = [site.exception for site in plan.sites]
    try:
        exact_text([*_objects(plan.signature), *exceptions])
    except NoFingerprint:
        return False
    return True


def _objects(part: object) -> Iterator[object]:
    """What the parameters and results of a signature refer to."""
    if is_dataclass(part):
        part = tuple(getattr(part, field.name) for field in fields(part))
    if type(part) is tuple:
        for element in part:
            yield from _objects(element)
    else:
        yield part


class _Pickler(pickle.Pickler):
    """Pickles dtypes so that the one object comes back which NumPy has for each of them."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, np.dtype):
            return np.dtype, (value.char,)
        return NotImplemented


def _pickled(record: _Record | StoredConstants) -> bytes:
    found = io.BytesIO()
    _Pickler(found).dump(record)
    return found.getvalue()
