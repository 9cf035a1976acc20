"""Draws of random generators in compiled code: NumPy's numbers, and what it leaves behind."""

# The functions under test are plain NumPy, as users write them.
# mypy: allow-untyped-defs, allow-untyped-calls

import numpy as np
import pytest
from draw_checking import is_native, outcome, state_of
from frontend_checking import define

from jitcore import script
from jitcore.ir.draws import GLOBAL

BIT_GENERATORS = ["PCG64", "MT19937", "PCG64DXSM", "Philox", "SFC64"]

# Of an int n, a float s and a vector x.
SHARED = [
    *("rng.uniform()", "rng.uniform(s)", "rng.uniform(n, 40)", "rng.uniform(high=s, low=-1)"),
    *("rng.uniform(s, s)", "rng.uniform(0.0, s, n)", "rng.uniform(size=(2, n))"),
    *("rng.standard_normal()", "rng.standard_normal(n)", "rng.standard_normal(size=(n, 2))"),
    *("rng.normal()", "rng.normal(s)", "rng.normal(s, n)", "rng.normal(scale=s, size=(n,))"),
    *("rng.normal(np.float32(0.1), np.int8(3))", "rng.normal(s, 0.0)", "rng.normal(np.nan, s)"),
    *("rng.standard_exponential()", "rng.standard_exponential(n)", "rng.exponential()"),
    *("rng.exponential(s)", "rng.exponential(scale=n)", "rng.exponential(s, (n, 3))"),
    *("rng.exponential(np.inf)", "rng.uniform(0, s, size=n)", "rng.normal(1, 2, (n, 2, 2))"),
    *("rng.choice(n)", "rng.choice(x)", "rng.choice(x, n)", "rng.choice(n, size=(2, n))"),
    *("rng.choice([-1, 1])", "rng.choice([0.5, s], 3)", "rng.choice(a=n)", "rng.choice(1)"),
    *("rng.permutation(n)", "rng.permutation(x)", "rng.permutation(1)", "rng.permutation(0)"),
    *("rng.permutation(-n)", "rng.permutation(np.int8(4))", "rng.permutation(max(n, -3))"),
    *("rng.permutation(x[:0])", "rng.permutation(x[::-1])", "rng.shuffle(x)"),
    *("rng.shuffle(x[1:-1])", "rng.shuffle(x[::2])", "rng.normal(size=None)"),
]
LATER = [
    *("rng.laplace()", "rng.laplace(s, n)", "rng.gumbel(scale=s)", "rng.logistic(n, s, (2, n))"),
    *("rng.poisson()", "rng.poisson(s)", "rng.poisson(lam=n * 7.5)", "rng.poisson(0)"),
    *("rng.poisson(s, n)", "rng.laplace(size=n)"),
]
NEW = [
    *("rng.standard_gamma(s)", "rng.standard_gamma(n, 3)", "rng.gamma(n, s)", "rng.gamma(0.0)"),
    *("rng.gamma(s, size=(n, 2))", "rng.beta(s, n)", "rng.beta(n, s, n)", "rng.rayleigh()"),
    *("rng.rayleigh(s, n)", "rng.lognormal()", "rng.lognormal(s, n)", "rng.wald(s, n)"),
    *("rng.lognormal(sigma=s, size=n)", "rng.wald(n, s, 4)", "rng.geometric(s)", "rng.pareto(n)"),
    *("rng.geometric(1.0)", "rng.geometric(p=0.01, size=n)", "rng.power(n)", "rng.weibull(s, n)"),
    *("rng.weibull(0.0)", "rng.chisquare(n)", "rng.standard_t(s)", "rng.standard_t(n, size=n)"),
    *("rng.standard_cauchy()", "rng.standard_cauchy((n, 1))", "rng.chisquare(s, n)"),
    *("rng.random()", "rng.random(n)", "rng.random((n, 2, 2))", "rng.random(None)"),
    *(
        "rng.integers(n)",
        "rng.integers(1)",
        "rng.integers(-n, n)",
        "rng.integers(n, endpoint=True)",
    ),
    *("rng.integers(0, endpoint=True)", "rng.integers(2**32)", "rng.integers(2**32 - 1)"),
    *("rng.integers(2**32 + 1)", "rng.integers(2**40)", "rng.integers(high=n, low=-2)"),
    *("rng.integers(-(2**63), 2**63 - 1, endpoint=True)", "rng.integers(-(2**63), 2**63 - 1)"),
    *("rng.integers(np.int8(7))", "rng.integers(np.uint32(2**32 - 1))", "rng.integers(5, None)"),
    *("rng.integers(n, size=n)", "rng.integers(3, 3 + n, (2, n))", "rng.integers(2**50, size=4)"),
]
OLD = [
    *("rng.randint(n)", "rng.randint(1)", "rng.randint(-n, n)", "rng.randint(2**32)"),
    *("rng.randint(2**32 - 1)", "rng.randint(2**32 + 1)", "rng.randint(2**40)"),
    *("rng.randint(-(2**63), 2**63 - 1)", "rng.randint(low=-2, high=n)", "rng.randint(5, None)"),
    *("rng.randint(n, size=n)", "rng.randint(3, 3 + n, (2, n))", "rng.random_sample()"),
    *("rng.random_sample((2, n))", "rng.rand()", "rng.rand(n)", "rng.rand(2, n, 1)"),
    *("rng.randn()", "rng.randn(n, 2)", "rng.uniform(s, -3)", "rng.random_sample(size=n)"),
]


def program(text, others="rng"):
    """A function that draws by ``text`` in a loop, between other draws."""
    return define(
        "import numpy as np\n"
        "def f(rng, n, s, x):\n"
        f"    first = {others}.standard_normal()\n"
        "    for _ in range(3):\n"
        f"        found = {text}\n"
        f"    return found, first, {others}.uniform()\n"
    )


def check(plain, make):
    """Compare results, arrays that are written, and generators; gives the compiled function."""
    scripted = script(plain)
    for n, s in ((5, 0.75), (1, 0.25), (40, 1e-3)):
        ours, theirs = make(), make()
        x, y = np.arange(8.0), np.arange(8.0)
        found, expected = scripted(ours, n, s, x), plain(theirs, n, s, y)
        np.testing.assert_equal(found, expected)
        assert type(found[0]) is type(expected[0])
        assert getattr(found[0], "dtype", None) == getattr(expected[0], "dtype", None)
        np.testing.assert_array_equal(x, y)
        assert state_of(ours) == state_of(theirs)
    return scripted


@pytest.mark.parametrize("text", [*SHARED, *LATER, *NEW])
def test_a_generator_draws_what_numpy_draws(text):
    scripted = check(program(text), lambda: np.random.default_rng(7))
    assert is_native(scripted)


@pytest.mark.parametrize("text", [*SHARED, *LATER, *OLD])
def test_an_old_generator_draws_what_numpy_draws(text):
    scripted = check(program(text), lambda: np.random.RandomState(7))
    assert is_native(scripted)


@pytest.mark.parametrize("name", BIT_GENERATORS)
@pytest.mark.parametrize("class_", ["Generator", "RandomState"])
def test_numbers_come_from_all_bit_generators(class_, name):
    below = "integers" if class_ == "Generator" else "randint"
    text = f"(rng.random(), rng.{below}(n), rng.normal(), rng.exponential(), rng.permutation(n))"
    make = getattr(np.random, class_)
    scripted = check(program(text), lambda: make(getattr(np.random, name)(3)))
    assert is_native(scripted)


FUNCTIONS = [
    *(one.replace("rng.", "np.random.") for one in OLD),
    *("np.random.random()", "np.random.random(n)", "np.random.ranf()", "np.random.sample((n, 2))"),
    *("np.random.normal(s, n)", "np.random.standard_normal(n)", "np.random.exponential(s)"),
    *("np.random.choice([-1, 1])", "np.random.permutation(n)", "np.random.shuffle(x)"),
    *("np.random.uniform(-1, 1)", "np.random.uniform(size=n)", "np.random.standard_exponential()"),
]


@pytest.mark.parametrize("text", FUNCTIONS)
def test_functions_draw_from_numpys_own_generator(text):
    plain = program(text, "np.random")
    scripted = script(plain)
    for n, s in ((5, 0.75), (1, 0.25), (40, 1e-3)):
        x, y = np.arange(8.0), np.arange(8.0)
        np.random.seed(n)
        found, ours = scripted(None, n, s, x), state_of(GLOBAL)
        np.random.seed(n)
        expected = plain(None, n, s, y)
        np.testing.assert_equal(found, expected)
        assert type(found[0]) is type(expected[0])
        np.testing.assert_array_equal(x, y)
        assert ours == state_of(GLOBAL)
    assert is_native(scripted)


@pytest.mark.parametrize("seed", range(3))
def test_long_streams_are_numpys(seed):
    def draw(new, old, n):
        total = 0.0
        for step in range(n):
            total = total * 0.5 + new.standard_normal() + new.standard_exponential()
            total += old.standard_normal() + old.standard_exponential()
            total += new.integers(step + 1) + new.integers(2**33 + step) + new.random()
            total += old.randint(step + 1) + old.randint(2**33 + step) + old.random_sample()
        return total

    scripted = script(draw)
    ours, theirs = ((np.random.default_rng(seed), np.random.RandomState(seed)) for _ in range(2))
    assert scripted(*ours, 20000) == draw(*theirs, 20000)
    assert list(map(state_of, ours)) == list(map(state_of, theirs))


REFUSED = [
    *("rng.normal(0.0, -s)", "rng.exponential(-s)", "rng.laplace(s, -s)", "rng.poisson(-s)"),
    *("rng.poisson(np.nan * s)", "rng.poisson(1e20 * s)", "rng.permutation(-n)[3]"),
    *("rng.exponential(-0.0 * s)", "rng.gumbel(n, -s, 3)", "rng.choice(n - n)"),
    *("rng.choice(x[n:])", "rng.uniform(-1e308, 1e308 * n)", "rng.normal(size=-n)"),
]
REFUSED_NEW = [
    *("rng.integers(n - n)", "rng.integers(-n)", "rng.integers(n, n)", "rng.integers(n, 2)"),
    *("rng.integers(-n, endpoint=True)", "rng.integers(n, 2, endpoint=True)", "rng.rayleigh(-s)"),
    *("rng.uniform(n, s)", "rng.gamma(-s)", "rng.gamma(s, -s)", "rng.beta(s - s, 1)"),
    *("rng.beta(1, -s)", "rng.lognormal(0, -s)", "rng.wald(-s, 1)", "rng.wald(1, s - s)"),
    *("rng.geometric(n)", "rng.geometric(s - s)", "rng.geometric(np.nan * s)", "rng.pareto(-s)"),
    *("rng.weibull(-s)", "rng.power(s - s)", "rng.chisquare(-n)", "rng.standard_t(s - s)"),
    *("rng.standard_gamma(-s)", "rng.integers(n, 2, n)"),
]
REFUSED_OLD = ["rng.randint(n - n)", "rng.randint(-n)", "rng.randint(n, n)", "rng.randint(n, 2)"]


@pytest.mark.parametrize(
    ("text", "make"),
    [
        *((text, np.random.default_rng) for text in [*REFUSED, *REFUSED_NEW]),
        *((text, np.random.RandomState) for text in [*REFUSED, *REFUSED_OLD]),
    ],
)
@pytest.mark.parametrize("before", ["x.copy()", "x"])
def test_exceptions_are_numpys(text, make, before):
    scripted, found = check_after_writing(text, make, before)
    assert found[0] != "value"
    assert is_native(scripted)


def check_after_writing(text, make, written):
    """Compare outcomes after a number was stored: in an argument, or in another array."""
    plain = define(
        "import numpy as np\n"
        "def f(rng, n, s, x):\n"
        f"    y = {written}\n"
        "    y[0] = rng.uniform()\n"
        f"    found = {text}\n"
        "    return found, y\n"
    )
    scripted = script(plain)
    for _ in range(2):
        ours, theirs, x, y = make(7), make(7), np.arange(8.0), np.arange(8.0)
        np.random.seed(1)
        found, drawn = outcome(scripted, (ours, 8, 0.75, x)), state_of(GLOBAL)
        np.random.seed(1)
        expected = outcome(plain, (theirs, 8, 0.75, y))
        np.testing.assert_equal(found, expected)
        if found[0] == "value":
            assert type(found[1][0]) is type(expected[1][0])
            assert getattr(found[1][0], "dtype", None) == getattr(expected[1][0], "dtype", None)
        np.testing.assert_array_equal(x, y)
        assert (state_of(ours), drawn) == (state_of(theirs), state_of(GLOBAL))
    return scripted, found


EMPTY = [
    *("rng.choice(x[:0], size=0)", "rng.choice(x[n:], (2, n - n))", "rng.choice(0, 0)"),
    *("rng.choice(n - n, [n, 0])", "rng.choice([], 0)", "rng.choice(-n, size=n - n)"),
    *("rng.choice(n, 0)", "rng.choice(x, (0, 3))", "np.random.choice(x[:0], 0)"),
]
EMPTY_NEW = [
    *("rng.integers(0, size=0)", "rng.integers(n, 2, (n, 0))", "rng.integers(n - n, size=n - n)"),
    *("rng.integers(n, 2, (n, n - n))", "rng.integers(-1, size=0, endpoint=True)"),
]
EMPTY_OLD = [
    *("rng.randint(0, size=0)", "rng.randint(n, 2, (n, 0))", "rng.randint(n - n, size=n - n)"),
    "np.random.randint(n, 2, n - n)",
]


@pytest.mark.parametrize(
    ("text", "make"),
    [
        *((text, np.random.default_rng) for text in [*EMPTY, *EMPTY_NEW]),
        *((text, np.random.RandomState) for text in [*EMPTY, *EMPTY_OLD]),
    ],
)
def test_bounds_matter_only_where_numbers_are_drawn(text, make):
    scripted, found = check_after_writing(text, make, "x")
    assert found[0] == "value"
    assert is_native(scripted)


OF_ROWS = [
    *("rng.choice([(1, 2), (3, 4)])", "rng.choice([[1, 2], [3, n]], 2)", "rng.choice([x, x + 1])"),
    *("rng.choice(size=3, a=x.reshape(2, 4))", "rng.choice(x.reshape(4, 2))"),
    *("rng.choice([(1, 2), (3, 4.5)])", "rng.permutation(x=x.reshape(2, 4))"),
]


@pytest.mark.parametrize("text", OF_ROWS)
@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_what_has_several_axes_is_pythons(text, make):
    check_after_writing(text, make, "x")


OF_NUMBERS = [
    *("rng.choice(size=1, a=x)", "rng.choice(size=n, a=n)", "rng.choice([x[0], x[1]], 1)"),
    *("rng.choice([1, 2.5])", "rng.choice([n, s, x[0], True], 3)", "rng.permutation(x=x)"),
    *("rng.choice([True, False])", "rng.choice(a=[s, n], size=(2, n))"),
]


@pytest.mark.parametrize("text", OF_NUMBERS)
@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_what_is_chosen_from_may_be_named(text, make):
    assert is_native(check_after_writing(text, make, "x")[0])


NO_CALLS_NEW = ["rng.integers(5, dtype=None)", "rng.integers(1, 6, 2, None)", "rng.ranf()"]
NO_CALLS_OLD = [
    *("rng.rand(size=3)", "rng.randn(d0=n)", "np.random.rand(size=3)", "np.random.randn(d=2)"),
    *("rng.ranf()", "rng.sample(3)", "rng.shuffle(x, axis=0)", "rng.shuffle(x, 0)"),
    *("rng.permutation(x, axis=0)", "np.random.permutation(x, axis=0)"),
    *("np.random.shuffle(x, axis=0)", "rng.randint(5, dtype=None)", "rng.choice([1, 2], axis=0)"),
]


@pytest.mark.parametrize(
    ("text", "make"),
    [
        *((text, np.random.default_rng) for text in NO_CALLS_NEW),
        *((text, np.random.RandomState) for text in NO_CALLS_OLD),
    ],
)
def test_calls_that_numpy_has_not_are_refused(text, make):
    _, found = check_after_writing(text, make, "x")
    assert found[0] in (TypeError, AttributeError)
