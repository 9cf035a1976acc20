"""The parts of ``explain``'s report that say where the nodes of a graph went."""

from __future__ import annotations

import linecache
import math
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jitcore.execution.plans import HostPlan, NativePlan
from jitcore.fusers.elementwise import iteration_dims
from jitcore.ir.draws import is_draw
from jitcore.ir.graph import Graph, Node, SourceRange, Value
from jitcore.ir.ops import TABLE
from jitcore.ir.types import TensorType, is_ndarray

if TYPE_CHECKING:
    from jitcore.execution.executor import Executor

__all__ = ["WIDTH", "apart_lines", "plan_lines", "table", "unfused_bytes", "wrapped"]

WIDTH = 96
"""Columns of a report."""

_LONGEST_SOURCE = 48
_CONTROL_FLOW = ("prim::If", "prim::Loop", "prim::For")
_SILENT = frozenset(
    f"prim::{name}"
    for name in ("Constant", "TupleConstruct", "Unpack", "UnionConstruct", "Uninitialized")
)
_GROUPS = (
    *("prim::FusionGroup", "prim::NativeGroup", "prim::oneDNNFusionGroup"),
    "prim::HostGroup",
)
_VIEW = "a view: it costs nothing, as its array is read in place"
_DRAW = "it draws by NumPy's own function, one number after the other"
_NUMBER = "it works on single numbers, which needs no loop"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], indent: int) -> Iterator[str]:
    """Rows in columns; what is too long in the last column goes on in the next line.

    Examples
    --------
    >>> print(*table(["line", "why"], [["12", "it calls Python"]], indent=2), sep="\\n")
      line  why
      12    it calls Python
    """
    count = len(headings) - 1
    widths = [max(len(row[n]) for row in (headings, *rows)) for n in range(count)]
    for row in (headings, *rows):
        start = " " * indent + "".join(
            f"{cell:{width}}  " for cell, width in zip(row[:-1], widths, strict=True)
        )
        yield from wrapped(start, row[-1])


def wrapped(start: str, text: str) -> Iterator[str]:
    """A text after its start, in several lines where it is long."""
    room = max(WIDTH - len(start), 30)
    first, *more = textwrap.wrap(text, room, break_long_words=False) or [""]
    yield f"{start}{first}".rstrip()
    for line in more:
        yield f"{' ' * len(start)}{line}"


def plan_lines(plan: NativePlan | HostPlan, indent: int = 0) -> Iterator[str]:
    """What a plan does with each node: in which kernel it is, or why it is in none."""
    if isinstance(plan, NativePlan):
        yield from _native_lines(plan, indent)
    else:
        yield from _host_lines(plan, indent)


def _native_lines(plan: NativePlan, indent: int) -> Iterator[str]:
    margin = " " * indent
    groups = plan.graph.find_all_nodes("prim::FusionGroup")
    grouped = f", with {_count(groups, 'fused group')}" if groups else ""
    yield f"{margin}one native function, {plan.kernel.name}{grouped}: machine code, without Python"
    for number, node in enumerate(groups):
        graph: Graph = node.attributes["graph"]
        inside = [one for one in graph.nodes() if one.kind not in _SILENT]
        yield ""
        size = _extents(inside[-1])
        yield f"{margin}fused group {number}: {_count(inside, 'operation')} on {size} elements"
        yield from table(["line", "source", "operations"], list(_by_line(inside)), indent + 2)
    for number, node in enumerate(plan.graph.find_all_nodes("prim::oneDNNFusionGroup")):
        yield ""
        yield from _onednn_lines(f"{margin}oneDNN group {number}", node, indent)
    reasons = {(one.node, one.source): one.reason for one in plan.decisions}
    outside = [
        (node, _why_native(node, reasons))
        for node in plan.graph.nodes()
        if node.kind not in (*_SILENT, *_GROUPS)
    ]
    numbers = [node for node, reason in outside if reason == _NUMBER]
    arrays = [(node, reason) for node, reason in outside if reason != _NUMBER]
    yield from _refused(f"{margin}in the native function, but in no group", arrays, indent)
    yield from _on_numbers(numbers, indent)
    yield from _widened(plan.graph, indent)
    if plan.kernel.lowered.notes:
        yield ""
        yield f"{margin}loops and memory of {plan.kernel.name}, in order"
        for note in plan.kernel.lowered.notes:
            yield from wrapped(f"{margin}  ", note)


def apart_lines(forms: Iterable[tuple[Any, Any]]) -> Iterator[str]:
    """What calls of functions do that are compiled for themselves; None is of such as are not."""
    for function, form in forms:
        yield ""
        title = f"{function.__qualname__}, which is called, "
        if form is None:
            yield from wrapped(title, "runs in Python: its compiled form was no faster")
        elif not form.specializations:
            yield from wrapped(title, "is compiled for itself; it has not run yet")
        else:
            yield from wrapped(title, "is compiled for itself")
            yield from plan_lines(form.specializations[-1].plan, 2)


def _onednn_lines(title: str, node: Node, indent: int) -> Iterator[str]:
    """What oneDNN computes, by which of its implementations, and whether it has."""
    inside = [one for one in node.attributes["graph"].nodes() if one.kind not in _SILENT]
    # Only who has enabled it has such groups.
    done = import_module("jitcore.codegen.onednn.functions").activity(node.attributes["symbol"])
    own = f", {_count(done.left, 'call')} left to jitcore's own kernels" if done.left else ""
    yield f"{title}: {_count(inside, 'operation')}; it computed {_count(done.calls, 'call')}{own}"
    if done.left:
        yield from wrapped(f"{' ' * indent}  left, the last time for ", done.reason)
    yield from table(["line", "source", "operations"], list(_by_line(inside)), indent + 2)
    names = (_times(count, name) for name, count in done.implementations.items())
    yield from wrapped(f"{' ' * indent}  primitives: ", ", ".join(names) or "none yet")


def _host_lines(plan: HostPlan, indent: int) -> Iterator[str]:
    margin = " " * indent
    count = _count(plan.regions, "native region")
    yield f"{margin}a host program, which runs in Python and NumPy, with {count}"
    if plan.refusal:
        yield from wrapped(f"{margin}lists, texts and objects are Python's here: ", plan.refusal)
    outside = [
        (node, node.host_reason or _why_host(node))
        for node in plan.graph.nodes()
        if node.kind not in (*_SILENT, *_GROUPS)
    ]
    yield from _refused(f"{margin}in Python and NumPy", outside, indent)
    for number, node in enumerate(plan.host_parts):
        inside = [
            (one, one.host_reason or _why_host(one))
            for one in node.attributes["graph"].nodes()
            if one.kind not in _SILENT
        ]
        yield from _refused(f"{margin}on the host, on copies, part {number}", inside, indent)
    for number, (node, region) in enumerate(plan.regions.items()):
        yield ""
        yield from _region_lines(f"{margin}native region {number}", node, region, indent)


def _region_lines(title: str, node: Node, region: Executor, indent: int) -> Iterator[str]:
    graph: Graph = node.attributes["graph"]
    inside = [one for one in graph.nodes() if one.kind not in _SILENT]
    lines = _lines(one.source for one in inside)
    specializations = [one for place in region.everywhere() for one in place.specializations]
    if not specializations:
        yield f"{title}, {lines}: {_count(inside, 'operation')}; it has not run yet"
        return
    youngest = specializations[-1]
    variants = len(specializations)
    which = "" if variants == 1 else f"; the youngest of {variants} specializations"
    yield f"{title}, {lines}{which}"
    plan = youngest.plan
    if isinstance(plan, HostPlan) and plan.reason:
        # A device's: what runs is compiled for the host.
        margin = " " * (indent + 2)
        yield from wrapped(f"{margin}not on the device, but compiled for the host: ", plan.reason)
        return
    yield from plan_lines(plan, indent + 2)


def _refused(title: str, nodes: Iterable[tuple[Node, str]], indent: int) -> Iterator[str]:
    """A table of nodes and reasons, one row for all nodes of a kind with the same reason."""
    rows: dict[tuple[str, str], list[SourceRange | None]] = {}
    for node, reason in nodes:
        rows.setdefault((_operation(node), reason), []).append(node.source)
    if not rows:
        return
    yield ""
    yield title
    cells = [
        (_times(len(places), kind), _lines(places), reason)
        for (kind, reason), places in rows.items()
    ]
    yield from table(["operation", "where", "why"], cells, indent + 2)


def _on_numbers(nodes: Sequence[Node], indent: int) -> Iterator[str]:
    """One entry for all the operations on single numbers."""
    if nodes:
        yield ""
        title = f"{' ' * indent}on single numbers, {_lines(node.source for node in nodes)}: "
        yield from wrapped(title, _kinds(nodes))


def _widened(graph: Graph, indent: int) -> Iterator[str]:
    """Where arrays of short floats become longer ones only because of what they meet."""
    rows: dict[tuple[str, str], None] = {}
    for node in _all_nodes(graph):
        if node.kind != "np::cast":
            continue
        before, after = _float_dtype(node.inputs[0]), _float_dtype(node.output)
        if before is None or after is None or before.itemsize >= after.itemsize:
            continue
        if _meets_scalar(node):
            why = (
                f"{before} becomes {after}, as it meets a NumPy scalar of {after}; "
                f"float() of that scalar would leave it {before}"
            )
            rows[_lines([node.source]), why] = None
    if rows:
        yield ""
        yield f"{' ' * indent}slower than it could be"
        yield from table(["where", "why"], list(rows), indent + 2)


def _all_nodes(graph: Graph) -> Iterator[Node]:
    for node in graph.nodes():
        yield node
        if node.kind == _GROUPS[0]:
            yield from _all_nodes(node.attributes["graph"])


def _float_dtype(value: Value) -> np.dtype[Any] | None:
    """The dtype of an array of floats; None for all else."""
    type_ = value.type
    if not isinstance(type_, TensorType) or type_.scalar or type_.dtype is None:
        return None
    return type_.dtype if type_.dtype.kind == "f" else None


def _meets_scalar(cast: Node) -> bool:
    """Whether the other operands of all users are numbers, one of them a NumPy scalar."""
    users = [use.user for use in cast.output.uses]
    others = [
        value
        for user in users
        if isinstance(user, Node)
        for value in user.inputs
        if value is not cast.output
    ]
    return bool(others) and not any(is_ndarray(value.type) for value in others)


def _why_native(node: Node, reasons: dict[tuple[str, str], str | None]) -> str:
    if node.kind in _CONTROL_FLOW:
        return "control flow, compiled as such"
    if is_draw(node):
        return _DRAW
    op = TABLE.get(node.kind)
    if op is not None and op.view and not op.writes:
        return _VIEW
    arrays = [value for value in (*node.inputs, *node.outputs) if is_ndarray(value.type)]
    if not arrays or node.kind == "np::item":
        return _NUMBER
    return reasons.get((node.kind, str(node.source or ""))) or "it has a loop of its own"


def _why_host(node: Node) -> str:
    """Why a node that could be native runs in the host program."""
    if node.kind in _CONTROL_FLOW:
        return "control flow around parts that run in Python"
    op = TABLE.get(node.kind)
    if op is not None and op.view and not op.writes:
        return "a view: NumPy makes it as fast"
    return "too little work beside it for a native region"


def _operation(node: Node) -> str:
    """A node's kind, with the name of what an opaque call calls."""
    name = node.attributes.get("name")
    return f"{node.kind} {name}" if isinstance(name, str) else node.kind


def _by_line(nodes: Iterable[Node]) -> Iterator[tuple[str, str, str]]:
    """One row for each line of the user's source: its number, the operations, its text."""
    lines: dict[tuple[str, int], list[Node]] = {}
    for node in nodes:
        place = (node.source.file, node.source.line) if node.source else ("", 0)
        lines.setdefault(place, []).append(node)
    for (file, line), members in sorted(lines.items()):
        source = linecache.getline(file, line).strip()
        if len(source) > _LONGEST_SOURCE:
            source = f"{source[: _LONGEST_SOURCE - 3]}..."
        yield str(line), source, _kinds(members)


def _kinds(nodes: Iterable[Node]) -> str:
    """The names of operations, each once, with how many there are."""
    kinds = Counter(node.kind.rpartition("::")[2] for node in nodes)
    return ", ".join(_times(count, kind) for kind, count in kinds.items())


def _lines(places: Iterable[SourceRange | None]) -> str:
    """The lines of some places, by file: ``model.py:12, 14-16``."""
    files: dict[str, set[int]] = {}
    for place in places:
        if place is not None:
            files.setdefault(place.file, set()).add(place.line)
    return "; ".join(f"{Path(file).name}:{_ranges(sorted(ls))}" for file, ls in files.items())


def _ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers, runs of neighbours as ranges."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _times(count: int, word: str) -> str:
    return word if count == 1 else f"{count} {word}"


def _count(things: Sequence[Any] | dict[Any, Any] | int, noun: str) -> str:
    count = things if isinstance(things, int) else len(things)
    return f"1 {noun}" if count == 1 else f"{count or 'no'} {noun}s"


def _extents(node: Node) -> str:
    dims = iteration_dims(node)
    return " x ".join(map(str, dims)) if dims else "single"


def unfused_bytes(graph: Graph) -> int | None:
    """What the operations of a typed graph move if each reads and writes its arrays by itself.

    Returns
    -------
    int or None
        None where not all extents are known, or where control flow decides what runs.
    """
    total = 0
    for node in graph.nodes():
        if node.kind in (*_CONTROL_FLOW, *_GROUPS) or node.host_reason is not None:
            return None
        op = TABLE.get(node.kind)
        if op is None or node.kind in _SILENT or (op.view and not op.writes):
            continue
        for value in (*node.inputs, *node.outputs):
            size = _bytes_of(value.type)
            if size is None:
                return None
            total += size
    return total


def _bytes_of(type_: Any) -> int | None:
    if not is_ndarray(type_):
        return 0
    if type_.dtype is None or type_.dims is None:
        return None
    extents = [dim for dim in type_.dims if isinstance(dim, int)]
    return math.prod(extents) * type_.dtype.itemsize if len(extents) == len(type_.dims) else None
