"""What saved programs hold: arrays and their memory, constants, objects, classes."""
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import dataclasses
import enum
import io
import math
import textwrap
from typing import Any, ClassVar

import numpy as np
import pytest
from saved_subjects import SUBJECTS
from saving import entries_of, reloaded, run_in, saved

import jitcore
from jitcore import script

BASE = np.arange(24.0).reshape(4, 6)
MATRIX = np.asfortranarray(BASE[:, :3])
HELD = {
    "base": BASE,
    "row": BASE[1],
    "column": BASE[:, 2],
    "turned": BASE.T,
    "backwards": BASE[::-1, ::-1],
    "bytes": BASE.view(np.uint8)[2, 8:16],
    "again": BASE,
    "alone": np.arange(20)[::3],
    "fortran": MATRIX,
}


@script
def held(name):
    return HELD[name]


def test_views_share_memory_as_before():
    loaded = reloaded(held)
    found = {name: loaded(name) for name in HELD}
    for name, array in HELD.items():
        np.testing.assert_array_equal(found[name], array, strict=True)
    assert found["again"] is found["base"]
    found["base"][1, 2] = -1.0
    assert found["row"][2] == found["column"][1] == found["turned"][2, 1] == -1.0
    assert found["backwards"][2, 3] == -1.0
    found["bytes"][...] = 0
    assert found["base"][2, 1] == 0.0
    assert not np.shares_memory(found["alone"], found["base"])
    assert BASE[1, 2] == 8.0
    names = [name for name in entries_of(saved(held)) if name.startswith("arrays/")]
    assert len(names) == 3


def test_memory_layouts_are_kept():
    loaded = reloaded(held)
    for name, array in HELD.items():
        found = loaded(name)
        if name != "alone":
            assert found.strides == array.strides, name
        assert found.flags.writeable == array.flags.writeable


DTYPES = [
    *(np.dtype(kind) for kind in "?bhilBHILefdFDgG"),
    np.dtype(">f4"),
    np.dtype("M8[s]"),
    np.dtype("m8[ms]"),
    np.dtype("U3"),
    np.dtype("S2"),
    np.dtype([("a", "<i4"), ("b", "<f8", (2,))]),
]
ARRAYS = {str(number): np.zeros((2, 3), dtype) for number, dtype in enumerate(DTYPES)}
ARRAYS |= {"empty": np.empty((0, 3)), "zero": np.array(4.5), "large rank": np.ones((1,) * 20)}
ARRAYS["constant"] = np.broadcast_to(np.float32(2), (3, 4))


@script
def array_of(name):
    return ARRAYS[name]


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_of_all_dtypes(name):
    found = reloaded(array_of)(name)
    np.testing.assert_array_equal(found, ARRAYS[name], strict=True)
    assert found.flags.writeable == ARRAYS[name].flags.writeable


CONSTANTS = (
    None,
    True,
    -(2**70),
    2**5000,
    0.1,
    -0.0,
    math.inf,
    5e-324,
    complex(-0.0, math.inf),
    'text with "quotes", \\ and \n and ü and \ud800',
    b"\x00\xff",
    ...,
    (1, (2.0, "a")),
    frozenset({1, 2}),
    slice(1, None, -1),
    range(3, 9, 2),
    np.float32(0.1),
    np.int8(-3),
    np.complex64(1 + 2j),
    np.bool_(True),
    np.datetime64("2020-01-02"),
    np.dtype("f4"),
    int,
    np.float32,
    len,
    np.add,
    np.add.reduce,
    np.linalg.norm,
    math.sin,
    str.upper,
    dict.fromkeys,
    ValueError,
    list[int],
    int | None,
)
CONTAINER = list(CONSTANTS)


@script
def constants():
    return CONTAINER


def test_constants_are_exact():
    found = reloaded(constants)()
    for one, other in zip(found, CONSTANTS, strict=True):
        assert type(one) is type(other)
        assert one == other and repr(one) == repr(other)


def test_nan_keeps_its_sign():
    values = [math.nan, math.copysign(math.nan, -1)]
    found = reloaded(script(lambda: values))()
    assert [math.copysign(1, one) for one in found] == [1.0, -1.0]


SHARED = [1, 2]
CIRCLE: dict[str, object] = {"list": SHARED, "same": SHARED}
CIRCLE["self"] = CIRCLE


@script
def circle():
    return CIRCLE


def test_containers_are_shared_as_before():
    found = reloaded(circle)()
    assert found["self"] is found and found["list"] is found["same"]
    assert found["list"] == [1, 2] and found["list"] is not SHARED


def test_classes_of_this_process_are_found_again():
    program = SUBJECTS["classes"]
    loaded = reloaded(program)
    assert type(loaded(2, "other")[0]) is type(program(2, "other")[0])


def test_classes_that_differ_are_made_anew(tmp_path):
    """A process may have another class of the same name: the program keeps its own."""
    module = """
    from typing import NamedTuple
    from jitcore import script

    class Point(NamedTuple):
        x: float
        {more}

    @script
    def make(x):
        return Point(x, 2.0)
    """
    first, second = (textwrap.dedent(module.format(more=more)) for more in ("y: float", "z: float"))
    (tmp_path / "model.py").write_text(first, encoding="utf-8")
    run_in(tmp_path, "import model; model.make.save('p.jit'); assert model.make(1.0).y == 2.0")
    check = """
    import jitcore, model
    found = jitcore.load('p.jit')(1.0)
    print(type(found) is model.Point, found)
    """
    assert run_in(tmp_path, check) == "True Point(x=1.0, y=2.0)\n"
    (tmp_path / "model.py").write_text(second, encoding="utf-8")
    assert run_in(tmp_path, check) == "False Point(x=1.0, y=2.0)\n"


def test_inspection_shows_everything_and_runs_nothing(tmp_path):
    path = tmp_path / "model.jit"
    jitcore.save(SUBJECTS["model"], path, {"labels.txt": "a\nb"})
    text = run_in(
        tmp_path,
        "import runpy, sys; sys.argv = ['jitcore', 'inspect', 'model.jit']\n"
        "runpy.run_module('jitcore', run_name='__main__', alter_sys=True)",
    )
    assert text.startswith("script module Model, ")
    for part in (
        "format version 1",
        "Model.forward(x), for 2 modes",
        "weight: float32[3, 4]",
        "scale: float32[3]",
        "labels.txt: 3 bytes",
        "layer class saved_subjects.Model",
        "code/forward.py",
        "def forward(x",
    ):
        assert part in text, part
    jitcore.save(SUBJECTS["classes"], path)
    text = run_in(
        tmp_path,
        "from jitcore.serialization.inspection import inspect_file\n"
        "print(inspect_file('model.jit'))",
    )
    for part in (
        "script function with_classes",
        "enum saved_subjects.Kind",
        "Interval",
        "x, kind=",
    ):
        assert part in text, part


def test_loading_keeps_nothing_of_the_file(tmp_path):
    path = tmp_path / "f.jit"
    held.save(path)
    loaded = jitcore.load(path)
    path.unlink()
    np.testing.assert_array_equal(loaded("base"), BASE)
    assert jitcore.load(io.BytesIO(saved(loaded)))("row")[0] == 6.0


# Dataclasses, in a process that does not know them


def dataclass_program():
    @dataclasses.dataclass(order=True)
    class Base:
        x: float
        power: dataclasses.InitVar[int] = 2
        scale: ClassVar[float] = 3.0
        size: Any = dataclasses.field(default=None, compare=False)

        def __post_init__(self, power):
            self.size = self.x**power * self.scale

    @dataclasses.dataclass(frozen=True)
    class Pair:
        low: int
        high: int = dataclasses.field(default=4, hash=False)

    @dataclasses.dataclass
    class Sized(Base):
        seen: list[float] = dataclasses.field(default_factory=list)

        def __post_init__(self, power):
            super().__post_init__(power + 1)
            self.seen.append(self.size)

    @script
    def program(x):
        made: list[Any] = [Base(x), Base(x, 3), Sized(x), Sized(x, 1, seen=[x])]
        sizes = [one.size for one in made], made[3].seen, Base.scale
        base: Any = Base
        return sizes, made[0] < base(x + 1), base.power, hash(Pair(1)) == hash(Pair(1, 5))

    return program


def test_dataclasses():
    program = dataclass_program()
    assert reloaded(program)(1.5) == program(1.5) == program.__wrapped__(1.5)
    assert program(1.5)[0] == ([6.75, 10.125, 10.125, 6.75], [1.5, 6.75], 3.0)


# Enums whose members are something besides


class Suit(str, enum.Enum):  # noqa: UP042  # as programs older than Python 3.11 write it
    CLUBS = "c"
    SPADES = "s"

    def twice(self):
        return self.value * 2


class Size(float, enum.Enum):
    SMALL = 0.5
    LARGE = 2.0


class Rank(int, enum.Enum):
    LOW = 1
    HIGH = 10


def members(suit, size):
    order = {Suit.CLUBS: 1, Rank.HIGH: 2, Size.SMALL: 3}
    texts = [str(suit), repr(size), f"{Rank.LOW}", Suit.SPADES + "!", Suit("s").twice()]
    return (
        size * Rank.HIGH + Size.LARGE,
        order,
        texts,
        suit == Suit.CLUBS,
        [one.name for one in Rank],
    )


def test_enums_of_texts_and_numbers():
    loaded = reloaded(script(members))
    for arguments in ((Suit.CLUBS, Size.SMALL), ("c", 0.5), (Suit.SPADES, Size.LARGE)):
        assert loaded(*arguments) == members(*arguments)


def test_enums_of_texts_in_another_process(tmp_path):
    path = tmp_path / "members.jitcore"
    script(members).save(path)
    text = f"""
        import jitcore
        print(jitcore.load({str(path)!r})("s", 2.0))
    """
    assert run_in(tmp_path, textwrap.dedent(text)) == f"{members('s', 2.0)}\n"
