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
