"""The Numba printer: loop-nest functions as readable Python source.

The source imports Numba and the primitives it uses, and can be pasted into a file and run.  Every
name has one type: Numba widens small integers, so each operation on them is converted back.  A bool
parameter is a byte and a float16 parameter its bits, as they are in memory.
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from jitcore.codegen import vecmath
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
from jitcore.codegen.printers.llvm_instructions import BITS, FLOATS
from jitcore.codegen.writer import Writer

__all__ = ["FunctionPrinter", "SourceModule", "parameter_type", "print_function", "python_name"]

_WIDE = frozenset({"int64", "uint64", "float32", "float64", "ptr"})
_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^"}
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_RENAMED = {
    "quot": "quotient",
    "rem": "remainder",
    "frem": "fmod",
    "shl": "shift_left",
    "shr": "shift_right",
    "min": "minimum",
    "max": "maximum",
    "neg": "negative",
    "not": "invert",
}
_FLOAT_OPS = frozenset(
    {
        *("div", "frem", "copysign", "minnum", "maxnum"),
        *("sqrt", "fabs", "floor", "ceil", "trunc", "rint"),
    }
)
_INTEGER_OPS = frozenset({"quot", "rem", "shl", "shr", "popcount", "clz", "ctz"})
_BOTH_OPS = frozenset({"add", "sub", "mul", "neg"})
_OVERFLOWS = frozenset({"add_overflows", "sub_overflows", "mul_overflows"})
_BIT_OPS = frozenset({"and", "or", "xor", "not"})
_ANY_OPS = frozenset({"min", "max", *_COMPARISONS})
STORED = {"float16": "half", "bfloat16": "bfloat"}
"""Dtypes whose numbers are float32 in the source, and what their primitives are called by."""

_ROUNDED = frozenset({"add", "sub", "mul", "div", "frem", "sqrt"})
_DTYPE_ENDINGS = tuple(f"_{dtype}" for dtype in BITS)
_OTHER_PRIMITIVES = {
    *("load", "load_half", "store", "store_half"),
    *("half", "half_bits", "half_from_bits", "bits", "truncate", "select", "fma"),
    *("bfloat", "bfloat_bits", "bfloat_from_bits", "load_bfloat", "store_bfloat"),
    *("minimum_half", "maximum_half"),
    *(f"accumulate_{op}" for op in ("add", "sub", "mul", "min", "max", "minnum", "maxnum")),
}
_RESERVED = frozenset(
    {*_RENAMED.values(), *_FLOAT_OPS, *_INTEGER_OPS, *_OVERFLOWS, *_OTHER_PRIMITIVES}
    | {*BITS, "boolean", "cuda", "libdevice", "njit", "types", "range", "inf", "nan"}
)
_NOT_IDENTIFIER = re.compile(r"[^A-Za-z0-9_]|^(?=[0-9])")


def print_function(function: Function, *, header: str = "") -> str:
    """Print a function, and the vector math it calls, as Python source for Numba.

    Parameters
    ----------
    function : Function
    header : str
        Lines for a comment at the top.

    Returns
    -------
    str
        Source that defines the function, with ``_`` appended to a name that is taken, and runs
        nothing when it is imported.

    Raises
    ------
    KeyError
        When the function calls vector math that does not exist.
    ValueError
        When a primitive does not exist for a dtype.
    """
    module = SourceModule(FunctionPrinter)
    module.add(function, python_name(function.name), is_entry=True)
    return module.text(header)


def _numba_type(dtype: str) -> str:
    """The Numba type of a value inside a kernel."""
    if dtype in STORED:
        return "float32"
    return {"bool": "boolean", "ptr": "int64"}.get(dtype, dtype)


def parameter_type(dtype: str) -> str:
    """The Numba type of a parameter or a result of a kernel."""
    if dtype in STORED:
        return "uint16"
    return {"bool": "uint8", "ptr": "int64"}.get(dtype, dtype)


class SourceModule:
    """What the functions of one source share: imports, C functions, vector math.

    Parameters
    ----------
    printer : type of FunctionPrinter
    decorator : str
        That of functions which are called by others.
    """

    def __init__(
        self,
        printer: type[FunctionPrinter],
        decorator: str = '@njit(error_model="numpy")',
        numba: str = "njit",
    ) -> None:
        self.decorator = decorator
        self._printer = printer
        self._numba = {numba}
        self._primitives: set[str] = set()
        self._math: set[str] = set()
        self._externals: dict[str, str] = {}
        self._functions: dict[str, str] = {}

    def add(self, function: Function, name: str, *, is_entry: bool) -> None:
        """Print a function under ``name``, after the vector math it calls."""
        self._functions[name] = ""
        text = self._printer(self, function, name, is_entry).text()
        del self._functions[name]
        self._functions[name] = text

    def primitive(self, name: str) -> str:
        """Import a primitive."""
        self._primitives.add(name)
        return name

    def type(self, name: str) -> str:
        """Import a type of Numba."""
        self._numba.add(name)
        return name

    def special(self, value: float) -> str:
        """Import infinity or NaN."""
        name = "nan" if math.isnan(value) else "inf"
        self._math.add(name)
        if math.copysign(1.0, value) > 0:
            return name
        # Numba negates by a multiplication, which leaves NaN its sign.
        return f"{self.primitive('copysign')}(nan, -1.0)" if name == "nan" else f"-{name}"

    def external(self, name: str, result: str, params: Sequence[str]) -> str:
        """Bind a C function; gives the name it has in the source."""
        if not STORED.keys().isdisjoint((result, *params)):
            raise ValueError(f"C function {name} cannot take or give float16")
        bound = f"extern_{python_name(name)}"
        if bound not in self._externals:
            self._numba.add("types")
            args = ", ".join(f"types.{parameter_type(dtype)}" for dtype in params)
            signature = f"types.{parameter_type(result)}({args})"
            self._externals[bound] = f"{bound} = types.ExternalFunction({name!r}, {signature})"
        return bound

    def vecmath(self, name: str, dtype: str) -> str:
        """The name of a function of vector math, which is printed once."""
        bound = f"{name}_{dtype}"
        try:
            function = vecmath.function(name, dtype)
        except KeyError as error:
            raise KeyError(f"vector math has no {name!r} for {dtype}") from error
        if bound not in self._functions:
            self.add(function, bound, is_entry=False)
        return bound

    def imports(self) -> list[tuple[str, Sequence[str]]]:
        """The modules of primitives, and what is imported from each."""
        own = sorted(self._primitives)
        return [("jitcore.codegen.primitives", own)] if own else []

    def text(self, header: str) -> str:
        """The whole source."""
        writer = Writer()
        writer.comment(header)
        if self._math:
            writer.line(f"from math import {', '.join(sorted(self._math))}")
            writer.line()
        writer.line(f"from numba import {', '.join(sorted(self._numba))}")
        for module, names in self.imports():
            _import(writer, module, names)
        if self._externals:
            writer.line()
        for line in self._externals.values():
            writer.line(line)
        # The entry was finished last, after what it calls, but it is what one wants to read.
        *called, entry = self._functions.values()
        return writer.text() + "".join(f"\n\n{text}" for text in (entry, *called))


def _import(writer: Writer, module: str, names: Sequence[str]) -> None:
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= 88:
        writer.line(line)
        return
    with writer.block(f"from {module} import ("):
        for name in names:
            writer.line(f"{name},")
    writer.line(")")


def python_name(name: str) -> str:
    """A Python name, never a keyword, a type, a primitive or a function of the module."""
    text = _NOT_IDENTIFIER.sub("_", name)
    reserved = text in _RESERVED or text.startswith("extern_") or text.endswith(_DTYPE_ENDINGS)
    return f"{text}_" if reserved or keyword.iskeyword(text) else text


class FunctionPrinter:
    """Prints one function.

    Parameters
    ----------
    module : SourceModule
    function : Function
    name : str
    is_entry : bool
        Whether parameters and result are those of a C function.
    """

    def __init__(self, module: SourceModule, function: Function, name: str, is_entry: bool) -> None:
        self._module = module
        self._function = function
        self._name = name
        self._is_entry = is_entry
        self._writer = Writer()
        self._visible: dict[str, str] = {}
        self._taken: dict[str, str] = {name: ""}
        self._statements: dict[type, Callable[[Any], None]] = {
            Let: self._let,
            Assign: self._assign,
            Store: self._store,
            For: self._for,
            While: self._while,
            If: self._if,
            Break: lambda _: self._writer.line("break"),
            Continue: lambda _: self._writer.line("continue"),
            Return: self._return,
            Do: lambda statement: self._writer.line(self._call(statement.call)),
            Comment: lambda statement: self._writer.comment(statement.text),
        }
        self._expressions: dict[type, Callable[[Any], str]] = {
            Const: self._const,
            Var: lambda expression: self._visible[expression.name],
            Unary: self._unary,
            Binary: self._binary,
            Select: self._select,
            Cast: self._cast,
            Load: self._load,
            Call: self._call,
        }

    def text(self) -> str:
        """The definition with its decorator."""
        writer = self._writer
        params = [(param, self._parameter(param)) for param in self._function.params]
        writer.line(self.decorator())
        with writer.block(f"def {self._name}({', '.join(name for _, name in params)}):"):
            writer.comment(self._function.doc)
            if self._is_entry:
                self._convert(params)
            self._append(self._function.body)
            if self._falls_through():
                writer.line("return 0")
        return writer.text()

    def decorator(self) -> str:
        """The line above the definition."""
        return self._module.decorator

    def _falls_through(self) -> bool:
        """Whether a native function may get to its end, which means success."""
        body = self._function.body
        ends = bool(body) and isinstance(body[-1], Return)
        return self._is_entry and self._function.result == "int64" and not ends

    def _parameter(self, param: Var) -> str:
        suffix = "_byte" if param.dtype == "bool" else "_bits" if param.dtype in STORED else ""
        if self._is_entry and suffix:
            return self._bind(Var(param.name + suffix, parameter_type(param.dtype)))
        return self._bind(param)

    def _convert(self, params: Sequence[tuple[Var, str]]) -> None:
        """Turn bytes into bools and bits into numbers."""
        for param, name in params:
            if param.dtype == "bool":
                self._writer.line(f"{self._bind(param)}: boolean = {name} != 0")
            if param.dtype in STORED:
                function = self._module.primitive(f"{STORED[param.dtype]}_from_bits")
                self._writer.line(f"{self._bind(param)}: {param.dtype} = {function}({name})")

    def _bind(self, var: Var) -> str:
        """A Python name for a new variable, with one dtype in the whole function."""
        base = name = python_name(var.name)
        number = 0
        while name in self._visible.values() or self._taken.get(name, var.dtype) != var.dtype:
            number += 1
            name = f"{base}_{number}"
        self._taken[name] = var.dtype
        self._visible[var.name] = name
        return name

    # Statements

    def _append(self, statements: Sequence[Stmt]) -> None:
        for statement in statements:
            self._statements[type(statement)](statement)

    def _block(self, header: str, statements: Sequence[Stmt]) -> None:
        """An indented block with a scope of its own."""
        outer = self._visible
        self._visible = dict(outer)
        with self._writer.block(header):
            self._append(statements)
            if all(isinstance(statement, Comment) for statement in statements):
                self._writer.line("pass")
        self._visible = outer

    def _let(self, statement: Let) -> None:
        value = self._expression(statement.value)
        name = self._bind(statement.var)
        self._writer.line(f"{name}: {_annotation(statement.var.dtype)} = {value}")

    def _assign(self, statement: Assign) -> None:
        name = self._visible[statement.var.name]
        self._writer.line(f"{name} = {self._expression(statement.value)}")

    def _store(self, statement: Store) -> None:
        stored = STORED.get(statement.value.dtype)
        function = self._module.primitive(f"store_{stored}" if stored else "store")
        args = (*_place_of(statement), statement.value)
        self._writer.line(f"{function}({self._list(args)})")

    def _for(self, statement: For) -> None:
        bounds = [self._expression(statement.start), self._expression(statement.stop)]
        if statement.step != 1:
            bounds.append(str(statement.step))
        elif bounds[0] == "0":
            del bounds[0]
        outer = self._visible
        self._visible = dict(outer)
        name = self._bind(statement.var)
        self._block(f"for {name} in range({', '.join(bounds)}):", statement.body)
        self._visible = outer

    def _while(self, statement: While) -> None:
        if not statement.head:
            self._block(f"while {self._expression(statement.condition)}:", statement.body)
            return
        outer = self._visible
        self._visible = dict(outer)
        with self._writer.block("while True:"):
            self._append(statement.head)
            with self._writer.block(f"if not ({self._expression(statement.condition)}):"):
                self._writer.line("break")
            self._append(statement.body)
        self._visible = outer

    def _if(self, statement: If) -> None:
        self._block(f"if {self._expression(statement.condition)}:", statement.then)
        if statement.orelse:
            self._block("else:", statement.orelse)

    def _return(self, statement: Return) -> None:
        value = self._expression(statement.value)
        dtype = self._function.result
        if self._is_entry and dtype == "bool":
            value = f"{self._module.type('uint8')}({value})"
        if self._is_entry and dtype in STORED:
            value = f"{self._module.primitive(f'{STORED[dtype]}_bits')}({value})"
        self._writer.line(f"return {value}")

    # Expressions

    def _expression(self, expression: Expr) -> str:
        return self._expressions[type(expression)](expression)

    def _operand(self, expression: Expr) -> str:
        """An expression as part of a larger one."""
        text = self._expression(expression)
        return f"({text})" if _is_infix(expression) else text

    def _list(self, expressions: Sequence[Expr]) -> str:
        return ", ".join(self._expression(expression) for expression in expressions)

    def _const(self, expression: Const) -> str:
        dtype, value = expression.dtype, expression.value
        if dtype == "bool":
            return "True" if value else "False"
        if dtype in FLOATS or dtype in STORED:
            value = float(value)
            text = repr(value) if math.isfinite(value) else self._module.special(value)
            return text if dtype == "float64" else f"{self._convert_to(dtype)}({text})"
        text = repr(int(value))
        if dtype in ("int64", "ptr") and value > -(1 << 63):
            return text
        return f"{self._convert_to(dtype)}({text})"

    def _convert_to(self, dtype: str) -> str:
        return self._module.type(_numba_type(dtype))

    def _unary(self, expression: Unary) -> str:
        op, dtype = expression.op, expression.x.dtype
        _check(op, dtype)
        x = self._expression(expression.x)
        text = f"{self._module.primitive(_RENAMED.get(op, op))}({x})"
        if op in ("popcount", "clz", "ctz") and expression.dtype != dtype:
            return f"{self._convert_to(expression.dtype)}({text})"
        return self._rounded(op, text, dtype)

    def _rounded(self, op: str, text: str, dtype: str) -> str:
        """Round the result of a float16 operation that float32 computed."""
        if dtype == "float16" and op in _ROUNDED:
            return f"{self._module.primitive('half')}({text})"
        return text

    def _binary(self, expression: Binary) -> str:
        op, dtype = expression.op, expression.x.dtype
        _check(op, dtype)
        if expression.reassoc and dtype in FLOATS:
            return self._binary_call(f"accumulate_{op}", expression)
        if op in _COMPARISONS:
            x, y = self._operand(expression.x), self._operand(expression.y)
            return f"{x} {_COMPARISONS[op]} {y}"
        if op not in _INFIX:
            name = _RENAMED.get(op, op)
            is_half = dtype == "float16" and op in ("min", "max")
            return self._binary_call(f"{name}_half" if is_half else name, expression)
        x, y = self._operand(expression.x), self._operand(expression.y)
        text = f"{x} {_INFIX[op]} {y}"
        if dtype == "float16":
            return self._rounded(op, text, dtype)
        return text if dtype in _WIDE else f"{self._convert_to(dtype)}({text})"

    def _binary_call(self, name: str, expression: Binary) -> str:
        args = self._list((expression.x, expression.y))
        text = f"{self._module.primitive(name)}({args})"
        return self._rounded(expression.op, text, expression.x.dtype)

    def _select(self, expression: Select) -> str:
        args = self._list((expression.condition, expression.x, expression.y))
        return f"{self._module.primitive('select')}({args})"

    def _load(self, expression: Load) -> str:
        args = self._list(_place_of(expression))
        if expression.dtype in STORED:
            return f"{self._module.primitive(f'load_{STORED[expression.dtype]}')}({args})"
        dtype = self._convert_to(expression.dtype)
        return f"{self._module.primitive('load')}({args}, {dtype})"

    def _cast(self, expression: Cast) -> str:
        source, target = expression.x.dtype, expression.dtype
        if expression.bits:
            return self._bit_cast(expression)
        if source == "bfloat16" and target != source:
            source = "float32"
        if target == "bool" and source != "bool":
            zero = self._const(Const(0, source))
            return f"({self._operand(expression.x)} != {zero})"
        x = self._expression(expression.x)
        if source == target or {source, target} == {"int64", "ptr"}:
            return x if not _is_infix(expression.x) else f"({x})"
        if target in STORED:
            return self._to_stored(x, source, target)
        if source in FLOATS and target not in FLOATS:
            return f"{self._module.primitive('truncate')}({x}, {self._convert_to(target)})"
        return f"{self._convert_to(target)}({x})"

    def _to_stored(self, x: str, source: str, target: str) -> str:
        is_rounded_twice = target == "bfloat16" and source == "float64"
        if source not in FLOATS or is_rounded_twice:
            x = f"{self._module.type('float32')}({x})"
        return f"{self._module.primitive(STORED[target])}({x})"

    def _bit_cast(self, expression: Cast) -> str:
        source, target = expression.x.dtype, expression.dtype
        x = self._expression(expression.x)
        if source == "float16":
            bits = f"{self._module.primitive('half_bits')}({x})"
            return bits if target == "uint16" else f"{self._convert_to(target)}({bits})"
        if target == "float16":
            word = f"{self._module.type('uint16')}({x})"
            return f"{self._module.primitive('half_from_bits')}({word})"
        if source in FLOATS or target in FLOATS:
            return f"{self._module.primitive('bits')}({x}, {self._convert_to(target)})"
        return self._cast(Cast(expression.x, target))

    def _call(self, expression: Call) -> str:
        dtypes = [arg.dtype for arg in expression.args]
        if expression.name == "fma" and not expression.external:
            if expression.dtype == "float16":
                raise ValueError("no primitive 'fma' for float16")
            return f"{self._module.primitive('fma')}({self._list(expression.args)})"
        if not expression.external:
            dtype = dtypes[0] if expression.dtype == "bool" else expression.dtype
            name = self._module.vecmath(expression.name, dtype)
            return f"{name}({self._list(expression.args)})"
        name = self._module.external(expression.name, expression.dtype, dtypes)
        args = [
            f"{self._module.type('uint8')}({self._expression(arg)})"
            if arg.dtype == "bool"
            else self._expression(arg)
            for arg in expression.args
        ]
        call = f"{name}({', '.join(args)})"
        return f"({call} != 0)" if expression.dtype == "bool" else call


def _place_of(access: Load | Store) -> tuple[Expr, Expr]:
    """Pointer and index of an element; where the index counts bytes, they are in the pointer."""
    if not access.unit:
        return access.pointer, access.index
    moved = Binary("mul", access.index, Const(access.unit, "int64"), "int64")
    pointer = Binary("add", Cast(access.pointer, "int64"), moved, "int64")
    return Cast(pointer, "ptr"), Const(0, "int64")


def _annotation(dtype: str) -> str:
    return "boolean" if dtype == "bool" else dtype


def _is_infix(expression: Expr) -> bool:
    """Whether an expression is printed as operands with an operator between them."""
    if not isinstance(expression, Binary) or (expression.reassoc and expression.x.dtype in FLOATS):
        return False
    wide = expression.x.dtype in _WIDE
    return expression.op in _COMPARISONS or (expression.op in _INFIX and wide)


def _check(op: str, dtype: str) -> None:
    """Raise where there is no such primitive for a dtype."""
    if op in _ANY_OPS:
        return
    if dtype in FLOATS:
        known = _FLOAT_OPS | _BOTH_OPS
    elif dtype in ("bool", "ptr"):
        known = _BIT_OPS if dtype == "bool" else frozenset()
    else:
        known = _INTEGER_OPS | _BOTH_OPS | _BIT_OPS | _OVERFLOWS
    if op not in known:
        raise ValueError(f"no primitive {op!r} for {dtype}")
