# mypy: allow-untyped-defs, allow-untyped-calls
"""What frozen optimizations make of linear maps and of products with constant matrices."""

from typing import Any

import numpy as np
import pytest
from frozen_checking import applied, check, compare, kinds, names, randomized
from script_modules import array, assert_same_error

from jitcore import freeze, nn, optimize_for_inference, script
from jitcore.nn import functional as F


def test_batch_normalization_goes_into_linear_maps():
    model = randomized(nn.Sequential(nn.Linear(5, 4, bias=False), nn.BatchNorm1d(4)))
    frozen = check(model, array(3, 5))
    assert names(frozen) == ["transposed_linear"]
    # Of three axes the second one is the channels.
    wide = randomized(nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(6)))
    check(wide, array(3, 6, 5))
    with pytest.raises(ValueError, match="batch_norm"):
        freeze(script(wide))(array(3, 5))


def test_linear_maps_of_one_array_become_one():
    model = applied(
        lambda self, x: self.q(x) @ self.k(x).T + self.v(x)[:, :1],
        q=nn.Linear(5, 4),
        k=nn.Linear(5, 4, bias=False),
        v=nn.Linear(5, 3),
    ).eval()
    assert names(check(model, array(6, 5))) == ["transposed_linear"]


def test_parts_that_are_returned_are_arrays_of_their_own():
    model = applied(lambda self, x: (self.a(x), self.b(x)), a=nn.Linear(5, 10), b=nn.Linear(5, 1))
    frozen = check(model.eval(), array(50, 5))
    assert names(frozen) == ["transposed_linear"]
    first, second = frozen(array(50, 5))
    assert first.flags["C_CONTIGUOUS"] and second.flags["C_CONTIGUOUS"]


def test_chains_of_linear_maps():
    def forward(self, x):
        first = self.a(x)
        return self.b(x), self.b(first), self.a(first)

    model = applied(forward, a=nn.Linear(5, 5), b=nn.Linear(5, 10)).eval()
    assert names(check(model, array(50, 5))) == ["transposed_linear"] * 2


def test_linear_maps_stay_apart_where_they_must():
    def two_inputs(self, x, y):
        return self.a(x), self.b(y)

    def branches(self, x, y):
        z = self.b(x) if len(y) > 2 else self.a(y)
        return self.a(x), z

    def written_between(self, x, y):
        first = self.a(x)
        x += 1
        return first, self.b(x)

    for function in (two_inputs, branches, written_between):
        model = applied(function, a=nn.Linear(5, 4), b=nn.Linear(5, 4)).eval()
        frozen = check(model, array(6, 5), array(7, 5))
        assert len(names(frozen)) == (3 if function is branches else 2), function.__name__


def test_products_with_constant_matrices_are_joined():
    def attention(self, x):
        scores = (x @ self.q) @ np.swapaxes(np.matmul(x, self.k), -1, -2)
        return np.maximum(scores, 0) @ (x @ self.v)

    def chain(self, x):
        first = np.tanh(x @ self.q * 0.5 + 1)
        return np.maximum(first @ self.k, 0) - first @ self.v, x @ self.v

    for function, products in ((attention, 1), (chain, 2)):
        weights = {name: array(5, 5) * (n + 1) for n, name in enumerate("qkv")}
        model = applied(function, **weights).eval()
        frozen = check(model, array(3, 4, 5))
        assert names(frozen) == ["matmul"] * products
        packed = optimize_for_inference(frozen)
        for shape in ((3, 4, 5), (6, 5), (0, 5)) + ((5,),) * (function is chain):
            x = array(*shape)
            compare(packed(x), model(x), 1e-4, 1e-5)
        assert all(node.keywords for node in packed.graph.nodes() if node.kind.startswith("nn::"))


def test_products_of_other_dtypes_and_objects_run_as_they_were_frozen():
    model = applied(lambda self, x: (x @ self.a, x @ self.b), a=array(5, 4), b=array(5, 3)).eval()
    frozen = check(model, array(6, 5))
    assert names(frozen) == ["matmul"]
    for x in (array(6, 5).astype("f8"), np.ones((2, 5), np.int64), [[1.0] * 5], array(2, 6)):
        try:
            expected = model(x)
        except ValueError:
            assert_same_error(frozen, model, x)
        else:
            compare(frozen(x), expected, 1e-6, 1e-6)
    plain = freeze(script(model), optimize_numerics=False)
    assert kinds(plain).count("prim::matmul") == 2


def test_other_products_stay():
    for function in (
        lambda self, x: self.a @ x,
        lambda self, x: x @ self.stack,
        lambda self, x: x @ self.vector,
        lambda self, x: x @ self.a.astype(np.int64),
        lambda self, x: np.matmul(x, self.a, dtype=np.float64),
    ):
        model = applied(function, a=array(5, 5), stack=array(2, 5, 5), vector=array(5)).eval()
        assert names(check(model, array(5, 5))) == []


def test_weights_that_are_no_constants_are_not_transposed():
    model = applied(lambda self, x, w: F.linear(x, w, self.b), b=array(4)).eval()
    assert names(check(model, array(3, 5), array(4, 5))) == ["linear"]


def test_errors_of_transposed_weights_are_those_of_linear_maps():
    model = nn.Sequential(nn.Linear(5, 4)).eval()
    frozen = freeze(script(model))
    for wrong in (array(3, 4), array(3, 5).astype(np.float64), np.float32(3)):
        assert_same_error(frozen, model, wrong)


def test_queries_keys_and_values_are_one_product():
    for batch_first in (True, False):
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=batch_first)
        model = nn.TransformerEncoder(layer, 2).eval()
        frozen = check(model, array(5, 3, 8))
        linears = [name for name in names(frozen) if "linear" in name]
        assert len(linears) == 2 * 4
    # Without a batch axis what was frozen runs; with a mask the optimized graph does.
    compare(frozen(array(5, 8)), model(array(5, 8)), 1e-4, 1e-5)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    compare(frozen(array(5, 3, 8), mask), model(array(5, 3, 8), mask), 1e-4, 1e-5)


def test_an_optional_argument_may_be_absent() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    model = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    ready = optimize_for_inference(script(model.eval()))
    x = np.random.default_rng(0).standard_normal((2, 5, 8)).astype(np.float32)
    np.testing.assert_allclose(ready(x), model(x), rtol=1e-5, atol=1e-6)
    method: Any = ready.forward
    assert "packed" in str(method._executor.specializations[-1].typed)
    mask = np.triu(np.ones((5, 5), np.bool), 1)
    np.testing.assert_allclose(ready(x, mask), model(x, mask), rtol=1e-5, atol=1e-6)
