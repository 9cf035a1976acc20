"""Running layers by oneDNN, where it is installed, and comparing them with NumPy."""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-incomplete-defs

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from jitcore import optimize_for_inference, script
from jitcore.codegen.onednn import functions
from jitcore.codegen.onednn import library as onednn_library

__all__ = [
    "activities",
    "array",
    "compare",
    "compare_function",
    "compare_model",
    "implementations",
    "is_installed",
    "needs_library",
    "symbols",
]

is_installed = onednn_library.find_library() is not None
needs_library = pytest.mark.skipif(not is_installed, reason="oneDNN is not installed")


def array(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def symbols(compiled) -> list[str]:
    """The names of a compiled function's groups, the last made last."""
    found = re.findall(r"jc_onednn_[0-9a-f]{32}", compiled.kernels[-1].source)
    return list(dict.fromkeys(found))


def activities(compiled) -> list[functions.Activity]:
    """What the groups of a compiled function have done."""
    return [functions.activity(symbol) for symbol in symbols(compiled)]


def implementations(compiled) -> list[str]:
    return [name for one in activities(compiled) for name in one.implementations.elements()]


def compare(compiled, plain, *args, rtol=1e-5, atol=1e-5) -> None:
    """The same numbers as NumPy's, and each group was oneDNN's."""
    expected = plain(*args)
    before = {id(one): one.calls for one in activities(compiled)} if compiled.kernels else {}
    result = compiled(*args)
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected, rtol=rtol, atol=atol)
    found = activities(compiled)
    assert found
    for one in found:
        assert one.calls > before.get(id(one), 0), one.reason


def compare_function(function, *args, **tolerances) -> None:
    compare(script(function), function, *args, **tolerances)


def compare_model(model, *inputs, rtol=1e-5, atol=1e-5):
    """Optimized for inference; gives what ran."""
    ready: Any = optimize_for_inference(script(model.eval()))
    for x in inputs:
        compare(ready.forward, model, x, rtol=rtol, atol=atol)
    return ready.forward
