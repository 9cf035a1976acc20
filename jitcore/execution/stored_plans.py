"""Plans on disk: what another process has compiled runs without being compiled again.

Object code is found by the text that it is compiled from (``codegen.cache``), and writing that text
takes most of the time of a first call.  A plan is found earlier: by the generic graph, the
descriptions of the arguments, and all that decides what becomes of them: the place of this package,
the versions of what it uses, the processor and the environment.

A plan holds the names of its functions and of the module's file, the signature and the error sites.
It also holds the times of the sources of this package that the process had imported which compiled
it, and is not used where one of these files is another one now.
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

_VERSION: Final = "3"
_FOLDER: Final = f"{Path(__file__).parents[1]}{os.sep}"
_IMPORTED: Final = time.time_ns()
_PACKAGE: Final = "jitcore"
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
    "jitcore.codegen.kernels.few_rows",
    "jitcore.codegen.kernels.matrices",
    "jitcore.codegen.kernels.selection",
    "jitcore.codegen.lowering.layer_rules",
)
"""Modules that know how to make functions which machine code calls; all that there are."""

_VARIABLES: Final = ("JITCORE_", "OPENBLAS_CORETYPE")
"""What the names of variables begin with that change what is compiled: which kernels OpenBLAS has
tells which products are ours."""

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
        if name.startswith(_VARIABLES) and not name.startswith(_OTHER_VARIABLES)
    )
    return "\0".join([_installed(), *variables])


@cache
def _installed() -> str:
    """The versions of everything, and where this package and NumPy are."""
    python, numpy = (sys.version, sys.platform), (np.__version__, np.__file__)
    return "\0".join([_VERSION, _FOLDER, *python, *numpy, cpu_identity()])


SourceState = tuple[int, int]
"""The time of a source file in nanoseconds, and its size."""


def _imported_sources() -> dict[str, SourceState] | None:
    """The sources of what is imported of this package, by their places in it.

    None where they are not known: one was changed after it may have been imported.
    """
    # Another thread may import meanwhile, so what is walked is a copy. `list(items())` is none:
    # its tuples may start a collection, in which other threads go on.
    modules = [one for name, one in sys.modules.copy().items() if _is_of_package(name)]
    paths = [path for one in modules if (path := getattr(one, "__file__", None)) is not None]
    for path in paths:
        if path not in _IMPORTED_STATES:
            state = _state(path)
            if state is None:
                return None
            _IMPORTED_STATES[path] = state
    return {path.removeprefix(_FOLDER): _IMPORTED_STATES[path] for path in paths}


_IMPORTED_STATES: Final[dict[str, SourceState]] = {}
"""What is known of sources that were imported: who changes one later does not change this process.

To ask for all of them took a tenth of what it takes to compile a small function.
"""


def _is_of_package(name: str) -> bool:
    return name.partition(".")[0] == _PACKAGE


def _state(path: str) -> SourceState | None:
    """What tells a source from a changed one; None where it may be another than was imported."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    # Who writes to a file may give it an old time, but not an old time of that change.
    is_known = max(found.st_mtime_ns, found.st_ctime_ns) <= _IMPORTED
    return (found.st_mtime_ns, found.st_size) if is_known else None


def _found_state(name: str) -> SourceState | None:
    """What a source in the package's folder was when it was asked for first."""
    found = _FOUND_STATES.get(name) or _state(os.path.join(_FOLDER, name))
    if found is not None:
        _FOUND_STATES[name] = found
    return found


_FOUND_STATES: Final[dict[str, SourceState]] = {}
"""What sources of plans were, by their names in the package's folder.

Nearly all plans have the same ones.  To ask for them took a quarter of what a small function takes
that is found on disk.
"""


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


@dataclass(frozen=True, slots=True)
class _Stored:
    """The contents of a file, with the sources that have found them."""

    sources: dict[str, SourceState]
    found: _Record | StoredConstants

    def holds(self) -> bool:
        """Whether the sources are what they were, also when this process imported them."""
        return self.sources.items() <= _FOUND_STATES.items() or all(
            _found_state(name) == one for name, one in self.sources.items()
        )


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
    stored = _unpickled(contents)
    if stored is None or not stored.holds():
        return None
    found = stored.found
    return _loaded(found, subject, sources) if isinstance(found, _Record) else found


def _unpickled(contents: bytes) -> _Stored | None:
    """What is stored, or None where a file holds something else.

    The folder is this user's own, and the file has the right checksum.
    """
    try:
        record = pickle.loads(contents)
    except _NOT_PICKLED:
        return None
    return record if isinstance(record, _Stored) else None


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
    if key is None or record is None:
        return
    states = _imported_sources()
    if states is not None:
        cache_files.store_plan(key, _pickled(_Stored(states, record)))


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


def _pickled(stored: _Stored) -> bytes:
    found = io.BytesIO()
    _Pickler(found).dump(stored)
    return found.getvalue()
