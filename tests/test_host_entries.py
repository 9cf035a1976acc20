"""Host programs that are called often: machine code looks at the arguments."""

# mypy: allow-untyped-defs, allow-untyped-calls

import gc
import sys
import threading
import traceback

import numpy as np
import pytest

from jitcore import script
from jitcore.codegen.entries.host_entry import _CALLS_BETWEEN_LOOKS
from jitcore.execution.executor import Executor
from jitcore.execution.host_entries import CALLS_BEFORE_ENTRY, MAX_KINDS
from jitcore.execution.plans import NativePlan

KNOWN = ["a"]
FACTOR = 2


class Counter:
    """Something with a dict."""

    def __init__(self):
        self.counts = {}


def counted(counter, name, count):
    counter.counts[name] = counter.counts.get(name, 0) + count
    return counter.counts[name]


def scaled(x, options):
    return x * options["scale"] + 1


def found_names(name):
    return name in KNOWN, FACTOR


def pairs(pair, names):
    return [name * pair[1] for name in names], pair[0]


def looked_up(table, key):
    found = table[key]
    return found


def warm(scripted, *args):
    for _ in range(CALLS_BEFORE_ENTRY):
        scripted(*args)


@pytest.fixture
def asked(monkeypatch):
    """The arguments that no entry has taken, those of regions apart."""
    found = []
    run = Executor.run

    def noting(self, args, captured=()):
        if self.depth == 0:
            found.append(args)
        return run(self, args, captured)

    monkeypatch.setattr(Executor, "run", noting)
    return found


def test_calls_that_come_again_are_not_looked_at(asked):
    scripted, counter = script(counted), Counter()
    warm(scripted, counter, "a", 1)
    del asked[:]
    for _ in range(50):
        scripted(counter, "a", 2)
    assert not asked
    assert counter.counts == {"a": CALLS_BEFORE_ENTRY + 100}


def test_one_of_many_is_looked_at(asked):
    scripted, counter = script(counted), Counter()
    warm(scripted, counter, "a", 1)
    del asked[:]
    for _ in range(3 * _CALLS_BETWEEN_LOOKS):
        scripted(counter, "a", 1)
    assert len(asked) == 3
    assert counter.counts == {"a": CALLS_BEFORE_ENTRY + 3 * _CALLS_BETWEEN_LOOKS}


def test_other_classes_are_looked_at(asked):
    scripted = script(counted)
    warm(scripted, Counter(), "a", 1)
    del asked[:]
    other = type("Other", (), {"counts": {}})()
    assert scripted(other, "a", 1) == 1
    assert scripted(Counter(), "a", 2.5) == 2.5
    assert scripted(Counter(), "a", np.float32(2)) == 2
    assert scripted(Counter(), "a", 2**70) == 2**70
    assert len(asked) == 4
    for _ in range(2 * MAX_KINDS):
        kind = type("Kind", (), {})
        for number in range(CALLS_BEFORE_ENTRY + 2):
            one = kind()
            one.counts = {"a": number}
            assert scripted(one, "a", 1) == number + 1


def test_several_classes_get_entries(asked):
    scripted = script(looked_up)
    tables = {1: "x"}, type("Table", (dict,), {})({1: "y"})
    for table in tables:
        warm(scripted, table, 1)
    del asked[:]
    assert [scripted(table, 1) for table in tables] == ["x", "y"]
    assert not asked


def test_arrays_beside_dicts(asked):
    scripted, options = script(scaled), {"scale": 2.0}
    for x in (np.arange(3.0), np.arange(4.0), np.arange(5.0)):
        warm(scripted, x, options)
    del asked[:]
    for x in (np.arange(4.0), np.arange(9.0), np.arange(3.0)):
        np.testing.assert_array_equal(scripted(x, options), x * 2.0 + 1)
    assert not asked
    for other in (np.arange(4, dtype=np.float32), np.arange(12.0).reshape(3, 4).T, 3):
        np.testing.assert_array_equal(scripted(other, options), other * 2.0 + 1)
    assert len(asked) == 3


def test_tuples_of_several_kinds(asked):
    scripted = script(pairs)
    warm(scripted, ({}, 2), ["a"])
    del asked[:]
    assert scripted(({}, 3), ["b"]) == (["bbb"], {})
    assert not asked
    assert scripted(({}, "x"), [2]) == (["xx"], {})
    assert scripted(({}, 3, 4), ["b"]) == (["bbb"], {})
    assert len(asked) == 2


def test_globals_are_read_anew(monkeypatch, asked):
    scripted = script(found_names)
    warm(scripted, "a")
    del asked[:]
    assert scripted("a") == (True, 2)
    monkeypatch.setitem(globals(), "KNOWN", ["b"])
    assert scripted("a") == (False, 2)
    assert not asked
    monkeypatch.setitem(globals(), "FACTOR", 3)
    assert scripted("a") == (False, 3)
    monkeypatch.setitem(globals(), "KNOWN", ("a", "c"))
    assert scripted("a") == (True, 3)


def test_exceptions_show_the_line_of_the_user():
    scripted = script(looked_up)
    warm(scripted, {1: 2}, 1)
    with pytest.raises(KeyError, match="2") as caught:
        scripted({1: 2}, 2)
    shown = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert shown == ["test_exceptions_show_the_line_of_the_user", "looked_up"]
    assert caught.value.__context__ is None


def test_nothing_is_kept():
    scripted, table, value = script(looked_up), {}, object()
    table[1] = value
    warm(scripted, table, 1)
    before = sys.getrefcount(value), sys.getrefcount(table)
    for _ in range(100):
        scripted(table, 1)
        with pytest.raises(KeyError):
            scripted(table, 2)
    gc.collect()
    assert (sys.getrefcount(value), sys.getrefcount(table)) == before


def test_wrong_arguments():
    scripted = script(looked_up)
    warm(scripted, {1: 2}, 1)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        scripted({1: 2})
    assert scripted(key=1, table={1: 3}) == 3


def test_threads():
    scripted, results = script(looked_up), []

    def work(number):
        for _ in range(2 * CALLS_BEFORE_ENTRY):
            results.append(scripted({number: number}, number) == number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert all(results) and len(results) == 8 * CALLS_BEFORE_ENTRY


def total(values):
    found = 0
    for value in values:
        found += value
    return found


def test_calls_that_native_code_refuses_again_and_again(asked):
    scripted = script(total)
    warm(scripted, [1, 2, 3])
    warm(scripted, [1, 2.5, 3])  # looks like the ints at first
    del asked[:]
    assert (scripted([2, 2.5, 3]), scripted([2, 3])) == (7.5, 5)
    assert not asked
    assert scripted((1, 2.5)) == 3.5
    assert scripted(np.arange(3.0)) == 3.0
    assert len(asked) == 2


def doubled(x):
    return x + x


def test_arrays_and_numbers_that_are_python_s():
    """There may be native code for others of the same class."""
    scripted, dates = script(doubled), np.arange(3).astype("m8[s]")
    warm(scripted, dates)
    warm(scripted, 2**70)
    for x in (np.arange(3.0), 3):
        np.testing.assert_array_equal(scripted(x), x + x)
    assert [type(one.plan) for one in scripted.specializations].count(NativePlan) == 2


@pytest.mark.parametrize(
    "example",
    [
        np.arange(4).astype("M8[D]"),
        np.array(["a", "bc"]),
        np.array([1, "x", None], dtype=object),
        np.zeros(2, dtype=[("a", "f4"), ("b", "i2")]),
        np.arange(3, dtype=">f8"),
        np.ma.masked_equal(np.arange(3.0), 1),
        np.datetime64("2020-01-01"),
        np.str_("text"),
    ],
    ids=lambda one: str(getattr(one, "dtype", one)),
)
def test_arrays_that_are_python_s_by_their_dtype(asked, example):
    scripted = script(repeated)
    warm(scripted, example, {})
    del asked[:]
    for _ in range(5):
        found, table = scripted(example, {})
        np.testing.assert_array_equal(found, np.repeat(example, 2))
        assert table == {1: 2}
    assert not asked
    x = np.arange(5.0)
    np.testing.assert_array_equal(scripted(x, {})[0], np.repeat(x, 2))
    assert len(asked) == 1


def repeated(x, table):
    table[1] = 2
    return np.repeat(x, 2), table
