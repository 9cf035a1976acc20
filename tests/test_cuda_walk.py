# mypy: allow-untyped-defs, allow-untyped-calls
"""The tests for a GPU, on a device that is none: their first run on a real one finds no slip."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import test_gpu
import test_gpu_programs
from cuda_machine import fake_machine
from fake_cuda import FakeDriver
from test_cuda_libraries import installed
from test_cuda_programs import PROGRAMS
from test_vecmath_float32 import points

from jitcore import cuda
from programs import random_program

STAND_INS = {"cupy": "Cupy", "torch": "Torch", "numba": "Numba", "jax": "Jax"}


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    # The simulator takes its time.
    monkeypatch.setattr(test_gpu, "X", test_gpu.X[:, ::20].copy())
    with fake_machine() as made:
        yield made


@pytest.fixture
def name(fake: FakeDriver, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A library, whose stand-in is there."""
    found: str = request.param
    if found != "jitcore":
        made = installed(STAND_INS[found], monkeypatch)
        monkeypatch.setitem(
            test_gpu.LIBRARIES, found, lambda host: made.array(cuda.from_numpy(host))
        )
    return found


def with_libraries(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("name", names, indirect=True)


def test_what_the_device_is(fake: FakeDriver) -> None:
    test_gpu.test_what_the_device_is()


def test_a_kernel_through_the_driver(fake: FakeDriver) -> None:
    def add_one(launch: Any, elements: Any, count: Any) -> None:
        assert launch.grid[0] * launch.block[0] >= count
        elements[:count] += 1

    fake.register("add_one", ("float32*", "uint32"), add_one)
    test_gpu.test_a_kernel_through_the_driver()


@with_libraries("jitcore", *STAND_INS)
def test_libraries(name: str) -> None:
    test_gpu.test_libraries(name)
    test_gpu.test_what_runs_on_the_host(name)
    if name != "jax":
        test_gpu.test_writes(name)


@with_libraries("cupy", "jax")
def test_float16_of_libraries(name: str) -> None:
    test_gpu.test_float16_of_libraries(name)


def test_own_arrays(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    test_gpu.test_autotune(tmp_path, monkeypatch)
    test_gpu.test_numpy_s_functions_on_own_arrays()
    test_gpu.test_float16_is_numpy_s()
    test_gpu.test_bfloat16_is_ml_dtypes_s("jitcore")
    test_gpu.test_calls_that_need_no_python(monkeypatch)


def test_errors_of_functions_of_float32(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    few = [one[:: max(1, one.size // 40)] for one in list(points())[:3]]
    monkeypatch.setattr(test_gpu, "points", lambda: few)
    test_gpu.test_errors_of_functions_of_float32()


@pytest.mark.parametrize("kind", ["np::add", "np::sum", "np::cumsum", "np::where", "np::gather"])
def test_op_matrix(kind: str, fake: FakeDriver) -> None:
    test_gpu_programs.test_op_matrix(kind)
    assert fake.launches


def test_random_programs(fake: FakeDriver) -> None:
    for seed in range(3):
        test_gpu_programs.check_program(random_program(seed))
    assert fake.launches


def test_programs(fake: FakeDriver) -> None:
    for function, args in PROGRAMS[:3]:
        test_gpu_programs.test_programs(function, args)
    assert fake.launches
