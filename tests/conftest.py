"""What all tests share: options, markers that skip, and Hypothesis's settings."""

from __future__ import annotations

import importlib
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests that need a GPU where there is none."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    # Those who ask for no such test need not import the package here.
    reason = importlib.import_module("jitcore.codegen.cuda.driver").why_unavailable()
    if reason:
        why, _, _ = reason.partition(";")
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=f"no GPU: {why}"))
