"""Launch configurations by measurement: which of several is the fastest for a function's arrays.

What was measured once is on disk, under a hash of the kernels, the arrays' shapes and the device.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from jitcore.codegen.cache import StoredObject, current
from jitcore.codegen.cuda import driver
from jitcore.codegen.cuda.calls import Call, running
from jitcore.codegen.cuda.tuning import DEFAULT, PARAMETERS, Tuning
from jitcore.codegen.entries.entry import bind
from jitcore.cuda.array import Array
from jitcore.cuda.copies import Copies
from jitcore.cuda.libraries import row_of
from jitcore.execution.plans import NativePlan
from jitcore.ir import log

__all__ = ["autotune", "is_on", "seconds", "tuned"]

WORTH = 0.97
"""The part of the time before that another configuration may take: events are not more exact."""

CALLS = 9
"""How often each configuration runs; the fastest run counts."""

_depth = 0


@contextmanager
def autotune() -> Iterator[None]:
    """Have functions that are compiled inside a ``with`` block measure how to launch kernels.

    A function that is called there with arrays on a device for the first time is compiled in
    several ways, which differ in how many threads share the work; each runs some times on copies of
    the arguments, and the fastest is kept.  The choice is kept in the cache on disk, too, and taken
    from there in other processes that ask for it.  It holds for all threads.

    Examples
    --------
    >>> import jitcore
    >>> with jitcore.cuda.autotune():
    ...     pass  # the first calls of functions, with arrays as large as later ones
    """
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1


def is_on() -> bool:
    """Whether functions that are compiled now are measured."""
    return _depth > 0


def tuned(
    make: Callable[[Tuning], NativePlan | None], sample: Sequence[Any], device: int
) -> NativePlan | None:
    """The fastest plan, with one parameter changed after the other.

    Parameters
    ----------
    make : callable
        Compiles the function for a configuration; None where it is not native.
    sample : sequence
        What the function is called with: shadows (`codegen.cuda.memory`) of arrays among it.
    device : int
    """
    best = make(DEFAULT)
    if best is None:
        return None
    key = _key(best, sample)
    stored = _stored(key)
    if stored is not None:
        return make(stored)
    found, time = DEFAULT, seconds(best, sample, device)
    seen = {_form(best)}
    for parameter in PARAMETERS:
        for tuning in list(found.alternatives(parameter)):
            plan = None if time is None else make(tuning)
            if plan is None or time is None or _form(plan) in seen:
                continue
            seen.add(_form(plan))
            other = seconds(plan, sample, device)
            log.debug("cuda", f"{plan.kernel.name}: {tuning} takes {other} s, the best {time} s")
            if other is not None and other < WORTH * time:
                best, found, time = plan, tuning, other
    if time is not None:
        _store(key, found)
    return best


def seconds(plan: NativePlan, sample: Sequence[Any], device: int) -> float | None:
    """How long a call with copies of arrays takes on the device; None where it fails."""

    def failed(*_: Any) -> Any:
        return failed

    entry = bind(plan.address, plan.kernel.name, failed, failed, owner=plan)
    own = row_of(Array)
    assert own is not None
    used = driver.current()
    # Whoever has computed the arrays may have done so on any stream.
    used.synchronize()
    found: list[float] = []
    copies = Copies(sample, device, 0)
    with _events(used) as (start, stop):
        for _ in range(CALLS):
            copies.fill(sample)
            call = Call(own.allocator(device, 0), 0)
            with running(call):
                used.record(start)
                result = entry(*copies.values)
                used.record(stop)
            if result is failed or call.error is not None:
                return None
            found.append(used.elapsed(start, stop))
            del result
    return min(found)


@contextmanager
def _events(used: driver.Driver) -> Iterator[tuple[int, int]]:
    start, stop = used.create_event(), used.create_event()
    try:
        yield start, stop
    finally:
        used.destroy_event(start)
        used.destroy_event(stop)


def _form(plan: NativePlan) -> tuple[str, str]:
    """What a plan does: its kernels, and how the host launches them."""
    return plan.kernel.source, repr(plan.kernel.lowered.function.body)


def _key(plan: NativePlan, sample: Sequence[Any]) -> str:
    """Kernels of any extents are tuned for those that they are measured with."""
    device = driver.current().properties()
    shapes = [getattr(one, "shape", ()) for one in sample]
    parts = ("tuning", *_form(plan), *shapes, device.name, device.compute_capability, PARAMETERS)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _store(key: str, tuning: Tuning) -> None:
    files = current()
    if files is not None:
        files.store(key, StoredObject((json.dumps(asdict(tuning)).encode(),), (), ()))


def _stored(key: str) -> Tuning | None:
    """What was measured before; None where nothing was, or something else lies there."""
    files = current()
    stored = None if files is None else files.load(key)
    if stored is None:
        return None
    try:
        values = json.loads(stored.objects[0])
        is_known = all(values[name] in known for name, known in PARAMETERS.items())
        return Tuning(**values) if is_known else None
    except (ValueError, TypeError, KeyError):
        return None
