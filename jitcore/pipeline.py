"""From a typed graph to something that can be called: the whole pipeline, in order.

``compile_native`` is the short road: the graph is native from end to end and becomes one function.
``compile_host`` is the long one: a Python program with native regions in it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from jitcore import config
from jitcore.codegen.engine import CompiledModule, add_symbol, compile_module
from jitcore.codegen.entry import CaptureGuard, Entry, ReleaseGil, make_entry
from jitcore.codegen.host import build_host
from jitcore.codegen.loops import For, While
from jitcore.codegen.lower import Lowered, NotNative, lower
from jitcore.codegen.outline import outline
from jitcore.codegen.printers.llvm import parameter_types, print_declaration, print_module
from jitcore.codegen.printers.numba_cpu import compile_numba, print_function
from jitcore.codegen.signature import ArrayParam, Layout, Param, Signature, TupleParam
from jitcore.codegen.traversal import walk
from jitcore.fusers.groups import Decision, fuse_groups
from jitcore.fusers.regions import is_native_graph, partition
from jitcore.ir import log
from jitcore.ir.graph import Graph, Node
from jitcore.ir.passes.channels_last import keep_channels_last
from jitcore.ir.passes.cse import common_subexpression_elimination
from jitcore.ir.passes.dce import dead_code_elimination
from jitcore.ir.passes.epilogues import fuse_epilogues
from jitcore.ir.passes.expand_layers import expand_layers
from jitcore.ir.passes.selected import compute_selected_in_place
from jitcore.ir.passes.unroll import unroll_array_loops
from jitcore.ir.passes.whole_views import use_whole_arrays
from jitcore.strict import check_strict_fusion

__all__ = ["HostPlan", "Kernel", "NativePlan", "compile_host", "compile_native", "optimize"]

_numbers = itertools.count()

_HEADER = """\
{name}: a native function that jitcore made, as source for Numba.

Addresses are int64: a pointer to the first element for each array, and for the results."""


@dataclass(slots=True)
class Kernel:
    """One compiled native function, and the forms it had on the way.

    Parameters
    ----------
    name : str
    lowered : Lowered
        Its loop nests and what is known of them.
    module : CompiledModule
        The machine code.
    owner : object
        What keeps code alive that Numba compiled.
    """

    name: str
    lowered: Lowered
    module: CompiledModule
    owner: object = None

    @property
    def source(self) -> str:
        """The kernel as Numba source, which can be pasted into a file and run."""
        function = self.lowered.function
        return print_function(function, header=_HEADER.format(name=function.name))

    @property
    def llvm(self) -> str:
        """The optimized LLVM code."""
        return self.module.llvm

    @property
    def assembly(self) -> str:
        """The machine code as assembly text."""
        return self.module.assembly


@dataclass(slots=True)
class NativePlan:
    """A graph compiled to one native function behind a guarded entry."""

    graph: Graph
    kernel: Kernel
    entry: Entry
    signature: Signature
    decisions: list[Decision] = field(default_factory=list)

    @property
    def address(self) -> int:
        """Of the entry."""
        return self.kernel.module.address(self.entry.symbol)


@dataclass(slots=True)
class HostPlan:
    """A graph compiled to a Python program that calls native regions."""

    graph: Graph
    run: Callable[..., Any]
    regions: dict[Node, Any]


def optimize(graph: Graph) -> None:
    """The passes every typed graph goes through before anything is grouped."""
    common_subexpression_elimination(graph)
    dead_code_elimination(graph)


def use_kernels(graph: Graph) -> None:
    """Hand-made kernels in the place of layers, and all there is to gain around them."""
    if not expand_layers(graph):
        return
    keep_channels_last(graph)
    common_subexpression_elimination(graph)
    dead_code_elimination(graph)
    fuse_epilogues(graph)


def compile_native(
    graph: Graph,
    params: Sequence[Param | None],
    captures: Sequence[CaptureGuard],
    *,
    name: str,
    contract: bool,
) -> NativePlan | None:
    """Compile a typed graph to one native function; None where parts of it are not native.

    A node that turns out not to be is marked (``host_reason``) with the reason.  The name should be
    the same in each process, because object code on disk is found by its text.

    Raises
    ------
    NotNative
        All nodes are native, but what the graph returns cannot leave a native function.
    """
    known = [param for param in params if param is not None]
    if len(known) < len(params) or not is_native_graph(graph):
        return None
    # What Numba compiles is known to the whole process by its name.
    unique = f"{name}_{next(_numbers)}" if config.engine() == "numba" else name
    fused = graph.copy()
    use_kernels(fused)
    use_whole_arrays(fused)
    compute_selected_in_place(fused)
    unroll_array_loops(fused)
    decisions: list[Decision] = []
    fuse_groups(fused, decisions)
    check_strict_fusion(fused, decisions)
    log.graph_dump("fusion", "after fusion", lambda: str(fused))
    try:
        lowered = lower(fused, _layouts(known), name=unique)
    except NotNative as reason:
        if reason.node is None:
            raise
        reason.node.origin.host_reason = str(reason)
        return None
    signature = Signature(_with_writes(known, lowered.written), lowered.result)
    entry = make_entry(
        signature,
        lowered.function.name,
        name=unique,
        captures=captures,
        release_gil=_release_gil(fused, lowered, known),
        check_errstate=True,
    )
    kernel = _compile(lowered, entry, unique, contract)
    return NativePlan(fused, kernel, entry, signature, decisions)


def _release_gil(graph: Graph, lowered: Lowered, params: Sequence[Param]) -> ReleaseGil:
    """When a native function may take long: with large arrays, or where only its loops tell."""
    if not any(isinstance(one, For | While) for one in walk(lowered.function.body)):
        return "never"
    has_arrays = any(isinstance(param, ArrayParam | TupleParam) for param in params)
    return "large" if has_arrays and not graph.find_all_nodes("prim::Loop") else "always"


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
        address, owner, _ = compile_numba(lowered.function, contract=contract)
        add_symbol(lowered.function.name, address)
        text = print_declaration(lowered.function)
    else:
        text = print_module(outline(lowered.function), contract)
    declared = [line for symbol, line in entry.declarations.items() if f"@{symbol}(" not in text]
    text = "\n".join([text, *declared, entry.definitions])
    log.dump(name, text, ".ll")
    module = compile_module(text, name=name)
    entry.fill(module)
    return Kernel(name, lowered, module, owner)


def _layouts(params: Sequence[Param]) -> list[Layout | None]:
    """One entry for each input of the function, tuples taken apart."""
    layouts: list[Layout | None] = []
    for param in params:
        if isinstance(param, TupleParam):
            layouts.extend(_layouts(param.elements))
        else:
            layouts.append(param.layout if isinstance(param, ArrayParam) else None)
    return layouts


def _with_writes(params: Sequence[Param], written: frozenset[int]) -> tuple[Param, ...]:
    """Mark the array parameters that the function writes to."""
    numbers = itertools.count()

    def mark(param: Param) -> Param:
        if isinstance(param, TupleParam):
            return TupleParam(tuple(mark(element) for element in param.elements), param.named)
        number = next(numbers)
        if number in written and isinstance(param, ArrayParam):
            return ArrayParam(param.dtype, param.dims, param.layout, True)
        return param

    return tuple(mark(param) for param in params)


def compile_host(
    graph: Graph,
    make_region: Callable[[Graph, str, frozenset[int]], Callable[..., Any]],
    *,
    name: str,
    defer: bool,
    exact: frozenset[int],
) -> HostPlan:
    """Compile a typed graph to a Python program; its native regions are made by ``make_region``.

    It gets to know which inputs of a region are such as ``exact`` says of the graph's own.
    """
    known = {value for number, value in enumerate(graph.inputs) if number in exact}
    partition(graph, defer=defer)
    dead_code_elimination(graph)
    # What has gone into a region is checked when that is compiled.
    check_strict_fusion(graph, [])
    log.graph_dump("regions", "after partition", lambda: str(graph))
    regions: dict[Node, Callable[..., Any]] = {}
    for number, node in enumerate(graph.find_all_nodes("prim::NativeGroup")):
        inputs = frozenset(place for place, value in enumerate(node.inputs) if value in known)
        regions[node] = make_region(node.attributes["graph"], f"{name}_region{number}", inputs)
    return HostPlan(graph, build_host(graph, regions=regions), dict(regions))
