"""Classes in archives: what they hold, what their methods read, and what they leave open."""
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import abc
import textwrap
from functools import cached_property
from typing import ClassVar

import numpy as np
import pytest
from saving import reloaded, run_in

from checking import observed
from jitcore import script

LOG: list[object] = []
COUNTS = np.zeros(3)


class Table:
    held: ClassVar = {"a": [1]}

    def note(self, value):
        LOG.append(value)
        COUNTS[0] += 1
        return self

    def seen(self):
        return LOG, COUNTS, self.held


class Larger(Table):
    other = Table.held["a"]


def of_classes():
    log, counts, held = Table().note(1).seen()
    return (
        (log is LOG, counts is COUNTS, held is Table.held),
        (Larger.other is Table.held["a"], Larger().other is held["a"]),
        Table().held is Larger().held,
    )


def of_globals_first():
    LOG.append(2)
    return LOG[-1], Table().seen()[0] is LOG


@pytest.mark.parametrize("function", [of_classes, of_globals_first])
def test_what_classes_share_with_the_program(function):
    loaded = reloaded(script(function))
    for found in (loaded, reloaded(loaded)):
        assert found() == function()
        assert found() == function()


def test_what_classes_share_where_they_are_not_known(tmp_path):
    (tmp_path / "model.py").write_text(
        textwrap.dedent(
            """
            from jitcore import script
            LOG = []
            class Table:
                held = {"a": LOG}
                def note(self): LOG.append(len(LOG)); return self.held
            @script
            def f(): return Table().note()["a"] is LOG, Table.held is Table().held, LOG
            """
        ),
        encoding="utf-8",
    )
    run_in(tmp_path, "import model; model.f.save('p.jit')")
    alone = "import jitcore; f = jitcore.load('p.jit'); print(f(), f())"
    beside = "import jitcore, model; f = jitcore.load('p.jit'); print(f(), f(), model.LOG)"
    (tmp_path / "elsewhere").mkdir()
    found = run_in(tmp_path / "elsewhere", alone.replace("p.jit", str(tmp_path / "p.jit")))
    assert found == "(True, True, [0, 1]) (True, True, [0, 1])\n"
    assert run_in(tmp_path, beside) == "(True, True, [0, 1]) (True, True, [0, 1]) [0, 1]\n"


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...


class Square(Shape):
    def __init__(self, side):
        self.side, self.asked = side, 0

    def area(self):
        return self.side * self.side

    @cached_property
    def diagonal(self):
        self.asked += 1
        return self.side * 2**0.5


def of_abstract_classes(x):
    square = Square(x)
    return square.area(), square.diagonal + square.diagonal, square.asked


def of_what_is_abstract():
    return Shape()  # type: ignore[abstract]


MODULE = """
    import abc
    from functools import cached_property
    from jitcore import script
    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self): ...
    class Square(Shape):
        def __init__(self, side): self.side, self.asked = side, 0
        def area(self): return self.side ** 2
        @cached_property
        def diagonal(self): self.asked += 1; return self.side * 2
    @script
    def f(x):
        one = Square(x)
        return one.area(), one.diagonal + one.diagonal, one.asked
    @script
    def g():
        return Shape()
"""


def test_abstract_classes_and_cached_properties(tmp_path):
    for function, args in ((of_abstract_classes, (1.5,)), (of_what_is_abstract, ())):
        loaded = reloaded(script(function))
        assert observed(loaded, args) == observed(function, args)
    (tmp_path / "model.py").write_text(textwrap.dedent(MODULE), encoding="utf-8")
    run_in(tmp_path, "import model; model.f.save('f.jit'); model.g.save('g.jit')")
    (tmp_path / "model.py").unlink()
    check = """
    import jitcore
    print(jitcore.load('f.jit')(3))
    try: jitcore.load('g.jit')()
    except TypeError as error: print(error)
    """
    first, second = run_in(tmp_path, check).splitlines()
    assert first == "(9, 12, 1)"
    assert "abstract class Shape" in second and "area" in second


SLOTTED = """
    import dataclasses
    from typing import Any, Generic, TypeVar
    from jitcore import script
    T, K = TypeVar("T"), TypeVar("K")
    class Pair:
        __slots__ = ("x", "y", "__hidden")
        def __init__(self, x, y): self.x, self.y, self.__hidden = x, y, x
        def __add__(self, other): return Pair(self.x + other.x, self.__hidden)
    class Triple(Pair):
        __slots__ = "z"
    class Open(Pair):
        __slots__ = ("w", "__dict__")
    @dataclasses.dataclass(slots=True, order=True)
    class Point:
        a: Any
        b: Any = 3
        c: list = dataclasses.field(default_factory=list)
    @dataclasses.dataclass(slots=True, frozen=True)
    class Longer:
        a: Any
        d: Any = 9
    class Stack(Generic[T]):
        def __init__(self): self.items = []
        def push(self, value: T): self.items.append(value); return self
    class Ints(Stack[int]):
        def total(self): return sum(self.items)
    class Two(Stack[T], Generic[T, K]):
        pass
    HELD = Triple(5, 6)
    STACK = Stack[int]().push(7)
    @script
    def f(x):
        pair = Pair(x, 1) + HELD
        point, longer = Point(x), Longer(x)
        point.c.append(1)
        opened = Open(x, x)
        opened.more = opened.w = x
        found = []
        for one in (pair, point, longer):
            try:
                one.other = x
            except (AttributeError, TypeError):
                found.append(type(one).__name__)
        stacks = Stack().push(x).items, Ints().push(x).push(2).total(), Two[int, str]().items
        return (
            (pair.x, pair.y, hasattr(HELD, "z"), found, stacks, STACK.items, STACK.push(1).items),
            (repr(point), max(point, Point(0)).a, {longer: 1}[Longer(x)], opened.more + opened.w),
        )
    @script
    def g():
        return Pair(1, 2), Point(1), Stack()
"""


def test_classes_with_slots_and_generic_ones(tmp_path):
    (tmp_path / "model.py").write_text(textwrap.dedent(SLOTTED), encoding="utf-8")
    expected = run_in(
        tmp_path,
        "import model; model.f.save('f.jit'); model.g.save('g.jit'); print(model.f.__wrapped__(2))",
    )
    known = "print(f(2)); print([type(one) is getattr(model, type(one).__name__) for one in g()])"
    load = "import jitcore, model; f, g = map(jitcore.load, ('f.jit', 'g.jit'))"
    assert run_in(tmp_path, f"{load}; {known}") == f"{expected}[True, True, True]\n"
    (tmp_path / "model.py").unlink()
    again = "import jitcore; f = jitcore.load('f.jit'); f.save('g.jit'); print(f(2))"
    assert run_in(tmp_path, again) == expected
    assert run_in(tmp_path, "import jitcore; print(jitcore.load('g.jit')(2))") == expected
