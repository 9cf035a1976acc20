"""``zip(*rows)``: what is visited are the columns, whatever is known of the rows."""
# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: B905

from __future__ import annotations

import numpy as np
import pytest

from jitcore import script


def sums(x, *tables):
    y = np.exp(x) * 2 + 1  # compiled, so that the function does not run as it is
    return [[sum(column) for column in zip(*rows)] for rows in zip(*tables)], y


def columns(x, tables):
    found = []
    for column in zip(*tables):
        found.append(column)
    return found, np.exp(x) * 2 + 1


def numbered(x, tables):
    total = 0
    for number, (one, *_) in enumerate(zip(*tables)):
        total += number * len(one)
    return total, np.exp(x) * 2 + 1


def arrays(x, tables):
    total = 0.0
    for one, other in zip(*tables):
        total += one * other
    return total, np.exp(x) * 2 + 1


X = np.linspace(0, 1, 5)


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (sums, ([[1, 2], [3, 4]], [[2, 3], [4, 5]])),
        (sums, ([[1.5, 2], [3, 4]], [[2, 3], [4, 5]], [[0, 1], [1, 0]])),
        (sums, ()),
        (columns, (([[1], [2]], [[3], [4]]),)),
        (columns, (("ab", "cd", "ef"),)),
        (columns, (((1, 2, 3), (4, 5)),)),
        (columns, ([(1, 2), (3, 4)],)),
        (numbered, ((["a", "bc"], ["d", "e"]),)),
        (arrays, ((np.arange(4.0), np.arange(4.0) + 1),)),
        (arrays, ([np.arange(4.0), np.arange(3.0)],)),
    ],
)
def test_columns(function, args):
    scripted = script(function)
    expected, y = function(X, *args)
    for _ in range(3):
        found, other = scripted(X, *args)
        assert found == expected and type(found) is type(expected)
        np.testing.assert_allclose(other, y)
