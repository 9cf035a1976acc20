"""What a recurrent cell does with its gates, for some rows and columns: ``jc_cell_<cell>_<dtype>``.

The function takes the memory of the recurrent terms of the gates, how many elements two gates and
two rows are apart there, and how many rows and columns there are.  Then it takes the input's terms
of the first gate, and how many elements their rows are apart; the states before and those to write,
and those of the cell, before and to write; and how wide states, and the gates of the input, are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from jitcore.codegen.engine import add_library, vector_bits
from jitcore.codegen.loops import (
    Binary,
    Call,
    Expr,
    For,
    Function,
    Let,
    Load,
    Return,
    Stmt,
    Store,
    Var,
)
from jitcore.codegen.lowering.arithmetic import ZERO, add, constant, integer, multiply
from jitcore.codegen.printers.llvm import print_module

__all__ = ["GATES", "symbol"]

GATES: Mapping[str, int] = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}
"""How many gates each kind of cell has."""

RECURRENT, PROJECTED, BEFORE, AFTER, CELL, NEW_CELL = (
    Var(name, "ptr") for name in ("recurrent", "projected", "before", "after", "cell", "new_cell")
)
GATE_APART, ROW_APART, ROWS, COLUMNS, PROJECTED_APART, WIDTH = (
    Var(name, "int64")
    for name in ("gate_apart", "row_apart", "rows", "columns", "projected_apart", "width")
)

_PARAMETERS = (
    *(RECURRENT, GATE_APART, ROW_APART, ROWS, COLUMNS),
    *(PROJECTED, PROJECTED_APART, BEFORE, AFTER, CELL, NEW_CELL, WIDTH),
)


def symbol(cell: str, dtype: str) -> str:
    """The name of the function for a kind of cell and a dtype."""
    return f"jc_cell_{cell}_{dtype}"


def _module_text(cell: str, dtype: str) -> str:
    return print_module([_function(cell, dtype)], vector_bits=vector_bits())


def _function(cell: str, dtype: str) -> Function:
    row, column = Var("row", "int64"), Var("column", "int64")
    element = _Element(row, column, dtype)
    inner = For(column, ZERO, COLUMNS, _CELLS[cell](element))
    return Function(symbol(cell, dtype), _PARAMETERS, [For(row, ZERO, ROWS, [inner]), Return(ZERO)])


class _Element:
    """One element of all gates and states."""

    def __init__(self, row: Var, column: Var, dtype: str) -> None:
        self.dtype = dtype
        self._row = row
        self._column = column
        self._state = add(multiply(row, WIDTH), column)

    def recurrent(self, gate: int) -> Expr:
        """What the state before adds to a gate."""
        inside = add(multiply(self._row, ROW_APART), self._column)
        place = add(multiply(integer(gate), GATE_APART), inside)
        return Load(RECURRENT, place, self.dtype, "recurrent")

    def projected(self, gate: int) -> Expr:
        """What the input adds to a gate."""
        inside = add(multiply(self._row, PROJECTED_APART), self._column)
        place = add(multiply(integer(gate), WIDTH), inside)
        return Load(PROJECTED, place, self.dtype, "projected")

    def gate(self, gate: int) -> Expr:
        return self.add(self.projected(gate), self.recurrent(gate))

    def before(self) -> Expr:
        return Load(BEFORE, self._state, self.dtype, "before")

    def cell(self) -> Expr:
        return Load(CELL, self._state, self.dtype, "cell")

    def write(self, value: Expr) -> Stmt:
        return Store(AFTER, self._state, value, "after")

    def write_cell(self, value: Expr) -> Stmt:
        return Store(NEW_CELL, self._state, value, "new_cell")

    def named(self, name: str) -> Var:
        return Var(name, self.dtype)

    def add(self, x: Expr, y: Expr) -> Expr:
        return Binary("add", x, y, self.dtype)

    def multiply(self, x: Expr, y: Expr) -> Expr:
        return Binary("mul", x, y, self.dtype)

    def subtract(self, x: Expr, y: Expr) -> Expr:
        return Binary("sub", x, y, self.dtype)

    def tanh(self, x: Expr) -> Expr:
        return Call("tanh", (x,), self.dtype)

    def sigmoid(self, x: Expr) -> Expr:
        return Call("sigmoid", (x,), self.dtype)


# The formulas of `jitcore.nn.functional.recurrent`, for one element.


def _lstm(one: _Element) -> list[Stmt]:
    cell = one.named("memory")
    kept = one.multiply(one.sigmoid(one.gate(1)), one.cell())
    written = one.multiply(one.sigmoid(one.gate(0)), one.tanh(one.gate(2)))
    return [
        Let(cell, one.add(kept, written)),
        one.write_cell(cell),
        one.write(one.multiply(one.sigmoid(one.gate(3)), one.tanh(cell))),
    ]


def _gru(one: _Element) -> list[Stmt]:
    fresh = one.named("fresh")
    reset = one.multiply(one.sigmoid(one.gate(0)), one.recurrent(2))
    moved = one.multiply(one.sigmoid(one.gate(1)), one.subtract(one.before(), fresh))
    return [
        Let(fresh, one.tanh(one.add(one.projected(2), reset))),
        one.write(one.add(fresh, moved)),
    ]


def _tanh(one: _Element) -> list[Stmt]:
    return [one.write(one.tanh(one.gate(0)))]


def _relu(one: _Element) -> list[Stmt]:
    zero = constant(0, one.dtype)
    return [one.write(Binary("max", one.gate(0), zero, one.dtype))]


_CELLS: dict[str, Callable[[_Element], list[Stmt]]] = {
    "lstm": _lstm,
    "gru": _gru,
    "tanh": _tanh,
    "relu": _relu,
}

for _cell in GATES:
    for _dtype in ("float32", "float64"):
        add_library(symbol(_cell, _dtype), partial(_module_text, _cell, _dtype))
