"""Draws of random numbers, typed: what compiled code draws, and by what the rest is said.

    %2 : Any = np::call[name="random.rand"](%n)
    %4 : Any = prim::CallMethod[name="choice"](%g, %x)

become calls of the methods in ``ir.draws``, the second one with its definition around it:

    %2 : Float64[n] = prim::CallMethod[name="random_sample"](%generator, %size, size=…)
    %3 : Int64 = prim::CallMethod[name="integers"](%g, %count, low=…)
    %4 : Float64 = prim::getitem(%x, %3)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitcore.ir.dataclass import dataclass
from jitcore.ir.draws import GLOBAL, Draw, draw_of
from jitcore.ir.graph import Node, Value
from jitcore.ir.ops.op import Parameter, Untypable, bind, parse_parameters
from jitcore.ir.ops.shaping import dims_of_values, shape_values
from jitcore.ir.reference import require
from jitcore.ir.specialize.typed_builder import TypedBuilder
from jitcore.ir.types import (
    ANY,
    GENERATOR,
    GENERATORS,
    INT,
    NONE,
    RANDOM_STATE,
    ListType,
    TensorType,
    Type,
    UnionType,
    is_number,
)

__all__ = ["draw"]

_FUNCTIONS = dict.fromkeys(("ranf", "sample"), "random_sample")
"""The functions that are no methods under these names."""

_OTHER_NAMES = {"random": "random_sample", "rand": "random_sample", "randn": "standard_normal"}
"""The methods of the old generators, and the functions, that draw the same as others."""

_OF_EXTENTS = frozenset({"rand", "randn"})
"""Those that take the extents one by one."""

_PREFIX = "random."

_CHOSEN_FROM = ("int", "array", "list")

_CHOICE_IS_INT = type(np.random.Generator(np.random.PCG64(0)).choice(2)) is int
"""Versions of NumPy differ in that."""
_MAX_RANK = 8


def _takes_none(size: Any) -> Any:
    """Whether no samples are asked for."""
    return 0 in size if isinstance(size, (tuple, list)) else size == 0


def _choice(generator: Any, a: Any, size: Any) -> Any:
    if isinstance(a, int):
        text = "a must be a positive integer unless no samples are taken"
        require(a > 0 or _takes_none(size), "ValueError", text)
        found = generator.integers(0, a, size)
        return int(found) if size is None and _CHOICE_IS_INT else found
    array = np.asarray(a)
    text = "a cannot be empty unless no samples are taken"
    require(array.size > 0 or _takes_none(size), "ValueError", text)
    return array[generator.integers(0, array.size, size)]


def _legacy_choice(generator: Any, a: Any, size: Any) -> Any:
    if isinstance(a, int):
        text = "a must be greater than 0 unless no samples are taken"
        require(a > 0 or _takes_none(size), "ValueError", text)
        return generator.randint(0, a, size)
    array = np.asarray(a)
    text = "'a' cannot be empty unless no samples are taken"
    require(array.size > 0 or _takes_none(size), "ValueError", text)
    return array[generator.randint(0, array.size, size)]


def _permutation(generator: Any, x: Any) -> Any:
    return x[generator.permutation(x.size)]


def _shuffle(generator: Any, x: Any) -> Any:
    x[:] = x[generator.permutation(x.size)]


@dataclass(frozen=True, slots=True)
class _Defined:
    """A method that draws by others.

    Parameters
    ----------
    definition : callable
        Gets the generator, and the parameters that are compiled.
    parameters : str
    takes : tuple of str
        What the argument of the first parameter is: ``"int"``, ``"array"`` of one axis, ``"list"``
        of numbers.
    """

    definition: Callable[..., Any]
    parameters: str
    takes: tuple[str, ...]


_DEFINED: dict[Type, dict[str, _Defined]] = {
    GENERATOR: {
        "shuffle": _Defined(_shuffle, "x, axis!=0", ("array",)),
        "permutation": _Defined(_permutation, "x, axis!=0", ("array",)),
        "choice": _Defined(
            _choice, "a, size=None, replace!=True, p!=None, axis!=0, shuffle!=True", _CHOSEN_FROM
        ),
    },
    RANDOM_STATE: {
        "shuffle": _Defined(_shuffle, "x", ("array",)),
        "permutation": _Defined(_permutation, "x", ("array",)),
        "choice": _Defined(_legacy_choice, "a, size=None, replace!=True, p!=None", _CHOSEN_FROM),
    },
}


def draw(b: TypedBuilder, node: Node, inputs: Sequence[Value]) -> Value | None:
    """What a node draws, where compiled code has a form of that; None where it has not."""
    if b.is_by_definition or "starred" in node.attributes or "**" in node.keywords:
        return None
    name: str = node.attributes.get("name", "")
    is_function = node.kind == "np::call" and name.startswith(_PREFIX)
    if is_function:
        name = name.removeprefix(_PREFIX)
        name = _FUNCTIONS.get(name, name)
    is_method = node.kind == "prim::CallMethod" and inputs[0].type in GENERATORS.values()
    if not is_method and not (is_function and _is_legacy(name)):
        return None
    start = b.mark()
    generator, *arguments = inputs if is_method else (b.constant(GLOBAL), *inputs)
    try:
        return _drawn(b, generator, name, arguments, node.keywords)
    except Untypable:
        b.roll_back(start)
        return None


def _is_legacy(name: str) -> bool:
    is_drawn = draw_of(RANDOM_STATE, _OTHER_NAMES.get(name, name)) is not None
    return is_drawn or name in _DEFINED[RANDOM_STATE]


def _drawn(
    b: TypedBuilder, generator: Value, name: str, arguments: list[Value], keywords: Sequence[str]
) -> Value:
    defined = _DEFINED[generator.type].get(name)
    if defined is not None:
        parameters = parse_parameters(defined.parameters)
        given = bind(parameters, arguments, keywords, {})
        first = given.get(parameters[0].name)
        if first is not None and _kind(b, first) in defined.takes:
            return _defined(b, generator, defined, given)
    is_legacy = generator.type == RANDOM_STATE
    method = _OTHER_NAMES.get(name, name) if is_legacy else name
    row = draw_of(generator.type, method)
    if row is None:
        raise Untypable("no draw that compiled code has a form of")
    if is_legacy and name in _OF_EXTENTS:
        if keywords:
            raise Untypable("extents have no names")
        given = {row.size: b.make_tuple(arguments)} if arguments else {}
    else:
        given = bind(row.parameters, arguments, keywords, {})
    return _numbers(b, generator, method, row, given)


def _defined(
    b: TypedBuilder,
    generator: Value,
    row: _Defined,
    given: dict[str, Value],
) -> Value:
    """What a method gives by its definition."""
    parameters = parse_parameters(row.parameters)
    values = [given.get(one.name, one.default) for one in parameters if one.compiled]
    return b.define(row.definition, generator, *values)


def _kind(b: TypedBuilder, value: Value) -> str:
    type_ = value.type
    if isinstance(type_, TensorType):
        return "array" if not type_.scalar and type_.rank == 1 else "other"
    if isinstance(type_, ListType):
        mixed = type_.element == ANY
        elements = [one.type for one in b.elements(value)] if mixed else [type_.element]
        return "list" if all(map(_is_plain, elements)) else "other"
    return "int" if type_ == INT else "other"


def _is_plain(type_: Type) -> bool:
    """Whether this is a number, so that a list of such is an array of one axis."""
    if isinstance(type_, UnionType):
        return all(map(_is_plain, type_.alternatives))
    return is_number(type_) or (isinstance(type_, TensorType) and type_.scalar)


def _numbers(
    b: TypedBuilder, generator: Value, name: str, row: Draw, given: dict[str, Value]
) -> Value:
    """One number, or an array."""
    result = row.result
    extents: list[Value] = []
    passed: dict[str, Value] = {}
    for one in row.parameters:
        value = _argument(row, one, given)
        if value is None:
            continue
        if one.name == row.size:
            extents = shape_values(b, value) if row.has_shape else [_count(b, value)]
            result = TensorType(row.dtype, dims_of_values(b, extents))
            if not 0 < len(extents) <= _MAX_RANK:
                raise Untypable("an array of no axes, or of many")
            value = extents[0] if value.type == INT else b.make_tuple(extents)
        passed[one.name] = value
    values = [generator, *passed.values()]
    return b.emit("prim::CallMethod", values, {"name": name}, result, tuple(passed))


def _count(b: TypedBuilder, value: Value) -> Value:
    """How many numbers are asked for: none where an int is negative."""
    is_scalar = isinstance(value.type, TensorType) and value.type.scalar
    if value.type != INT and not is_scalar:
        raise Untypable("a draw from something else than an int")
    (count,) = shape_values(b, value)
    return count if _is_extent(count) else b.op("prim::max", count, 0)


def _is_extent(count: Value) -> bool:
    """Whether an int is surely not negative."""
    node = count.node
    if node is not None and node.kind == "prim::size":
        return True
    least = node.inputs if node is not None and node.kind == "prim::max" else [count]
    return any(isinstance(n, int) and n >= 0 for n in (one.constant_value for one in least))


def _argument(row: Draw, parameter: Parameter, given: dict[str, Value]) -> Value | None:
    """An argument that compiled code takes; None where it is left out."""
    value = given.get(parameter.name)
    if value is None or (parameter.default is None and value.type == NONE):
        if parameter.default is ...:
            raise Untypable(f"argument {parameter.name!r} is missing")
        return None
    if parameter.name != row.size and not row.takes(parameter.name, value):
        raise Untypable(f"argument {parameter.name!r} of a draw is {value.type}")
    return value
