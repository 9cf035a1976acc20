"""Writing LLVM functions: loops, conditions and arithmetic on registers, one call each.

Variables that change lie in memory that LLVM's first pass turns into registers, so nobody here
writes a phi instruction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

__all__ = ["Function", "Number", "Word", "array_parameters", "split"]

Word = str
"""A register or a global name."""

Number = str | int
"""An int64: a register or a literal."""


def split(parameter: str) -> tuple[str, Word]:
    """The type and the name of a parameter such as ``"ptr %x"``."""
    type_, word = parameter.split()
    return type_, word


def array_parameters(*names: str) -> tuple[str, ...]:
    """Parameters for arrays: where the memory of each is, and how many elements later it begins."""
    return tuple(f"{one}.{name}" for name in names for one in ("ptr %memory", "i64 %offset"))


class Function:
    """The text of one LLVM function that gives nothing back.

    Parameters
    ----------
    name : str
    params : sequence of str
        Such as ``"ptr %x"``.
    linkage : str
        ``"internal"``, or nothing for a function that others find.
    """

    def __init__(self, name: str, params: Sequence[str], linkage: str = "") -> None:
        self._head = f"define {linkage} void @{name}({', '.join(params)}) {{"
        self._slots: list[str] = []
        self._lines: list[str] = []
        self._count = 0

    def text(self) -> str:
        """The whole function."""
        slots = [*self._slots, "  br label %begin", "begin:"]
        return "\n".join([self._head, *slots, *self._lines, "  ret void", "}", ""])

    # Instructions -------------------------------------------------------------------------

    def let(self, instruction: str) -> Word:
        """A register with the value of an instruction."""
        name = self._fresh("r")
        self._lines.append(f"  {name} = {instruction}")
        return name

    def do(self, instruction: str) -> None:
        """An instruction without a value."""
        self._lines.append(f"  {instruction}")

    def _fresh(self, prefix: str) -> Word:
        self._count += 1
        return f"%{prefix}.{self._count}"

    def binary(self, op: str, x: Number, y: Number) -> Number:
        """``op`` on int64."""
        return self.let(f"{op} i64 {x}, {y}")

    def add(self, *terms: Number) -> Number:
        """The sum of int64 numbers."""
        return self._folded("add", 0, terms)

    def mul(self, *factors: Number) -> Number:
        """The product of int64 numbers."""
        return self._folded("mul", 1, factors)

    def _folded(self, op: str, neutral: int, operands: Sequence[Number]) -> Number:
        left = [one for one in operands if one != neutral]
        if not left:
            return neutral
        total = left[0]
        for one in left[1:]:
            total = self.binary(op, total, one)
        return total

    def sub(self, x: Number, y: Number) -> Number:
        """``x - y`` on int64."""
        return self.binary("sub", x, y)

    def quotient(self, x: Number, y: Number) -> Number:
        """``x / y`` on int64, rounded up."""
        return self.binary("sdiv", self.sub(self.add(x, y), 1), y)

    def smaller(self, x: Number, y: Number) -> Number:
        """The smaller of two int64 numbers."""
        return self.let(f"call i64 @llvm.smin.i64(i64 {x}, i64 {y})")

    def larger(self, x: Number, y: Number) -> Number:
        """The larger of two int64 numbers."""
        return self.let(f"call i64 @llvm.smax.i64(i64 {x}, i64 {y})")

    def compare(self, relation: str, x: Number, y: Number) -> Word:
        """A bool from two int64 numbers."""
        return self.let(f"icmp {relation} i64 {x}, {y}")

    def place(self, pointer: Word, index: Number, element: str = "i64") -> Word:
        """The address of an element."""
        return self.let(f"getelementptr {element}, ptr {pointer}, i64 {index}")

    def place_unless_null(self, pointer: Word, index: Number, element: str) -> Word:
        """The address of an element, or null for a null pointer."""
        place = self.place(pointer, index, element)
        is_null = self.let(f"icmp eq ptr {pointer}, null")
        return self.let(f"select i1 {is_null}, ptr null, ptr {place}")

    def open_arrays(self, element: str, *names: str) -> None:
        """Define the addresses of arrays, such as ``%x``, given by ``array_parameters``."""
        for name in names:
            place = f"ptr %memory.{name}, i64 %offset.{name}"
            self._lines.append(f"  %{name} = getelementptr {element}, {place}")

    def load(self, type_: str, pointer: Word, align: int = 0) -> Word:
        """What lies at an address."""
        return self.let(f"load {type_}, ptr {pointer}" + (f", align {align}" if align else ""))

    def store(self, type_: str, value: Number, pointer: Word, align: int = 0) -> None:
        """Write to an address."""
        suffix = f", align {align}" if align else ""
        self.do(f"store {type_} {value}, ptr {pointer}{suffix}")

    def context(self, words: Sequence[tuple[str, Number]]) -> Word:
        """The address of an array of 8-byte words with these values, for the body of a loop."""
        array = self.slot(f"[{len(words)} x i64]")
        for number, (type_, value) in enumerate(words):
            self.store(type_, value, self.place(array, number))
        return array

    def open_context(self, words: Sequence[tuple[str, Word]]) -> None:
        """Define the names that a context has values for; it is the parameter ``%context``."""
        for number, (type_, name) in enumerate(words):
            place = self.place("%context", number)
            self._lines.append(f"  {name} = load {type_}, ptr {place}")

    # Variables and control ----------------------------------------------------------------

    def slot(self, type_: str, value: Number | None = None) -> Word:
        """The address of a variable; one that is declared in a loop is the same in each turn."""
        name = self._fresh("slot")
        self._slots.append(f"  {name} = alloca {type_}")
        if value is not None:
            self.store(type_, value, name)
        return name

    @contextmanager
    def loop(self, start: Number, stop: Number, step: Number = 1) -> Iterator[Word]:
        """Run the body for the numbers from ``start`` to before ``stop``."""
        counter = self.slot("i64", start)
        with self.while_below(counter, stop) as number:
            yield number
            self.store("i64", self.let(f"add nsw i64 {number}, {step}"), counter)

    @contextmanager
    def while_below(self, counter: Word, stop: Number) -> Iterator[Word]:
        """Run the body, which moves a variable on, as long as that is below ``stop``."""
        label = self._fresh("loop")[1:]
        self.do(f"br label %{label}.head")
        self._lines.append(f"{label}.head:")
        number = self.load("i64", counter)
        goes_on = self.compare("slt", number, stop)
        self.do(f"br i1 {goes_on}, label %{label}.body, label %{label}.end")
        self._lines.append(f"{label}.body:")
        yield number
        self.do(f"br label %{label}.head")
        self._lines.append(f"{label}.end:")

    @contextmanager
    def when(self, condition: Word) -> Iterator[None]:
        """Run the body where a bool is true."""
        label = self._fresh("when")[1:]
        self.do(f"br i1 {condition}, label %{label}.then, label %{label}.end")
        self._lines.append(f"{label}.then:")
        yield
        self.do(f"br label %{label}.end")
        self._lines.append(f"{label}.end:")

    def leave(self) -> None:
        """Return; what comes after it in its block is never reached."""
        self.do("ret void")
        self._lines.append(f"{self._fresh('behind')[1:]}:")

    def leave_when(self, condition: Word) -> None:
        """Return where a bool is true."""
        with self.when(condition):
            self.leave()
