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
from jitcore.ir.ops.recurrent_cells import gru_state, lstm_state

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
    _CELLS[cell](element)
    inner = For(column, ZERO, COLUMNS, element.lines)
    return Function(symbol(cell, dtype), _PARAMETERS, [For(row, ZERO, ROWS, [inner]), Return(ZERO)])


class _Number:
    """A number of a loop's body: what is done with it becomes a line of its own."""

    def __init__(self, lines: list[Stmt], value: Expr, dtype: str) -> None:
        self.lines = lines
        self.value = value
        self.dtype = dtype

    def __add__(self, other: _Number) -> _Number:
        return self.kept(Binary("add", self.value, other.value, self.dtype))

    def __sub__(self, other: _Number) -> _Number:
        return self.kept(Binary("sub", self.value, other.value, self.dtype))

    def __mul__(self, other: _Number) -> _Number:
        return self.kept(Binary("mul", self.value, other.value, self.dtype))

    def kept(self, value: Expr) -> _Number:
        name = Var(f"t{len(self.lines)}", self.dtype)
        self.lines.append(Let(name, value))
        return _Number(self.lines, name, self.dtype)


def _sigmoid(x: _Number) -> _Number:
    return x.kept(Call("sigmoid", (x.value,), x.dtype))


def _tanh(x: _Number) -> _Number:
    return x.kept(Call("tanh", (x.value,), x.dtype))


def _relu(x: _Number) -> _Number:
    return x.kept(Binary("max", x.value, constant(0, x.dtype), x.dtype))


class _Element:
    """One element of all gates and states."""

    def __init__(self, row: Var, column: Var, dtype: str) -> None:
        self.dtype = dtype
        self.lines: list[Stmt] = []
        self._row = row
        self._column = column
        self._state = add(multiply(row, WIDTH), column)

    def recurrent(self, gate: int) -> _Number:
        """What the state before adds to a gate."""
        inside = add(multiply(self._row, ROW_APART), self._column)
        place = add(multiply(integer(gate), GATE_APART), inside)
        return self._load(RECURRENT, place)

    def projected(self, gate: int) -> _Number:
        """What the input adds to a gate."""
        inside = add(multiply(self._row, PROJECTED_APART), self._column)
        place = add(multiply(integer(gate), WIDTH), inside)
        return self._load(PROJECTED, place)

    def gate(self, gate: int) -> _Number:
        return self.projected(gate) + self.recurrent(gate)

    def before(self) -> _Number:
        return self._load(BEFORE, self._state)

    def cell(self) -> _Number:
        return self._load(CELL, self._state)

    def write(self, number: _Number) -> None:
        self.lines.append(Store(AFTER, self._state, number.value, "after"))

    def write_cell(self, number: _Number) -> None:
        self.lines.append(Store(NEW_CELL, self._state, number.value, "new_cell"))

    def _load(self, pointer: Var, place: Expr) -> _Number:
        return _Number(self.lines, Load(pointer, place, self.dtype, pointer.name), self.dtype)


def _write_lstm(one: _Element) -> None:
    gates = (one.gate(0), one.gate(1), one.gate(2), one.gate(3))
    hidden, cell = lstm_state(gates, one.cell(), _sigmoid, _tanh)
    one.write_cell(cell)
    one.write(hidden)


def _write_gru(one: _Element) -> None:
    projected = (one.projected(0), one.projected(1), one.projected(2))
    recurrent = (one.recurrent(0), one.recurrent(1), one.recurrent(2))
    one.write(gru_state(projected, recurrent, one.before(), _sigmoid, _tanh))


def _write_tanh(one: _Element) -> None:
    one.write(_tanh(one.gate(0)))


def _write_relu(one: _Element) -> None:
    one.write(_relu(one.gate(0)))


_CELLS: dict[str, Callable[[_Element], None]] = {
    "lstm": _write_lstm,
    "gru": _write_gru,
    "tanh": _write_tanh,
    "relu": _write_relu,
}

for _cell in GATES:
    for _dtype in ("float32", "float64"):
        add_library(symbol(_cell, _dtype), partial(_module_text, _cell, _dtype))
