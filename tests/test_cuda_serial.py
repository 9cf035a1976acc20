# mypy: allow-untyped-defs, allow-untyped-calls
"""Loops on a device whose iterations follow one another: one kernel runs them, in order."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from cuda_machine import fake_machine
from fake_cuda import FakeDriver

import jitcore
from jitcore import script
from jitcore.codegen.cuda import serial
from jitcore.execution.plans import HostPlan, NativePlan


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    with fake_machine() as made:
        yield made


def normal(*shape: int, dtype: Any = np.float64) -> Any:
    return np.random.default_rng().normal(size=shape).astype(dtype)


def places(count: int, below: int, *, negative: bool = False) -> Any:
    return np.random.default_rng().integers(-below if negative else 0, below, count)


def add_at(x, i, v):
    np.add.at(x, i, v)


def rows_at(x, i, v):
    for k in range(i.shape[0]):
        x[i[k]] += v[k]


def recurrence(x):
    y = np.zeros_like(x)
    for k in range(1, x.shape[0]):
        y[k] = 0.5 * y[k - 1] + x[k] * (y[k - 1] > 0)
    return y


def decayed(x):
    total, least = np.float64(0.0), np.float64(np.inf)
    for k in range(x.shape[0]):
        total = total * 0.9 + x[k]
        if total < least:
            least = total
    return total, least


def products(x):
    return np.cumprod(x)


def counts(i):
    return np.bincount(i, minlength=7)


def until(x, limit):
    total = np.float64(0.0)
    for k in range(x.shape[0]):
        if total > limit:
            break
        total += x[k]
    return total


def damped_rows(x):
    """Each row goes on with the one before, and is shared by threads."""
    y = x.copy()
    for k in range(1, x.shape[0]):
        scale = y[k - 1, 0]
        if scale < 0:
            scale = -scale
        y[k] = (y[k] + y[k - 1]) / (1 + scale)
    return y


def orthogonal(a):
    """Gram and Schmidt's way to vectors at right angles."""
    q = a.copy()
    for k in range(a.shape[0]):
        for j in range(a.shape[0]):
            if j < k:
                q[k] -= q[j] * (q[j] @ q[k])
        q[k] /= np.sqrt(q[k] @ q[k])
    return q


CASES: list[tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = [
    (add_at, lambda: (normal(6), places(9, 6, negative=True), normal(9))),
    (add_at, lambda: (normal(6, dtype=np.float32), places(9, 6), 2.5)),
    (rows_at, lambda: (normal(4, 70), places(7, 4, negative=True), normal(7, 70))),
    (rows_at, lambda: (normal(4, 5, dtype=np.float16), places(7, 4), normal(7, 5))),
    (recurrence, lambda: (normal(40),)),
    (recurrence, lambda: (normal(40, dtype=np.float32)[::-2],)),
    (decayed, lambda: (normal(30),)),
    (products, lambda: (normal(20) + 1j * normal(20),)),
    (counts, lambda: (places(30, 9),)),
    (until, lambda: (abs(normal(30)), 4.0)),
    (damped_rows, lambda: (normal(5, 300),)),
    (orthogonal, lambda: (normal(4, 40),)),
]


@pytest.mark.parametrize(("function", "make"), CASES)
def test_same_as_numpy(fake: FakeDriver, function: Any, make: Any) -> None:
    compiled = script(function)
    for _ in range(2):
        host = make()
        given = jitcore.to(copy.deepcopy(host), "cuda")
        found, wanted = compiled(*given), function(*host)
        for one, other in zip([found, *given], [wanted, *host], strict=True):
            if other is not None:
                np.testing.assert_allclose(
                    np.asarray(jitcore.to(one, "cpu")), np.asarray(other), rtol=1e-3, atol=1e-6
                )
    assert all(isinstance(one.plan, NativePlan) for one in compiled.specializations)


def assigned(y, x, i):
    for k in range(i.shape[0]):
        y[k] = x[i[k]] * 2
    return y.sum()


def assigned_rows(y, x, i):
    for k in range(i.shape[0]):
        y[k] = x[i[k]] * 2
        y[k] += y.sum()
    return y.sum()


@pytest.mark.parametrize(
    ("function", "shape"), [(assigned, (5,)), (assigned_rows, (5, 40)), (add_at, (5,))]
)
def test_errors_come_where_numpy_raises_them(
    fake: FakeDriver, function: Any, shape: tuple[int, ...]
) -> None:
    for wrong in (5, -6, 1 << 40):
        i = places(4, 5)
        i[2] = wrong
        host = normal(*shape), normal(*shape), i
        if function is add_at:
            host = host[0], i, normal(4)
        given = jitcore.to(copy.deepcopy(host), "cuda")
        compiled = script(function)
        for _ in range(2):
            with pytest.raises(IndexError) as wanted:
                function(*host)
            with pytest.raises(IndexError) as found:
                compiled(*given)
            assert str(found.value) == str(wanted.value)
            # What was written before the error stays.
            np.testing.assert_allclose(given[0].numpy(), host[0])
        plans = [one.plan for one in compiled.specializations]
        assert plans and all(isinstance(one, NativePlan) for one in plans)


def test_long_loops_are_the_hosts(fake: FakeDriver) -> None:
    """One thread of a device would take far longer than copies to the host and back do."""
    compiled = script(recurrence)
    for count, plan in ((serial.MOST_STEPS, NativePlan), (serial.MOST_STEPS + 2, HostPlan)):
        x = normal(count)
        found = compiled.graph_for(jitcore.to(x, "cuda"))
        assert found is compiled.specializations[-1].plan.graph
        assert isinstance(compiled.specializations[-1].plan, plan)
        said = " ".join(str(compiled.explain(jitcore.to(x, "cuda"))).split())
        reason = "compiled for the host: a loop whose iterations read single elements one after"
        assert (reason in said) == (plan is HostPlan)


def test_the_host_launches_once(fake: FakeDriver) -> None:
    compiled, x = script(recurrence), jitcore.to(normal(40), "cuda")
    compiled(x)
    before = len(fake.launches)
    compiled(x)
    # One for the zeros.
    assert len(fake.launches) - before == 2
    (last,) = fake.launches[-1:]
    assert (last.grid, last.block) == ((1, 1, 1), (1, 1, 1))
