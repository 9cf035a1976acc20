"""Calls with arrays on a device: from arguments to kernels, and back to the caller's arrays.

A ``DeviceExecutor`` stands beside the executor of the same graph that runs on the host.  It gives
the entries shadows (`codegen.cuda.memory`) in the place of arrays, so that specializations, guards
and the fusion strategy are those of any executor.  What has no form for a device runs on the host,
on copies (`jitcore.cuda.mirror`).
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from jitcore.codegen.cuda import driver
from jitcore.codegen.cuda.calls import Call, begin, end
from jitcore.codegen.cuda.direct import DirectEntry
from jitcore.codegen.cuda.memory import array_of, ensure_memory
from jitcore.codegen.cuda.tuning import DEFAULT, Tuning
from jitcore.codegen.entries.entry import CaptureGuard, bind
from jitcore.codegen.entries.error_sites import ErrorSite
from jitcore.codegen.entries.signature import Param
from jitcore.codegen.host import build_host
from jitcore.codegen.host.places import at_place
from jitcore.codegen.lower import NotNative
from jitcore.cuda.array import Array, from_numpy
from jitcore.cuda.borders import Borders
from jitcore.cuda.compile import compile_device
from jitcore.cuda.copies import flat
from jitcore.cuda.direct import direct_entry
from jitcore.cuda.given import Given, MixedPlacesError, places_of
from jitcore.cuda.libraries import library_of, row_of
from jitcore.cuda.mirror import call_on_host
from jitcore.cuda.numpy_calls import is_of_library
from jitcore.cuda.operators import has_attribute
from jitcore.cuda.replays import MISSED, Asked, Replays
from jitcore.cuda.results import with_replaced
from jitcore.cuda.same_arrays import first_places, with_one_parameter, with_parameters_merged
from jitcore.cuda.streams import Stream, current_stream
from jitcore.cuda.transfers import Arrays
from jitcore.cuda.tuning import is_on, tuned
from jitcore.devices import is_device_array
from jitcore.execution.compilation import region
from jitcore.execution.executor import Executor, Specialization
from jitcore.execution.plans import HostPlan, NativePlan
from jitcore.execution.tracebacks import for_user
from jitcore.fusers.compared_tuples import WHICH_TUPLE
from jitcore.fusers.groups import Decision
from jitcore.fusers.host_parts import form_host_parts
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Constants, Graph, Node
from jitcore.ir.specialize.specialize import specialize
from jitcore.ir.types import ANY, TensorType
from jitcore.pipeline import compile_host
from jitcore.strict import check_strict_fusion

__all__ = ["DeviceExecutor"]


@dataclass(frozen=True, slots=True)
class _Failure:
    """What a native function that could not finish has said."""

    site: ErrorSite
    numbers: list[int]


_LEAST_WEIGHT = 0.25
"""Regions of a single operation pay on a device, where the host would have to copy arrays."""

_WARNINGS = frozenset({"ignore", "warn"})
"""What ``np.errstate`` may ask for where nothing has to look at numbers."""

_NOTHING_NATIVE = "not all of it has a form for the device"

_MISSED = object()
"""What a call gives that no entry has taken."""


def _miss(*shadows: Any) -> Any:
    return _MISSED


class DeviceExecutor(Executor):
    """Runs one graph on one device.

    Parameters
    ----------
    host : Executor
        That of the same graph on the host.
    device : int
    """

    on_device: ClassVar = True

    def __init__(self, host: Executor, device: int) -> None:
        ensure_memory()
        super().__init__(
            host.graph,
            name=host.name,
            fallback=host.fallback,
            compile_function=host.compile_function,
            numerics=host.numerics,
            miss=_miss,
            depth=host.depth,
            exact=host.exact,
        )
        self.host = host
        self.device = device
        self.driver = driver.current()
        self.borders = Borders(device)
        self._copies: Executor | None = None
        self._reason = ""
        self._sample: tuple[Any, ...] | None = None
        self.recordings = Replays(device)
        self._constants: dict[int, tuple[Any, Array]] = {}
        self._merged: dict[tuple[int, ...], DeviceExecutor] = {}
        self._direct: dict[int, DirectEntry] = {}
        self._direct_receivers: set[int] = set()
        self._captures_of_inputs = {
            number: capture
            for capture in host.graph.captures
            for number, value in enumerate(host.graph.inputs)
            if value is capture.input
        }

    def run(self, args: tuple[Any, ...], captured: tuple[Any, ...] = ()) -> Any:
        if driver.current() is not self.driver:
            self._begin_anew()
        values = (*args, *captured)
        try:
            given = Given(self, values)
        except MixedPlacesError:
            if not self.depth:
                raise
            return self._run_mixed(values)
        with given:
            if self.host.replays and _WARNINGS.issuperset(np.geterr().values()):
                return self._replayed(given, len(args))
            return self._run(given)

    def _run(self, given: Given) -> Any:
        result = self._call(self.entry, given)
        if result is _MISSED:
            found = self.specialization(given.shadows)
            if found is None:
                return self._run_on_host(given, self._plain)
            if isinstance(found.plan, HostPlan):
                return self._run_program(found.plan, given)
            result = self._call(found.direct, given)
        if result is _MISSED:
            merged = self._for_same_arrays(given.values)
            return merged() if merged else self._run_on_host(given, self._plain)
        if type(result) is _Failure:
            return self._fail(result, given)
        result = with_replaced(result, np.ndarray, lambda one: self._array(one, given))
        if given.library.is_own:
            return result
        arguments = {id(one) for one in flat(given.values)}
        adopt = given.library.adopt
        return with_replaced(result, Array, lambda one: one if id(one) in arguments else adopt(one))

    def _for_same_arrays(self, values: tuple[Any, ...]) -> Callable[[], Any] | None:
        """A call of the function with one parameter for each array; None where it is this one.

        Arrays that are written are taken to have memory of their own.
        """
        count = len(values) - self.captured_inputs
        places = first_places(values[:count])
        kept = [number for number, place in enumerate(places) if place == number]
        if len(kept) == count or self.graph.field_writes:
            return None
        if places not in self._merged:
            host = Executor(
                with_parameters_merged(self.graph, places),
                name=self.name,
                fallback=with_one_parameter(self.fallback, places),
                compile_function=self.compile_function,
                numerics=self.numerics,
                depth=self.depth,
                exact=frozenset(kept.index(places[one]) for one in self.exact if one < count),
            )
            self._merged[places] = DeviceExecutor(host, self.device)
        args = tuple(values[number] for number in kept)
        return functools.partial(self._merged[places].run, args, values[count:])

    def _replayed(self, given: Given, count: int) -> Any:
        """Replay a call that is recorded; run any other, and record it if it comes again."""
        asked = Asked(given.shadows[:count], given.shadows[count:], given.stream)
        with self.driver.on_device(self.device):
            result = self.recordings.call(asked, given.library)
        if result is not MISSED:
            return result
        result = self._run(given)
        if self.recordings.is_worth_noting(asked):
            with self.driver.on_device(self.device):
                self.recordings.note(asked, self.specialization(given.shadows))
        return result

    def _call(self, entry: Callable[..., Any], given: Given) -> Any:
        """Call an entry; its work goes to the stream of the arguments."""
        entered = self.driver.enter(self.device)
        call = Call(self.borders.of(given.library).allocator(given.stream), given.stream)
        try:
            begin(call)
            result = entry(*given.shadows)
        finally:
            end(call)
            if entered:
                self.driver.leave()
        if call.error is not None:
            raise call.error
        return result

    def specialization(self, args: tuple[Any, ...]) -> Specialization | None:
        with self.driver.on_device(self.device), self._lock:
            self._sample = args if is_on() else None
            try:
                return super().specialization(args)
            finally:
                self._sample = None

    def _begin_anew(self) -> None:
        """Forget what was compiled for another driver, as tests have them."""
        self.driver = driver.current()
        for one in list(self.specializations):
            self._forget(one)
        self._constants.clear()
        self.borders = Borders(self.device)
        self.recordings = Replays(self.device)

    def placed(self, values: tuple[Any, ...]) -> tuple[Executor, tuple[Any, ...]]:
        return self, Given(self, values).shadows

    @property
    def place(self) -> str:
        replays = ", where calls are replays of CUDA graphs" if self.recordings else ""
        return f"cuda:{self.device}, {self.driver.properties(self.device).name}{replays}"

    def wait(self) -> None:
        with self.driver.on_device(self.device):
            self.driver.synchronize()

    # Results

    def _array(self, shadow: np.ndarray[Any, Any], given: Given) -> Any:
        array = array_of(shadow)
        if array is None:
            # One of jitcore's own arrays that is an argument keeps its shadow, not it the array.
            pairs = zip(flat(given.shadows), flat(given.values), strict=True)
            return next(value for one, value in pairs if one is shadow)
        if type(array) is Array:
            array.keep_shadow(shadow)
        return array

    def _fail(self, failure: _Failure, given: Given) -> Any:
        """Do what the native function's error asks for, as on the host."""
        if not failure.site.after_write:
            return self._run_on_host(given, self._plain)
        error = failure.site.make(failure.numbers)
        if isinstance(error, driver.DriverError):
            error = self.driver.error(failure.numbers[0], f"launching a kernel of {self.name}")
        raise at_place(error, failure.site.source)

    # The host

    def _run_program(self, plan: HostPlan, given: Given) -> Any:
        """Run what is not native: on copies, or where it keeps arrays somewhere, on Arrays."""
        if plan.run is _on_copies:
            return self._run_on_host(given, self._compiled_on_host())
        with Stream(given.stream, device=self.device):
            arguments = Arrays(given.library, given.values)
            return arguments.result(plan.run(*arguments.values))

    def _run_on_host(self, given: Given, program: Callable[..., Any]) -> Any:
        return call_on_host(
            program,
            given.values,
            {},
            library=given.library,
            device=self.device,
            stream=given.stream,
        )

    def _run_mixed(self, values: tuple[Any, ...]) -> Any:
        """Run a region whose program has made some of its arrays on the host."""
        first = next(one for one in flat(values) if is_device_array(one))
        library = library_of(first)
        assert library is not None
        stream = library.stream(first, self.device)
        return call_on_host(
            self._plain, values, {}, library=library, device=self.device, stream=stream
        )

    @property
    def _plain(self) -> Callable[..., Any]:
        """The function unfused; takes the parameters, then what is captured."""
        if not self._captures_of_inputs:
            return self.fallback
        # The function itself would find arrays on the device under the names it captures.
        return build_host(specialize(self.graph, [ANY] * len(self.graph.inputs)))

    def _compiled_on_host(self) -> Executor:
        """The graph compiled for the host, with what it captures as parameters."""
        if self._copies is None:
            self._copies = Executor(
                self.graph,
                name=self.name,
                fallback=self._plain,
                compile_function=self.compile_function,
                numerics=self.numerics,
                depth=self.depth,
                exact=self.exact,
            )
        return self._copies

    # Compilation

    def _remember(self, made: Specialization) -> None:
        entry = None if self.depth else direct_entry(self, made)
        if entry is not None:
            self._direct[id(made)] = entry
        super()._remember(made)
        if isinstance(made.plan, NativePlan):
            made.direct = self._bind(made, _miss)

    def _forget(self, stale: Specialization) -> None:
        self._direct.pop(id(stale), None)
        super()._forget(stale)

    def _chain(self) -> None:
        super()._chain()
        self.host.chain()

    def direct_calls(self, following: Callable[..., Any]) -> Callable[..., Any]:
        self._direct_receivers = set()
        for one in self.specializations:
            entry = self._direct.get(id(one))
            if entry is not None:
                handler = self._direct_error_handler(one)
                following = bind(
                    entry.address, self.name, following, handler, owner=(entry, one.plan)
                )
                receiver = following.__self__  # type: ignore[attr-defined]
                self._direct_receivers.add(id(receiver))
        return following

    def is_receiver(self, address: int) -> bool:
        return address in self._direct_receivers or super().is_receiver(address)

    def _native_plan(
        self, typed: Graph, params: list[Param | None], guards: Sequence[CaptureGuard]
    ) -> NativePlan | None:
        contract = self.numerics() == "contract"
        name, sample = self._symbol(), self._sample
        self._reason = ""

        def make(tuning: Tuning) -> NativePlan | None:
            return compile_device(
                typed, params, guards, name=name, contract=contract, tuning=tuning
            )

        try:
            return make(DEFAULT) if sample is None else tuned(make, sample, self.device)
        except NotNative as reason:
            self._reason = str(reason)
            return None

    def _plan(
        self, typed: Graph, params: list[Param | None], guards: Sequence[CaptureGuard]
    ) -> NativePlan | HostPlan:
        native = self._native_plan(typed, params, guards)
        if native is not None:
            return native
        program = self._program(typed)
        if program is not None:
            return program
        reason = self._reason
        check_strict_fusion(typed, list(_refusals(typed, reason)))
        return HostPlan(typed, _on_copies, reason=reason or _NOTHING_NATIVE)

    def _unfused_plan(self, typed: Graph) -> HostPlan:
        return HostPlan(typed, _on_copies, reason=WHICH_TUPLE)

    def _program(self, typed: Graph) -> HostPlan | None:
        """A host program around what is on the device; None where there is nothing of that.

        What has to look at elements runs on the host in parts, each on copies of what it reads.
        """
        if self.depth:
            # A region is as small as it gets: there is no part to take out.
            return None
        graph = typed.copy()
        made = compile_host(
            graph,
            functools.partial(region, self),
            name=self.name,
            defer=True,
            exact=self.exact,
            least_weight=_LEAST_WEIGHT,
        )
        keeps = bool(graph.find_all_nodes("prim::SetAttr"))
        made.library_calls = tuple(filter(None, map(_library_call, graph.nodes())))
        parts = form_host_parts(
            graph,
            lambda node: bool(_library_call(node)),
            functools.partial(has_attribute, Array),
        )
        if parts is None:
            return made if keeps else None
        if not parts:
            return made
        if not (made.regions or made.library_calls or keeps):
            return None
        for number, node in enumerate(parts):
            inner, name = node.attributes["graph"], f"{self.name}_host{number}"
            program = _with_scalars(region(self, inner, name, frozenset(), set()), inner)
            made.host_parts[node] = functools.partial(self._run_part, program)
        made.run = build_host(graph, regions={**made.regions, **made.host_parts})
        return made

    def _run_part(self, program: Callable[..., Any], *values: Any) -> Any:
        """Run what lies between regions on copies of jitcore's own arrays."""
        library, device = row_of(Array), self.device
        assert library is not None
        stream = current_stream(device)
        return call_on_host(program, values, {}, library=library, device=device, stream=stream)

    def _symbol(self) -> str:
        return f"{super()._symbol()}_cuda"

    def _bind(self, found: Specialization, following: Callable[..., Any]) -> Callable[..., Any]:
        # Nobody but a device's own handler knows that arguments are shadows.
        assert isinstance(found.plan, NativePlan)
        handler = self._error_handler(found)
        return bind(found.plan.address, self.name, following, handler, owner=found.plan)

    def _error_handler(self, found: Specialization) -> Callable[..., Any]:
        assert isinstance(found.plan, NativePlan)
        sites = found.plan.sites

        def handle(status: int, payload: int, *shadows: Any) -> _Failure:
            site = sites[status - 1]
            return _Failure(site, list((ctypes.c_int64 * site.payload).from_address(payload)))

        return handle

    def _direct_error_handler(self, found: Specialization) -> Callable[..., Any]:
        """What a direct call that could not finish leads to."""
        handle = self._error_handler(found)
        captures = [one for one in self.host.graph.captures if one.input is not None]

        def failed(status: int, payload: int, *args: Any) -> Any:
            failure = handle(status, payload)
            try:
                with Given(self, (*args, *(one.read() for one in captures))) as given:
                    return self._fail(failure, given)
            except Exception as error:
                raise for_user(error)  # noqa: B904  # it is the same one

        return failed

    # Arguments

    def constant_array(self, value: Any, number: int) -> Array | None:
        """A copy of a host array that is final, a frozen module's weight; None of all others."""
        capture = self._captures_of_inputs.get(number)
        if capture is None or not isinstance(capture.container, Constants):
            return None
        if id(value) not in self._constants:
            self._constants[id(value)] = (value, from_numpy(value, self.device))
        return self._constants[id(value)][1]

    def mixed(self, values: Sequence[Any]) -> MixedPlacesError:
        """The error of a call whose arrays lie in different places."""
        places: dict[str, list[str]] = {}
        for value, one in zip(self.graph.inputs, values, strict=True):
            for place in places_of(one):
                names = places.setdefault(place, [])
                if value.name not in names:
                    names.append(value.name)
        found = "; ".join(f"{' and '.join(names)} on {place}" for place, names in places.items())
        return MixedPlacesError(
            f"{self.name}() got arrays in different places: {found}; "
            "move them to one device with jitcore.to"
        )


def _on_copies(*args: Any) -> Any:
    raise AssertionError("the executor runs the function on copies")


def _with_scalars(program: Callable[..., Any], graph: Graph) -> Callable[..., Any]:
    """The program of a part, given NumPy's scalars where it reads those of a part before it.

    They come as the arrays without axes that they are on the device, and no dict takes such a key.
    """
    types = [value.type for value in graph.inputs]
    places = [k for k, one in enumerate(types) if isinstance(one, TensorType) and one.scalar]
    if not places:
        return program

    def run(*values: Any) -> Any:
        changed = list(values)
        for place in places:
            if isinstance(changed[place], np.ndarray):
                changed[place] = changed[place][()]
        return program(*changed)

    return run


def _library_call(node: Node) -> str:
    """The function of NumPy that a library on the device computes for a node; empty without one."""
    name = node.attributes["name"] if node.kind == "np::call" else node.kind.removeprefix("np::")
    return name if is_of_library(name) else ""


def _refusals(graph: Graph, reason: str) -> Iterator[Decision]:
    """What to say of the nodes of a function that runs on the host."""
    text = reason or "the function has no form for the device as a whole, and runs on the host"
    for node in graph.nodes():
        yield Decision(node.kind, str(node.source or ""), None, text)
