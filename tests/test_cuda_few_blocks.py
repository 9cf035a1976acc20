"""Blocks take several turns where there are more iterations than a device has blocks."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np
import pytest
from cuda_machine import fake_machine
from test_cuda_failures import PLACES, TABLE, looked_up
from test_cuda_programs import check, layer_norm, log_softmax, rms_norm, softmax

import jitcore
from jitcore.codegen.cuda import nests

RNG = np.random.default_rng()
MOST = 2


@pytest.fixture(autouse=True)
def few_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nests.blocks_for, "__defaults__", (MOST,))
    for module in ("schedule", "tiles"):
        monkeypatch.setattr(f"jitcore.codegen.cuda.{module}.MAX_BLOCKS", MOST)


def numbers(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def squared(x):
    return x * x + 1


def of_every_second(x):
    return x[::2] * 2


def in_place(x):
    x *= 3


def outer(x):
    return x[:, None] * x


def turned(x):
    return x.T + np.ones((x.shape[1], x.shape[0]), x.dtype)


def of_columns(x):
    return x.sum(axis=0), x - x.max(axis=0)


def running_rows(x):
    return np.cumsum(x, axis=1)


ROWS = numbers(11, 300), numbers(37, 40)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    ("function", "args"),
    [
        *((one, (numbers(6001),)) for one in (squared, of_every_second, in_place)),
        (squared, (numbers(6001)[1:],)),
        (outer, (numbers(81),)),
        *((turned, (numbers(*shape),)) for shape in ((96, 64), (65, 97))),
        (turned, (numbers(128, 130).astype(np.float16),)),
        *((one, (rows,)) for one in (softmax, log_softmax, running_rows) for rows in ROWS),
        *((layer_norm, (rows, rows[0], rows[1])) for rows in ROWS),
        (rms_norm, (ROWS[1], ROWS[1][0])),
        (of_columns, (numbers(40, 200),)),
        (looked_up, (TABLE, PLACES)),
    ],
)
def test_programs(function, args, dynamic):
    check(function, args, dynamic=dynamic)


def test_blocks_are_few():
    with fake_machine() as fake:
        jitcore.script(squared)(jitcore.to(numbers(6001), "cuda"))
        assert [one.grid[0] for one in fake.launches] == [MOST]
