"""The ends of native functions behind errors, which share what they drop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checking import check, function_from_source
from jitcore import script
from jitcore.codegen.printers.llvm import print_module


def with_lists(count: int) -> Callable[..., Any]:
    """A function with so many lists, each of which is read at places that may be outside."""
    numbers = range(count)
    lines = [
        *(f"    l{number} = [x[0]]" for number in numbers),
        "    for i in range(len(x)):",
        *(f"        l{number}.append(l{number - 1}[i - k] * x[i]) " for number in numbers[1:]),
        "        l0.append(x[i])",
        "    return " + " + ".join(f"l{number}[-1] + len(l{number})" for number in numbers),
    ]
    return function_from_source("\n".join(["def f(x, k):", *lines, ""]))


@pytest.mark.parametrize("shift", [0, 5])
def test_errors_with_many_lists(shift: int) -> None:
    check(with_lists(4), np.random.default_rng(3).normal(size=4), shift)


def test_code_grows_with_the_number_of_lists() -> None:
    sizes = []
    for count in (8, 16):
        compiled = script(with_lists(count))
        compiled(np.arange(3.0), 0)
        (kernel,) = compiled.kernels
        sizes.append(len(print_module([kernel.lowered.function])))
    # Twice as many lists, and errors: each of these used to drop all lists by itself.
    assert sizes[1] < 2.5 * sizes[0]
