"""The language: programs that compiled code must run as Python does, and what it must refuse."""
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import re
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import language_classes
import language_closures
import language_containers
import language_control_flow
import language_functions
import language_lists
import language_patterns
import language_refused
import language_strings
import language_types
import numpy as np
import pytest
from language_checking import Program, Table, assert_like_python, place_of, programs_in
from numpy.typing import NDArray

import jitcore
from jitcore import nn

TABLES: tuple[Table, ...] = (
    language_types.PROGRAMS,
    language_containers.PROGRAMS,
    language_lists.PROGRAMS,
    language_strings.PROGRAMS,
    language_control_flow.PROGRAMS,
    language_patterns.PROGRAMS,
    language_functions.PROGRAMS,
    language_closures.PROGRAMS,
    language_classes.PROGRAMS,
)
PROGRAMS = [program for table in TABLES for program in programs_in(table)]
X = np.ones((2, 3), np.float32)
PAGE = Path(__file__).parents[1] / "LANGUAGE.md"


@cache
def _place(number: int) -> str:
    """Where a program of the tables ran, after it was compared with Python."""
    scripted = assert_like_python(PROGRAMS[number])
    assert scripted.code and str(scripted.graph)
    return place_of(scripted)


@pytest.mark.parametrize("number", range(len(PROGRAMS)), ids=[str(one) for one in PROGRAMS])
def test_program(number: int) -> None:
    construct = PROGRAMS[number].construct
    said = _rows()[construct]
    assert _place(number) in said, f"LANGUAGE.md says of {construct} that it is {said}"


@pytest.mark.parametrize("name", language_refused.REFUSED)
def test_refusal(name: str) -> None:
    source, place, message, hint = language_refused.REFUSED[name]
    function = language_refused.function(source)
    with pytest.raises(jitcore.UnsupportedError) as caught:
        jitcore.script(function)
    text = str(caught.value)
    assert re.match(message, text), text
    assert f":{place}\n" in text and "^" in text
    assert hint in text


def test_page_names_every_construct_that_is_tested() -> None:
    rows = _rows()
    tested = {program.construct for program in PROGRAMS} | set(language_refused.REFUSED)
    assert tested == set(rows)
    for construct in language_refused.REFUSED:
        assert rows[construct] == ("no",)


def test_page_says_nothing_too_general() -> None:
    """Where a row says native and host, there are programs of both kinds."""
    found: dict[str, set[str]] = {}
    for number, program in enumerate(PROGRAMS):
        found.setdefault(program.construct, set()).add(_place(number))
    for construct, places in found.items():
        mixed = len(places) > 1 or "both" in places
        expected = {"native", "host", "both"} if mixed else places
        assert set(_rows()[construct]) == expected, construct


def _rows() -> dict[str, tuple[str, ...]]:
    """The rows of the page's tables: a construct, and where it runs."""
    return dict(_read_rows())


def _read_rows() -> Iterator[tuple[str, tuple[str, ...]]]:
    meaning = {
        "native": ("native",),
        "Python": ("host",),
        "native or Python": ("native", "host", "both"),
        "no": ("no",),
    }
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and cells[1] in meaning:
            yield cells[0], meaning[cells[1]]


# What compiled code can tell


def test_is_scripting() -> None:
    def f(x):
        if jitcore.is_scripting():
            return x + 1
        return x.no_such_attribute

    assert jitcore.script(f)(1) == 2
    assert jitcore.is_scripting() is False


def test_unused_function_raises_in_compiled_code() -> None:
    f = jitcore.script(language_functions.calls_unused)
    with pytest.raises(jitcore.Error, match="'unused' is marked as unused and cannot be run"):
        f(np.ones(2), True)
    assert f(2.5, False) == 2.5  # machine code, which must not leave the other case to Python
    with pytest.raises(jitcore.Error, match="'unused' is marked as unused and cannot be run"):
        f(2.5, True)
    dropped = jitcore.ignore(drop=True)(language_functions.helper_of_nobody)
    with pytest.raises(jitcore.Error, match="marked as unused"):
        jitcore.script(language_functions.calls_helper_of_nobody)(1)
    assert dropped(1) == 2


def test_ignored_function_is_called_as_it_is() -> None:
    calls = []

    @jitcore.ignore
    def note(x):
        calls.append(x)
        return iter([x])

    def f(x):
        return list(note(x + 1))

    assert jitcore.script(f)(1) == [2]
    assert calls == [2]


# Classes


def test_script_gives_a_class_back() -> None:
    class Plain:
        def __init__(self, x):
            self.x = x

    assert jitcore.script(Plain) is Plain


def test_script_checks_the_methods_of_a_class() -> None:
    class Bad:
        def items(self):
            yield 1

    with pytest.raises(jitcore.UnsupportedError, match="'yield' is not supported"):
        jitcore.script(Bad)


def test_script_leaves_marked_methods_of_a_class() -> None:
    @jitcore.script
    class Good:
        @jitcore.ignore
        def items(self):
            yield 1

        @property
        @jitcore.unused
        def more(self):
            yield 2

    assert list(Good().items()) == [1]


def test_changed_method_of_a_named_tuple_is_seen() -> None:
    class Pair(typing.NamedTuple):
        x: int

        def value(self):
            return self.x + 1

    def f(p):
        return p.value()

    def changed(self):
        return self.x + 100

    scripted = jitcore.script(f)
    assert scripted(Pair(1)) == 2
    setattr(Pair, "value", changed)  # noqa: B010
    assert scripted(Pair(1)) == 101


def test_changed_global_of_a_function_argument_is_seen() -> None:
    scripted = jitcore.script(language_functions.function_argument)
    before = language_functions.FACTOR
    try:
        assert scripted(reads_factor, 1) == 3 + 6
        language_functions.FACTOR = 10
        assert scripted(reads_factor, 1) == 10 + 20
    finally:
        language_functions.FACTOR = before


def reads_factor(x: Any) -> Any:
    return x * language_functions.FACTOR


def test_objects_that_are_equal_are_told_apart() -> None:
    class Box:
        def __init__(self, x):
            self.x = x

        def __eq__(self, other):
            return True

        def __hash__(self):
            return 1

        def __call__(self):
            return self.x

    scripted = jitcore.script(lambda box: (box.x, box()))
    assert scripted(Box(1)) == (1, 1)
    assert scripted(Box(2)) == (2, 2)


def test_objects_keep_their_identity() -> None:
    scripted = jitcore.script(language_functions.pass_through)
    for value in ([1], {"a": 1}, np.ones(2), object(), language_classes.Vector(1.0, 2.0)):
        assert scripted(value) is value


class AsksTheValue(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, np.ndarray) or value == 3


class Three(metaclass=AsksTheValue):
    pass


@typing.runtime_checkable
class Shaped(typing.Protocol):
    shape: tuple[int, ...]


def decided_by_classes(value):
    return isinstance(value, Three), isinstance(value, (str, Three)), isinstance(value, Shaped)


def test_classes_that_look_at_more_than_the_class() -> None:
    calls = [(3,), (4,), (2.5,), (X,), ("a",), ([1],), (None,)]
    assert_like_python(Program("`isinstance`, `type`", decided_by_classes, calls))


# jitcore.isinstance


@pytest.mark.parametrize(
    ("value", "type_", "expected"),
    [
        (1, int, True),
        ([1, 2], list[int], True),
        ([1, "a"], list[int], False),
        ([], list[int], True),
        ([[1], [2]], list[list[int]], True),
        ({"a": 1}, dict[str, int], True),
        ({"a": "b"}, dict[str, int], False),
        ((1, "a"), tuple[int, str], True),
        ((1, "a", 2), tuple[int, str], False),
        ((1, 2, 3), tuple[int, ...], True),
        (None, int | None, True),
        (1.0, int | str, False),
        (None, None, True),
        ("a", (int, str), True),
        (3, Any, True),
        ({1, 2}, set[int], True),
        ({1, "a"}, frozenset[int], False),
        (["a"], typing.List, True),  # noqa: UP006  # without the type of its elements
        ({"a": 1}, Mapping[str, int], True),
        ("a", typing.Literal["a", "b"], True),
        (True, typing.Literal[1], False),
        (X, NDArray[np.float32], True),
        (X, NDArray[np.float64], False),
        (X, NDArray[np.floating[Any]], True),
        (X, NDArray[np.float32 | np.int8], True),
        (X, NDArray[Any], True),
        (X, np.ndarray[tuple[int], np.dtype[np.float32]], False),
        ([X], list[NDArray[np.float32]], True),
    ],
)
def test_isinstance(value: Any, type_: Any, expected: bool) -> None:
    assert jitcore.isinstance(value, type_) is expected


def test_isinstance_does_not_use_iterators_up() -> None:
    values = iter([1, 2])
    with pytest.raises(TypeError, match="looks into containers only; found Iterator"):
        jitcore.isinstance(values, Iterator[int])
    assert list(values) == [1, 2]


def test_marks_of_what_is_no_function() -> None:
    markers: list[Any] = [jitcore.ignore, jitcore.export, jitcore.unused]
    for mark in markers:
        with pytest.raises(TypeError, match=r"\(\) takes a function written in Python; found int"):
            mark(3)
    with pytest.raises(TypeError, match=r"script_if_tracing\(\) takes a function; found str"):
        jitcore.script_if_tracing("f")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"explain\(\) takes what script\(\) gave; found int"):
        jitcore.explain(3)  # type: ignore[arg-type]


def test_marks_above_static_and_class_methods() -> None:
    class Marked(nn.Module):
        @jitcore.ignore
        @staticmethod
        def items(x):
            yield x

        @jitcore.ignore
        @classmethod
        def doubled(cls, x):
            return [*cls.items(x), *cls.items(x)]

        def forward(self, x):
            return self.doubled(x)

    assert jitcore.script(Marked())(3) == [3, 3]


def test_interface_takes_a_class() -> None:
    with pytest.raises(TypeError, match="interface\\(\\) takes a class; found int"):
        jitcore.interface(3)  # type: ignore[type-var]


def test_attribute_holds_a_value_and_a_type() -> None:
    assert jitcore.Attribute([], list[int]) == ([], list[int])
