"""The LLVM printer: loop-nest functions as the text of an LLVM module.

Values keep to their dtype's register type; a bool is an ``i1`` in a register and an ``i8`` in
memory, as a parameter and as a result.  Mutable variables are stack slots, which LLVM's first
pass turns into registers.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Sequence
from typing import Any

from jitcore.codegen.engine import Effort
from jitcore.codegen.loop_passes.parallel import part_function, slot_index, work_of
from jitcore.codegen.loop_passes.traversal import PREFETCH, STACK
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Break,
    Call,
    Cast,
    Comment,
    Const,
    Continue,
    Do,
    Expr,
    For,
    Function,
    If,
    Let,
    Load,
    Return,
    Select,
    Stmt,
    Store,
    Unary,
    Var,
    While,
)
from jitcore.codegen.printers.alias_scopes import alias_scopes
from jitcore.codegen.printers.exits import Exits, drops_at_end
from jitcore.codegen.printers.llvm_instructions import (
    Instructions,
    alignment,
    constant,
    extension,
    identifier,
    memory_type,
    register_type,
)
from jitcore.codegen.printers.llvm_module import Definition, Module, inlining
from jitcore.codegen.printers.loop_hints import Neighbours, loop_hints
from jitcore.codegen.printers.loop_metadata import AS_IT_IS
from jitcore.codegen.printers.loops_of_vectors import LoopsOfVectors
from jitcore.codegen.printers.open_rows import is_open, sum_steps, vector_of_known_rest
from jitcore.codegen.printers.side_by_side import SideBySide, only_vector_loops, short_steps
from jitcore.codegen.printers.vector_calls import VectorCalls, is_called, vector_calls
from jitcore.codegen.printers.vector_forms import is_vector_loop
from jitcore.codegen.runtime.numpy_loops import VECTOR_FORMS
from jitcore.codegen.runtime.workers import LEAST_WORK
from jitcore.codegen.writer import one_line

__all__ = ["parameter_types", "print_declaration", "print_module", "print_parts"]

_FOR_PARTS = ("head", "body", "latch", "end")


def print_module(
    functions: Sequence[Function], contract: bool = False, vector_bits: int = 512
) -> str:
    """Print functions, and the vector math they call, as one LLVM module.

    Functions that take vectors are modules of their own: loops of many functions call them.

    Parameters
    ----------
    functions : sequence of Function
        Each is visible outside under its name, but those that are ``internal``.
    contract : bool
        Allow a multiplication and an addition to become one fused operation, in these functions
        but not in vector math.
    vector_bits : int
        The size of the machine's vector registers.

    Returns
    -------
    str
        LLVM IR with opaque pointers, without a target.

    Raises
    ------
    KeyError
        When a function calls vector math that does not exist.
    ValueError
        When a primitive does not exist for a dtype.
    """
    return _filled(Module(vector_bits, _definition), functions, contract).text()


def print_parts(
    functions: Sequence[Function],
    contract: bool = False,
    vector_bits: int = 512,
    *,
    starts_late: bool = False,
) -> list[tuple[str, Effort]]:
    """Print functions as texts of one module, each with what is to be optimized in it.

    The parameters are those of `print_module`, and ``starts_late``: the code of worker threads may
    be made by the first loop that turns out to be large enough, which takes the GIL.

    Returns
    -------
    list of tuple of str
        The first text has the function that is visible outside.
    """
    module = Module(vector_bits, _definition, is_divided=True, starts_late=starts_late)
    _filled(module, functions, contract)
    parts: list[tuple[str, Effort]] = [(module.text(), module.effort)]
    return [*parts, *module.texts_beside()]


def _filled(module: Module, functions: Sequence[Function], contract: bool) -> Module:
    for function in functions:
        linkage = "define internal" if function.internal else "define"
        module.add(function, linkage, contract)
    return module


def parameter_types(function: Function) -> tuple[str, ...]:
    """The LLVM types of a function's parameters."""
    return tuple(memory_type(param.dtype) for param in function.params)


def print_declaration(function: Function) -> str:
    """The LLVM declaration of a function that is compiled elsewhere."""
    params = ", ".join(parameter_types(function))
    return f"declare {memory_type(function.result)} @{function.name}({params})\n"


def _definition(module: Module, function: Function, linkage: str, contract: bool) -> Definition:
    return _FunctionPrinter(module, function, contract).definition(linkage)


class _FunctionPrinter(LoopsOfVectors):
    """Prints one function; statements append to the instructions' lines."""

    def __init__(self, module: Module, function: Function, contract: bool) -> None:
        self._module = module
        self._function = function
        self._code = Instructions(module.declarations, contract)
        self._allocas: list[str] = []
        self._variables: ChainMap[str, str] = ChainMap()
        self._slots: set[str] = set()
        self._exits = Exits(self._code)
        self._loops: list[tuple[str, str]] = []
        self._calls: VectorCalls | None = None
        self._neighbours = Neighbours()
        self._is_unlikely = False
        self._scopes = alias_scopes(function, module.metadata)
        self._block = "entry"
        self._terminated = False
        self._labels = 0
        self._parts = 0
        self._contract = contract
        self._is_final = True
        self._is_of_vectors = only_vector_loops(function.body)
        self._statements: dict[type, Callable[[Any], None]] = {
            Let: self._let,
            Assign: self._assign,
            Store: self._store,
            For: self._for,
            While: self._while,
            If: self._if,
            Break: self._break,
            Continue: self._continue,
            Return: self._return,
            Do: self._do,
            Comment: self._comment,
        }
        self._expressions: dict[type, Callable[[Any], str]] = {
            Const: self._const,
            Var: self._var,
            Unary: self._unary,
            Binary: self._binary,
            Select: self._select,
            Cast: self._cast,
            Load: self._load,
            Call: self._call,
        }

    def definition(self, linkage: str) -> Definition:
        """The whole definition."""
        function = self._function
        params = []
        for param in function.params:
            operand = f"%{identifier(param.name)}"
            while f"{memory_type(param.dtype)} {operand}" in params:
                operand += "_"
            params.append(f"{memory_type(param.dtype)} {operand}")
            if param.dtype == "bool":
                operand = self._code.value(f"icmp ne i8 {operand}, 0")
            self._variables[param.name] = operand
        self._statement_list(function.body)
        if not self._terminated:
            self._finish()
        inline = inlining(function, linkage)
        header = (
            f"{linkage} {memory_type(function.result)} @{function.name}"
            f"({', '.join(params)}) {inline}#0 {{"
        )
        lines = [*self._exits.allocas, *self._allocas, *self._code.lines, *self._exits.lines]
        text = "\n".join([header, "entry:", *lines, "}"])
        return Definition(text, self._is_final and not self._allocas)

    def _finish(self) -> None:
        """Leave at the end of the body: a native function that gets there has succeeded."""
        ends = {"void": "ret void", "int64": "ret i64 0"}
        self._terminate(ends.get(self._function.result, "unreachable"))

    # Blocks

    def _terminate(self, instruction: str) -> None:
        if not self._terminated:
            self._code.effect(instruction)
        self._terminated = True

    def _label(self, name: str) -> None:
        self._code.lines.append(f"{name}:")
        self._block = name
        self._terminated = False

    def _number(self) -> int:
        self._labels += 1
        return self._labels

    def _statement_list(self, statements: Sequence[Stmt]) -> None:
        """Print statements in a scope of their own; nothing after a jump is reachable."""
        self._variables = self._variables.new_child()
        self._append(statements)
        self._variables = self._variables.parents

    def _append(self, statements: Sequence[Stmt]) -> None:
        self._neighbours.note(statements, is_inner=bool(self._loops))
        drops = drops_at_end(statements) if self._function.result == "int64" else []
        for statement in statements[: -1 - len(drops)] if drops else statements:
            if self._terminated:
                return
            self._is_final = self._is_final and isinstance(statement, Let | For | Comment)
            self._statements[type(statement)](statement)
        if drops and not self._terminated:
            self._is_final = False
            held = [self._variables[one.name] for one in drops]
            self._terminate(self._exits.leave(drops, held, self._slots, statements[-1]))

    # Statements

    def _let(self, statement: Let) -> None:
        name, dtype = statement.var.name, statement.var.dtype
        if isinstance(statement.value, Call) and statement.value.name == STACK:
            self._variables[name] = self._on_stack(name, statement.value)
            return
        operand = self._expression(statement.value)
        if not statement.mutable:
            self._variables[name] = self._code.rename(operand, name)
            return
        slot = self._slot(name, register_type(dtype))
        self._slots.add(slot)
        self._variables[name] = slot
        self._code.effect(f"store {register_type(dtype)} {operand}, ptr {slot}")

    def _on_stack(self, name: str, call: Call) -> str:
        """An aligned address on the function's stack, which all uses of the name share."""
        (size,) = call.args
        assert isinstance(size, Const)
        room = f"%{identifier(name)}.room{len(self._allocas)}"
        self._allocas.append(f"  {room} = alloca [{size.value} x i8], align 64")
        return room

    def _assign(self, statement: Assign) -> None:
        operand = self._expression(statement.value)
        slot = self._variables[statement.var.name]
        self._code.effect(f"store {register_type(statement.var.dtype)} {operand}, ptr {slot}")

    def _store(self, statement: Store) -> None:
        dtype = statement.value.dtype
        value = self._expression(statement.value)
        if dtype == "bool":
            value = self._code.value(f"zext i1 {value} to i8")
        address = self._address(statement.pointer, statement.index, dtype, statement.unit)
        align = f"align {statement.unit or alignment(dtype)}{self._scopes.get(statement.root, '')}"
        self._code.effect(f"store {memory_type(dtype)} {value}, ptr {address}, {align}")

    def _for(self, statement: For) -> None:
        work = work_of(statement)
        if work is not None and not (isinstance(work, Const) and work.value < LEAST_WORK):
            self._parallel_loop(statement, work)
            return
        start = self._expression(statement.start)
        stop = self._expression(statement.stop)
        self._counted_loop(statement, start, stop)

    def _parallel_loop(self, statement: For, work: Expr) -> None:
        """Call ``jc_parallel`` with a function of the loop's body, and with what that reads."""
        self._parts += 1
        part, captured = part_function(statement, f"{self._function.name}_part{self._parts}")
        name = self._module.add_beside(part, self._contract)
        context = f"%context{self._parts}"
        self._allocas.append(f"  {context} = alloca [{max(len(captured), 1)} x i64], align 8")
        pointer = Var(f"context {self._parts}", "ptr")
        self._variables[pointer.name] = context
        for number, var in enumerate(captured):
            self._store(Store(pointer, slot_index(number, var.dtype), var))
        start, stop = self._expression(statement.start), self._expression(statement.stop)
        size = self._expression(work)
        symbol = self._module.parallel(may_be_small=not isinstance(work, Const))
        self._code.effect(
            f"call void @{symbol}(ptr @{name}, ptr {context}, i64 {start}, i64 {stop}, i64 {size})"
        )

    def _counted_loop(self, statement: For, start: str, stop: str) -> None:
        """One loop between two operands, whether all of it or the part of a parallel one.

        A loop that calls vector math, is long, or is printed as one over vectors becomes two: one
        over whole blocks of vectors and one over the rest.
        """
        self._calls = vector_calls(statement, self._module.vector_bits)
        blocks = self._calls or self._module.side_by_side(statement)
        is_for_vectors = self._has_masks() and is_vector_loop(statement)
        is_row = self._has_masks() and self._is_row(statement)
        if blocks is None and is_for_vectors and (self._is_of_vectors or is_row):
            blocks = short_steps(statement, self._module.vector_bits)
        if blocks is None and is_row:
            blocks = sum_steps(statement, self._module.vector_bits)
            is_for_vectors = blocks is not None
        if blocks is None:
            self._one_loop(statement, start, stop)
        elif is_row and is_for_vectors:
            self._row_of_vectors(statement, start, stop, blocks)
        else:
            self._in_blocks(statement, start, stop, blocks, is_for_vectors=is_for_vectors)
        self._calls = None

    def _in_blocks(
        self,
        statement: For,
        start: str,
        stop: str,
        blocks: VectorCalls | SideBySide,
        *,
        is_for_vectors: bool,
    ) -> None:
        """A loop over whole blocks and one over the rest."""
        middle = self._code.end_of_blocks(start, stop, blocks.together)
        for first, last, is_rest in ((start, middle, False), (middle, stop, True)):
            if first == last:
                continue
            shorter = vector_of_known_rest(statement, blocks, first, last) if is_rest else None
            if is_for_vectors and shorter is not None:
                self._calls = None
                self._loop_of_vectors(statement, first, last, shorter, is_rest=True)
            elif is_for_vectors:
                self._loop_of_vectors(statement, first, last, blocks, is_rest=is_rest)
            else:
                self._one_loop(statement, first, last, blocks.hints(is_rest))

    def _is_row(self, statement: For) -> bool:
        """Whether a loop is a row, of unknown length, of one around it, and runs each time."""
        is_inner = self._neighbours.is_inner(statement) and not self._is_unlikely
        return is_inner and is_open(statement)

    def _has_masks(self) -> bool:
        """Whether the machine has masks for elements of all sizes."""
        return self._module.vector_bits == 512

    def _twin(self, call: Call) -> str:
        """The function for vectors that a loop calls; nothing where that is inlined."""
        calls = self._calls
        if calls is None or not is_called(call.name, call.dtype):
            self._module.note_inlined(call.name, call.dtype)
            return ""
        return self._module.twin(call.name, call.dtype, calls.lanes)

    def _one_loop(self, statement: For, start: str, stop: str, known: Sequence[str] = ()) -> None:
        self._is_final = False
        self._module.note_loop()
        number = self._number()
        head, body, latch, end = (f"for{number}.{part}" for part in _FOR_PARTS)
        index = f"%{identifier(statement.var.name)}.for{number}"
        flags = "nuw nsw" if start.isdigit() else "nsw"
        entry = self._block
        self._terminate(f"br label %{head}")
        self._label(head)
        self._code.effect(f"{index} = phi i64 [ {start}, %{entry} ], [ {index}.next, %{latch} ]")
        self._code.effect(f"{index}.more = icmp slt i64 {index}, {stop}")
        self._terminate(f"br i1 {index}.more, label %{body}, label %{end}")
        self._label(body)
        self._variables = self._variables.new_child({statement.var.name: index})
        self._loops.append((latch, end))
        self._statement_list(statement.body)
        self._loops.pop()
        self._variables = self._variables.parents
        self._terminate(f"br label %{latch}")
        self._label(latch)
        self._code.effect(f"{index}.next = add {flags} i64 {index}, {statement.step}")
        known = known or (AS_IT_IS if self._is_unlikely else ())
        hints = loop_hints(
            statement, self._module.metadata, known, self._module.vector_bits, self._neighbours
        )
        hint = f", !llvm.loop {hints}" if hints else ""
        self._terminate(f"br label %{head}{hint}")
        self._label(end)

    def _while(self, statement: While) -> None:
        self._module.note_loop()
        number = self._number()
        head, body, end = (f"while{number}.{part}" for part in ("head", "body", "end"))
        self._variables = self._variables.new_child()
        self._terminate(f"br label %{head}")
        self._label(head)
        self._loops.append((head, end))
        self._append(statement.head)
        if not self._terminated:
            condition = self._expression(statement.condition)
            self._terminate(f"br i1 {condition}, label %{body}, label %{end}")
            self._label(body)
            self._append(statement.body)
            self._terminate(f"br label %{head}")
        self._loops.pop()
        self._variables = self._variables.parents
        self._label(end)

    def _if(self, statement: If) -> None:
        number = self._number()
        then, orelse, end = (f"if{number}.{part}" for part in ("then", "else", "end"))
        other = orelse if statement.orelse else end
        condition = self._expression(statement.condition)
        self._terminate(
            f"br i1 {condition}, label %{then}, label %{other}{self._module.odds(statement)}"
        )
        self._label(then)
        around, self._is_unlikely = self._is_unlikely, self._is_unlikely or statement.unlikely
        self._statement_list(statement.then)
        self._is_unlikely = around
        reaches_end = not self._terminated or not statement.orelse
        self._terminate(f"br label %{end}")
        if statement.orelse:
            self._label(orelse)
            self._statement_list(statement.orelse)
            reaches_end = reaches_end or not self._terminated
            self._terminate(f"br label %{end}")
        if reaches_end:
            self._label(end)

    def _break(self, _: Break) -> None:
        self._terminate(f"br label %{self._loops[-1][1]}")

    def _continue(self, _: Continue) -> None:
        self._terminate(f"br label %{self._loops[-1][0]}")

    def _return(self, statement: Return) -> None:
        value = self._expression(statement.value)
        if self._function.result == "bool":
            value = self._code.value(f"zext i1 {value} to i8")
        self._terminate(f"ret {memory_type(self._function.result)} {value}")

    def _do(self, statement: Do) -> None:
        if statement.call.name == PREFETCH:
            pointer, place, size = statement.call.args
            self._code.prefetch(self._expression(pointer), self._expression(place), size)
        else:
            self._call(statement.call)

    def _comment(self, statement: Comment) -> None:
        self._code.lines.append(f"  ; {one_line(statement.text)}")

    # Expressions

    def _expression(self, expression: Expr) -> str:
        return self._expressions[type(expression)](expression)

    def _const(self, expression: Const) -> str:
        return constant(expression.value, expression.dtype)

    def _var(self, expression: Var) -> str:
        operand = self._variables[expression.name]
        if operand in self._slots:
            return self._code.value(f"load {register_type(expression.dtype)}, ptr {operand}")
        return operand

    def _unary(self, expression: Unary) -> str:
        dtype = expression.x.dtype
        result = self._code.unary(expression.op, self._expression(expression.x), dtype)
        return self._code.cast(result, dtype, expression.dtype)

    def _binary(self, expression: Binary) -> str:
        x = self._expression(expression.x)
        y = self._expression(expression.y)
        dtype, contract = expression.x.dtype, expression.contract
        return self._code.binary(expression.op, x, y, dtype, expression.reassoc, contract)

    def _select(self, expression: Select) -> str:
        condition = self._expression(expression.condition)
        x = self._code.opaque(self._expression(expression.x), expression.dtype)
        y = self._code.opaque(self._expression(expression.y), expression.dtype)
        type_ = register_type(expression.dtype)
        # LLVM would jump over what it finds dear, and the processor cannot foretell data.
        hint = self._module.unpredictable()
        return self._code.value(
            f"select i1 {condition}, {type_} {x}, {type_} {y}, !unpredictable {hint}"
        )

    def _cast(self, expression: Cast) -> str:
        x = self._expression(expression.x)
        cast = self._code.bit_cast if expression.bits else self._code.cast
        return cast(x, expression.x.dtype, expression.dtype)

    def _load(self, x: Load) -> str:
        dtype = x.dtype
        address = self._address(x.pointer, x.index, dtype, x.unit)
        known = f"align {x.unit or alignment(dtype)}{self._scopes.get(x.root, '')}"
        value = self._code.value(f"load {memory_type(dtype)}, ptr {address}, {known}")
        return self._code.value(f"icmp ne i8 {value}, 0") if dtype == "bool" else value

    def _address(self, pointer: Expr, index: Expr, dtype: str, unit: int = 0) -> str:
        base = self._expression(pointer)
        offset = self._expression(index)
        if offset == "0":
            return base
        step = f"i{8 * unit}" if unit else memory_type(dtype)
        return self._code.value(f"getelementptr inbounds {step}, ptr {base}, i64 {offset}")

    def _call(self, expression: Call) -> str:
        self._is_final = False
        args = [self._expression(arg) for arg in expression.args]
        dtypes = [arg.dtype for arg in expression.args]
        if expression.external:
            return self._external_call(expression, args, dtypes)
        if expression.name == "fma":
            return self._fused(args, expression.dtype)
        dtype = dtypes[0] if expression.dtype == "bool" else expression.dtype
        symbol, function = self._module.vecmath(expression.name, dtype, self._calls)
        return self._emit_call(symbol, function.result, args, dtypes)

    def _fused(self, args: list[str], dtype: str) -> str:
        if dtype == "float16":
            raise ValueError("no primitive 'fma' for float16")
        return self._code.intrinsic("fma", dtype, *args)

    def _external_call(self, expression: Call, args: list[str], dtypes: list[str]) -> str:
        params = ", ".join(f"{memory_type(d)}{extension(d)}" for d in dtypes)
        result = f"{extension(expression.dtype)} {memory_type(expression.dtype)}".strip()
        if expression.name in VECTOR_FORMS:
            self._module.declare_with_vectors(expression.name)
        self._code.declare(expression.name, result, params)
        return self._emit_call(expression.name, expression.dtype, args, dtypes)

    def _emit_call(self, symbol: str, result: str, args: list[str], dtypes: list[str]) -> str:
        operands = []
        for arg, dtype in zip(args, dtypes, strict=True):
            operand = self._code.value(f"zext i1 {arg} to i8") if dtype == "bool" else arg
            operands.append(f"{memory_type(dtype)}{extension(dtype)} {operand}")
        call = f"{memory_type(result)} @{symbol}({', '.join(operands)})"
        if result == "void":
            self._code.effect(f"call {call}")
            return ""
        value = self._code.value(f"call {extension(result)} {call}".replace("  ", " "))
        return self._code.value(f"icmp ne i8 {value}, 0") if result == "bool" else value
