"""The benchmark for GPUs on the devices of the tests, which are none: who is measured, and how."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from cuda_machine import fake_machine
from fake_cuda import FakeDriver
from scipy import special

from bench import gpu, programs
from bench.gpu_peers import OURS, PEERS, Peer, jax_form, torch_form
from jitcore import cuda

SIZE = 64


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    """A device on which every two events lie one second apart."""
    with fake_machine() as made:
        ticks = itertools.count()
        monkeypatch.setattr(
            made, "record", lambda event, stream=0: made._events.update({event: next(ticks)})
        )
        monkeypatch.setattr(gpu, "ROW", 16)
        monkeypatch.setattr(gpu, "CHECKED", SIZE)
        monkeypatch.setattr(gpu, "SMALL", SIZE)
        monkeypatch.setattr(gpu, "LAYERS", 2)
        monkeypatch.setattr(gpu, "WIDTH", 2)
        yield made


@pytest.mark.parametrize("program", gpu.PROGRAMS, ids=[one.name for one in gpu.PROGRAMS])
def test_programs(fake: FakeDriver, program: gpu.Program) -> None:
    row = gpu.measure(program, SIZE, PEERS[:1], rounds=3, calls=4)
    assert not row.wrong
    assert row.seconds == {OURS: 0.25}
    sizes = [one.nbytes for one in program.arguments(SIZE)]
    if program.is_of_memory:
        size = program.arguments(SIZE)[0].itemsize
        assert row.moved == sum(sizes) + (size if program.name == "sum" else SIZE * size)
        assert row.copied == row.moved // 2 * 2 / 0.25
        assert row.of_copy == pytest.approx(1)
    else:
        assert row.of_copy is None and not row.moved
    assert row.ratio is None


@pytest.mark.parametrize("program", gpu.PROGRAMS, ids=[one.name for one in gpu.PROGRAMS])
@pytest.mark.parametrize("library", ["torch", "jax"])
def test_forms_for_other_libraries(
    library: str, program: gpu.Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They compute the same, on the processor here."""
    made: Any = pytest.importorskip(library)
    monkeypatch.setattr(gpu, "ROW", 64)
    arguments = program.arguments(1 << 12)
    if library == "torch":
        bits = {"bfloat16": made.bfloat16, "float16": made.float16, "float32": made.float32}
        given = [made.from_numpy(np.float32(one)).to(bits[one.dtype.name]) for one in arguments]
        found = torch_form(program.function)(*given).float().numpy()
    else:
        found = np.asarray(jax_form(program.function)(*map(made.numpy.asarray, arguments)))
    expected = program.function(*(one.astype(np.float64) for one in arguments))
    error = np.max(np.abs(found.astype(float) - expected)) / np.max(np.abs(expected))
    assert error < program.tolerance


@pytest.mark.parametrize("fuses", [True, False])
def test_what_cupy_does_not_fuse_runs(fuses: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list[Any]()

    def fuse(function: Any) -> Any:
        def fused(*arrays: Any) -> Any:
            calls.append(function)
            if not fuses:
                raise NotImplementedError
            return function(*arrays)

        return fused

    stand_in = ModuleType("cupy")
    vars(stand_in).update(vars(np), __name__="cupy", fuse=fuse)
    monkeypatch.setitem(sys.modules, "cupy", stand_in)
    monkeypatch.setitem(sys.modules, "cupyx.scipy.special", special)
    (peer,) = (one for one in PEERS if one.name == "CuPy")
    x = np.random.default_rng(0).standard_normal((3, 5))
    softmax: Any = programs.softmax
    assert np.array_equal(peer.prepare(softmax, (x,))(), softmax(x))
    assert len(calls) == 1 + fuses


def test_memory_that_is_not_there(fake: FakeDriver, tmp_path: Path) -> None:
    fake.memory_bytes = 1 << 17
    sizes = ["--sizes", str(1 << 16), str(SIZE)]
    counts = ["--rounds", "1", "--calls", "2", "--launches", "1"]
    gpu.main([*sizes, *counts, "--output", str(tmp_path), "--peers", OURS, "--programs", "sum"])
    rows = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))["rows"]
    assert [row["size"] for row in rows] == [SIZE]


def test_who_is_wrong_or_fails_is_left_out(fake: FakeDriver) -> None:
    def ten_more(function, arrays):  # type: ignore[no-untyped-def]
        call = PEERS[0].prepare(function, arrays)
        return lambda: call() + 10

    def fails(function, arrays):  # type: ignore[no-untyped-def]
        raise RuntimeError("no such thing\nmore of it")

    peers = [PEERS[0], Peer("ten more", "jitcore", ten_more), Peer("fails", "jitcore", fails)]
    row = gpu.measure(gpu.PROGRAMS[1], SIZE, peers, rounds=1, calls=1)
    assert list(row.seconds) == [OURS]
    assert row.wrong["ten more"].startswith("AssertionError: differs from NumPy by")
    assert row.wrong["fails"] == "RuntimeError: no such thing"


def test_the_whole_run(fake: FakeDriver, tmp_path: Path) -> None:
    names = ["softmax", "sum"]
    sizes = ["--sizes", str(SIZE), "--rounds", "1", "--calls", "2", "--launches", "3"]
    output = ["--output", str(tmp_path), "--peers", OURS]
    gpu.main([*sizes, *output, "--programs", *names])
    written = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))
    assert [row["program"] for row in written["rows"]] == names
    assert written["facts"]["device"] == fake.properties(0).name
    both = (f"{OURS}, 2 layers {one}" for one in ("kernel by kernel", "as a CUDA graph"))
    assert set(written["overheads"]) == {OURS, *both}
    page = (tmp_path / "gpu.md").read_text(encoding="utf-8")
    assert "| softmax | 0M | 500000.0 |" in page


def test_without_a_gpu_nothing_is_written(tmp_path: Path) -> None:
    if cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(SystemExit, match="nothing to measure: .*CUDA"):
        gpu.main(["--output", str(tmp_path)])
    assert not list(tmp_path.iterdir())
