"""What the first call costs: compilation, cold and from a disk cache, and the start of a process.

Each measurement is a process of its own, with empty caches unless its name says otherwise.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from bench.compile_subjects import chain, fresh_function, masked, sines, time_loop

__all__ = ["PEERS", "CompileRow", "Task", "measure", "tasks"]

ROOT = Path(__file__).resolve().parent.parent

PEERS = {"NumPy": "numpy", "jitcore": "jitcore", "Numba": "numba", "JAX": "jax"}
"""Who takes part, with the package each needs."""

SINES = 200
"""The length of the chain of vector math."""

MASKED = 5
"""How many updates of elements under masks are compiled together."""

CACHES = ("JITCORE_CACHE_DIR", "NUMBA_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR")
KEEP_EVERYTHING = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}

Source = Callable[[bool], str]


@dataclass(frozen=True)
class Task:
    """One function to compile, by one peer."""

    subject: str
    peer: str
    source: str
    warm: bool = True
    cached: bool = False


@dataclass(frozen=True)
class CompileRow:
    """Medians in seconds; None, and the reason in `failure`, where the peer could not do it.

    Attributes
    ----------
    first_call, second_call : float or None
        Of the subject.
    ready : float or None
        Until the library was imported and, for warm subjects, had compiled something small.
    process : float or None
        From the start of the process to its end.
    """

    subject: str
    peer: str
    first_call: float | None = None
    second_call: float | None = None
    ready: float | None = None
    process: float | None = None
    failure: str = ""


def tasks(statements: Sequence[int], nodes: Sequence[int]) -> Iterator[Task]:
    """Everything to measure.

    Parameters
    ----------
    statements : sequence of int
        Lengths of the time loop.
    nodes : sequence of int
        Lengths of the chain of operations.
    """
    installed = [peer for peer, library in PEERS.items() if find_spec(library) is not None]
    compilers = [peer for peer in installed if peer != "NumPy"]
    for peer in installed:
        source = fresh_function(peer == "JAX")
        yield Task("process start to first result", peer, source, warm=False)
    for peer in compilers:
        source = fresh_function(peer == "JAX")
        yield Task("process start, cache filled", peer, source, warm=False, cached=True)
    for peer in compilers:
        yield Task("fresh 10-operation function", peer, fresh_function(peer == "JAX"))
    for peer in compilers:
        source = fresh_function(peer == "JAX")
        yield Task("10-operation function, cache filled", peer, source, cached=True)
    for length in statements:
        for peer in compilers:
            source = time_loop(length, peer == "JAX")
            yield Task(f"time loop, {length} stencils", peer, source)
    for length in nodes:
        for peer in compilers:
            yield Task(f"chain of {length} operations", peer, chain(length, peer == "JAX"))
    for peer in compilers:
        yield Task(f"chain of {SINES} sines", peer, sines(SINES, peer == "JAX"))
    for peer in compilers:
        yield Task(f"{MASKED} updates under masks", peer, masked(MASKED, peer == "JAX"))


def measure(task: Task, repeats: int, limit: float) -> CompileRow:
    """The medians of some processes.

    Parameters
    ----------
    task : Task
        What to compile.
    repeats : int
        How many processes.
    limit : float
        Seconds that one of them may take.
    """
    found: list[dict[str, float]] = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            try:
                if task.cached:
                    _run(task, Path(folder), limit)
                found.append(_run(task, Path(folder), limit))
            except subprocess.TimeoutExpired:
                return CompileRow(task.subject, task.peer, failure=f"over {limit:.0f} s")
            except subprocess.CalledProcessError as error:
                status = f"stopped with status {error.returncode}"
                lines = error.stderr.strip().splitlines()
                return CompileRow(
                    task.subject, task.peer, failure=lines[-1][:60] if lines else status
                )
    first_call, second_call, ready, process = (
        statistics.median(times[name] for times in found)
        for name in ("first_call", "second_call", "ready", "process")
    )
    return CompileRow(task.subject, task.peer, first_call, second_call, ready, process)


def _run(task: Task, folder: Path, limit: float) -> dict[str, float]:
    path = folder / "subject.py"
    if not path.exists():
        path.write_text(task.source, encoding="utf-8")
    environment = {**os.environ, **KEEP_EVERYTHING, **dict.fromkeys(CACHES, str(folder))}
    # Installers compile Python's own bytecode, and processes are compared that find it.
    environment["PYTHONDONTWRITEBYTECODE"] = ""
    command = [sys.executable, "-m", "bench.compile_child", task.peer, str(path)]
    start = time.perf_counter()
    done = subprocess.run(
        [*command, "--warm"] if task.warm else command,
        capture_output=True,
        check=True,
        cwd=ROOT,
        env=environment,
        text=True,
        timeout=limit,
    )
    process = time.perf_counter() - start
    times: dict[str, float] = json.loads(done.stdout)
    return {**times, "process": process}
