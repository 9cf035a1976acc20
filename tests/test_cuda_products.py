# mypy: allow-untyped-defs, allow-untyped-calls
"""Matrix products of cuBLAS on a device: what it is asked for, and when our own kernel does it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cuda_machine import fake_machine
from fake_cublas import FakeCublas
from fake_cublaslt import FakeCublasLt
from fake_cuda import FakeDriver

import jitcore
from jitcore import nn
from jitcore.codegen.cuda import cublas, cublaslt
from jitcore.codegen.cuda.driver import DriverError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 5)).astype(np.float32)
Y = RNG.normal(size=(5, 7)).astype(np.float32)
STACK = RNG.normal(size=(3, 6, 5))
OTHER = RNG.normal(size=(3, 5, 7))


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    with fake_machine() as made:
        yield made


@pytest.fixture
def library(fake: FakeDriver) -> Iterator[FakeCublas]:
    made = FakeCublas()
    with cublas.use(cublas.Cublas(made, "cuBLAS (a fake)")):
        yield made


def product(x, y):
    return x @ y


def run(x, y):
    """A product on the device, of arrays with the strides of these."""
    return jitcore.script(product)(*map(_moved, (x, y))).numpy()


def _moved(array):
    base = array if array.base is None else array.base
    whole = jitcore.to(base, "cuda")
    if array is base:
        return whole
    return whole.T if array.T is base or array.strides == base.T.strides else whole[::2, ::2]


@pytest.mark.parametrize(
    ("x", "y", "forms"),
    [
        (X, Y, (0, 0)),
        (X.T.copy().T, Y, (0, 1)),
        (X, Y.T.copy().T, (1, 0)),
        (X.T.copy().T, Y.T.copy().T, (1, 1)),
        (X.astype(np.float64), Y.astype(np.float64), (0, 0)),
        (STACK, OTHER, (0, 0)),
        (STACK, OTHER[0].copy(), (0, 0)),
        (STACK[0].copy(), OTHER, (0, 0)),
    ],
)
def test_layouts_the_library_reads(fake, library, x, y, forms):
    found = run(x, y)
    np.testing.assert_allclose(found, x @ y, rtol=1e-5, atol=1e-6)
    (asked,) = library.products
    assert asked[:2] == forms
    # Matrices that lie behind each other and share the right factor are one matrix.
    assert asked[2:] in [(7, x.size // 5, 5, 1), (7, 6, 5, 3)]
    assert not fake.launches


@pytest.mark.parametrize("shape", [(1, 5, 7), (6, 1, 7), (6, 5, 1), (1, 1, 1), (1, 5, 1)])
def test_extents_of_one(fake, library, shape):
    rows, terms, columns = shape
    x, y = RNG.normal(size=(rows, terms)), RNG.normal(size=(terms, columns))
    np.testing.assert_allclose(run(x, y), x @ y)


def test_our_kernel_reads_other_layouts(fake, library):
    wide = RNG.normal(size=(12, 10)).astype(np.float32)
    x = wide[::2, ::2]
    np.testing.assert_allclose(run(x, Y), x @ Y, rtol=1e-5, atol=1e-6)
    assert not library.products and len(fake.launches) == 1


def test_integers_have_no_library(fake, library):
    x, y = X.astype(np.int64), Y.astype(np.int64)
    np.testing.assert_array_equal(run(x, y), x @ y)
    assert not library.products


def test_a_device_that_the_library_does_not_support(fake, library):
    library.fails_with = 8
    np.testing.assert_allclose(run(X, Y), X @ Y, rtol=1e-5, atol=1e-6)
    assert len(library.products) == 1 and len(fake.launches) == 1


def test_a_library_that_does_not_begin(fake, library):
    library.begins_with = 1
    np.testing.assert_allclose(run(X, Y), X @ Y, rtol=1e-5, atol=1e-6)
    assert not library.products and len(fake.launches) == 1


def test_the_library_fails(fake, library):
    library.fails_with = 13
    with pytest.raises(DriverError, match=r"cuBLAS \(a fake\) failed with status 13"):
        run(X, Y)


def test_the_stream_of_the_call(fake, library):
    x, y = jitcore.to(X, "cuda"), jitcore.to(Y, "cuda")
    with jitcore.cuda.Stream() as stream:
        jitcore.script(product)(x, y)
        assert library.stream == stream.handle != 0


def test_explain_says_who_multiplies(fake, library):
    x, y = jitcore.to(X, "cuda"), jitcore.to(Y, "cuda")
    scripted = jitcore.script(product)
    scripted(x, y)
    text = " ".join(str(scripted.explain(x, y)).split())
    assert "matrix product, where cuBLAS (a fake) does not take its layout" in text
    assert "cuBLAS (a fake) multiplies matrices, and kernels those that it does not" in text
    assert "bias" not in text
    plain = jitcore.script(lambda x: x + 1)
    assert "matrices" not in str(plain.explain(x))


def test_explain_says_that_there_is_no_library(fake):
    text = " ".join(str(jitcore.script(with_more).explain(*moved(X, Y, BIAS))).split())
    assert "no cuBLAS is found: kernels multiply matrices, and do what follows" in text
    assert len(fake.launches) == 1


def test_explain_says_what_the_library_does_not_do(fake, library, biased):
    text = " ".join(str(jitcore.script(with_more).explain(*moved(X, Y, BIAS))).split())
    assert "cuBLASLt (a fake) also adds a bias; activations are kernels of their own" in text
    assert "ReLU need not keep NaN" in text


def crossed(x, y):
    return x.swapaxes(0, 1) @ y


@pytest.mark.parametrize("with_library", [False, True])
def test_a_stack_of_stacks(fake, library, with_library):
    library.fails_with = 0 if with_library else 15
    x, y = RNG.normal(size=(3, 2, 6, 5)), RNG.normal(size=(2, 3, 5, 7))
    found = jitcore.script(crossed)(jitcore.to(x, "cuda"), jitcore.to(y, "cuda"))
    np.testing.assert_allclose(found.numpy(), crossed(x, y))
    assert library.products == [(0, 0, 7, 6, 5, 3)] * 2
    assert len(fake.launches) == (0 if with_library else 2)


def test_linear(fake, library):
    layer = nn.Linear(5, 7)
    wanted = layer(X)
    layer.to("cuda")
    found = jitcore.script(layer)(jitcore.to(X, "cuda"))
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-6)
    assert library.products == [(1, 0, 7, 6, 5, 1)]


@pytest.fixture
def biased(library: FakeCublas) -> Iterator[FakeCublasLt]:
    made = FakeCublasLt()
    with cublaslt.use(cublaslt.CublasLt(made, "cuBLASLt (a fake)")):
        yield made


BIAS = RNG.normal(size=7).astype(np.float32)


def with_bias(x, y, bias):
    return x @ y + bias


def with_more(x, y, bias):
    return np.maximum(bias + x @ y, 0)


def moved(*arrays):
    return [_moved(one) for one in arrays]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(
    ("x", "y", "shapes"),
    [
        (X, Y, ((7, 5), (5, 6))),
        (X, Y.T.copy().T, ((5, 7), (5, 6))),
        (X.T.copy().T, Y, ((7, 5), (6, 5))),
    ],
)
def test_a_bias_is_the_library_s(fake, library, biased, x, y, shapes, dtype):
    x, y = (
        one.T.astype(dtype).T if one.flags.f_contiguous else one.astype(dtype) for one in (x, y)
    )
    bias = BIAS.astype(dtype)
    compiled = jitcore.script(with_bias)
    # None of them lies where another one did.
    biases = [jitcore.to(bias + dtype(number), "cuda") for number in range(2)]
    for number, one in enumerate(biases):
        found = compiled(*moved(x, y), one)
        wanted = x.astype(np.float64) @ y + bias + number
        assert found.dtype == dtype
        np.testing.assert_allclose(found.numpy(), wanted, rtol=5e-3, atol=5e-3)
    assert not fake.launches and not library.products
    assert [one[:2] for one in biased.products] == [shapes] * 2 and biased.chosen == 1
    text = " ".join(str(compiled.explain(*moved(x, y, bias))).split())
    assert "where cuBLASLt (a fake) does not take its layout" in text


def test_a_bias_that_is_a_part_of_an_array(fake, library, biased):
    whole = RNG.normal(size=20).astype(np.float32)
    compiled = jitcore.script(lambda x, y, bias: x @ y + bias[3:10])
    found = compiled(*moved(X, Y, whole))
    np.testing.assert_allclose(found.numpy(), X @ Y + whole[3:10], rtol=1e-5, atol=1e-6)
    assert len(biased.products) == 1 and not fake.launches


def test_promised_alignments_hold(fake, library, biased):
    whole = jitcore.to(np.zeros((6, 9), np.float32), "cuda")
    compiled = jitcore.script(with_bias)
    y, bias = moved(Y, BIAS)
    for start in (0, 1, 2):
        x: Any = whole[:, start : start + 5]
        compiled(x, y, bias)
        for address, promised in zip((y.address, x.address), biased.products[-1][2], strict=False):
            assert address % promised == 0
    assert biased.chosen == 3


def test_the_stream_of_a_call_with_a_bias(fake, library, biased):
    given = moved(X, Y, BIAS)
    with jitcore.cuda.Stream() as stream:
        jitcore.script(with_bias)(*given)
    assert biased.stream == stream.handle != 0


@pytest.mark.parametrize("problem", ["refuses", "layout", "not supported"])
def test_our_kernel_adds_the_bias(fake, library, biased, problem):
    biased.refuses = problem == "refuses"
    biased.fails_with = 15 if problem == "not supported" else 0
    x, bias = jitcore.to(X, "cuda"), jitcore.to(BIAS, "cuda")
    if problem == "layout":
        wide = np.zeros((6, 10), np.float32)
        wide[:, ::2] = X
        x = jitcore.to(wide, "cuda")[:, ::2]
    found = jitcore.script(with_bias)(x, jitcore.to(Y, "cuda"), bias)
    np.testing.assert_allclose(found.numpy(), X @ Y + BIAS, rtol=1e-5, atol=1e-6)
    assert len(fake.launches) == 1 and not library.products


def test_what_follows_otherwise_is_a_kernel_of_its_own(fake, library, biased):
    found = jitcore.script(with_more)(*moved(X, Y, BIAS))
    np.testing.assert_allclose(found.numpy(), with_more(X, Y, BIAS), rtol=1e-5, atol=1e-6)
    assert len(library.products) == 1 and len(fake.launches) == 1 and not biased.products
    column = jitcore.to(X[:, :1].copy(), "cuda")
    found = jitcore.script(with_bias)(*moved(X, Y), column)
    np.testing.assert_allclose(found.numpy(), X @ Y + X[:, :1], rtol=1e-5, atol=1e-6)
    assert not biased.products


def test_the_library_with_a_bias_fails(fake, library, biased):
    biased.fails_with = 13
    with pytest.raises(DriverError, match=r"cuBLASLt \(a fake\) failed with status 13"):
        jitcore.script(with_bias)(*moved(X, Y, BIAS))
