"""Native functions that stop after they have written to arguments: Python begins anew if it can."""
# mypy: allow-untyped-defs, allow-untyped-calls

import traceback

import numpy as np
import pytest

from jitcore import script
from jitcore.execution.error_handlers import are_apart

BYTES = np.random.default_rng(5).integers(1, 256, 40)


def hashes(data, out):
    """Ints that no machine word holds, of which a part is written on the way."""
    found = 1
    for place in range(len(data)):
        found = found * 257 + int(data[place])
        out[place] = found % 1_000_003
    return found


def running(data):
    """What is written is read again: nobody knows any more what it was."""
    found = 1
    for place in range(len(data)):
        found = found * 257 + int(data[place])
        data[place] = found % 1_000_003
    return found


def rows(data, out):
    """A view of what is written is read."""
    found = 1
    last = out[:1]
    for place in range(len(data)):
        found = found * 257 + int(data[place]) + int(last[0])
        out[place] = found % 97
    return found


def drawing(generator, out):
    """Numbers that were drawn do not come again."""
    found = 3
    for place in range(len(out)):
        found *= int(generator.integers(5, 9))
        out[place] = found % 97
    return found


@pytest.mark.parametrize("size", [3, 8, 9, 40])
def test_ints_grow_beyond_a_word_after_writes(size):
    scripted = script(hashes)
    for _ in range(3):
        out, wanted = np.zeros(40, np.int32), np.zeros(40, np.int32)
        assert scripted(BYTES[:size], out) == hashes(BYTES[:size], wanted)
        np.testing.assert_array_equal(out, wanted)
    assert len(scripted.kernels) == 1


def test_exceptions_of_python_come_from_its_own_code():
    scripted = script(hashes)
    out, wanted = np.zeros(20, np.int32), np.zeros(20, np.int32)
    scripted(BYTES[:3], out)
    for function, array in ((scripted, out), (hashes, wanted)):
        with pytest.raises(IndexError, match="index 20 is out of bounds for axis 0 with size 20"):
            function(BYTES, array)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (running, lambda: (BYTES.copy(),)),
        (rows, lambda: (BYTES, np.zeros(40))),
        (drawing, lambda: (np.random.default_rng(1), np.zeros(60))),
    ],
)
def test_what_cannot_begin_anew_says_so(function, arguments):
    assert function(*arguments()) > 2**63
    with pytest.raises(OverflowError, match="64 bits"):
        script(function)(*arguments())


@pytest.mark.parametrize("ahead", [0, 1, 5, 39, 40])
def test_arrays_that_share_memory(ahead):
    def shifted():
        memory = np.concatenate([BYTES, BYTES])
        return memory[:40], memory[ahead : 40 + ahead]

    scripted = script(hashes)
    scripted(BYTES[:4], np.zeros(40, np.int64))
    given, wanted = shifted(), shifted()
    assert scripted(*given) == hashes(*wanted)
    np.testing.assert_array_equal(given, wanted)


def test_what_may_share_memory_is_looked_for():
    x, y = np.zeros((4, 5)), np.zeros(3)
    assert are_apart((x[:2], (3, "text", [1.5, y]), x[2:], None))
    assert not are_apart((x[:3], [(x[2:],)]))
    assert not are_apart((y, {"y": y}))
    assert not are_apart((y, lambda: x))


def reshaped(x, rows, columns, flag):
    x += 1
    y = x.reshape(rows, columns) if flag else x.reshape(columns, rows).T
    return y * 2, x.reshape(rows * columns)


def test_a_varying_extent_that_stands_for_what_is_left():
    scripted = script(reshaped)
    for rows, columns in ((2, 6), (-1, 3), (4, -1), (3, 4), (-1, -1), (-3, -4), (5, 5)):
        for flag in (True, False):
            x, wanted = np.arange(12.0), np.arange(12.0)
            outcomes = []
            for function, array in ((scripted, x), (reshaped, wanted)):
                try:
                    outcomes.append(function(array, rows, columns, flag)[0].tolist())
                except ValueError as error:
                    outcomes.append(str(error))
            assert outcomes[0] == outcomes[1]
            np.testing.assert_array_equal(x, wanted)


def picked(x, place, divisor):
    """It stops before it has written anything."""
    found = 0.0
    for one in x:
        found += one
    return x[place] * found, 1 // divisor


def test_tracebacks_show_the_users_lines_only():
    scripted, x = script(picked), np.ones(3)
    assert scripted(x, 1, 2) == picked(x, 1, 2)
    for _ in range(3):
        for place, divisor, error in ((7, 1, IndexError), (1, 0, ZeroDivisionError)):
            with pytest.raises(error) as found:
                scripted(x, place, divisor)
            frames = traceback.extract_tb(found.value.__traceback__)
            assert [one.filename for one in frames] == [__file__] * 2
            assert frames[-1].line == "return x[place] * found, 1 // divisor"
            assert found.value.__context__ is None
    assert len(scripted.kernels) == 1


def gathered(x, *places, scale=1.0):
    return [x[one] * scale for one in places]


def test_arguments_by_name_and_many():
    scripted, x = script(gathered), np.arange(3.0)
    assert scripted(x, 1, 2, scale=3.0) == gathered(x, 1, 2, scale=3.0)
    for _ in range(3):
        with pytest.raises(IndexError, match="index 5 is out of bounds"):
            scripted(x, 0, 5, scale=2.0)
