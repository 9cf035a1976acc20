"""The package's own ``dataclass``: what it makes is what the standard one makes."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass as standard
from dataclasses import field, fields, is_dataclass, replace
from typing import Any

import pytest

from jitcore.ir.dataclass import dataclass

Decorator = Callable[..., Callable[[type[Any]], type[Any]]]


def point(decorator: Decorator, **options: bool) -> type[Any]:
    class Point:
        """A place."""

        x: int
        name: str = "here"
        note: object = field(default=None, compare=False, repr=False)

    return decorator(slots=True, **options)(Point)


def single(decorator: Decorator) -> type[Any]:
    class Single:
        value: float

    return decorator(frozen=True, slots=True)(Single)


def empty(decorator: Decorator) -> type[Any]:
    class Empty:
        """Nothing."""

    return decorator(frozen=True, slots=True)(Empty)


def with_methods(decorator: Decorator) -> type[Any]:
    class Own:
        """A number with methods."""

        x: int

        def __repr__(self) -> str:
            return f"<{self.x}>"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

    return decorator(frozen=True, slots=True)(Own)


def answers(made: type[Any], *records: Any) -> list[Any]:
    """What can be seen of a class and its records, hashes by whether they agree."""
    same = [[one == other for other in records] for one in records]
    hashes = [[hash(one) == hash(other) for other in records] for one in records]
    return [
        list(map(repr, records)),
        same,
        hashes,
        [one.name for one in fields(made)],
        getattr(made, "__match_args__", None),
        getattr(made, "__slots__", None),
        made.__doc__,
        is_dataclass(made),
        records[0] == "other",
    ]


def test_frozen_records() -> None:
    ours, theirs = (point(one, frozen=True) for one in (dataclass, standard))
    found, wanted = (
        answers(made, made(1), made(1, note=2), made(2), made(1, "there"), made(x=1, name="here"))
        for made in (ours, theirs)
    )
    assert found == wanted


def with_equality(decorator: Decorator) -> type[Any]:
    class Equal:
        x: int

        def __eq__(self, other: object) -> bool:
            return True

    return decorator(frozen=True, slots=True)(Equal)


def test_records_with_an_equality_of_their_own_have_hashes() -> None:
    assert hash(with_equality(dataclass)(3)) == hash(with_equality(standard)(3))


@pytest.mark.parametrize("make", [empty, with_methods])
def test_records_without_fields_and_with_methods_of_their_own(
    make: Callable[[Decorator], type[Any]],
) -> None:
    arguments = (3,) if make is with_methods else ()
    found, wanted = (
        answers(made, made(*arguments), made(*arguments))
        for made in (make(dataclass), make(standard))
    )
    assert found == wanted


def test_the_same_nan_is_equal_as_in_tuples() -> None:
    other = float("nan")
    for made in (single(dataclass), single(standard)):
        assert made(math.nan) == made(math.nan)
        assert made(math.nan) != made(other)
        assert hash(made(1.0)) == hash(made(1))


def test_records_that_change_have_no_hash() -> None:
    for decorator in (dataclass, standard):
        made = point(decorator)
        record = made(1)
        record.x = 5
        assert record == made(5)
        with pytest.raises(TypeError, match="unhashable"):
            hash(record)
        with pytest.raises(AttributeError):
            record.other = 1


def built(decorator: Decorator) -> type[Any]:
    class Base:
        x: int
        parts: list[int] = field(default_factory=list)

    class Derived(decorator(slots=True)(Base)):  # type: ignore[misc]
        y: int = 2
        sign: int = field(default=1, init=False)
        seen: list[int] = field(default_factory=list, init=False)
        total: int = field(init=False)
        flag: bool = field(default=False, kw_only=True)

        def __post_init__(self) -> None:
            self.total = self.x + self.y

    return decorator(slots=True)(Derived)


def test_initializers() -> None:
    ours, theirs = built(dataclass), built(standard)
    right: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((1,), {}),
        ((1, [3], 4), {"flag": True}),
        ((), {"x": 5, "y": 7, "parts": [1]}),
    ]
    for arguments, keywords in right:
        assert repr(ours(*arguments, **keywords)) == repr(theirs(*arguments, **keywords))
    many = {repr(ours(1, [3], y)) for _ in range(100) for y in (4, 5)}
    assert many == {repr(theirs(1, [3], y)) for y in (4, 5)}
    first, second = ours(1), ours(1)
    assert first.parts is not second.parts
    assert first.seen is not second.seen
    wrong: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((), {}),
        ((1, [], 2, True), {}),
        ((1,), {"sign": 2}),
        ((1,), {"none": 2}),
    ]
    for arguments, keywords in wrong:
        messages = []
        for made in (built(dataclass), built(standard), ours):
            with pytest.raises(TypeError) as caught:
                made(*arguments, **keywords)
            messages.append(str(caught.value))
        assert len(set(messages)) == 1


def test_records_that_are_told_apart_by_identity() -> None:
    for decorator in (dataclass, standard):
        made = point(decorator, eq=False)
        one, other = made(1), made(1)
        assert one != other
        assert len({one, other}) == 2


def test_records_of_two_classes_differ() -> None:
    one, other = point(dataclass, frozen=True), point(dataclass, frozen=True)
    assert one(1) != other(1)


@dataclass(frozen=True, slots=True)
class Kept:
    """A record that is found by its name."""

    x: int
    parts: tuple[int, ...] = ()


def test_copies() -> None:
    kept = Kept(3, (1, 2))
    assert pickle.loads(pickle.dumps(kept)) == kept
    assert copy.deepcopy(kept) == kept
    assert replace(kept, x=4) == Kept(4, (1, 2))
    match kept:
        case Kept(3, (first, *_)):
            assert first == 1
        case _:
            raise AssertionError


def with_keywords(decorator: Decorator) -> type[Any]:
    class Made:
        x: int
        y: int = 2
        z: list[int] = field(default_factory=list)
        w: int = field(kw_only=True)
        v: int = field(init=False, default=7)

    return decorator(slots=True)(Made)


WAYS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((1,), {"w": 4}),
    ((), {"w": 4, "x": 1}),
    ((1, 5, [6]), {"w": 4}),
    ((1,), {"z": [3], "w": 4}),
    ((1,), {}),
    ((), {"w": 4}),
    ((1,), {"w": 4, "x": 1}),
    ((1,), {"w": 4, "v": 1}),
    ((1,), {"w": 4, "unknown": 1}),
    ((1, 2, [3], 4), {"w": 4}),
]


@pytest.mark.parametrize(("args", "keywords"), WAYS)
def test_what_a_record_is_made_of(args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    """The same for the first records of a class, and for those after many."""
    found = []
    for decorator in (dataclass, standard):
        made = with_keywords(decorator)
        for count in (0, 200):
            for _ in range(count):
                made(1, w=4)
            try:
                found.append(repr(made(*args, **keywords)).rpartition(".")[2])
            except TypeError as error:
                found.append(str(error).rpartition(".")[2])
    assert found == [found[-1]] * 4
