"""Specializations: how many, of which kind, and what runs when there are no more."""

# The functions under test are plain NumPy, as users write them.
# mypy: allow-untyped-defs, allow-untyped-calls

import numpy as np
import pytest

from jitcore import fusion_strategy, script, set_fusion_strategy
from jitcore.execution import strategy


def plain(x, y):
    return np.tanh(x + y) * 2


def kinds(function):
    return [one.kind for one in function.specializations]


def call(function, *shape, dtype=np.float32):
    x = np.random.default_rng(0).random(shape).astype(dtype)
    y = x * 2
    np.testing.assert_allclose(function(x, y), plain(x, y), rtol=1e-6)


def test_default_is_torchscripts():
    previous = set_fusion_strategy([("STATIC", 1)])
    try:
        assert previous == [("STATIC", 2), ("DYNAMIC", 10)]
    finally:
        assert set_fusion_strategy(previous) == [("STATIC", 1)]


def test_two_static_then_one_dynamic_then_unfused():
    f = script(plain)
    with fusion_strategy([("STATIC", 2), ("DYNAMIC", 1)]):
        call(f, 4)
        call(f, 4)
        assert kinds(f) == ["STATIC"]
        call(f, 5)
        assert kinds(f) == ["STATIC", "STATIC"]
        call(f, 6)
        assert kinds(f) == ["STATIC", "STATIC", "DYNAMIC"]
        call(f, 7)
        call(f, 4)
        call(f, 8)
        assert kinds(f) == ["STATIC", "STATIC", "DYNAMIC"]
        call(f, 3, 4)  # another rank: nothing left
        call(f, 4, dtype=np.float64)
        call(f, 1)  # another pattern of extents of 1
        assert kinds(f) == ["STATIC", "STATIC", "DYNAMIC"]


def test_the_fallback_is_recorded_as_such():
    f = script(plain)
    with fusion_strategy([("DYNAMIC", 1)]):
        call(f, 4)
        report = str(f.explain(np.ones((2, 2)), np.ones((2, 2))))
    assert "unfused" in report
    assert kinds(f) == ["DYNAMIC"]


def test_no_specializations_at_all():
    f = script(plain)
    with fusion_strategy([]):
        call(f, 4)
    assert kinds(f) == []


def test_dynamic_serves_all_sizes_of_one_pattern():
    f = script(plain)
    with fusion_strategy([("DYNAMIC", 1)]):
        for n in (5, 0, 2, 1000, 17):
            call(f, n, 3)
        assert kinds(f) == ["DYNAMIC"]


def mixed(x, row, column):
    return (x + row) * column - x


def test_dynamic_kernels_fuse_what_static_ones_do():
    args = np.ones((4, 3)), np.arange(3.0), np.arange(4.0)[:, None]
    for kind in ("STATIC", "DYNAMIC"):
        f = script(mixed)
        with fusion_strategy([(kind, 1)]):
            groups = f.graph_for(*args).find_all_nodes("prim::FusionGroup")
            np.testing.assert_array_equal(f(*args), mixed(*args))
        assert [len(group.attributes["graph"].block.nodes) for group in groups] == [3]


def test_layout_and_dtype_are_part_of_a_specialization():
    f = script(plain)
    with fusion_strategy([("DYNAMIC", 4)]):
        x = np.random.rand(6, 4)
        for one in (x, x.T, x[:, ::2], x.astype(np.float32)):
            np.testing.assert_allclose(f(one, one), plain(one, one), rtol=1e-6)
        assert kinds(f) == ["DYNAMIC"] * 4


def test_each_structure_of_arguments_has_its_own_budget():
    f = script(plain)
    with fusion_strategy([("STATIC", 1)]):
        x = np.arange(3.0)
        for y in (x, 2.0, 3):
            np.testing.assert_allclose(f(x, y), plain(x, y))
        assert kinds(f) == ["STATIC"] * 3


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        ([("FOO", 1)], "found 'FOO'"),
        ([("STATIC", -1)], "found -1"),
        ([("STATIC", True)], "found True"),
        ([("STATIC",)], "pairs"),
        (["STATIC"], "pairs"),
        ("STATIC", "pairs .* found 'STATIC'"),
        (None, "pairs .* found None"),
    ],
)
def test_wrong_strategies(strategy, message):
    with pytest.raises(ValueError, match=message):
        set_fusion_strategy(strategy)


def test_the_context_manager_restores_and_nests():
    outer = strategy.current()
    with fusion_strategy([("STATIC", 1)]):
        with fusion_strategy([("DYNAMIC", 3)]):
            assert strategy.current() == [("DYNAMIC", 3)]
        assert strategy.current() == [("STATIC", 1)]
    assert strategy.current() == outer


def stacked(s, n):
    result = np.empty((n, len(s)), s.dtype)
    for i in range(n):
        s = s ^ (s << 3)
        result[i] = s
    return result


def paired(a, a0_):
    return a[0] * a[1], a0_ + 1


def test_symbols_of_arguments_differ_from_all_others():
    """Extents that compiled code takes for equal because of their names need not be."""
    x = np.arange(6.0)
    with fusion_strategy([("DYNAMIC", 2)]):
        f = script(stacked)
        for length, count in [(2, 3), (4, 10), (5, 2)]:
            s = np.arange(length, dtype=np.uint32)
            np.testing.assert_array_equal(f(s, count), stacked(s, count))
        g = script(paired)
        for short in (2, 3):
            product, rest = g((x, x), x[:short])
            np.testing.assert_array_equal(product, x * x)
            np.testing.assert_array_equal(rest, x[:short] + 1)
    assert kinds(f) == kinds(g) == ["DYNAMIC"]


def applied(function, x):
    return function(x) * 2


def scaling(factor):
    return lambda x: x * factor


def test_functions_made_anew_at_each_call_are_compiled_for_a_few_times_only():
    scripted = script(applied)
    for factor in range(30):
        assert scripted(scaling(factor), 3.0) == factor * 6.0
    assert len(scripted.specializations) < 15


def test_functions_made_anew_in_a_tuple():
    scripted = script(lambda functions, x: functions[0](x) + functions[1](x))
    for factor in range(40):
        assert scripted((scaling(factor), scaling(1)), 3.0) == factor * 3.0 + 3.0
    assert len(scripted.specializations) < 15


def shares(x):
    return x / x.sum(axis=1, keepdims=True)


def keys(function):
    """The shapes that the first argument may have, specialization by specialization."""
    return [one.key[0][2] for one in function.specializations]


def rows(count, columns, dtype=np.float64):
    return np.random.default_rng(count).uniform(1, 2, (count, columns)).astype(dtype)


def test_dynamic_kernels_know_short_extents_that_never_varied():
    f = script(shares)
    for count in (4, 5, 6, 7, 1000):
        np.testing.assert_allclose(f(rows(count, 3)), shares(rows(count, 3)), rtol=1e-14)
    assert keys(f) == [(4, 3), (5, 3), (None, 3)]
    for columns in (5, 6, 3, 40):
        np.testing.assert_allclose(f(rows(8, columns)), shares(rows(8, columns)), rtol=1e-14)
    assert keys(f) == [(4, 3), (5, 3), (None, 3), (None, None)]
    f(rows(9, 3, np.float32))
    assert keys(f)[4:] == [(None, None)]


def test_dynamic_kernels_know_long_extents_once_others_have_changed():
    f = script(shares)
    for count in (4, 5, 6, 7, 1000):
        np.testing.assert_allclose(f(rows(count, 500)), shares(rows(count, 500)), rtol=1e-14)
    assert keys(f)[2:] == [(None, 500)]
    g = script(shares)
    for dtype in (np.float64, np.float32, np.float16):
        g(rows(90, 500, dtype))  # nothing shows which extent will change
    assert keys(g)[2:] == [(None, None)]


def copies(x, y):
    return x + 1, y * 2


def test_what_knows_extents_leaves_room_for_what_knows_none():
    """As many dtypes and layouts run compiled as if no kernel knew an extent."""
    f, g = script(copies), script(copies)
    forms = [np.float64, np.float32, np.int64, np.int32, np.int16, np.uint8]
    with fusion_strategy([("STATIC", 1), ("DYNAMIC", 6)]):
        for columns in (3, 70, 4, 71):
            for dtype in forms:
                for count in (5, 6):
                    args = rows(count, columns), rows(count, columns, dtype)
                    for one, other in zip(f(*args), copies(*args), strict=True):
                        np.testing.assert_array_equal(one, other, strict=True)
                    assert len(f.specializations) <= 7
    # All that is left knows no extent but those of the first call.
    assert kinds(f) == ["STATIC"] + ["DYNAMIC"] * 6
    assert {one.key[1][1] for one in f.specializations} == {np.dtype(one) for one in forms}
    assert keys(f)[1:] == [(None, None)] * 6
    with fusion_strategy([("DYNAMIC", 2), ("STATIC", 1)]):
        for columns, count in [(3, 5), (3, 6), (4, 6), (5, 7)]:
            for dtype in forms[:2]:
                args = rows(count, columns), rows(count, columns, dtype)
                for one, other in zip(g(*args), copies(*args), strict=True):
                    np.testing.assert_array_equal(one, other, strict=True)
    assert len(g.specializations) <= 3


def test_the_last_dynamic_kernel_knows_no_extents_but_one():
    f = script(shares)
    with fusion_strategy([("STATIC", 1), ("DYNAMIC", 1)]):
        for columns in (3, 3, 4, 5):
            count = len(f.specializations) + 2
            np.testing.assert_allclose(
                f(rows(count, columns)), shares(rows(count, columns)), rtol=1e-14
            )
    assert keys(f) == [(2, 3), (None, None)]


def test_extents_in_tuples_and_of_regions_are_known():
    f = script(lambda pair, n: (pair[0] * pair[1].sum(axis=1, keepdims=True), str(n)))
    for count in (4, 5, 6, 7):
        x = rows(count, 3)
        result, text = f((x, x), count)
        np.testing.assert_allclose(result, x * x.sum(axis=1, keepdims=True), rtol=1e-14)
        assert text == str(count)


def test_static_kernels_are_asked_before_dynamic_ones(monkeypatch):
    f = script(shares)
    for count in (4, 5, 6, 7):
        f(rows(count, 70))
    f(rows(4, 70, np.float32))
    executor, asked = f._executor, []
    bind = executor._bind

    def noted(found, following):
        asked.append(found)
        return bind(found, following)

    monkeypatch.setattr(executor, "_bind", noted)
    executor.chain()
    # Each gets the one before it for what it does not take.
    assert [one.kind for one in reversed(asked)] == ["STATIC"] * 2 + ["DYNAMIC"] * 2
    for count in (4, 5, 6, 7):
        np.testing.assert_allclose(f(rows(count, 70)), shares(rows(count, 70)), rtol=1e-14)
