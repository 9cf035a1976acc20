"""The benchmark on a GPU, on a device that is none: it measures, compares with NumPy and writes."""

from __future__ import annotations

import importlib
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from cuda_machine import fake_machine
from fake_cuda import FakeDriver
from source_files import ROOT

SIZE = 256


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``bench.gpu`` with few elements of everything."""
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    made = importlib.import_module("bench.gpu")
    small = {"ROW": 32, "CHECKED": SIZE, "SMALL": 64, "LAYERS": 1, "WIDTH": 4}
    for name, value in small.items():
        monkeypatch.setattr(made, name, value)
    ticks = itertools.count()
    monkeypatch.setattr(
        FakeDriver,
        "record",
        lambda self, event, stream=0: self._events.update({event: next(ticks) * 1e-3}),
    )
    return made


def test_rows_and_the_table(gpu: Any, tmp_path: Path) -> None:
    programs = ["elementwise chain", "sum", "softmax, bfloat16"]
    arguments = f"--sizes {SIZE} --rounds 1 --calls 1 --launches 1 --peers jitcore --output".split()
    with fake_machine():
        gpu.main([*arguments, str(tmp_path), "--programs", *programs])
    written = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))
    assert written["facts"]["device"] == "fake device"
    assert [row["program"] for row in written["rows"]] == programs
    for row in written["rows"]:
        assert row["wrong"] == {} and row["seconds"]["jitcore"] > 0
        assert row["moved"] > 0 and row["copied"] > 0
    assert len(written["overheads"]) == 3
    page = (tmp_path / "gpu.md").read_text(encoding="utf-8")
    assert all(f"| {name} |" in page for name in programs)


def test_what_is_wrong_is_left_out(gpu: Any, tmp_path: Path) -> None:
    """A library whose result differs from NumPy's has no time in the row."""
    peer, doubled = gpu.PEERS[0], gpu.PEERS[0].prepare

    def prepare(function: Any, arrays: Any) -> Any:
        call = doubled(function, arrays)
        return lambda: call() * 2

    wrong = type(peer)("jitcore", peer.module, prepare)
    program = next(one for one in gpu.PROGRAMS if one.name == "elementwise chain")
    with fake_machine():
        row = gpu.measure(program, SIZE, [wrong], rounds=1, calls=1)
    assert not row.seconds and "differs from NumPy" in row.wrong["jitcore"]
