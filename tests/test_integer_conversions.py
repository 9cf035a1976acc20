"""Numbers that become integers of NumPy: what does not fit raises, or wraps around, as there."""
# mypy: allow-untyped-defs, allow-untyped-calls

import numpy as np
import pytest

from checking import outcome
from jitcore import script

NUMBERS = [
    *(0.0, -0.5, 2.75, 127.9, 128.0, -200.0, 300.0, 70000.0, -3e9, 1e19, -1e19, 1e308),
    *(float("inf"), float("nan"), 300, -5, 2**40, 2**70, True, 1 + 2j),
    *(np.float64(300.5), np.float32(-7.5), np.int64(300), np.uint8(200), np.uint64(2**63 + 5)),
]


def beside_python(number):
    return {"int8": np.int8(number)}


def constructed(number):
    return np.int8(number)


def constructed_wide(number):
    return np.int64(number), np.uint16(number)


def by_dtype(number):
    return np.zeros(1, np.uint8).dtype.type(number)


def listed(number):
    return np.array([number, 1], dtype=np.int8)


def listed_wide(number):
    return np.asarray([[2, number]], np.int64)


@pytest.mark.parametrize(
    "program", [beside_python, constructed, constructed_wide, by_dtype, listed, listed_wide]
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_numbers_become_integers(program):
    compiled = script(program)
    for number in NUMBERS:
        assert outcome(compiled, (number,)) == outcome(program, (number,)), number
