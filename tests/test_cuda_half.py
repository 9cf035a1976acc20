# mypy: allow-untyped-defs, allow-untyped-calls
"""float16 on devices: stored by 2 bytes, computed with as NumPy does it, rounded at each step."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_machine import fake_machine
from device_runs import assert_same_bits, check_bits, run_on_device
from fake_cublas import FakeCublas

import jitcore
from jitcore.codegen.cuda import cublas

RNG = np.random.default_rng(5)
X = (RNG.standard_normal((4, 32)) * 3).astype(np.float16)
Y = (RNG.standard_normal((4, 32)) * 3).astype(np.float16)
SPECIAL = np.array(
    [0, -0.0, np.inf, -np.inf, np.nan, 65504, -65504, 6e-8, -6e-8, 6.1e-5, 1, 2048, 2049, 1e-3],
    np.float16,
)
PAIRS = tuple(np.ascontiguousarray(one) for one in np.meshgrid(SPECIAL, SPECIAL))


def chain(x, y):
    return (x * y + x) / (y - 3) - x


def extrema(x, y):
    return np.maximum(x, y) * np.minimum(x, y)


def compared(x, y):
    return np.where(x < y, x, -y), x == y, x > 2


def roots(x, y):
    return np.sqrt(np.abs(x)), np.floor(y), np.trunc(x) - np.rint(y)


def casts(x, y):
    return x.astype(np.float32) * 2, y.astype(np.float64), (x * 8).astype(np.int32)


def from_wide(x, y):
    wide = x.astype(np.float64) * 1.0001
    return wide.astype(np.float16), (y.astype(np.float32) / 3).astype(np.float16)


def from_integers(x, y):
    return np.arange(0, 9000, 70).astype(np.float16), x + np.float16(0.1)


def transposed(x, y):
    return x.T + y.T


def in_place(x, y):
    x *= y
    x[1:] += 1


EXACT = [chain, extrema, compared, roots, casts, from_wide, from_integers, transposed, in_place]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    "args", [(X, Y), (X[:, 1:], Y[::-1, :-1]), PAIRS], ids=["whole", "strided", "special"]
)
@pytest.mark.parametrize("function", EXACT)
def test_bits(function, args, dynamic):
    if function is casts:
        args = tuple(np.nan_to_num(one, posinf=1, neginf=1) for one in args)
    check_bits(function, args, dynamic=dynamic)


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def layer_norm(x):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt(x.var(axis=-1, keepdims=True) + np.float16(1e-3))


def totals(x):
    return x.sum(), x.mean(), x.max(), x.sum(axis=0), x.mean(axis=0), x.min(axis=1)


def gelu(x):
    return x * 0.5 * (1 + np.tanh(x * 0.8))


def scanned(x):
    return np.cumsum(x, axis=1)


def product(x):
    return x @ x.T


def product_and_more(x):
    return np.maximum(x @ x.T + x[:, 0], 0)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    "function", [softmax, layer_norm, totals, gelu, scanned, product, product_and_more]
)
def test_nearly(function, dynamic):
    x = X / 4
    wide = function(x.astype(np.float64))
    wanted = function(x)
    run = run_on_device(function, (x,), dynamic=dynamic)
    groups = [one if isinstance(one, tuple) else (one,) for one in (run.result, wanted, wide)]
    for one, other, exact in zip(*groups, strict=True):
        other = np.asarray(other)
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        # As near to the exact result as NumPy's, but for two steps of float16.
        step = np.spacing(np.abs(np.asarray(exact)).max().astype(np.float16)).astype(np.float64)
        error, numpys = (np.abs(found - exact).max() for found in (one, other))
        assert error <= numpys + 2 * step


def means(x):
    return x.mean(), x.mean(axis=0), x.mean(axis=1)


def test_sums_beyond_what_float16_holds():
    run = run_on_device(means, (np.full((40, 36), 2000, np.float16),))
    for one in run.result:
        np.testing.assert_array_equal(one, np.float16(2000))


def scaled(x, factor):
    return x * factor


def test_a_number_as_an_argument():
    run = run_on_device(scaled, (X, np.float16(1.7)))
    assert_same_bits(run.result, X * np.float16(1.7))


def matmul(x, y):
    return x @ y


@pytest.mark.parametrize("with_library", [False, True])
def test_products_keep_sums_in_float32(with_library):
    # In float16, 2048 and 1 are 2048.
    x, y = np.array([[2048, *[1] * 15]] * 2, np.float16), np.ones((16, 3), np.float16)
    made = FakeCublas(fails_with=0 if with_library else 15)
    with fake_machine() as fake, cublas.use(cublas.Cublas(made, "cuBLAS (a fake)")):
        moved = [jitcore.to(one, "cuda") for one in (x, y)]
        found = jitcore.script(matmul)(*moved).numpy()
        assert bool(fake.launches) != with_library
    np.testing.assert_array_equal(found, np.full((2, 3), 2064, np.float16))
    assert len(made.products) == 1
