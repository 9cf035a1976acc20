"""What all tests share: options, markers that skip, and Hypothesis's settings."""

from __future__ import annotations

import ctypes.util
import os

import pytest
from hypothesis import HealthCheck, settings

# Tests compile what they test; those of the cache have folders of their own.
os.environ["JITCORE_CACHE"] = "0"

# Compiling is slow by Hypothesis's standards, and the tests share their machine.
settings.register_profile(
    "jitcore",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("jitcore")


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--update-golden`` writes the files in ``tests/golden`` anew."""
    parser.addoption("--update-golden", action="store_true", help="write tests/golden anew")


def has_gpu() -> bool:
    """Whether a CUDA driver and a device are there."""
    name = ctypes.util.find_library("cuda")
    if name is None:
        return False
    count = ctypes.c_int()
    driver = ctypes.CDLL(name)
    failed = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    return not failed and count.value > 0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests that need a GPU where there is none."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not has_gpu():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no GPU"))
