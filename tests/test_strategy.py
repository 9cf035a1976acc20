"""Specializations: how many, of which kind, and what runs when there are no more."""

# The functions under test are plain NumPy, as users write them.
# mypy: allow-untyped-defs, allow-untyped-calls

import numpy as np
import pytest

import jitcore
from jitcore import fusion_strategy, script, set_fusion_strategy


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
    ],
)
def test_wrong_strategies(strategy, message):
    with pytest.raises(ValueError, match=message):
        set_fusion_strategy(strategy)


def test_the_context_manager_restores_and_nests():
    outer = jitcore.strategy.current()
    with fusion_strategy([("STATIC", 1)]):
        with fusion_strategy([("DYNAMIC", 3)]):
            assert jitcore.strategy.current() == [("DYNAMIC", 3)]
        assert jitcore.strategy.current() == [("STATIC", 1)]
    assert jitcore.strategy.current() == outer
