# mypy: allow-untyped-defs, allow-untyped-calls
"""bfloat16 on devices: stored by 2 bytes, computed in float32, rounded as ml_dtypes does it."""

from __future__ import annotations

import sys
from typing import Any

import array_libraries
import numpy as np
import pytest
from cuda_machine import fake_machine
from device_runs import NotOnDevice, assert_same_bits, check_bits, run_on_device
from fake_cublas import FakeCublas
from op_samples import samples
from scipy import special
from test_cuda_ops import KINDS

import jitcore
from checking import function_from_source
from jitcore import cuda
from jitcore.codegen.cuda import cublas
from jitcore.cuda import libraries, numpy_calls
from jitcore.ir.bfloat16 import bfloat16
from jitcore.ir.specialize.specialize import specialize
from jitcore.ir.types import array_type
from opinfos import OPINFOS

ml_dtypes = pytest.importorskip("ml_dtypes")

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
RNG = np.random.default_rng(5)
X = (RNG.standard_normal((4, 32)) * 3).astype(BFLOAT16)
Y = (RNG.standard_normal((4, 32)) * 3).astype(BFLOAT16)
SPECIAL = np.array(
    [0, -0.0, np.inf, -np.inf, np.nan, 3.3e38, -3.3e38, 1e-40, -1e-40, 1, 256, 257, 1e-3],
    BFLOAT16,
)
PAIRS = tuple(np.ascontiguousarray(one) for one in np.meshgrid(SPECIAL, SPECIAL))


def chain(x, y):
    return (x * y + x) / (y - 3) - x


def extrema(x, y):
    return np.maximum(x, y) * np.minimum(x, y), np.copysign(x, y)


def compared(x, y):
    return np.where(x < y, x, -y), np.where(x > 1, x, 0), x == y, x > 2


def roots(x, y):
    return np.sqrt(np.abs(x)), np.floor(y), np.trunc(x) - np.rint(y), x // y, np.isnan(x)


def casts(x, y):
    return x.astype(np.float32) * 2, y.astype(np.float64), (x * 8).astype(np.int32), x.astype("f2")


def from_wide(x, y):
    wide = x.astype(np.float64) * 1.0001
    return wide.astype(x.dtype), (y.astype(np.float32) / 3).astype(x.dtype)


def promoted(x, y):
    return x * 0.5, x + 257, y.astype(np.float32) + x, x + y.astype(np.float16), x + True


def made(x, y):
    return np.zeros_like(x), np.full((3, 2), 2.57, x.dtype), np.ones(5, x.dtype), x.copy()


def moved(x, y):
    parts = x[::-1, 1::2].copy(), np.ravel(x)[2:] + y[0, 0]
    return x.T + y.T, np.concatenate([x, y]), *parts, x[:, None] * y[0]


def in_place(x, y):
    x *= y
    x[1:] += 1
    x[0] = 3.3
    y[:, 0] = x[:, 1]


def kept_before_a_write(x, y):
    wide = x.astype(np.float32)
    x[...] = y
    return wide * 2, wide + x


def given_back(x, y):
    wide = x.astype(np.float32)
    return wide, wide + y[0], wide.T * 2


EXACT = [
    kept_before_a_write,
    given_back,
    chain,
    extrema,
    compared,
    roots,
    casts,
    from_wide,
    promoted,
    made,
    moved,
    in_place,
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    "args", [(X, Y), (X[:, 1:], Y[::-1, :-1]), PAIRS], ids=["whole", "strided", "special"]
)
@pytest.mark.parametrize("function", EXACT)
def test_bits(function, args, dynamic):
    if function is casts:
        args = tuple(np.nan_to_num(one, posinf=1, neginf=1) for one in args)
    check_bits(function, args, dynamic=dynamic, nan_signs=False)


def every_function(x, y):
    return (
        (np.exp(x), np.log(np.abs(x)), np.tanh(x), np.sin(x), np.expm1(x), np.log1p(np.abs(x))),
        (np.arctan2(x, y), np.hypot(x, y), np.power(np.abs(x), y), np.logaddexp(x, y)),
    )


@pytest.mark.filterwarnings("ignore")
def test_functions_are_rounded_once():
    host = every_function(X, Y)
    run = run_on_device(every_function, (X, Y))
    for found, wanted in zip(sum(run.result, ()), sum(host, ()), strict=True):
        assert found.dtype == wanted.dtype == BFLOAT16
        # Neighbours differ by one in their bits.
        steps = np.abs(found.view(np.int16).astype(int) - wanted.view(np.int16).astype(int))
        assert steps.max() <= 1 and (steps == 0).mean() > 0.95


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def layer_norm(x):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-3)


def totals(x):
    return x.sum(), x.mean(), x.max(), x.sum(axis=0), x.mean(axis=0), x.min(axis=1), x.std()


def positions(x):
    return x.argmax(), x.argmin(axis=0), (x > 0).sum(), x.any(), np.count_nonzero(x, axis=1)


def fetched(x):
    return float(x.max()), int(x[1, 2]), x.sum(dtype=np.float32)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("function", [softmax, layer_norm, totals, positions, fetched])
def test_nearly(function, dynamic):
    x = X / np.array(4, BFLOAT16)
    wide, wanted = function(x.astype(np.float64)), function(x)
    run = run_on_device(function, (x,), dynamic=dynamic)
    groups = [one if isinstance(one, tuple) else (one,) for one in (run.result, wanted, wide)]
    for found, other, exact in zip(*groups, strict=True):
        found, other = np.asarray(found), np.asarray(other)
        assert (found.dtype, found.shape) == (other.dtype, other.shape)
        largest = np.abs(np.asarray(exact)).max()
        errors = [np.abs(one.astype(np.float64) - exact).max() for one in (found, other)]
        # As near to the exact result as NumPy's, but for two steps of bfloat16.
        assert errors[0] <= errors[1] + 2 * largest / 256


def test_sums_do_not_stop_growing():
    # One more is no more from 256 on, where each step is rounded.
    ones = np.ones(4096, BFLOAT16)
    assert ones.sum() == 256
    assert run_on_device(total, (ones,)).result == 4096


def total(x):
    return x.sum()


def product(x, y):
    return x @ y


def dotted(x, y):
    return np.dot(x, y), np.dot(x[0], y[:, 0])


def with_bias(x, y):
    return np.maximum(x @ y + y[0, 0], 0).astype(x.dtype)


@pytest.mark.parametrize("with_library", [False, True])
@pytest.mark.parametrize("function", [product, dotted, with_bias])
def test_products_are_summed_in_float32(function, with_library):
    x, y = X, np.ascontiguousarray(Y.T)
    library = FakeCublas(fails_with=0 if with_library else 15)
    with fake_machine() as fake, cublas.use(cublas.Cublas(library, "cuBLAS (a fake)")):
        moved = [jitcore.to(one, "cuda") for one in (x, y)]
        found = jitcore.script(function)(*moved)
        found = found if isinstance(found, tuple) else (found,)
        found = tuple(one.numpy() for one in found)
        assert fake.launches or with_library
    wanted = function(x.astype(np.float64), y.astype(np.float64))
    dtypes = function(x, y)
    groups = [one if isinstance(one, tuple) else (one,) for one in (wanted, dtypes)]
    for one, exact, other in zip(found, *groups, strict=True):
        assert one.dtype == other.dtype
        step = 2.0**-8 if one.dtype == BFLOAT16 else 2.0**-20
        scale = np.abs(exact).max()
        np.testing.assert_allclose(one.astype(np.float64), exact, rtol=step, atol=step * scale)
    assert library.products


def norm_with_weights(x, weight, bias):
    centred = x - x.mean(axis=-1, keepdims=True)
    scale = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-3)
    return (centred / scale * weight + bias).astype(x.dtype)


def test_weights_of_rows_are_read_where_they_lie():
    args = X, Y[0].copy(), Y[1].copy()
    run = run_on_device(norm_with_weights, args)
    exact = norm_with_weights(*(one.astype(np.float64) for one in args))
    assert len(run.code.images) == 1 and run.result.dtype == BFLOAT16
    np.testing.assert_allclose(run.result.astype(np.float64), exact, rtol=3e-2, atol=3e-2)


def test_vectors_of_16_bytes():
    source = run_on_device(chain, (X, Y)).code.source
    assert "load_bfloats(x, first, 8)" in source and "store_bfloats(" in source


def test_graphs_have_it_in_casts_only():
    compiled = jitcore.script(chain)
    executor = compiled._executor
    types = [array_type(BFLOAT16, ("n",))] * 2
    typed = specialize(executor.graph, types, {}, executor.compile_function, set())
    assert jitcore.parse_graph(str(typed)).inputs[0].type == types[0]
    assert str(jitcore.parse_graph(str(typed))) == str(typed)
    for node in typed.nodes():
        touches = any(getattr(one.type, "dtype", None) == BFLOAT16 for one in node.inputs)
        assert not touches or node.kind == "np::cast"


# The op table -----------------------------------------------------------------------------


def narrowed(value: Any) -> Any:
    is_float = isinstance(value, np.ndarray) and value.dtype.kind == "f"
    return value.astype(BFLOAT16) if is_float else value


def samples_of(kind: str) -> list[Any]:
    """Calls of a function with float32, whose arrays become bfloat16."""
    found = (sample for info in OPINFOS[kind] for sample in samples(info))
    return [one for one in found if "float32" in one.label][:2]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore")
def test_same_as_ml_dtypes_where_it_is_device_code(kind: str) -> None:
    for sample in samples_of(kind):
        args = tuple(map(narrowed, sample.calls[0]))
        if not any(getattr(one, "dtype", None) == BFLOAT16 for one in args):
            continue
        function = function_from_source(sample.source, special=special, F=jitcore.nn.functional)
        host = tuple(one.copy() if isinstance(one, np.ndarray) else one for one in args)
        try:
            with np.errstate(all="ignore"):
                expected = function(*host)
        except (TypeError, ValueError) as error:
            # What NumPy refuses must not have a result.
            with pytest.raises((NotOnDevice, type(error))):
                run_on_device(function, args)
            continue
        try:
            run = run_on_device(function, args)
        except NotOnDevice:
            continue
        nearly((run.result, *run.args), (expected, *host))


def nearly(found: Any, wanted: Any) -> None:
    """The same dtypes and shapes; numbers that differ by a few roundings to bfloat16 at most."""
    if isinstance(wanted, tuple | list):
        for one, other in zip(found, wanted, strict=True):
            nearly(one, other)
        return
    if not isinstance(wanted, np.ndarray | np.generic):
        return
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    kind = complex if wanted.dtype.kind == "c" else float
    one, other = found.astype(kind), wanted.astype(kind)
    largest = np.abs(other[np.isfinite(other)]).max(initial=1e-3)
    np.testing.assert_allclose(one, other, rtol=2e-2, atol=2e-2 * largest)


# Calls ------------------------------------------------------------------------------------


def scaled(x):
    return x * x + 1


@pytest.mark.parametrize("name", ["Torch", "Cupy", "Jax"])
def test_libraries_get_their_own_bfloat16(name, monkeypatch):
    with fake_machine():
        library = getattr(array_libraries, name)()
        monkeypatch.setitem(sys.modules, library.__name__, library)
        monkeypatch.setattr(libraries, "_torch_dtypes", {})
        monkeypatch.setattr(libraries, "_torch_of", {})
        monkeypatch.setattr(numpy_calls, "_cupy", lambda: None)
        x = library.array(cuda.from_numpy(X))
        for function in (scaled, lambda x: np.cumsum(x, axis=1)):
            found = jitcore.script(function)(x)
            assert type(found) is library.array
            assert_same_bits(found.numpy(), function(X), nan_signs=False)


def test_dlpack_says_bfloat16():
    with fake_machine():
        x = cuda.from_numpy(X)
        held = array_libraries.DlpackArray(x)
        assert_same_bits(cuda.as_array(held).numpy(), X, nan_signs=False)
        assert jitcore.script(scaled)(held).dtype == BFLOAT16


def test_what_has_no_form_runs_in_ml_dtypes():
    def odd(x):
        return np.nextafter(x, x + 1), np.sign(x), np.cumsum(x), x[0]

    with fake_machine():
        found = jitcore.script(odd)(cuda.from_numpy(X))
        assert_same_bits(tuple(one.numpy() for one in found), odd(X), nan_signs=False)


def test_a_specialization_for_each_dtype():
    compiled = jitcore.script(scaled)
    with fake_machine():
        for dtype in (BFLOAT16, np.uint16, np.float16, BFLOAT16):
            x = X.astype(np.float32).astype(dtype)
            with np.errstate(all="ignore"):
                assert_same_bits(compiled(cuda.from_numpy(x)).numpy(), scaled(x), nan_signs=False)
        device = compiled._executor.everywhere()[1]
        assert len(device.specializations) == 3
        assert "BFloat16" in str(compiled.explain(cuda.from_numpy(X)))


def test_the_processor_leaves_it_to_ml_dtypes():
    def mixed(x, y):
        return (np.exp(y) * 2 + 1).astype(x.dtype) + x

    y = Y.astype(np.float32)
    compiled = jitcore.script(mixed)
    assert_same_bits(compiled(X, y), mixed(X, y), nan_signs=False)
    assert_same_bits(jitcore.script(scaled)(X), scaled(X), nan_signs=False)

    def narrowed(y):
        return (np.exp(y) * 2 + 1).astype(ml_dtypes.bfloat16)

    assert_same_bits(jitcore.script(narrowed)(y), narrowed(y), nan_signs=False)


def test_without_ml_dtypes(monkeypatch):
    monkeypatch.setitem(np.sctypeDict, "bfloat16", None)
    monkeypatch.delitem(np.sctypeDict, "bfloat16")
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(TypeError, match="pip install ml_dtypes"):
        bfloat16()
    with pytest.raises(ValueError, match="expected a type, found 'BFloat16'"):
        jitcore.parse_graph("graph(%x : BFloat16[3]):\n  return (%x)\n")
