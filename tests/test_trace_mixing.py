# mypy: allow-untyped-defs, allow-untyped-calls
"""Traces in compiled functions, and compiled functions in traces."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from saving import reloaded

import jitcore
from jitcore import TracerWarning, freeze, ignore, nn, script, script_if_tracing, trace


def array(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape)


def kinds(function):
    return [node.kind for node in function._graph.nodes()]


# Compiled functions in traces

OFFSET = 1.0
SHIFT = np.ones(3)


@script
def larger(x, y):
    if x.max() > y.max():
        r = x
    else:
        r = y
    return r


@script
def shifted(x):
    for i in range(x.shape[0]):
        x = x + i * OFFSET
    return x + SHIFT


def test_control_flow_is_kept():
    def bar(x, y, z):
        return larger(x, y) + z

    traced = trace(bar, (np.ones(3), np.zeros(3), np.ones(3)))
    assert "prim::CallFunction" in kinds(traced)
    assert "prim::If" in str(traced.graph)
    for x, y in ((1.0, 2.0), (2.0, 1.0)):
        given = (np.full(4, x), np.full(4, y), array(4))
        assert_array_equal(traced(*given), bar(*given))


def test_loops_are_kept():
    traced = trace(lambda x: shifted(x) * 2, array(3))
    SHIFT[0] = 5
    for shape in ((3,), (7, 3)):
        assert_array_equal(traced(array(*shape)), shifted(array(*shape)) * 2)


def test_results_of_compiled_functions():
    @script
    def several(x):
        return [[x + 1, x - 1], {"a": (x, 2.0)}, None, x.shape[0]]

    def bar(x):
        pairs, named, _, count = several(x)
        return pairs[0] * count, pairs[1] + named["a"][0] * named["a"][1]

    traced = trace(bar, array(3))
    for found, expected in zip(traced(array(5)), bar(array(5)), strict=True):
        assert_array_equal(found, expected)


def test_compiled_functions_without_traced_arguments():
    @script
    def test(x):
        if x is None:
            return np.zeros(1)
        return x

    assert_array_equal(trace(lambda: test(None), ())(), np.zeros(1))
    traced = trace(lambda x: x * test(np.ones(2)), array(2))
    assert kinds(traced).count("prim::CallFunction") == 1


def test_compiled_functions_that_have_run():
    @script
    def zeros(count):
        return np.zeros(count)

    zeros(3)

    def bar(x):
        out = zeros(3)
        out[0] = x[0]
        return out

    traced = trace(bar, array(3))
    first, second = traced(array(3)), traced(array(3) + 1)
    assert_array_equal(first, bar(array(3)))
    assert_array_equal(second, bar(array(3) + 1))
    assert zeros(2).shape == (2,)


def test_defaults_and_keywords():
    @script
    def scaled(x, by=2.0, *rest, shift=1.0):
        return x * by + shift + len(rest)

    def bar(x):
        return scaled(x), scaled(x, 3.0, shift=x), scaled(x, 1.0, x, x)

    traced = trace(bar, array(3))
    for found, expected in zip(traced(array(4)), bar(array(4)), strict=True):
        assert_array_equal(found, expected)


def test_a_compiled_function_is_traced():
    traced = trace(shifted, array(3))
    assert_array_equal(traced(array(2, 3)), shifted(array(2, 3)))


def test_functions_that_are_compiled_during_a_trace():
    def bar(flag, x):
        @script
        def decide(flag, x):
            if flag:
                return np.zeros(3) + x
            return np.ones_like(x)

        return decide(flag, -x)

    traced = trace(bar, (np.array([True]), array(3)))
    for flag in (True, False):
        given = (np.array([flag]), array(3))
        assert_array_equal(traced(*given), bar(*given))
    assert "np::zeros" in str(traced._graph)


def test_in_place_effects():
    @script
    def written(x):
        for i in range(x.shape[0]):
            x[i] += i

    def bar(x):
        written(x)
        return x * 2

    traced = trace(bar, array(3))
    found, expected = array(5), array(5)
    assert_array_equal(traced(found), bar(expected))
    assert_array_equal(found, expected)


def test_traces_in_traces():
    negated = trace(lambda x: -x, array(3))
    traced = trace(lambda x: negated(x) + 1, array(3))
    assert "prim::CallFunction" in kinds(traced)
    assert_array_equal(traced(array(5)), -array(5) + 1)


def test_compiled_modules_in_traced_ones():
    class Deciding(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(array(3))

        def forward(self, x):
            if x.sum() > 0:
                return x * self.scale
            return x - self.scale

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = script(Deciding())

        def forward(self, x):
            return self.inner(x) + 1

    module = Outer()
    traced = trace(module, array(2, 3))
    assert isinstance(traced.inner, jitcore.ScriptModule)
    module.inner.scale[:] = 2
    for sign in (1, -1):
        x = np.full((4, 3), float(sign))
        assert_array_equal(traced(x), module(x))


# Traces in compiled functions


def affine(x, y):
    return 2 * x + y


TRACED = trace(affine, (array(3), array(3)))


def test_traces_are_called():
    @script
    def bar(x, n):
        for i in range(n):
            x = TRACED(x, y=x) if i % 2 else TRACED(x, x)
        return x

    assert "prim::CallFunction" in kinds(bar)
    assert "prim::mul" in str(bar._graph)
    assert_allclose(bar(array(4), 3), array(4) * 27)
    assert bar.kernels


def test_wrong_arguments():
    @script
    def bar(x):
        return TRACED(x)

    with pytest.raises(TypeError, match="'y'"):
        bar(array(3))


def test_a_trace_that_is_an_argument():
    @script
    def apply(function, x):
        return function(x, x) + 1

    assert_array_equal(apply(TRACED, array(3)), array(3) * 3 + 1)


def test_captured_arrays_of_traces():
    weights = np.ones(3)
    inner = trace(lambda x: x @ weights, array(3))

    @script
    def bar(x):
        return inner(x) * 2 + inner(x[::-1])

    weights[:] = 2
    assert_allclose(bar(array(3)), array(3).sum() * 6)


def test_traced_modules_in_compiled_ones():
    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(array(3))

        def forward(self, x):
            return x * (2.0 if jitcore.is_tracing() else 3.0) * self.scale

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.means = nn.Parameter(array(3))
            self.inner = trace(Inner(), array(2, 3))

        def forward(self, x):
            if x.shape[0] > 2:
                return self.inner(x - self.means)
            return self.inner.forward(x)

    module = script(Outer())
    x = array(4, 3)
    assert_allclose(module(x), (x - module.means) * 2.0 * module.inner.scale)
    module.inner.scale = np.full(3, 2.0)
    assert_allclose(module(x), (x - module.means) * 4.0)
    assert_allclose(module(x[:1]), x[:1] * 4.0)


def test_a_traced_module_in_a_compiled_function():
    inner = trace(nn.Linear(3, 2), array(4, 3).astype("f4"))

    @script
    def bar(x):
        return inner(x) + 1

    x = array(5, 3).astype("f4")
    assert_allclose(bar(x), inner(x) + 1, rtol=1e-6)


# Functions that know


def test_is_tracing():
    def bar(x):
        return x + (1 if jitcore.is_tracing() else 2) + (4 if jitcore.is_scripting() else 8)

    assert not jitcore.is_tracing()
    assert_allclose(trace(bar, array(3))(array(3)), array(3) + 9)
    assert_allclose(script(bar)(array(3)), array(3) + 6)
    assert_allclose(bar(array(3)), array(3) + 10)


@script_if_tracing
def clipped(x, limit=2.0):
    """Of which only a compiled form has both branches."""
    if x.max() > limit:
        x = np.minimum(x, limit)
    return x


def test_script_if_tracing():
    assert str(clipped.__doc__).startswith("Of which")
    assert_array_equal(clipped(np.array([1.0, 5.0])), [1, 2])
    traced = trace(lambda x: clipped(x) + clipped(x, limit=3.0), np.zeros(3))
    assert "prim::If" in str(traced.graph)
    assert_array_equal(traced(np.array([1.0, 5.0])), [2, 5])
    assert_array_equal(script(lambda x: clipped(x) * 2)(np.array([1.0, 5.0])), [2, 4])


def test_script_if_tracing_in_a_class():
    class Clipper:
        limit = 2.0

        @script_if_tracing
        def clip(self, x):
            return np.minimum(x, 2.0) if x.max() > 2.0 else x

    clipper = Clipper()
    assert_array_equal(clipper.clip(np.array([1.0, 5.0])), [1, 2])


@ignore
def histogram(x):
    counts: dict[float, int] = {}
    for one in np.asarray(x).ravel().tolist():
        counts[one] = counts.get(one, 0) + 1
    return np.array(sorted(counts.values()))


def test_ignored_functions_in_compiled_ones():
    @script
    def counted(x):
        return histogram(x) * 2

    traced = trace(lambda x: counted(x) + 1, np.array([1.0, 1.0, 2.0]))
    assert_array_equal(traced(np.array([3.0, 3.0, 3.0])), [7])


def test_ignored_functions_in_traces():
    with pytest.warns(TracerWarning, match="a Python list"):
        trace(lambda x: x + histogram(x).sum(), np.array([1.0, 1.0]))


def test_unused_functions():
    @jitcore.unused
    def debugging(x):
        raise AssertionError

    @script
    def bar(x, debug=False):
        if debug:
            debugging(x)
        return x + 1

    assert_array_equal(trace(lambda x: bar(x), array(3))(array(4)), array(4) + 1)


# Threads


@script
def norm(x):
    return np.sqrt((x * x).sum())


def test_forks_of_compiled_functions():
    def bar(x):
        futures = [jitcore.fork(norm, x + i) for i in range(3)]
        return sum(jitcore.wait(one) for one in futures) + futures[0].wait()

    traced = trace(bar, array(3))
    assert "_fork_compiled" in str(traced._graph)
    assert_allclose(traced(array(5)), bar(array(5)))


def test_forks_of_plain_functions():
    def bar(x):
        def inner(y):
            return x * y + WEIGHT

        future = jitcore.fork(inner, x + 1)
        return jitcore.wait(future) + future.then(lambda one: one.value() * 2).wait()

    traced = trace(bar, array(3))
    assert_allclose(traced(array(5)), bar(array(5)))


WEIGHT = np.float64(3)


def test_other_threads():
    def bar(x):
        with ThreadPoolExecutor(1) as pool:
            return x + pool.submit(lambda: x * 2).result()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trace(bar, array(3))
    assert any("another thread" in str(one.message) for one in caught)


def test_traces_in_several_threads():
    def bar(x):
        out = np.zeros(x.shape)
        out[:] = norm(x)
        return out

    with ThreadPoolExecutor(4) as pool:
        traces = list(pool.map(lambda n: trace(bar, array(n)), range(1, 9)))
    for one in traces:
        assert_allclose(one(array(5)), bar(array(5)))


class Stacking(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, maps):
        rows = []
        for _, arrays in maps.items():
            rows.append(self.linear(arrays[0]))
        return np.stack(rows)


class GivingMaps(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = script(Stacking())

    def forward(self, maps):
        return self.inner({name: [arrays[0]] for name, arrays in maps.items()})


def test_a_trace_reads_what_a_scripted_part_captures_once():
    def maps():
        return {name: [np.float32(array(2, 2)), np.float32(array(3, 2))] for name in "ab"}

    model = GivingMaps()
    traced = trace(model, maps())
    assert [value.name for value in traced.graph.inputs] == ["maps", "weight", "bias"]
    given = {name: [one + 1 for one in arrays] for name, arrays in maps().items()}
    assert_allclose(traced(given), model(given), rtol=1e-6)


class Doubling(nn.Module):
    def forward(self, x):
        return x * 2


class AroundTrace(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x) + 1


def test_hooks_of_traces_in_compiled_functions():
    outer = AroundTrace(trace(Doubling(), array(3)))
    scripted, x = script(outer), array(3)
    assert_allclose(scripted(x), x * 2 + 1)
    handle = outer.inner.register_forward_hook(lambda module, args, result: result * 100)
    assert_allclose(scripted(x), outer(x))
    assert_allclose(outer(x), x * 200 + 1)
    handle.remove()
    assert_allclose(scripted(x), x * 2 + 1)


class Remembering(nn.Module):
    def __init__(self):
        super().__init__()
        self.total = np.zeros(3)

    def forward(self, x):
        self.total = self.total + x
        return x * 2


class ReadingTotals(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        before = self.inner.total
        y = self.inner(x)
        return before * 1, y + self.inner.total


@pytest.mark.parametrize(
    "made", [lambda one: trace(one, np.ones(3)), lambda one: reloaded(script(one))]
)
def test_what_graphs_assign_is_read_after_their_calls(made):
    scripted = script(ReadingTotals(made(Remembering())))
    eager, x = ReadingTotals(Remembering()), array(3)
    for _ in range(3):
        for actual, expected in zip(scripted(x), eager(x), strict=True):
            assert_allclose(actual, expected)


class Weighted(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(np.full(3, weight))

    def forward(self, x):
        return x * self.weight


class OfTwo(nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.first = first
        self.second = second

    def forward(self, x):
        return self.first(x) + 10 * self.second(x)


@pytest.mark.parametrize(
    "made", [lambda one: trace(one, np.ones(3)), lambda one: reloaded(script(one))]
)
def test_two_graphs_in_a_frozen_module_keep_their_own_weights(made):
    x, expected = array(3), array(3) * (2.0 + 10 * 5.0)
    scripted = script(OfTwo(made(Weighted(2.0)), made(Weighted(5.0))).eval())
    frozen = freeze(scripted)
    for one in (scripted, frozen, reloaded(frozen), freeze(reloaded(scripted))):
        assert_allclose(one(x), expected)
