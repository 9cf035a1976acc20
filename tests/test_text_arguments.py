"""Texts that are read character by character, and lists of tuples, as arguments of native code."""

# mypy: allow-untyped-defs, allow-untyped-calls

import random

import numpy as np
import pytest
from language_checking import check_calls

from jitcore import script


def edit_distance(a, b):
    previous = list(range(len(b) + 1))
    for i in range(1, len(a) + 1):
        current = [i] + [0] * len(b)
        for j in range(1, len(b) + 1):
            cost = 0 if a[i - 1] == b[j - 1] else 1
            current[j] = min(previous[j] + 1, current[j - 1] + 1, previous[j - 1] + cost)
        previous = current
    return previous[-1]


def common_subsequence(a, b):
    table = np.zeros((len(a) + 1, len(b) + 1), np.int64)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            if x == y:
                table[i + 1, j + 1] = table[i, j] + 1
            else:
                table[i + 1, j + 1] = max(table[i, j + 1], table[i + 1, j])
    return int(table[len(a), len(b)])


def hashed(text):
    value = 5381
    for character in text:
        value = (value * 33 + ord(character)) & 0xFFFFFFFF
    return value


def vowels(text):
    count = 0
    for character in text:
        if character in "aeiou" or character.lower() in ("y", "w"):
            count += 1
    return count


def classes(text):
    counts = [0] * 40
    for character in text:
        if character.isdigit():
            counts[int(character)] += 1
        elif character.isupper():
            counts[10] += 1
        elif character.islower():
            counts[11] += 1
        elif character.isspace():
            counts[12] += 1
        elif character.isalnum() or character.isalpha():
            counts[13] += 1
        else:
            counts[14] += 1
    return counts


def is_palindrome(text):
    i, j = 0, len(text) - 1
    while i < j:
        if text[i] != text[j]:
            return False
        i += 1
        j -= 1
    return True


def is_sorted(text):
    last = "a"
    for character in text:
        if character < last:
            return False
        last = character
    return True


def is_balanced(text):
    depth = []
    for character in text:
        if character == "(" or character == "[":
            depth.append(character)
        elif character in ")]":
            if not depth:
                return False
            opened = depth.pop()
            if (opened == "(") != (character == ")"):
                return False
    return not depth


def at(text, place):
    return ord(text[place])


def first_of(text, place):
    return text[place]


def with_option(x, kind):
    if kind == "half":
        return x / 2
    return x


def helper_reads(text, place):
    return _code_at(text, place) + len(text)


def _code_at(text, place):
    return ord(text[place]) if text else -1


def knapsack(items, capacity):
    best = [0] * (capacity + 1)
    for weight, gain in items:
        for room in range(capacity, weight - 1, -1):
            best[room] = max(best[room], best[room - weight] + gain)
    return best[capacity]


def area(points):
    total = 0.0
    for i in range(len(points)):
        x, y = points[i]
        u, v = points[(i + 1) % len(points)]
        total += x * v - u * y
    return abs(total) / 2


def farthest(points):
    found, place = -1.0, -1
    for number, point in enumerate(points):
        if point[0] * point[1] > found:
            found, place = point[0] * point[1], number
    return found, place


def reached(n, steps):
    queue = [(0, 0)]
    seen = [False] * n
    head = 0
    total = 0
    while head < len(queue):
        place, depth = queue[head]
        head += 1
        if seen[place]:
            continue
        seen[place] = True
        total += depth
        for step in steps:
            queue.append(((place + step) % n, depth + 1))
    return total


def filled(n, text):
    pairs = [(1, 0.5)] * n
    letters = [text[0]] * n
    for i in range(min(n, len(text))):
        pairs[i] = (ord(text[i]), 1.5)
        letters[-i - 1] = text[i]
    total = 0.0
    for number, (code, weight) in enumerate(pairs):
        total += code * weight + (letters[number] == "x")
    return total


def changed(points):
    points[0] = (1, 2)
    return len(points)


TEXTS = ("", "a", "aa", "abcba", "kitten", "sitting", "Zürich", "ä€😀", "😀😀", "a\x00b", "12 ab_C")


def test_distances():
    pairs = [(a, b) for a in TEXTS for b in TEXTS]
    check_calls(edit_distance, *pairs)
    check_calls(common_subsequence, *pairs)


@pytest.mark.parametrize("function", [hashed, vowels, is_palindrome, is_sorted])
def test_one_text(function):
    check_calls(function, *[(text,) for text in TEXTS])


def test_classes_of_characters():
    everything = "".join(map(chr, range(128)))
    check_calls(classes, (everything,), ("٣ß\u2003",), ("",), ("x7",))


def test_brackets():
    check_calls(is_balanced, ("([()[]])",), ("(]",), (")",), ("((",), ("",))


def test_places_in_texts():
    check_calls(
        at, ("abc", 1), ("abc", -1), ("abc", 3), ("", 0), ("aé", -2), (["a"], 0), (b"ab", 0)
    )
    check_calls(helper_reads, ("abc", 1), ("", 1), ("abc", 7))
    check_calls(first_of, ("abc", 1), ("abc", 3), native=False)


def test_texts_of_other_classes():
    class Text(str):
        def __getitem__(self, place):
            return "z"

    compiled = script(at)
    assert compiled("abc", 0) == 97
    assert compiled(Text("abc"), 0) == ord("z")


def test_many_texts_need_one_specialization():
    compiled = script(hashed)
    for number in range(20):
        text = "ab" * number
        assert compiled(text) == hashed(text)
    assert len(compiled.specializations) == 1


def test_texts_that_choose_are_constants():
    check_calls(with_option, (3.0, "half"), (3.0, "whole"))


def test_lists_of_tuples():
    generator = random.Random(5)
    items = [(generator.randrange(1, 9), generator.randrange(99)) for _ in range(20)]
    check_calls(knapsack, (items, 40), ([], 5), ([(1, 2), (3, 4.5)], 6), ([(1, 2), (3, 4, 5)], 6))
    check_calls(knapsack, (items, 40), ([(1, 2), [1, 2]], 3), ([(1, 2), 3], 3), ([(2**70, 1)], 3))
    points = [(generator.random(), generator.random()) for _ in range(30)]
    check_calls(area, (points,), ([],), ([(1, 2), (3, 4), (5, 0)],), (points[:1],))
    check_calls(farthest, (points,), ([(1.0, 2), (3.0, 4)],), ([(True, 2.0)],), ([],))


def test_local_lists_of_tuples():
    check_calls(filled, (3, "ax"), (40, "axxy"), (0, "a"), (5, ""), (-1, "a"))
    check_calls(reached, (50, [3, 7]), (1, [1]), (7, [2, 5, 1]))


def test_lists_of_tuples_that_change():
    check_calls(changed, ([(3, 4)],), ([],), native=False)
