"""Control flow, memory and calls through both printers, and how the output looks."""

from __future__ import annotations

import functools
import importlib
import math
import operator
from typing import Any

import numpy as np
import pytest
from loop_kernels import (
    Backend,
    assert_same_bits,
    both,
    chain,
    compiled,
    elementwise,
    integer,
    run_elementwise,
    with_llvm,
    zero,
)

from jitcore.codegen.engine import EngineError, add_symbol, cpu_identity
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
    For,
    Function,
    If,
    Let,
    Load,
    Return,
    Select,
    Stmt,
    Store,
    Var,
    While,
)
from jitcore.codegen.printers.llvm import print_module
from jitcore.codegen.printers.numba_cpu import compile_numba, print_function
from jitcore.codegen.printers.numba_source import python_name


def collatz(n: int, limit: int) -> int:
    steps = 0
    while n != 1:
        if steps == limit:
            return -1
        if n % 2 == 0:
            n //= 2
            steps += 1
            continue
        n = 3 * n + 1
        steps += 1
    return steps


def collatz_function() -> Function:
    n, limit, start = Var("n", "int64"), Var("limit", "int64"), Var("start", "int64")
    steps = Var("steps", "int64")
    half = Binary("quot", n, integer(2), "int64")
    odd = Binary("add", Binary("mul", n, integer(3), "int64"), integer(1), "int64")
    is_even = Binary("eq", Binary("rem", n, integer(2), "int64"), zero(), "bool")
    next_step = Assign(steps, Binary("add", steps, integer(1), "int64"))
    body: list[Stmt] = [
        If(Binary("eq", steps, limit, "bool"), [Return(integer(-1))], unlikely=True),
        If(is_even, [Assign(n, half), next_step, Continue()]),
        Assign(n, odd),
        next_step,
    ]
    return Function(
        "collatz",
        [start, limit],
        [
            Comment("steps to 1\nfor the reader"),
            Let(n, start, mutable=True),
            Let(steps, zero(), mutable=True),
            While([], Binary("ne", n, integer(1), "bool"), body),
            Return(steps),
        ],
        doc="Counts steps.",
    )


@both
def test_while_with_continue_and_return(backend: Backend) -> None:
    native = backend(collatz_function())
    for n in (1, 2, 3, 7, 27, 97):
        for limit in (5, 1000):
            assert native(n, limit) == collatz(n, limit)


def first_match_function() -> Function:
    """The first ``i``, ``j`` (as ``100 * i + j``) with ``x[i] + y[j] == t``; nested breaks."""
    x, y, n, t = Var("x", "ptr"), Var("y", "ptr"), Var("n", "int64"), Var("t", "int32")
    i, j, found = Var("i", "int64"), Var("j", "int64"), Var("found", "int64")
    total = Binary("add", Load(x, i, "int32", "x"), Load(y, j, "int32", "y"), "int32")
    place = Binary("add", Binary("mul", i, integer(100), "int64"), j, "int64")
    inner: list[Stmt] = [
        If(Binary("lt", j, integer(2), "bool"), [Continue()]),
        If(Binary("eq", total, t, "bool"), [Assign(found, place), Break()]),
    ]
    outer: list[Stmt] = [
        For(j, zero(), n, inner),
        If(Binary("ge", found, zero(), "bool"), [Break()], [Comment("go on")]),
    ]
    body: list[Stmt] = [
        Let(found, integer(-1), mutable=True),
        For(i, zero(), n, outer),
        Return(found),
    ]
    return Function("first_match", [x, y, n, t], body)


@both
def test_nested_loops_with_break(backend: Backend) -> None:
    native = backend(first_match_function())
    generator = np.random.default_rng(1)
    x, y = generator.integers(0, 20, (2, 12)).astype(np.int32)
    for t in range(40):
        matches = [100 * i + j for i in range(12) for j in range(2, 12) if x[i] + y[j] == t]
        assert native(x, y, 12, t) == (matches[0] if matches else -1)


@both
def test_while_head_and_loop_steps(backend: Backend) -> None:
    """A ``While`` whose condition reads a name of its head, and a stepped loop from below zero."""
    n, total, i, doubled = (Var(name, "int64") for name in ("n", "total", "i", "doubled"))
    grow = Assign(total, Binary("add", total, doubled, "int64"))
    head: list[Stmt] = [Let(doubled, Binary("mul", total, integer(2), "int64"))]
    body: list[Stmt] = [
        Let(total, integer(1), mutable=True),
        While(head, Binary("lt", doubled, n, "bool"), [grow]),
        For(i, integer(-5), n, [Assign(total, Binary("add", total, i, "int64"))], step=3),
    ]
    native = backend(Function("steps", [n], [*body, Return(total)]))
    for count in (-7, 0, 1, 2, 50):
        expected = 1
        while 2 * expected < count:
            expected += 2 * expected
        assert native(count) == expected + sum(range(-5, count, 3))


@both
def test_names_shadow_and_hide(backend: Backend) -> None:
    """An inner name never changes an outer one, and hard names are no trouble."""
    x, flag = Var("x", "int64"), Var("flag", "bool")
    inner: list[Stmt] = [
        Let(x, Binary("add", x, integer(1), "int64")),
        Let(Var("lambda", "float32"), Cast(x, "float32")),
        Assign(Var("x.1", "int64"), Cast(Var("lambda", "float32"), "int64")),
    ]
    sibling: list[Stmt] = [
        Let(Var("lambda", "int8"), Const(-3, "int8")),
        Assign(Var("x.1", "int64"), Cast(Var("lambda", "int8"), "int64")),
    ]
    body: list[Stmt] = [
        Let(Var("x.1", "int64"), zero(), mutable=True),
        Let(Var("load", "int64"), x),
        Let(Var("5 weird\n%name", "int64"), Var("load", "int64")),
        If(flag, inner, sibling),
        Return(Binary("sub", Var("x.1", "int64"), Var("5 weird\n%name", "int64"), "int64")),
    ]
    native = backend(Function("shadow", [x, flag], body))
    assert native(10, 1) == 1
    assert native(10, 0) == -13


@both
def test_strided_rows_and_pointers(backend: Backend) -> None:
    """Sum of rows through a table of pointers, with strides in elements."""
    table, rows, columns, stride, out = (
        Var(name, "ptr" if name in ("table", "out") else "int64")
        for name in ("table", "rows", "columns", "stride", "out")
    )
    i, j, total, row = Var("i", "int64"), Var("j", "int64"), Var("t", "float64"), Var("row", "ptr")
    element = Load(row, Binary("mul", j, stride, "int64"), "float64", "row")
    step = Assign(total, Binary("add", total, element, "float64"))
    present = Binary("ne", row, Const(0, "ptr"), "bool")
    body: list[Stmt] = [
        Let(row, Load(table, i, "ptr", "table")),
        Let(total, Const(0.0, "float64"), mutable=True),
        If(present, [For(j, zero(), columns, [step])]),
        Store(out, i, total, "out"),
    ]
    params = [table, rows, columns, stride, out]
    native = backend(Function("rows", params, [For(i, zero(), rows, body)]))
    data = np.random.default_rng(2).normal(size=(4, 30))
    pointers = np.array([row.ctypes.data for row in data] + [0], np.int64)
    out_array = np.full(5, -1.0)
    assert native(pointers, 5, 10, 3, out_array) == 0
    expected = [functools.reduce(operator.add, row[::3].tolist()) for row in data]
    assert out_array.tolist() == [*expected, 0.0]


@both
def test_scalar_parameters_and_results(backend: Backend) -> None:
    for dtype, value in (("int8", -7), ("uint16", 65535), ("float32", 1.5), ("bool", 1)):
        x = Var("x", dtype)
        same = Function(f"same_{dtype}", [Var("unused", "bool"), x], [Return(x)], dtype)
        assert backend(same)(0, value) == value


@pytest.mark.parametrize("printer", ["llvm", "numba"])
def test_float16_parameters_and_results(printer: str) -> None:
    """A C caller passes a float16 as such, whichever printer made the callee."""
    h, flag = Var("h", "float16"), Var("flag", "bool")
    product = Binary("mul", h, Select(flag, h, Const(0.5, "float16"), "float16"), "float16")
    function = Function(f"scale_{printer}", [flag, h], [Return(product)], "float16")
    owner: object
    if printer == "llvm":
        owner = module = compiled(function)
        address = module.address(function.name)
    else:
        address, owner, _ = compile_numba(function)
    x, o = Var("x", "float32"), Var("o", "bool")
    result = Call(function.name, (o, Cast(x, "float16")), "float16", external=True)
    caller = Function("caller", [o, x], [Return(Cast(result, "float32"))], "float32")
    add_symbol(function.name, address)
    native = with_llvm(caller)
    half = float(np.float16(1.1))
    assert native(1, 1.1) == float(np.float16(half * half))
    assert native(0, 1.1) == half / 2
    assert owner is not None


@both
def test_c_functions(backend: Backend) -> None:
    """``malloc`` and ``free`` around a round trip through memory, and ``lgamma``."""
    x, p, y = Var("x", "float64"), Var("p", "ptr"), Var("y", "float64")
    body: list[Stmt] = [
        Let(p, Call("malloc", (integer(16),), "ptr", external=True)),
        If(Binary("eq", p, Const(0, "ptr"), "bool"), [Return(Const(-1.0, "float64"))]),
        Store(p, integer(1), x, "p"),
        Let(y, Load(p, integer(1), "float64", "p")),
        Do(Call("free", (p,), "void", external=True)),
        Return(Call("lgamma", (y,), "float64", external=True)),
    ]
    native = backend(Function("c_functions", [x], body, "float64"))
    assert native(5.5) == math.lgamma(5.5)


@both
def test_unknown_c_functions_are_refused(backend: Backend) -> None:
    result = Call("jc_no_such_function", (), "int64", external=True)
    with pytest.raises(EngineError, match="jc_no_such_function"):
        backend(Function("lost", [], [Return(result)]))


@both
def test_fma_rounds_once(backend: Backend) -> None:
    dtypes = ["float64", "float32"] * 3
    function = elementwise(
        "fused",
        dtypes,
        lambda v: [Call("fma", tuple(v[k::2]), v[k].dtype) for k in range(2)],
    )
    generator = np.random.default_rng(4)
    x32, y32, z32 = generator.normal(size=(3, 100)).astype(np.float32)
    x = np.full(100, 1 + 2.0**-30)
    inputs = [x, x32, x, y32, np.full(100, -1.0), z32]
    got64, got32 = run_elementwise(backend, function, inputs, ["float64", "float32"])
    assert (got64 == 2.0**-29 + 2.0**-60).all()
    exact = x32.astype(np.longdouble) * y32 + z32
    assert_same_bits(got32, exact.astype(np.float32), "fma")


@both
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_reductions_may_reassociate(backend: Backend, dtype: str) -> None:
    x, n, out, i = Var("x", "ptr"), Var("n", "int64"), Var("out", "ptr"), Var("i", "int64")
    starts = {"add": 0.0, "min": math.inf, "max": -math.inf}
    body: list[Stmt] = [
        Let(Var(op, dtype), Const(start, dtype), mutable=True) for op, start in starts.items()
    ]
    element = Load(x, i, dtype, "x")
    steps: list[Stmt] = [
        Assign(Var(op, dtype), Binary(op, Var(op, dtype), element, dtype, reassoc=True))
        for op in starts
    ]
    body.append(For(i, zero(), n, steps))
    body += [Store(out, integer(k), Var(op, dtype)) for k, op in enumerate(starts)]
    native = backend(Function("reduction", [x, n, out], body))
    values = np.random.default_rng(6).uniform(0, 1, 1003).astype(dtype)
    result = np.zeros(3, dtype)
    native(values, len(values), result)
    tolerance = 100 * float(np.finfo(dtype).eps)
    assert float(result[0]) == pytest.approx(math.fsum(values.tolist()), rel=tolerance)
    assert result[1] == values.min()
    assert result[2] == values.max()
    values[500] = np.nan
    native(values, len(values), result)
    assert np.isnan(result).all()


def test_float_chains_vectorize_without_contraction() -> None:
    assembly = compiled(chain("float32", ["mul", "add", "mul", "sub"])).assembly
    assert "vmulps" in assembly or "mulps" in assembly
    assert "fmadd" not in assembly and "fmsub" not in assembly


@pytest.mark.skipif("+fma" not in cpu_identity(), reason="the CPU has no fused instruction")
def test_contraction_is_opt_in() -> None:
    function = chain("float32", ["mul", "add"])
    assert "vfmadd" in compiled(function, contract=True).assembly
    assert "vfmadd" not in compiled(function).assembly


@pytest.mark.parametrize(
    ("dtype", "ops", "vector"),
    [
        ("int32", ["add", "mul", "and", "xor"], "x i32>"),
        ("uint8", ["add", "xor"], "x i8>"),
        ("float64", ["min", "max"], "x double>"),
        ("int16", ["min", "max"], "x i16>"),
    ],
)
def test_chains_vectorize(dtype: str, ops: list[str], vector: str) -> None:
    assert vector in compiled(chain(dtype, ops)).llvm


@pytest.mark.parametrize("target", ["int8", "int32", "int64", "uint32", "uint64", "float16"])
def test_casts_vectorize(target: str) -> None:
    function = elementwise("cast", ["float64"], lambda v: [Cast(v[0], target)])
    assert "x double>" in compiled(function).llvm


def test_numba_source_reads_well() -> None:
    source = print_function(collatz_function(), header="Kernel collatz_0")
    assert source == COLLATZ_SOURCE
    namespace: dict[str, Any] = {"__name__": "pasted"}
    exec(source, namespace)
    assert namespace["collatz"].py_func is not None


COLLATZ_SOURCE = """\
# Kernel collatz_0
from numba import njit
from jitcore.codegen.primitives import quotient, remainder


@njit(error_model="numpy")
def collatz(start, limit):
    # Counts steps.
    # steps to 1
    # for the reader
    n: int64 = start
    steps: int64 = 0
    while n != 1:
        if steps == limit:
            return -1
        if remainder(n, 2) == 0:
            n = quotient(n, 2)
            steps = steps + 1
            continue
        n = (n * 3) + 1
        steps = steps + 1
    return steps
"""


def test_text_of_comments_cannot_leave_them() -> None:
    hostile = "a\u2028b\rimport os\n%x = add\x0bi64"
    function = Function("quiet", [], [Comment(hostile), Return(zero())], doc=hostile)
    assert with_llvm(function)() == 0
    for line in print_function(function).splitlines():
        assert "import os" not in line or line.lstrip().startswith("#")


def test_unknown_primitives_are_refused() -> None:
    for op, dtype in (("div", "int32"), ("shl", "float32"), ("add", "bool"), ("spin", "int8")):
        function = chain(dtype, [op])
        with pytest.raises(ValueError, match=op):
            print_module([function])
        with pytest.raises(ValueError, match=op):
            print_function(function)


def test_unknown_vector_math_is_named() -> None:
    function = elementwise(
        "vector", ["float32"], lambda v: [Call("no_such_function", (v[0],), "float32")]
    )
    with pytest.raises(KeyError, match=r"no_such_function.*float32"):
        print_module([function])
    with pytest.raises(KeyError, match=r"no_such_function.*float32"):
        print_function(function)


def test_names_of_primitives_are_reserved() -> None:
    """A user's variable never hides a primitive."""
    primitives = importlib.import_module("jitcore.codegen.primitives")
    for name in primitives.__all__:
        assert python_name(name) != name


@both
@pytest.mark.parametrize("name", ["exp", "tanh"])
def test_vector_math(backend: Backend, name: str) -> None:
    """Vector math is called, and both printers compute the same bits."""
    function = elementwise(
        f"vector_{name}", ["float32"], lambda v: [Call(name, (v[0],), "float32")]
    )
    x = np.linspace(-20, 20, 1001, dtype=np.float32)
    (got,) = run_elementwise(backend, function, [x], ["float32"])
    exact = getattr(np, name)(x.astype(np.float64))
    np.testing.assert_allclose(got, exact, rtol=4 * float(np.finfo(np.float32).eps))
    (other,) = run_elementwise(with_llvm, function, [x], ["float32"])
    assert_same_bits(got, other, name)
