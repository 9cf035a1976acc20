"""Every primitive and cast through both printers, compared with NumPy bit for bit."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from loop_kernels import (
    DTYPES,
    FLOATS,
    INTEGERS,
    Backend,
    assert_same_bits,
    backends,
    both,
    c_function,
    elementwise,
    run_elementwise,
    with_llvm,
    with_numba,
)

from jitcore.codegen.engine import compile_module
from jitcore.codegen.loops import Binary, Cast, Const, Expr, Function, Select, Unary, Var
from jitcore.codegen.printers.llvm import print_module
from jitcore.codegen.printers.numba_cpu import print_function

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def samples(dtype: str) -> np.ndarray:
    """Values at the dtype's edges, around zero, and random ones."""
    generator = np.random.default_rng(3)
    if dtype == "bool":
        return np.array([False, True])
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        edges = [0, 1, 2, 3, 7, 100, info.min, info.min + 1, info.max, info.max - 1]
        edges += [-1, -2, -7] if info.min else []
        extra = generator.integers(info.min, info.max, 12, dtype, endpoint=True)
        return np.concatenate([np.array(edges, dtype), extra])
    limits = np.finfo(dtype)
    numbers: list[Any] = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -2.5, 3.0, np.inf, -np.inf, np.nan]
    numbers += [limits.max, limits.min, limits.tiny, limits.smallest_subnormal, limits.eps]
    return np.concatenate([np.array(numbers, dtype), generator.normal(0, 50, 12).astype(dtype)])


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    values = samples(dtype)
    x, y = np.meshgrid(values, values)
    return x.ravel().copy(), y.ravel().copy()


def wrapped(values: Sequence[int], dtype: str) -> np.ndarray:
    size = np.dtype(dtype).itemsize
    positive = np.array([value % (1 << 8 * size) for value in values], np.uint64)
    return positive.astype(f"u{size}").view(dtype)


def by_element(function: Callable[..., int]) -> Callable[..., np.ndarray]:
    """A function of Python ints over arrays of integers."""

    def apply(*arrays: np.ndarray) -> np.ndarray:
        rows = zip(*(array.tolist() for array in arrays), strict=True)
        return wrapped([function(*row) for row in rows], str(arrays[0].dtype))

    return apply


def leading_zeros(x: np.ndarray) -> np.ndarray:
    width = 8 * x.dtype.itemsize
    return by_element(lambda v: width - (v % (1 << width)).bit_length())(x)


def trailing_zeros(x: np.ndarray) -> np.ndarray:
    width = 8 * x.dtype.itemsize
    return by_element(lambda v: (v & -v).bit_length() - 1 if v else width)(x)


def overflows(operation: Callable[[int, int], int]) -> Callable[..., np.ndarray]:
    def apply(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        info = np.iinfo(x.dtype)
        rows = zip(x.tolist(), y.tolist(), strict=True)
        return np.array([not info.min <= operation(a, b) <= info.max for a, b in rows])

    return apply


COMPARISONS: dict[str, Callable[..., np.ndarray]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
LOGIC: dict[str, Callable[..., np.ndarray]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
ARITHMETIC: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
}
EXTREMA: dict[str, Callable[..., np.ndarray]] = {"min": np.minimum, "max": np.maximum}
FLOAT_BINARY: dict[str, Callable[..., np.ndarray]] = {
    "div": np.divide,
    "frem": np.fmod,
    "copysign": np.copysign,
}
OVERFLOWS = {
    "add_overflows": overflows(lambda a, b: a + b),
    "sub_overflows": overflows(lambda a, b: a - b),
    "mul_overflows": overflows(lambda a, b: a * b),
}
FLOAT_UNARY: dict[str, Callable[..., np.ndarray]] = {
    "neg": np.negative,
    "sqrt": np.sqrt,
    "fabs": np.fabs,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
}
INTEGER_UNARY: dict[str, Callable[..., np.ndarray]] = {
    "neg": by_element(lambda v: -v),
    "not": np.invert,
    "popcount": lambda x: by_element(lambda v: (v % (1 << 8 * x.dtype.itemsize)).bit_count())(x),
    "clz": leading_zeros,
    "ctz": trailing_zeros,
}


def binary_table(dtype: str) -> dict[str, Callable[..., np.ndarray]]:
    """The primitives of two operands a dtype has, with what NumPy gives."""
    if dtype == "bool":
        return {**COMPARISONS, **LOGIC, **EXTREMA}
    if dtype in FLOATS:
        return {**COMPARISONS, **ARITHMETIC, **EXTREMA, **FLOAT_BINARY}
    return {**COMPARISONS, **LOGIC, **ARITHMETIC, **EXTREMA, **OVERFLOWS}


def unary_table(dtype: str) -> dict[str, Callable[..., np.ndarray]]:
    if dtype == "bool":
        return {"not": np.logical_not}
    return FLOAT_UNARY if dtype in FLOATS else INTEGER_UNARY


@pytest.mark.parametrize("dtype", DTYPES)
def test_primitives_of_two_operands(dtype: str) -> None:
    table = binary_table(dtype)
    x, y = pairs(dtype)
    expected = [reference(x, y) for reference in table.values()]
    dtypes = [str(array.dtype) for array in expected]

    def results(v: Sequence[Var]) -> list[Expr]:
        return [Binary(op, v[0], v[1], d) for op, d in zip(table, dtypes, strict=True)]

    function = elementwise("binary", [dtype, dtype], results)
    for backend in backends(dtype):
        outs = run_elementwise(backend, function, [x, y], dtypes)
        for op, got, wanted in zip(table, outs, expected, strict=True):
            assert_same_bits(got, wanted, f"{op} {dtype} {backend.__name__}")


@pytest.mark.parametrize("dtype", DTYPES)
def test_primitives_of_one_operand(dtype: str) -> None:
    table = unary_table(dtype)
    x = samples(dtype)
    function = elementwise("unary", [dtype], lambda v: [Unary(op, v[0], dtype) for op in table])
    for backend in backends(dtype):
        outs = run_elementwise(backend, function, [x], [dtype] * len(table))
        for (op, reference), got in zip(table.items(), outs, strict=True):
            assert_same_bits(got, reference(x), f"{op} {dtype} {backend.__name__}")


def c_quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_division_and_shifts(dtype: str) -> None:
    x, y = pairs(dtype)
    keep = y != 0
    x, y = x[keep], y[keep]
    count = (np.arange(len(x)) % (8 * x.dtype.itemsize)).astype(dtype)
    expected = [
        by_element(c_quotient)(x, y),
        by_element(lambda a, b: a - b * c_quotient(a, b))(x, y),
        np.left_shift(x, count),
        np.right_shift(x, count),
        by_element(lambda a: c_quotient(a, 7))(x),
        by_element(lambda a: a - 7 * c_quotient(a, 7))(x),
    ]

    def results(v: Sequence[Var]) -> list[Expr]:
        seven = Const(7, dtype)
        operands = [("quot", v[1]), ("rem", v[1]), ("shl", v[2]), ("shr", v[2])]
        operands_7: list[tuple[str, Expr]] = [("quot", seven), ("rem", seven)]
        return [Binary(op, v[0], other, dtype) for op, other in [*operands, *operands_7]]

    function = elementwise("division", [dtype] * 3, results)
    for backend in backends(dtype):
        outs = run_elementwise(backend, function, [x, y, count], [dtype] * 6)
        for number, (got, wanted) in enumerate(zip(outs, expected, strict=True)):
            assert_same_bits(got, wanted, f"{number} {dtype} {backend.__name__}")


def cast_samples(dtype: str) -> np.ndarray:
    """Twice each value: NumPy converts strided arrays element by element, as C does."""
    values = samples(dtype)
    if dtype in FLOATS:
        limits = [2.0**k + d for k in (7, 8, 15, 16, 31, 32, 63, 64) for d in (-1.5, -1, 0, 1)]
        halves = [5.9604645e-08, 2.98023224e-08, 65519.99, 65520.0, 2049.0, 2051.0, 1.00048828125]
        numbers = np.array([*limits, *halves, 1e30, 1.0004882812500002, 6.1e-5])
        values = np.concatenate([values, numbers.astype(dtype), -numbers.astype(dtype)])
    return np.repeat(values, 2)[::2]


@pytest.mark.parametrize("source", DTYPES)
def test_casts(source: str) -> None:
    x = cast_samples(source)
    function = elementwise("casts", [source], lambda v: [Cast(v[0], d) for d in DTYPES])
    for backend in backends(source):
        outs = run_elementwise(backend, function, [x.copy()], DTYPES)
        for target, got in zip(DTYPES, outs, strict=True):
            assert_same_bits(got, x.astype(target), f"{source} to {target} {backend.__name__}")


def test_float64_rounds_to_float16_once() -> None:
    generator = np.random.default_rng(5)
    coarse = generator.normal(0, 1, 20000).astype(np.float16).astype(np.float64)
    ties = coarse * (1 + 2.0**-12 * generator.choice([1, 1 + 2.0**-40, 1 - 2.0**-40], 20000))
    x = np.concatenate([ties, ties * 2.0**-16, generator.normal(0, 1, 20000)])
    function = elementwise("round", ["float64"], lambda v: [Cast(v[0], "float16")])
    (got,) = run_elementwise(with_llvm, function, [x], ["float16"])
    assert_same_bits(got, x.astype(np.float16), "float64 to float16")


def test_bit_casts() -> None:
    """Reinterpreting there and back, and what the bits are."""
    dtypes = {"float16": "uint16", "float32": "int32", "float64": "uint64"}

    def results(v: Sequence[Var]) -> list[Expr]:
        words = [Cast(x, dtypes[x.dtype], bits=True) for x in v]
        return [*words, *(Cast(w, x.dtype, bits=True) for w, x in zip(words, v, strict=True))]

    function = elementwise("bits", list(dtypes), results)
    inputs = [samples(dtype) for dtype in dtypes]
    outs_dtypes = [*dtypes.values(), *dtypes]
    for backend in (with_llvm, with_numba):
        outs = run_elementwise(backend, function, inputs, outs_dtypes)
        for x, word, back in zip(inputs, outs[:3], outs[3:], strict=True):
            finite = ~np.isnan(x)
            assert_same_bits(word[finite], x.view(word.dtype)[finite], "bits")
            assert_same_bits(back, x, "back")


@pytest.mark.parametrize("dtype", DTYPES)
def test_select_and_constants(dtype: str) -> None:
    x, y = pairs(dtype)
    c = np.arange(len(x)) % 3 == 0
    values = [v for v in samples(dtype).tolist() if v == v]

    def results(v: Sequence[Var]) -> list[Expr]:
        return [Select(v[0], v[1], v[2], dtype), *(Const(value, dtype) for value in values)]

    function = elementwise("select", ["bool", dtype, dtype], results)
    for backend in backends(dtype):
        outs = run_elementwise(backend, function, [c, x, y], [dtype] * (1 + len(values)))
        assert_same_bits(outs[0], np.where(c, x, y), f"select {backend.__name__}")
        for value, got in zip(values, outs[1:], strict=True):
            assert_same_bits(got, np.full(len(x), value, dtype), f"{value!r} {backend.__name__}")


@both
def test_bool_memory_may_hold_any_byte(backend: Backend) -> None:
    raw = np.array([0, 1, 2, 128, 255], np.uint8).view(bool)
    function = elementwise("truth", ["bool"], lambda v: [v[0], Cast(v[0], "int32")])
    flags, numbers = run_elementwise(backend, function, [raw], ["bool", "int32"])
    assert flags.view(np.uint8).tolist() == [0, 1, 1, 1, 1]
    assert numbers.tolist() == [0, 1, 1, 1, 1]


# Random expressions


class RandomExpression:
    """A random tree over three inputs, as loop IR and as a NumPy function."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.inputs = [self._random.choice(DTYPES) for _ in range(3)]

    def tree(self, variables: Sequence[Var], depth: int) -> Expr:
        if depth == 0 or self._random.random() < 0.1:
            return self._random.choice(variables)
        x = self.tree(variables, depth - 1)
        kind = self._random.random()
        if kind < 0.2:
            return Cast(x, self._random.choice(DTYPES))
        if kind < 0.4:
            return Unary(self._random.choice(list(unary_table(x.dtype))), x, x.dtype)
        y = self.tree(variables, depth - 1)
        y = y if y.dtype == x.dtype else Cast(y, x.dtype)
        if kind < 0.5:
            condition = self.tree(variables, depth - 1)
            truth = condition if condition.dtype == "bool" else Cast(condition, "bool")
            return Select(truth, x, y, x.dtype)
        op = self._random.choice(list(binary_table(x.dtype)))
        is_bool = op in COMPARISONS or op in OVERFLOWS
        return Binary(op, x, y, "bool" if is_bool else x.dtype)


def evaluate(expression: Expr, values: dict[str, np.ndarray]) -> np.ndarray:
    """What NumPy makes of a tree; casts element by element, as C does them."""
    match expression:
        case Var(name):
            return values[name]
        case Cast(x, dtype):
            return np.repeat(evaluate(x, values), 2)[::2].astype(dtype)
        case Unary(op, x):
            return unary_table(x.dtype)[op](evaluate(x, values))
        case Binary(op, x, y):
            return binary_table(x.dtype)[op](evaluate(x, values), evaluate(y, values))
        case Select(condition, x, y):
            return np.where(*(evaluate(part, values) for part in (condition, x, y)))
    raise AssertionError(expression)


def random_case(seed: int) -> tuple[Function, list[np.ndarray], np.ndarray]:
    generator = RandomExpression(seed)
    trees: list[Expr] = []

    def results(variables: Sequence[Var]) -> list[Expr]:
        trees.append(generator.tree(variables, 5))
        return trees

    function = elementwise(f"random_{seed}", generator.inputs, results)
    chooser = np.random.default_rng(seed)
    inputs = [chooser.choice(samples(dtype), 203) for dtype in generator.inputs]
    values = {f"v{k}": array for k, array in enumerate(inputs)}
    return function, inputs, evaluate(trees[0], values)


def test_random_expressions_llvm() -> None:
    cases = [random_case(seed) for seed in range(60)]
    module = compile_module(print_module([function for function, _, _ in cases]), name="random")
    for function, inputs, expected in cases:
        native = c_function(function, module.address(function.name), module)
        out = np.zeros(len(expected), expected.dtype)
        native(*inputs, out, len(out))
        assert_same_bits(out, expected, function.name)


@pytest.mark.parametrize("seed", range(100, 106))
def test_random_expressions_numba(seed: int) -> None:
    function, inputs, expected = random_case(seed)
    (out,) = run_elementwise(with_numba, function, inputs, [str(expected.dtype)])
    assert_same_bits(out, expected, print_function(function))
