"""Attention by its own kernel: layouts of heads and rows, and what only the definition takes."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np
import pytest

from jitcore import nn, optimize_for_inference, script, set_num_threads
from jitcore.nn import functional as F

KIND = "nn::scaled_dot_product_attention"


def draw(*shape, dtype="f4", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def check(function, *args, native=True):
    """Compare with NumPy in twice the precision; say whether the kernel has to be used."""
    compiled = script(function)
    found = compiled(*args)
    exact = function(*(one.astype("f8") for one in args))
    plain = function(*args)
    assert found.dtype == plain.dtype
    assert found.shape == plain.shape
    assert found.flags.c_contiguous
    scale = 1e-6 if found.dtype == np.float32 else 1e-14
    largest = np.nanmax(np.abs(exact), initial=1.0)
    np.testing.assert_allclose(found, exact, 0, scale * largest)
    assert bool(compiled.graph_for(*args).find_all_nodes(KIND)) == native
    return found


def plain(query, key, value):
    return F.scaled_dot_product_attention(query, key, value)


def causal(query, key, value):
    return F.scaled_dot_product_attention(query, key, value, is_causal=True, scale=0.3)


SHAPES = (
    # heads, then queries, keys, features and columns
    ((), 1, 1, 1, 1),
    ((), 13, 33, 17, 5),
    ((3,), 24, 32, 64, 64),
    ((2, 3), 25, 31, 7, 65),
    ((2, 1, 2), 12, 70, 16, 33),
)


@pytest.mark.parametrize("function", [plain, causal])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("sizes", SHAPES)
def test_shapes(function, dtype, sizes):
    heads, queries, keys, features, columns = sizes
    query = draw(*heads, queries, features, dtype=dtype)
    key = draw(*heads, keys, features, dtype=dtype, seed=1)
    value = draw(*heads, keys, columns, dtype=dtype, seed=2)
    check(function, query, key, value)
    check(function, query[..., ::-1], np.asfortranarray(key), value[..., ::-1, :])


def masked(query, key, value, mask):
    return F.scaled_dot_product_attention(query, key, value, mask)


def masks(heads, queries, keys, dtype):
    """One for all axes, and those that heads, queries or both share; then views of larger ones."""
    yield draw(*heads, queries, keys, dtype=dtype, seed=3)
    yield draw(queries, keys, dtype=dtype, seed=4)
    yield draw(keys, dtype=dtype, seed=5)
    yield draw(*heads[:1], *(1 for _ in heads[1:]), 1, keys, dtype=dtype, seed=6)
    yield draw(keys, queries, dtype=dtype, seed=7).T
    yield draw(queries, 2 * keys, dtype=dtype, seed=8)[::-1, 1::2]


@pytest.mark.parametrize("is_bool", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(
    "sizes", [((), 13, 33, 17, 5), ((3,), 24, 32, 64, 64), ((2, 3), 25, 31, 7, 65)]
)
def test_masks(sizes, dtype, is_bool):
    heads, queries, keys, features, columns = sizes
    query = draw(*heads, queries, features, dtype=dtype)
    key = draw(*heads, keys, features, dtype=dtype, seed=1)
    value = draw(*heads, keys, columns, dtype=dtype, seed=2)
    compiled = script(masked)
    for mask in masks(heads, queries, keys, dtype):
        mask[..., :2] = -np.inf
        some = mask > -0.5 if is_bool else mask
        found = compiled(query, key, value, some)
        # Rows that are masked as a whole are among them where the mask is of one row.
        expected = masked(query, key, value, some)
        np.testing.assert_allclose(found, expected, 0, 1e-5 if dtype == "f4" else 1e-13)
        assert compiled.graph_for(query, key, value, some).find_all_nodes(KIND)


def test_rows_that_a_mask_leaves_nothing_are_zeros():
    query, key, value = (draw(2, 9, 8, seed=seed) for seed in range(3))
    nothing = np.ones((9, 9), np.bool)
    nothing[4] = False
    minus_infinity = np.where(nothing, np.float32(0), np.float32(-np.inf))
    key[:, 3] = np.nan
    nothing[:, 3] = False
    for mask in (nothing, minus_infinity):
        with np.errstate(invalid="ignore"):
            expected = masked(query, key, value, mask)
        np.testing.assert_allclose(script(masked)(query, key, value, mask), expected, 1e-5, 1e-6)
    assert not script(masked)(query, key, value, nothing)[:, 4].any()


def test_masks_that_only_the_definition_takes():
    query, key, value = draw(2, 1, 8), draw(2, 5, 8), draw(2, 5, 3)
    odd = (draw(2, 4, 5), draw(3, 2, 1, 5), draw(1, 1))
    for mask in odd:
        compiled = script(masked)
        expected = masked(query, key, value, mask)
        np.testing.assert_allclose(compiled(query, key, value, mask), expected, 1e-5, 1e-6)
        assert not compiled.graph_for(query, key, value, mask).find_all_nodes(KIND)
    with pytest.raises(ValueError):
        script(masked)(draw(2, 4, 8), key, value, draw(3, 5))
    with pytest.raises(TypeError, match="attn_mask"):
        script(masked)(query, key, value, draw(1, 5, dtype="f8"))


def test_masks_of_extents_that_only_a_call_shows():
    compiled = script(masked)
    for length in (5, 6, 7, 40):
        query, key, value = (draw(2, length, 8, seed=n) for n in range(3))
        mask = draw(length, length, seed=3)
        expected = masked(query, key, value, mask)
        np.testing.assert_allclose(compiled(query, key, value, mask), expected, 1e-5, 1e-6)
    with pytest.raises(ValueError):
        compiled(query, key, value, draw(length, length - 1))


def test_padding_and_causal_masks_of_layers():
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval()
    ready = optimize_for_inference(script(layer))
    x = draw(3, 10, 16)
    later = np.triu(np.ones((10, 10), np.bool), 1)
    padding = np.arange(10) > np.array([[9], [5], [7]])
    for mask, padded in ((later, None), (None, padding), (later, padding)):
        np.testing.assert_allclose(ready(x, mask, padded), layer(x, mask, padded), 1e-4, 1e-5)
        assert ready.graph_for(x, mask, padded).find_all_nodes(KIND)


def test_heads_in_the_middle():
    joined = draw(21, 2, 3 * 4 * 8)
    parts = [
        joined[..., start : start + 32].reshape(21, 2, 4, 8).transpose(1, 2, 0, 3)
        for start in (0, 32, 64)
    ]
    check(plain, *parts)


def test_nan_and_infinity():
    query, key, value = (draw(2, 9, 8, seed=seed) for seed in range(3))
    query[0, 3] = np.nan
    key[1, 2] = -np.inf
    with np.errstate(all="ignore"):
        expected = plain(query, key, value)
    np.testing.assert_allclose(script(plain)(query, key, value), expected, 1e-5, 1e-6)
    assert np.isnan(expected).any() and not np.isnan(expected).all()


def test_nothing_to_see_or_to_show():
    check(plain, draw(2, 0, 8), draw(2, 5, 8), draw(2, 5, 3))
    check(plain, draw(2, 5, 8), draw(2, 0, 8), draw(2, 0, 3))
    check(plain, draw(0, 5, 8), draw(0, 4, 8), draw(0, 4, 3))
    assert not script(plain)(draw(5, 8), draw(0, 8), draw(0, 3)).any()


def test_extents_that_only_a_call_shows():
    compiled = script(plain)
    for length in (5, 6, 7, 40, 41):
        query, key, value = (draw(2, length + n, 8, seed=n) for n in range(3))
        key, value = key[:, :length], value[:, :length]
        np.testing.assert_allclose(
            compiled(query, key, value), plain(query, key, value), 1e-5, 1e-6
        )
    with pytest.raises(ValueError, match="expected query"):
        compiled(draw(2, 9, 8), draw(2, 9, 7), draw(2, 9, 8))


def test_broadcast_heads_and_many_keys_are_left_to_the_definition():
    check(plain, draw(2, 5, 8), draw(1, 6, 8), draw(2, 6, 3), native=False)
    check(plain, draw(2, 4), draw(5000, 4), draw(5000, 2), native=False)


def shared(query, key, value, mask=None):
    return F.scaled_dot_product_attention(query, key, value, mask, enable_gqa=True)


def shared_causal(query, key, value):
    return F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)


@pytest.mark.parametrize("function", [shared, shared_causal])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(
    ("heads", "of_keys"), [((6,), (2,)), ((4,), (1,)), ((2, 6), (2, 3)), ((2, 3, 4), (2, 3, 2))]
)
def test_shared_heads(function, dtype, heads, of_keys):
    query = draw(*heads, 14, 16, dtype=dtype)
    key = draw(*of_keys, 35, 16, dtype=dtype, seed=1)
    value = draw(*of_keys, 35, 9, dtype=dtype, seed=2)
    check(function, query, key, value)
    apart = np.ascontiguousarray(key.swapaxes(-3, -2)).swapaxes(-3, -2)
    check(function, query[..., ::-1, :], apart, value[..., ::-1])


def test_shared_heads_with_masks_and_extents_that_only_a_call_shows():
    compiled = script(shared)
    for heads, length in ((6, 5), (4, 7), (2, 9), (8, 40), (0, 3)):
        query = draw(3, heads, length, 8)
        key, value = (draw(3, 2, length, 8, seed=n) for n in (1, 2))
        for mask in (draw(length, length, seed=3), draw(3, heads, 1, length, seed=4)):
            np.testing.assert_allclose(
                compiled(query, key, value, mask), shared(query, key, value, mask), 1e-5, 1e-6
            )
    assert compiled.graph_for(query, key, value, mask).find_all_nodes(KIND)
    with pytest.raises(ValueError, match="heads of key and value must divide"):
        compiled(draw(3, 5, 7, 8), draw(3, 2, 7, 8), draw(3, 2, 7, 8), draw(7, 7))


def test_shared_heads_that_only_the_definition_takes():
    check(shared, draw(6, 5, 8), draw(2, 4, 8), draw(3, 4, 8), native=False)
    check(shared, draw(2, 6, 5, 8), draw(1, 2, 4, 8), draw(1, 2, 4, 8), native=False)
    with pytest.raises(ValueError, match="heads of key and value must divide"):
        script(shared)(draw(5, 8), draw(5, 8), draw(5, 8))


def test_threads_change_no_bit():
    parts = [draw(4, 6, 150, 32, seed=seed) for seed in range(3)]
    compiled = script(plain)
    before = set_num_threads(1)
    try:
        alone = compiled(*parts)
        set_num_threads(3)
        np.testing.assert_array_equal(compiled(*parts), alone)
    finally:
        set_num_threads(before)


def test_layers_use_it():
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval()
    x = draw(3, 10, 16)
    ready = optimize_for_inference(script(layer))
    np.testing.assert_allclose(ready(x), layer(x), 1e-4, 1e-5)
    assert ready.graph_for(x).find_all_nodes(KIND)


def test_dropout_in_training_is_numpys():
    layer = nn.MultiheadAttention(8, 2, dropout=0.5)
    x = draw(5, 3, 8)
    nn.manual_seed(1)
    expected, _ = layer(x, x, x, need_weights=False)
    nn.manual_seed(1)
    found, _ = script(layer)(x, x, x, need_weights=False)
    np.testing.assert_allclose(found, expected, 1e-5, 1e-6)
