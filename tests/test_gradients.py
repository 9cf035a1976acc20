# mypy: allow-untyped-defs, allow-untyped-calls
"""The gradient of each op, against differences of the plain function."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from typing import Any

import numpy as np
import pytest
from gradient_checking import check_gradient, differences
from op_samples import samples
from scipy import special

import jitcore
from checking import function_from_source
from jitcore.nn import functional
from opinfos import OPINFOS

GENERATOR = np.random.default_rng(np.random.SeedSequence().entropy)


def normal(*shape: int) -> Any:
    return GENERATOR.normal(size=shape)


def moderate(*shape: int) -> Any:
    return GENERATOR.uniform(0.2, 0.9, size=shape)


def regular(count: int) -> Any:
    """A matrix that is far from singular."""
    return normal(count, count) + 4 * count * np.eye(count)


def function_of(text: str, count: int) -> Any:
    names = ", ".join("xyz"[:count])
    return function_from_source(f"def f({names}):\n    return {text}\n", F=functional)


UNARY = (
    "negative positive absolute sqrt cbrt square reciprocal exp exp2 expm1 log log2 log10 log1p "
    "sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arctanh degrees radians floor sign"
).split()
BINARY = (
    "add subtract multiply divide power float_power hypot arctan2 logaddexp logaddexp2 maximum "
    "minimum fmax fmin copysign remainder fmod floor_divide"
).split()
SHAPES = [((3, 4), (4,)), ((3, 1), (1, 4)), ((2,), ()), ((0, 3), (3,)), ((), (2, 2))]


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_array(name: str) -> None:
    check_gradient(function_of(f"np.sum(np.{name}(x) * x)", 1), moderate(3, 4))


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("shapes", SHAPES)
def test_broadcast_operands_get_sums(name: str, shapes: tuple[Any, ...]) -> None:
    function = function_of(f"np.sum(np.{name}(x, y) * (x + y))", 2)
    check_gradient(function, *(np.asarray(moderate(*shape)) for shape in shapes))


@pytest.mark.parametrize("text", ["x * y + x / y - x**y", "math.sin(x) * max(x, y) - abs(-y)"])
@pytest.mark.parametrize("type_", [float, np.float64])
def test_numbers(text: str, type_: Any) -> None:
    check_gradient(function_of(text, 2), type_(0.7), type_(0.4))


@pytest.mark.parametrize("name", "sum mean prod max min var std ptp".split())
@pytest.mark.parametrize("axis", ["None", "0", "(0, 2)", "-1"])
def test_reductions(name: str, axis: str) -> None:
    check_gradient(function_of(f"np.sum(np.{name}(x, axis={axis}) ** 2)", 1), normal(3, 4, 2))


TEXTS = [
    "np.sum(x * x.mean(axis=0, keepdims=True))",
    "np.var(x, ddof=1) + np.std(x, axis=0, ddof=1).sum()",
    "np.sum(np.cumsum(x, axis=1) ** 2) + np.cumsum(x)[3]",
    "np.linalg.norm(x) + np.linalg.norm(x, axis=1).sum()",
    "np.log(np.sum(np.exp(x - x.max()))) + x.max()",
    "np.where(x > 0, x * x, -x).sum()",
    "np.clip(x, -0.5, 0.6).sum()",
    "(x.astype(np.int64) * x).sum()",
    "np.sum(x.reshape(4, 3) @ x) + x.ravel()[3] * x.reshape(-1)[2]",
    "np.sum(x.T @ x) + np.swapaxes(x, 0, 1)[1, 2]",
    "np.sum((x[1:] - x[:-1]) ** 2) + x[0, 1] * x[-1, -1] + np.sum(x[::-1] * x)",
    "np.sum(x[:, None] * x[None])",
    "np.sum(x[np.array([0, 2, 2])] ** 2) + np.take(x, np.array([1, 1]), axis=1).sum()",
    "np.sum(x[np.array([0, 2, 2]), np.array([1, 3, 3])] ** 2)",
    "np.sum(np.sin(x[np.array([[0, 2], [2, 1]])]))",
    "np.sum(x[x > 0] ** 2)",
    "np.sum(np.concatenate([x, x * x], axis=1) ** 3) + np.stack([x, x])[1, 2, 3]",
    "np.sum(np.pad(x, 1) ** 2) + np.sum(np.pad(x, ((1, 2), (0, 1)), mode='edge') ** 2)",
    "np.sum(np.flip(x) * np.roll(x, 1) + np.roll(x, (1, 2), axis=(0, 1)) ** 2)",
    "np.sum(np.tile(x, (2, 3)) ** 2) + np.sum(np.repeat(x, 2, axis=0) ** 3)",
    "np.sum(np.broadcast_to(x, (2, 3, 4)) ** 2) + np.sum(np.full((2, 4), x[0, 0]) ** 3)",
    "np.sum(np.diff(x) ** 2) + np.trapezoid(x).sum()",
    "np.sum(np.tril(x) * np.triu(x, -1))",
    "np.sum(np.linspace(x[0, 0], x[1, 1], 5) ** 2)",
    "np.sum(np.lib.stride_tricks.sliding_window_view(x, (2, 3)) ** 2)",
    "np.sum(np.select([x < 0, x < 1], [x * x, x * 3], x))",
    "np.trace(x @ x.T) + np.sum(np.diag(x[:3, :3]) ** 2)",
    "np.sum(np.cov(x) ** 2)",
]


@pytest.mark.parametrize("text", TEXTS)
def test_arrays_moved_and_reduced(text: str) -> None:
    check_gradient(function_of(text, 1), normal(3, 4))


PRODUCTS = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((5, 2, 3), (3,)),
    ((3,), (5, 3, 4)),
    ((1, 2, 3), (5, 3, 4)),
]


@pytest.mark.parametrize("shapes", PRODUCTS)
def test_products_of_matrices(shapes: tuple[Any, ...]) -> None:
    function = function_of("np.sum(np.sin(x @ y))", 2)
    check_gradient(function, *(normal(*shape) for shape in shapes))


CONTRACTIONS = [
    "np.dot(x, y).sum() + np.tensordot(x, y, 1).sum() + np.inner(x, y.T).sum()",
    "np.sum(np.outer(x, y) ** 2) + np.vdot(x, x)",
    "np.sum(np.einsum('ij,jk->ik', x, y) ** 2) + np.einsum('ij,ij->', x, x)",
    "np.sum(np.kron(x, y) ** 2)",
]


@pytest.mark.parametrize("text", CONTRACTIONS)
def test_contractions(text: str) -> None:
    check_gradient(function_of(text, 2), normal(2, 3), normal(3, 2))


@pytest.mark.parametrize("text", ["np.linalg.solve(x, y)", "np.linalg.inv(x) @ y"])
@pytest.mark.parametrize("columns", [(), (2,)])
def test_linear_equations(text: str, columns: tuple[int, ...]) -> None:
    check_gradient(function_of(f"np.sum({text} ** 2)", 2), regular(3), normal(3, *columns))


def test_determinants_and_factors() -> None:
    check_gradient(function_of("np.linalg.det(x)", 1), regular(3), native=False)
    factors = "np.sum(np.sin(np.linalg.cholesky(x @ x.T + np.eye(3))))"
    check_gradient(function_of(factors, 1), normal(3, 3))
    check_gradient(
        function_of("np.sum(np.linalg.cholesky(x) ** 3)", 1), regular(3) + 20 * np.eye(3)
    )


LAYERS = [
    ("F.relu(F.linear(x, y)) ** 2", (4, 3), (2, 3)),
    ("F.conv2d(x, y, padding=1, stride=2) ** 2", (1, 2, 5, 5), (3, 2, 3, 3)),
    ("F.conv1d(x, y, dilation=2) ** 2", (1, 2, 7), (3, 2, 3)),
    ("F.max_pool2d(x, 2) ** 2 * y", (1, 2, 4, 4), (1, 2, 2, 2)),
    ("F.avg_pool2d(x, 2) ** 2 * y", (1, 2, 4, 4), (1, 2, 2, 2)),
    ("F.layer_norm(x, (4,), y) ** 3", (3, 4), (4,)),
    ("F.batch_norm(x, None, None, y, None, training=True) ** 3", (3, 4), (4,)),
    ("F.scaled_dot_product_attention(x, y, y) ** 2", (2, 3, 4), (2, 5, 4)),
    ("F.scaled_dot_product_attention(x, x, y, is_causal=True) ** 2", (2, 3, 4), (2, 3, 4)),
    ("F.softmax(x, 1) * F.log_softmax(y, 0)", (3, 4), (3, 4)),
    ("F.cross_entropy(x, np.array([1, 0, 3])) + F.mse_loss(x, y)", (3, 4), (3, 4)),
    ("F.gelu(x) + F.silu(x) * F.mish(y) + F.elu(y)", (3, 4), (3, 4)),
]


@pytest.mark.parametrize(("text", "x", "y"), LAYERS)
def test_layers(text: str, x: tuple[int, ...], y: tuple[int, ...]) -> None:
    check_gradient(function_of(f"np.sum({text})", 2), normal(*x), normal(*y))


@pytest.mark.parametrize("index", ["::2, ::-1", "1:, :3", "::-1, 2"])
def test_arguments_that_are_views(index: str) -> None:
    x = eval(f"x[{index}]", {"x": normal(6, 5)})
    check_gradient(function_of("np.sum(np.exp(x) * x[0]) + np.sum(x.T)", 1), x)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 40])
def test_extents_that_change(count: int) -> None:
    """After two calls compiled code has symbols for the extents."""
    for extent in (7, 8, count):
        function = SMOOTH if extent != count else None
        if function is not None:
            SMOOTH_GRADIENT(normal(extent))
    x = normal(count)
    expected = 3 * np.sin(x) ** 2 * np.cos(x) * x + np.sin(x) ** 3
    np.testing.assert_allclose(SMOOTH_GRADIENT(x), expected, atol=1e-12)


def SMOOTH(x):
    return np.sum(np.sin(x) ** 3 * x)


SMOOTH_GRADIENT = jitcore.grad(SMOOTH)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_gradients_have_the_dtypes_of_arguments(dtype: str) -> None:
    def function(x, y):
        return np.sum(np.maximum(x, 0) * y + np.where(x > y, x, 0.0) ** 2)

    x, y = normal(5).astype(dtype), normal(5)
    value, (one, two) = jitcore.value_and_grad(function, argnums=(0, 1))(x, y)
    assert type(value) is type(function(x, y))
    assert one.dtype == dtype
    assert two.dtype == np.float64
    wide = x.astype(np.float64)
    np.testing.assert_allclose(one, (wide > 0) * y + (wide > y) * 2 * wide, rtol=1e-2, atol=1e-2)


def test_ties_are_shared() -> None:
    x = np.array([1.0, 3.0, 3.0])
    assert jitcore.grad(lambda x: np.max(x))(x).tolist() == [0.0, 0.5, 0.5]
    assert jitcore.grad(lambda x: np.sum(np.maximum(x, 3.0)))(x).tolist() == [0.0, 0.5, 0.5]
    assert jitcore.grad(lambda x: np.sum(np.abs(x)))(np.zeros(1)).tolist() == [0.0]


def losses(kind: str) -> Any:
    """Functions of float64 that make one float of each sample of an op, and their arguments."""
    for info in OPINFOS[kind]:
        for sample in samples(info):
            function = function_from_source(sample.source, F=functional, special=special)
            names = ", ".join(inspect.signature(function).parameters)
            text = f"def f({names}):\n    return np.sum(np.sin(g({names})))\n"
            args = tuple(_tame(one) if _is_double(one) else one for one in sample.calls[0])
            numbers = [n for n, one in enumerate(args) if _is_double(one)]
            if numbers and sample.label.count("layouts") == 0 and _is_float_of(function, args):
                yield sample.label, function_from_source(text, g=function), args, tuple(numbers)


def _tame(value: Any) -> Any:
    """Without huge numbers: beside 1e300 no difference of another number shows."""
    size = np.maximum(np.abs(value), 1.0)
    tame = np.where(size > 1e8, np.sign(value) * np.log10(size), value)
    return tame if isinstance(value, np.ndarray) else float(tame)


def _is_double(value: Any) -> bool:
    is_array = isinstance(value, np.ndarray) and value.dtype == np.float64
    return is_array or isinstance(value, float)


def _is_float_of(function: Any, args: Any) -> bool:
    try:
        result = function(*[np.copy(one) if isinstance(one, np.ndarray) else one for one in args])
    except Exception:
        return False
    return isinstance(result, float) or _is_double(result)


UNDEFINED = frozenset(
    f"np::{name}" for name in ("std", "arctan2", "arctan2_outer", "nextafter_outer")
) | {"prim::mod", "nn::rnn_states", "nn::lstm_states", "nn::grid_sample"}
"""Ops with samples at places without a derivative (0 / 0, infinity / infinity, a corner between
pixels), or where differences are too rough."""


def _found_differences(loss: Any, args: Any, number: int) -> Any:
    with contextlib.suppress(ValueError, OverflowError, ZeroDivisionError):
        yield from differences(loss, args, number, most=3)


@pytest.mark.parametrize("kind", sorted(OPINFOS.keys() - UNDEFINED))
def test_samples_of_ops_have_their_gradient_or_none(kind: str) -> None:
    """Whatever has a gradient has the right one; all else is refused."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for label, loss, args, numbers in losses(kind):
            run = jitcore.grad(loss, argnums=numbers).__wrapped_function__
            try:
                found = run(*args)
            except jitcore.CompilationError:
                continue
            for number, gradient in zip(numbers, found, strict=True):
                for place, expected in _found_differences(loss, args, number):
                    actual = float(np.asarray(gradient)[place])
                    error = abs(actual - expected)
                    assert error <= 1e-4 * max(1.0, abs(expected)), (label, number, place, actual)
