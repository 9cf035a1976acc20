"""Programs that draw random numbers: exceptions, locks, threads, what runs in Python between."""

# The functions under test are plain NumPy, as users write them.
# mypy: allow-untyped-defs, allow-untyped-calls

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from draw_checking import is_native, outcome, state_of
from saving import reloaded, run_in

from jitcore import script
from jitcore.codegen.lowering import draws, results
from jitcore.codegen.runtime import generators
from jitcore.execution.plans import HostPlan, NativePlan

RNG = np.random.default_rng(1)


def copied(arguments):
    return [one.copy() if isinstance(one, np.ndarray) else one for one in arguments]


def check(plain, make, *arguments):
    """Compare outcomes, arrays and generators; ``make`` gives new ones."""
    scripted = script(plain)
    for _ in range(2):
        ours, theirs = make(), make()
        given, expected = copied(arguments), copied(arguments)
        np.testing.assert_equal(
            outcome(scripted, [*ours, *given]), outcome(plain, [*theirs, *expected])
        )
        np.testing.assert_equal(given, expected)
        assert list(map(state_of, ours)) == list(map(state_of, theirs))
    return scripted


def one():
    return [np.random.default_rng(5)]


# Exceptions


def draws_then_raises(rng, n):
    return rng.random() + rng.normal(0.0, -n)


def draws_from_nothing(rng, n):
    return rng.random(), rng.integers(n, 3)


def draws_below_nothing(rng, n):
    return rng.random(), rng.integers(n - 10)


def draws_past_nothing(rng, n):
    return rng.random(), rng.integers(3, n - 10, endpoint=True)


def draws_backwards(rng, n):
    return rng.random(), rng.uniform(n, 1.0)


def draws_too_far(rng, n):
    return rng.random(), rng.uniform(-1e308, 1e307 * n)


def draws_few(rng, n):
    return rng.random(), rng.normal(size=3 - n)


def draws_a_negative_zero(rng, n):
    return rng.random(), rng.exponential(-0.0 * n)


def chooses_from_nothing(rng, n):
    return rng.random(), rng.choice(n - 10)


@pytest.mark.parametrize(
    "plain",
    [
        *(draws_then_raises, draws_from_nothing, draws_below_nothing, draws_past_nothing),
        *(draws_backwards, draws_too_far, draws_few, draws_a_negative_zero, chooses_from_nothing),
    ],
)
def test_exceptions_are_numpys_and_find_the_generator_as_there(plain):
    scripted = check(plain, one, 10)
    assert is_native(scripted)


def grows(rng, n):
    total = 1
    for _ in range(n):
        total = total * 10 + int(rng.integers(10))
    return total


def grows_old(rng, n):
    total = 1
    rng.standard_normal()
    for _ in range(n):
        total = total * 10 + rng.randint(10) + int(rng.standard_normal())
    return total


@pytest.mark.parametrize(
    ("plain", "make"), [(grows, np.random.default_rng), (grows_old, np.random.RandomState)]
)
def test_what_begins_anew_in_python_draws_the_same_again(plain, make):
    """The ints have more than 64 bits, which only Python has."""
    assert is_native(check(plain, lambda: [make(3)], 40))


def writes_too_far(rng, n, x):
    for place in range(n):
        x[place] = rng.random()


def writes_then_raises(rng, n, x):
    for place in range(n):
        x[place % 3] = rng.random()
        if place == 5:
            x[0] = rng.normal(0.0, -1.0)


@pytest.mark.parametrize("plain", [writes_too_far, writes_then_raises])
def test_exceptions_after_arrays_were_written_leave_what_was_drawn(plain):
    scripted = check(plain, one, 9, np.zeros(4))
    assert is_native(scripted)


# Order


def unrolled(rng, n):
    x = np.zeros(4)
    for _ in range(3):
        x = x + rng.normal(size=4)
    return x


def paths(rng, n):
    x = np.zeros(n)
    for _ in range(6):
        x += rng.standard_normal(n) * 0.1 - 0.05 * x
    return x.copy()


def rows_of_paths(rng, n):
    w = np.zeros((5, n))
    for t in range(1, 5):
        w[t] = w[t - 1] + rng.standard_normal(n) * 0.1
    return w


def sums_of_paths(rng, n):
    w = np.empty((n, 7))
    for i in range(n):
        total = 0.0
        for j in range(7):
            total += rng.random()
            w[i, j] = total
    return w


def fused(rng, n):
    a, b = rng.random(n), rng.random(n)
    c = a * 2
    d = rng.random(n)
    return c + b * 3 + d * 5


def where(rng, n):
    x = rng.random(n)
    return np.where(x < 0.5, rng.random(n), x * 2)


def places_read_twice(rng, n):
    places = rng.integers(0, n, 3)
    x = np.arange(n) * 1.0
    return x[places] + x[places] * 2 + places


def array_in_vain(rng, n):
    rng.normal(size=n)
    return rng.normal(size=n)


def until(rng, n):
    count = 0
    while rng.random() < 0.9:
        count += 1
    return count, rng.random()


def short_cuts(rng, n):
    total = 0.0
    for i in range(n % 100):
        total += rng.random() if i % 3 else rng.normal()
        total += rng.random() if rng.random() < 0.5 and rng.random() < 0.5 else 0.0
    return total


def comprehended(rng, n):
    return [rng.random() for _ in range(n % 10)], any(rng.random() > 0.9 for _ in range(n))


def resampled(rng, n):
    x, found = np.arange(n) * 1.0, np.empty(4)
    for k in range(4):
        found[k] = (x[rng.integers(0, n, n)] * 2).max() + rng.random()
    return found


def scaled_sums(rng, n):
    x, found = np.arange(n) * 1.0, np.empty((4, 2))
    for k in range(4):
        u = rng.random()
        found[k, 0] = np.max(np.abs(x - u))
        found[k, 1] = np.max(x * u)
    return found


@pytest.mark.parametrize(
    "plain",
    [
        *(unrolled, paths, rows_of_paths, sums_of_paths, fused, where, places_read_twice),
        *(array_in_vain, until, short_cuts, comprehended, resampled, scaled_sums),
    ],
)
@pytest.mark.parametrize("n", [9, 200_003])
def test_loops_over_elements_leave_the_order_of_draws(plain, n):
    assert is_native(check(plain, one, n))


# Where generators come from


def mixes(a, b, n):
    total = 0.0
    for _ in range(n):
        total = total * 0.5 + a.random() + b.standard_normal() * 2.0
    return total


def shared():
    bits = np.random.PCG64(3)
    return [np.random.Generator(bits), np.random.RandomState(bits)]


def test_generators_may_be_several_or_one():
    def twice():
        return one() * 2

    for make in (lambda: [*one(), np.random.RandomState(1)], shared, twice):
        assert is_native(check(mixes, make, 9))


def draws_in_vain(rng, n):
    for _ in range(n):
        rng.random()
    return rng.random()


def test_numbers_that_nobody_reads_are_drawn():
    assert is_native(check(draws_in_vain, one, 9))


class OwnBits(np.random.PCG64):
    """A bit generator of a user's class."""


class OwnGenerator(np.random.Generator):
    """A generator of a user's class, which draws nothing but zeros."""

    def random(self, *args: Any, **keywords: Any) -> Any:
        """Not random."""
        return 0.0


def test_other_classes_are_pythons():
    check(draws_in_vain, lambda: [np.random.Generator(OwnBits(1))], 3)
    check(draws_in_vain, lambda: [OwnGenerator(np.random.PCG64(1))], 3)
    assert script(draws_in_vain)(OwnGenerator(np.random.PCG64(1)), 3) == 0.0


def only_takes_it(rng, n):
    return n + 1


@pytest.mark.parametrize("plain", [draws_in_vain, fused, only_takes_it])
def test_generators_that_are_laid_out_otherwise_are_pythons(plain, monkeypatch):
    for module in (draws, results):
        monkeypatch.setattr(module, "is_known", lambda: False)
    assert not is_native(check(plain, one, 9))


@pytest.mark.parametrize("class_", [np.random.Generator, np.random.RandomState])
@pytest.mark.parametrize("way", ["_shuffled", "_integers"])
def test_methods_that_draw_in_other_ways_are_found(class_, way, monkeypatch):
    assert generators._draws_alike(class_)
    known = getattr(generators, way)
    monkeypatch.setattr(generators, way, lambda *a, **keywords: known(*a, **keywords)[::-1])
    assert not generators._draws_alike(class_)


def chooses(a, b, n):
    total = 0.0
    for step in range(n):
        rng = a if step % 2 else b
        total += rng.random()
    return total


def test_a_variable_may_be_one_of_several_generators():
    check(chooses, lambda: [*one(), np.random.default_rng(6)], 9)


def gives_it_back(rng, n):
    return rng, rng.random() + n


def test_a_generator_may_be_returned():
    rng = one()[0]
    returned, number = script(gives_it_back)(rng, 1)
    assert returned is rng
    assert number == one()[0].random() + 1


class Walk:
    """Steps to both sides."""

    def __init__(self):
        self.rng = np.random.default_rng(8)
        self.place = 0

    def run(self, n):
        """Walk n steps."""
        for _ in range(n):
            if self.rng.random() < 0.5:
                self.place += 1
            else:
                self.place -= 1
        return self.place


def walks(walk, n):
    return walk.run(n)


def test_attributes_may_be_generators():
    ours, theirs = Walk(), Walk()
    scripted = script(walks)
    for n in (7, 20):
        assert scripted(ours, n) == walks(theirs, n)
        assert state_of(ours.rng) == state_of(theirs.rng)
    assert is_native(scripted)


def reads_a_global(n):
    total = 0.0
    for _ in range(n):
        total += RNG.random()
    return total


def test_globals_may_be_generators(monkeypatch):
    scripted = script(reads_a_global)
    for seed in (1, 2):
        monkeypatch.setitem(globals(), "RNG", np.random.default_rng(seed))
        found, state = scripted(9), state_of(RNG)
        monkeypatch.setitem(globals(), "RNG", np.random.default_rng(seed))
        assert (found, state) == (reads_a_global(9), state_of(RNG))
    assert is_native(scripted)


def makes_one(n):
    rng = np.random.default_rng(n)
    total = 0.0
    for _ in range(n):
        total += rng.random()
    return total


def seeds(n):
    np.random.seed(n)
    total = 0.0
    for _ in range(n):
        total += np.random.rand()
    return total, np.random.randn()


def draws_in_python_between(rng, n):
    total = 0.0
    for _ in range(n):
        total += rng.random()
        total += rng.gamma(2.0)
        total += rng.random()
    return total


def test_python_may_make_seed_and_draw_between():
    for plain in (makes_one, seeds):
        scripted = check(plain, list, 9)
        assert any(
            isinstance(region.specializations[0].plan, NativePlan)
            for made in scripted.specializations
            if isinstance(made.plan, HostPlan)
            for region in made.plan.regions.values()
        )
    check(draws_in_python_between, one, 9)


# Locks and threads


def fills(rng, n):
    found = np.empty(n)
    for place in range(n):
        found[place] = rng.random()
    return found


def test_threads_share_a_generator():
    rng, count = np.random.default_rng(1), 4
    scripted = script(fills)
    scripted(np.random.default_rng(2), 20000)
    with ThreadPoolExecutor(count) as pool:
        parts = list(pool.map(lambda _: scripted(rng, 20000), range(count)))
    expected = np.random.default_rng(1).random(count * 20000)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.sort(expected))
    assert state_of(rng) != state_of(np.random.default_rng(1))


def test_a_generator_that_is_locked_is_waited_for():
    rng = np.random.default_rng(1)
    scripted = script(draws_in_vain)
    scripted(np.random.default_rng(2), 3)
    got: list[float] = []
    caller = threading.Thread(target=lambda: got.append(scripted(rng, 3)))
    with rng.bit_generator.lock:
        caller.start()
        caller.join(0.2)
        assert not got
    caller.join()
    assert got == [draws_in_vain(np.random.default_rng(1), 3)]
    assert rng.bit_generator.lock.acquire(blocking=False)
    rng.bit_generator.lock.release()


def fails(rng, n):
    return rng.random(), rng.integers(n)


def test_locks_are_given_back_after_exceptions_and_refusals():
    rng = np.random.default_rng(1)
    scripted = script(fails)
    scripted(rng, 3)
    with pytest.raises(ValueError, match="high <= 0"):
        scripted(rng, 0)
    with pytest.raises(ValueError, match="three"):
        scripted(rng, "three")
    assert is_free(rng)


def is_free(rng):
    """Whether another thread could lock a generator."""
    with ThreadPoolExecutor(1) as pool:
        is_taken = pool.submit(rng.bit_generator.lock.acquire, blocking=False).result()
        if is_taken:
            pool.submit(rng.bit_generator.lock.release).result()
    return is_taken


def test_who_waits_for_a_generator_holds_no_other():
    free, locked = np.random.default_rng(1), np.random.RandomState(1)
    scripted = script(mixes)
    scripted(np.random.default_rng(2), np.random.RandomState(2), 9)
    with ThreadPoolExecutor(1) as pool:
        with locked._bit_generator.lock:
            found = pool.submit(scripted, free, locked, 9)
            # The plain function has drawn its first number, and waits for the second one.
            while state_of(free) == state_of(np.random.default_rng(1)):
                time.sleep(0.001)
            assert is_free(free)
        assert found.result() == mixes(np.random.default_rng(1), np.random.RandomState(1), 9)


# Other processes


def test_loaded_programs_draw():
    loaded = reloaded(script(mixes_globally))
    np.random.seed(3)
    found = loaded(np.random.default_rng(1), 9)
    np.random.seed(3)
    assert found == mixes_globally(np.random.default_rng(1), 9)


def mixes_globally(rng, n):
    total = 0.0
    for _ in range(n):
        total += rng.random() * np.random.rand() + np.random.randint(5)
    return total


STORED = """
import numpy as np
from jitcore import script

@script
def draw(rng, n):
    total = 0.0
    for _ in range(n):
        total += rng.random() * np.random.randn() + rng.integers(9)
    return total

np.random.seed(1)
print(draw(np.random.default_rng(1), 9), type(draw.specializations[0].plan).__name__)
"""


def test_machine_code_of_another_process_draws(tmp_path, monkeypatch):
    monkeypatch.setenv("JITCORE_CACHE", "1")
    monkeypatch.setenv("JITCORE_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "program.py").write_text(STORED)
    first, second = (run_in(tmp_path, "import program").split() for _ in range(2))
    assert first[0] == second[0]
    assert (first[1], second[1]) == ("NativePlan", "StoredPlan")


def test_reports_say_that_draws_are_native():
    report = str(script(draws_in_vain).explain(*one(), 9))
    assert "one native function" in report
    assert "CallMethod random" in report
    assert "it draws by NumPy's own function" in " ".join(report.split())
