"""Calls: from arguments to the plan that was compiled for them.

An ``Executor`` owns a graph and the specializations made of it.  The native ones form a chain of
guarded entries, each passing a call it was not compiled for to the next, and at the end of the
chain stands ``Executor.run``, which describes the arguments, decides by the fusion strategy
whether to compile once more, and otherwise runs the function unfused.
"""

from __future__ import annotations

import importlib
import itertools
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from jitcore.codegen.entries.entry import ABSENT, CaptureGuard, bind
from jitcore.codegen.entries.signature import Param
from jitcore.codegen.runtime.functions import foresee_runtime
from jitcore.devices import device_number
from jitcore.execution import stored_plans, strategy
from jitcore.execution.argument_code import ArgumentCode
from jitcore.execution.collector import waiting_collector
from jitcore.execution.describing import Describer
from jitcore.execution.description_keys import dynamic_key
from jitcore.execution.error_handlers import error_handler
from jitcore.execution.function_states import FunctionState
from jitcore.execution.host_entries import bind_host_entries, comes_again, host_entry
from jitcore.execution.known_extents import KnownExtents
from jitcore.execution.plans import HostPlan, NativePlan
from jitcore.execution.signatures import (
    Description,
    structure,
)
from jitcore.execution.specializations import Specialization, StoredSpecialization
from jitcore.execution.trials import Trial
from jitcore.frontend.constants import wrapped_function
from jitcore.ir.classes import MISSING
from jitcore.ir.graph import Capture, Graph, SourceRange

if TYPE_CHECKING:
    from jitcore.execution.methods_apart import MethodForms
    from jitcore.ir.specialize.specialize import CompileFunction

WithoutCompiled = Callable[[Sequence[object]], Callable[..., Any] | None]

__all__ = ["Executor", "Specialization", "StoredSpecialization", "capture_guard", "guards_of"]

MAX_FRUITLESS = 8
"""How many calls of a region may find nothing native in it before no more look."""

MAX_WRONG = 4
"""How many calls in which extents are not what kernels assume are left to Python."""

MAX_SPECIALIZATIONS = 256
"""A limit over all structures of arguments, against programs that call with ever new constants."""


_alive: weakref.WeakSet[Executor] = weakref.WeakSet()


def _unlock() -> None:
    """In a forked process nobody compiles any more who has locked an executor in another thread."""
    for one in list(_alive):
        # Who forks in the middle of a compilation goes on with the lock that he has.
        one._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)


def compilation() -> Any:
    """The module that compiles, which calls of what is known do not need."""
    return importlib.import_module("jitcore.execution.compilation")


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
    idle : set, optional
        A region adds itself where there turns out to be nothing native in it.
    left : set, optional
        Takes the places of loops that turn out to be left to Python.
    is_plain : bool
        Whether ``fallback`` is plain Python, which takes nothing for granted.
    methods : MethodForms, optional
        What host programs call methods of objects by.
    without_compiled : callable
        Gives what does the same as ``fallback`` without these compiled functions; None without.

    Attributes
    ----------
    waits : bool
        Whether this is a region made of what had no types before it was called.
    describer : Describer
        What tells arguments of calls from one another.
    on_device : bool
        Whether this runs calls with arrays on a device.
    replays : bool
        Whether calls with arrays on a device are recorded when they come again.
    apart : dict
        Functions that host programs call, instead of doing what they do, and their compiled forms.
    parted : frozenset of int
        The numbers of the arguments that are Python's and that regions may take apart, lists and
        objects, while that is compiled.
    refusal : str
        Why the lists and texts in the arguments are Python's, while that is compiled.
    assumes : bool
        Whether kernels take extents for equal that have to be as a rule, and leave other calls.
    """

    on_device: ClassVar = False

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
        idle: set[Any] | None = None,
        left: set[SourceRange] | None = None,
        is_plain: bool = True,
        methods: MethodForms | None = None,
        without_compiled: WithoutCompiled = lambda _: None,
    ) -> None:
        self.graph = graph
        self.argument_code = ArgumentCode(graph)
        captured = {one.input for one in graph.captures if one.input is not None}
        self.captured_inputs = len(captured)
        self.exact = exact | {n for n, value in enumerate(graph.inputs) if value in captured}
        self.name = name
        self.fallback = fallback
        self.is_plain = is_plain
        self.captures = captures
        self.compile_function = compile_function
        self.numerics = numerics
        self.depth = depth
        self.waits = depth > 0 and compilation().waits_for_types(graph)
        self.idle = set() if idle is None else idle
        self.left = set() if left is None else left
        self.apart: dict[Callable[..., Any], Any] = {}
        self.methods = methods
        self._without_compiled = without_compiled
        self.miss = miss or self._run_positional
        self._publish = publish
        self._receivers: set[int] = set()
        self.entry: Callable[..., Any] = self.miss
        self.specializations: list[Specialization] = []
        self._refused = HostPlan(graph, fallback, is_plain=is_plain)
        self._static: dict[tuple[Description, ...], Specialization] = {}
        self._dynamic: dict[tuple[Description, ...], Specialization] = {}
        self._counts: dict[tuple[Description, ...], int] = {}
        self._extents = KnownExtents(self.exact)
        self._known: tuple[Description, ...] = ()
        self.describer = Describer(
            graph,
            compile_function,
            captured=len(captured),
            depth=depth,
            takes_lists=depth == 0 or compilation().takes_lists(graph),
            takes_objects=depth == 0 or compilation().takes_objects(graph),
            on_device=self.on_device,
        )
        self.parted: frozenset[int] = frozenset()
        self.refusal = ""
        self.replays = False
        self.assumes = True
        self._fruitless = self._wrong = 0
        self._devices: dict[int, Executor] = {}
        self._remade: int | None = None
        self._lock = threading.RLock()
        _alive.add(self)

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
        device = device_number((*args, *captured) if captured else args)
        if device is not None:
            return self._on_device(device).run(args, captured)
        if self.left and not self.depth:
            self._take_functions_apart()
        found = self.specialization((*args, *captured))
        if self.depth and (found is None or compilation().is_fruitless(found.plan)):
            self._note_fruitless()
        if found is None:
            return self.fallback(*args)
        if isinstance(found.plan, HostPlan):
            if self._calls_plain_methods(found.plan):
                self.drop(found)
                return self.run(args, captured)
            if found.plan.idle:
                self._take_idle_regions_out(found.plan)
            if not self.on_device and comes_again(found.plan, args):
                is_known = self.argument_code.is_known(args)
                if not is_known and not self.depth:
                    compilation().leave_single_numbers(self, found.plan)
                is_known |= found.plan.is_plain
                self._enter_directly(found, found.plan, (*args, *captured), is_known)
            return found.plan.run(*args, *captured)
        # The entry has refused this call, or is new.
        if not (self.on_device or captured) and comes_again(self._refused, args):
            self._enter_directly(found, self._refused, args, self._refused.is_plain)
        return found.direct(*args)

    def _take_functions_apart(self) -> None:
        with self._lock:
            if self.left and compilation().take_functions_apart(self):
                for one in [one for one in self.specializations if isinstance(one.plan, HostPlan)]:
                    self._forget(one)

    def _calls_plain_methods(self, plan: HostPlan) -> bool:
        """Whether none of the methods that a program calls by their forms has one any more."""
        methods = self.methods
        return methods is not None and bool(plan.methods) and methods.are_plain(plan.methods)

    def drop(self, found: Specialization) -> None:
        """Forget a specialization, so that the next call like its first one makes another."""
        with self._lock:
            if any(one is found for one in self.specializations):  # as another thread may have done
                self._forget(found)

    def _take_idle_regions_out(self, plan: HostPlan) -> None:
        with self._lock:
            if plan.idle:  # no other thread has done it meanwhile
                compilation().take_idle_regions_out(self, plan)
                self._chain()

    def _enter_directly(
        self, found: Specialization, plan: HostPlan, values: tuple[Any, ...], is_known: bool
    ) -> None:
        """Give a program of Python's an entry for calls like this one."""
        if None in map(capture_guard, found.assumed):
            return
        guards = (*self.captures, *guards_of(found.assumed, found.code))
        with self._lock:
            name = f"{self._symbol()}_host{len(plan.entries)}"
            entry = host_entry(found.key, values, guards, is_known=is_known, name=name)
            plain = None if entry is None else self._opponent(plan)
            if entry is not None and plain is not None:
                own = self.argument_code.parameters
                entry.trial = Trial(plain, len(values), own, self.chain)
            plan.entries += [] if entry is None else [entry]
            self._chain()

    def _opponent(self, plan: HostPlan) -> Callable[..., Any] | None:
        """The plain function that may do what a program does, if it does that sooner.

        It calls plain functions only: those that are compiled would be so for themselves.
        """
        only_compiled = self.graph.only_compiled or plan.graph.only_compiled
        if not self.is_plain or self.depth or plan.is_plain or only_compiled:
            return None
        known = (one.value for one in self.graph.captures)
        compiled = [one for one in known if wrapped_function(one) not in (None, one)]
        return self._without_compiled(compiled) if compiled else self.fallback

    def _on_device(self, device: int) -> Executor:
        """The executor of this graph for a device."""
        found = self._devices.get(device)
        if found is None:
            with self._lock:
                module = importlib.import_module("jitcore.cuda.executor")
                found = self._devices.setdefault(device, module.DeviceExecutor(self, device))
        return found

    def placed(self, values: tuple[Any, ...]) -> tuple[Executor, tuple[Any, ...]]:
        """The executor for the place where arrays lie, and the values as it describes them."""
        device = device_number(values)
        if device is not None:
            return self._on_device(device).placed(values)
        return self, values

    def everywhere(self) -> list[Executor]:
        """This executor, and those of the same graph for devices."""
        return [self, *self._devices.values()]

    @property
    def place(self) -> str:
        """The name of the device that calls run on; empty for the host."""
        return ""

    def wait(self) -> None:
        """Wait until calls have done all their work, which on the host they have."""

    def _note_fruitless(self) -> None:
        """Note that looking at a region's values led to nothing native; give up after some."""
        self._fruitless += 1
        if self._fruitless < MAX_FRUITLESS:
            return
        self.miss = self.fallback
        self._chain()
        if self.waits and self.entry is self.fallback:
            self.idle.add(self)

    def note_wrong(self, plan: NativePlan) -> None:
        """Note a call in which extents that a kernel takes for equal were not; give up after some.

        The next one like it gets a kernel that assumes nothing.
        """
        with self._lock:
            self._wrong += 1
            found = next((one for one in self.specializations if one.plan is plan), None)
            if self._wrong >= MAX_WRONG and found is not None:
                self.assumes = False
                self._forget(found)

    def _run_positional(self, *args: Any) -> Any:
        return self.run(args)

    def specialization(self, args: tuple[Any, ...]) -> Specialization | None:
        """The specialization for these arguments, made now if the strategy allows another."""
        with self._lock:
            describer = self.describer
            descriptions = describer.describe(args)
            exact = describer.describe(args, static=True) if describer.extents else descriptions
            found = self._find(exact, descriptions)
            if found is not None:
                return found
            kind = self._kind_of_next(descriptions)
            if kind is None or len(self.specializations) >= MAX_SPECIALIZATIONS:
                return None
            form, count = tuple(map(structure, descriptions)), self._count(descriptions)
            keys = self._dynamic_keys(form)
            self._known = self._extents.note(form, descriptions, keys, count)
            with waiting_collector():
                made = self._specialize(args, kind)
            self._remember(made)
            return made

    def _find(
        self, exact: tuple[Description, ...], descriptions: tuple[Description, ...]
    ) -> Specialization | None:
        # Which ints are extents may have turned out after a specialization was made.
        found = self._static.get(exact) or self._static.get(descriptions)
        found = self._holding(found)
        if found is None and self._dynamic:
            form = tuple(map(structure, descriptions))
            known = self._dynamic_keys(form)
            keys = (dynamic_key(descriptions, self.exact, one) for one in known)
            found = self._holding(next(filter(None, map(self._dynamic.get, keys)), None))
        return found

    def _dynamic_keys(self, form: tuple[Description, ...]) -> list[tuple[Description, ...]]:
        """The keys of the dynamic kernels for a structure, in the order they were made in."""
        return [key for key, one in self._dynamic.items() if one.form == form]

    def _kind_of_next(self, descriptions: tuple[Description, ...]) -> str | None:
        """The kind of a specialization for arguments, or None where there may be none any more."""
        form, count = tuple(map(structure, descriptions)), self._count(descriptions)
        kind = strategy.kind_of(strategy.current(), count)
        made = self._dynamic_keys(form)
        key = None if kind else self._extents.replaceable(descriptions, made, count)
        if key is None:
            return kind
        self._forget(self._dynamic[key])
        return "DYNAMIC"

    def key_for(self, descriptions: tuple[Description, ...], kind: str) -> tuple[Description, ...]:
        """The key of a specialization of a kind that is made for arguments now."""
        is_dynamic = kind == "DYNAMIC"
        return dynamic_key(descriptions, self.exact, self._known) if is_dynamic else descriptions

    def _holding(self, found: Specialization | None) -> Specialization | None:
        """A specialization, unless what it was built from has changed."""
        if found is None or found.holds():
            return found
        self._forget(found)
        return None

    def _count(self, descriptions: tuple[Description, ...]) -> int:
        """How many specializations there are for arguments of this structure."""
        return self._counts.get(tuple(structure(one) for one in descriptions), 0)

    def _remember(self, made: Specialization) -> None:
        if isinstance(made.plan, NativePlan):
            # This waits for machine code, and the child of a fork finds nothing that is half made.
            made.direct = self._bind(made, self.fallback)
        form = made.form
        self._counts[form] = self._counts.get(form, 0) + 1
        self.specializations.append(made)
        (self._static if made.kind == "STATIC" else self._dynamic)[made.key] = made
        self._chain()

    def _forget(self, stale: Specialization) -> None:
        """Drop a specialization that was built from something that has changed."""
        self._counts[stale.form] -= 1
        self.specializations.remove(stale)
        del (self._static if stale.kind == "STATIC" else self._dynamic)[stale.key]
        self._chain()

    def _specialize(self, args: tuple[Any, ...], kind: str) -> Specialization:
        """Compile for these arguments; lists are taken apart only in functions all native."""
        self.describer.forget_classes()
        made = self._attempt(args, kind, is_native=True)
        if made is None:
            self.describer.leave_lists(args)
            made = self._attempt(args, kind, is_native=False)
        assert made is not None
        if isinstance(made.plan, HostPlan) and not self.depth:
            compilation().take_functions_apart(self)
            made = (self._attempt(args, kind, is_native=False) if self.apart else None) or made
        return made

    def _attempt(
        self, args: tuple[Any, ...], kind: str, *, is_native: bool
    ) -> Specialization | None:
        """Compile for these arguments, or find what another process has compiled for them."""
        stored = self._stored(args, kind) if is_native else None
        if stored is not None:
            return stored
        foresee_runtime()
        asked = self._asked(args, kind)
        made: Specialization | None
        made = compilation().attempt(self, args, kind, is_native=is_native)
        if made is not None and is_native:
            self._store(asked, made)
        return made

    def _stored(self, args: tuple[Any, ...], kind: str) -> Specialization | None:
        """What another process has compiled for these arguments, or None."""
        if self.on_device:
            return None
        describer = self.describer
        while True:
            key = self._asked(args, kind)
            found = stored_plans.load(self._subject(kind), key)
            if not isinstance(found, stored_plans.StoredConstants):
                break
            if found.constants <= describer.constants and found.extents <= describer.extents:
                return None
            describer.constants |= found.constants
            describer.extents |= found.extents
        if found is None:
            return None
        number = len(self.specializations)

        def remake() -> Specialization:
            with self._lock:
                self._remade = number
                try:
                    made = compilation().attempt(self, (), kind, is_native=True, known=key)
                finally:
                    self._remade = None
            assert isinstance(made, Specialization)
            return made

        form = tuple(map(structure, describer.describe(args)))
        return StoredSpecialization(kind, key, form, found, remake)

    def _store(self, asked: tuple[Description, ...], made: Specialization) -> None:
        """Keep what was compiled for other processes."""
        if self.on_device or made.assumed or not isinstance(made.plan, NativePlan):
            return
        subject, describer = self._subject(made.kind), self.describer
        if asked != made.key:
            known = stored_plans.StoredConstants(describer.constants, describer.extents)
            stored_plans.store(subject, asked, known)
        stored_plans.store(subject, made.key, made.plan)

    def _asked(self, args: tuple[Any, ...], kind: str) -> tuple[Description, ...]:
        """The key of a specialization of a kind for arguments, by what is known of the graph."""
        return self.key_for(self.describer.describe(args, static=kind == "STATIC"), kind)

    def _subject(self, kind: str) -> stored_plans.Subject:
        contract = self.numerics() == "contract"
        exact = tuple(sorted(self.exact))
        settings = (self._symbol(), kind, contract, self.depth, exact, self.assumes)
        return stored_plans.Subject(self.graph, self.captures, settings)

    def _symbol(self) -> str:
        """The next native function's name, or that of one that is made again."""
        number = len(self.specializations) if self._remade is None else self._remade
        return f"{_identifier(self.name)}_{number}"

    def _native_plan(
        self, typed: Graph, params: list[Param | None], guards: Sequence[CaptureGuard]
    ) -> NativePlan | None:
        """One native function, or None where that does not do."""
        made: NativePlan | None
        made = compilation().native_plan(self, self._symbol(), typed, params, guards)
        return made

    def _plan(
        self, typed: Graph, params: list[Param | None], guards: Sequence[CaptureGuard]
    ) -> NativePlan | HostPlan:
        """One native function, or a host program."""
        made: NativePlan | HostPlan
        made = compilation().plan(self, self._symbol(), typed, params, guards)
        return made

    def _unfused_plan(self, typed: Graph) -> HostPlan:
        """The plan where nothing may be compiled."""
        made: HostPlan
        made = compilation().unfused_plan(self, typed)
        return made

    def chain(self) -> None:
        """Bind the entries anew, after some for devices have changed."""
        with self._lock:
            self._chain()

    def _chain(self) -> None:
        """Bind the entries anew: those that know more extents are asked before others."""
        following: Callable[..., Any] = self.miss
        self._receivers.clear()
        for device in list(self._devices.values()):
            following = device.direct_calls(following)
        plans = [one.plan for one in self.specializations if isinstance(one.plan, HostPlan)]
        plans.append(self._refused)
        bound = bind_host_entries(plans, following, self.argument_code, name=self.name)
        # The last one is asked first.  Dynamic ones know fewer and fewer extents.
        static, dynamic = (
            [one for one in self.specializations if one.kind == kind]
            for kind in ("STATIC", "DYNAMIC")
        )
        for one in (*reversed(dynamic), *static):
            if isinstance(one.plan, NativePlan) and None not in map(capture_guard, one.assumed):
                bound.append(self._bind(one, bound[-1] if bound else following))
        self._receivers.update(id(one.__self__) for one in bound)  # type: ignore[attr-defined]
        self.entry = bound[-1] if bound else following
        self._publish()

    def direct_calls(self, following: Callable[..., Any]) -> Callable[..., Any]:
        """The entry of calls with arrays on this executor's device that need nothing of Python."""
        return following

    def is_receiver(self, address: int) -> bool:
        """Whether this is the receiver of one of the entries, as the runtime notes it."""
        return address in self._receivers

    def _bind(self, found: Specialization, following: Callable[..., Any]) -> Callable[..., Any]:
        """A native plan's entry, with what it calls where its guards do not hold."""
        assert isinstance(found.plan, NativePlan)
        loops = compilation().loops_of(self.graph) if self.depth else set()
        handler = error_handler(self, found.plan, loops)
        return bind(found.plan.address, self.name, following, handler, owner=found.plan)


def capture_guard(capture: Capture) -> CaptureGuard | None:
    """The compiled check of a capture, where its place is known."""
    if capture.container is None:
        return None
    expected = ABSENT if capture.value is MISSING else capture.value
    is_input = capture.input is not None
    return CaptureGuard(capture.container, capture.key, None if is_input else expected, is_input)


def guards_of(
    captures: Sequence[Capture], code: Sequence[FunctionState]
) -> tuple[CaptureGuard, ...]:
    """The compiled checks of captures, where their places are known, and of functions in them."""
    guards = filter(None, map(capture_guard, captures))
    return (*guards, *itertools.chain.from_iterable(one.guards() for one in code))


def _identifier(name: str) -> str:
    text = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
    return text if text and not text[0].isdigit() else f"f{text}"
