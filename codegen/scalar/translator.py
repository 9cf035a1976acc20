"""The translator behind ``scalar``: one AST of Python to loop IR."""

from __future__ import annotations

import ast
import linecache
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import FunctionType
from typing import Any, Final, NoReturn

import numpy as np

from jitcore.codegen import loops
from jitcore.codegen.scalar.constant_divisors import (
    DIVISIONS,
    divided_by_constant,
    inverse_of,
)
from jitcore.codegen.scalar.vocabulary import Primitive

__all__ = ["Body", "ScalarError", "Translator", "literal", "parse_function", "run"]


class ScalarError(ValueError):
    """Source outside the language of this module; the message names the construct."""


_FLOAT_UNARY = frozenset(
    {"sqrt", "fabs", "floor", "ceil", "trunc", "rint", "inverse_root_estimate"}
)
_INTEGER_UNARY = frozenset({"popcount", "clz", "ctz"})
_BINARY = frozenset({"quot", "rem", "frem", "copysign", "min", "max"})
_OVERFLOW = frozenset({"add_overflows", "sub_overflows", "mul_overflows"})
_FLOAT_ONLY = _FLOAT_UNARY | {"div", "frem", "copysign"}
_INTEGER_ONLY = _INTEGER_UNARY | {"quot", "rem", "shl", "shr"}
_CONSTANTS = {"pi": math.pi, "inf": math.inf, "nan": math.nan}

_OPERATORS: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("add", operator.add),
    ast.Sub: ("sub", operator.sub),
    ast.Mult: ("mul", operator.mul),
    ast.Div: ("div", operator.truediv),
    ast.FloorDiv: ("floor_divide", operator.floordiv),
    ast.Mod: ("remainder", operator.mod),
    ast.Pow: ("pow", operator.pow),
    ast.LShift: ("shl", operator.lshift),
    ast.RShift: ("shr", operator.rshift),
    ast.BitAnd: ("and", operator.and_),
    ast.BitOr: ("or", operator.or_),
    ast.BitXor: ("xor", operator.xor),
}
_VECMATH_OPERATORS = frozenset({"floor_divide", "remainder", "pow"})
OF_FLOAT16 = frozenset({"fmax", "fmin", "nextafter", "spacing"})
"""The functions of vector math that exist in float16; the others are computed in float32."""

_COMPARISONS: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Eq: ("eq", operator.eq),
    ast.NotEq: ("ne", operator.ne),
    ast.Lt: ("lt", operator.lt),
    ast.LtE: ("le", operator.le),
    ast.Gt: ("gt", operator.gt),
    ast.GtE: ("ge", operator.ge),
}

_UNARY_OPERATORS: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}


@cache
def parse_function(python_function: Callable[..., Any]) -> ast.FunctionDef:
    """The parsed source of a function."""
    if isinstance(python_function, FunctionType):
        code = python_function.__code__
        definition = _definitions(code.co_filename).get((code.co_firstlineno, code.co_name))
        if definition is not None:
            return definition
    raise ScalarError(f"{python_function!r} has no source, or is no plain function")


@cache
def _definitions(path: str) -> dict[tuple[int, str], ast.FunctionDef]:
    """All functions of a file, by the number of their first line and their name."""
    tree = ast.parse("".join(linecache.getlines(path)))
    return {(_first_line(node), node.name): node for node in _functions_in(tree.body)}


def _functions_in(statements: list[ast.stmt]) -> Iterator[ast.FunctionDef]:
    for one in statements:
        if isinstance(one, ast.FunctionDef):
            yield one
        if isinstance(one, ast.FunctionDef | ast.ClassDef):
            yield from _functions_in(one.body)


def _first_line(definition: ast.FunctionDef) -> int:
    return min([definition.lineno, *(one.lineno for one in definition.decorator_list)])


class Body:
    """The statements of a function that is being built, and the names taken in it."""

    def __init__(self) -> None:
        self.statements: list[loops.Stmt] = []
        self._counts: dict[str, int] = {}

    def unique(self, name: str) -> str:
        """``name``, or ``name_1``, ``name_2`` ... where it is taken."""
        count = self._counts.get(name, 0)
        self._counts[name] = count + 1
        return name if count == 0 else self.unique(f"{name}_{count}")

    def bind(self, name: str, value: loops.Expr) -> loops.Expr:
        """A variable that holds ``value``; atoms stand for themselves."""
        if isinstance(value, loops.Const | loops.Var):
            return value
        var = loops.Var(self.unique(name), value.dtype)
        self.statements.append(loops.Let(var, value))
        return var


def run(python_function: Callable[..., Any], scope: dict[str, Any], dtype: str, body: Body) -> Any:
    """Append a function's assignments to ``body``, with arguments in ``scope``; its value."""
    assert isinstance(python_function, FunctionType)
    definition = parse_function(python_function)
    known = python_function.__globals__
    translator = Translator(definition.name, scope, known, dtype, body)
    for statement in definition.body:
        match statement:
            case ast.Expr(value=ast.Constant(value=str())):
                continue
            case ast.Assign(targets=[target], value=value):
                translator.assign(target, translator.visit(value))
            case ast.Return(value=ast.expr() as value):
                return translator.visit(value)
            case _:
                translator.refuse(statement, "only assignments and a final return are allowed")
    raise ScalarError(f"{definition.name} does not return a value")


def literal(value: Any, dtype: str, where: str) -> loops.Const:
    """A literal in this dtype; floats are rounded to it, integers must fit."""
    if dtype == "bool" and value in (0, 1):
        return loops.Const(bool(value), dtype)
    if not isinstance(value, bool | int | float):
        raise ScalarError(f"{where}: {value!r} is not a number")
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return loops.Const(float(kind.type(value)), dtype)
    if kind.kind == "b" or not float(value).is_integer():
        raise ScalarError(f"{where}: {value!r} has no exact value in {dtype}")
    limits = np.iinfo(kind)
    if not limits.min <= value <= limits.max:
        raise ScalarError(f"{where}: {value!r} does not fit {dtype}")
    return loops.Const(int(value), dtype)


def _vecmath(name: str, args: list[loops.Expr], dtype: str) -> loops.Expr:
    """A call of vector math; integers have functions of their own for constant divisors."""
    divisor = args[-1] if args else None
    is_integer = np.dtype(dtype).kind in "iu"
    if name in DIVISIONS and is_integer and isinstance(divisor, loops.Const):
        return divided_by_constant(name, args[0], divisor)
    if name == "remainder" and isinstance(divisor, loops.Const):
        inverse = inverse_of(divisor)
        if inverse is not None:
            return loops.Call("remainder_by_constant", (*args, inverse), dtype)
    if dtype == "float16" and name not in OF_FLOAT16:
        # NumPy computes it in float32, and rounds once.
        wide = (loops.Cast(x, "float32") if x.dtype == "float16" else x for x in args)
        return loops.Cast(loops.Call(name, tuple(wide), "float32"), "float16")
    return loops.Call(name, tuple(args), dtype)


def _estrin(x: loops.Expr, coefficients: list[loops.Expr], body: Body) -> loops.Expr:
    """Estrin's scheme (Muller, Elementary Functions, 3rd ed., section 5.7).

    The pairs ``c[k] + c[k + 1] x`` are coefficients of a polynomial in x**2 of half the length, so
    the chain of dependent operations grows with the logarithm of the length only.
    """
    terms, power = coefficients, x
    while len(terms) > 1:
        pairs = zip(terms[::2], terms[1::2], strict=False)
        unpaired = terms[-1:] if len(terms) % 2 else []
        terms = [loops.Call("fma", (odd, power, even), x.dtype) for even, odd in pairs]
        terms += unpaired
        if len(terms) > 1:
            power = body.bind("power", loops.Binary("mul", power, power, x.dtype))
    return terms[0]


class Translator:
    """Walks the AST of one text or function; compile-time values are plain Python objects."""

    def __init__(
        self,
        where: str,
        scope: dict[str, Any],
        known: Mapping[str, Any],
        dtype: str,
        body: Body | None,
    ) -> None:
        self.where = where
        self.scope = scope
        self.known = known
        self.dtype = dtype
        self.body = body

    def refuse(self, node: ast.AST, reason: str) -> NoReturn:
        """Raise the error that names a construct."""
        raise ScalarError(f"{self.where}: {reason}, found: {ast.unparse(node)}")

    def visit(self, node: ast.expr) -> Any:
        """The value of an expression: loop IR, or a Python object known now."""
        visitor = _VISITORS.get(type(node))
        if visitor is None:
            self.refuse(node, f"{type(node).__name__} is not part of the scalar language")
        return visitor(self, node)

    def typed(self, value: Any, dtype: str) -> loops.Expr:
        """Loop IR for a value; literals get ``dtype``."""
        if isinstance(value, loops.Expr):
            return value
        return literal(value, dtype, self.where)

    def assign(self, target: ast.expr, value: Any) -> None:
        """Give names to a value; what is computed gets a variable of its own."""
        if isinstance(target, ast.Tuple):
            if not isinstance(value, tuple) or len(value) != len(target.elts):
                self.refuse(target, "as many values as targets are needed")
            for part, element in zip(target.elts, value, strict=True):
                self.assign(part, element)
            return
        if not isinstance(target, ast.Name):
            self.refuse(target, "only names can be assigned")
        self.scope[target.id] = self._bound(target.id, value)

    def _bound(self, name: str, value: Any) -> Any:
        """The value with every computed scalar in it held by a variable."""
        if isinstance(value, tuple):
            return tuple(self._bound(name, element) for element in value)
        if isinstance(value, loops.Expr) and self.body is not None:
            return self.body.bind(name, value)
        return value

    def _literal(self, node: ast.Constant) -> Any:
        return node.value

    def _tuple(self, node: ast.Tuple) -> Any:
        return tuple(map(self.visit, node.elts))

    def _name(self, node: ast.Name) -> Any:
        for names in (self.scope, _CONSTANTS, self.known):
            if node.id in names:
                return names[node.id]
        return self.refuse(node, "unknown name")

    def _attribute(self, node: ast.Attribute) -> Any:
        value = self.visit(node.value)
        if isinstance(value, loops.Expr):
            self.refuse(node, "scalars have no attributes")
        return getattr(value, node.attr)

    def _subscript(self, node: ast.Subscript) -> Any:
        value, index = self.visit(node.value), self.visit(node.slice)
        if isinstance(value, loops.Expr) or isinstance(index, loops.Expr):
            self.refuse(node, "scalars have no elements")
        return value[index]

    def _list(self, node: ast.ListComp) -> Any:
        """One value for each element of a sequence known now, as a tuple."""
        generator = node.generators[0]
        if len(node.generators) > 1 or generator.ifs or not isinstance(generator.target, ast.Name):
            self.refuse(node, "only one plain loop is allowed")
        values = []
        for element in self.visit(generator.iter):
            self.scope[generator.target.id] = element
            values.append(self.visit(node.elt))
        del self.scope[generator.target.id]
        return tuple(values)

    def _same_dtype(self, node: ast.AST, values: list[Any]) -> list[loops.Expr]:
        """The values as loop IR of one dtype."""
        dtypes = {value.dtype for value in values if isinstance(value, loops.Expr)}
        if len(dtypes) > 1:
            self.refuse(node, f"operands of different dtypes ({', '.join(sorted(dtypes))})")
        dtype = dtypes.pop() if dtypes else self.dtype
        return [self.typed(value, dtype) for value in values]

    def _check_kind(self, node: ast.AST, op: str, dtype: str) -> None:
        if op in _FLOAT_ONLY and np.dtype(dtype).kind != "f":
            self.refuse(node, f"{op} is for floats, not for {dtype}")
        if op in _INTEGER_ONLY and np.dtype(dtype).kind not in "iu":
            self.refuse(node, f"{op} is for integers, not for {dtype}")

    def _binary_operator(self, node: ast.BinOp) -> Any:
        if type(node.op) not in _OPERATORS:
            self.refuse(node, f"operator {type(node.op).__name__} is not supported")
        op, compute = _OPERATORS[type(node.op)]
        left, right = self.visit(node.left), self.visit(node.right)
        if not isinstance(left, loops.Expr) and not isinstance(right, loops.Expr):
            return compute(left, right)
        x, y = self._same_dtype(node, [left, right])
        if op in _VECMATH_OPERATORS:
            return _vecmath(op, [x, y], x.dtype)
        self._check_kind(node, op, x.dtype)
        return loops.Binary(op, x, y, x.dtype)

    def _unary_operator(self, node: ast.UnaryOp) -> Any:
        value = self.visit(node.operand)
        if not isinstance(value, loops.Expr):
            return _UNARY_OPERATORS[type(node.op)](value)
        if isinstance(node.op, ast.UAdd):
            return value
        if isinstance(node.op, ast.Not) and value.dtype != "bool":
            self.refuse(node, f"not is for bools, not for {value.dtype}")
        return loops.Unary("neg" if isinstance(node.op, ast.USub) else "not", value, value.dtype)

    def _bool_operator(self, node: ast.BoolOp) -> Any:
        op = "and" if isinstance(node.op, ast.And) else "or"
        first, *rest = [self.typed(self.visit(value), "bool") for value in node.values]
        for value in rest:
            if first.dtype != "bool" or value.dtype != "bool":
                self.refuse(node, f"{op} is for bools")
            first = loops.Binary(op, first, value, "bool")
        return first

    def _compare(self, node: ast.Compare) -> Any:
        values = [self.visit(value) for value in (node.left, *node.comparators)]
        result: Any = None
        for kind, left, right in zip(node.ops, values, values[1:], strict=False):
            if type(kind) not in _COMPARISONS:
                self.refuse(node, f"comparison {type(kind).__name__} is not supported")
            op, compute = _COMPARISONS[type(kind)]
            if isinstance(left, loops.Expr) or isinstance(right, loops.Expr):
                x, y = self._same_dtype(node, [left, right])
                test: Any = loops.Binary(op, x, y, "bool")
            else:
                test = compute(left, right)
            result = test if result is None else self._both(result, test)
        return result

    def _both(self, left: Any, right: Any) -> Any:
        if not isinstance(left, loops.Expr) and not isinstance(right, loops.Expr):
            return left and right
        return loops.Binary("and", self.typed(left, "bool"), self.typed(right, "bool"), "bool")

    def _conditional(self, node: ast.IfExp) -> Any:
        condition = self.visit(node.test)
        if not isinstance(condition, loops.Expr):
            return self.visit(node.body if condition else node.orelse)
        return self._choose(node, condition, self.visit(node.body), self.visit(node.orelse))

    def _choose(self, node: ast.AST, condition: Any, x: Any, y: Any) -> Any:
        if not isinstance(condition, loops.Expr):
            return x if condition else y
        if condition.dtype != "bool":
            self.refuse(node, f"the condition must be bool, not {condition.dtype}")
        left, right = self._same_dtype(node, [x, y])
        return loops.Select(condition, left, right, left.dtype)

    def _call(self, node: ast.Call) -> Any:
        if not isinstance(node.func, ast.Name) or node.keywords:
            self.refuse(node, "only calls of plain names with positional arguments are allowed")
        name = node.func.id
        args = [self.visit(arg) for arg in node.args]
        callee = self.known.get(name)
        if isinstance(callee, Primitive) or (callee is None and name in _PRIMITIVES):
            return _PRIMITIVES[name](self, node, args)
        if isinstance(callee, FunctionType) and self.body is not None:
            return self._inline(node, callee, args)
        if self.body is not None:
            self.refuse(node, "unknown function")
        values = [self.typed(arg, self._partner_dtype(args)) for arg in args]
        return _vecmath(name, values, values[0].dtype if values else self.dtype)

    def _partner_dtype(self, args: list[Any]) -> str:
        """The dtype of the first typed argument, which literals beside it adopt."""
        return next((arg.dtype for arg in args if isinstance(arg, loops.Expr)), self.dtype)

    def _inline(self, node: ast.Call, callee: FunctionType, args: list[Any]) -> Any:
        """Compile a call of another function in place; its arguments are evaluated once."""
        assert self.body is not None
        names = [arg.arg for arg in parse_function(callee).args.args]
        if len(names) != len(args):
            self.refuse(node, f"{callee.__name__} takes {len(names)} arguments")
        scope = {
            name: self.body.bind(name, arg) if isinstance(arg, loops.Expr) else arg
            for name, arg in zip(names, args, strict=True)
        }
        return run(callee, scope, self._partner_dtype(args), self.body)

    def _arguments(self, node: ast.Call, args: list[Any], count: int) -> list[Any]:
        if len(args) != count:
            self.refuse(node, f"{count} arguments are needed")
        return args

    def _select(self, node: ast.Call, args: list[Any]) -> Any:
        return self._choose(node, *self._arguments(node, args, 3))

    def _target_dtype(self, node: ast.Call, args: list[Any]) -> tuple[str, Any]:
        target, value = self._arguments(node, args, 2)
        if not isinstance(target, str):
            self.refuse(node, "the first argument must be a dtype's name")
        return target, value

    def _cast(self, node: ast.Call, args: list[Any]) -> Any:
        target, given = self._target_dtype(node, args)
        value = self.typed(given, target)
        return value if value.dtype == target else loops.Cast(value, target)

    def _bits(self, node: ast.Call, args: list[Any]) -> Any:
        target, given = self._target_dtype(node, args)
        value = self.typed(given, self.dtype)
        if np.dtype(target).itemsize != np.dtype(value.dtype).itemsize:
            self.refuse(node, f"{value.dtype} and {target} differ in size")
        return value if value.dtype == target else loops.Cast(value, target, bits=True)

    def _fma(self, node: ast.Call, args: list[Any]) -> Any:
        x, y, z = self._same_dtype(node, self._arguments(node, args, 3))
        return loops.Call("fma", (x, y, z), x.dtype)

    def _extern(self, node: ast.Call, args: list[Any]) -> Any:
        if not args or not isinstance(args[0], str):
            self.refuse(node, "the first argument must be a C symbol's name")
        values = [self.typed(arg, self._partner_dtype(args[1:])) for arg in args[1:]]
        dtype = values[0].dtype if values else self.dtype
        return loops.Call(args[0], tuple(values), dtype, external=True)

    def _polynomial(self, node: ast.Call, args: list[Any]) -> Any:
        """``c[0] + c[1] x + ...`` with fused multiply-adds: ``c[0] + x (c[1] + ...)``.

        The constant term is most of the value, as a rule, and adding it last costs one rounding.
        """
        x, coefficients = self._arguments(node, args, 2)
        if not isinstance(coefficients, tuple) or not isinstance(x, loops.Expr):
            self.refuse(node, "a scalar and a tuple of coefficients are needed")
        if self.body is None:
            self.refuse(node, "polynomials are for functions")
        point = self.body.bind("power", x)
        constant, *rest = [self.typed(value, point.dtype) for value in coefficients]
        return loops.Call("fma", (_estrin(point, rest, self.body), point, constant), point.dtype)

    def _range(self, node: ast.Call, args: list[Any]) -> Any:
        if any(isinstance(arg, loops.Expr) for arg in args):
            self.refuse(node, "the bounds must be known at compile time")
        return range(*args)

    def _abs(self, node: ast.Call, args: list[Any]) -> Any:
        (value,) = self._arguments(node, args, 1)
        if not isinstance(value, loops.Expr):
            return abs(value)
        kind = np.dtype(value.dtype).kind
        if kind == "f":
            return loops.Unary("fabs", value, value.dtype)
        if kind != "i":
            return value
        is_negative = loops.Binary("lt", value, loops.Const(0, value.dtype), "bool")
        negated = loops.Unary("neg", value, value.dtype)
        return loops.Select(is_negative, negated, value, value.dtype)

    def _unary_primitive(self, node: ast.Call, args: list[Any]) -> Any:
        assert isinstance(node.func, ast.Name)
        x = self.typed(self._arguments(node, args, 1)[0], self.dtype)
        self._check_kind(node, node.func.id, x.dtype)
        return loops.Unary(node.func.id, x, x.dtype)

    def _binary_primitive(self, node: ast.Call, args: list[Any]) -> Any:
        assert isinstance(node.func, ast.Name)
        x, y = self._same_dtype(node, self._arguments(node, args, 2))
        self._check_kind(node, node.func.id, x.dtype)
        result = "bool" if node.func.id in _OVERFLOW else x.dtype
        return loops.Binary(node.func.id, x, y, result)


# Most texts are as short as ``x + y``: nothing is set up for each of them.
_VISITORS: Final[dict[type[ast.AST], Callable[[Translator, Any], Any]]] = {
    ast.Constant: Translator._literal,
    ast.Name: Translator._name,
    ast.Tuple: Translator._tuple,
    ast.ListComp: Translator._list,
    ast.Attribute: Translator._attribute,
    ast.Subscript: Translator._subscript,
    ast.BinOp: Translator._binary_operator,
    ast.UnaryOp: Translator._unary_operator,
    ast.BoolOp: Translator._bool_operator,
    ast.Compare: Translator._compare,
    ast.IfExp: Translator._conditional,
    ast.Call: Translator._call,
}
_PRIMITIVES: Final[dict[str, Callable[[Translator, ast.Call, list[Any]], Any]]] = {
    "select": Translator._select,
    "cast": Translator._cast,
    "bits": Translator._bits,
    "fma": Translator._fma,
    "extern": Translator._extern,
    "polynomial": Translator._polynomial,
    "abs": Translator._abs,
    "range": Translator._range,
    **dict.fromkeys(_FLOAT_UNARY | _INTEGER_UNARY, Translator._unary_primitive),
    **dict.fromkeys(_BINARY | _OVERFLOW, Translator._binary_primitive),
}
