"""What an executor does about arguments that nothing was compiled for.

It stands apart because all that compiles is imported with it; calls of functions that are in the
cache on disk do without.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

from jitcore.codegen.entries.entry import CaptureGuard
from jitcore.codegen.entries.signature import ConstantParam, Param
from jitcore.codegen.host import build_host
from jitcore.codegen.lower import NotNative
from jitcore.codegen.lowering.attributes import AttributesNotNoted
from jitcore.execution.executor import Executor, Specialization, guards_of
from jitcore.execution.function_states import states_of
from jitcore.execution.functions_apart import functions_with, loops_of, with_functions_apart
from jitcore.execution.plans import HostPlan, NativePlan
from jitcore.execution.signatures import (
    Description,
    constant_of,
    describe_constant,
    structure,
    type_and_param,
)
from jitcore.fusers.compared_tuples import WHICH_TUPLE, question_of_tuples
from jitcore.fusers.regions import (
    has_much_to_do,
    is_light,
    takes_lists,
    takes_objects,
    waits_for_types,
    works_on_arrays,
)
from jitcore.ir import log
from jitcore.ir.dataclass import dataclass
from jitcore.ir.extent_inputs import extent_inputs
from jitcore.ir.graph import Graph
from jitcore.ir.passes.same_extents import renamed, same_extents
from jitcore.ir.specialize.specialize import LayerFunctions, specialize
from jitcore.ir.specialize.value_kinds import OBJECT_TYPES
from jitcore.ir.types import ANY, ListType, Type
from jitcore.pipeline import (
    compile_host,
    compile_native,
    optimize,
    without_idle_regions,
    without_regions,
)

__all__ = [
    "attempt",
    "is_fruitless",
    "leave_single_numbers",
    "native_plan",
    "plan",
    "region",
    "take_functions_apart",
    "take_idle_regions_out",
    "takes_lists",
    "takes_objects",
    "unfused_plan",
    "waits_for_types",
]

MAX_DEPTH = 3
"""How deep regions that wait for types may lie inside one another."""


def attempt(
    executor: Executor,
    args: tuple[Any, ...],
    kind: str,
    *,
    is_native: bool,
    known: tuple[Description, ...] | None = None,
) -> Specialization | None:
    """Compile for arguments, taking those as constants that have to be.

    Parameters
    ----------
    executor : Executor
    args : tuple
    kind : str
        ``"STATIC"`` or ``"DYNAMIC"``.
    is_native : bool
        The graph may take lists apart and make some, and have no objects where the function has
        some.  If it does, and not all of it turns out to be native, there is no specialization.
    known : tuple, optional
        The key, where it was compiled for that before; ``args`` is not looked at then.
    """
    signature, typed, refusals = _typed(executor, args, kind, known, is_native=is_native)
    log.graph_dump("specialize", f"{executor.name} specialized", lambda: str(typed))
    assumed = typed.captures[len(executor.graph.captures) :]
    code = states_of(one.value for one in assumed)
    guards = guards_of(assumed, code)
    plan: NativePlan | HostPlan | None = None
    same = same_extents(typed)
    if same:
        types = [renamed(type_, same) for type_ in signature.types]
        narrow = signature.specialize(types)
        optimize(narrow)
        plan = signature.native_plan(narrow, types, guards)
    takes_apart = any(isinstance(one, (ListType, *OBJECT_TYPES)) for one in signature.types)
    if plan is not None:
        typed = narrow
    elif takes_apart or typed.must_be_native:
        plan = signature.native_plan(typed, signature.types, guards)
    elif (question := question_of_tuples(typed)) is not None:
        question.host_reason = WHICH_TUPLE
        plan = executor._unfused_plan(typed)
    else:
        executor.parted = _parted_inputs(executor, signature.types, args)
        if executor.methods is not None:
            executor.methods.know(args)
        plan = executor._plan(typed, signature.params, guards)
    if plan is None:
        executor.refusal = next(chain(refusals, _reasons(typed)), "")
        return None
    if isinstance(plan, HostPlan):
        plan.refusal = next(chain(filter(None, [executor.refusal]), refusals), "")
        executor.refusal = ""
        executor.left |= loops_of(plan.graph)
    key = signature.key
    form = tuple(map(structure, key if known else executor.describer.describe(args)))
    return Specialization(kind, key, form, typed, plan, assumed, code)


@dataclass(slots=True)
class _Signature:
    """What the inputs of an executor's graph are in a specialization.

    ``graph`` is that graph, with calls of the functions that are compiled for themselves, and
    ``key`` has the descriptions of the inputs.

    ``params`` tells how a native entry reads each of them, and ``constants`` has those that are
    what they were in the first call.
    """

    executor: Executor
    graph: Graph
    is_native: bool
    key: tuple[Description, ...]
    types: list[Type]
    params: list[Param | None]
    constants: dict[int, Any]

    def specialize(
        self,
        types: Sequence[Type],
        wanted: set[int] | None = None,
        refusals: list[str] | None = None,
        *,
        notes_attributes: bool = False,
    ) -> Graph:
        """The graph with the types that follow from those of its inputs."""
        executor = self.executor
        return specialize(
            self.graph,
            types,
            self.constants,
            executor.compile_function,
            set() if wanted is None else wanted,
            layer_functions=_layer_functions(executor),
            is_native=self.is_native,
            notes_attributes=notes_attributes,
            refusals=refusals,
        )

    def native_plan(
        self, graph: Graph, types: Sequence[Type], guards: Sequence[CaptureGuard]
    ) -> NativePlan | None:
        """One native function of a graph that was made for these types, or None."""
        try:
            return self.executor._native_plan(graph, self.params, guards)
        except AttributesNotNoted:
            noted = self.specialize(types, notes_attributes=True)
            optimize(noted)
            return self.executor._native_plan(noted, self.params, guards)


def _signature(executor: Executor, key: tuple[Description, ...], *, is_native: bool) -> _Signature:
    names = [_symbol_prefix(value.name) for value in executor.graph.inputs]
    pairs = [type_and_param(one, name) for one, name in zip(key, names, strict=True)]
    params: list[Param | None] = [param for _, param in pairs]
    constants = dict(_constants(params))
    for number, value in constants.items():
        params[number] = ConstantParam(value)
    types = [type_ for type_, _ in pairs]
    graph = executor.graph
    if executor.apart and not is_native:
        graph = with_functions_apart(graph, executor.apart)
    return _Signature(executor, graph, is_native, key, types, params, constants)


def _typed(
    executor: Executor,
    args: tuple[Any, ...],
    kind: str,
    known: tuple[Description, ...] | None,
    *,
    is_native: bool,
) -> tuple[_Signature, Graph, list[str]]:
    """The typed graph, what it is typed for, and why it takes no lists apart.

    Typing finds out which inputs have to be constants and which extents known; it starts anew then.
    """
    dynamic = kind == "DYNAMIC"
    describer = executor.describer
    while True:
        descriptions = known or describer.describe(args, static=not dynamic)
        key = known or executor.key_for(descriptions, kind)
        signature = _signature(executor, key, is_native=is_native)
        wanted: set[int] = set()
        refusals: list[str] = []
        typed = signature.specialize(signature.types, wanted, refusals)
        unknown = wanted - describer.constants
        more = {n for n in unknown if describe_constant(args[n]) != descriptions[n]}
        describer.constants |= more
        extents = frozenset() if dynamic or executor.depth else extent_inputs(typed)
        if not more and extents <= describer.extents:
            optimize(typed)
            return signature, typed, refusals
        describer.extents |= extents


def _parted_inputs(
    executor: Executor, types: Sequence[Type], args: Sequence[Any]
) -> frozenset[int]:
    """The numbers of the arguments that are Python's, and that regions may take apart."""
    pairs = enumerate(zip(types, args, strict=False))
    may_part = executor.describer.may_part
    return frozenset(n for n, (type_, one) in pairs if type_ == ANY and may_part(n, one))


def _layer_functions(executor: Executor) -> LayerFunctions:
    """Some kernels of layers are for processors only."""
    return "device" if executor.on_device else "kernels"


def _reasons(typed: Graph) -> Iterator[str]:
    """Why a graph is not native from end to end, in words that go on after a colon."""
    for node in typed.nodes():
        if node.host_reason is not None:
            place = f" in line {node.source.line}" if node.source is not None else ""
            yield f"not all of the function is native{place}: {node.host_reason}"


def native_plan(
    executor: Executor,
    name: str,
    typed: Graph,
    params: list[Param | None],
    guards: Sequence[CaptureGuard],
) -> NativePlan | None:
    """One native function, or None where that does not do."""
    contract = executor.numerics() == "contract"
    try:
        guards = (*executor.captures, *guards)
        return compile_native(
            typed, params, guards, name=name, contract=contract, assumes=executor.assumes
        )
    except NotNative:
        return None


def plan(
    executor: Executor,
    name: str,
    typed: Graph,
    params: list[Param | None],
    guards: Sequence[CaptureGuard],
) -> NativePlan | HostPlan:
    """One native function, or a host program."""
    contract = executor.numerics() == "contract"
    if executor.depth > MAX_DEPTH or (executor.waits and is_light(typed)):
        return HostPlan(typed, build_host(typed), {})
    try:
        guards = (*executor.captures, *guards)
        native = compile_native(
            typed, params, guards, name=name, contract=contract, assumes=executor.assumes
        )
    except NotNative:
        if executor.depth:
            # A region is as small as it gets: there is no part to take out.
            return HostPlan(typed, build_host(typed), {})
        native = None
    if native is not None:
        return native
    methods: frozenset[str] = frozenset()
    if executor.methods is not None:
        methods = executor.methods.mark(typed)
    host = compile_host(
        typed,
        functools.partial(region, executor),
        name=executor.name,
        defer=executor.depth < MAX_DEPTH,
        exact=executor.exact,
        parted=executor.parted,
        is_region=executor.depth > 0,
    )
    host.methods = methods
    _leave_to_python(executor, host)
    return host


def _leave_to_python(executor: Executor, plan: HostPlan) -> None:
    """Have the plain function run where nothing is compiled: no program does the same faster.

    It reads by itself what the graph captures.
    """
    if not plan.regions and _may_be_pythons(executor, plan):
        _run_plain(executor, plan)


def _run_plain(executor: Executor, plan: HostPlan) -> None:
    plain, captured = executor.fallback, executor.captured_inputs
    own = len(executor.graph.inputs) - captured
    plan.run = (lambda *values: plain(*values[:own])) if captured else plain
    plan.is_plain = executor.is_plain and not executor.depth


def unfused_plan(executor: Executor, typed: Graph) -> HostPlan:
    """The plan of what runs as it is, with nothing compiled and no tuple taken apart."""
    plan = HostPlan(typed, executor.fallback)
    if executor.graph.only_compiled:
        plan.run = build_host(specialize(executor.graph, [ANY] * len(executor.graph.inputs)))
    else:
        _run_plain(executor, plan)
    return plan


def _may_be_pythons(executor: Executor, plan: HostPlan) -> bool:
    """Whether the plain function does what a program does in which nothing is compiled."""
    # Functions that came in as arguments count as well; those are part of the program only.
    only_compiled = executor.graph.only_compiled or plan.graph.only_compiled
    return not (executor.depth or only_compiled or executor.apart or plan.methods)


def region(
    executor: Executor, graph: Graph, name: str, exact: frozenset[int], idle: set[Any]
) -> Callable[..., Any]:
    """The callable for a native region of a host program."""
    return Executor(
        graph,
        name=name,
        fallback=build_host(graph),
        compile_function=executor.compile_function,
        numerics=executor.numerics,
        depth=executor.depth + 1,
        exact=exact,
        idle=idle,
        left=executor.left,
    )


def take_functions_apart(executor: Executor) -> bool:
    """Have functions whose loops are left to Python called; gives whether there are more now."""
    if executor.depth or executor.on_device:
        return False
    known = executor.apart
    executor.apart = functions_with(executor.graph, executor.left, known, executor.numerics())
    executor.left.clear()
    return len(executor.apart) > len(known)


def take_idle_regions_out(executor: Executor, plan: HostPlan) -> None:
    """Put regions that turned out to be of no use back into the host program around them."""
    without_idle_regions(plan, functools.partial(region, executor), name=executor.name)
    _leave_to_python(executor, plan)


def leave_single_numbers(executor: Executor, plan: HostPlan) -> None:
    """Leave a program to Python whose regions compute a few single numbers only.

    Where each call has to look at the code in its arguments, that takes longer than it gains.
    """
    may_leave = executor.is_plain and _may_be_pythons(executor, plan)
    if may_leave and all(map(_takes_single_numbers, plan.regions.values())):
        with executor._lock:
            without_regions(plan)
            _leave_to_python(executor, plan)


def _takes_single_numbers(region: Executor) -> bool:
    """Whether a region has been called, with a few single numbers each time."""
    found = [one.typed for one in region.specializations]
    return bool(found) and not any(map(has_much_to_do, found))


def is_fruitless(plan: NativePlan | HostPlan) -> bool:
    """Whether a region is mostly Python's, and the rest too little to look for it at each call."""
    if not isinstance(plan, HostPlan):
        return False
    if plan.fruitless is None:
        plan.fruitless = not any(map(works_on_arrays, _region_graphs(plan)))
    return plan.fruitless


def _region_graphs(plan: HostPlan) -> Iterator[Graph]:
    return (node.attributes["graph"] for node in plan.regions)


def _constants(params: Sequence[Param | None]) -> Iterator[tuple[int, Any]]:
    for number, param in enumerate(params):
        known, value = constant_of(param)
        if known:
            yield number, value


def _symbol_prefix(name: str) -> str:
    """What the symbols of an input's dims start with: no two inputs have the same."""
    return f"%{name}." if name.isdecimal() else name
