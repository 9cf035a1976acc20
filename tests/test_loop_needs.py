# mypy: allow-untyped-defs, allow-untyped-calls
"""Passes over loop nests are imported only where there is what they look for."""

from __future__ import annotations

import copy
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from checking import function_from_source
from jitcore import pipeline, script
from jitcore.codegen import loop_passes, lower

RANDOM = np.random.default_rng(3)
ROWS = RANDOM.random((600, 40))
LARGE = RANDOM.random((2048, 1024))
PROGRAMS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "bits": ("s = 0\n    for i in range(x):\n        s ^= i * 5\n    return s", (9,)),
    "elements": ("return x + 1", (ROWS,)),
    "choices": ("return np.where(x > 0.5, x / 3, np.sqrt(x) / 7)", (ROWS,)),
    "rows": (
        "e = np.exp(x - x.max(axis=1)[:, None])\n    return e / e.sum(axis=1)[:, None]",
        (ROWS,),
    ),
    "narrow sums": ("return x.sum()", (ROWS.astype(np.float32),)),
    "parts": ("n = 2 * x - 1\n    n[1:-1] += x[2:]\n    return n", (ROWS,)),
    "rolls": ("return np.roll(x, 1) + x", (ROWS[0],)),
    "steps": ("for i in range(1, 600):\n        x[i] += x[i - 1] * 0.5\n    return x", (ROWS,)),
    "running sums": ("return np.cumsum(x * x, axis=1)", (LARGE[:40],)),
    "products": ("return x.T @ (x @ x[0])", (LARGE,)),
    "bins": (
        "y = np.zeros(9)\n    for i in range(9):\n        y[i] = x[x > i / 9].mean()\n    return y",
        (LARGE.ravel(),),
    ),
}


def test_what_needs_no_pass_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    run, runs = loop_passes.run_where, defaultdict[str, set[bool]](set)

    def run_always(is_needed: bool, place: str, code: Any, *args: Any) -> Any:
        runs[place].add(is_needed)
        changed = run(True, place, copy.deepcopy(code), *args)
        assert is_needed or changed == code, place
        return run(is_needed, place, code, *args)

    monkeypatch.setattr(loop_passes, "run_where", run_always)
    monkeypatch.setattr(lower, "run_where", run_always)
    monkeypatch.setattr(pipeline, "gains_by_prefetches", lambda: True)
    for body, arguments in PROGRAMS.values():
        function = function_from_source(f"def f(x):\n    {body}\n")
        expected = function(*copy.deepcopy(arguments))
        result = script(function)(*copy.deepcopy(arguments))
        np.testing.assert_allclose(result, expected, rtol=1e-6)
    assert len(runs) == 22
    assert all(found == {False, True} for found in runs.values()), runs
