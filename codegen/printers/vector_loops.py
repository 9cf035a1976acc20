"""Loops over arrays, printed as loops over vectors.

LLVM makes the same of them, but weighs the cost of each instruction for each size of a vector
first, which is half of the time that it takes to compile a long loop.  And where it is not told
that a range consists of whole blocks, it keeps the loop over single elements as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from jitcore.codegen import vecmath
from jitcore.codegen.loop_passes.traversal import bound_names, loads_in, variables
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Call,
    Comment,
    Const,
    Expr,
    For,
    Let,
    Load,
    Stmt,
    Store,
    Var,
)
from jitcore.codegen.printers.llvm_instructions import (
    BITS,
    Instructions,
    alignment,
    memory_type,
    register_type,
)
from jitcore.codegen.printers.vector_branches import VectorBranch
from jitcore.codegen.printers.vector_forms import is_same_element
from jitcore.codegen.printers.vector_functions import VectorCode
from jitcore.codegen.writer import one_line
from jitcore.ir.dataclass import dataclass

__all__ = ["Surroundings", "VectorLoop"]

_FLOATS: Final = frozenset({"float32", "float64"})


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the body of a loop needs from the function that it is a part of.

    Parameters
    ----------
    bind : function
        Says which the first of a vector's iterations is, for the next two.
    scalar : function
        Prints an expression for the first of a vector's iterations.
    address : function
        Prints the address of an element from pointer, index and dtype, for the same iteration.
    steps : mapping of str to Binary
        How elements are joined to variables, by these variables' names.
    sums : sequence of dict
        For each of the vectors side by side, the places of what is joined, by the same names.
    twin : function
        The symbol of a function for vectors that is called in the place of a call; nothing where
        the code of the function comes in place.
    label : function
        Begins a block of instructions with this name.
    scopes : mapping of str to str
        The metadata of accesses by their roots.
    """

    bind: Callable[[str], None]
    scalar: Callable[[Expr], str]
    address: Callable[[Expr, Expr, str], str]
    steps: Mapping[str, Binary]
    sums: Sequence[Mapping[str, str]]
    twin: Callable[[Call], str]
    label: Callable[[str], None]
    scopes: Mapping[str, str]


class VectorLoop:
    """Prints the body of a loop over vectors.

    Parameters
    ----------
    code : Instructions
        Those of the function, for scalars.
    lanes : int
        The elements of a vector.
    loop : For
    around : Surroundings
    contract : bool
        Allow a multiplication and an addition to become one operation, but not in vector math.
    """

    def __init__(
        self, code: Instructions, lanes: int, loop: For, around: Surroundings, *, contract: bool
    ) -> None:
        self._code = code
        self._lanes = lanes
        self._statements = loop.body
        self._index = loop.var.name
        self._inside = frozenset(bound_names([loop]))
        self._around = around
        self._contract = contract

    def body(self, index: str, step: int, stop: str | None) -> None:
        """Print vectors side by side, ``step`` elements from one index on.

        Where ``stop`` is given, elements from there on are left out.
        """
        places = {index: self._vector(0)}
        for number in range(self._lanes, step, self._lanes):
            place = self._code.value(f"add nsw i64 {index}, {number}")
            places[place] = self._vector(number // self._lanes)
        if stop is not None:
            places[index].mask_rest(index, stop, self._type_of_masks())
        for one in self._statements:
            if isinstance(one, Comment):
                self._code.lines.append(f"  ; {one_line(one.text)}")
                continue
            for place, vector in places.items():
                self._around.bind(place)
                vector.statement(one)

    def _type_of_masks(self) -> str:
        dtypes = [load.dtype for load in loads_in(self._statements)]
        dtypes += [one.value.dtype for one in self._statements if isinstance(one, Store)]
        return f"i{max([8, *(BITS[dtype] for dtype in dtypes)])}"

    def _vector(self, number: int) -> _Vector:
        sums = self._around.sums[number] if self._around.sums else {}
        return _Vector(
            self._code,
            self._lanes,
            self._inside,
            self._around,
            sums,
            self._index,
            contract=self._contract,
        )


class _Vector(VectorCode):
    """Prints what a loop does in as many iterations as a vector has lanes.

    The parameters are those of `VectorLoop`, but for the names that the loop binds
    the places of what this vector is joined to, and the name of the loop's own variable.
    """

    def __init__(
        self,
        code: Instructions,
        lanes: int,
        inside: frozenset[str],
        around: Surroundings,
        sums: Mapping[str, str],
        index: str,
        *,
        contract: bool,
    ) -> None:
        super().__init__(code.for_vectors(lanes, contract=contract), lanes)
        self._scalars = code
        self._math = VectorCode(code.for_vectors(lanes, contract=False), lanes)
        self._inside = inside
        self._around = around
        self._sums = sums
        self._index = index
        self._mask = ""
        self._is_rest = False
        self._expressions[Load] = self._load

    def mask_rest(self, index: str, stop: str, type_: str) -> None:
        """Leave out the lanes from ``stop`` on.

        The mask comes from integers of the size of the elements, which fill as many registers.
        """
        self._is_rest = True
        if index.isdigit() and stop.isdigit():
            self._mask = self._known_mask(int(stop) - int(index))
            return
        left = self._scalars.value(f"sub nsw i64 {stop}, {index}")
        # The rest is less than a block, which i16 holds.
        count = left
        if type_ == "i8":
            count = self._scalars.intrinsic("umin", "int64", left, str(self._lanes))
        if type_ != "i64":
            count = self._scalars.value(f"trunc i64 {count} to {type_}")
        steps = ", ".join(f"{type_} {lane}" for lane in range(self._lanes))
        limit = self._splat(count, type_)
        self._mask = self._code.value(f"icmp ugt <{self._lanes} x {type_}> {limit}, <{steps}>")

    def _known_mask(self, count: int) -> str:
        if count >= self._lanes:
            return ""
        lanes = ("true" if lane < count else "false" for lane in range(self._lanes))
        return f"<{', '.join(f'i1 {one}' for one in lanes)}>"

    def statement(self, statement: Stmt) -> None:
        """Compute a variable of the loop, or write the elements of a vector."""
        match statement:
            case Let():
                name = statement.var.name
                operand = self._expression(statement.value)
                self._variables[name] = self._code.rename(operand, name)
            case Store():
                self._store(statement)
            case Assign():
                self._join(statement)

    def _join(self, step: Assign) -> None:
        """Join the elements of a vector to what others were joined to."""
        value, slot = self._around.steps[step.var.name], self._sums[step.var.name]
        type_ = self._code.type(value.dtype)
        before = self._code.value(f"load {type_}, ptr {slot}")
        self._variables[step.var.name] = before
        after = self._expression(value)
        if self._mask:
            after = self._code.select(self._mask, after, before, value.dtype)
        self._code.effect(f"store {type_} {after}, ptr {slot}")

    def _store(self, statement: Store) -> None:
        dtype = statement.value.dtype
        value = self._expression(statement.value)
        type_ = self._in_memory(dtype)
        if dtype == "bool":
            value = self._code.value(f"zext {self._code.type('bool')} {value} to {type_}")
        address = self._around.address(statement.pointer, statement.index, dtype)
        align, suffix = alignment(dtype), self._around.scopes.get(statement.root, "")
        if not self._mask:
            self._code.effect(f"store {type_} {value}, ptr {address}, align {align}{suffix}")
            return
        masks = self._code.type("bool")
        symbol = f"llvm.masked.store.{self._overload(dtype)}"
        self._code.declare(symbol, "void", f"{type_}, ptr, i32, {masks}")
        place = f"ptr {address}, i32 {align}, {masks} {self._mask}"
        self._code.effect(f"call void @{symbol}({type_} {value}, {place}){suffix}")

    def _var(self, x: Var) -> str:
        if x.name not in self._variables:
            scalar = self._around.scalar(x)
            type_ = register_type(x.dtype)
            every = self._splat(scalar, type_)
            if x.name == self._index:
                steps = ", ".join(f"{type_} {lane}" for lane in range(self._lanes))
                every = self._code.value(f"add {self._code.type(x.dtype)} {every}, <{steps}>")
            self._variables[x.name] = every
        return self._variables[x.name]

    def _load(self, x: Load) -> str:
        if is_same_element(x, self._inside):
            return self._splat(self._around.scalar(x), register_type(x.dtype))
        address = self._around.address(x.pointer, x.index, x.dtype)
        type_, suffix = self._in_memory(x.dtype), self._around.scopes.get(x.root, "")
        if self._mask:
            masks = self._code.type("bool")
            symbol = f"llvm.masked.load.{self._overload(x.dtype)}"
            self._code.declare(symbol, type_, f"ptr, i32, {masks}, {type_}")
            place = f"ptr {address}, i32 {alignment(x.dtype)}, {masks} {self._mask}"
            found = self._code.value(f"call {type_} @{symbol}({place}, {type_} poison){suffix}")
        else:
            align = alignment(x.dtype)
            found = self._code.value(f"load {type_}, ptr {address}, align {align}{suffix}")
        if x.dtype != "bool":
            return found
        return self._code.value(f"icmp ne {type_} {found}, zeroinitializer")

    def _call(self, x: Call) -> str:
        if x.name not in ("fma", "divide", "root"):
            return self._function(x)
        operands = [self._expression(one) for one in x.args]
        if x.name == "fma":
            return self._code.intrinsic("fma", x.dtype, *operands)
        if x.name == "root" and self._is_rest:
            # The rest of a loop runs once: the instruction is less to compile.
            return self._code.unary("sqrt", operands[0], x.dtype)
        if x.name == "root":
            return self._branch(x).root(*operands)
        branch = self._branch(x)
        if branch.is_register and x.dtype == "float32":
            # For one register the division takes less time than to ask whether it is needed.
            return self._code.binary("div", operands[0], operands[1], x.dtype)
        is_one = self._inside.isdisjoint(variables(x.args[1]))
        divisor = self._around.scalar(x.args[1]) if is_one else ""
        at_once = self._is_rest or branch.is_register
        return branch.quotient(operands, divisor, at_once=at_once)

    def _function(self, x: Call) -> str:
        """The value of a function that comes in place, or is called for the whole vector."""
        called = vecmath.shared(x)
        symbol = self._around.twin(called)
        x = called if symbol else x
        operands = [self._expression(one) for one in x.args]
        if symbol and x.name == "remainder_by_constant" and isinstance(x.args[1], Const):
            return self._branch(x).remainder(operands, x, symbol)
        if not symbol:
            return self._math.call(vecmath.function(x.name, x.dtype), operands)
        type_ = self._code.type(x.dtype)
        args = ", ".join(f"{type_} {operand}" for operand in operands)
        return self._code.value(f"call {type_} @{symbol}({args})")

    def _splat(self, operand: str, type_: str) -> str:
        """A vector with the same number in each lane."""
        vector = f"<{self._lanes} x {type_}>"
        first = self._code.value(f"insertelement {vector} poison, {type_} {operand}, i64 0")
        places = f"<{self._lanes} x i32> zeroinitializer"
        return self._code.value(f"shufflevector {vector} {first}, {vector} poison, {places}")

    def _branch(self, x: Call) -> VectorBranch:
        return VectorBranch(self._scalars, self._lanes, x.dtype, self._around.label)

    def _in_memory(self, dtype: str) -> str:
        return f"<{self._lanes} x {memory_type(dtype)}>"

    def _overload(self, dtype: str) -> str:
        """What the names of intrinsics that access memory end with."""
        letter = "f" if dtype in _FLOATS else "i"
        return f"v{self._lanes}{letter}{max(8, BITS[dtype])}.p0"
