"""The benchmark for GPUs on the devices of the tests, which are none: who is measured, and how."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cuda_machine import fake_machine
from fake_cuda import FakeDriver

from bench import gpu
from bench.gpu_peers import OURS, PEERS, Peer
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
    with pytest.raises(SystemExit, match="nothing to measure: there is no CUDA device"):
        gpu.main(["--output", str(tmp_path)])
    assert not list(tmp_path.iterdir())
