# mypy: allow-untyped-defs, allow-untyped-calls
"""Single places that are NumPy scalars or arrays without axes: what they choose, and refuse."""

import numpy as np
import pytest

from checking import check

X = np.arange(12.0).reshape(3, 4)


def read_one_by_one(x, places):
    total = 0.0
    for k in range(len(places)):
        total += x[places[k], 1]
    return total


def write_one_by_one(x, places):
    for k in range(len(places)):
        x[places[k]] += k + 1
    return x


def rows_and_elements(x, places):
    return x[places[0]], x[places[0], 1], x[1, places[0]], x[places[0] :]


@pytest.mark.parametrize("places", [[1, 2], [1, 3], [0, 2**64 - 1], [2**63, 1], [2**63 - 1, 0]])
@pytest.mark.parametrize("function", [read_one_by_one, write_one_by_one, rows_and_elements])
def test_elements_of_arrays(function, places):
    check(function, X, np.array(places, np.uint64))


def at(x, place):
    return x[place]


@pytest.mark.parametrize("place", [1, 3, 2**63, 2**64 - 1])
@pytest.mark.parametrize("form", [np.uint64, lambda place: np.array(place, np.uint64)])
def test_arguments(form, place):
    check(at, X, form(place))


def written_afterwards(x, place):
    row, part, element = x[place], x[1:, place], x[place, 0]
    row += 1
    part += 1
    return x, row, part, element


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint64])
@pytest.mark.parametrize("form", [lambda dtype: dtype(1), lambda dtype: np.array(1, dtype)])
def test_arrays_without_axes_choose_copies(form, dtype):
    check(written_afterwards, X, form(dtype))
