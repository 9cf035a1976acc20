"""Programs about strings, formatting and printing."""
# The programs are what people write, and some of them are wrong.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np
from language_checking import Table

X = np.linspace(-1.0, 2.0, 7)


def cases(s):
    return (
        s.upper(),
        s.lower(),
        s.capitalize(),
        s.title(),
        s.swapcase(),
        s.casefold(),
    )


def strips(s):
    return (
        s.strip(),
        s.lstrip(),
        s.rstrip(),
        s.strip("ab"),
        s.removeprefix("a"),
        s.removesuffix("b"),
    )


def splits(s):
    return (
        s.split(),
        s.split("b"),
        s.split(None, 1),
        s.rsplit("b", 1),
        s.splitlines(),
        s.partition("b"),
        s.rpartition("b"),
    )


def searches(s):
    return (
        s.startswith("a"),
        s.endswith(("b", "c")),
        s.find("b"),
        s.rfind("b"),
        s.count("b"),
        s.replace("b", "zz"),
        s.replace("b", "", 1),
        "b" in s,
        "q" not in s,
    )


def index_of(s):
    return s.index("b"), s.rindex("b")


def predicates(s):
    return (
        s.isdigit(),
        s.isalpha(),
        s.isalnum(),
        s.isupper(),
        s.islower(),
        s.isspace(),
        s.isdecimal(),
        s.isnumeric(),
        s.isidentifier(),
        s.istitle(),
        s.isprintable(),
        s.isascii(),
    )


def padding(s):
    return s.center(9), s.center(9, "*"), s.ljust(9, "."), s.rjust(9), s.zfill(9), s.expandtabs(4)


def joins(words):
    return ", ".join(words), "".join([]), "-".join(["a"])


def indexing(s, i):
    return s[0], s[-1], s[1:3], s[::-1], s[i], len(s), s * 2, s + "!", s < "b", s == "abc", s >= s


def iteration(s):
    vowels = 0
    for c in s:
        if c in "aeiou":
            vowels += 1
    return vowels, [ord(c) for c in s], {c: i for i, c in enumerate(s)}


def encodings(s):
    return s.encode(), s.encode("utf-8").decode(), b"ab" + b"c", bytes([65, 66])


def translations(s):
    return s.translate(str.maketrans("ab", "xy")), s.maketrans("a", "b")


def percent_format(a, b):
    return "%d and %.2f and %5s|%-4d|" % (a, b, "x", a), "%s" % a, "100%%", "%s %s" % ("a", "b")


def method_format(a, b):
    return "{} {}".format(a, b), "{1}-{0}".format(a, b), "{x:>5}|{y:.1f}".format(x=a, y=b)


def f_strings(a, b, s):
    return f"{a} {b:.2f} {s!r:>8} {a:05d} {a + 1} {{}} {s:{a}} {a=}", f"{'nested ' + s}"


def f_string_of_array(x):
    return f"{x.shape} {x.sum():.3f} {x.dtype} {x[:2]}"


def prints(a, x):
    print("start", a, 2.5, None, (1, "a"), [a])
    print(a, a, sep="-", end="!\n")
    for i in range(2):
        print(i)
    print(x[:2], x.dtype)
    print()
    if a > 100:
        print("never")
    return a


def print_is_ordered(x):
    print("before")
    y = x * 2 + 1
    print(y.sum())
    y[0] = 100.0
    print(y[0])
    return y


def raises_with_text(a):
    if a > 1:
        raise ValueError(f"a is {a}, not 1")
    return a


def string_builder(n):
    out = ""
    for i in range(n):
        out += str(i) + ("," if i < n - 1 else "")
    return out


def string_keys(kind, x):
    if kind == "double":
        return x * 2
    elif kind in ("half", "halved"):
        return x / 2
    raise ValueError("unknown kind " + kind)


def text_distance(a, b):
    previous = list(range(len(b) + 1))
    for i, x in enumerate(a):
        current = [i + 1]
        for j, y in enumerate(b):
            change = previous[j] + (0 if x == y else 1)
            current.append(min(previous[j + 1] + 1, current[j] + 1, change))
        previous = current
    return previous[len(b)]


def text_counts(text):
    vowels = digits = 0
    last = ord("a")
    for character in text:
        vowels += character.lower() in "aeiou"
        if character.isdigit():
            digits += int(character)
        last = ord(character)
    return vowels, digits, last


def text_first(text):
    for character in text:
        if character > "m":
            return character
    return None


def picture(rows):
    return "|".join(f"{''.join(str(cell) for cell in row)}" for row in rows)


def picture_of_levels(levels):
    return "".join(f"{'/'.join(f'{sum(k + 1 for k in row)}' for row in one)};" for one in levels)


def generators_side_by_side(rows):
    text = f"{sum(v for v in rows[0])} {'-'.join(str(v) for v in rows[1])} {max(map(len, rows))}"
    return text, "".join(f"{(lambda u: u * v)(2)}{[sum(k for k in r) for r in rows]}" for v in "ab")


PROGRAMS: Table = {
    "string methods": [
        (cases, [("abC dEf",)]),
        (strips, [("  ab  ",), ("ab",)]),
        (splits, [("a b\nbc",), ("",)]),
        (searches, [("abcb",), ("xyz",)]),
        (index_of, [("abb",), ("xyz",)]),
        (predicates, [("abc",), ("12",), ("Ab C",)]),
        (padding, [("-12",), ("a\tb",)]),
        (joins, [(["a", "b"],)]),
        (encodings, [("abc",)]),
        (translations, [("abc",)]),
    ],
    "strings": [
        (indexing, [("abc", 1), ("abc", 7)]),
        (iteration, [("education",)]),
        (string_builder, [(4,)]),
    ],
    "strings read by characters": [
        (text_distance, [("kitten", "sitting"), ("", "ab"), ("aé", "é")]),
        (text_counts, [("Education 42",), ("",), ("٣é",)]),
        (text_first, [("abz",), ("abc",), ("",)]),
    ],
    "strings that choose": [(string_keys, [("double", X), ("half", X), ("zz", X)])],
    "formatting": [
        (percent_format, [(3, 2.5)]),
        (method_format, [(3, 2.5)]),
        (f_strings, [(7, 2.0, "q")]),
        (f_string_of_array, [(X,)]),
        (picture, [([[1, 2], [3]],), ([],)]),
        (picture_of_levels, [([[[1, 2], [3]], [[4]]],)]),
        (generators_side_by_side, [([[1, 2], [3]],), ([[1]],)]),
        (raises_with_text, [(1,), (3,)]),
    ],
    "`print`": [(prints, [(1, X)]), (print_is_ordered, [(X,)])],
}
