"""The scalar language: one-line expressions and straight-line functions to loop IR."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from loop_kernels import elementwise, run_elementwise, with_llvm

from jitcore.codegen import loops
from jitcore.codegen.loops import Binary, Call, Cast, Const, Let, Return, Select, Unary, Var
from jitcore.codegen.scalar import ScalarError, expression, function
from jitcore.codegen.scalar.vocabulary import Scalar, cast, fma, polynomial, select, sqrt

X = Var("x", "float32")
Y = Var("y", "float32")
N = Var("i", "int32")
J = Var("j", "int32")
B = Var("b", "bool")
OPERANDS: dict[str, loops.Expr] = {"x": X, "y": Y, "i": N, "j": J, "b": B}


def compile_text(text: str, dtype: str = "float32") -> loops.Expr:
    return expression(text, OPERANDS, dtype)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x", X),
        ("x * y", Binary("mul", X, Y, "float32")),
        ("x + 1", Binary("add", X, Const(1.0, "float32"), "float32")),
        ("2 * 3 + x", Binary("add", Const(6.0, "float32"), X, "float32")),
        ("-x", Unary("neg", X, "float32")),
        ("not b", Unary("not", B, "bool")),
        ("~i", Unary("not", N, "int32")),
        ("i << 3", Binary("shl", N, Const(3, "int32"), "int32")),
        ("i % j", Call("remainder", (N, J), "int32")),
        ("i // j", Call("floor_divide", (N, J), "int32")),
        ("x ** y", Call("pow", (X, Y), "float32")),
        ("abs(x)", Unary("fabs", X, "float32")),
        ("x < 2", Binary("lt", X, Const(2.0, "float32"), "bool")),
        ("b and x != y", Binary("and", B, Binary("ne", X, Y, "bool"), "bool")),
        ("x if b else 0", Select(B, X, Const(0.0, "float32"), "float32")),
        ("select(b, 0, 1)", Select(B, Const(0.0, "float32"), Const(1.0, "float32"), "float32")),
        ("cast('int64', i)", Cast(N, "int64")),
        ("cast(dtype, x)", X),
        ("cast('float64', 0.1)", Const(0.1, "float64")),
        ("bits('uint32', x)", Cast(X, "uint32", bits=True)),
        ("max(x, y)", Binary("max", X, Y, "float32")),
        ("add_overflows(i, j)", Binary("add_overflows", N, J, "bool")),
        ("popcount(i)", Unary("popcount", N, "int32")),
        ("exp(x)", Call("exp", (X,), "float32")),
        ("logaddexp(0, x)", Call("logaddexp", (Const(0.0, "float32"), X), "float32")),
        ("fma(x, 2, y)", Call("fma", (X, Const(2.0, "float32"), Y), "float32")),
        ("extern('lgammaf', x)", Call("lgammaf", (X,), "float32", external=True)),
        ("pi", Const(float(np.float32(math.pi)), "float32")),
    ],
)
def test_expression(text: str, expected: loops.Expr) -> None:
    assert compile_text(text) == expected


def test_chained_comparison() -> None:
    low = Binary("le", Const(0.0, "float32"), X, "bool")
    high = Binary("lt", X, Y, "bool")
    assert compile_text("0 <= x < y") == Binary("and", low, high, "bool")


def test_literals_are_rounded_to_their_dtype() -> None:
    value = compile_text("x * 0.1")
    assert isinstance(value, Binary)
    assert value.y == Const(float(np.float32(0.1)), "float32")


@pytest.mark.parametrize(
    ("text", "numpy_function"),
    [
        ("log1p(exp(-abs(x - y))) + max(x, y)", np.logaddexp),
        ("select(x > y, x, y) * 2 - fabs(x)", lambda x, y: np.where(x > y, x, y) * 2 - abs(x)),
        ("floor(x) + frem(y, 3)", lambda x, y: np.floor(x) + np.fmod(y, np.float32(3))),
        ("x // y + x % y", lambda x, y: x // y + x % y),
    ],
)
def test_expressions_compute_what_numpy_computes(text: str, numpy_function: Any) -> None:
    generator = np.random.default_rng(0)
    x = generator.uniform(-4, 4, 100).astype(np.float32)
    y = generator.uniform(1, 4, 100).astype(np.float32)
    kernel = elementwise(
        "kernel",
        ["float32", "float32"],
        lambda v: [expression(text, {"x": v[0], "y": v[1]}, "float32")],
    )
    (got,) = run_elementwise(with_llvm, kernel, [x, y], ["float32"])
    np.testing.assert_allclose(got, numpy_function(x, y), rtol=3e-6, atol=3e-6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x +", "no Python expression"),
        ("x + i", r"different dtypes \(float32, int32\), found: x \+ i"),
        ("i / j", "div is for floats, not for int32, found: i / j"),
        ("sqrt(i)", "sqrt is for floats"),
        ("quot(x, y)", "quot is for integers"),
        ("i + 0.5", "0.5 has no exact value in int32"),
        ("i + 5000000000", "5000000000 does not fit int32"),
        ("z + 1", "unknown name, found: z"),
        ("lambda: x", "Lambda is not part of the scalar language"),
        ("x in y", "comparison In is not supported"),
        ("x @ y", "operator MatMult is not supported"),
        ("x.real", "scalars have no attributes"),
        ("x[0]", "scalars have no elements"),
        ("select(x, y, y)", "the condition must be bool, not float32"),
        ("select(b, x)", "3 arguments are needed"),
        ("not x", "not is for bools"),
        ("b and x", "and is for bools"),
        ("bits('int64', x)", "float32 and int64 differ in size"),
        ("cast(x, y)", "must be a dtype's name"),
        ("exp(x=y)", "plain names with positional arguments"),
        ("extern(x)", "must be a C symbol's name"),
        ("'text'", "'text' is not a number"),
    ],
)
def test_refused_expressions(text: str, message: str) -> None:
    with pytest.raises(ScalarError, match=message):
        compile_text(text)


COEFFICIENTS = {"float32": (1.0, 2.0, 3.0), "float64": (4.0, 5.0)}


def root_and_square(x: Scalar) -> Scalar:
    """Two results."""
    return sqrt(x), x * x


def sample(x: Scalar, n: Scalar, dtype: str) -> Scalar:
    """A doc string."""
    root, square = root_and_square(x + 1)
    x = polynomial(root, COEFFICIENTS[dtype])
    steps = [x + k for k in range(2)]
    return fma(steps[0], steps[1], square) if dtype == "float32" else cast(dtype, n)


def test_function() -> None:
    compiled = function(sample, "float32", {"n": "int64"})
    assert compiled.name == "sample"
    assert compiled.doc == "A doc string."
    assert compiled.result == "float32"
    assert [(param.name, param.dtype) for param in compiled.params] == [
        ("x", "float32"),
        ("n", "int64"),
    ]
    *lets, last = compiled.body
    names = [statement.var.name for statement in lets if isinstance(statement, Let)]
    assert names == ["x_1", "root", "square", "x_2", "steps", "steps_1"]
    assert len(lets) == len(names)
    assert isinstance(last, Return)
    steps = tuple(Var(name, "float32") for name in ("steps", "steps_1", "square"))
    assert last.value == Call("fma", steps, "float32")


def test_function_chooses_at_compile_time() -> None:
    compiled = function(sample, "float64", {"n": "int64"}, name="other")
    last = compiled.body[-1]
    assert compiled.name == "other"
    assert isinstance(last, Return)
    assert last.value == Cast(Var("n", "int64"), "float64")


def with_loop(x: Scalar) -> Scalar:
    for _ in range(2):
        x = x + 1
    return x


def without_result(x: Scalar) -> Scalar:
    x = x + 1


def with_unknown_function(x: Scalar) -> Scalar:
    return math.sqrt(x)


def with_two_results(x: Scalar) -> Scalar:
    return x, x


def with_wrong_call(x: Scalar) -> Scalar:
    return root_and_square(x, x)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("python_function", "message"),
    [
        (with_loop, "with_loop: only assignments and a final return are allowed, found: for"),
        (without_result, "without_result does not return a value"),
        (with_unknown_function, "only calls of plain names"),
        (with_two_results, "with_two_results returns a tuple"),
        (with_wrong_call, "root_and_square takes 1 arguments"),
    ],
)
def test_refused_functions(python_function: Any, message: str) -> None:
    with pytest.raises(ScalarError, match=message):
        function(python_function, "float32")


def test_primitives_are_no_python_functions() -> None:
    with pytest.raises(TypeError, match="select"):
        select(True, 1, 2)
