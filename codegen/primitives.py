"""The primitives of the loop-nest IR for Numba: what printed kernels import.

Numba widens small integers, unifies branches and checks shifts.  These intrinsics do none of that:
operands have one type, and so has the result.  Addresses are ``int64``.  A float16 value is a
float32 that float16 represents, because Numba has no float16 arithmetic on the CPU; ``half`` rounds
to one.  So it is with bfloat16 and ``bfloat``.  The instructions are those of
``printers.llvm_instructions``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.errors import TypingError
from numba.extending import intrinsic

__all__ = [
    "accumulate_add",
    "accumulate_max",
    "accumulate_maxnum",
    "accumulate_min",
    "accumulate_minnum",
    "accumulate_mul",
    "accumulate_sub",
    "add_overflows",
    "bfloat",
    "bfloat_bits",
    "bfloat_from_bits",
    "bits",
    "ceil",
    "clz",
    "copysign",
    "ctz",
    "fabs",
    "floor",
    "fma",
    "fmod",
    "half",
    "half_bits",
    "half_from_bits",
    "invert",
    "load",
    "load_bfloat",
    "load_half",
    "maximum",
    "maximum_half",
    "minimum",
    "minimum_half",
    "mul_overflows",
    "negative",
    "popcount",
    "quotient",
    "remainder",
    "rint",
    "select",
    "shift_left",
    "shift_right",
    "sqrt",
    "store",
    "store_bfloat",
    "store_half",
    "sub_overflows",
    "trunc",
    "truncate",
]

Emit = Callable[..., ir.Value]
"""``emit(builder, numba_type, *operands)`` appends instructions and gives the result."""

_BOOL, _BYTE, _INT32, _WORD = (ir.IntType(bits) for bits in (1, 8, 32, 64))
_HALF, _FLOAT, _DOUBLE = ir.HalfType(), ir.FloatType(), ir.DoubleType()


def _is_float(type_: Any) -> bool:
    return isinstance(type_, types.Float)


def _is_signed(type_: Any) -> bool:
    return type_ in types.signed_domain


def _bit_count(type_: Any) -> int:
    return 1 if type_ == types.boolean else int(type_.bitwidth)


def _llvm_type(type_: Any) -> ir.Type:
    if type_ == types.float32:
        return _FLOAT
    if type_ == types.float64:
        return _DOUBLE
    return ir.IntType(_bit_count(type_))


def _same(name: str, operands: Sequence[Any]) -> Any:
    """The one type of all operands."""
    first = operands[0]
    if any(operand != first for operand in operands):
        raise TypingError(f"{name} needs operands of one type, not {', '.join(map(str, operands))}")
    return first


def _call(
    builder: Any, name: str, result: ir.Type, args: Sequence[ir.Value], fast: Sequence[str] = ()
) -> ir.Value:
    """Call an LLVM intrinsic, declared on its first use in the module."""
    module = builder.module
    function = module.globals.get(name)
    if function is None:
        type_ = ir.FunctionType(result, [arg.type for arg in args])
        function = ir.Function(module, type_, name)
    return builder.call(function, args, fastmath=fast)


def _suffix(type_: ir.Type) -> str:
    names = {"half": "f16", "float": "f32", "double": "f64"}
    return names.get(str(type_), str(type_))


def _overloaded(builder: Any, name: str, *args: ir.Value) -> ir.Value:
    type_ = args[0].type
    return _call(builder, f"llvm.{name}.{_suffix(type_)}", type_, args)


def _unary(name: str, emit: Emit) -> Any:
    """An intrinsic of one operand."""

    def typer(_context: Any, x: Any) -> Any:
        def code(_: Any, builder: Any, signature: Any, args: Any) -> ir.Value:
            return emit(builder, signature.args[0], *args)

        return x(x), code

    typer.__name__ = name
    return intrinsic(typer)


def _binary(name: str, emit: Emit, result: Any = None) -> Any:
    """An intrinsic of two operands of one type; ``result`` where it gives another type."""

    def typer(_context: Any, x: Any, y: Any) -> Any:
        type_ = _same(name, (x, y))

        def code(_: Any, builder: Any, signature: Any, args: Any) -> ir.Value:
            return emit(builder, signature.args[0], *args)

        return (result or type_)(type_, type_), code

    typer.__name__ = name
    return intrinsic(typer)


# Memory


def _element(builder: Any, address: ir.Value, index: ir.Value, type_: ir.Type) -> ir.Value:
    pointer = builder.inttoptr(address, type_.as_pointer())
    return builder.gep(pointer, [index], inbounds=True, source_etype=type_)


def _load(builder: Any, address: ir.Value, index: ir.Value, type_: ir.Type) -> ir.Value:
    size = {"half": 2, "float": 4, "double": 8}.get(str(type_)) or type_.width // 8
    return builder.load(_element(builder, address, index, type_), align=size, typ=type_)


def _store(builder: Any, address: ir.Value, index: ir.Value, value: ir.Value) -> None:
    type_ = value.type
    size = {"half": 2, "float": 4, "double": 8}.get(str(type_)) or type_.width // 8
    builder.store(value, _element(builder, address, index, type_), align=size)


@intrinsic
def load(_context: Any, address: Any, index: Any, dtype: Any) -> Any:
    """Element ``index`` of type ``dtype`` after ``address``."""
    result = dtype.dtype

    def code(_: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        if result == types.boolean:
            byte = _load(builder, args[0], args[1], _BYTE)
            return builder.icmp_unsigned("!=", byte, ir.Constant(_BYTE, 0))
        return _load(builder, args[0], args[1], _llvm_type(result))

    return result(types.int64, types.int64, dtype), code


@intrinsic
def store(_context: Any, address: Any, index: Any, value: Any) -> Any:
    """Write ``value`` as element ``index`` after ``address``."""

    def code(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        operand = builder.zext(args[2], _BYTE) if value == types.boolean else args[2]
        _store(builder, args[0], args[1], operand)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, value), code


@intrinsic
def load_half(_context: Any, address: Any, index: Any) -> Any:
    """Element ``index`` of type float16 after ``address``."""

    def code(_: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        return builder.fpext(_load(builder, args[0], args[1], _HALF), _FLOAT)

    return types.float32(types.int64, types.int64), code


@intrinsic
def store_half(_context: Any, address: Any, index: Any, value: Any) -> Any:
    """Write ``value``, which float16 represents, as element ``index`` after ``address``."""

    def code(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        _store(builder, args[0], args[1], builder.fptrunc(args[2], _HALF))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.float32), code


# Float16


def _round_to_odd(builder: Any, x: ir.Value) -> ir.Value:
    """A float64 as float32, such that rounding the result again rounds ``x`` only once."""
    word = ir.IntType(32)
    nearest = builder.fptrunc(x, _FLOAT)
    back = builder.fpext(nearest, _DOUBLE)
    above = builder.fcmp_ordered(">", _magnitude(builder, back), _magnitude(builder, x))
    inexact = builder.fcmp_ordered("!=", back, x)
    toward_zero = builder.sub(builder.bitcast(nearest, word), builder.zext(above, word))
    return builder.bitcast(builder.or_(toward_zero, builder.zext(inexact, word)), _FLOAT)


def _magnitude(builder: Any, x: ir.Value) -> ir.Value:
    """A float64 without its sign; compilers for devices have no ``llvm.fabs``."""
    positive = builder.and_(builder.bitcast(x, _WORD), ir.Constant(_WORD, (1 << 63) - 1))
    return builder.bitcast(positive, _DOUBLE)


@intrinsic
def half(_context: Any, x: Any) -> Any:
    """Round a float32 or a float64 to what float16 represents."""
    if not _is_float(x):
        raise TypingError(f"half needs a float, not {x}")

    def code(_: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        narrow = _round_to_odd(builder, args[0]) if x == types.float64 else args[0]
        return builder.fpext(builder.fptrunc(narrow, _HALF), _FLOAT)

    return types.float32(x), code


@intrinsic
def half_bits(_context: Any, x: Any) -> Any:
    """The bits of a float16."""

    def code(_: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        return builder.bitcast(builder.fptrunc(args[0], _HALF), ir.IntType(16))

    return types.uint16(types.float32), code


@intrinsic
def half_from_bits(_context: Any, x: Any) -> Any:
    """The float16 with these bits."""

    def code(_: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        return builder.fpext(builder.bitcast(args[0], _HALF), _FLOAT)

    return types.float32(types.uint16), code


# Bfloat16


@intrinsic
def bfloat(_context: Any, x: Any) -> Any:
    """Round a float32 to what bfloat16 represents."""

    def code(_: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        bits = builder.bitcast(args[0], _INT32)
        is_odd = builder.and_(builder.lshr(bits, _INT32(16)), _INT32(1))
        nearest = builder.add(bits, builder.add(is_odd, _INT32(0x7FFF)))
        quiet = builder.or_(bits, _INT32(0x400000))
        is_nan = builder.fcmp_unordered("uno", args[0], args[0])
        chosen = builder.select(is_nan, quiet, nearest)
        return builder.bitcast(builder.and_(chosen, _INT32(0xFFFF0000)), _FLOAT)

    return types.float32(types.float32), code


@intrinsic
def bfloat_bits(_context: Any, x: Any) -> Any:
    """The bits of a bfloat16."""

    def code(_: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        return _upper(builder, args[0])

    return types.uint16(types.float32), code


@intrinsic
def bfloat_from_bits(_context: Any, x: Any) -> Any:
    """The bfloat16 with these bits."""

    def code(_: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        return _as_upper(builder, args[0])

    return types.float32(types.uint16), code


@intrinsic
def load_bfloat(_context: Any, address: Any, index: Any) -> Any:
    """Element ``index`` of type bfloat16 after ``address``."""

    def code(_: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        return _as_upper(builder, _load(builder, args[0], args[1], ir.IntType(16)))

    return types.float32(types.int64, types.int64), code


@intrinsic
def store_bfloat(_context: Any, address: Any, index: Any, value: Any) -> Any:
    """Write ``value``, which bfloat16 represents, as element ``index`` after ``address``."""

    def code(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        _store(builder, args[0], args[1], _upper(builder, args[2]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.float32), code


def _upper(builder: Any, x: ir.Value) -> ir.Value:
    """The upper half of a float32."""
    bits = builder.bitcast(x, _INT32)
    return builder.trunc(builder.lshr(bits, _INT32(16)), ir.IntType(16))


def _as_upper(builder: Any, x: ir.Value) -> ir.Value:
    """The float32 with an upper half, and zeros below."""
    return builder.bitcast(builder.shl(builder.zext(x, _INT32), _INT32(16)), _FLOAT)


# Selection and conversion


@intrinsic
def select(_context: Any, condition: Any, x: Any, y: Any) -> Any:
    """``x if condition else y`` without a branch."""
    type_ = _same("select", (x, y))

    def code(_: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        return builder.select(*args)

    return type_(types.boolean, type_, type_), code


@intrinsic
def bits(_context: Any, x: Any, dtype: Any) -> Any:
    """The bits of ``x`` as a value of ``dtype``, which has the same size."""
    result = dtype.dtype

    def code(_: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        return builder.bitcast(args[0], _llvm_type(result))

    return result(x, dtype), code


def _toward_zero(builder: Any, x: ir.Value, width: int) -> ir.Value:
    """Toward zero; NaN and what does not fit become the least integer, as on x86-64."""
    type_ = ir.IntType(width)
    limit = ir.Constant(x.type, 2.0 ** (width - 1))
    above = builder.fcmp_ordered(">", x, ir.Constant(x.type, -(2.0 ** (width - 1))))
    fits = builder.and_(above, builder.fcmp_ordered("<", x, limit))
    least = ir.Constant(type_, -(1 << (width - 1)))
    return builder.select(fits, builder.fptosi(x, type_), least)


def _to_uint64(builder: Any, x: ir.Value) -> ir.Value:
    half_range = ir.Constant(x.type, 2.0**63)
    large = builder.fcmp_ordered(">=", x, half_range)
    high = _toward_zero(builder, builder.fsub(x, half_range), 64)
    flipped = builder.xor(high, ir.Constant(_WORD, -(1 << 63)))
    return builder.select(large, flipped, _toward_zero(builder, x, 64))


@intrinsic
def truncate(_context: Any, x: Any, dtype: Any) -> Any:
    """A float as an integer, with NumPy's results for what does not fit."""
    result = dtype.dtype

    def code(_: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        if result == types.uint64:
            return _to_uint64(builder, args[0])
        width = 64 if result in (types.int64, types.uint32) else 32
        wide = _toward_zero(builder, args[0], width)
        narrow = ir.IntType(_bit_count(result))
        return wide if narrow.width == width else builder.trunc(wide, narrow)

    return result(x, dtype), code


# Arithmetic


def _negative(builder: Any, type_: Any, x: ir.Value) -> ir.Value:
    return builder.fneg(x) if _is_float(type_) else builder.neg(x)


def _divide(builder: Any, type_: Any, x: ir.Value, y: ir.Value) -> ir.Value:
    if not _is_signed(type_):
        return builder.udiv(x, y)
    minus = builder.icmp_signed("==", y, ir.Constant(y.type, -1))
    divisor = builder.select(minus, ir.Constant(y.type, 1), y)
    return builder.select(minus, builder.neg(x), builder.sdiv(x, divisor))


def _remainder(builder: Any, type_: Any, x: ir.Value, y: ir.Value) -> ir.Value:
    if not _is_signed(type_):
        return builder.urem(x, y)
    minus = builder.icmp_signed("==", y, ir.Constant(y.type, -1))
    return builder.srem(x, builder.select(minus, ir.Constant(y.type, 1), y))


def _shift_right(builder: Any, type_: Any, x: ir.Value, y: ir.Value) -> ir.Value:
    return builder.ashr(x, y) if _is_signed(type_) else builder.lshr(x, y)


def _extremum(comparison: str, name: str) -> Emit:
    """NumPy's minimum and maximum: NaN wins, and of equal floats ``comparison`` takes one."""

    def emit(builder: Any, type_: Any, x: ir.Value, y: ir.Value) -> ir.Value:
        if not _is_float(type_):
            return _overloaded(builder, ("s" if _is_signed(type_) else "u") + name, x, y)
        better = builder.select(builder.fcmp_ordered(comparison, x, y), x, y)
        return builder.select(builder.fcmp_unordered("uno", x, x), x, better)

    return emit


def _instruction(method: str, *flags: str) -> Emit:
    """The float instruction of this name with fast-math flags."""

    def emit(builder: Any, _: Any, x: ir.Value, y: ir.Value) -> ir.Value:
        return getattr(builder, method)(x, y, flags=flags)

    return emit


def _intrinsic(name: str, *flags: bool, fast: Sequence[str] = ()) -> Emit:
    """The overloaded LLVM intrinsic of this name; ``flags`` are i1 operands."""

    def emit(builder: Any, _: Any, *args: ir.Value) -> ir.Value:
        type_ = args[0].type
        constants = [ir.Constant(_BOOL, flag) for flag in flags]
        return _call(builder, f"llvm.{name}.{_suffix(type_)}", type_, [*args, *constants], fast)

    return emit


def _overflows(operation: str) -> Emit:
    def emit(builder: Any, type_: Any, x: ir.Value, y: ir.Value) -> ir.Value:
        sign = "s" if _is_signed(type_) else "u"
        name = f"llvm.{sign}{operation}.with.overflow.{x.type}"
        pair = _call(builder, name, ir.LiteralStructType([x.type, _BOOL]), [x, y])
        return builder.extract_value(pair, 1)

    return emit


@intrinsic
def fma(_context: Any, x: Any, y: Any, z: Any) -> Any:
    """``x * y + z``, rounded once."""
    type_ = _same("fma", (x, y, z))

    def code(_: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        return _overloaded(builder, "fma", *args)

    return type_(type_, type_, type_), code


negative = _unary("negative", _negative)
invert = _unary("invert", lambda builder, _, x: builder.not_(x))
sqrt = _unary("sqrt", _intrinsic("sqrt"))
fabs = _unary("fabs", _intrinsic("fabs"))
floor = _unary("floor", _intrinsic("floor"))
ceil = _unary("ceil", _intrinsic("ceil"))
trunc = _unary("trunc", _intrinsic("trunc"))
rint = _unary("rint", _intrinsic("rint"))
popcount = _unary("popcount", _intrinsic("ctpop"))
clz = _unary("clz", _intrinsic("ctlz", False))
ctz = _unary("ctz", _intrinsic("cttz", False))

quotient = _binary("quotient", _divide)
remainder = _binary("remainder", _remainder)
fmod = _binary("fmod", _instruction("frem"))
shift_left = _binary("shift_left", lambda builder, _, x, y: builder.shl(x, y))
shift_right = _binary("shift_right", _shift_right)
minimum = _binary("minimum", _extremum("<", "min"))
maximum = _binary("maximum", _extremum(">", "max"))
minimum_half = _binary("minimum_half", _extremum("<=", "min"))
maximum_half = _binary("maximum_half", _extremum(">=", "max"))
copysign = _binary("copysign", _intrinsic("copysign"))
add_overflows = _binary("add_overflows", _overflows("add"), types.boolean)
sub_overflows = _binary("sub_overflows", _overflows("sub"), types.boolean)
mul_overflows = _binary("mul_overflows", _overflows("mul"), types.boolean)

# Steps of a reduction, which may be taken in another order.
accumulate_add = _binary("accumulate_add", _instruction("fadd", "reassoc"))
accumulate_sub = _binary("accumulate_sub", _instruction("fsub", "reassoc"))
accumulate_mul = _binary("accumulate_mul", _instruction("fmul", "reassoc"))
accumulate_min = _binary("accumulate_min", _intrinsic("minimum", fast=["nsz"]))
accumulate_max = _binary("accumulate_max", _intrinsic("maximum", fast=["nsz"]))
accumulate_minnum = _binary("accumulate_minnum", _intrinsic("minnum", fast=["nnan", "nsz"]))
accumulate_maxnum = _binary("accumulate_maxnum", _intrinsic("maxnum", fast=["nnan", "nsz"]))
