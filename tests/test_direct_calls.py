# mypy: allow-untyped-defs, allow-untyped-calls
"""Calls go to machine code at once, whatever the function does meanwhile."""

from __future__ import annotations

import gc
import inspect
import weakref

import numpy as np
import pytest

import jitcore
from jitcore import ScriptFunction, fusion_strategy, last_executed_optimized_graph, script

SHIFT = 1.0


def shifted(x):
    return x * 2 + SHIFT


def joined(*parts, sep=","):
    return np.concatenate(parts) + len(sep)


def shown(x):
    return str(x)


def test_it_is_a_script_function_like_any_other() -> None:
    function = script(shifted)
    function(np.ones(3))
    assert isinstance(function, ScriptFunction) and type(function).__name__ == "ScriptFunction"
    assert inspect.signature(function) == inspect.signature(shifted)
    assert callable(function) and function.__name__ == "shifted"
    np.testing.assert_equal(function.__call__(np.ones(3)), np.full(3, 3.0))
    np.testing.assert_equal(function(x=np.ones(3)), np.full(3, 3.0))


def test_the_call_is_a_built_in_where_entries_check_everything() -> None:
    function = script(shifted)
    assert inspect.isfunction(type(function).__call__) or inspect.ismethod(type(function).__call__)
    function(np.ones(3))
    assert inspect.isbuiltin(type(function).__call__)


def test_functions_do_not_share_their_calls() -> None:
    first, second = script(shifted), script(lambda x: x - 1)
    for _ in range(2):
        np.testing.assert_equal(first(np.ones(3)), np.full(3, 3.0))
        np.testing.assert_equal(second(np.ones(3)), np.zeros(3))


def test_another_global_is_seen() -> None:
    global SHIFT
    function, x = script(shifted), np.ones(3)
    try:
        for value in (1.0, 5, 1.0, np.float32(2), 5):
            SHIFT = value  # type: ignore[assignment]
            for _ in range(2):
                np.testing.assert_equal(function(x), shifted(x))
    finally:
        SHIFT = 1.0


def test_variadic_functions() -> None:
    function = script(joined)
    for _ in range(2):
        np.testing.assert_equal(function(np.ones(1), np.zeros(2), sep="ab"), [3.0, 2.0, 2.0])


def test_dropped_functions_go() -> None:
    function = script(lambda x: x + 1)
    function(np.ones(3))
    gone, their_class = weakref.ref(function), weakref.ref(type(function))
    del function
    gc.collect()
    assert gone() is None and their_class() is None


def test_the_last_call_is_known() -> None:
    native, other, host = script(shifted), script(lambda x: x - 1), script(shown)
    x = np.ones(3)
    for function in (native, other, host, native, host, other, native):
        function(x)
        graph = function.specializations[-1].plan.graph
        assert last_executed_optimized_graph() is graph
    with fusion_strategy([("STATIC", 1)]):
        native(np.ones((2, 2)))
    assert last_executed_optimized_graph() is native.specializations[-1].plan.graph


def test_plain_python_is_untouched_by_jit_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITCORE_JIT", "0")
    assert jitcore.script(shifted) is shifted


def test_warmup_compiles_and_runs_nothing() -> None:
    calls = []

    def noted(x):
        calls.append(1)
        x += 1
        return x * 2

    function, x = script(shifted), np.ones(3)
    jitcore.warmup(function, x)
    assert len(function.specializations) == 1
    function(x)
    assert len(function.specializations) == 1
    jitcore.warmup(script(noted), x)
    assert calls == []
    np.testing.assert_equal(x, np.ones(3))
    model = jitcore.script(jitcore.nn.Linear(3, 2))
    jitcore.warmup(model, np.ones((1, 3), np.float32))
    assert len(model.forward.specializations) == 1
    with pytest.raises(TypeError, match="takes what script"):
        jitcore.warmup(shifted, x)
    with pytest.raises(TypeError, match="missing 1 required"):
        jitcore.warmup(function)


def test_code_with_its_constants_runs() -> None:
    function, x = script(shifted), np.arange(3.0)
    code, constants = function.code_with_constants
    namespace = dict(constants)
    exec(code, namespace)
    np.testing.assert_equal(namespace["shifted"](x), shifted(x))


@script
def factorial(n):
    return 1 if n <= 1 else n * factorial(n - 1)


def test_explain_says_that_recursion_runs_in_python() -> None:
    report = factorial.explain(5)
    assert report.result == 120 and factorial.is_recursive
    assert "runs in Python, as it is: it calls itself" in str(report)
    assert factorial.specializations == [] and "specialization" not in str(report)
