# mypy: allow-untyped-defs, allow-untyped-calls
"""Traces of functions: what is recorded holds for other values and other shapes."""

import collections
import math
import typing

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special

import jitcore
from jitcore import Error, TracerWarning, trace


def array(*shape, dtype=np.float64):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


def assert_same(found, expected):
    """Equal types, dtypes and shapes, and values up to the order of additions."""
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        found, expected = list(found.values()), list(expected.values())
    if isinstance(expected, tuple | list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
        return
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert_allclose(found, expected, rtol=1e-12)


def check(function, examples, *others, **options):
    """A trace gives what the function gives, for the examples and for other arguments."""
    traced = trace(function, examples, **options)
    for arguments in (examples, *others):
        expected_arguments, found_arguments = copies(arguments), copies(arguments)
        expected = function(*expected_arguments)
        assert_same(traced(*found_arguments), expected)
        assert_left(found_arguments, expected_arguments)
    return traced


def copies(arguments):
    return tuple(one.copy() if isinstance(one, np.ndarray) else one for one in arguments)


def assert_left(found, expected):
    for one, other in zip(found, expected, strict=True):
        if isinstance(other, np.ndarray):
            assert_array_equal(one, other, strict=True)


class Point(typing.NamedTuple):
    x: typing.Any
    y: typing.Any


PlainPoint = collections.namedtuple("PlainPoint", ["x", "y"])


def kinds(traced):
    return [node.kind for node in traced.graph.nodes()]


# What is recorded


def every_operator(x, y):
    a = (x + y) * 2 - y / 3 + 1 / (x * x + 1)
    b = (-a) ** 2 + abs(a) // 0.5 + a % 0.7 + (+a) @ y.T @ x
    return np.where((a < b) & ~(a == b) | (b >= 1) ^ (b != 2), a, b), divmod(a, 0.3)


def integers(x, y):
    return (x << 2) | (y >> 1) & 3, x ^ 5, ~x, 7 // (abs(y) + 1), 2**y


def ufuncs_and_functions(x, y):
    z = np.hypot(np.sin(x), y) + np.add.reduce(x) + np.linalg.norm(y, axis=1, keepdims=True)
    return np.concatenate([z, x], axis=1), np.clip(z, -1, 1), np.einsum("ij,kj->ik", x, y)


def methods(x, y):
    z = x.reshape(-1).copy()
    return z.cumsum().max(), x.astype(np.float32).T, y.clip(0, 1).mean(axis=0), x.dot(y.T).ravel()


def scalars(x, y):
    low, high = x.min(), y.max().item()
    return x * low + high, np.float64(2) * low, 3 * low, round(low, 1)


def indexing(x, y):
    return x[1:, None, ::2], x[..., -1], y[x > 0], x[[1, 0]], y[np.argmax(y[:, 0])], x[-2]


def writes(x, y):
    out = np.empty_like(x)
    out[:] = y
    out[0] = x[0] * 2
    out[out > 1] = 1
    out *= 2
    np.add(out, 1, out=out)
    out.sort(axis=0)
    out.fill(x.sum()) if out.ndim == 3 else None
    return out


def made_by_indexing(x, y):
    n = x.shape[0]
    return np.r_[x[0], 1.0, y[0]], np.c_[x, y], np.mgrid[0:n, 0:2] + x.sum(), np.r_[0:n]


def several_results(x, y):
    q, r = np.linalg.qr(x.T @ x + np.eye(x.shape[1]))
    fraction, whole = np.modf(y)
    first, second = np.split(x.ravel()[: 2 * (x.size // 2)], 2)
    return q @ r, fraction + whole, first - second


PROGRAMS = [
    every_operator,
    ufuncs_and_functions,
    methods,
    scalars,
    indexing,
    writes,
    made_by_indexing,
    several_results,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
def test_operations_are_recorded(program):
    check(program, (array(3, 4), array(3, 4) + 0.5), (array(5, 6), array(5, 6) - 0.25))


def test_operators_of_integers():
    x, y = np.arange(6).reshape(2, 3), np.arange(6, 12).reshape(2, 3)
    check(integers, (x, y), (np.arange(4), np.arange(4)))


def test_a_trace_is_a_compiled_function():
    traced = trace(lambda x: np.tanh(x) * 2 + 1, array(4))
    traced(array(9))
    assert isinstance(traced, jitcore.ScriptFunction)
    assert "np::tanh" in str(traced.graph)
    assert "np.tanh(x)" in traced.code
    assert traced.kernels
    assert "native" in str(traced.explain(array(9)))


def test_examples_stay_as_they_are():
    def doubled(x):
        x *= 2
        return x

    x = array(4)
    before = x.copy()
    traced = trace(doubled, x)
    assert_array_equal(x, before)
    assert traced(x) is x
    assert_array_equal(x, before * 2)


def test_nodes_have_the_places_of_the_source():
    def located(x):
        y = x + 1
        return np.sin(
            y,
        )

    first = located.__code__.co_firstlineno
    graph = trace(located, array(3)).graph
    places = {node.kind: node.source for node in graph.nodes()}
    assert places["prim::add"].file == __file__
    assert (places["prim::add"].line, places["prim::add"].column) == (first + 1, 12)
    assert (places["np::sin"].line, places["np::sin"].end_line) == (first + 2, first + 4)


def test_values_have_the_names_of_variables():
    def named(bar, baz):
        baz = bar + 3
        quick_brown_fox = np.negative(baz)
        for _ in range(3):
            yeet = quick_brown_fox - 3.14
        return yeet

    text = trace(named, (array(3), array(3)))._graph
    assert all(f"%{name} :" in str(text) for name in ("bar", "baz", "quick_brown_fox", "yeet.1"))


# Shapes


def test_shapes_are_recorded():
    def reshaped(x):
        n, m = x.shape[0], x.shape[1]
        return x.reshape(m * 2, n, 2), np.full(x.shape, 2.0), np.arange(x.shape[0], x.shape[0] + 5)

    traced = check(reshaped, (array(5, 2, 4),), (array(4, 8, 4),))
    assert "prim::size" in kinds(traced)


def test_shapes_as_wholes_have_the_rank_of_the_example():
    def made(x):
        return np.zeros(x.shape), x.shape[0] * x

    traced = trace(made, array(3))
    assert_same(traced(array(4)), made(array(4)))
    with pytest.raises(ValueError, match="too many values to unpack"):
        traced(array(4, 5))
    for ranked in (lambda x: x.sum(axis=x.ndim - 1), lambda x: x.sum(axis=len(x.shape) - 1)):
        with pytest.raises(ValueError, match="too many values to unpack"):
            trace(ranked, array(3))(array(4, 5))
    only_first = trace(lambda x: x / x.shape[0] + x.shape[-1], array(3))
    assert_array_equal(only_first(array(4, 5)), array(4, 5) / 4 + 4)


def test_shapes_are_tuples():
    def shaped(x, y):
        n, *_ = x.shape
        wide = np.ones((2, *y.shape)) + np.zeros((2,) + x.shape) + np.zeros(x.shape + ())
        return wide * n, np.ones(x.shape[:1]), len(x.shape) * x, sum(y.shape) * y

    check(shaped, (array(3), array(3)), (array(5), array(5)))
    with pytest.warns(TracerWarning):
        trace(lambda x, y: x if x.shape == y.shape else y, (array(3), array(3)))
    assert isinstance(np.ones(3).shape, tuple)


def test_arrays_are_made_anew_in_each_call():
    def made(x):
        return np.zeros(3), np.ones((x.shape[0], 2), dtype=x.dtype), np.array([x.sum(), 1.0])

    traced = check(made, (array(3),), (array(7, dtype=np.float32),))
    assert "np::zeros" in str(traced._graph)
    first, second = traced(array(3))[0], traced(array(3))[0]
    assert not np.shares_memory(first, second)


def test_slices_with_shapes():
    def sliced(x):
        return tuple(x[: x.shape[0] - i, i : x.shape[2], i:3] for i in range(4))

    def selected(x):
        return tuple(x[:, i:, x.shape[2] - 5] for i in range(4))

    check(sliced, (array(5, 6, 7),), (array(7, 8, 9),))
    check(selected, (array(5, 6, 7),), (array(7, 8, 9),))


def test_a_slice_is_written_at_a_shape_of_its_own():
    def written(x, y):
        x[:, 2] = y + 1
        return x

    check(written, (array(3, 4), array(3)), (array(10, 5), array(10)))


def test_math_of_shapes():
    def scaled(x):
        return x / math.sqrt(x.shape[-1]) + math.floor(x.shape[0] / 2)

    check(scaled, (array(2, 4),), (array(5, 9),))


def test_dtypes_are_recorded():
    def converted(x, y):
        return x.astype(y.dtype), np.zeros(2, dtype=x.dtype), np.result_type(x, y).itemsize * x

    check(converted, (array(3), array(3, dtype=np.float32)), (array(2, dtype=np.float32), array(2)))


# Inputs and outputs


def test_tuples():
    def nested(x, y):
        return x, (x * y[1], (x * y[0],))

    check(nested, (array(2), (array(2), array(2) + 1)), (array(3), (array(3), array(3) - 1)))


@pytest.mark.parametrize("kind", [Point, PlainPoint])
def test_named_tuples(kind):
    def moved(p, by):
        assert type(p) is kind
        return kind(p.x + by, y=p[1] * 2)

    check(moved, (kind(array(2), array(3)), array(2)), (kind(array(5), array(1)), array(5)))


def test_lists():
    def total(xs, y):
        first, second = xs
        return first * y + second

    traced = check(total, ([array(3), array(3) * 2], array(3)))
    with pytest.raises(ValueError):
        traced([array(3)], array(3))


def test_dicts():
    def chosen(d):
        return d["x"]["inner"] * 2

    traced = trace(chosen, {"x": {"inner": array(2)}, "unused": array(3)})
    found = traced({"more": 1, "x": {"inner": array(4)}})
    assert_array_equal(found, array(4) * 2)
    with pytest.raises(KeyError):
        traced({"y": array(4)})


def test_numbers():
    def powered(x, k, on):
        return x * k + np.where(on, k, 0.5) - x.shape[0] ** k

    check(powered, (array(3), 2, True), (array(4), 3, False), (array(2), 2.5, np.True_))


def test_one_list_of_arguments():
    traced = trace(lambda a, b: a + b, [array(2), array(2)])
    assert_array_equal(traced(array(3), array(3)), array(3) * 2)


def test_keyword_arguments():
    def scaled(x, factor=2.0, *more, shift, **others):
        return x * factor + shift + others["extra"]

    given = {"shift": array(3), "extra": array(3)}
    traced = trace(scaled, array(3), example_kwarg_inputs=given)
    assert list(traced.graph.inputs[0].name) == ["x"]
    assert "factor" not in str(traced.graph)
    found = traced(array(4), shift=array(4), extra=array(4))
    assert_array_equal(found, array(4) * 2.0 + array(4) + array(4))


def test_any_number_of_arguments():
    def total(*xs):
        return xs[0] + xs[1] * xs[2]

    check(total, (array(2), array(2), array(2)), (array(3), array(3), array(3)))


def test_wrong_arguments():
    traced = trace(lambda x, y: x + y, (array(2), array(2)))
    with pytest.raises(TypeError, match="y"):
        traced(array(2))


def test_no_inputs():
    traced = trace(lambda: np.arange(4) * 2, ())
    assert_array_equal(traced(), np.arange(4) * 2)


@pytest.mark.parametrize("function", [np.sin, np.mean, abs, np.linalg.norm, np.dot])
def test_functions_that_are_not_pythons(function):
    given = (array(3), array(3)) if function is np.dot else (array(3),)
    assert_allclose(trace(function, given)(*given), function(*given))


def test_repeated_inputs_and_outputs():
    x = array(2, 2)
    check(lambda a, b: a + b, (x, x))
    check(lambda a, b: (b, a, b), (x, x + 1))


def test_dict_out():
    def named(x):
        return {"double": x * 2, "pair": (x, x + 1)}

    with pytest.raises(Error, match="Encountering a dict at the output of the tracer"):
        trace(named, array(2))
    check(named, (array(2),), (array(3),), strict=False)


def test_list_out():
    def listed(x):
        return [x * 2, x + 1]

    with pytest.warns(TracerWarning, match="cause the trace to be incorrect"):
        trace(listed, array(2))
    check(listed, (array(2),), (array(3),), strict=False)


@pytest.mark.parametrize("result", [[1, 5], "text", (np.ones(2), 3.0)])
def test_what_cannot_be_output(result):
    with pytest.raises(Error, match="Only arrays.+can be output from traced functions"):
        trace(lambda x: result, array(2), strict=False)


def test_nothing_out():
    with pytest.raises(Error, match="returned nothing"):
        trace(lambda x: None, array(2))
    with pytest.raises(Error, match="returned nothing"):
        trace(lambda x: print(end=str(x * 2)[:0]), array(2))


def test_functions_that_only_write():
    def written(x, y):
        x[1:] += y
        np.add(x, 1, out=x)

    traced = trace(written, (array(4), array(3)))
    found, expected = array(6), array(6)
    assert traced(found, array(5)) is None
    written(expected, array(5))
    assert_allclose(found, expected)


def test_arrays_without_inputs_are_made_anew():
    traced = trace(lambda x: (np.linspace(0, 1, 5), np.array([1.0, 2.0]), x), array(2))
    first = traced(array(2))[0]
    first[:] = 7
    assert_array_equal(traced(array(2))[0], np.linspace(0, 1, 5))


@pytest.mark.parametrize("example", ["text", None, (np.ones(2), "text"), {"a": object()}])
def test_what_cannot_be_input(example):
    with pytest.raises(Error, match="cannot be traced"):
        trace(lambda x: x, (example,))


# What a function has from elsewhere

WEIGHTS = np.arange(3.0)


def test_arrays_from_outside_are_read_anew():
    inner = np.ones(3)

    def weighted(x):
        return x * WEIGHTS.sum() + inner

    traced = trace(weighted, array(3))
    assert type(WEIGHTS) is np.ndarray
    assert type(inner) is np.ndarray
    assert_array_equal(traced(array(3)), weighted(array(3)))
    inner[:] = 5
    WEIGHTS[0] = 3
    assert_array_equal(traced(array(3)), weighted(array(3)))
    inner = np.zeros(3)
    assert_array_equal(traced(array(3)), weighted(array(3)))


def helper(x):
    return x @ WEIGHTS


def test_functions_that_are_called_are_recorded():
    traced = check(
        lambda x: helper(x) + np.asarray(sum([x, x * 2]))[0], (array(3, 3),), (array(3, 3) + 1,)
    )
    assert "prim::matmul" in kinds(traced)


def test_arrays_in_objects_are_constants():
    class Holder:
        data = np.full(3, 2.0)

    holder = Holder()
    traced = trace(lambda x: x * holder.data, array(3))
    holder.data[0] = 7
    assert_array_equal(traced(array(3)), array(3) * holder.data)


def test_an_array_from_outside_is_written():
    counter = np.zeros(2)

    def counted(x):
        counter[:] += 1
        return x + counter

    traced = trace(counted, array(2))
    assert counter.tolist() == [0, 0]
    assert_array_equal(traced(array(2)), array(2) + 1)
    assert counter.tolist() == [1, 1]


def test_foreign_ufuncs():
    check(lambda x: special.erf(x) + 1, (array(3),), (array(4),))


def test_traces_in_traces():
    def outer(x):
        inner = trace(lambda y: y * 2, np.ones(2))
        return inner(x) + 1

    check(outer, (array(3),), (array(4),))


def test_values_left_over_from_a_trace_are_plain():
    kept: list[np.ndarray] = []

    def leaking(x):
        kept[:] = [x * 2]
        return x + 1

    with pytest.warns(TracerWarning, match="changes 'kept'"):
        trace(leaking, array(3))
    (left,) = kept
    assert_array_equal(np.sin(left) + left[0], np.sin(array(3) * 2) + array(3)[0] * 2)
    assert float(left.sum()) == (array(3) * 2).sum()


def test_numpy_is_as_it_was():
    before = dict(vars(np)), dict(vars(math)), dict(vars(np.random))
    with pytest.raises(ZeroDivisionError):
        trace(lambda x: np.zeros(3) + 1 // 0, array(2))
    assert (vars(np), vars(math), vars(np.random)) == before


def test_disabled(monkeypatch):
    monkeypatch.setenv("JITCORE_JIT", "0")

    def plain(x):
        return x

    assert trace(plain, array(2)) is plain


# Randomness


def test_a_generator_that_is_passed():
    def noisy(x, rng):
        return x + rng.normal(size=x.shape) + rng.integers(3)

    traced = trace(noisy, (array(3), np.random.default_rng(1)))
    expected = noisy(array(5), np.random.default_rng(2))
    assert_array_equal(traced(array(5), np.random.default_rng(2)), expected)


GENERATOR = np.random.default_rng(5)


def test_a_generator_from_outside():
    def noisy(x):
        return x + GENERATOR.normal(size=x.shape[0])

    state = GENERATOR.bit_generator.state
    traced = trace(noisy, array(3))
    assert GENERATOR.bit_generator.state == state
    first, second = traced(array(4)), traced(array(4))
    GENERATOR.bit_generator.state = state
    assert_array_equal(first, noisy(array(4)))
    assert_array_equal(second, noisy(array(4)))


def test_a_generator_that_is_made():
    def noisy(x):
        rng = np.random.default_rng(7)
        return x + rng.random(x.shape)

    check(noisy, (array(3),), (array(7),))


def test_the_generator_of_numpy():
    def noisy(x):
        return x + np.random.rand(x.shape[0])

    traced = trace(noisy, array(3), check_trace=False)
    np.random.seed(3)
    found = traced(array(4))
    np.random.seed(3)
    assert_array_equal(found, noisy(array(4)))
