"""Measure one row: results first, then all peers in turns, then what the machine allows."""

from __future__ import annotations

import gc
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.bounds import arithmetic_rate, bandwidth
from bench.peers import Peer
from bench.workloads import Arguments, Workload

__all__ = ["OURS_CONTRACTED", "Row", "Settings", "differences", "measure_row"]

Call = Callable[[], Any]

OURS = "jitcore"
OURS_CONTRACTED = "jitcore contract"


@dataclass(frozen=True)
class Settings:
    """How to measure.

    Attributes
    ----------
    threads : int
        How many each peer has.
    rounds : int
        How often every peer has its turn.
    sample_seconds : float
        How long a turn takes at least; short calls are repeated.
    pause_seconds : float
        Between turns, for the threads of the peer before to fall asleep; those of OpenMP look for
        work for some milliseconds.
    compile_seconds : int
        How long a peer may take to its first result.
    """

    threads: int
    rounds: int = 9
    sample_seconds: float = 0.002
    pause_seconds: float = 0.01
    compile_seconds: int = 30


@dataclass
class Row:
    """The measurements of one workload at one size in one dtype; all times are in seconds.

    Attributes
    ----------
    seconds : dict
        The median for each peer.
    spread : dict
        The distance between its quartiles.
    wrong : dict
        Peers that are left out, and what was wrong with their results.
    bound_seconds : float
        What the machine needs at least.
    bound_kind : str
        ``memory`` or ``arithmetic``, whichever takes longer.
    """

    workload: str
    size: str
    dtype: str
    seconds: dict[str, float] = field(default_factory=dict)
    spread: dict[str, float] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    bound_seconds: float = 0.0
    bound_kind: str = ""

    @property
    def best_peer(self) -> str | None:
        """The fastest of the others; None where nobody else took part."""
        others = {n: t for n, t in self.seconds.items() if n not in (OURS, OURS_CONTRACTED)}
        return min(others, key=others.__getitem__, default=None)

    def ratio(self, ours: str = OURS) -> float | None:
        """How many times faster we are than the best peer; below 1 we lose."""
        best = self.best_peer
        if best is None or ours not in self.seconds:
            return None
        return self.seconds[best] / self.seconds[ours]

    @property
    def of_bound(self) -> float | None:
        """The part of the machine's limit that we reach."""
        return self.bound_seconds / self.seconds[OURS] if OURS in self.seconds else None


def measure_row(
    workload: Workload, size: tuple[str, int], dtype: str, peers: list[Peer], settings: Settings
) -> Row:
    """Compile, check and time one workload with every peer.

    Parameters
    ----------
    workload : Workload
        The program.
    size : (str, int)
        The name of a size and its number of elements.
    dtype : str
        ``float32`` or ``float64``; integer and complex workloads take those of the same width.
    peers : list of Peer
        Who takes part; a wrong result excludes a peer from the row, and is noted.
    settings : Settings
        How to measure.
    """
    row = Row(workload.name, size[0], dtype)
    arguments = workload.arguments(size[1], dtype)
    expected = workload.function(*arguments)
    calls: dict[str, Call] = {}
    for peer in peers:
        call, wrong = _checked(peer, workload, arguments, expected, settings)
        if wrong:
            row.wrong[peer.name] = wrong
        elif call is not None:
            calls[peer.name] = call
    for name, samples in _in_turns(calls, settings).items():
        lower, row.seconds[name], upper = np.quantile(samples, (0.25, 0.5, 0.75)).tolist()
        row.spread[name] = upper - lower
    _set_bound(row, workload, arguments, expected, settings.threads)
    return row


def _checked(
    peer: Peer, workload: Workload, arguments: Arguments, expected: Any, settings: Settings
) -> tuple[Call | None, str]:
    """A compiled call, or why there is none; nothing of both where a peer has no form."""
    try:
        with _time_limit(settings.compile_seconds):
            call = peer.prepare(workload, arguments)
            found = None if call is None else call()
    except Exception as error:
        # Whatever a peer cannot do is reported in the results; the other peers still run.
        return None, f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    if call is None:
        return None, ""
    return call, differences(workload, found, expected, exact_types=peer.library == "jitcore")


@contextmanager
def _time_limit(seconds: int) -> Iterator[None]:
    """Raise TimeoutError inside the block after so long, on systems with alarms."""

    def stop(number: int, frame: Any) -> None:
        raise TimeoutError(f"no first result after {seconds} s")

    if not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    # Again each second, since an exception that is raised inside a callback is ignored.
    signal.setitimer(signal.ITIMER_REAL, seconds, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def differences(workload: Workload, found: Any, expected: Any, exact_types: bool) -> str:
    """What is wrong with results; empty where they are NumPy's.

    Parameters
    ----------
    workload : Workload
        Knows how far results may differ.
    found, expected : array, number or tuple of them
        What a peer gave and what NumPy gives.
    exact_types : bool
        Whether dtypes have to agree too, as they have to for us.
    """
    ours = found if isinstance(found, tuple | list) else (found,)
    theirs = expected if isinstance(expected, tuple) else (expected,)
    if len(ours) != len(theirs):
        return f"{len(ours)} results instead of {len(theirs)}"
    pairs = zip(map(np.asarray, ours), map(np.asarray, theirs), strict=True)
    texts = (_difference(workload, one, other, exact_types) for one, other in pairs)
    return "; ".join(filter(None, texts))


def _difference(
    workload: Workload, found: NDArray[Any], expected: NDArray[Any], exact_types: bool
) -> str:
    if found.shape != expected.shape:
        return f"shape {found.shape} instead of {expected.shape}"
    if exact_types and found.dtype != expected.dtype:
        return f"dtype {found.dtype} instead of {expected.dtype}"
    allowed = 0.0
    if expected.dtype.kind in "fc":
        largest = float(np.max(np.abs(expected), initial=0.0))
        allowed = workload.tolerance * float(np.finfo(expected.dtype).eps) * largest
    differing = float(np.mean(~(np.abs(found - expected) <= allowed)))
    if differing > workload.differing:
        return f"{differing:.2%} of the results differ"
    return ""


_LONG_CALL = 0.1
"""Seconds; beside them it does not count that a call is the first one of its turn."""

_WARM_SECONDS = 0.006
"""How long a turn calls before it is timed.  The first call wakes threads and fills caches that the
peer before has emptied, and after a pause a processor takes some milliseconds to come back to its
full speed: rows on 4M elements took 1.0 to 1.9 ms in the first call and 0.6 to 1.3 in the fifth."""


def _in_turns(calls: dict[str, Call], settings: Settings) -> dict[str, list[float]]:
    """Seconds a call, by peer: in every round each has its turn, in another order."""
    repeats = {name: _repeats(call, settings) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    shuffle = random.Random(0).shuffle
    collecting = gc.isenabled()
    gc.disable()
    for _ in range(settings.rounds):
        shuffle(order)
        for name in order:
            samples[name].append(_sample(calls[name], repeats[name], settings.pause_seconds))
    if collecting:
        gc.enable()
    return samples


def _repeats(call: Call, settings: Settings) -> int:
    """How many calls fill a turn."""
    seconds = _seconds_of(call)
    if seconds < settings.sample_seconds:
        seconds = _seconds_of(call)
    return max(1, round(settings.sample_seconds / seconds))


def _sample(call: Call, repeats: int, pause: float) -> float:
    time.sleep(pause)
    warm = time.perf_counter() + _WARM_SECONDS
    first = _seconds_of(call)
    if first > _LONG_CALL:
        return first
    while time.perf_counter() < warm:
        call()
    return _seconds_of(call, repeats)


def _seconds_of(call: Call, repeats: int = 1) -> float:
    """What a call takes, on average."""
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def _set_bound(
    row: Row, workload: Workload, arguments: Arguments, expected: Any, threads: int
) -> None:
    """The longer of the times for the bytes and for the operations."""
    results = expected if isinstance(expected, tuple) else (expected,)
    written = sum(np.asarray(result).nbytes for result in results)
    read = sum(array.nbytes for array in arguments)
    there = written + read
    moved = written + workload.reads * read
    memory = moved / bandwidth(there, written / moved, threads)
    operations = workload.operations * workload.work(arguments, expected)
    arithmetic = operations / arithmetic_rate(row.dtype, threads)
    row.bound_seconds = max(memory, arithmetic)
    row.bound_kind = "memory" if memory >= arithmetic else "arithmetic"
