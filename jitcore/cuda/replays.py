"""Calls that are recorded once as a CUDA graph, and asked of the device as a whole from then on.

A model of many small kernels takes longer to be launched than to be run.  Where
`jitcore.optimize_for_inference` has prepared it, a call that comes again, with arrays of the same
shapes, is recorded: its kernels then read copies of the arguments and write to memory of the
recording, and a replay copies the arguments there and the results to new arrays.  Weights are read
where they lie.

What is not recorded runs as any call does: where copies would take as long as launches, where the
program writes to its arguments or returns parts of them, or waits for the device.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from jitcore.codegen.cuda import driver
from jitcore.codegen.cuda.calls import Allocator, Call, running
from jitcore.codegen.cuda.memory import array_of
from jitcore.cuda.array import Array
from jitcore.cuda.compile import DeviceCode
from jitcore.cuda.copies import Copies, flat
from jitcore.cuda.libraries import Library, row_of
from jitcore.execution.executor import Specialization
from jitcore.execution.plans import NativePlan
from jitcore.ir import log
from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.dataclass import dataclass

__all__ = ["MISSED", "Asked", "Replays"]

MISSED = object()
"""What a call gives that is not recorded."""

MOST_RECORDINGS = 8
"""For each function and device; the oldest goes first."""

MOST_NOTED = 4096
"""Calls that have come once: numbers may differ in all of them."""

MOST_COPIED = 4 << 20
"""Bytes of arguments and results: copies of more take longer than launching kernels."""

_Key = tuple[Any, ...]
_PLAIN = frozenset({int, float, bool, complex, str, type(None)})


class Asked:
    """A call as recordings see it.

    Parameters
    ----------
    args, captured : tuple
        Shadows of arrays among them.
    stream : int

    Attributes
    ----------
    key : tuple
        What a recording depends on.  What is captured it reads where that lies.  Empty where there
        are values whose contents do not show.
    """

    __slots__ = ("args", "captured", "key", "stream")

    def __init__(self, args: tuple[Any, ...], captured: tuple[Any, ...], stream: int) -> None:
        self.args, self.captured, self.stream = args, captured, stream
        self.key = _key(args, captured, stream)


def _key(args: tuple[Any, ...], captured: tuple[Any, ...], stream: int) -> _Key:
    parts: list[Any] = [stream, len(args)]
    for number, one in enumerate((*args, *captured)):
        for item in flat((one,)):
            if type(item) is np.ndarray:
                address = 0 if number < len(args) else item.__array_interface__["data"][0]
                parts.append((address, item.dtype, item.shape, item.strides))
            elif type(item) in _PLAIN or isinstance(item, np.generic):
                # 1, 1.0 and True are equal, and so are 0.0 and -0.0.
                parts.append((type(item), repr(item)))
            else:
                return ()
    return tuple(parts)


@dataclass(slots=True)
class _Memory:
    """The memory of a recording: what the first run asks for, the second one gets again."""

    allocator: Allocator
    given: list[tuple[int, Any]] = field(default_factory=list)
    position: int | None = None

    def empty(
        self, dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...] | None
    ) -> tuple[int, Any]:
        return self._next(lambda: self.allocator.empty(dtype, shape, strides))

    def block(self, size: int) -> tuple[int, Any]:
        return self._next(lambda: self.allocator.block(size))

    def scratch(self, size: int) -> tuple[int, Any]:
        return self._next(lambda: self.allocator.scratch(size))

    def zeros(self, size: int) -> tuple[int, Any]:
        return self._next(lambda: self.allocator.zeros(size))

    def _next(self, make: Callable[[], tuple[int, Any]]) -> tuple[int, Any]:
        if self.position is None:
            self.given.append(make())
            return self.given[-1]
        self.position += 1
        return self.given[self.position - 1]


@dataclass(slots=True, weakref_slot=True)
class _Recording:
    """A call as a graph.

    Parameters
    ----------
    arguments : Copies
        What the kernels read.
    executable : int
        The driver's graph.
    result : object
        What the function returned: arrays of the recording, numbers, tuples of them.
    specialization : Specialization
        What was recorded.
    kept : list
        All memory that the kernels use.
    """

    arguments: Copies
    executable: int
    result: Any
    specialization: Specialization
    kept: list[Any]


class Replays:
    """The recorded calls of one function on one device.

    Parameters
    ----------
    device : int
    """

    def __init__(self, device: int) -> None:
        self._driver, self._device = driver.current(), device
        self._seen: set[_Key] = set()
        self._refused: set[_Key] = set()
        self._recordings: dict[_Key, _Recording] = {}

    def __bool__(self) -> bool:
        return bool(self._recordings)

    def call(self, asked: Asked, library: Library) -> Any:
        """Replay a call, with results of a library; ``MISSED`` where it is not recorded."""
        found = self._recordings.get(asked.key)
        if found is None or not found.specialization.holds():
            return MISSED
        call = Call(library.allocator(self._device, asked.stream), asked.stream)
        with running(call):
            found.arguments.fill(asked.args)
            self._driver.launch_graph(found.executable, asked.stream)
            return self._copied(found.result, call, library)

    def is_worth_noting(self, asked: Asked) -> bool:
        """Whether a call that was run may be recorded when it comes again."""
        return bool(asked.key) and asked.key not in self._refused

    def note(self, asked: Asked, specialization: Specialization | None) -> None:
        """Note a call that was run: if it comes for the second time, record it."""
        if asked.key not in self._seen:
            if len(self._seen) >= MOST_NOTED:
                self._seen.clear()
                self._refused.intersection_update(self._recordings)
            self._seen.add(asked.key)
            return
        # Whatever comes of it: once is enough.
        self._refused.add(asked.key)
        plan = None if specialization is None else specialization.plan
        if specialization is None or not isinstance(plan, NativePlan):
            return
        if _may_be_recorded(plan, len(asked.args)):
            try:
                made = self._recorded(asked, plan, specialization)
            except (driver.DriverError, MemoryError) as error:
                # The call itself is done, and the next ones are as well without a recording.
                log.debug("cuda", f"{plan.kernel.name} is not recorded: {error}")
                return
            if made is not None:
                self._keep(asked.key, made)

    def _keep(self, key: _Key, made: _Recording) -> None:
        while len(self._recordings) >= MOST_RECORDINGS:
            oldest = next(iter(self._recordings))
            del self._recordings[oldest]
            # It may come again.
            self._seen.discard(oldest)
            self._refused.discard(oldest)
        self._recordings[key] = made

    # Recording

    def _recorded(
        self, asked: Asked, plan: NativePlan, specialization: Specialization
    ) -> _Recording | None:
        """Run a call twice: to see what memory it needs, and to record it."""
        entry = specialization.direct
        own = row_of(Array)
        assert own is not None
        args, captured, stream = asked.args, asked.captured, asked.stream
        copies = Copies(args, self._device, stream)
        memory = _Memory(own.allocator(self._device, stream))
        copies.fill(args)
        call = Call(memory, stream)
        with running(call):
            result = entry(*copies.values, *captured)
        if call.error is not None or call.has_waited or not _is_new(result, memory):
            return None
        copied = copies.size + sum(one.nbytes for one in flat((result,)) if _is_array(one))
        if copied > MOST_COPIED or _copies(args) + _copies((result,)) + 1 >= _launches(plan):
            return None
        memory.position = 0
        graph = self._captured(lambda: entry(*copies.values, *captured), memory)
        if graph is None:
            return None
        executable = self._driver.instantiate(graph[0])
        log.debug("cuda", f"{plan.kernel.name}: recorded as a CUDA graph")
        arrays = _arrays(graph[1])
        made = _Recording(copies, executable, arrays, specialization, [*memory.given, *captured])
        weakref.finalize(made, self._driver.destroy_executable, executable)
        return made

    def _captured(self, run: Callable[[], Any], memory: _Memory) -> tuple[int, Any] | None:
        """The graph of a call, and what that returns; None where it does not end well."""
        stream = self._driver.create_stream()
        try:
            call = Call(memory, stream)
            with running(call):
                self._driver.begin_capture(stream)
                try:
                    result = run()
                finally:
                    graph = self._driver.end_capture(stream)
            if call.error is None and _is_new(result, memory):
                return graph, result
            self._driver.destroy_graph(graph)
            return None
        finally:
            self._driver.destroy_stream(stream)

    # Replaying

    def _copied(self, value: Any, call: Call, library: Library) -> Any:
        """A result in memory that the caller may keep."""
        if isinstance(value, tuple):
            items = [self._copied(item, call, library) for item in value]
            return tuple(items) if type(value) is tuple else type(value)(*items)
        if type(value) is not Array:
            return value
        address, _, strides, dtype, _ = value.fields()
        place, made = call.allocator.empty(dtype, value.shape, strides)
        self._driver.copy(place, address, value.nbytes, call.stream)
        return library.adopt(made) if type(made) is Array and not library.is_own else made


def _may_be_recorded(plan: NativePlan, count: int) -> bool:
    """Whether a program neither writes to its arguments nor returns parts of them."""
    aliases = AliasAnalysis(plan.graph)
    given, results = plan.graph.inputs, plan.graph.outputs
    if any(map(aliases.has_writers, given)):
        return False
    return not any(aliases.may_contain_alias(x, y) for x in given[:count] for y in results)


def _is_new(result: Any, memory: _Memory) -> bool:
    """Whether all arrays of a result are whole arrays of a recording's memory."""
    owners = [owner for _, owner in memory.given]
    for one in flat((result,)):
        if not _is_array(one):
            if not isinstance(one, int | float | bool | complex | type(None) | np.generic):
                return False
            continue
        array = array_of(one)
        if type(array) is not Array or not any(array is owner for owner in owners):
            return False
        if (array.shape, array.strides) != (one.shape, one.strides):
            return False
    return True


def _is_array(value: Any) -> bool:
    return type(value) is np.ndarray


def _copies(values: Sequence[Any]) -> int:
    return sum(map(_is_array, flat(values)))


def _launches(plan: NativePlan) -> int:
    """How many kernels a call launches, about."""
    return len(plan.kernel.images) if isinstance(plan.kernel, DeviceCode) else 0


def _arrays(value: Any) -> Any:
    """A result with arrays in the places of their shadows."""
    if isinstance(value, tuple):
        items = [_arrays(item) for item in value]
        return tuple(items) if type(value) is tuple else type(value)(*items)
    return array_of(value) if _is_array(value) else value
