# mypy: allow-untyped-defs, allow-untyped-calls
"""Groups that hold reductions together with what reads their results."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitcore.nn.functional as F
from checking import check
from jitcore import nn, script


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax_of_all(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def layer_norm(x):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)


def unit_rows(x):
    return x / np.sqrt((x * x).sum(axis=1))[:, None]


def standardized(x):
    return (x - x.mean()) / x.std()


def log_sum_exp(x):
    m = x.max(axis=1)
    return m + np.log(np.exp(x - m[:, np.newaxis]).sum(axis=1))


def nearest(x):
    distances = np.abs(x - 0.25)
    return np.argmin(distances), distances.min(), distances


def counted(x):
    return np.where(x > x.mean(axis=1, keepdims=True), x, 0).sum(axis=1), (x > 0).any(axis=1)


def two_powers(x):
    up, down = np.exp(x), np.exp(-x)
    total = up.sum(axis=1, keepdims=True)
    return up / total - down / (down.sum(axis=1, keepdims=True) + total)


def summary(x):
    return x.mean(), x.std(), x.max(), x.min(), (x > 0.5).sum(), x.argmax(), (x > 9).any()


ONE_KERNEL = [
    softmax,
    softmax_of_all,
    layer_norm,
    unit_rows,
    standardized,
    log_sum_exp,
    nearest,
    counted,
    two_powers,
    summary,
]
SHAPES = [(7, 33), (1, 5), (5, 1), (6, 6), (64, 130), (1, 1)]


def _inputs(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    generator = np.random.default_rng(sum(shape))
    return generator.normal(size=shape).astype(dtype)


@pytest.mark.parametrize("function", ONE_KERNEL, ids=lambda one: one.__name__)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_it_is_one_group_and_gives_what_numpy_gives(
    function: Callable[..., Any], dtype: str
) -> None:
    scripted = script(function)
    for shape in SHAPES:
        x = _inputs(shape, dtype)
        for array in (x, np.asfortranarray(x), x[::-1], x[:, ::-1]):
            check(function, array, script=lambda _: scripted, reduction=True)
    graph = scripted.graph_for(_inputs((7, 33), dtype))
    assert len(graph.find_all_nodes("prim::FusionGroup")) == 1
    assert not any(node.kind in ("np::sum", "np::exp", "np::sqrt") for node in graph.nodes())


@pytest.mark.parametrize("function", [softmax, softmax_of_all, layer_norm, unit_rows])
def test_nothing_but_the_result_is_in_memory(function: Callable[..., Any]) -> None:
    scripted = script(function)
    scripted(_inputs((7, 33), "float64"))
    (kernel,) = scripted.kernels
    assert "malloc" not in kernel.source


@pytest.mark.parametrize("function", ONE_KERNEL, ids=lambda one: one.__name__)
@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (0, 0)])
def test_without_elements(function: Callable[..., Any], shape: tuple[int, ...]) -> None:
    check(function, np.ones(shape), reduction=True)


# What may not be in one nest --------------------------------------------------------------


def by_column(x):
    return (x - x.mean(axis=0)) / x.std(axis=0)


def lines_up_with_the_last_axis(x):
    return x - x.sum(axis=1)


def both_axes(x):
    e = np.exp(x)
    return e, e.sum(axis=0), e.sum(axis=1), e.sum()


def view_leaves(x):
    m = x.max(axis=1)
    view = m[:, None]
    return x - view, m, view


def write_between(x):
    m = x.max(axis=1, keepdims=True)
    x[0, 0] = 100.0
    return x - m


def stored(x):
    x -= x.max(axis=1, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(axis=1, keepdims=True)


def in_a_loop(x):
    total = 0.0
    for _ in range(3):
        e = np.exp(x - x.max(axis=1, keepdims=True))
        x = e / e.sum(axis=1, keepdims=True)
        total += x.max()
    return x, total


def two_depths(x):
    return x / x.sum(axis=1, keepdims=True) - x.sum()


@pytest.mark.parametrize(
    "function",
    [
        by_column,
        lines_up_with_the_last_axis,
        both_axes,
        view_leaves,
        write_between,
        stored,
        in_a_loop,
        two_depths,
    ],
    ids=lambda one: one.__name__,
)
@pytest.mark.parametrize("shape", [(6, 6), (5, 5), (1, 1)])
def test_other_groups_are_right(function: Callable[..., Any], shape: tuple[int, ...]) -> None:
    check(function, _inputs(shape, "float64"), reduction=True)


def test_a_mean_and_a_variance_add_the_elements_up_once() -> None:
    compiled = script(layer_norm)
    compiled(np.ones((4, 40), np.float32))
    assert compiled.kernels[0].source.count("accumulate_add(total") == 2


def three_sums(x, y):
    pull = x / np.sqrt(y * y + 0.5)
    return (x * pull).sum(axis=1), (y * pull).sum(axis=1), pull.max(axis=1)


@pytest.mark.parametrize("shape", [(40, 64), (3, 70), (1, 40000), (40000, 9)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_reductions_of_the_same_elements_take_one_walk(shape: tuple[int, ...], dtype: str) -> None:
    scripted = script(three_sums)
    x, y = _inputs(shape, dtype), _inputs(shape, dtype)[::-1]
    check(three_sums, x, y, script=lambda _: scripted, reduction=True)
    (kernel,) = scripted.kernels
    assert kernel.source.count("accumulate_add(") == 2 * kernel.source.count("= sqrt(")


def test_a_view_of_a_result_shares_its_memory() -> None:
    _, m, view = script(view_leaves)(_inputs((6, 6), "float64"))
    assert np.shares_memory(m, view)


def flags_and_their_source(x):
    missing = np.isnan(x)
    wide = np.exp(x) > 2
    if missing.any():
        return np.where(missing, 0.0, x), wide, wide.all(axis=1)
    return x * 2, wide, wide.any()


def test_a_walk_that_ends_early_does_not_compute_results() -> None:
    x = np.array([[1.0, np.nan] * 3000, [2.0, 3.0] * 3000])
    check(flags_and_their_source, x)
    check(flags_and_their_source, x[1:])


def loss_and_gradient(x, y):
    d = x - y
    return (d * d).mean(), 2.0 * d / d.size


def extrema_and_differences(x, y):
    d = np.abs(x - y)
    return d, d.max(), (x * x).sum(), y - 1, d.argmin()


def flag_and_result(x, y):
    return (x > y).any(), x * y


def stretched(x, y):
    return x.var(), x + y[..., :1], x.max() * y


WRITTEN_BESIDE = [loss_and_gradient, extrema_and_differences, flag_and_result, stretched]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(33_001,), (300,), (1, 513), (40, 1001), (0,)])
def test_results_that_a_reduction_passes_by(shape: tuple[int, ...], dtype: str) -> None:
    functions = WRITTEN_BESIDE if 0 not in shape else [loss_and_gradient, flag_and_result]
    generator = np.random.default_rng(5)
    x, y = generator.normal(size=(2, *shape)).astype(dtype)
    for function in functions:
        check(function, x, y, reduction=True)
        check(function, x.T[::-1], y.T, reduction=True)
        check(function, x[..., 1:], x[..., :-1], reduction=True)


def test_special_numbers_in_results_that_a_reduction_passes_by() -> None:
    x, y = np.random.default_rng(6).normal(size=(2, 700)).astype(np.float32)
    x[[0, 699]], y[[3, 130]] = np.nan, (np.inf, -0.0)
    for function in WRITTEN_BESIDE:
        check(function, x, y, reduction=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_loss_and_its_gradient_read_their_arguments_once(dtype: str) -> None:
    compiled = script(loss_and_gradient)
    compiled(*np.random.default_rng(7).normal(size=(2, 4096)).astype(dtype))
    source = compiled.kernels[0].source
    assert source.count("load(x,") == source.count("load(y,") == 1


def three_axes(x):
    mean = x.mean(axis=(1, 2), keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).sum(axis=(1, 2), keepdims=True) + 1)


@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 3, 1), (3, 1, 5), (2, 0, 3)])
def test_several_axes(shape: tuple[int, ...]) -> None:
    check(three_axes, _inputs(shape, "float64"), reduction=True)


def complex_rows(z):
    return z / np.abs(z).max(axis=1, keepdims=True), z.mean(axis=1, keepdims=True) - z


def test_complex_rows() -> None:
    z = _inputs((4, 9), "float64") + 1j * _inputs((4, 9), "float64")[::-1]
    check(complex_rows, z, reduction=True)


def integer_rows(n):
    return n - n.min(axis=1, keepdims=True), n.sum(axis=1), n // n.max(axis=1, keepdims=True)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_integer_rows(dtype: str) -> None:
    generator = np.random.default_rng(3)
    check(integer_rows, generator.integers(1, 100, size=(6, 11)).astype(dtype))


def test_operands_that_depend_on_a_condition() -> None:
    def normalized(x, y, flag):
        values, largest = x * 2, x.max(axis=1, keepdims=True)
        if flag > 0:
            values, largest = values + 1, y.max(axis=1, keepdims=True)
        shifted = values - largest
        return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))

    x, y = np.random.default_rng(6).random((2, 5, 4))
    for flag in (1, 0):
        check(normalized, x, y, flag, reduction=True, ulp=8)


def test_a_softmax_of_a_recurrent_layer() -> None:
    layer = nn.RNN(4, 3)

    def of_states(x):
        return F.log_softmax(layer(x)[0], -1)

    x = np.random.default_rng(7).random((2, 3, 4)).astype(np.float32)
    np.testing.assert_allclose(script(of_states)(x), of_states(x), rtol=1e-5)


def log_softmax(x):
    shifted = x - x.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def spread_of_powers(x):
    return x - np.exp(x).var(axis=1, keepdims=True)


def entropy(x):
    return -(x * np.log(x)).sum(axis=1)


@pytest.mark.parametrize(
    ("function", "stores"), [(log_softmax, 1), (softmax, 2), (spread_of_powers, 2)]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_only_added_up_is_not_kept(
    function: Callable[..., Any], stores: int, dtype: str
) -> None:
    x = np.random.default_rng(5).standard_normal((30, 40)).astype(dtype)
    check(function, x, reduction=True)
    compiled = script(function)
    compiled(x)
    # Rows of float64 have loops of their own for what fills no block.
    if dtype == "float32":
        assert compiled.kernels[0].source.count("    store(result, ") == stores


@pytest.mark.parametrize("columns", [15, 16, 17, 24, 31, 32, 100])
def test_functions_of_short_rows_of_float32(columns: int) -> None:
    x = np.random.default_rng(columns).uniform(0.01, 1, (30, columns)).astype(np.float32)
    check(entropy, x, reduction=True)
    compiled = script(entropy)
    compiled(x)
    machine_code = compiled.kernels[-1].assembly
    if columns >= 16 and "%zmm" in machine_code:
        assert re.search(r"vfn?madd\w+ps\t.*%zmm", machine_code)
