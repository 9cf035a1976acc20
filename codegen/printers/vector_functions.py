"""Functions of vector math for vectors: straight lines with a vector in each register.

LLVM's vectorizer would make them of a loop over lanes.  To print them as vectors takes a third of
the time, since no pass has to look at them before they become machine code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from jitcore.codegen import vecmath
from jitcore.codegen.loops import (
    Binary,
    Call,
    Cast,
    Comment,
    Const,
    Expr,
    Function,
    Let,
    Return,
    Select,
    Unary,
    Var,
)
from jitcore.codegen.printers.llvm_instructions import (
    FLOATS,
    Instructions,
    constant,
    register_type,
)
from jitcore.codegen.printers.vector_calls import REGISTERS, operand_list, twin_name, vecmath_symbol
from jitcore.codegen.runtime.numpy_loops import vector_declarations, vector_names

__all__ = ["VectorCode", "vector_function"]

_OVERLOADS: Final = {"float32": "f32", "float64": "f64"}


def vector_function(name: str, dtype: str, lanes: int, declarations: dict[str, str]) -> list[str]:
    """The definitions of a function of vector math for vectors, and of what it calls.

    Parameters
    ----------
    name, dtype : str
        See ``vecmath.function``.
    lanes : int
    declarations : dict
        The module's declarations by symbol; what the code calls is added.
    """
    function, branch = vecmath.function(name, dtype), vecmath.branch(name, dtype)
    symbol = twin_name(vecmath_symbol(name, dtype), lanes)
    if branch is None:
        return [_straight_line("define", symbol, function, lanes, declarations)]
    if branch.one_by_one:
        declarations[f"llvm.fabs.{_OVERLOADS[dtype]}"] = _declaration_of_fabs(dtype)
        moderate = vecmath.function(branch.moderate, dtype)
        return [
            _straight_line(
                "define internal", f"{branch.moderate}_x{lanes}", moderate, lanes, declarations
            ),
            _one_by_one(branch, moderate, dtype, lanes),
            _branching(symbol, function, lanes, branch),
        ]
    # Few floats are that large: the fewer registers at a time, the sooner the code is compiled.
    width = max(lanes // REGISTERS, 2) if dtype in FLOATS else lanes

    def inner(one: str, count: int) -> str:
        called = vecmath.function(one, dtype)
        return _straight_line("define internal", f"{one}_x{count}", called, count, declarations)

    return [
        inner(branch.moderate, lanes),
        inner(branch.anywhere, width),
        *([_part_by_part(branch.anywhere, function, lanes, width)] if width < lanes else ()),
        _branching(symbol, function, lanes, branch),
    ]


def _vector(dtype: str, lanes: int) -> str:
    return f"<{lanes} x {register_type(dtype)}>"


def _straight_line(
    linkage: str, symbol: str, function: Function, lanes: int, declarations: dict[str, str]
) -> str:
    instructions = Instructions(declarations, lanes=lanes)
    code = VectorCode(instructions, lanes)
    types = [_vector(param.dtype, lanes) for param in function.params]
    result_type = _vector(function.result, lanes)
    known = [code.known(type_, f"%v{number}") for number, type_ in enumerate(types)]
    result = code.call(function, known)
    lines = [
        f"{linkage} {result_type} @{symbol}({operand_list(types, '%v')}) "
        "memory(none) willreturn #0 {",
        *instructions.lines,
        f"  ret {result_type} {result}",
        "}",
    ]
    return "\n".join(lines)


class VectorCode:
    """Appends instructions that compute functions of vector math for all lanes at once.

    Parameters
    ----------
    code : Instructions
        Those for vectors.
    lanes : int
    """

    def __init__(self, code: Instructions, lanes: int) -> None:
        self._code = code
        self._lanes = lanes
        self._variables: dict[str, str] = {}
        self._expressions: dict[type[Expr], Callable[[Any], str]] = {
            Const: lambda x: self._code.number(x.value, x.dtype),
            Var: self._var,
            Unary: self._unary,
            Binary: self._binary,
            Select: self._select,
            Cast: self._cast,
            Call: self._call,
        }

    def known(self, type_: str, operand: str) -> str:
        """The operand, with a number in each lane.

        The rest of a loop leaves lanes that no element fills.
        """
        return self._code.value(f"freeze {type_} {operand}")

    def call(self, function: Function, operands: list[str]) -> str:
        """The register with the value of a straight-line function, whose code comes in place."""
        outside = self._variables
        names = (param.name for param in function.params)
        self._variables = dict(zip(names, operands, strict=True))
        result = self._value_of(function)
        self._variables = outside
        return result

    def _value_of(self, function: Function) -> str:
        for statement in function.body:
            match statement:
                case Let():
                    self._variables[statement.var.name] = self._expression(statement.value)
                case Return():
                    return self._expression(statement.value)
                case _ if not isinstance(statement, Comment):
                    raise ValueError(f"{function.name} is no straight line")
        raise ValueError(f"{function.name} gives no value")

    def _expression(self, x: Expr) -> str:
        return self._expressions[type(x)](x)

    def _var(self, x: Var) -> str:
        return self._variables[x.name]

    def _unary(self, x: Unary) -> str:
        result = self._code.unary(x.op, self._expression(x.x), x.x.dtype)
        return self._code.cast(result, x.x.dtype, x.dtype)

    def _binary(self, x: Binary) -> str:
        left, right = self._expression(x.x), self._expression(x.y)
        return self._code.binary(x.op, left, right, x.x.dtype, x.reassoc, x.contract)

    def _select(self, x: Select) -> str:
        condition, left, right = map(self._expression, (x.condition, x.x, x.y))
        return self._code.select(condition, left, right, x.dtype)

    def _cast(self, x: Cast) -> str:
        cast = self._code.bit_cast if x.bits else self._code.cast
        return cast(self._expression(x.x), x.x.dtype, x.dtype)

    def _call(self, x: Call) -> str:
        operands = [self._expression(one) for one in x.args]
        if x.external:
            return self._external(x, operands)
        if x.name == "fma":
            return self._code.intrinsic("fma", x.dtype, *operands)
        dtype = x.args[0].dtype if x.dtype == "bool" else x.dtype
        branch = vecmath.branch(x.name, dtype)
        # Beside other code there is no branch for all lanes.
        name = x.name if branch is None else branch.anywhere
        return self.call(vecmath.function(name, dtype), operands)

    def _external(self, x: Call, operands: list[str]) -> str:
        """Call a C function's form for vectors, or the function for each lane."""
        self._code.declarations.update(vector_declarations(x.name))
        vector = self._code.type(x.dtype)
        form = vector_names(x.name).get(self._lanes)
        if form is not None:
            args = ", ".join(f"{vector} {one}" for one in operands)
            return self._code.value(f"call {vector} @{form}({args})")
        found = "poison"
        type_ = register_type(x.dtype)
        for lane in range(self._lanes):
            numbers = [
                self._code.value(f"extractelement {vector} {one}, i64 {lane}") for one in operands
            ]
            args = ", ".join(f"{type_} {one}" for one in numbers)
            number = self._code.value(f"call {type_} @{x.name}({args})")
            found = self._code.value(
                f"insertelement {vector} {found}, {type_} {number}, i64 {lane}"
            )
        return found


# Functions that branch


def _branching(symbol: str, function: Function, lanes: int, branch: vecmath.Branch) -> str:
    """A function that asks whether all its numbers may go the short way."""
    dtypes = [param.dtype for param in function.params]
    result, vectors = _vector(function.result, lanes), [_vector(dtype, lanes) for dtype in dtypes]
    lines = [
        f"define {result} @{symbol}({operand_list(vectors, '%v')}) memory(none) willreturn #0 {{",
        "entry:",
        *(f"  %known{n} = freeze {vector} %v{n}" for n, vector in enumerate(vectors)),
        *_conditions(lanes, dtypes, branch),
    ]
    for label, name in (("moderate", branch.moderate), ("anywhere", branch.anywhere)):
        lines += [
            f"{label}:",
            f"  %{label}.result = tail call {result} @{name}_x{lanes}"
            f"({operand_list(vectors, '%known')})",
            f"  ret {result} %{label}.result",
        ]
    return "\n".join([*lines, "}"])


def _conditions(lanes: int, dtypes: list[str], branch: vecmath.Branch) -> list[str]:
    """Branch by whether all lanes go the short way."""
    if branch.of_quotient:
        return _test_of_quotient(lanes, dtypes, branch.bound)
    tested = dtypes[:1] if branch.of_first else dtypes
    return _test(lanes, tested, branch)


def _declaration_of_fabs(dtype: str) -> str:
    type_ = register_type(dtype)
    return f"declare {type_} @llvm.fabs.{_OVERLOADS[dtype]}({type_})"


def _one_by_one(branch: vecmath.Branch, function: Function, dtype: str, lanes: int) -> str:
    """A function of all lanes that calls the one for a single number where it is finite and far."""
    type_, vector = register_type(dtype), _vector(dtype, lanes)
    count = len(function.params)
    vectors = operand_list([vector] * count, "%v")
    kept = "".join(
        f"  %numbers{n} = alloca {vector}\n  store {vector} %v{n}, ptr %numbers{n}\n"
        for n in range(count)
    )
    others = "".join(
        f"  %place{n} = getelementptr inbounds {type_}, ptr %numbers{n}, i64 %i\n"
        f"  %x{n} = load {type_}, ptr %place{n}\n"
        for n in range(1, count)
    )
    limits = (constant(branch.bound, dtype), constant(float("inf"), dtype))
    far = vecmath_symbol(branch.anywhere, dtype)
    name = f"{branch.anywhere}_x{lanes}"
    return f"""\
define internal {vector} @{name}({vectors}) memory(none) willreturn noinline #0 {{
entry:
  %results = alloca {vector}
{kept}\
  %near = call {vector} @{branch.moderate}_x{lanes}({vectors})
  store {vector} %near, ptr %results
  br label %lane
lane:
  %i = phi i64 [ 0, %entry ], [ %next, %done ]
  %place0 = getelementptr inbounds {type_}, ptr %numbers0, i64 %i
  %x0 = load {type_}, ptr %place0
  %magnitude = call {type_} @llvm.fabs.{_OVERLOADS[dtype]}({type_} %x0)
  %is_large = fcmp oge {type_} %magnitude, {limits[0]}
  %is_finite = fcmp olt {type_} %magnitude, {limits[1]}
  %is_far = and i1 %is_large, %is_finite
  br i1 %is_far, label %far, label %done
far:
{others}\
  %found = call {type_} @{far}({operand_list([type_] * count, "%x")})
  %result = getelementptr inbounds {type_}, ptr %results, i64 %i
  store {type_} %found, ptr %result
  br label %done
done:
  %next = add nuw nsw i64 %i, 1
  %more = icmp ult i64 %next, {lanes}
  br i1 %more, label %lane, label %end
end:
  %all = load {vector}, ptr %results
  ret {vector} %all
}}"""


def _part_by_part(name: str, function: Function, lanes: int, width: int) -> str:
    """A function of all lanes that calls the one for ``width`` lanes again and again."""
    dtypes = [param.dtype for param in function.params]
    result, made = _vector(function.result, lanes), _vector(function.result, width)
    vectors, parts = ([_vector(dtype, n) for dtype in dtypes] for n in (lanes, width))
    lines = [
        f"define internal {result} @{name}_x{lanes}({operand_list(vectors, '%v')}) "
        "memory(none) willreturn noinline #0 {",
        "entry:",
        f"  %results = alloca {result}",
    ]
    for number, vector in enumerate(vectors):
        lines += [
            f"  %m{number} = alloca {vector}",
            f"  store {vector} %v{number}, ptr %m{number}",
        ]
    lines += ["  br label %part", "part:", "  %i = phi i64 [ 0, %entry ], [ %next, %part ]"]
    for number, (dtype, part) in enumerate(zip(dtypes, parts, strict=True)):
        lines += [
            f"  %a{number} = getelementptr inbounds {register_type(dtype)}, ptr %m{number}, i64 %i",
            f"  %x{number} = load {part}, ptr %a{number}",
        ]
    lines += [
        f"  %found = call {made} @{name}_x{width}({operand_list(parts, '%x')})",
        f"  %a = getelementptr inbounds {register_type(function.result)}, ptr %results, i64 %i",
        f"  store {made} %found, ptr %a",
        f"  %next = add nuw nsw i64 %i, {width}",
        f"  %more = icmp ult i64 %next, {lanes}",
        "  br i1 %more, label %part, label %end",
        "end:",
        f"  %vector = load {result}, ptr %results",
        f"  ret {result} %vector",
        "}",
    ]
    return "\n".join(lines)


def _test(lanes: int, dtypes: list[str], branch: vecmath.Branch) -> list[str]:
    """Branch by whether the magnitudes of all lanes are below a bound."""
    lines: list[str] = []
    moderate = "splat (i1 true)"
    for number, dtype in enumerate(dtypes):
        if branch.least and number == 0:
            found = _test_of_range(lanes, dtype, branch)
        else:
            test = _test_of_floats if dtype in FLOATS else _test_of_integers
            found = test(lanes, dtype, number, branch.bound)
        lines += [
            *found,
            f"  %moderate{number} = and <{lanes} x i1> {moderate}, %within{number}",
        ]
        moderate = f"%moderate{number}"
    return [*lines, *_branch_by(lanes, moderate)]


def _test_of_range(lanes: int, dtype: str, branch: vecmath.Branch) -> list[str]:
    """The same for first arguments that are bounded from below, too."""
    vector, type_ = _vector(dtype, lanes), register_type(dtype)
    least, bound = (constant(limit, dtype) for limit in (branch.least, branch.bound))
    return [
        f"  %above0 = fcmp oge {vector} %known0, splat ({type_} {least})",
        f"  %below0 = fcmp olt {vector} %known0, splat ({type_} {bound})",
        f"  %within0 = and <{lanes} x i1> %above0, %below0",
    ]


def _branch_by(lanes: int, moderate: str) -> list[str]:
    return [
        f"  %mask = bitcast <{lanes} x i1> {moderate} to i{lanes}",
        f"  %all = icmp eq i{lanes} %mask, -1",
        "  br i1 %all, label %moderate, label %anywhere",
    ]


def _test_of_quotient(lanes: int, dtypes: list[str], bound: float) -> list[str]:
    """Branch by whether all quotients of the first by the second number are below a bound."""
    dtype = dtypes[0]
    type_ = register_type(dtype)
    vector = _vector(dtype, lanes)
    absolute = f"@llvm.fabs.v{lanes}{_OVERLOADS[dtype]}"
    return [
        f"  %magnitude = call {vector} {absolute}({vector} %known0)",
        f"  %divisor = call {vector} {absolute}({vector} %known1)",
        f"  %limit = fmul {vector} %divisor, splat ({type_} {constant(bound, dtype)})",
        f"  %within = fcmp olt {vector} %magnitude, %limit",
        *_branch_by(lanes, "%within"),
    ]


def _test_of_floats(lanes: int, dtype: str, number: int, bound: float) -> list[str]:
    vector = _vector(dtype, lanes)
    limit = f"splat ({register_type(dtype)} {constant(bound, dtype)})"
    return [
        f"  %below{number} = fcmp olt {vector} %known{number}, {limit}",
        f"  %negated{number} = fneg {vector} %known{number}",
        f"  %above{number} = fcmp olt {vector} %negated{number}, {limit}",
        f"  %within{number} = and <{lanes} x i1> %below{number}, %above{number}",
    ]


def _test_of_integers(lanes: int, dtype: str, number: int, bound: float) -> list[str]:
    """Signed ones are shifted first, so that the numbers within are the least unsigned ones."""
    type_ = register_type(dtype)
    vector = _vector(dtype, lanes)
    shift = 0 if dtype.startswith("u") else int(bound)
    return [
        f"  %shifted{number} = add {vector} %known{number}, splat ({type_} {shift})",
        f"  %within{number} = icmp ult {vector} %shifted{number}, "
        f"splat ({type_} {int(bound) + shift})",
    ]
