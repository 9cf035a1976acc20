"""The models of both libraries agree, and every peer gets to a result."""

from __future__ import annotations

import time

import pytest

from bench.measure_models import measure, table
from bench.models import MODELS

SMALL = [case for case in MODELS if case.name in ("MLP", "LeNet", "LSTM")]


@pytest.mark.parametrize("case", SMALL, ids=[case.name for case in SMALL])
def test_small_models(case) -> None:  # type: ignore[no-untyped-def]
    row = measure(case, 2, 1, compile_=False, clock=time.perf_counter)
    assert not row.wrong
    assert set(row.best) == {"torch eager", "torch.jit", "jitcore"}
    assert row.difference < 1e-5
    assert row.operations > 0
    assert case.name in table([row], 1e9)
