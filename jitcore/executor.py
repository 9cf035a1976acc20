"""Calls: from arguments to the plan that was compiled for them.

An ``Executor`` owns a graph and the specializations made of it.  The native ones form a chain of
guarded entries, each passing a call it was not compiled for to the next, and at the end of the
chain stands ``Executor.run``, which describes the arguments, decides by the fusion strategy
whether to compile once more, and otherwise runs the function unfused.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jitcore import strategy
from jitcore.codegen.entry import ABSENT, CaptureGuard, bind
from jitcore.codegen.host import build_host
from jitcore.codegen.host_places import at_place
from jitcore.codegen.lower import NotNative
from jitcore.codegen.signature import ConstantParam, Param
from jitcore.ir import log
from jitcore.ir.classes import MISSING
from jitcore.ir.extent_inputs import extent_inputs
from jitcore.ir.graph import Capture, Graph
from jitcore.ir.passes.same_extents import renamed, same_extents
from jitcore.ir.passes.specialize import CompileFunction, specialize
from jitcore.pipeline import HostPlan, NativePlan, compile_host, compile_native, optimize
from jitcore.signatures import (
    Description,
    constant_of,
    describe_all,
    describe_constant,
    describe_unknown,
    structure,
    type_and_param,
)
from jitcore.tracebacks import for_user

__all__ = ["Executor", "Specialization", "capture_guard"]

MAX_DEPTH = 3
"""How deep regions that wait for types may lie inside one another."""

MAX_FRUITLESS = 16
"""How many calls of a region may find nothing native in it before no more look."""

MAX_TEXTS = 8
"""How many strings a function is specialized for, in each of its parameters."""

MAX_SPECIALIZATIONS = 256
"""A limit over all structures of arguments, against programs that call with ever new constants."""


def _not_native(*args: Any) -> Any:
    raise AssertionError("a host plan has no entry")


@dataclass(slots=True)
class Specialization:
    """One compiled form of a graph.

    Parameters
    ----------
    kind : str
        ``"STATIC"`` or ``"DYNAMIC"``.
    key : tuple
        The descriptions it was compiled for; dynamic ones have None for extents other than 1.
    form : tuple
        The structure of the arguments, for which the strategy has a budget.
    typed : Graph
        The graph with its types, before fusion.
    plan : NativePlan or HostPlan
    assumed : list of Capture
        What functions and classes that came in as values were found to be.
    """

    kind: str
    key: tuple[Description, ...]
    form: tuple[Description, ...]
    typed: Graph
    plan: NativePlan | HostPlan
    assumed: list[Capture]
    direct: Callable[..., Any] = _not_native

    def holds(self) -> bool:
        """Whether what it was built from, besides the arguments and the graph, is unchanged."""
        try:
            return all(capture.read() is capture.value for capture in self.assumed)
        except NameError:
            return False


class Executor:
    """Runs one graph.

    Parameters
    ----------
    graph : Graph
        Generic or typed; its types are ignored, those of the arguments count.
    fallback : callable
        Runs the function unfused, through NumPy; takes the parameters in order.
    captures : sequence of CaptureGuard
        What entries check besides the arguments.
    numerics : callable
        Gives ``"strict"`` or ``"contract"``.
    miss : callable, optional
        What stands at the end of the chain of entries; by default `run`.
    publish : callable, optional
        Called when there is another entry to begin calls with.
    depth : int
        How many executors this one is a region of.
    exact : frozenset of int
        The numbers of inputs whose arrays have known extents in every specialization.  What the
        graph captures always has: weights do not change their shapes from call to call.

    Attributes
    ----------
    constants : frozenset of int
        The numbers of the inputs whose values are part of a specialization's key.
    extents : frozenset of int
        The numbers of the ints that are part of the key of static specializations, as the extents
        of arrays are.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        name: str,
        fallback: Callable[..., Any],
        captures: tuple[CaptureGuard, ...] = (),
        compile_function: CompileFunction | None = None,
        numerics: Callable[[], str] = lambda: "strict",
        miss: Callable[..., Any] | None = None,
        publish: Callable[[], None] = lambda: None,
        depth: int = 0,
        exact: frozenset[int] = frozenset(),
    ) -> None:
        self.graph = graph
        captured = {capture.input for capture in graph.captures}
        self.exact = exact | {n for n, value in enumerate(graph.inputs) if value in captured}
        self.name = name
        self.fallback = fallback
        self.captures = captures
        self.compile_function = compile_function
        self.numerics = numerics
        self.depth = depth
        self.miss = miss or self._run_positional
        self._publish = publish
        self._receivers: set[int] = set()
        self.entry: Callable[..., Any] = self.miss
        self.specializations: list[Specialization] = []
        self._static: dict[tuple[Description, ...], Specialization] = {}
        self._dynamic: dict[tuple[Description, ...], Specialization] = {}
        self._counts: dict[tuple[Description, ...], int] = {}
        self.constants: frozenset[int] = frozenset()
        self.extents: frozenset[int] = frozenset()
        self._texts: dict[int, set[str]] = {}
        self._fruitless = 0
        self._lock = threading.RLock()

    def __call__(self, *args: Any) -> Any:
        return self.entry(*args)

    def run(self, args: tuple[Any, ...], captured: tuple[Any, ...] = ()) -> Any:
        """Take a call that no compiled entry has taken; compile for it if the strategy allows.

        Parameters
        ----------
        args : tuple
            The parameters in order.
        captured : tuple
            The captured objects that are inputs of the graph after them.
        """
        found = self.specialization((*args, *captured))
        if found is None:
            return self.fallback(*args)
        if isinstance(found.plan, HostPlan):
            if self.depth and not found.plan.regions:
                self._note_fruitless()
            return found.plan.run(*args, *captured)
        return found.direct(*args)

    def _note_fruitless(self) -> None:
        """Note that looking at a region's values led to nothing native; give up after some."""
        self._fruitless += 1
        if self._fruitless == MAX_FRUITLESS:
            self.entry = self.fallback

    def describe(self, args: tuple[Any, ...], *, static: bool = False) -> tuple[Description, ...]:
        """The descriptions of all arguments; texts count as constants while there are few."""
        constants = self.constants | self.extents if static else self.constants
        found = list(describe_all(args, constants))
        for number, one in enumerate(found):
            if one[:2] != ("constant", str):
                continue
            known = self._texts.setdefault(number, set())
            if len(known) < MAX_TEXTS:
                known.add(one[2])
            if one[2] not in known:
                found[number] = describe_unknown()
        return tuple(found)

    def _run_positional(self, *args: Any) -> Any:
        return self.run(args)

    def specialization(self, args: tuple[Any, ...]) -> Specialization | None:
        """The specialization for these arguments, made now if the strategy allows another."""
        with self._lock:
            descriptions = self.describe(args)
            exact = self.describe(args, static=True) if self.extents else descriptions
            found = self._find(exact, descriptions)
            if found is not None:
                return found
            kind = strategy.kind_of(strategy.current(), self._count(descriptions))
            if kind is None or len(self.specializations) >= MAX_SPECIALIZATIONS:
                return None
            made = self._specialize(args, kind)
            self._remember(made)
            return made

    def _find(
        self, exact: tuple[Description, ...], descriptions: tuple[Description, ...]
    ) -> Specialization | None:
        # Which ints are extents may have turned out after a specialization was made.
        static = self._static.get(exact) or self._static.get(descriptions)
        for found in (static, self._dynamic.get(_dynamic_key(descriptions, self.exact))):
            if found is not None and found.holds():
                return found
            if found is not None:
                self._forget(found)
        return None

    def _count(self, descriptions: tuple[Description, ...]) -> int:
        """How many specializations there are for arguments of this structure."""
        return self._counts.get(tuple(structure(one) for one in descriptions), 0)

    def _remember(self, made: Specialization) -> None:
        form = made.form
        self._counts[form] = self._counts.get(form, 0) + 1
        self.specializations.append(made)
        (self._static if made.kind == "STATIC" else self._dynamic)[made.key] = made
        if isinstance(made.plan, NativePlan):
            made.direct = self._bind(made, self.fallback)
        self._chain()

    def _forget(self, stale: Specialization) -> None:
        """Drop a specialization that was built from something that has changed."""
        self._counts[stale.form] -= 1
        self.specializations.remove(stale)
        del (self._static if stale.kind == "STATIC" else self._dynamic)[stale.key]
        self._chain()

    def _specialize(self, args: tuple[Any, ...], kind: str) -> Specialization:
        """Compile for these arguments, taking those as constants that have to be."""
        names = [_symbol_prefix(value.name) for value in self.graph.inputs]
        dynamic = kind == "DYNAMIC"
        while True:
            descriptions = self.describe(args, static=not dynamic)
            pairs = [
                type_and_param(one, name, dynamic=dynamic and number not in self.exact)
                for number, (one, name) in enumerate(zip(descriptions, names, strict=True))
            ]
            params: list[Param | None] = [param for _, param in pairs]
            constants = dict(_constants(params))
            for number, value in constants.items():
                params[number] = ConstantParam(value)
            wanted: set[int] = set()
            typed = specialize(
                self.graph, [type_ for type_, _ in pairs], constants, self.compile_function, wanted
            )
            more = {
                n for n in wanted - self.constants if describe_constant(args[n]) != descriptions[n]
            }
            self.constants |= more
            extents = frozenset() if dynamic or self.depth else extent_inputs(typed)
            if not more and extents <= self.extents:
                break
            self.extents |= extents
        optimize(typed)
        log.graph_dump("specialize", f"{self.name} specialized", lambda: str(typed))
        assumed = typed.captures[len(self.graph.captures) :]
        plan: NativePlan | HostPlan | None = None
        same = same_extents(typed)
        if same:
            types = [renamed(type_, same) for type_, _ in pairs]
            narrow = specialize(self.graph, types, constants, self.compile_function, set())
            optimize(narrow)
            plan = self._native_plan(narrow, params, assumed)
        if plan is None:
            plan = self._plan(typed, params, assumed)
        else:
            typed = narrow
        key = _dynamic_key(descriptions, self.exact) if dynamic else descriptions
        form = tuple(structure(one) for one in self.describe(args))
        return Specialization(kind, key, form, typed, plan, assumed)

    def _symbol(self) -> str:
        """The next native function's name."""
        return f"{_identifier(self.name)}_{len(self.specializations)}"

    def _native_plan(
        self, typed: Graph, params: list[Param | None], assumed: Sequence[Capture]
    ) -> NativePlan | None:
        """One native function, or None where that does not do."""
        guards = (*self.captures, *filter(None, map(capture_guard, assumed)))
        contract = self.numerics() == "contract"
        name = self._symbol()
        try:
            return compile_native(typed, params, guards, name=name, contract=contract)
        except NotNative:
            return None

    def _plan(
        self, typed: Graph, params: list[Param | None], assumed: Sequence[Capture]
    ) -> NativePlan | HostPlan:
        contract = self.numerics() == "contract"
        name = self._symbol()
        if self.depth > MAX_DEPTH:
            return HostPlan(typed, build_host(typed), {})
        try:
            guards = (*self.captures, *filter(None, map(capture_guard, assumed)))
            native = compile_native(typed, params, guards, name=name, contract=contract)
        except NotNative:
            if self.depth:
                # A region is as small as it gets: there is no part to take out.
                return HostPlan(typed, build_host(typed), {})
            native = None
        return native or compile_host(
            typed,
            self._region,
            name=self.name,
            defer=self.depth < MAX_DEPTH,
            exact=self.exact,
        )

    def _region(self, graph: Graph, name: str, exact: frozenset[int]) -> Callable[..., Any]:
        """The callable for a native region of a host program."""
        return Executor(
            graph,
            name=name,
            fallback=build_host(graph),
            compile_function=self.compile_function,
            numerics=self.numerics,
            depth=self.depth + 1,
            exact=exact,
        )

    def _chain(self) -> None:
        """Bind the entries anew, the youngest specialization first."""
        following: Callable[..., Any] = self.miss
        self._receivers.clear()
        for one in self.specializations:
            if isinstance(one.plan, NativePlan) and None not in map(capture_guard, one.assumed):
                following = self._bind(one, following)
                self._receivers.add(id(following.__self__))  # type: ignore[attr-defined]
        self.entry = following
        self._publish()

    def is_receiver(self, address: int) -> bool:
        """Whether this is the receiver of one of the entries, as the runtime notes it."""
        return address in self._receivers

    def _bind(self, found: Specialization, following: Callable[..., Any]) -> Callable[..., Any]:
        """A native plan's entry, with what it calls where its guards do not hold."""
        assert isinstance(found.plan, NativePlan)
        handler = self._error_handler(found)
        return bind(found.plan.address, self.name, following, handler, owner=found.plan)

    def _error_handler(self, found: Specialization) -> Callable[..., Any]:
        """What a native function that could not finish leads to."""
        assert isinstance(found.plan, NativePlan)
        lowered = found.plan.kernel.lowered

        def handle(status: int, payload: int, *args: Any) -> Any:
            site = lowered.sites[status - 1]
            if not site.after_write:
                try:
                    return self.fallback(*args)
                except Exception as error:
                    raise for_user(error)  # noqa: B904  # it is the same one
            numbers = (ctypes.c_int64 * site.payload).from_address(payload)
            raise at_place(site.make(list(numbers)), site.source)

        return handle


def capture_guard(capture: Capture) -> CaptureGuard | None:
    """The compiled check of a capture, where its place is known."""
    if capture.container is None:
        return None
    expected = ABSENT if capture.value is MISSING else capture.value
    is_input = capture.input is not None
    return CaptureGuard(capture.container, capture.key, None if is_input else expected, is_input)


def _constants(params: Sequence[Param | None]) -> Iterator[tuple[int, Any]]:
    for number, param in enumerate(params):
        known, value = constant_of(param)
        if known:
            yield number, value


def _dynamic_key(
    descriptions: tuple[Description, ...], exact: frozenset[int]
) -> tuple[Description, ...]:
    return tuple(
        one if number in exact else _without_extents(one) for number, one in enumerate(descriptions)
    )


def _without_extents(description: Description) -> Description:
    if description[0] == "array":
        kind, dtype, shape, layout = description
        return (kind, dtype, tuple(1 if extent == 1 else None for extent in shape), layout)
    if description[0] == "tuple":
        return (*description[:2], *(_without_extents(item) for item in description[2:]))
    return description


def _symbol_prefix(name: str) -> str:
    """What the symbols of an input's dims start with: no two inputs have the same."""
    return f"%{name}." if name.isdecimal() else name


def _identifier(name: str) -> str:
    text = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
    return text if text and not text[0].isdigit() else f"f{text}"
