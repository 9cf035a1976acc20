# mypy: allow-untyped-defs, allow-untyped-calls
"""Ints that count need no checks, and branches that choose between whole numbers no jump."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checking import check
from jitcore import script

NUMBERS = np.random.default_rng(0).random(1000)


def count(x):
    found = 0
    for i in range(x.shape[0]):
        if x[i] > 0.5:
            found += 1
    return found


def count_both(x):
    above, below = 10, -3
    for value in x:
        if value > 0.5:
            above = 1 + above
        elif value < 0.25:
            below -= 2
        else:
            above -= 1
    return above, below


def count_while(x):
    i = found = 0
    while i < x.shape[0]:
        if x[i] > 0.5:
            found += 1
        i += 1
    return found, i


def count_nested(x):
    found = 0
    for i in range(10):
        for j in range(i, x.shape[0], 7):
            if x[j] > 0.5:
                found += 1
        if x[i] > 0.9:
            found = 0
    return found


def exchanged(x):
    one, two = 1, 100
    for value in x:
        if value > 0.5:
            one, two = two, one + 3
    return one, two


def left_early(x):
    steps = 0
    for value in x:
        steps += 1
        if value > 0.99:
            break
    return steps


@pytest.mark.parametrize(
    "function", [count, count_both, count_while, count_nested, exchanged, left_early]
)
def test_counters_have_no_checks(function: Callable[..., Any]) -> None:
    check(function, NUMBERS)
    check(function, NUMBERS[:17])
    assert "overflows" not in source(function, NUMBERS)


def source(function: Callable[..., Any], *args: Any) -> str:
    compiled = script(function)
    compiled(*args)
    return str(compiled.kernels[0].source)


def doubled(x, n):
    total = 1
    for _ in range(n):
        total += total
    return total


def by_unknown_steps(x, n):
    total = 0
    for _ in range(n):
        total += x
    return total


def by_large_steps(x, n):
    total = 0
    for _ in range(n):
        total += 1 << 60
    return total


def from_anywhere(x, n):
    for _ in range(n):
        x += 1
    return x


def from_a_large_number(x, n):
    total = 2**63 - 4
    for _ in range(n):
        total += 1
    return total


def from_somewhere_at_times(x, n):
    total = 0
    for i in range(n):
        if i == 2:
            total = x
        total += 1
    return total


def through_products(x, n):
    total = 1
    for _ in range(n):
        total = total * 5 + 1
    return total


@pytest.mark.parametrize(
    "function",
    [
        doubled,
        by_unknown_steps,
        by_large_steps,
        from_anywhere,
        from_a_large_number,
        from_somewhere_at_times,
        through_products,
    ],
)
def test_what_may_become_large_is_checked(function: Callable[..., Any]) -> None:
    large = 2**63 - 3
    assert function(large, 70) > 2**63
    compiled = script(function)
    for n in (0, 2, 70):
        assert compiled(large, n) == function(large, n)
    assert "overflows" in source(function, large, 2)


def checksum(data, polynomial):
    register = 0xFFFF
    for byte in data:
        current = 0xFF & byte
        for _ in range(8):
            if (register & 1) ^ (current & 1):
                register = (register >> 1) ^ polynomial
            else:
                register >>= 1
            current >>= 1
    return register


def small_checksum(data, polynomial):
    register = np.uint16(0xFFFF)
    for byte in data:
        register = register ^ byte
        for _ in range(8):
            if register & np.uint16(1):
                register = (register >> np.uint16(1)) ^ polynomial
            else:
                register = register >> np.uint16(1)
    return register


def quotients(data, divisor):
    total = 0
    for byte in data:
        if byte & 1:
            total = total // divisor
        else:
            total = total ^ 12345
    return total


def jumps(function: Callable[..., Any], *args: Any) -> list[str]:
    """The conditional jumps, as the printer writes them."""
    compiled = script(function)
    compiled(*args)
    text = compiled.kernels[0].module._source
    assert text is not None
    lines = str(text.text).splitlines()
    return [one for one in lines if "br i1" in one and "%if" in one and "!prof" not in one]


def test_choices_between_whole_numbers_are_no_jumps() -> None:
    data = np.arange(200, dtype=np.uint8)
    check(checksum, data, 0x8408)
    words = data.astype(np.uint16)
    check(small_checksum, words, np.uint16(0x8408))
    check(quotients, data, 7)
    for found in (
        jumps(checksum, data, 0x8408),
        jumps(small_checksum, words, np.uint16(0x8408)),
    ):
        assert found
        assert all("!unpredictable" in one for one in found)
    assert not any("!unpredictable" in one for one in jumps(quotients, data, 7))
