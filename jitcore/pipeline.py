"""From a typed graph to something that can be called: the whole pipeline, in order.

``compile_native`` is the short road: the graph is native from end to end and becomes one function.
``compile_host`` is the long one: a Python program with native regions in it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, Protocol

from jitcore import config
from jitcore.codegen import loop_passes
from jitcore.codegen.engine import Effort, add_symbol, begin_module, vector_bits
from jitcore.codegen.entries.entry import CaptureGuard, Entry, ReleaseGil, make_entry
from jitcore.codegen.entries.signature import (
    ArrayParam,
    Layout,
    ListParam,
    ObjectParam,
    Param,
    Result,
    Signature,
    TupleParam,
    TupleResult,
)
from jitcore.codegen.host import build_host
from jitcore.codegen.loop_passes.library_copies import copy_by_library
from jitcore.codegen.loop_passes.needs import (
    Operations,
    has_known_stores,
    has_loops_beside,
    has_ordered_steps,
    has_parallel_loops,
    has_sums,
    has_temporaries,
)
from jitcore.codegen.loop_passes.outline import outline
from jitcore.codegen.loop_passes.traversal import has_loops
from jitcore.codegen.loops import Function
from jitcore.codegen.lower import Lowered, NotNative, UnknownOrder, lower
from jitcore.codegen.onednn.switch import onednn_fusion_enabled
from jitcore.codegen.printers.llvm import parameter_types, print_declaration, print_parts
from jitcore.codegen.processor import computes_in_halves, gains_by_prefetches
from jitcore.codegen.runtime.streams import largest_cache
from jitcore.codegen.targets import CPU, Target
from jitcore.execution.plans import HostPlan, Kernel, NativePlan
from jitcore.fusers.dissolve import dissolve
from jitcore.fusers.groups import Decision, fuse_groups
from jitcore.fusers.native_nodes import is_native_graph, refuse_bfloat16
from jitcore.fusers.regions import MIN_WEIGHT, partition
from jitcore.ir import log
from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.graph import FieldWrite, Graph, Node
from jitcore.ir.ops import REDUCTIONS, SCANS
from jitcore.ir.passes import run_where
from jitcore.ir.passes.cse import common_subexpression_elimination
from jitcore.ir.passes.dce import dead_code_elimination
from jitcore.ir.passes.equal_extents import join_equal_extents
from jitcore.ir.passes.whole_views import use_whole_arrays
from jitcore.ir.specialize.specialize import list_results
from jitcore.strict import check_strict_fusion

__all__ = [
    "Backend",
    "HostPlan",
    "Kernel",
    "NativePlan",
    "compile_host",
    "compile_native",
    "optimize",
    "without_idle_regions",
    "without_regions",
]

MakeRegion = Callable[[Graph, str, frozenset[int], set[Any]], Callable[..., Any]]
"""What makes a callable of a region's graph.

It gets a name, the inputs whose arrays have known extents, and a set for idle regions."""

_numbers = itertools.count()


def optimize(graph: Graph) -> None:
    """The passes every typed graph goes through before anything is grouped."""
    analysis = AliasAnalysis(graph)
    if common_subexpression_elimination(graph, analysis):
        # What is known of the graph that there was holds no longer.
        analysis = AliasAnalysis(graph)
    dead_code_elimination(graph, analysis)


def compile_native(
    graph: Graph,
    params: Sequence[Param | None],
    captures: Sequence[CaptureGuard],
    *,
    name: str,
    contract: bool,
    assumes: bool = True,
    backend: Backend | None = None,
) -> NativePlan | None:
    """Compile a typed graph to one native function; None where parts of it are not native.

    A node that turns out not to be is marked (``host_reason``) with the reason.  The name should be
    the same in each process, because object code on disk is found by its text.  With ``assumes``
    extents are taken for equal that have to be as a rule, and calls in which they are not are left
    to Python.

    Raises
    ------
    NotNative
        All nodes are native, but what the graph returns cannot leave a native function.
    """
    known = [param for param in params if param is not None]
    fused = graph.copy()
    list_results(fused)
    if len(known) < len(params) or not is_native_graph(fused):
        return None
    backend = backend or _Processor()
    if not backend.target.is_device and refuse_bfloat16(graph):
        return None
    # What Numba compiles is known to the whole process by its name.
    unique = f"{name}_{next(_numbers)}" if config.engine() == "numba" else name
    by_onednn = onednn_fusion_enabled() and not backend.target.is_device
    if by_onednn or _has_layers(fused):
        _layer_passes().use_layer_forms(fused, backend, by_onednn=by_onednn)
    if not backend.target.is_device:
        run_where(fused, "loop_products.multiply_before_loops", "np::matmul")
        run_where(fused, "summed_products.sum_computed_products", "np::matmul")
    join_equal_extents(fused)
    if assumes and not backend.target.is_device:
        run_where(
            fused, "assumed_extents.assume_equal_extents", "np::view", "np::full", "np::empty"
        )
    run_where(fused, "spread_scalars.use_spread_scalars", "np::broadcast_to")
    run_where(fused, "whole_powers.multiply_whole_powers", "np::power")
    use_whole_arrays(fused)
    run_where(fused, "common_reshapes.read_stored_values", "np::empty")
    run_where(fused, "common_reshapes.reshape_results", "np::reshape")
    if run_where(fused, "selected.compute_selected_in_place", "np::compress", "np::put_mask"):
        common_subexpression_elimination(fused)
    _unroll(fused)
    if not backend.target.is_device:
        _simplify_for_processors(fused)
    decisions: list[Decision] = []
    if by_onednn:
        _layer_passes().fuse_for_onednn(fused, captures, decisions)
    fuse_groups(fused, decisions, on_device=backend.target.is_device)
    check_strict_fusion(fused, decisions)
    log.graph_dump("fusion", "after fusion", lambda: str(fused))
    try:
        lowered = backend.lower(fused, _layouts(known), unique)
    except NotNative as reason:
        if reason.node is None:
            raise
        for node in _refused_nodes(reason, reason.node):
            node.origin.host_reason = str(reason)
        return None
    signature = _signature(known, lowered, fused.field_writes)
    release_gil = _release_gil(fused, lowered, known, backend.target)
    entry = make_entry(
        signature,
        lowered.function.name,
        name=unique,
        captures=captures,
        release_gil=release_gil,
        check_errstate=True,
    )
    kernel = backend.compile(lowered, entry, unique, contract)
    return NativePlan(fused, kernel, entry, signature, decisions, release_gil)


def _refused_nodes(reason: NotNative, node: Node) -> Sequence[Node]:
    """What the host program runs where a node does not lower.

    Which order an array has is known when the parts of a loop or a branch are regions of their own.
    """
    if isinstance(reason, UnknownOrder) and node.block is not None and node.block.owner is not None:
        return [node.block.owner]
    return node.attributes["graph"].block.nodes if node.kind == "prim::FusionGroup" else [node]


def _signature(
    params: Sequence[Param], lowered: Lowered, writes: Sequence[FieldWrite]
) -> Signature:
    """What the entry checks and gives: results that attributes become are the last ones."""
    marked = _marked(params, lowered)
    result, set_at_end = lowered.result, list[tuple[FieldWrite, Result]]()
    if writes:
        assert isinstance(result, TupleResult)
        result, *values = result.elements
        set_at_end += zip(writes, values, strict=True)
    late = tuple(number for number, one in enumerate(lowered.sites, start=1) if one.after_write)
    return Signature(
        marked,
        result,
        tuple(set_at_end),
        lowered.noted,
        lowered.element_writes,
        late,
        lowered.draws_globally,
    )


def _unroll(graph: Graph) -> None:
    """Short loops as straight lines; views of what they compute keep them loops, and go first."""
    if run_where(graph, "complex_parts.compute_complex_parts", "np::real", "np::imag"):
        common_subexpression_elimination(graph)
    run_where(graph, "unroll.unroll_array_loops", "prim::Loop")


def _simplify_for_processors(graph: Graph) -> None:
    """Parts, reductions and shifts in forms that a processor computes in fewer steps."""
    run_where(graph, "late_copies.read_copied_arrays", "np::copy")
    if run_where(graph, "sunk_stacks.sink_stacks", "np::concatenate"):
        common_subexpression_elimination(graph)
    if run_where(graph, "computed_parts.compute_parts", "np::view"):
        common_subexpression_elimination(graph)
    if run_where(graph, "last_of_scans.reduce_to_last", *SCANS):
        common_subexpression_elimination(graph)
    if run_where(graph, "whole_sums.sum_whole_numbers", "np::sum", "np::mean"):
        dead_code_elimination(graph)
    if run_where(graph, "short_reductions.expand_short_reductions", *REDUCTIONS):
        common_subexpression_elimination(graph)
    if run_where(graph, "parts_of_lookups.look_up_parts", "np::gather"):
        common_subexpression_elimination(graph)
    run_where(graph, "narrow_products.multiply_where_read", "np::matmul")
    if run_where(graph, "rolls.read_rolled_arrays", "np::concatenate"):
        dead_code_elimination(graph)
    run_where(graph, "updated_values.use_updated_values", "np::store")
    if run_where(graph, "computed_rolls.roll_operands", "np::rolled"):
        common_subexpression_elimination(graph)


def _has_layers(graph: Graph) -> bool:
    return any(node.kind.startswith("nn::") for node in graph.nodes())


def _layer_passes() -> Any:
    """What is done about layers, which few programs have and takes time to import."""
    return import_module("jitcore.layer_passes")


def _release_gil(
    graph: Graph, lowered: Lowered, params: Sequence[Param], target: Target
) -> ReleaseGil:
    """When a native function may take long: with large arrays, or where only its loops tell.

    Never on devices: it only asks for work there, and what waits for them gives the GIL up.

    Never where lists or objects get at the end what they have then.  Other threads would see the
    old values until then, and what they set meanwhile would be overwritten.  Nor where references
    to arrays of others are counted.
    """
    if graph.field_writes or lowered.element_writes or _writes_lists(graph) or lowered.referenced:
        return "never"
    if target.is_device:
        return "never"
    if not has_loops(lowered.function.body):
        return "never"
    has_arrays = any(isinstance(one, ArrayParam | TupleParam | ObjectParam) for one in params)
    return "large" if has_arrays and not graph.find_all_nodes("prim::Loop") else "always"


def _writes_lists(graph: Graph) -> bool:
    return any(map(graph.find_all_nodes, ("prim::ListWrite", "prim::ListWriteShared")))


class Backend(Protocol):
    """What makes code of graphs: the processor, or a device."""

    target: Target

    def convolves(self) -> bool:
        """Whether there is a library that may be asked for convolutions."""
        ...

    def lower(self, graph: Graph, layouts: Sequence[Layout | None], name: str) -> Lowered:
        """The native function of a grouped graph; NotNative where it has none."""
        ...

    def compile(self, lowered: Lowered, entry: Entry, name: str, contract: bool) -> Kernel:
        """Its machine code, with that of its entry."""
        ...


class _Processor:
    """The backend of the CPU."""

    target = CPU

    def convolves(self) -> bool:
        return False

    def lower(self, graph: Graph, layouts: Sequence[Layout | None], name: str) -> Lowered:
        return lower(graph, layouts, name=name)

    def compile(self, lowered: Lowered, entry: Entry, name: str, contract: bool) -> Kernel:
        return _compile(lowered, entry, name, contract)


def _compile(lowered: Lowered, entry: Entry, name: str, contract: bool) -> Kernel:
    """Machine code of a native function and its entry.

    Both come from the same loop nests: printed as LLVM code, which is compiled directly, or as
    Python source, which Numba compiles (``JITCORE_ENGINE=numba``).
    """
    if entry.operand_types != parameter_types(lowered.function):
        raise AssertionError(
            f"internal error: the entry of {name} passes {entry.operand_types}, "
            f"but the function takes {parameter_types(lowered.function)}"
        )
    owner: object = None
    if config.engine() == "numba":
        # Few ask for it, and to import what prints and compiles takes time.
        numba_printer = import_module("jitcore.codegen.printers.numba_cpu")
        address, owner, _ = numba_printer.compile_numba(lowered.function, contract=contract)
        add_symbol(lowered.function.name, address)
        parts: list[tuple[str, Effort]] = [(print_declaration(lowered.function), "loops")]
    else:
        function = _for_processors(lowered.function)
        # To compile them takes the GIL, and other threads must not run before the call is done.
        starts_late = entry.releases_gil
        parts = print_parts(outline(function), contract, vector_bits(), starts_late=starts_late)
    (text, effort), *beside = parts
    if has_loops(lowered.function.body):
        beside.append((print_declaration(lowered.function) + entry.text, "none"))
    else:
        # LLVM copies the function into its entry.
        declared = [one for symbol, one in entry.declarations.items() if f"@{symbol}(" not in text]
        text, effort = "\n".join([text, *declared, entry.definitions]), "loops"
    log.dump(name, "\n".join([text, *(one for one, _ in beside)]), ".ll")
    module = begin_module(text, name=name, effort=effort, beside=beside)
    module.when_loaded(entry.fill)
    return Kernel(name, lowered, module, owner)


def _for_processors(function: Function) -> Function:
    """The same loop nests, in forms in which a processor takes less time for them."""
    run, found = loop_passes.run_where, Operations()
    has_memory = has_temporaries(function.body)
    function = run(has_memory, "stack_memory.put_on_stack", function)
    function = run(has_loops_beside(function.body), "merged_nests.merge_nests", function)
    function = copy_by_library(function)
    function = run(found.has_choices(function.body), "range_cuts.cut_ranges", function)
    roots = found.has_roots(function.body)
    of_registers = vector_bits(), computes_in_halves()
    function = run(roots, "buffered_sums.buffer_sums", function, *of_registers)
    function = run(has_sums(function.body), "lane_sums.add_by_lanes", function)
    function = run(has_sums(function.body), "fused_sums.fuse_products", function)
    function = run(has_sums(function.body), "sums_apart.add_apart", function)
    waits = has_ordered_steps(function.body)
    function = run(waits, "rows_together.walk_rows_together", function)
    writes = has_known_stores(function.body)
    function = run(writes, "streaming.stream_results", function, largest_cache())
    function = run(writes, "shared_rows.share_rows", function)
    function = run(has_loops_beside(function.body), "row_turns.let_rows_take_turns", function)
    divides = found.has_quotients(function.body)
    function = run(divides, "shared_divisors.share_divisors", function, vector_bits())
    function = run(divides, "shared_divisor_rows.share_divisor_rows", function, vector_bits())
    function = run(roots, "estimated_roots.estimate_roots", function, *of_registers)
    function = run(has_sums(function.body), "row_phases.walk_in_phases", function)
    is_asked = has_sums(function.body) and gains_by_prefetches()
    function = run(is_asked, "prefetches.prefetch_blocks", function)
    return run(has_parallel_loops(function.body), "near_values.compute_near_values", function)


def _layouts(params: Sequence[Param]) -> list[Layout | None]:
    """One entry for each input of the function, tuples taken apart."""
    layouts: list[Layout | None] = []
    for param in params:
        if isinstance(param, TupleParam | ObjectParam):
            layouts += [None] * isinstance(param, ObjectParam)
            layouts.extend(_layouts(param.elements))
        else:
            layouts.append(param.layout if isinstance(param, ArrayParam) else None)
    return layouts


def _marked(params: Sequence[Param], lowered: Lowered) -> tuple[Param, ...]:
    """Mark the parameters that the function writes to, or puts into lists."""
    numbers = itertools.count()

    def mark(param: Param) -> Param:
        if isinstance(param, TupleParam):
            return TupleParam(tuple(mark(element) for element in param.elements), param.named)
        number = next(numbers)
        if isinstance(param, ObjectParam):
            return replace(param, elements=tuple(mark(element) for element in param.elements))
        is_written = number in lowered.written
        if isinstance(param, ArrayParam):
            return replace(param, written=is_written, referenced=number in lowered.referenced)
        if is_written and isinstance(param, ListParam):
            return replace(param, written=True)
        return param

    return tuple(mark(param) for param in params)


def compile_host(
    graph: Graph,
    make_region: MakeRegion,
    *,
    name: str,
    defer: bool,
    exact: frozenset[int],
    least_weight: float = MIN_WEIGHT,
    parted: frozenset[int] = frozenset(),
    is_region: bool = False,
) -> HostPlan:
    """Compile a typed graph to a Python program; its native regions are made by ``make_region``.

    It gets to know which inputs of a region are such as ``exact`` says of the graph's own.  The
    numbers of inputs that regions may take apart are ``parted``.
    """
    plan = HostPlan(graph, build_host)
    held = [graph.inputs[number] for number in parted]
    partition(graph, defer=defer, least_weight=least_weight, parted=held, is_region=is_region)
    dead_code_elimination(graph)
    # What has gone into a region is checked when that is compiled.
    check_strict_fusion(graph, [])
    _make_regions(plan, make_region, name, exact)
    return plan


def without_idle_regions(plan: HostPlan, make_region: MakeRegion, *, name: str) -> None:
    """Print a program anew that does by itself what regions only passed on to Python.

    What is inside a loop of them may become smaller regions.
    """
    _drop(plan, [node for node, region in plan.regions.items() if region in plan.idle])
    partition(plan.graph, given_up=plan.given_up)
    _make_regions(plan, make_region, name, exact=frozenset())


def without_regions(plan: HostPlan) -> None:
    """Print a program anew in which nothing is compiled."""
    _drop(plan, list(plan.regions))
    plan.run = _printed(plan)


def _drop(plan: HostPlan, dropped: Collection[Node]) -> None:
    """Give what is in some regions back to the program, which is still the one with them."""
    # Other threads may read what there was.
    plan.regions = {node: one for node, one in plan.regions.items() if node not in dropped}
    for node in dropped:
        plan.given_up.update(dissolve(node))
    plan.idle.clear()
    plan.fruitless = None


def _make_regions(
    plan: HostPlan, make_region: MakeRegion, name: str, exact: frozenset[int]
) -> None:
    """Compile what is a region in the graph and not in the plan, and the program around it."""
    graph = plan.graph
    log.graph_dump("regions", "after partition", lambda: str(graph))
    known = {value for number, value in enumerate(graph.inputs) if number in exact}
    found = graph.find_all_nodes("prim::NativeGroup")
    before, regions = plan.regions, dict[Node, Any]()
    for number, node in enumerate(found):
        inputs = frozenset(place for place, value in enumerate(node.inputs) if value in known)
        region_name = f"{name}_region{number}"
        regions[node] = before.get(node) or make_region(
            node.attributes["graph"], region_name, inputs, plan.idle
        )
    plan.regions = regions
    plan.run = _printed(plan)


def _printed(plan: HostPlan) -> Callable[..., Any]:
    """The program of a plan, whose graph stays as it is: its parts may become native later on."""
    graph, regions = plan.graph, plan.regions
    ranges = import_module("jitcore.ir.passes.python_ranges")
    if ranges.has_python_ranges(graph):
        twins = dict(zip(graph.nodes(), (graph := graph.copy()).nodes(), strict=True))
        regions = {twins[node]: one for node, one in regions.items()}
        ranges.use_python_ranges(graph)
    return build_host(graph, regions=regions)
