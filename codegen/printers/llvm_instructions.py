"""LLVM instructions for the primitives of the loop-nest IR.

The tables here say which instruction or intrinsic a primitive is; the casts give, for values an
integer cannot hold, what C compilers on x86-64 (and so NumPy) give.
"""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Callable
from math import inf
from typing import Any

from jitcore.codegen.loop_passes.traversal import STREAM
from jitcore.codegen.loops import Const, Expr
from jitcore.codegen.printers.extrema import Extrema

__all__ = [
    "FLOATS",
    "Instructions",
    "alignment",
    "constant",
    "extension",
    "identifier",
    "memory_bytes",
    "memory_type",
    "register_type",
]

BITS = {
    "bool": 1,
    "int8": 8,
    "int16": 16,
    "int32": 32,
    "int64": 64,
    "uint8": 8,
    "uint16": 16,
    "uint32": 32,
    "uint64": 64,
    "float16": 16,
    "bfloat16": 16,
    "float32": 32,
    "float64": 64,
    "ptr": 64,
}
FLOATS = frozenset({"float16", "float32", "float64"})
_SIGNED = frozenset({"int8", "int16", "int32", "int64"})
_FLOAT_TYPES = {"float16": "half", "float32": "float", "float64": "double"}
_REGISTER_TYPES = {
    **{dtype: f"i{bits}" for dtype, bits in BITS.items()},
    **_FLOAT_TYPES,
    "ptr": "ptr",
    "void": "void",
}
_OVERLOADS = {**_REGISTER_TYPES, "float16": "f16", "float32": "f32", "float64": "f64"}

_INTEGER_BINARY = {"add": "add", "sub": "sub", "mul": "mul", "shl": "shl"}
_LOGICAL_BINARY = {"and": "and", "or": "or", "xor": "xor"}
_FLOAT_BINARY = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv", "frem": "frem"}
_DECLARATIONS = {STREAM: f"declare void @{STREAM}(ptr, i64, ptr readonly captures(none), i64)"}
"""Of C functions about which LLVM is told more than their types."""
LINE_BYTES = 64
"""The size of a line of the cache."""
_CONTRACTED = frozenset({"fadd", "fsub", "fmul"})
_FLOAT_UNARY = ("sqrt", "fabs", "floor", "ceil", "trunc", "rint")
_ROOT_ESTIMATES = {
    "float32": "llvm.x86.avx512.rsqrt14.ps.512",
    "float64": "llvm.x86.avx512.rsqrt14.pd.512",
}
_BIT_COUNTS = {"popcount": "ctpop", "clz": "ctlz", "ctz": "cttz"}
_OVERFLOWS = {"add_overflows": "add", "sub_overflows": "sub", "mul_overflows": "mul"}
_FLOAT_COMPARISONS = {
    "eq": "oeq",
    "ne": "une",
    "lt": "olt",
    "le": "ole",
    "gt": "ogt",
    "ge": "oge",
}
_NOT_IDENTIFIER = re.compile(r"[^A-Za-z0-9_]|^(?=[0-9])")


def register_type(dtype: str) -> str:
    """The type a value of this dtype has in a register."""
    return _REGISTER_TYPES[dtype]


def memory_type(dtype: str) -> str:
    """The type a value of this dtype has in memory, as a parameter and as a result."""
    return "i8" if dtype == "bool" else _REGISTER_TYPES[dtype]


def memory_bytes(dtype: str) -> int:
    """The bytes that a value of this dtype takes in memory."""
    return max(BITS[dtype] // 8, 1)


def alignment(dtype: str) -> int:
    """The bytes at whose multiples a value of this dtype lies."""
    return memory_bytes(dtype)


def extension(dtype: str) -> str:
    """How C callers pass integers shorter than ``int``."""
    if dtype in ("int8", "int16"):
        return " signext"
    if dtype in ("bool", "uint8", "uint16"):
        return " zeroext"
    return ""


def identifier(name: str) -> str:
    """The name as letters, digits and underscores, which LLVM need not quote.

    It holds no dot, so what the printers append after one never meets another name.
    """
    return _NOT_IDENTIFIER.sub("_", name)


def _integer(value: int, dtype: str) -> str:
    bits = BITS[dtype]
    return str(value - (1 << bits) if value >> (bits - 1) == 1 else value)


def constant(value: Any, dtype: str) -> str:
    """The operand text of a literal."""
    if dtype == "float64":
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    if dtype == "float32":
        rounded = struct.unpack("<f", struct.pack("<f", value))[0]
        return f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"
    if dtype == "float16":
        return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    if dtype == "bfloat16":
        return _integer(struct.unpack("<I", struct.pack("<f", value))[0] >> 16, dtype)
    if dtype == "bool":
        return "true" if value else "false"
    if dtype == "ptr":
        return f"inttoptr (i64 {int(value)} to ptr)" if value else "null"
    return _integer(int(value), dtype)


class Instructions:
    """Appends instructions to ``lines`` and hands out register names.

    Parameters
    ----------
    declarations : dict
        The module's declarations by symbol; used intrinsics are added.
    contract : bool
        Whether a multiplication and an addition may become one fused operation.
    lanes : int, optional
        Each register holds a vector of so many values, which are no pointers and no bfloat16.
    """

    def __init__(
        self, declarations: dict[str, str], contract: bool = False, lanes: int | None = None
    ) -> None:
        self.declarations = declarations
        self.lines: list[str] = []
        self._lanes = lanes
        self._contract = "contract " if contract else ""
        self._registers = itertools.count(1)
        self._extrema = Extrema(self.value)

    def for_vectors(self, lanes: int, *, contract: bool) -> Instructions:
        """The instructions for vectors, which are appended to the same lines."""
        made = Instructions(self.declarations, contract, lanes)
        made.lines, made._registers = self.lines, self._registers
        return made

    def type(self, dtype: str) -> str:
        """The type of the registers for values of a dtype."""
        type_ = _REGISTER_TYPES[dtype]
        return type_ if self._lanes is None else f"<{self._lanes} x {type_}>"

    def number(self, value: Any, dtype: str) -> str:
        """The operand text of a literal, the same for all lanes."""
        text = constant(value, dtype)
        return text if self._lanes is None else f"splat ({_REGISTER_TYPES[dtype]} {text})"

    def select(self, condition: str, x: str, y: str, dtype: str) -> str:
        """One of two values."""
        type_ = self.type(dtype)
        return self.value(f"select {self.type('bool')} {condition}, {type_} {x}, {type_} {y}")

    def value(self, instruction: str) -> str:
        """Append an instruction that has a result; gives the result's register."""
        register = f"%.{next(self._registers)}"
        self.lines.append(f"  {register} = {instruction}")
        return register

    def effect(self, instruction: str) -> None:
        """Append an instruction without a result."""
        self.lines.append(f"  {instruction}")

    def rename(self, register: str, name: str) -> str:
        """Give the last instruction's result a readable name, if ``register`` is that result."""
        prefix = f"  {register} = "
        if not register.startswith("%.") or not self.lines[-1].startswith(prefix):
            return register
        renamed = f"%{identifier(name)}{register[1:]}"
        self.lines[-1] = f"  {renamed} = {self.lines[-1][len(prefix) :]}"
        self._extrema.rename(register, renamed)
        return renamed

    def declare(self, symbol: str, result: str, params: str) -> None:
        """Declare a function once."""
        if symbol not in self.declarations:
            plain = f"declare {result} @{symbol}({params})"
            self.declarations[symbol] = _DECLARATIONS.get(symbol, plain)

    def prefetch(self, base: str, place: str, size: Expr) -> None:
        """Ask the processor for the lines of so many bytes, which may lie behind an array."""
        assert isinstance(size, Const)
        self.declare("llvm.prefetch.p0", "void", "ptr, i32, i32, i32")
        first = self.value(f"getelementptr i8, ptr {base}, i64 {place}")
        for line_place in range(0, size.value, LINE_BYTES):
            line = self.value(f"getelementptr i8, ptr {first}, i64 {line_place}")
            self.effect(f"call void @llvm.prefetch.p0(ptr {line}, i32 0, i32 3, i32 1)")

    def intrinsic(
        self, name: str, dtype: str, *operands: str, flag: str = "", fast: str = ""
    ) -> str:
        """Call the ``llvm.`` intrinsic overloaded for ``dtype``.

        ``flag`` is an i1 operand, ``fast`` a fast-math flag.
        """
        lanes = "" if self._lanes is None else f"v{self._lanes}"
        symbol = f"llvm.{name}.{lanes}{_OVERLOADS[dtype]}"
        type_ = self.type(dtype)
        params = ", ".join([type_] * len(operands) + ["i1"] * bool(flag))
        self.declare(symbol, type_, params)
        args = ", ".join([f"{type_} {operand}" for operand in operands])
        last = f", i1 {flag}" if flag else ""
        return self.value(f"call {fast}{' ' * bool(fast)}{type_} @{symbol}({args}{last})")

    def opaque(self, operand: str, dtype: str) -> str:
        """An operand of which LLVM does not see that it is infinite.

        It would leave out steps of a minimum or a maximum that change nothing, and could not make
        vectors of a loop with the others.
        """
        is_long = dtype in ("float32", "float64")
        if not is_long or operand not in (constant(inf, dtype), constant(-inf, dtype)):
            return operand
        return self.intrinsic("arithmetic.fence", dtype, operand)

    def in_float32(self, function: Callable[..., str], *operands: str) -> str:
        """Compute on float16 operands in float32 and round, which is how NumPy does it."""
        half, single = self.type("float16"), self.type("float32")
        wide = [self.value(f"fpext {half} {operand} to {single}") for operand in operands]
        return self.value(f"fptrunc {single} {function(*wide)} to {half}")

    def end_of_blocks(self, start: str, stop: str, size: int) -> str:
        """Where a range's last block of ``size`` iterations, a power of two, ends."""
        if not start.startswith("%") and not stop.startswith("%"):
            return str(int(start) + max(int(stop) - int(start), 0) // size * size)
        length = self.value(f"sub nsw i64 {stop}, {start}")
        length = self.intrinsic("smax", "int64", length, "0")
        whole = self.value(f"and i64 {length}, {-size}")
        return self.value(f"add nsw i64 {start}, {whole}")

    def unary(self, op: str, x: str, dtype: str) -> str:
        """One operand; the result has the operand's dtype."""
        if op == "neg":
            return self._negative(x, dtype)
        if op == "not":
            mask = self.number(True if dtype == "bool" else -1, dtype)
            return self.value(f"xor {self.type(dtype)} {x}, {mask}")
        if op in _FLOAT_UNARY and dtype in FLOATS:
            if dtype == "float16" and op != "fabs":
                return self.in_float32(lambda wide: self.intrinsic(op, "float32", wide), x)
            return self.intrinsic(op, dtype, x)
        if op == "inverse_root_estimate" and self._lanes is not None:
            return self._by_registers(_ROOT_ESTIMATES[dtype], x, dtype)
        if op in _BIT_COUNTS and dtype not in FLOATS:
            flag = "" if op == "popcount" else "false"
            return self.intrinsic(_BIT_COUNTS[op], dtype, x, flag=flag)
        raise ValueError(f"no primitive {op!r} for {dtype}")

    def _by_registers(self, symbol: str, x: str, dtype: str) -> str:
        """Call an instruction of AVX-512 with each of the registers that a vector fills."""
        assert self._lanes is not None
        width = 512 // BITS[dtype]
        number, mask = _REGISTER_TYPES[dtype], f"i{max(width, 8)}"
        register = f"<{width} x {number}>"
        self.declare(symbol, register, f"{register}, {register}, {mask}")
        parts = [
            self.value(
                f"call {register} @{symbol}({register} {part}, "
                f"{register} zeroinitializer, {mask} -1)"
            )
            for part in self.registers(x, dtype, width)
        ]
        while len(parts) > 1:
            halves = zip(parts[::2], parts[1::2], strict=True)
            places = ", ".join(f"i32 {place}" for place in range(2 * width))
            type_, width = f"<{width} x {number}>", 2 * width
            parts = [
                self.value(
                    f"shufflevector {type_} {low}, {type_} {high}, <{width} x i32> <{places}>"
                )
                for low, high in halves
            ]
        if width == self._lanes:
            return parts[0]
        places = ", ".join(f"i32 {place}" for place in range(self._lanes))
        return self.value(
            f"shufflevector {register} {parts[0]}, {register} poison, "
            f"<{self._lanes} x i32> <{places}>"
        )

    def registers(self, x: str, dtype: str, width: int) -> list[str]:
        """The parts of a vector with so many lanes each; none are known behind its last one."""
        assert self._lanes is not None
        type_, parts = self.type(dtype), []
        for first in range(0, self._lanes, width):
            lanes = range(first, first + width)
            places = ", ".join(f"i32 {n}" if n < self._lanes else "i32 poison" for n in lanes)
            parts.append(
                self.value(f"shufflevector {type_} {x}, {type_} poison, <{width} x i32> <{places}>")
            )
        return parts

    def _negative(self, x: str, dtype: str) -> str:
        if dtype in FLOATS:
            return self.value(f"fneg {self.type(dtype)} {x}")
        return self.value(f"sub {self.type(dtype)} {self.number(0, dtype)}, {x}")

    def binary(
        self,
        op: str,
        x: str,
        y: str,
        dtype: str,
        reassoc: bool = False,
        contract: bool = False,
    ) -> str:
        """Two operands of ``dtype``; comparisons and ``…_overflows`` give an i1."""
        if op in _FLOAT_COMPARISONS:
            return self._comparison(op, x, y, dtype)
        if op in ("min", "max"):
            return self._extremum(op, x, y, dtype, reassoc)
        if op in ("minnum", "maxnum"):
            return self.intrinsic(op, dtype, x, y, fast="nnan nsz")
        if op in _OVERFLOWS:
            return self._overflows(_OVERFLOWS[op], x, y, dtype)
        if dtype in FLOATS:
            flags = "contract reassoc " if reassoc else "contract " if contract else ""
            return self._float_binary(op, x, y, dtype, flags)
        if op in _LOGICAL_BINARY:
            return self.value(f"{_LOGICAL_BINARY[op]} {self.type(dtype)} {x}, {y}")
        if dtype in ("bool", "ptr"):
            raise ValueError(f"no primitive {op!r} for {dtype}")
        return self._integer_binary(op, x, y, dtype)

    def _comparison(self, op: str, x: str, y: str, dtype: str) -> str:
        type_ = self.type(dtype)
        if dtype in FLOATS:
            return self.value(f"fcmp {_FLOAT_COMPARISONS[op]} {type_} {x}, {y}")
        sign = "" if op in ("eq", "ne") else "s" if dtype in _SIGNED else "u"
        return self.value(f"icmp {sign}{op} {type_} {x}, {y}")

    def _extremum(self, op: str, x: str, y: str, dtype: str, reassoc: bool) -> str:
        if dtype not in FLOATS:
            prefix = "s" if dtype in _SIGNED else "u"
            return self.intrinsic(prefix + op, dtype, x, y)
        if reassoc and dtype != "float16":
            # In which order 0.0 and -0.0 meet is left open, as it is in NumPy.
            return self.intrinsic(op + "imum", dtype, x, y, fast="nsz")
        type_ = self.type(dtype)
        if dtype != "float16":
            return self._extrema.of(op, x, y, type_, self.type("bool"))
        # NumPy takes the first of two equal operands (0.0 and -0.0) here, and else the second.
        predicate = {"min": "ole", "max": "oge"}[op]
        better = self.select(self.value(f"fcmp {predicate} {type_} {x}, {y}"), x, y, dtype)
        return self.select(self.value(f"fcmp uno {type_} {x}, {x}"), x, better, dtype)

    def _overflows(self, op: str, x: str, y: str, dtype: str) -> str:
        type_ = _REGISTER_TYPES[dtype]
        name = f"llvm.{'s' if dtype in _SIGNED else 'u'}{op}.with.overflow.{type_}"
        pair = f"{{{type_}, i1}}"
        self.declare(name, pair, f"{type_}, {type_}")
        both = self.value(f"call {pair} @{name}({type_} {x}, {type_} {y})")
        return self.value(f"extractvalue {pair} {both}, 1")

    def _float_binary(self, op: str, x: str, y: str, dtype: str, flags: str) -> str:
        if op == "copysign":
            return self.intrinsic("copysign", dtype, x, y)
        if op not in _FLOAT_BINARY:
            raise ValueError(f"no primitive {op!r} for {dtype}")
        if dtype == "float16":
            return self.in_float32(
                lambda a, b: self._float_binary(op, a, b, "float32", flags), x, y
            )
        name = _FLOAT_BINARY[op]
        if name in _CONTRACTED:
            flags = flags or self._contract
        return self.value(f"{name} {flags}{self.type(dtype)} {x}, {y}")

    def _integer_binary(self, op: str, x: str, y: str, dtype: str) -> str:
        type_ = self.type(dtype)
        if op in _INTEGER_BINARY:
            return self.value(f"{_INTEGER_BINARY[op]} {type_} {x}, {y}")
        if op == "shr":
            return self.value(f"{'ashr' if dtype in _SIGNED else 'lshr'} {type_} {x}, {y}")
        if op not in ("quot", "rem"):
            raise ValueError(f"no primitive {op!r} for {dtype}")
        kind = "div" if op == "quot" else "rem"
        if dtype not in _SIGNED:
            return self.value(f"u{kind} {type_} {x}, {y}")
        if y != "-1" and y.lstrip("-").isdigit():
            return self.value(f"s{kind} {type_} {x}, {y}")
        return self._signed_division(kind, x, y, dtype)

    def _signed_division(self, kind: str, x: str, y: str, dtype: str) -> str:
        """Divide such that the least integer by -1 wraps; the machine's division would trap."""
        type_ = self.type(dtype)
        minus = self.value(f"icmp eq {type_} {y}, {self.number(-1, dtype)}")
        divisor = self.select(minus, self.number(1, dtype), y, dtype)
        result = self.value(f"s{kind} {type_} {x}, {divisor}")
        if kind == "rem":
            return result  # x rem 1 is x rem -1: zero
        negative = self.value(f"sub {type_} {self.number(0, dtype)}, {x}")
        return self.select(minus, negative, result, dtype)

    def cast(self, x: str, source: str, target: str) -> str:
        """Convert between dtypes by value."""
        if source == target:
            return x
        if source == "bfloat16":
            return self.cast(self._from_bfloat16(x), "float32", target)
        if target == "bfloat16":
            return self._to_bfloat16(self.cast(x, source, "float32"))
        if target == "bool":
            return self._truth(x, source)
        if "ptr" in (source, target):
            return self._pointer_cast(x, source, target)
        if source in FLOATS:
            if target in FLOATS:
                return self._float_to_float(x, source, target)
            return self._float_to_integer(x, source, target)
        if target in FLOATS:
            return self._integer_to_float(x, source, target)
        return self._resize(x, source, target)

    def bit_cast(self, x: str, source: str, target: str) -> str:
        """Reinterpret the bits of a value as another dtype of the same size."""
        from_type, to_type = self.type(source), self.type(target)
        if from_type == to_type:
            return x
        if "bool" in (source, target) or "ptr" in (source, target):
            return self.cast(x, source, target)
        return self.value(f"bitcast {from_type} {x} to {to_type}")

    def _truth(self, x: str, source: str) -> str:
        if source in FLOATS:
            return self.value(f"fcmp une {self.type(source)} {x}, {self.number(0.0, source)}")
        return self.value(f"icmp ne {self.type(source)} {x}, {self.number(0, source)}")

    def _pointer_cast(self, x: str, source: str, target: str) -> str:
        if {source, target} <= {"ptr", "int64", "uint64"}:
            opcode = "ptrtoint" if source == "ptr" else "inttoptr"
            return self.value(
                f"{opcode} {_REGISTER_TYPES[source]} {x} to {_REGISTER_TYPES[target]}"
            )
        raise ValueError(f"no conversion from {source} to {target}")

    def _resize(self, x: str, source: str, target: str) -> str:
        before, after = BITS[source], BITS[target]
        if before == after:
            return x
        opcode = "trunc" if after < before else "sext" if source in _SIGNED else "zext"
        return self.value(f"{opcode} {self.type(source)} {x} to {self.type(target)}")

    def _integer_to_float(self, x: str, source: str, target: str) -> str:
        opcode = "sitofp" if source in _SIGNED else "uitofp"
        if target == "float16":
            # NumPy rounds twice, through float32.
            wide = self.value(f"{opcode} {self.type(source)} {x} to {self.type('float32')}")
            return self.value(f"fptrunc {self.type('float32')} {wide} to {self.type('float16')}")
        return self.value(f"{opcode} {self.type(source)} {x} to {self.type(target)}")

    def _float_to_float(self, x: str, source: str, target: str) -> str:
        if source == "float64" and target == "float16":
            return self._float64_to_float16(x)
        opcode = "fpext" if BITS[source] < BITS[target] else "fptrunc"
        return self.value(f"{opcode} {self.type(source)} {x} to {self.type(target)}")

    def _float64_to_float16(self, x: str) -> str:
        """Round once, by way of a float32 rounded to odd; few machines have the instruction.

        See Boldo and Melquiond, "When double rounding is odd" (2005).
        """
        double, single, half = map(self.type, ("float64", "float32", "float16"))
        word, truth = self.type("int32"), self.type("bool")
        nearest = self.value(f"fptrunc {double} {x} to {single}")
        back = self.value(f"fpext {single} {nearest} to {double}")
        magnitudes = [self.intrinsic("fabs", "float64", operand) for operand in (back, x)]
        above = self.value(f"fcmp ogt {double} {magnitudes[0]}, {magnitudes[1]}")
        inexact = self.value(f"fcmp one {double} {back}, {x}")
        bits = self.value(f"bitcast {single} {nearest} to {word}")
        one = self.value(f"zext {truth} {above} to {word}")
        toward_zero = self.value(f"sub {word} {bits}, {one}")
        sticky = self.value(f"zext {truth} {inexact} to {word}")
        odd = self.value(f"or {word} {toward_zero}, {sticky}")
        rounded = self.value(f"bitcast {word} {odd} to {single}")
        return self.value(f"fptrunc {single} {rounded} to {half}")

    def _from_bfloat16(self, x: str) -> str:
        """The float32 whose upper half the bits are."""
        wide = self.value(f"zext i16 {x} to i32")
        return self.value(f"bitcast i32 {self.value(f'shl i32 {wide}, 16')} to float")

    def _to_bfloat16(self, x: str) -> str:
        """The bits of the nearest one, the even one of two; few machines have the instruction."""
        bits = self.value(f"bitcast float {x} to i32")
        upper = self.value(f"lshr i32 {bits}, 16")
        is_odd = self.value(f"and i32 {upper}, 1")
        half = self.value(f"add i32 {is_odd}, 32767")
        rounded = self.value(f"lshr i32 {self.value(f'add i32 {bits}, {half}')}, 16")
        quiet = self.value(f"or i32 {upper}, 64")
        is_nan = self.value(f"fcmp uno float {x}, {x}")
        found = self.value(f"select i1 {is_nan}, i32 {quiet}, i32 {rounded}")
        return self.value(f"trunc i32 {found} to i16")

    def _float_to_integer(self, x: str, source: str, target: str) -> str:
        if source == "float16":
            x, source = self.cast(x, "float16", "float32"), "float32"
        if target == "uint64":
            return self._float_to_uint64(x, source)
        bits = 64 if target in ("int64", "uint32") else 32
        wide = self._truncate(x, source, bits)
        return self._resize(wide, f"int{bits}", target)

    def _truncate(self, x: str, source: str, bits: int) -> str:
        """Toward zero; NaN and what does not fit become the least integer, as on x86-64."""
        type_, target = self.type(source), f"int{bits}"
        magnitude = self.intrinsic("fabs", source, x)
        limit = self.number(2.0 ** (bits - 1), source)
        fits = self.value(f"fcmp olt {type_} {magnitude}, {limit}")
        converted = self.value(f"fptosi {type_} {x} to {self.type(target)}")
        return self.select(fits, converted, self.number(-(1 << (bits - 1)), target), target)

    def _float_to_uint64(self, x: str, source: str) -> str:
        """What x86-64 compilers emit: the upper half is converted less 2**63."""
        type_, integer = self.type(source), self.type("int64")
        half = self.number(2.0**63, source)
        large = self.value(f"fcmp oge {type_} {x}, {half}")
        low = self._truncate(x, source, 64)
        difference = self.value(f"fsub {type_} {x}, {half}")
        high = self._truncate(difference, source, 64)
        flipped = self.value(f"xor {integer} {high}, {self.number(-(1 << 63), 'int64')}")
        return self.select(large, flipped, low, "int64")
