"""Functions of NumPy without a row, and random generators: what follows them is compiled."""

# The functions under test are plain NumPy, as users write them.
# mypy: allow-untyped-defs, allow-untyped-calls

import copy
import random
import time
import tracemalloc

import numpy as np
import pytest
from frontend_checking import define

from jitcore import fusion_strategy, script
from jitcore.execution.plans import HostPlan, NativePlan
from jitcore.ir.types import ANY, NONE, TensorType, TupleType, is_number

# Of a matrix x, a symmetric one s, two vectors v and w, and places k.
CALLS = [
    *("np.fft.fft(x)", "np.fft.ifft(x, axis=0)", "np.fft.fft(x, 7)", "np.fft.fft2(x)"),
    *("np.fft.rfft(x)", "np.fft.rfft(x, axis=0)", "np.fft.irfft(x)", "np.fft.fftshift(x)"),
    *("np.fft.fftfreq(x.shape[1], d=0.5)", "np.fft.rfftfreq(5)", "np.fft.rfftn(x)"),
    *("np.linalg.svd(x)", "np.linalg.svd(x, full_matrices=False)", "np.linalg.svdvals(x)"),
    *("np.linalg.svd(x, compute_uv=False)", "np.linalg.qr(x)", "np.linalg.qr(x, mode='r')"),
    *("np.linalg.qr(x, 'complete')", "np.linalg.pinv(x)", "np.linalg.eigh(s)"),
    *("np.linalg.eigvalsh(s)", "np.linalg.slogdet(s)", "np.linalg.cond(x)"),
    *("np.linalg.cholesky(s)", "np.partition(x, 1)"),
    *("np.argpartition(x, 1, axis=0)", "np.lexsort((x[0], x[-1]))", "np.polyfit(v, w, 2)"),
    *("np.correlate(x[0], x[-1])", "np.correlate(x[:, 0], x[0], 'full')", "np.bartlett(5)"),
    *("np.kaiser(5, 2.5)", "np.unravel_index(3, (4, 5))", "np.unravel_index(k, (4, 5))"),
    *("np.ix_(k, k)", "np.hanning(9)", "np.vander(w)", "np.vander(w, 3)", "np.i0(x)"),
    *("np.add.reduceat(w, k)", "np.packbits(k)", "np.ravel_multi_index((k, k), (9, 9))"),
    *("np.sort_complex(w)", "np.isin(k, [0, 5])", "np.choose(k % 2, [k, k * 2])"),
    *("np.diag_indices(4)", "np.tril_indices(4)", "np.triu_indices_from(s, 1)", "np.tri(3, 5)"),
    *("np.ascontiguousarray(x.T)", "np.asfortranarray(x)", "np.resize(w, (3, 5))"),
    *("np.linalg.outer(v, k)", "np.frexp(x)"),
    *("np.modf(w)", "np.fix(x)", "np.sinc(x)", "np.unwrap(w)", "np.cumulative_sum(w)"),
    *("np.nanmedian(x, axis=0)", "np.nanpercentile(x, 30)", "np.nanquantile(x, [0.1, 0.5], 1)"),
    *("np.histogram2d(v, w, 4)", "np.logspace(0, 2, 7)", "np.polyadd(v, k)", "np.polyder(v)"),
    *("np.polyint(w, 2)", "np.vecdot(x, x)", "np.matvec(s, s[0])", "np.linalg.matrix_rank(x)"),
    *("np.linalg.matrix_power(s, 3)", "np.linalg.multi_dot([x.T, s, x])", "np.linalg.trace(s)"),
    *("np.linalg.vector_norm(x, axis=1)", "np.linalg.matrix_norm(x)"),
    *("np.random.default_rng(3).normal(size=x.shape)", "np.random.default_rng(3).random()"),
    *("np.random.default_rng(3).integers(5, size=(2, 3), dtype=np.int8)",),
    *("np.random.default_rng(3).integers(9)", "np.random.default_rng(3).permutation(x)"),
    *("np.random.default_rng(3).choice(k, 4)", "np.random.default_rng(3).choice(x, axis=1)"),
    *("np.random.default_rng(3).choice(9, 3, replace=False)",),
    *("np.random.default_rng(3).multivariate_normal(np.zeros(2), np.eye(2), 5)",),
    *("np.random.default_rng(3).standard_normal(4, np.float32)",),
    *("np.random.randint(5)", "np.random.rand(2, x.shape[0])", "np.random.seed(5)"),
    *("np.random.RandomState(3).randint(5)", "np.random.RandomState(3).rand(3, x.shape[1])"),
    *("np.random.RandomState(3).choice(k, 4)", "np.random.RandomState(3).normal(size=x.shape)"),
    *("np.random.Generator(np.random.MT19937(3)).random(4)",),
    *("np.random.uniform(0, 1, (2, 70))", "np.random.choice(k)", "np.random.permutation(6)"),
]
SHAPES = [(4, 4), (3, 7), (7, 3), (2, 5), (5, 2), (13, 4), (4, 13), (9, 6), (70, 3)]


def arguments(rows, columns):
    numbers = np.random.default_rng(rows * 100 + columns)
    x = numbers.normal(size=(rows, columns))
    return (
        x,
        x @ x.T + np.eye(rows) * 9,
        np.arange(8.0),
        numbers.normal(size=8),
        np.array([0, 2, 5]),
    )


def check_type(type_, value, extents):
    """Whether a value is what a type says; ``extents`` gets those of the symbols."""
    if isinstance(type_, TupleType):
        assert type(value) is (type_.named or tuple)
        for one, part in zip(type_.elements, value, strict=True):
            check_type(one, part, extents)
    elif isinstance(type_, TensorType):
        assert type_.scalar == isinstance(value, np.generic)
        assert type_.scalar or type(value) is np.ndarray
        assert value.dtype == type_.dtype
        for dim, extent in zip(type_.dims or (), value.shape, strict=True):
            known = extents.setdefault(dim, extent) if isinstance(dim, str) else dim
            assert known == extent
    else:
        assert (is_number(type_) and type(value).__name__ == str(type_)) or (
            type_ == NONE and value is None
        )


@pytest.mark.parametrize("text", CALLS)
@pytest.mark.parametrize("kind", ["STATIC", "DYNAMIC"])
def test_results_are_what_their_types_say(text, kind):
    plain = define(f"import numpy as np\ndef f(x, s, v, w, k):\n    return {text}\n")
    scripted = script(plain)
    with fusion_strategy([(kind, len(SHAPES))]):
        for shape in SHAPES:
            args = arguments(*shape)
            np.random.seed(7)
            result = scripted(*args)
            np.random.seed(7)
            np.testing.assert_equal(result, plain(*args))
            graph = scripted.graph_for(*args)
            extents: dict[str, int] = {}
            for value, arg in zip(graph.inputs, args, strict=True):
                check_type(value.type, arg, extents)
            (type_,) = (value.type for value in graph.outputs)
            # Symbols do not say that a matrix is square, or that two vectors are equally long.
            assert type_ != ANY or kind == "DYNAMIC"
            if type_ != ANY:
                check_type(type_, result, extents)


def spectrum(signal, rate):
    found = np.fft.rfft(signal * 2 - 1)
    return np.abs(found) ** 2 / rate, np.fft.irfft(found, n=signal.size) + 1


def principal(x):
    values, vectors = np.linalg.eigh(x.T @ x / len(x))
    return np.sqrt(values) * 2 + 1, (x @ vectors - 1) * 2


def walk(rng, steps):
    moves = rng.dirichlet((1.0, 2.0), steps) * 0.5 + 1
    return np.sqrt((moves**2).sum(axis=1)) + rng.random(), moves


@pytest.mark.parametrize(
    ("plain", "make"),
    [
        (spectrum, lambda: (np.sin(np.arange(50.0)), 2.0)),
        (principal, lambda: (np.arange(24.0).reshape(8, 3) % 5,)),
        (walk, lambda: (np.random.default_rng(1), 9)),
    ],
)
def test_what_follows_is_native_at_once(plain, make):
    scripted = script(plain)
    for result, expected in zip(scripted(*make()), plain(*make()), strict=True):
        np.testing.assert_allclose(result, expected)
    (made,) = scripted.specializations
    assert isinstance(made.plan, HostPlan)
    plans = [one.plan for region in made.plan.regions.values() for one in region.specializations]
    assert plans and all(isinstance(plan, NativePlan) for plan in plans)


def drawn(rng, count):
    rng.shuffle(order := np.arange(count))
    first = rng.integers(count)
    rows = rng.normal(size=(count, 2))
    rng.random(out=rows[:, 0].copy())
    return order[first] * 2, rows * rng.uniform(1, 2) + rng.exponential(), rng.integers(0, 9, 3)


def filled(rng, count):
    rows = np.ones((count, 3))
    before = rows[0] * 2
    same = rng.random((count, 3), np.float64, rows)
    rows += 1
    rng.shuffle(rows)
    rows *= before
    also = rng.standard_normal(out=rows[0])
    rows += 1
    return same * 2, also + 0.5, rows


@pytest.mark.parametrize("drawn", [drawn, filled])
def test_numbers_are_drawn_in_their_order(drawn):
    scripted = script(drawn)
    mine, theirs = np.random.default_rng(5), np.random.default_rng(5)
    for _ in range(3):
        for result, expected in zip(scripted(mine, 6), drawn(theirs, 6), strict=True):
            assert type(result) is type(expected)
            np.testing.assert_array_equal(result, expected)
    assert mine.bit_generator.state == theirs.bit_generator.state


def drawn_of_old(state, count):
    first = state.randint(count, size=2)
    return state.randn(count, 2) * state.rand() + first, state.random_sample(3)


def test_so_are_those_of_a_random_state():
    scripted = script(drawn_of_old)
    mine, theirs = np.random.RandomState(5), np.random.RandomState(5)
    for _ in range(3):
        for result, expected in zip(scripted(mine, 6), drawn_of_old(theirs, 6), strict=True):
            np.testing.assert_array_equal(result, expected)
    generators = np.random.default_rng(5), np.random.default_rng(5)
    with pytest.raises(AttributeError, match="randint"):
        scripted(generators[0], 6)
    assert generators[0].random() == generators[1].random()


def noisy(x):
    return x * 2 + np.random.rand(len(x)) * np.random.normal()


def test_nothing_is_drawn_to_learn_types():
    np.random.seed(11)
    random.seed(11)
    state = copy.deepcopy(np.random.get_state())
    expected = noisy(np.ones(5))
    np.random.set_state(state)
    np.testing.assert_array_equal(script(noisy)(np.ones(5)), expected)


def test_a_function_takes_another_generator_than_before():
    scripted = script(walk)
    for kind in (np.random.PCG64, np.random.MT19937, np.random.PCG64):
        made = [np.random.Generator(kind(3)) for _ in range(2)]
        for one, two in zip(scripted(made[0], 4), walk(made[1], 4), strict=True):
            np.testing.assert_allclose(one, two)
    state = np.random.RandomState(3)
    with pytest.raises(TypeError) as mine:
        scripted(state, "4")
    with pytest.raises(TypeError) as theirs:
        walk(np.random.RandomState(3), "4")
    assert str(mine.value) == str(theirs.value)


def refused(rng, scale):
    return rng.normal(scale=scale) + 1, np.linalg.cholesky(np.array([[scale]]))


@pytest.mark.parametrize("scale", [1.0, -1.0])
def test_errors_are_numpy_s(scale):
    scripted = script(refused)
    if scale > 0:
        assert scripted(np.random.default_rng(0), scale) == refused(np.random.default_rng(0), scale)
        return
    with pytest.raises(ValueError, match="scale < 0"):
        scripted(np.random.default_rng(0), scale)


ODD_CALLS = [
    ("np.ix_(a)", np.array([True, False, True]), 0),
    ("np.ix_(a, a)", np.array([True, False, False]), 0),
    ("np.triu_indices(n, 62)", np.arange(3), 70),
    ("np.linalg.matrix_power(a, n)", np.eye(3, dtype=int) * 2, -1),
    ("np.linalg.matrix_power(a, n)", np.eye(3, dtype=int) * 2, 2),
    ("np.polyint(a, n)", np.arange(4), 0),
    ("np.polyint(a, n)", np.arange(4), 1),
    ("np.fft.fftshift(a)", np.arange(96.0).reshape(2, 3, 2, 2, 2, 2), 0),
]


@pytest.mark.parametrize(("text", "argument", "number"), ODD_CALLS)
@pytest.mark.parametrize("kind", ["STATIC", "DYNAMIC"])
def test_what_small_samples_do_not_show(text, argument, number, kind):
    """Samples of a call are small: what it gives may be of another dtype, or of other extents."""
    plain = define(
        f"import numpy as np\ndef f(a, n):\n    found = {text}\n    return found, a + 1\n"
    )
    scripted = script(plain)
    with fusion_strategy([(kind, 2)]):
        for _ in range(2):
            result, expected = scripted(argument, number), plain(argument, number)
            np.testing.assert_equal(result, expected)
            assert form_of(result) == form_of(expected)
            extents: dict[str, int] = {}
            graph = scripted.graph_for(argument, number)
            calls = [node for node in graph.nodes() if node.kind == "np::call"]
            if calls and calls[0].output.type != ANY:
                check_type(calls[0].output.type, expected[0], extents)


def form_of(value):
    if isinstance(value, tuple):
        return tuple(map(form_of, value))
    return type(value), getattr(value, "dtype", None), np.shape(value)


def test_samples_of_many_axes_are_small():
    def noise(rng, a, b, c, d, e):
        return rng.normal(size=(a, b, c, d, e)) + 1

    scripted = script(noise)
    tracemalloc.start()
    before = time.process_time()
    result = scripted(np.random.default_rng(0), 1, 2, 3, 4, 5)
    assert time.process_time() - before < 1
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 50_000_000
    np.testing.assert_array_equal(result, noise(np.random.default_rng(0), 1, 2, 3, 4, 5))
