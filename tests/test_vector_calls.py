# mypy: allow-untyped-defs, allow-untyped-calls
"""Vector math that loops call in place of holding a copy of it for each use."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checking import check, function_from_source
from jitcore import script
from jitcore.codegen import engine
from jitcore.codegen.loops import Binary, Const, Expr, For, Load, Store, Var
from jitcore.codegen.printers.llvm import print_module
from jitcore.codegen.printers.vector_forms import is_vector_loop

LENGTHS = [1, 3, 15, 16, 17, 31, 63, 64, 65, 100, 127, 1000, 1025]
FLOATS = ["float16", "float32", "float64"]


def several(x, y):
    return np.exp(-x * x) * np.sin(3 * y), np.arctan2(x, y) + np.log1p(x * x), np.tanh(x - y)


def summed(x, y):
    return (np.exp(x) * np.cos(y) + np.tanh(x * y)).sum()


def chosen(x, y):
    return np.where(x > y, np.exp(x) - np.sqrt(np.cosh(y)), np.log(2 + np.sin(x)))


def by_row(x, y):
    table = np.stack([x, y, x + y])
    return (np.exp(table) + np.sin(table) + np.cos(table)).sum(axis=1)


def mixed(x, y):
    narrow, wide = x.astype(np.float32), y.astype(np.float64)
    return np.exp(narrow) + np.tanh(narrow), np.sin(wide) * np.cos(wide)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("function", [several, summed, chosen, by_row, mixed])
def test_lengths_around_the_vectors(function: Callable[..., Any], length: int, dtype: str) -> None:
    random = np.random.default_rng(length)
    x, y = random.standard_normal((2, length)).astype(dtype)
    check(function, x, y, reduction=True, ulp=16)


@pytest.mark.parametrize("dtype", FLOATS)
def test_special_values(dtype: str) -> None:
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-7, -6e4, 6e4, 1.0]
    x, y = (grid.ravel().astype(dtype) for grid in np.meshgrid(special, special))
    check(several, x, y, ulp=16)


def test_strides_and_overlap() -> None:
    def written(x):
        x[2:] = np.exp(-x[:-2]) + np.sin(x[1:-1]) * np.cos(x[:-2])
        return x[::3] * 2

    check(written, np.linspace(0, 1, 300), ulp=16)
    check(several, np.linspace(-2, 2, 600)[::2], np.linspace(-2, 2, 600)[::-2], ulp=16)


def test_bools_in_and_out() -> None:
    def of_bools(x, y):
        z = np.exp(x.astype(np.float32)) * np.sin(y.astype(np.float32))
        return z + np.cos(x.astype(np.float32)) > 1

    x, y = np.random.default_rng(0).integers(0, 2, (2, 1000)).astype(bool)
    check(of_bools, x, y)


def test_each_function_is_there_once() -> None:
    function = _repeated("np.sin(x * 0.9 + y)", 40)
    x, y = np.linspace(-3, 3, 200), np.linspace(0.5, 1.5, 200)
    check(function, x, y, ulp=64)
    compiled = script(function)
    compiled(x, y)
    text = print_module([compiled.kernels[0].lowered.function])
    assert len(re.findall(r"^declare .*@jcm_turned_sine_float64_x32\(", text, re.MULTILINE)) == 1
    # Those of the loop over whole vectors and of the one over the rest.
    assert len(re.findall(r"call <32 x double> @jcm_turned_sine_float64_x32\(", text)) == 80
    assert "@jcm_sin_moderate_float64(" not in text


@pytest.mark.parametrize(("dtype", "bound"), [("float32", 2.0**16), ("float64", 2.0**31)])
def test_functions_of_one_process_share_their_code(
    monkeypatch: pytest.MonkeyPatch, dtype: str, bound: float
) -> None:
    # What all functions need stays known when the test ends.
    check(function_from_source("def f(x):\n    return x + 1\n"), np.ones(500, dtype))
    compiled: list[str] = []
    begin_code = engine._Compilation.begin_code

    def counting(compilation: engine._Compilation, is_foreseen: bool) -> None:
        compiled.append(compilation.name)
        begin_code(compilation, is_foreseen)

    monkeypatch.setattr(engine._Compilation, "begin_code", counting)
    monkeypatch.setenv("JITCORE_CACHE", "0")
    monkeypatch.setattr(engine, "_SYMBOLS", _without_vector_math(engine._SYMBOLS))
    # Those that other tests have compiled stay loaded.
    monkeypatch.setattr(engine, "_LIBRARIES", dict(engine._LIBRARIES))
    x = np.linspace(-3, 3, 500).astype(dtype)
    for source in ("np.cos(x) * 3", "np.cos(x + 1)", "np.cos(x) * np.cos(2 * x)"):
        check(function_from_source(f"def f(x):\n    return {source}\n"), x, ulp=8)
    vectors = [name for name in compiled if name.startswith(f"jcm_turned_sine_{dtype}_x")]
    assert len(vectors) == 1
    assert len(compiled) > 3
    # Sines are cosines at another place.
    sources = "np.sin(x) * np.cos(x)", "np.sin(x)", "np.cos(-x) * np.sin(x + 1)"
    large = np.array([bound, -bound, np.nextafter(bound, 0), 3e38, -1e22]).astype(dtype)
    special = [-0.0, np.inf, -np.inf, np.nan, np.finfo(dtype).max, -np.finfo(dtype).tiny]
    far = np.concatenate([x, np.array(special, dtype), large])
    count = len(compiled)
    for source in sources:
        check(function_from_source(f"def f(x):\n    return {source}\n"), far, ulp=8)
    assert not [name for name in compiled[count:] if name.startswith("jcm_")]


def _without_vector_math(symbols: dict[str, int]) -> dict[str, int]:
    return {name: address for name, address in symbols.items() if not name.startswith("jcm_")}


@pytest.mark.parametrize(("length", "masked"), [(64, [False]), (20, [True]), (100, [False, True])])
def test_only_the_rest_has_masks(length: int, masked: list[bool]) -> None:
    compiled = script(several)
    compiled(np.ones(length), np.ones(length))
    function = compiled.kernels[0].lowered.function
    text = print_module([function])
    _, _, kernel = text.partition(f"@{function.name}(")
    body = kernel.partition("\n}")[0]
    for access in ("load", "store"):
        found = re.findall(rf"(?:{access} <|@llvm\.masked\.{access}\.)", body)
        kinds = [one.startswith("@") for one in found]
        assert kinds == sorted(kinds)
        assert sorted(set(kinds)) == masked


def test_smaller_registers_take_fewer_numbers() -> None:
    compiled = script(several)
    compiled(np.ones(500, np.float32), np.ones(500, np.float32))
    function = compiled.kernels[0].lowered.function
    assert "@jcm_tanh_float32_x64(<64 x float>" in print_module([function])
    assert "@jcm_tanh_float32_x32(<32 x float>" in print_module([function], vector_bits=256)


def test_few_calls_are_inlined() -> None:
    compiled = script(lambda x: np.exp(-x) + np.tanh(x))
    compiled(np.ones(500))
    text = print_module([compiled.kernels[0].lowered.function])
    assert "@jcm_" not in text
    assert text.count("@llvm.masked.store.") == 2


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("arctan2", "np.arctan2(x, 2.0) + np.arctan2(x + 1, 2.0) + np.arctan2(x - 1, 2.0)"),
        ("power_in_arrays", "x ** 2.5"),
    ],
)
def test_an_argument_that_is_the_same_in_all_calls(name: str, source: str) -> None:
    function = function_from_source(f"def f(x):\n    return {source}\n")
    x = np.linspace(0.1, 3, 1000)
    check(function, x, ulp=16)
    compiled = script(function)
    compiled(x)
    # One call is that of the scalar form, which LLVM replaces in the loop.
    calls = re.findall(rf"call .*@jcm_{name}_float64_x\d+\(", compiled.kernels[0].module.llvm)
    assert len(calls) > 1


def test_one_call_of_a_function_that_branches() -> None:
    def sine(x):
        return np.sin(x)

    x = np.linspace(-3, 3, 500)
    x[[7, 100, 101, 499]] = math.nan, 1e300, 2.0**31, -(2.0**31)
    check(sine, x, ulp=4)
    compiled = script(sine)
    compiled(x)
    text = print_module([compiled.kernels[0].lowered.function])
    assert "@jcm_sin_float64_lane32(" not in text
    calls = r"call .*<32 x double> @jcm_turned_sine_float64_x32\("
    assert re.search(calls, compiled.kernels[0].llvm)


def test_the_machine_code_has_vectors() -> None:
    compiled = script(several)
    compiled(np.ones(500, np.float32), np.ones(500, np.float32))
    loops = compiled.kernels[0].llvm
    assert re.search(r"call .*<\d+ x float> @jcm_tanh_float32_x\d+\(", loops)


def test_many_scalar_calls_compile_once() -> None:
    function = _repeated("np.sin(x * 0.9 + y)", 400)
    check(function, 0.3, 0.2, ulp=64)
    compiled = script(function)
    compiled(0.3, 0.2)
    text = print_module([compiled.kernels[0].lowered.function])
    assert "@jcm_sin_float64_call(" in text
    assert len(re.findall(r"call double @jcm_sin_float64\(", text)) < 100


def test_loops_that_have_no_vectors(capfd: pytest.CaptureFixture[str]) -> None:
    def carried(x, y):
        for i in range(1, x.shape[0]):
            x[i] = np.exp(-x[i - 1]) + np.sin(x[i]) * np.cos(y[i])
        return x

    check(carried, np.linspace(0, 1, 50), np.ones(50), ulp=16)
    assert "vectorized" not in capfd.readouterr().err


def _repeated(value: str, times: int) -> Callable[..., Any]:
    body = "\n".join(f"    x = {value}" for _ in range(times))
    return function_from_source(f"def f(x, y):\n{body}\n    return x\n")


def elementwise_loop(value: Expr, index: Expr) -> For:
    store = Store(Var("y", "ptr"), index, value, "y")
    return For(Var("k", "int64"), Const(0, "int64"), Const(100, "int64"), [store])


def test_which_loops_are_printed_as_loops_over_vectors() -> None:
    k, n = Var("k", "int64"), Var("n", "int64")
    next_ones = Binary("add", n, k, "int64")
    apart = Binary("mul", n, k, "int64")
    x, first = (Load(Var("x", "ptr"), place, "int64", "x") for place in (next_ones, n))
    assert is_vector_loop(elementwise_loop(Binary("add", x, first, "int64"), k))
    assert is_vector_loop(elementwise_loop(x, Binary("sub", k, n, "int64")))
    # A lane without an element would divide by what is there; elements lie apart, or are written.
    assert not is_vector_loop(elementwise_loop(Binary("quot", x, first, "int64"), k))
    assert not is_vector_loop(elementwise_loop(x, apart))
    assert not is_vector_loop(elementwise_loop(Load(Var("x", "ptr"), apart, "int64", "x"), k))
    assert not is_vector_loop(elementwise_loop(Load(Var("y", "ptr"), n, "int64", "y"), k))
    assert not is_vector_loop(elementwise_loop(k, k))
