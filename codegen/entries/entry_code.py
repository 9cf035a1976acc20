"""What entries are written with: LLVM text whose checks jump to the block ``miss``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from jitcore.codegen.entries import layout
from jitcore.codegen.printers.llvm_instructions import Instructions

__all__ = ["EntryCode"]

_USUALLY = '!{!"branch_weights", i32 2000, i32 1}'


class EntryCode(Instructions):
    """The lines of an entry function, what they declare, and the constants they read.

    Parameters
    ----------
    table : str
        The symbol of the table of constants.
    """

    def __init__(self, table: str) -> None:
        super().__init__({})
        self.table = table
        self.constants: list[Any] = []
        self.allocas: list[str] = []
        self.held: list[str] = []
        self.block = "checks"
        self._places: dict[int, int] = {}
        self._spaces = 0
        self._labels = 0

    def constant(self, value: Any) -> str:
        """The address of a Python object, read from the table."""
        if id(value) not in self._places:
            self._places[id(value)] = len(self.constants)
            self.constants.append(value)
        place = self.offset(f"@{self.table}", 8 * self._places[id(value)])
        return self.value(f"load ptr, ptr {place}, !invariant.load !{{}}")

    def constant_name(self, name: str) -> str:
        """The address of the name of an attribute, as Python itself has it."""
        return self.constant(sys.intern(name))

    def load(self, type_: str, base: str, offset: int = 0) -> str:
        """Read from ``offset`` bytes after ``base``."""
        return self.value(f"load {type_}, ptr {self.offset(base, offset)}")

    def offset(self, base: str, offset: int) -> str:
        """The address ``offset`` bytes after ``base``."""
        return self.value(f"getelementptr i8, ptr {base}, i64 {offset}") if offset else base

    def alloca(self, type_: str) -> str:
        """Space on the stack for the whole call."""
        self._spaces += 1
        name = f"%stack.{self._spaces}"
        self.allocas.append(f"  {name} = alloca {type_}, align 16")
        return name

    def attribute(self, value: str, name: str) -> str:
        """Go on with an attribute of an object, which lives until the entry returns."""
        key = self.constant_name(name)
        found = self.call("ptr", "PyObject_GetAttr", f"ptr {value}", f"ptr {key}")
        absent, present = self.new_label("absent"), self.new_label("present")
        self.effect(f"br i1 {self.same(found, 'null')}, label %{absent}, label %{present}")
        self.start(absent)
        self.call("void", "PyErr_Clear")
        self.jump("miss")
        self.start(present)
        self.own(found)
        return found

    def hold(self, value: str) -> str:
        """Keep a borrowed object alive until the entry returns, whoever else drops it."""
        self.call("void", "Py_IncRef", f"ptr {value}")
        self.own(value)
        return value

    def own(self, value: str) -> None:
        """Drop a new reference, or null, when the entry returns."""
        place = self.alloca("ptr")
        self.allocas.append(f"  store ptr null, ptr {place}")
        self.effect(f"store ptr {value}, ptr {place}")
        self.held.append(place)

    def drop_held(self) -> None:
        """Drop the references that ``attribute`` and ``hold`` have taken so far."""
        for place in self.held:
            self.call("void", "Py_DecRef", f"ptr {self.load('ptr', place)}")

    def call(self, result: str, symbol: str, *operands: str) -> str:
        """Call a function of the runtime; an operand is its type and its value."""
        types = ", ".join(operand.split()[0] for operand in operands)
        self.declare(symbol, result, types)
        call = f"call {result} @{symbol}({', '.join(operands)})"
        if result == "void":
            self.effect(call)
            return ""
        return self.value(call)

    def words(self, values: Sequence[str]) -> str:
        """The address of pointers that lie one after the other on the stack."""
        place = self.alloca(f"[{max(1, len(values))} x ptr]")
        for number, value in enumerate(values):
            self.effect(f"store ptr {value}, ptr {self.offset(place, 8 * number)}")
        return place

    def product(self, first: str, factors: Sequence[str]) -> str:
        """The product of int64s."""
        for factor in factors:
            first = self.value(f"mul i64 {first}, {factor}")
        return first

    def same(self, value: str, other: str, type_: str = "ptr") -> str:
        """Whether two values are equal."""
        return self.value(f"icmp eq {type_} {value}, {other}")

    def any_of(self, conditions: Sequence[str]) -> str:
        """Whether one of the conditions holds."""
        result = conditions[0]
        for condition in conditions[1:]:
            result = self.value(f"or i1 {result}, {condition}")
        return result

    def guard(self, *conditions: str) -> None:
        """Go on where all conditions hold, else to the block ``miss``."""
        if not conditions:
            return
        holds = conditions[0]
        for condition in conditions[1:]:
            holds = self.value(f"and i1 {holds}, {condition}")
        label = self.new_label("checked")
        self.branch_as_usual(holds, label, "miss")
        self.start(label)

    def guard_type(self, value: str, type_: type) -> None:
        """Go on where ``value`` is an instance of exactly this type."""
        self.guard(self.same(self.load("ptr", value, layout.OBJECT_TYPE), self.constant(type_)))

    def tuple_items(self, value: str, count: int, named: type | None = None) -> list[str]:
        """The items of what must be an exact tuple, or an instance of ``named``, of this length."""
        self.guard_type(value, named or tuple)
        self.guard(self.same(self.load("i64", value, layout.TUPLE_SIZE), str(count), "i64"))
        return [self.load("ptr", value, layout.TUPLE_ITEMS + 8 * item) for item in range(count)]

    def new_label(self, name: str) -> str:
        """A label that no block has yet."""
        self._labels += 1
        return f"{name}.{self._labels}"

    def start(self, label: str) -> None:
        """Begin a block; the one before must have ended."""
        self.lines.append(f"{label}:")
        self.block = label

    def branch_as_usual(self, condition: str, usual: str, rare: str) -> None:
        """End the block by a condition that nearly always holds."""
        self.effect(f"br i1 {condition}, label %{usual}, label %{rare}, !prof {_USUALLY}")

    def jump(self, label: str) -> None:
        """End the block and go to another."""
        self.effect(f"br label %{label}")
