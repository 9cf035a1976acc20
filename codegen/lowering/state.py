"""The state of lowering one graph: values, symbols, error sites and memory."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from jitcore.codegen.engine import converts_float16
from jitcore.codegen.entries.array_orders import order_number
from jitcore.codegen.entries.error_sites import MAX_PAYLOAD, ErrorSite
from jitcore.codegen.loops import (
    Binary,
    Call,
    Const,
    Do,
    Expr,
    If,
    Load,
    Return,
    Stmt,
    Store,
    Var,
)
from jitcore.codegen.lowering.arithmetic import (
    FALSE,
    ONE,
    TRUE,
    add,
    compare,
    either,
    integer,
    multiply,
)
from jitcore.codegen.lowering.counters import LARGEST, counters
from jitcore.codegen.lowering.emitter import Emitter
from jitcore.codegen.lowering.facts import (
    Escapes,
    computed_in_place,
    is_on_float16,
    last_uses,
    listed_values,
    writes_arguments,
)
from jitcore.codegen.lowering.kinds import PACKED
from jitcore.codegen.lowering.operands import (
    ArrayRef,
    Lazy,
    NotNative,
    Operand,
    Order,
    Owner,
    Pair,
    Static,
    owners_in,
    row_major,
    walked_axes,
)
from jitcore.codegen.lowering.pieces import pieces
from jitcore.codegen.lowering.ranges import Ranges
from jitcore.codegen.lowering.small_variables import small_variables
from jitcore.codegen.runtime.temporaries import LEAST_KEPT
from jitcore.codegen.targets import CPU, Target
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Block, FieldWrite, Graph, Node, SourceRange, Value
from jitcore.ir.types import NONE, Dim

__all__ = ["Lowering", "Materialize", "Rule"]

Rule = Callable[["Lowering", Node], Operand]
"""Lowers a node of one kind; gives the operand of its output, or a tuple for several outputs."""

Materialize = Callable[["Lowering", Value, Lazy], ArrayRef]

MAX_RANK = 8
SLOT = 8
"""Bytes of a result slot."""
NULL = Const(0, "ptr")
RESULTS = Var("results", "ptr")
ELEMENTS = "elements of lists"
"""The root of all arrays that may be elements of lists, besides their own."""


_SILENT = frozenset(
    f"prim::{name}" for name in ("Constant", "Uninitialized", "TupleConstruct", "UnionConstruct")
)


def source_line(source: SourceRange | None) -> str:
    """Where a node came from, and the user's line where it can be read."""
    if source is None:
        return ""
    text = linecache.getline(source.file, source.line).strip()
    return f"{source.place}: {text}".rstrip(": ")


@dataclass(slots=True)
class Snapshot:
    """What ``Lowering.restore`` goes back to."""

    emitted: tuple[Any, ...]
    sites: dict[ErrorSite, int]
    written: set[int]
    notes: list[str]
    owners: list[list[Owner]]
    symbols: list[dict[str, Expr]]
    ranges: Ranges
    made: dict[str, int]
    carried: dict[str, int]


class Lowering:
    """Walks blocks and keeps what the rules share.

    Parameters
    ----------
    graph : Graph
    rule_of : callable
        The rule for a kind of node, None where there is none.
    materialize : callable
        Computes a lazy value into memory of its own.
    target : Target
    refused : collection of Value
        Parameters of loops' blocks that are no ``small_variables``.
    """

    def __init__(
        self,
        graph: Graph,
        rule_of: Callable[[str], Rule | None],
        materialize: Materialize,
        target: Target = CPU,
        refused: Collection[Value] = (),
    ) -> None:
        self.target = target
        self.rule_of = rule_of
        self.has_float16 = target.is_device or converts_float16()
        self.emitter = Emitter()
        self.ranges = Ranges()
        self.counters = counters(graph)
        self.copied = frozenset() if target.is_device else small_variables(graph, refused)
        """The variables of loops that are copied from iteration to iteration."""
        self.escapes = Escapes(graph, self.copied)
        self.pieces = pieces(graph)
        self.joined: dict[Node, ArrayRef] = {}
        """Results of concatenations that have memory before all of their operands are there."""
        self.sites: dict[ErrorSite, int] = {}
        self.written: set[int] = set()
        self.loop_depth = 0
        self.notes: list[str] = []
        self.source: SourceRange | None = None
        self.is_lazy = False
        self.reduces_lazily = False
        self.checked: dict[tuple[int, Expr, Expr], Operand] | None = None
        """The indices that the open group has checked, by identity, with the axes' extents."""
        self.scans_lazily = False
        self.put_off: Callable[[Node], bool] | None = None
        """Takes a store of the open group that may be done later."""
        self.settle: Callable[[], None] | None = None
        """Does the stores of the open group that have been put off."""
        self.input_roots: dict[str, int] = {}
        self.field_roots: dict[tuple[str, str], str] = {}
        self.has_packed = False
        """Whether there are fields of records in which they are not whole elements."""
        self.listed = listed_values(graph)
        self.listed_inputs: set[int] = set()
        """The arguments that may be elements of lists."""
        self.never_one: set[Expr] = set()
        self.writes = writes_arguments(graph)
        self.in_place = computed_in_place(graph)
        self.loop_forms: dict[Node, list[Any]] = {}
        self.lists_written: set[int] = set()
        self.lists_end = False
        """Whether lists that are arguments have got their numbers back before this place."""
        self.work: Var | None = None
        """Counts the iterations of loops, where numbers of lists are read for the call."""
        self.elements_read: Var | None = None
        """Beside it, counts the elements of lists that the function reads by itself."""
        self.noted: dict[FieldWrite, Any] = {}
        self.element_writes: list[FieldWrite] = []
        self.noted_words: list[Expr] = []
        """What attributes of arguments are, for exceptions after arrays were written."""
        self.global_generator: Var | None = None
        """NumPy's own random generator, where it is drawn from."""
        self._materialize = materialize
        self._environment: dict[Value, Operand] = {}
        self._symbols: list[dict[str, Expr]] = [{}]
        self._owners: list[list[Owner]] = [[]]
        self._made: dict[str, int] = {}
        self._carried: dict[str, int] = {}
        self._moments = 0
        self.loops_around = 0

    # Values -------------------------------------------------------------------------------

    def bind(self, value: Value, operand: Operand) -> None:
        """Remember what a value is."""
        if value in self.listed and isinstance(operand, ArrayRef):
            operand = replace(operand, roots=operand.roots | {ELEMENTS})
        if value in self.counters:
            self.ranges.limit(operand, -LARGEST, LARGEST)
        self._environment[value] = operand
        for owner in owners_in(operand):
            owner.values.append(value)

    def operand(self, value: Value) -> Operand:
        """What a value is."""
        found = self._environment.get(value)
        if found is None:
            raise NotNative(f"%{value.name} of type {value.type} has no native form")
        return found

    def scalar(self, value: Value) -> Expr:
        """A real number."""
        found = self.operand(value)
        if isinstance(found, (ArrayRef, Lazy, Static, Pair, tuple)):
            raise NotNative(f"%{value.name} of type {value.type} is not a real number")
        expression: Expr = found
        return expression

    def array(self, value: Value) -> ArrayRef:
        """An array in memory; a lazy value is computed now."""
        found = self.operand(value)
        if isinstance(found, Lazy):
            self.bind(value, self._materialize(self, value, found))
            found = self.operand(value)
        if not isinstance(found, ArrayRef):
            raise NotNative(f"%{value.name} of type {value.type} is not an array")
        return found

    # Symbols ------------------------------------------------------------------------------

    def symbol(self, dim: Dim) -> Expr | None:
        """The extent a dim stands for, or None where nothing has defined its symbol yet."""
        if isinstance(dim, int):
            return integer(dim)
        for scope in reversed(self._symbols):
            if dim in scope:
                return scope[dim]
        return None

    def define(self, dim: Dim, extent: Expr) -> Expr:
        """The extent of an axis whose type says ``dim``; defines a new symbol as ``extent``."""
        known = self.symbol(dim)
        if known is not None:
            return known
        assert isinstance(dim, str)
        self._symbols[-1][dim] = extent
        self.ranges.at_least(extent, 0)
        return extent

    @contextmanager
    def scope(self, statements: list[Stmt], *, hoist: bool = False) -> Iterator[list[Stmt]]:
        """Lower into a nested block: its symbols and allocations end with it.

        With ``hoist`` values may be bound outside of it.
        """
        self._symbols.append({})
        self._owners.append([])
        with self.emitter.inside(statements, hoist=hoist), self.ranges.scope():
            yield statements
            self.release_all()
        self._symbols.pop()
        self._owners.pop()

    @contextmanager
    def loop_of_program(self) -> Iterator[None]:
        """What is lowered is the body of a loop that the program itself has."""
        self.loops_around += 1
        yield
        self.loops_around -= 1

    # Walking ------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        """Lower all nodes of a block; allocations are freed after the last user of each."""
        last = last_uses(block)
        for position, node in enumerate(block.nodes):
            self.node(node)
            self._release_unused(last, position)

    def node(self, node: Node) -> None:
        """Lower one node and bind its outputs."""
        outer, self.source = self.source, node.source or self.source
        if node.kind not in _SILENT:
            self.comment(node.source)
        try:
            rule = self.rule_of(node.kind)
            if rule is None:
                raise NotNative(f"{node.kind} has no native form")
            if not self.has_float16 and is_on_float16(node):
                raise NotNative("float16 on a processor that does not convert it")
            if self.has_packed and node.kind not in PACKED:
                self._refuse_packed(node)
            result = rule(self, node)
        except NotNative as reason:
            reason.node = reason.node or node
            raise
        results = result if len(node.outputs) != 1 else (result,)
        for value, operand in zip(node.outputs, results, strict=True):
            self.bind(value, Static(None) if value.type == NONE else operand)
        self.source = outer

    def _refuse_packed(self, node: Node) -> None:
        """Refuse what reads memory by whole elements, where there are fields of packed records."""
        read = [*node.inputs, *(value for block in node.blocks for value in block.returns)]
        operands = (self._environment.get(value) for value in read)
        if any(isinstance(one, ArrayRef) and one.unit for one in operands):
            raise NotNative(f"{node.kind} of a field in packed records")

    def comment(self, source: SourceRange | None) -> None:
        """Show the user's line that comes next."""
        text = source_line(source)
        if text:
            self.emitter.comment(text)

    def snapshot(self) -> Snapshot:
        """The state before an attempt that may be given up."""
        return Snapshot(
            self.emitter.snapshot(),
            dict(self.sites),
            set(self.written),
            list(self.notes),
            [list(owners) for owners in self._owners],
            [dict(symbols) for symbols in self._symbols],
            self.ranges.copy(),
            dict(self._made),
            dict(self._carried),
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Give up everything emitted since a snapshot."""
        self.emitter.restore(snapshot.emitted)
        self.sites = snapshot.sites
        self.written = snapshot.written
        self.notes = snapshot.notes
        self._owners = snapshot.owners
        self._symbols = snapshot.symbols
        self.ranges.restore(snapshot.ranges)
        self._made, self._carried = snapshot.made, snapshot.carried

    def unreachable(self) -> None:
        """Nothing after this place is ever executed."""
        self.emitter.emit(Return(integer(0)))

    def count_work(self, iterations: Expr) -> None:
        """Add iterations to what the entry gets to know."""
        if self.work is not None:
            self.emitter.assign(self.work, Binary("add", self.work, iterations, "int64"))

    def count_elements_read(self, count: Expr) -> None:
        """Add elements of lists to those that the entry gets to know of."""
        read = self.elements_read
        if read is not None:
            self.emitter.assign(read, Binary("add", read, count, "int64"))

    # Errors -------------------------------------------------------------------------------

    @property
    def has_written(self) -> bool:
        """Whether an argument may have been written before this place is reached."""
        return bool(self.written) or self.lists_end or (self.writes and self.loop_depth > 0)

    def fail(
        self,
        condition: Expr,
        exception: type[BaseException] | None,
        message: str = "",
        payload: Sequence[Expr] = (),
    ) -> None:
        """Leave the function with an error where ``condition`` holds.

        Without an exception the plain function runs in its place, as long as nothing is written;
        later that is an error that says so.
        """
        if condition == FALSE:
            return
        if self.settle is not None:
            self.settle()
        body: list[Stmt] = []
        with self.emitter.inside(body):
            self._leave(exception, message, payload)
        if condition == TRUE:
            self.emitter.extend(body)
        else:
            self.emitter.emit(If(condition, body, unlikely=True))

    def _leave(
        self, exception: type[BaseException] | None, message: str, payload: Sequence[Expr]
    ) -> None:
        if len(payload) > MAX_PAYLOAD:
            message, payload = message.partition("{")[0].rstrip(" (["), ()
        site = ErrorSite(exception, message, len(payload), self.source, self.has_written)
        for number, value in enumerate(payload):
            self.emitter.emit(Store(RESULTS, integer(number), value, "results"))
        for number, word in enumerate(self.noted_words if self.has_written else ()):
            self.leave_in_slot(MAX_PAYLOAD + number, word)
        # Nothing stands between what is dropped and the end, which errors therefore share.
        for owners in reversed(self._owners):
            for owner in reversed(owners):
                self._drop(owner)
        number = self.sites.setdefault(site, len(self.sites) + 1)
        self.emitter.emit(Return(integer(number)))

    def leave_in_slot(self, number: int, value: Expr) -> None:
        """Store a value at the start of a result slot."""
        size = SLOT if value.dtype == "ptr" else np.dtype(value.dtype).itemsize
        self.emitter.emit(Store(RESULTS, integer(number * SLOT // size), value, "results"))

    def note_nest(self, depth: int, targets: Sequence[str]) -> None:
        """Note for the reader of a report that loops write these arrays."""
        loops = "one loop" if depth == 1 else f"{depth} nested loops"
        self.notes.append(f"{loops}, for {', '.join(targets)}")

    # Memory -------------------------------------------------------------------------------

    def strides(self, dims: Sequence[Expr]) -> tuple[Expr, ...]:
        """The strides of a C-order array, as constants and variables."""
        found: list[Expr] = []
        stride: Expr = ONE
        for dim in reversed(dims):
            found.append(stride)
            stride = self.emitter.shared("stride", multiply(stride, dim))
        return tuple(reversed(found))

    def size(self, dims: Sequence[Expr]) -> Expr:
        """The number of elements."""
        strides = self.strides(dims)
        return self.emitter.shared("size", multiply(strides[0], dims[0])) if dims else ONE

    def is_contiguous(self, array: ArrayRef) -> bool:
        """Whether an array is surely in C order without gaps."""
        return not array.unit and array.has_strides(self.strides(array.dims))

    def is_fortran(self, array: ArrayRef) -> bool:
        """Whether an array is surely in Fortran order without gaps, and not in C order."""
        expected = self.strides(array.dims[::-1])[::-1]
        is_other = not array.unit and not self.is_contiguous(array)
        return is_other and array.has_strides(expected)

    def allocate(
        self,
        name: str,
        dims: Sequence[Expr],
        dtype: np.dtype[Any],
        *,
        escapes: bool,
        order: Order | None = None,
    ) -> ArrayRef:
        """New uninitialized memory without gaps, in C order where no other is asked for.

        It is an ``ndarray`` where it may leave its block.
        """
        if len(dims) > MAX_RANK:
            raise NotNative(f"an array of more than {MAX_RANK} dimensions")
        extents = tuple(self.emitter.shared("extent", dim) for dim in dims)
        order = order or row_major(len(dims))
        axes = walked_axes(order)
        if escapes:
            owner = self._new_object(name, extents, dtype, axes)
            pointer = self.emitter.let(name, Load(owner.pointer, integer(2), "ptr"))
        else:
            owner = self._new_temporary(name, extents, dtype)
            pointer = owner.pointer
        assert isinstance(pointer, Var)
        self._owners[-1].append(owner)
        self._made[pointer.name] = self._moment()
        by_axis = dict(zip(axes, self.strides([extents[axis] for axis in axes]), strict=True))
        return ArrayRef(
            pointer,
            extents,
            tuple(by_axis[axis] for axis in range(len(axes))),
            dtype,
            frozenset({pointer.name}),
            owner=owner,
            whole=True,
            order=order,
        )

    def _moment(self) -> int:
        self._moments += 1
        return self._moments

    def note_carried(self, pointer: Var) -> None:
        """Note that a variable of a loop is at this address from here on in an iteration."""
        self._carried[pointer.name] = self._moment()

    def is_newer(self, one: ArrayRef, other: ArrayRef) -> bool:
        """Whether one array was made when the other, a variable of a loop, was there already.

        That another iteration has made the other one in the same statement does not matter.
        """
        if not isinstance(one.pointer, Var) or not isinstance(other.pointer, Var):
            return False
        before = self._carried.get(other.pointer.name)
        return before is not None and before < self._made.get(one.pointer.name, 0)

    def _new_object(
        self, name: str, dims: Sequence[Expr], dtype: np.dtype[Any], axes: Sequence[int]
    ) -> Owner:
        padding = [ONE] * (MAX_RANK - len(dims))
        order = order_number(axes, dtype.itemsize)
        header = (integer(dtype.num), integer(order), integer(len(dims)))
        call = Call("jc_empty", (*header, *dims, *padding), "ptr", external=True)
        address = self.emitter.let(f"{name}_object", call)
        self.fail(compare("eq", address, NULL), MemoryError)
        return Owner(address, is_object=True)

    def _new_temporary(self, name: str, dims: Sequence[Expr], dtype: np.dtype[Any]) -> Owner:
        size, too_large = self._checked_bytes(dims, dtype.itemsize)
        self.fail(too_large, MemoryError)
        is_small = isinstance(size, Const) and size.value < LEAST_KEPT
        prefix = "" if is_small else "jc_"
        call = Call(f"{prefix}malloc", (size,), "ptr", external=True)
        address = self.emitter.copy(name, call)
        self.fail(compare("eq", address, NULL), MemoryError)
        shape = ", ".join(str(dim.value if isinstance(dim, Const) else "?") for dim in dims)
        self.notes.append(f"temporary array {address.name}: {dtype.name}[{shape}]")
        return Owner(address, is_object=False, release=f"{prefix}free")

    def _checked_bytes(self, dims: Sequence[Expr], itemsize: int) -> tuple[Expr, Expr]:
        """The number of bytes (at least one), and whether it does not fit in 63 bits."""
        size: Expr = integer(itemsize)
        too_large: Expr = FALSE
        for dim in dims:
            if not (isinstance(size, Const) and isinstance(dim, Const)):
                too_large = either(too_large, Binary("mul_overflows", size, dim, "bool"))
            size = self.emitter.shared("bytes", multiply(size, dim))
        if isinstance(size, Const):
            return integer(max(size.value, 1)), too_large
        return add(size, ONE), too_large

    def view(self, base: ArrayRef, **changes: Any) -> ArrayRef:
        """A view of an array: shares its memory, but is not the array itself.

        Its order is not known where strides are given without it.
        """
        fields = {name: getattr(base, name) for name in ArrayRef.__dataclass_fields__}
        if "strides" in changes:
            fields["order"] = None
        return ArrayRef(**{**fields, "whole": False, "input": None, **changes})

    def own(self, owner: Owner) -> None:
        """Make the open block responsible for an allocation."""
        self._owners[-1].append(owner)

    def owns(self, owner: Owner | None) -> bool:
        """Whether the open block is responsible for an allocation."""
        return any(one is owner for one in self._owners[-1])

    def disown(self, owner: Owner) -> bool:
        """Take an allocation from the open block; False where it is not this block's."""
        if owner not in self._owners[-1]:
            return False
        self._owners[-1].remove(owner)
        return True

    def keep(self, owner: Owner | None) -> None:
        """Take one more reference to an ``ndarray``."""
        if owner is None:
            return
        if not owner.is_object:
            raise NotNative("a temporary leaves its block")
        self.emitter.emit(Do(Call("jc_incref", (owner.pointer,), "void", external=True)))

    def _drop(self, owner: Owner) -> None:
        # All of these functions ignore null, as Py_IncRef does.
        self.emitter.emit(Do(Call(owner.release, (owner.pointer,), "void", external=True)))

    def release_all(self) -> None:
        """Free what the open block still owns."""
        for owner in reversed(self._owners[-1]):
            self._drop(owner)
        self._owners[-1].clear()

    def _release_unused(self, last: Mapping[Value, int], position: int) -> None:
        for owner in list(self._owners[-1]):
            if all(last.get(value, -1) <= position for value in owner.values):
                self._drop(owner)
                self._owners[-1].remove(owner)

    # Writing ------------------------------------------------------------------------------

    def mark_written(self, target: ArrayRef) -> None:
        """Record that the memory of an argument is written."""
        numbers = (self.input_roots.get(root) for root in target.roots)
        self.written.update(number for number in numbers if number is not None)
        if ELEMENTS in target.roots:
            self.written |= self.listed_inputs
