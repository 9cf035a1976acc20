# mypy: allow-untyped-defs, allow-untyped-calls
"""Programs of which some runs on a device, and some on the host, on copies of what it reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cuda_machine import fake_machine
from fake_cuda import FakeDriver
from test_cuda_calls import check, same

import jitcore
from jitcore import cuda, script
from jitcore.fusers.host_parts import HOST_GROUP
from jitcore.pipeline import HostPlan


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    with fake_machine() as made:
        yield made


RNG = np.random.default_rng(3)
X = RNG.standard_normal((6, 6))
V = RNG.standard_normal(12).astype(np.float32)


def solved(x):
    y = x * 2 + np.eye(6)
    return np.linalg.solve(y, np.exp(x)) + y


def ordered(v):
    order = np.argsort(v * v)
    return (v[order] * 2).cumsum()


def median_of_parts(v):
    middle = np.median(v * 2)
    return np.where(v > middle, v, middle - v)


def branches(x, flag):
    y = x + 1
    if flag:
        y = np.linalg.inv(y) * 2
    return y - x


def on_a_condition(x):
    y = x * x
    if np.linalg.det(y) > 0:
        return y + 1
    return y - 1


def steps(x):
    y = x * 0.5
    for _ in range(3):
        y = np.sort(y, axis=1) + x
    return y


def several_results(x):
    values, vectors = np.linalg.eigh(x + x.T)
    return np.abs(vectors) * values, values.sum()


def views_and_writes(x):
    x += 1
    low = np.sort(x, axis=0)[:2]
    low *= 3
    x[0] = low[1]
    return low, x[1:]


def written_on_the_host(x):
    y = x * 2
    np.put(y, [0, 7], -1.0)
    np.fill_diagonal(x, 5.0)
    return y + x


def of_lists(v):
    found = []
    for k in range(3):
        found.append(np.sort(v * k))
    return found[0] + found[1] * found[2]


def texts(x):
    name = f"{x.shape[0]} rows"
    return np.linalg.pinv(x * len(name)) * 2


def opaque_tuple(v):
    counts, edges = np.histogramdd(v * 2, bins=3)
    return counts * 2, v - edges[0][0]


def flat_and_form(x):
    y = np.sort(x * 2, axis=0)
    r = y.ravel()
    r += 1
    return y * 2, r


def contiguous_already(x):
    y = np.sort(x * 2)
    r = np.ascontiguousarray(y)
    r[0] = 9
    return y * 2, r


def lengths_of_elements(x):
    y = np.sort(x * 2)
    c = np.count_nonzero(y > 0)
    return np.zeros(c), c, y[:c] * 2


CASES = [
    (solved, (X,)),
    (ordered, (V.astype(np.float64),)),
    (median_of_parts, (V,)),
    (branches, (X, True)),
    (branches, (X, False)),
    (on_a_condition, (X,)),
    (steps, (X,)),
    (several_results, (X,)),
    (views_and_writes, (X,)),
    (written_on_the_host, (X,)),
    (of_lists, (V,)),
    (texts, (X,)),
    (opaque_tuple, (V,)),
    (flat_and_form, (X,)),
    (contiguous_already, (X,)),
    (lengths_of_elements, (X,)),
]


@pytest.mark.parametrize(("function", "args"), CASES)
def test_calls(fake: FakeDriver, function: Any, args: Any) -> None:
    compiled = check(function, *args, native=False)
    plan = compiled.specializations[-1].plan
    assert isinstance(plan, HostPlan) and plan.host_parts and fake.launches
    assert plan.graph.find_all_nodes(HOST_GROUP) == list(plan.host_parts)
    launches = len(fake.launches)
    compiled(*jitcore.to(args, "cuda"))
    assert len(fake.launches) > launches


def test_regions_that_have_no_form_for_the_device(fake: FakeDriver) -> None:
    def chained(x):
        y = x[:, 0].copy()
        for k in range(1, len(y)):
            y[k] = y[k] * 0.5 + np.sin(y[k - 1])
        return np.sort(y)

    compiled = check(chained, X, native=False)
    said = str(compiled.explain(jitcore.to(X, "cuda")))
    assert "others on the host, on copies of the arrays" in said


def test_only_what_a_part_reads_is_copied(fake: FakeDriver) -> None:
    def sorted_row(x, row):
        return x * 2 + np.sort(row)

    copied: list[int] = []
    plain = fake.copy_to_host
    compiled = script(sorted_row)
    x, row = jitcore.to((np.ones((50, 6)), X[0].copy()), "cuda")
    compiled(x, row)
    fake.copy_to_host = lambda *args: copied.append(args[2]) or plain(*args)  # type: ignore
    compiled(x, row)
    assert copied == [row.nbytes]


def test_random_numbers_are_those_of_the_host(fake: FakeDriver) -> None:
    def noisy(x, seed):
        generator = np.random.default_rng(seed)
        noise = generator.normal(size=x.shape)
        noise *= 0.5
        return x + noise, noise

    compiled = check(noisy, X, 7, native=False)
    assert fake.launches
    found = compiled(jitcore.to(X, "cuda"), 8)[1]
    assert isinstance(found, cuda.Array)


def test_exceptions_of_a_part(fake: FakeDriver) -> None:
    def inverted(x):
        x += 1
        return np.linalg.inv(x * 0) + x

    x = jitcore.to(X, "cuda")
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        script(inverted)(x)
    same(x, X + 1)

    def saved(x):
        try:
            y = np.linalg.inv(x * 0)
        except np.linalg.LinAlgError:
            y = x * 2
        return y + 1

    check(saved, X, native=False)


def test_what_may_keep_copies_runs_on_the_host_as_a_whole(fake: FakeDriver) -> None:
    def pairs(x, y):
        total = np.sort(x * 2)[0] * 0
        for one, other in zip(x, y, strict=True):
            one += 1
            total = total + np.sort(one) * other
        return total

    check(pairs, X, X[::-1].copy(), native=False)


def its_flags(x):
    y = np.sort(x * 2)
    return y.flags.c_contiguous, y * 2


def its_base(x):
    y = np.sort(x * 2)
    return y.base is None, y * 2


def its_memory(x):
    y = np.sort(x * 2)
    return y.data.nbytes, y * 2


def its_flat_elements(x):
    y = np.sort(x * 2)
    y.flat[3] = 7
    return y * 2


def of_another_size(x):
    y = np.sort(x * 2)
    y.resize((36,))
    return y * 2


def a_number_as_key(x):
    y = np.sort(x * 2)
    m = np.median(y)
    d = {}
    d[m] = 1
    return y * d[m]


def a_number_as_key_between_regions(x):
    y = np.sort(x * 2)
    n = np.linalg.matrix_rank(y)
    z = y * 2
    return z, {n: 3}.get(6), n in {6}, hash(n)


@pytest.mark.parametrize(
    "function",
    [
        its_flags,
        its_base,
        its_memory,
        its_flat_elements,
        of_another_size,
        a_number_as_key,
        a_number_as_key_between_regions,
    ],
)
def test_what_only_arrays_and_numbers_of_the_host_have(fake: FakeDriver, function: Any) -> None:
    check(function, X, native=False)


def test_read_only_arrays(fake: FakeDriver) -> None:
    def closed(x):
        y = np.sort(x * 2)
        y.setflags(write=False)
        y[0] = 1
        return y * 2

    with pytest.raises(ValueError, match="read-only"):
        script(closed)(jitcore.to(X, "cuda"))


def test_lists_and_results_share_new_arrays(fake: FakeDriver) -> None:
    def kept(x, found):
        y = np.sort(x * 2)
        r = np.ravel(y)
        found.append(y)
        return r, y[1:]

    found: list[Any] = []
    r, low = script(kept)(jitcore.to(X, "cuda"), found)
    r += 1
    same(found[0], np.sort(X * 2) + 1)
    same(low, np.sort(X * 2)[1:] + 1)


def test_views_of_other_dtypes_are_aligned(fake: FakeDriver) -> None:
    def views(x):
        y = np.sort(x * 2).ravel()
        return y.view(np.uint8)[3:], y[::-2], y

    words, back, y = script(views)(jitcore.to(X, "cuda"))
    assert [words.address % 8, back.address % 8, y.address % 8] == [3, 0, 0]
    words[5:] = 0
    same(y[1:], np.zeros(35))
    same(back, np.zeros(18))


def counted(x):
    return np.zeros(np.count_nonzero(x > 0))


def summed(x):
    c = int(np.abs(x).sum())
    return np.zeros((c, 2))


def cut(x):
    c = np.count_nonzero(x > 0)
    return x[:, : c % 3] * 2


def reduced(x):
    c = np.count_nonzero(x > 0)
    return x[:, : c % 3].sum(axis=0), c


def in_a_loop(x):
    y = np.zeros(6)
    for k in range(3):
        c = np.count_nonzero(x[:, k] > 0)
        y[:c] += k
    return y


@pytest.mark.parametrize("function", [counted, summed, cut, reduced, in_a_loop])
def test_launches_whose_size_depends_on_elements(fake: FakeDriver, function: Any) -> None:
    check(function, X)


def test_errors_that_numpy_is_asked_to_raise(fake: FakeDriver) -> None:
    def divided(x):
        y = np.sort(x, axis=0)
        with np.errstate(divide="raise"):
            y = y / (x * 0)
        return y

    with pytest.raises(FloatingPointError, match="divide by zero"):
        script(divided)(jitcore.to(np.abs(X), "cuda"))
