"""What a graph's values are while they are lowered: expressions, pairs, arrays in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from jitcore.codegen.loops import Expr
from jitcore.codegen.lowering.arithmetic import ONE, ZERO
from jitcore.codegen.lowering.kinds import ALIGNED
from jitcore.ir.dataclass import dataclass

if TYPE_CHECKING:
    from jitcore.ir.graph import Node, Value

__all__ = [
    "ArrayRef",
    "Axis",
    "Element",
    "Lazy",
    "NewAxis",
    "NotNative",
    "Operand",
    "Order",
    "Owner",
    "Pair",
    "Point",
    "Slice",
    "Static",
    "UnknownOrder",
    "arrays_in",
    "bottom_up",
    "column_major",
    "operand_dims",
    "owners_in",
    "row_major",
    "values_in",
    "walked_axes",
]

T = TypeVar("T")


class NotNative(Exception):
    """A node that does not lower to native code; the message says why.

    ``node`` is the node that was being lowered, the innermost one.
    """

    node: Node | None = None


class UnknownOrder(NotNative):
    """An array may have its axes in several orders: a loop or a branch gives one or another."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A complex number: its real and its imaginary part."""

    re: Expr
    im: Expr


Element = Any
"""A scalar value: a loop expression, or a ``Pair`` for complex dtypes."""


@dataclass(frozen=True, slots=True)
class Static:
    """A Python object known at compile time that has no form in native code."""

    value: Any


@dataclass(eq=False, slots=True)
class Owner:
    """An allocation, freed where its last user ends.

    Parameters
    ----------
    pointer : Expr
        The address of the ``ndarray``, or of the memory itself.
    is_object : bool
        Made by ``jc_empty`` and counted by reference; otherwise a block of memory.
    nullable : bool
        The pointer may be null: a merged variable that holds an argument's memory.
    release : str
        The function that gives it up.
    most : int or None
        The most elements it may have, where only their exact number is left to the run.
    """

    pointer: Expr
    is_object: bool
    nullable: bool = False
    release: str = "jc_decref"
    most: int | None = None
    values: list[Value] = field(default_factory=list)


Order = tuple[int, ...]
"""How the axes of an array lie in memory: for each axis a number that is larger where the stride
is larger, and 0 where the stride is 0."""


def row_major(rank: int) -> Order:
    """C order."""
    return tuple(range(rank, 0, -1))


def column_major(rank: int) -> Order:
    """Fortran order."""
    return tuple(range(1, rank + 1))


def walked_axes(order: Order) -> tuple[int, ...]:
    """The axes from the largest stride to the smallest."""
    return tuple(sorted(range(len(order)), key=lambda axis: -order[axis]))


@dataclass(frozen=True, slots=True, eq=False)
class ArrayRef:
    """An array in memory.

    Parameters
    ----------
    pointer : Expr
        Where ``offset`` counts from.
    dims, strides : tuple of Expr
        Constants and variables; strides count elements of ``dtype``.
    roots : frozenset of str
        The pieces of memory it may lie in: arguments and allocations by name.
    offset : Expr
        The first element's place after ``pointer``.
    owner : Owner or None
        The allocation that keeps the memory alive; None for arguments.
    whole : bool
        It is all of its owner's memory, as it was allocated, or an argument itself.
    input : int or None
        The number of the argument it is.
    order : tuple of int or None
        See ``Order``; None where only the run shows it.
    unit : int
        How many bytes offset and strides count, where these are less than an element, as they are
        of a field in packed records; 0 elsewhere.
    """

    pointer: Expr
    dims: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    dtype: np.dtype[Any]
    roots: frozenset[str]
    offset: Expr = ZERO
    owner: Owner | None = None
    whole: bool = False
    input: int | None = None
    order: Order | None = None
    unit: int = 0

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.dims)

    @property
    def root(self) -> str:
        """The one piece of memory it lies in, or an empty name where there may be several."""
        return next(iter(self.roots)) if len(self.roots) == 1 else ""

    def may_overlap(self, other: ArrayRef) -> bool:
        """Whether both may share memory."""
        return bool(self.roots & other.roots)

    def same_place(self, other: ArrayRef) -> bool:
        """Whether both are the same elements of the same memory in the same order."""
        return (
            self.roots == other.roots
            and self.pointer == other.pointer
            and self.offset == other.offset
            and self.dims == other.dims
            and self.dtype == other.dtype
            and self.has_strides(other.strides)
        )

    def has_strides(self, strides: Sequence[Expr]) -> bool:
        """Whether these are its strides, but for axes of extent 1."""
        return all(
            one == two or dim == ONE
            for one, two, dim in zip(self.strides, strides, self.dims, strict=True)
        )


@dataclass(frozen=True, slots=True, eq=False)
class ListRef:
    """A list that is an argument.

    Parameters
    ----------
    pointer : Expr
        The object.
    columns : tuple of ArrayRef
        Its elements, and room for two more, one array for each number in an element; none where
        it is empty.
    length : Expr
    input : int
        The number of the argument.
    """

    pointer: Expr
    columns: tuple[ArrayRef, ...]
    length: Expr
    input: int


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """An object that is an argument.

    Parameters
    ----------
    parts : tuple of Operand
        Its attributes.
    input : int
        The number of the argument.
    """

    parts: tuple[Operand, ...]
    input: int


@dataclass(eq=False, slots=True)
class Lazy:
    """A value of a fused group that is computed element by element where it is used.

    Parameters
    ----------
    node : Node
        What computes it.
    operands : tuple
        The node's array and scalar operands.
    dims : tuple of Expr
    dtype : numpy.dtype
    modes : tuple of tuple of Expr or None
        For elementwise nodes, for each operand and each of its axes: None where the axis is the
        result's, ``ZERO`` where it has extent 1, and the extent where only the run shows which.
    detail : object
        What else the node's kind needs, such as the axes of a view.
    is_reduction : bool
        ``detail`` is a ``Reduction`` that is computed where its row begins.
    as_kind : str
        What is done to the operands on the way to what the node does, such as ``np::copy``.
    order : tuple of int or None
        See ``Order``; None as long as nobody has asked.

    Attributes
    ----------
    owners : tuple of Owner
        The allocations it reads, those its operands read too.
    """

    node: Node
    operands: tuple[Any, ...]
    dims: tuple[Expr, ...]
    dtype: np.dtype[Any]
    modes: tuple[tuple[Expr | None, ...], ...] = ()
    detail: Any = None
    is_reduction: bool = False
    as_kind: str = ""
    order: Order | None = None
    owners: tuple[Owner, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.owners = tuple(dict.fromkeys(owners_in(self.operands)))

    @property
    def kind(self) -> str:
        """What it does to its operands: the node's kind, unless ``as_kind`` says otherwise."""
        return self.as_kind or self.node.kind

    @property
    def is_aligned(self) -> bool:
        """Whether it reads its operands at its own place."""
        return self.kind in ALIGNED

    @property
    def name(self) -> str:
        """The name of the value in the graph."""
        return self.node.outputs[0].name if self.node.outputs else "value"

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.dims)


def operand_dims(operand: Operand) -> tuple[Expr, ...]:
    """The extents of an array, in memory or computed where it is used; none of a scalar."""
    return operand.dims if isinstance(operand, (ArrayRef, Lazy)) else ()


Operand = Any
"""An ``Expr``, ``Pair``, ``ArrayRef``, ``Lazy``, ``ListRef``, ``ObjectRef`` or ``Static``, or a
tuple of them."""


def values_in(
    operand: Operand, ends: Callable[[Lazy], bool] | None = None
) -> Iterator[ArrayRef | Lazy]:
    """The arrays and lazy values that an operand is made of, each once, itself before its parts.

    Those that ``ends`` holds of are not looked into.
    """
    seen: set[int] = set()
    # No recursion: chains are long, and a value that is read twice is two ways to all below it.
    waiting = [operand]
    while waiting:
        one = waiting.pop()
        if isinstance(one, tuple):
            waiting.extend(reversed(one))
        elif isinstance(one, (ArrayRef, Lazy)) and id(one) not in seen:
            seen.add(id(one))
            yield one
            if isinstance(one, Lazy) and (ends is None or not ends(one)):
                waiting.extend(reversed(one.operands))


def arrays_in(operand: Operand) -> Iterator[ArrayRef]:
    """All arrays in memory that an operand reads, each once."""
    return (one for one in values_in(operand) if isinstance(one, ArrayRef))


def owners_in(operand: Operand) -> Iterator[Owner]:
    """The allocations that hold the arrays an operand reads."""
    if isinstance(operand, Lazy):
        yield from operand.owners
    elif isinstance(operand, ArrayRef):
        if operand.owner is not None:
            yield operand.owner
    elif isinstance(operand, tuple):
        for one in operand:
            yield from owners_in(one)


def bottom_up(top: T, parts: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """What ``top`` is made of, each after its own parts, and ``top`` last.

    ``parts`` leaves out what is known already.
    """
    done: set[int] = set()
    waiting = [top]
    while waiting:
        missing = [one for one in parts(waiting[-1]) if id(one) not in done]
        if missing:
            waiting.extend(reversed(missing))
            continue
        one = waiting.pop()
        if id(one) not in done:
            done.add(id(one))
            yield one


@dataclass(frozen=True, slots=True)
class Point:
    """One place of an axis of the base; the axis disappears."""

    index: Expr


@dataclass(frozen=True, slots=True)
class Slice:
    """``length`` places of an axis, ``step`` apart."""

    start: Expr
    length: Expr
    step: Expr


@dataclass(frozen=True, slots=True)
class NewAxis:
    """An axis of extent 1 that the base does not have."""


Axis = Point | Slice | NewAxis
