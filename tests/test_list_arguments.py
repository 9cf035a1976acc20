"""Lists of numbers that a caller passes to compiled code, compared with plain Python."""

# mypy: allow-untyped-defs, allow-untyped-calls

import itertools
import linecache
import math
import random
import sys
import threading
from typing import Any

import numpy as np
import pytest
from language_checking import check_calls, is_native

from checking import observed, outcome
from jitcore import script


def prefix_sums(values):
    for i in range(1, len(values)):
        values[i] += values[i - 1]
    return values


def total(values):
    result = 0
    for value in values:
        result += value
    return result


def squares(out, n):
    for i in range(n):
        out.append(i * i)


def sieve(flags):
    n = len(flags)
    i = 2
    while i * i < n:
        if flags[i]:
            for j in range(i * i, n, i):
                flags[j] = False
        i += 1


def knapsack(weights, gains, capacity):
    best = [0] * (capacity + 1)
    for i in range(len(weights)):
        for room in range(capacity, weights[i] - 1, -1):
            best[room] = max(best[room], best[room - weights[i]] + gains[i])
    return best, best[capacity]


def two_pointers(values, target):
    i, j, found = 0, len(values) - 1, 0
    while i < j:
        both = values[i] + values[j]
        if both == target:
            found += 1
        if both < target:
            i += 1
        else:
            j -= 1
    return found


def bubble_sort(values):
    n = len(values)
    for i in range(n):
        for j in range(n - 1 - i):
            if values[j] > values[j + 1]:
                values[j], values[j + 1] = values[j + 1], values[j]


def drained(stack):
    result = 0
    while stack:
        result = result * 3 + stack.pop()
    return result


def item(values, i):
    for _ in range(2):
        found = values[i]
    return found


def set_and_fail(values, i):
    for k in range(3):
        values[k] = k + 10
    values[i] = 7


def test_reads_and_writes() -> None:
    check_calls(prefix_sums, ([1, 2, 3],), ([5],), ([],), ([2.5, -0.0, math.inf],))
    check_calls(prefix_sums, ([True, False, True],), native=False)
    check_calls(total, ([1, 2],), ([],), ([0.5, 0.25],), ([True, True],), ([math.nan],))
    check_calls(sieve, ([True] * 100,), ([True],), ([],), ([1] * 20,))
    check_calls(two_pointers, ([1, 2, 3, 4, 5], 6), ([], 6))
    check_calls(bubble_sort, ([3, 1, 2],), ([2.0, math.nan, 1.0, -0.0, 0.0],), ([],))
    check_calls(knapsack, ([1, 2, 3], [10, 20, 40], 5), ([], [], 3), ([0], [1], 2))


def test_lengths_change() -> None:
    check_calls(squares, ([], 4), ([7], 3), ([7], 0), ([], 0), ([1] * 20, 20))
    check_calls(squares, ([0.5], 2), native=False)
    check_calls(drained, ([1, 2, 3],), ([],), ([2] * 50,))


def test_numbers_that_do_not_fit() -> None:
    check_calls(prefix_sums, ([1, 2],), ([2**62, 2**62, 1],), ([2**63, 1],), ([-(2**63)],))
    check_calls(prefix_sums, ([1, 2],), ([1, 2.5, 3],), ([1, True],), ([1, None],))
    check_calls(prefix_sums, ([1.0],), ([1.0, 1],), ([1.0, np.float64(2)],), ([1.0, "a"],))


def test_indices() -> None:
    check_calls(item, ([1, 2, 3], 0), ([1, 2, 3], -1), ([1], 1), ([1], -2), ([], 0), ([1], 2**70))


def test_exceptions_leave_what_python_leaves() -> None:
    check_calls(set_and_fail, ([0, 0, 0, 0], 3), ([0, 0, 0], 5), ([0, 0], 0), ([0] * 3, -4))


def test_the_same_list_twice() -> None:
    def write_and_read(a, b):
        for i in range(len(a)):
            a[i] = i
        return b[1]

    compiled = script(write_and_read)
    for _ in range(2):
        values = [5, 6, 7]
        assert compiled(values, values) == 1
        assert compiled([5, 6, 7], values) == 1
        assert compiled([8, 9], [5, 6]) == 6

    def read_both(a, b):
        found = 0.0
        for i in range(len(a)):
            found += a[i] * b[i]
        return found

    numbers = [1.0, 2.0]
    assert script(read_both)(numbers, numbers) == 5.0


def test_list_itself_is_returned() -> None:
    def both(values, n):
        for i in range(n):
            values.append(i)
        return values, n

    values = [1]
    found, _ = script(both)(values, 2)
    assert found is values
    assert values == [1, 0, 1]


def test_elements_that_stay_are_the_same_objects() -> None:
    def double_first(values):
        for i in range(len(values)):
            if i == 0:
                values[i] = values[i] * 2

    kept = 123456.5
    values = [1.5, kept]
    script(double_first)(values)
    assert values == [3.0, kept]
    assert values[1] is kept


def test_subclasses_are_python_s() -> None:
    class Loud(list[int]):
        def __getitem__(self, index):
            return 100

    assert script(item)(Loud([1]), 0) == 100


def test_helpers_change_lists() -> None:
    def swap(values, i, j):
        values[i], values[j] = values[j], values[i]

    def reverse(values):
        for i in range(len(values) // 2):
            swap(values, i, len(values) - 1 - i)

    check_calls(reverse, ([1, 2, 3, 4],), ([],), ([0.5, 1.5],))


def test_lists_are_made() -> None:
    def evens(n):
        return [i for i in range(n) if i % 2 == 0]

    def powers(n):
        found = [1.0]
        for _ in range(n):
            found.append(found[-1] / 2)
        return found

    def overflowing(n):
        found = [1]
        for _ in range(n):
            found.append(found[-1] * 10)
        return found

    def pair(x):
        return [x, x + 1], x * 2

    check_calls(evens, (10,), (0,), (1,))
    check_calls(powers, (5,), (0,), (1100,))
    check_calls(overflowing, (5,), (18,), (19,), (40,))
    check_calls(pair, (3,), (2.5,))


def test_arrays_and_lists() -> None:
    def add_to_both(x, values):
        for i in range(len(values)):
            x[i] += values[i]
            values[i] = i
        return x.sum()

    for values in ([1.0, 2.0], [1.0, 2.0, 3.0, 4.0]):
        results = []
        for function in (add_to_both, script(add_to_both)):
            x, own = np.arange(3.0), list(values)
            try:
                result = function(x, own)
            except IndexError as error:
                result = str(error)
            results.append(repr((result, x, own)))
        assert results[0] == results[1]


def test_exceptions_on_some_paths() -> None:
    def raises_late(a, n):
        for i in range(len(a)):
            a[i] += 1
        if n > 0:
            a[0] = 100
            return n
        a[-1] = 7
        raise ValueError(f"n is {n}")

    def raises_early(a, n):
        if n > 2:
            raise ValueError("early")
        for i in range(n):
            a[i] = a[i] // (n - i - 1)
        return a

    def returns_early(a, n):
        for i in range(n):
            if a[i] < 0:
                return a[i]
            a[i] = -a[i]
        a.append(n)
        return n

    for function in (raises_late, raises_early, returns_early):
        check_calls(function, ([5, 6, 7], 3), ([5, 6, 7], 2), ([5, -6], 0), ([-5, 6], 2), ([1], -1))


def test_exceptions_after_arrays_are_written() -> None:
    def both(x, values, n):
        for i in range(n):
            x[i] = values[i]
            values[i] = 0.5
        if n > 2:
            raise ValueError("too many")
        return x

    for n in (1, 3, 9):
        results = []
        for function in (both, script(both)):
            results.append(outcome(function, (np.arange(4.0), [5.0, 6.0, 7.0], n)))
        assert results[0] == results[1]


def test_calls_that_never_pay_are_tried_less_and_less_often() -> None:
    def either(values, n):
        total = 0
        for _ in range(n):
            for value in values:
                total += value
        return total

    compiled, long = script(either), list(range(200_000))
    taken = [number for number in range(4000) if not in_python(compiled, either, long, 0)]
    pauses = [after - before for before, after in itertools.pairwise(taken)]
    assert len(pauses) > 5
    assert all(after > 1.3 * before for before, after in itertools.pairwise(pauses[:4]))
    # To read the list now and then takes no longer than the calls between.
    assert max(pauses) < 1000


def in_python(compiled, function, *args):
    """Whether a call runs in Python; it must give what that gives."""
    frames = []

    def note(frame, event, argument):
        if event == "call":
            frames.append(frame.f_code)

    sys.setprofile(note)
    try:
        compiled(*args)
    finally:
        sys.setprofile(None)
    return function.__code__ in frames


def test_searches_in_long_lists_are_left_to_python() -> None:
    def bisect(values, x):
        low, high = 0, len(values)
        while low < high:
            middle = (low + high) // 2
            if values[middle] < x:
                low = middle + 1
            else:
                high = middle
        return low

    def runs_in_python(values):
        frames = []

        def note(frame, event, argument):
            if event == "call":
                frames.append(frame.f_code)

        sys.setprofile(note)
        try:
            found = compiled(values, 17)
        finally:
            sys.setprofile(None)
        assert found == min(17, len(values))
        return bisect.__code__ in frames

    compiled = script(bisect)
    compiled([1, 2], 2)
    assert is_native(compiled)
    assert not runs_in_python(list(range(1000)))
    long = list(range(100_000))
    assert compiled(long, -5) == 0
    assert runs_in_python(long)
    for x in (5, 17, 99_000, -1, 10**9):
        assert compiled(long, x) == bisect(long, x)


def test_threads_write_to_parts_of_one_list() -> None:
    def fill(values, first, last, x):
        for i in range(first, last):
            values[i] = x

    compiled = script(fill)
    compiled([0, 0], 0, 1, 5)
    values = [0] * 40_000
    threads = [
        threading.Thread(
            target=compiled, args=(values, part * 10_000, part * 10_000 + 10_000, part)
        )
        for part in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values == [i // 10_000 for i in range(40_000)]


class Programs:
    """Random programs over two lists and a few numbers."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def text(self) -> str:
        lines = ["def program(a, b, n):", "    x, y = 1, 2"]
        lines += self._block(1, 3)
        lines.append(f"    return {self.random.choice(['x', 'a', 'x, y', 'b, x', 'len(a), y'])}")
        return "\n".join(lines) + "\n"

    def _block(self, depth: int, count: int) -> list[str]:
        pad = "    " * depth
        lines: list[str] = []
        for _ in range(self.random.randint(1, count)):
            kind = self.random.random()
            if depth < 4 and kind < 0.25:
                name = f"i{depth}"
                bound = self.random.choice(["n", "len(a)", "len(b)", "3"])
                lines += [f"{pad}for {name} in range({bound}):", *self._block(depth + 1, 3)]
            elif depth < 4 and kind < 0.4:
                lines += [f"{pad}if {self._number(depth)} > {self._number(depth)}:"]
                lines += self._block(depth + 1, 2)
            else:
                lines.append(pad + self._statement(depth))
        return lines

    def _number(self, depth: int) -> str:
        names = ["x", "y", "n", "2", "-1", "len(a)", *(f"i{k}" for k in range(1, depth))]
        pick = self.random.choice
        values = [pick(names), f"a[{pick(names)} % len(a)]", f"b[{pick(names)}]", pick(names)]
        one, two = pick(values), pick(names)
        return pick([one, one, f"({one} {pick(['+', '-', '*', '//', '%'])} {two})"])

    def _statement(self, depth: int) -> str:
        pick, number = self.random.choice, self._number(depth)
        return pick(
            [
                f"x = {number}",
                f"y = {number}",
                f"x, y = y, {number}",
                f"a[{self._number(depth)} % len(a)] = {number}",
                f"b[-1] = {number}",
                f"a[0] += {number}",
                f"b.append({number})",
                f"a.append({number})",
                "x = a.pop()",
                "y = b.pop(0)",
                f"x = sum(a) + {number}",
                "x = max(b)",
                f"y = 1 if {number} in a else 2",
                "b.extend(a[:3])",
                "a.extend(b[-2:])",
                f"c = a[1:]; c.append({number}); x = c[0]",
                "c = list(b); c.extend(a[:2]); y = len(c) - sum(c)",
                "c = a.copy(); c[-1] = x; y = c[0] if a else c[-1]",
                "x = len(a) if not b else y",
            ]
        )


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    """Programs whose numbers are ints stay native or not; either way they do what Python does."""
    text = Programs(seed).text()
    namespace: dict[str, Any] = {}
    file = f"<random lists {seed}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), namespace)
    program = namespace["program"]
    compiled = script(program)
    numbers = random.Random(seed)
    for _ in range(4):
        lengths = numbers.randint(0, 5), numbers.randint(0, 5)
        a, b = ([numbers.randint(-9, 9) for _ in range(length)] for length in lengths)
        args = (a, b, numbers.randint(0, 4))
        assert observed(compiled, args) == observed(program, args), (text, args)


def described(values):
    total = 0.0
    for value in values:
        total += value * value
    return f"total {total}"


def test_explain_says_why_lists_stay():
    report = str(script(described).explain([1.0, 2.0]))
    reason = "lists, texts and objects are Python's here: not all of the function is native in line"
    assert reason in " ".join(report.split())
    assert "Python's here" not in str(script(total).explain([1.0, 2.0]))


def test_what_empty_lists_get() -> None:
    def appended(items, x):
        for _ in range(3):
            items.append(x)

    def sums(items, x):
        items.append((np.arange(3) * x).sum())

    def tuples(items, x):
        for number in range(3):
            items.append((number,))

    def lists(items, x):
        for number in range(3):
            items.append([number])

    def in_tuples(items, x):
        for number in range(3):
            items.append(((number,),))

    for plain in (appended, sums, tuples, lists, in_tuples):
        for x in (2.0, 3, True, np.float64(2), np.float32(2), np.int64(2), np.bool_(True), 1j):
            expected: list[Any] = []
            found: list[Any] = []
            plain(expected, x)
            script(plain)(found, x)
            assert repr(found) == repr(expected)
            assert list(map(type, found)) == list(map(type, expected))
