"""Linear equations, inverses and Cholesky's factors are native, with the bits of NumPy."""

# The functions under test are plain NumPy, as users write them.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from checking import check
from jitcore import script
from jitcore.codegen.runtime.lapack import ensure_lapack
from jitcore.execution.plans import NativePlan

needs_lapack = pytest.mark.skipif(
    not ensure_lapack("float64"), reason="NumPy was built with a LAPACK of its own"
)
DTYPES = [np.int64, np.float32, np.float64, np.complex64, np.complex128]


def numbers(*shape: int, dtype: Any) -> Any:
    parts = np.random.default_rng(sum(shape)).standard_normal((2, *shape)) * 9
    return (parts[0] + (1j * parts[1] if np.dtype(dtype).kind == "c" else 0)).astype(dtype)


def solve(a, b):
    return np.linalg.solve(a, b)


def inverse(a):
    return np.linalg.inv(a)


def factor(a):
    return np.linalg.cholesky(a)


def assert_same(compiled: Any, function: Any, *args: Any) -> None:
    result, expected = compiled(*args), function(*args)
    assert (result.dtype, result.strides) == (expected.dtype, expected.strides)
    np.testing.assert_array_equal(result, expected)
    (made,) = {type(one.plan) for one in compiled.specializations}
    assert made is NativePlan


@needs_lapack
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [0, 1, 5, 16, 37])
def test_results_have_the_bits_of_numpy(size: int, dtype: Any) -> None:
    a = numbers(size, size, dtype=dtype) + np.eye(size, dtype=dtype) * 70
    b = numbers(size, 20, dtype=dtype)
    positive = a @ a.T.conj()
    compiled = script(solve)
    for right in (b, b[:, 0], b[:, ::-2], b.T.copy().T, b[:, :0], b.astype(np.float32)):
        assert_same(compiled, solve, a, right)
    assert_same(compiled, solve, a.T, b)
    assert_same(script(inverse), inverse, a)
    assert_same(script(factor), factor, positive)
    assert_same(script(factor), factor, positive[::-1, ::-1])
    # Nobody reads what is above the diagonal.
    assert_same(script(factor), factor, np.tril(positive) + np.triu(positive * 3, k=1))


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (solve, (np.eye(3), np.ones((2, 2)))),
        (solve, (np.eye(3), np.ones(2))),
        (solve, (np.ones((3, 2)), np.ones(3))),
        (solve, (np.ones((3, 3)), np.ones(3))),
        (inverse, (np.zeros((2, 2)),)),
        (inverse, (np.ones((2, 3)),)),
        (factor, (-np.eye(3),)),
        (factor, (np.ones((3, 2)),)),
    ],
)
def test_errors_are_those_of_numpy(function: Any, args: Any) -> None:
    check(function, *args)


def refined(a, steps):
    a[0, 0] += 1
    total = np.zeros_like(a)
    for k in range(steps):
        total += np.linalg.inv(a - k * np.eye(len(a)))
    return total


@needs_lapack
def test_a_singular_matrix_after_writes() -> None:
    a = np.diag([1.0, 3.0, 5.0])
    compiled = script(refined)
    ours, theirs = a.copy(), a.copy()
    np.testing.assert_array_equal(compiled(ours, 2), refined(theirs, 2))
    for function, own in ((compiled, a.copy()), (refined, a.copy())):
        with pytest.raises(np.linalg.LinAlgError, match="^Singular matrix$"):
            function(own, 4)
        assert own[0, 0] == 2


def newton(points, rounds):
    """Newton's method for a few systems of equations, one after the other."""
    found = np.empty_like(points)
    for i in range(len(points)):
        x = points[i].copy()
        for _ in range(rounds):
            residual = np.array([x[0] ** 2 + x[1] ** 2 - 4, x[0] - x[1]])
            slope = np.array([[2 * x[0], 2 * x[1]], [1.0, -1.0]])
            x = x - np.linalg.solve(slope, residual)
        found[i] = x
    return found


def test_loops_around_them_are_native() -> None:
    points = np.random.default_rng(1).random((6, 2)) + 0.5
    compiled = script(newton)
    np.testing.assert_allclose(compiled(points, 5), newton(points, 5), rtol=1e-12)
    if ensure_lapack("float64"):
        assert isinstance(compiled.specializations[0].plan, NativePlan)
