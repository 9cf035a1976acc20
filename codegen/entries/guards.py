"""The checks in front of a native function: LLVM text that tests one argument and unpacks it.

Every check that fails jumps to the block ``miss``.  Python objects are never named by address: the
code reads them from the entry's table of constants.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import field
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from jitcore.codegen.entries import layout
from jitcore.codegen.entries.array_lists import read_arrays
from jitcore.codegen.entries.callables import held_by_function, held_by_partial
from jitcore.codegen.entries.constants import check_constant, check_equal
from jitcore.codegen.entries.entry_code import EntryCode
from jitcore.codegen.entries.generators import TakenGenerator, check_generator, interface
from jitcore.codegen.entries.object_lists import (
    ObjectListFields,
    check_object_list,
    check_objects_apart,
    read_object_lists,
)
from jitcore.codegen.entries.signature import (
    ArrayParam,
    ArraysKind,
    GeneratorParam,
    KindParam,
    ListKind,
    ListParam,
    ObjectListParam,
    ObjectParam,
    Param,
    RowsKind,
    ScalarParam,
    TupleParam,
    numbers_of_rows,
)
from jitcore.codegen.printers.llvm_instructions import memory_type
from jitcore.codegen.runtime.shared_lists import TYPES
from jitcore.ir.classes import class_attribute, function_of, has_default
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import FieldWrite
from jitcore.ir.structured import alignment
from jitcore.ir.types import OpenFunction, OpenPartial

__all__ = [
    "Arguments",
    "check_different",
    "check_disjoint",
    "check_own",
    "check_param",
    "free_lists",
    "read_lists",
]

_SWAPPED = 0x02 << 16
_SWAPPED_AND_NUMBER = -1 << 32 | _SWAPPED
"""The bits of the word at ``DTYPE_KIND`` that decide: the type number, and that bit of the byte
order which ``>`` has set, and none of ``<``, ``=`` and ``|``, which are native."""


@dataclass(frozen=True, slots=True)
class _ArrayFields:
    """An array that passed its checks; dims and byte strides are registers or literals."""

    param: ArrayParam
    data: str
    dims: list[str]
    strides: list[str]


@dataclass(frozen=True, slots=True)
class _ListFields:
    """A list, its length, and which operand will be the address of its first numbers."""

    param: ListParam
    value: str
    length: str
    operand: int


@dataclass(frozen=True, slots=True)
class _Defaulted:
    """An attribute that an object may have from its class, which has this default."""

    place: FieldWrite
    value: str
    attribute: str
    default: Any


def _itself(code: EntryCode, value: str) -> str:
    return value


@dataclass(slots=True)
class Arguments:
    """What the checks found: the native function's operands, and the objects they came from.

    Parameters
    ----------
    operands : list of str
        Types and values, in the order of the native function's parameters.
    objects : list of str
        One register for each flattened argument.
    arrays : list of _ArrayFields
        All arrays, for the check that written ones share no memory with others.
    instances : list of str
        All objects of users' classes, in the order of `ir.graph.FieldWrite`.
    defaulted : list of _Defaulted
        Those of their attributes for which their classes have defaults.
    lists : list of _ListFields
        All lists, whose numbers are read when everything else is known to fit.
    object_lists : list of ObjectListFields
        All lists of objects, in the order of `ir.graph.FieldWrite`.
    generators : list of TakenGenerator
        All random generators, which are locked when everything else is known to fit.
    header : callable
        Gives the ``ndarray`` that has the fields of an array argument; by default that itself.
    """

    operands: list[str] = field(default_factory=list)
    objects: list[str] = field(default_factory=list)
    arrays: list[_ArrayFields] = field(default_factory=list)
    instances: list[str] = field(default_factory=list)
    defaulted: list[_Defaulted] = field(default_factory=list)
    lists: list[_ListFields] = field(default_factory=list)
    object_lists: list[ObjectListFields] = field(default_factory=list)
    generators: list[TakenGenerator] = field(default_factory=list)
    header: Callable[[EntryCode, str], str] = field(default=_itself)


def check_param(code: EntryCode, param: Param, value: str, found: Arguments) -> None:
    """Check the object ``value`` against ``param`` and append what it holds to ``found``."""
    if isinstance(param, TupleParam):
        for element, item in zip(
            param.elements, code.tuple_items(value, len(param.elements), param.named), strict=True
        ):
            check_param(code, element, item, found)
        return
    found.objects.append(value)
    if isinstance(param, ObjectParam):
        _check_object(code, param, value, found)
    elif isinstance(param, ArrayParam):
        _check_array(code, param, found.header(code, value), found)
    elif isinstance(param, ScalarParam):
        found.operands += _SCALARS[param.kind](code, param, value)
    elif isinstance(param, ObjectListParam):
        found.object_lists.append(check_object_list(code, param, value, found.operands))
    elif isinstance(param, KindParam):
        code.guard_type(value, param.class_)
        if param.dtype is not None:
            code.guard(_has_dtype(code, param.dtype, value))
    elif isinstance(param, ListParam):
        _check_list(code, param, value, found)
    elif isinstance(param, GeneratorParam):
        found.generators.append(check_generator(code, param, value))
        found.operands.append(interface(code, found.generators[-1]))
    else:
        check_constant(code, param.value, value)


# Objects


def _check_object(code: EntryCode, param: ObjectParam, value: str, found: Arguments) -> None:
    found.instances.append(value)
    if isinstance(param.class_, OpenFunction):
        attributes = held_by_function(code, param.class_, value)
    elif isinstance(param.class_, OpenPartial):
        attributes = held_by_partial(code, param.class_, value)
    else:
        code.guard_type(value, param.class_)
        _check_inherited(code, param, value)
        attributes = [code.attribute(value, name) for name in param.names]
        found.defaulted += _defaulted(param, value, attributes, len(found.instances) - 1)
    for attribute, element in zip(attributes, param.elements, strict=True):
        check_param(code, element, attribute, found)


def _defaulted(
    param: ObjectParam, value: str, attributes: Sequence[str], number: int
) -> Iterator[_Defaulted]:
    """The attributes for which the class of an object has a default."""
    for name, attribute in zip(param.names, attributes, strict=True):
        if has_default(param.class_, name):
            default = class_attribute(param.class_, name)
            yield _Defaulted(FieldWrite(number, name), value, attribute, default)


def _check_inherited(code: EntryCode, param: ObjectParam, value: str) -> None:
    for name, held in param.inherited:
        attribute = code.attribute(value, name)
        if isinstance(function_of(held), FunctionType):
            code.guard_type(attribute, MethodType)
            code.guard(code.same(code.load("ptr", attribute, layout.METHOD_SELF), value))
            attribute = code.load("ptr", attribute, layout.METHOD_FUNCTION)
        code.guard(code.same(attribute, code.constant(held)))


def check_different(code: EntryCode, found: Arguments, written: Collection[int]) -> None:
    """Check that no object that gets other attributes is another argument as well."""
    for number, one in enumerate(found.instances):
        for other in range(number):
            if number in written or other in written:
                code.guard(code.value(f"icmp ne ptr {one}, {found.instances[other]}"))


def check_own(code: EntryCode, found: Arguments, writes: Collection[FieldWrite]) -> None:
    """Check that objects have those attributes themselves that are written.

    An object gets one of its own even where it is set to what its class has.
    """
    for one in found.defaulted:
        if one.place not in writes:
            continue
        doubt, own = code.new_label("doubt"), code.new_label("own")
        is_default = code.same(one.attribute, code.constant(one.default))
        code.effect(f"br i1 {is_default}, label %{doubt}, label %{own}")
        code.start(doubt)
        name = code.constant_name(one.place.name)
        code.guard(code.call("i1", "jc_has_own", f"ptr {one.value}", f"ptr {name}"))
        code.jump(own)
        code.start(own)


# Arrays


def _check_array(code: EntryCode, param: ArrayParam, value: str, found: Arguments) -> None:
    code.guard_type(value, np.ndarray)
    rank = code.load("i32", value, layout.ARRAY_RANK)
    code.guard(
        code.same(rank, str(len(param.dims)), "i32"),
        _has_dtype(code, param.dtype, value),
        _has_flags(code, param, value),
    )
    dims = _checked_dims(code, param, value)
    strides = [] if param.layout in ("C", "F") else _checked_strides(code, param, value, dims)
    if isinstance(param.layout, tuple):
        _check_order(code, param.layout, param.dims, strides)
    data = code.load("ptr", value, layout.ARRAY_DATA)
    if param.dtype.names is not None:
        _check_records(code, param.dtype, value, data)
    found.arrays.append(_ArrayFields(param, data, dims, strides))
    found.operands.append(f"ptr {data}")
    if param.referenced:
        found.operands.append(f"ptr {value}")
    symbols = [dim for dim, known in zip(dims, param.dims, strict=True) if known is None]
    found.operands += [f"i64 {dim}" for dim in symbols]
    count, _ = _division(param.dtype.itemsize)
    found.operands += [f"i64 {code.value(count.format(stride))}" for stride in strides]


def _check_records(code: EntryCode, dtype: np.dtype[Any], value: str, data: str) -> None:
    """Check that an array has records of these fields, which are whole elements in memory."""
    descr = code.load("ptr", value, layout.ARRAY_DTYPE)
    check_equal(code, dtype, descr)
    address = code.value(f"ptrtoint ptr {data} to i64")
    odd = code.value(f"and i64 {address}, {alignment(dtype) - 1}")
    code.guard(code.same(odd, "0", "i64"))


def _has_dtype(code: EntryCode, dtype: np.dtype[Any], value: str) -> str:
    """Whether an array has this dtype in this byte order, under any of its type numbers."""
    descr = code.load("ptr", value, layout.ARRAY_DTYPE)
    word = code.load("i64", descr, layout.DTYPE_KIND)
    bits = code.value(f"and i64 {word}, {_SWAPPED_AND_NUMBER}")
    order = 0 if dtype.isnative else _SWAPPED
    wanted = [number << 32 | order for number in layout.dtype_numbers(dtype)]
    return code.any_of([code.same(bits, str(word), "i64") for word in wanted])


def _has_flags(code: EntryCode, param: ArrayParam, value: str) -> str:
    wanted = layout.ARRAY_ALIGNED
    if param.written:
        wanted |= layout.ARRAY_WRITEABLE
    if param.layout == "C":
        wanted |= layout.ARRAY_C_CONTIGUOUS
    if param.layout == "F":
        wanted |= layout.ARRAY_F_CONTIGUOUS
    flags = code.load("i32", value, layout.ARRAY_FLAGS)
    return code.same(code.value(f"and i32 {flags}, {wanted}"), str(wanted), "i32")


def _checked_dims(code: EntryCode, param: ArrayParam, value: str) -> list[str]:
    if not param.dims:
        return []
    shape = code.load("ptr", value, layout.ARRAY_DIMS)
    dims = [code.load("i64", shape, 8 * axis) for axis in range(len(param.dims))]
    checks = []
    for dim, known in zip(dims, param.dims, strict=True):
        relation, number = ("ne", 1) if known is None else ("eq", known)
        checks.append(code.value(f"icmp {relation} i64 {dim}, {number}"))
    code.guard(*checks)
    return [d if known is None else str(known) for d, known in zip(dims, param.dims, strict=True)]


def _checked_strides(code: EntryCode, param: ArrayParam, value: str, dims: list[str]) -> list[str]:
    """The strides in bytes, which are whole elements wherever an element is ever reached."""
    if not dims:
        return []
    table = code.load("ptr", value, layout.ARRAY_STRIDES)
    strides = [code.load("i64", table, 8 * axis) for axis in range(len(dims))]
    used = [s for s, known in zip(strides, param.dims, strict=True) if known != 1]
    _, rest = _division(param.dtype.itemsize)
    odd = "0"
    for stride in used:
        odd = code.value(f"or i64 {odd}, {code.value(rest.format(stride))}")
    code.guard(code.any_of([code.same(odd, "0", "i64"), _is_empty(code, dims)]))
    return strides


def _division(size: int) -> tuple[str, str]:
    """The instructions for how many elements of a size some bytes are, and how many are left.

    Entries are not optimized, and a division takes as long as all other checks of an array.
    """
    if size & (size - 1):
        return f"sdiv i64 {{}}, {size}", f"srem i64 {{}}, {size}"
    return f"ashr i64 {{}}, {size.bit_length() - 1}", f"and i64 {{}}, {size - 1}"


def _check_order(
    code: EntryCode, order: tuple[int, ...], dims: Sequence[int | None], strides: list[str]
) -> None:
    """Check that the axes lie in memory in this order."""
    lengths = [_absolute(code, stride) for stride in strides]
    walked = sorted((axis for axis, one in enumerate(order) if one), key=lambda axis: order[axis])
    checks = []
    smaller = "0"
    before = 0
    for axis in walked:
        relation = "eq" if order[axis] == before else "ugt"
        checks.append(code.value(f"icmp {relation} i64 {lengths[axis]}, {smaller}"))
        smaller, before = lengths[axis], order[axis]
    still = [axis for axis, one in enumerate(order) if not one and dims[axis] != 1]
    code.guard(*checks, *(code.same(strides[axis], "0", "i64") for axis in still))


def _absolute(code: EntryCode, number: str) -> str:
    sign = code.value(f"ashr i64 {number}, 63")
    flipped = code.value(f"xor i64 {number}, {sign}")
    return code.value(f"sub i64 {flipped}, {sign}")


def _is_empty(code: EntryCode, dims: list[str]) -> str:
    return code.any_of(["false", *(code.same(dim, "0", "i64") for dim in dims)])


def check_disjoint(code: EntryCode, arrays: Sequence[_ArrayFields]) -> None:
    """Check that no written array shares memory with another one or with itself."""
    if not any(array.param.written for array in arrays):
        return
    bounds = [(*_extent(code, array), _is_empty(code, array.dims)) for array in arrays]
    for number, array in enumerate(arrays):
        if array.param.written and array.strides:
            _check_no_overlap_with_itself(code, array)
        for other in range(number):
            if array.param.written or arrays[other].param.written:
                _check_pair(code, bounds[number], bounds[other])


def _extent(code: EntryCode, array: _ArrayFields) -> tuple[str, str]:
    """The addresses of an array's first byte and of the byte after its last."""
    low = high = code.value(f"ptrtoint ptr {array.data} to i64")
    itemsize = array.param.dtype.itemsize
    if not array.strides:
        size = code.product(str(itemsize), array.dims)
        return low, code.value(f"add i64 {high}, {size}")
    for dim, stride in zip(array.dims, array.strides, strict=True):
        last = code.value(f"sub i64 {dim}, 1")
        span = code.value(f"mul i64 {last}, {stride}")
        below = code.value(f"call i64 @llvm.smin.i64(i64 {span}, i64 0)")
        above = code.value(f"call i64 @llvm.smax.i64(i64 {span}, i64 0)")
        low = code.value(f"add i64 {low}, {below}")
        high = code.value(f"add i64 {high}, {above}")
    return low, code.value(f"add i64 {high}, {itemsize}")


def _check_pair(code: EntryCode, one: tuple[str, str, str], two: tuple[str, str, str]) -> None:
    (low, high, empty), (other_low, other_high, other_empty) = one, two
    before = code.value(f"icmp ule i64 {high}, {other_low}")
    after = code.value(f"icmp ule i64 {other_high}, {low}")
    code.guard(code.any_of([before, after, empty, other_empty]))


def _check_no_overlap_with_itself(code: EntryCode, array: _ArrayFields) -> None:
    """Check that each axis steps over all that the axes with smaller steps reach."""
    axes = []
    for dim, stride in zip(array.dims, array.strides, strict=True):
        step = code.value(f"call i64 @llvm.abs.i64(i64 {stride}, i1 false)")
        last = code.value(f"sub i64 {dim}, 1")
        single = code.value(f"icmp sle i64 {dim}, 1")
        axes.append((step, code.value(f"mul i64 {last}, {step}"), single))
    checks = []
    for number, (step, _, single) in enumerate(axes):
        reach = str(array.param.dtype.itemsize)
        for other, span, _ in axes[:number] + axes[number + 1 :]:
            inner = code.value(f"icmp ule i64 {other}, {step}")
            part = code.value(f"select i1 {inner}, i64 {span}, i64 0")
            reach = code.value(f"add i64 {reach}, {part}")
        clear = code.value(f"icmp sge i64 {step}, {reach}")
        checks.append(code.any_of([single, clear]))
    empty = _is_empty(code, array.dims)
    code.guard(*(code.any_of([check, empty]) for check in checks))


# Lists


def _check_list(code: EntryCode, param: ListParam, value: str, found: Arguments) -> None:
    is_text = param.kind == "character"
    code.guard_type(value, str if is_text else list)
    length = code.load("i64", value, layout.TEXT_LENGTH if is_text else layout.LIST_SIZE)
    found.operands.append(f"ptr {value}")
    found.lists.append(_ListFields(param, value, length, len(found.operands)))
    is_empty = code.same(length, "0", "i64")
    if param.kind is None:
        code.guard(is_empty)
        return
    if not is_text:
        code.guard(code.value(f"xor i1 {is_empty}, true"))
    if isinstance(param.kind, RowsKind):
        number = _type_number(param.kind.element)
        operands = (f"ptr {value}", f"i64 {1 + param.kind.depth}", f"i64 {number}")
        code.guard(code.call("i1", "jc_begins_with", *operands))
        return
    found.operands += [*("ptr null" for _ in range(param.columns)), f"i64 {length}"]


def _type_number(kind: ListKind) -> int:
    """What ``jc_begins_with`` knows the type of an element by."""
    if kind is None:
        return -1
    name = "tuple" if isinstance(kind, tuple) else kind
    return [one.__name__ for one in TYPES].index(name)


def read_lists(code: EntryCode, found: Arguments, writes: Sequence[FieldWrite]) -> list[str]:
    """Read the numbers of all lists; gives the memory they are in.

    The objects must have those attributes themselves that are written.  No check may follow,
    because the block ``miss`` does not free the memory.
    """
    for number, one in enumerate(found.lists):
        for other in found.lists[:number]:
            if one.param.written or other.param.written:
                code.guard(code.value(f"icmp ne ptr {one.value}, {other.value}"))
    check_objects_apart(code, found.object_lists, found.instances)
    for one in found.lists:
        if isinstance(one.param.kind, ArraysKind):
            address = read_arrays(code, one.param.kind, one.value, is_written=one.param.written)
            found.operands[one.operand] = f"ptr {address}"
    memory = read_object_lists(code, found.object_lists, writes, found.operands)
    for one in found.lists:
        for column, (reader, operands) in enumerate(_readers(code, one)):
            memory.append(code.call("ptr", reader, f"ptr {one.value}", *operands))
            found.operands[one.operand + column] = f"ptr {memory[-1]}"
    if memory:
        misfit, read = code.new_label("misfit"), code.new_label("read")
        failed = code.any_of([code.same(address, "null") for address in memory])
        code.effect(f"br i1 {failed}, label %{misfit}, label %{read}")
        code.start(misfit)
        free_lists(code, memory)
        code.jump("miss")
        code.start(read)
    return memory


def _readers(code: EntryCode, one: _ListFields) -> Iterator[tuple[str, list[str]]]:
    """What reads each number in the elements of a list, and its operands besides the list."""
    kind = one.param.kind
    if not isinstance(kind, tuple):
        yield from ((reader, []) for reader in one.param.readers)
        return
    class_ = code.constant(one.param.named or tuple)
    for reader, (_, path) in zip(one.param.readers, numbers_of_rows(kind), strict=True):
        (width, place), *inner = path
        steps = sum((16 * wide + at) << 8 * level for level, (wide, at) in enumerate(inner))
        yield reader, [f"ptr {class_}", f"i64 {width}", f"i64 {place}", f"i64 {steps}"]


def free_lists(code: EntryCode, memory: Sequence[str]) -> None:
    """Give up what ``read_lists`` took."""
    for address in memory:
        code.call("void", "jc_free", f"ptr {address}")


# Scalars


def _check_int(code: EntryCode, param: ScalarParam, value: str) -> list[str]:
    _require_dtype(param, "int64")
    code.guard_type(value, int)
    if not layout.has_signed_int_sizes():
        return [f"i64 {_any_int(code, value)}"]
    size = code.load("i64", value, layout.INT_SIZE)
    biased = code.value(f"add i64 {size}, 1")
    is_small = code.value(f"icmp ult i64 {biased}, 3")
    small, large, done = (code.new_label(part) for part in ("small", "large", "int"))
    code.effect(f"br i1 {is_small}, label %{small}, label %{large}")
    code.start(small)
    digit = code.value(f"zext i32 {code.load('i32', value, layout.INT_DIGITS)} to i64")
    of_digit = code.value(f"mul nsw i64 {digit}, {size}")
    code.jump(done)
    code.start(large)
    of_digits = _any_int(code, value)
    end_of_large = code.block
    code.jump(done)
    code.start(done)
    both = f"[ {of_digit}, %{small} ], [ {of_digits}, %{end_of_large} ]"
    return [f"i64 {code.value(f'phi i64 {both}')}"]


def _any_int(code: EntryCode, value: str) -> str:
    """The number in an ``int`` that fits 64 bits."""
    flag = code.alloca("i32")
    number = code.call("i64", "PyLong_AsLongLongAndOverflow", f"ptr {value}", f"ptr {flag}")
    code.guard(code.same(code.load("i32", flag), "0", "i32"))
    return number


def _check_float(code: EntryCode, param: ScalarParam, value: str) -> list[str]:
    _require_dtype(param, "float64")
    code.guard_type(value, float)
    return [f"double {code.load('double', value, layout.FLOAT_VALUE)}"]


def _check_bool(code: EntryCode, param: ScalarParam, value: str) -> list[str]:
    _require_dtype(param, "bool")
    is_true = code.same(value, code.constant(True))
    code.guard(code.any_of([is_true, code.same(value, code.constant(False))]))
    return [f"i8 {code.value(f'zext i1 {is_true} to i8')}"]


def _check_complex(code: EntryCode, param: ScalarParam, value: str) -> list[str]:
    _require_dtype(param, "complex128")
    code.guard_type(value, complex)
    parts = (layout.COMPLEX_REAL, layout.COMPLEX_IMAG)
    return [f"double {code.load('double', value, part)}" for part in parts]


def _check_numpy_scalar(code: EntryCode, param: ScalarParam, value: str) -> list[str]:
    code.guard_type(value, param.dtype.type)
    if param.dtype.kind != "c":
        type_ = memory_type(param.dtype.name)
        return [f"{type_} {code.load(type_, value, layout.SCALAR_VALUE)}"]
    size = param.dtype.itemsize // 2
    type_ = memory_type(f"float{8 * size}")
    parts = (layout.SCALAR_VALUE, layout.SCALAR_VALUE + size)
    return [f"{type_} {code.load(type_, value, part)}" for part in parts]


def _require_dtype(param: ScalarParam, name: str) -> None:
    if param.dtype != np.dtype(name):
        raise ValueError(
            f"internal error: a Python {param.kind} reaches native code as {name}, "
            f"not as {param.dtype}"
        )


_SCALARS: dict[str, Callable[[EntryCode, ScalarParam, str], list[str]]] = {
    "int": _check_int,
    "float": _check_float,
    "bool": _check_bool,
    "complex": _check_complex,
    "numpy": _check_numpy_scalar,
}
