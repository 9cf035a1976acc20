"""Programs about types: annotations, numbers, None, unions, tuples, named tuples, enums."""
# The programs are what people write, and some of them are wrong.
# mypy: ignore-errors

from __future__ import annotations

import collections
from enum import Enum, IntEnum
from typing import Any, Dict, Final, List, NamedTuple, Optional, Tuple, Union

import numpy as np
from language_checking import Table

import jitcore
from jitcore import annotate

X = np.linspace(-1.0, 2.0, 7)
SCALE: Final[float] = 2.5
LIMITS: Final = (0.25, 1.5)


class Point(NamedTuple):
    x: float
    y: float = 2.0


class Particle(NamedTuple):
    position: Any
    velocity: Any
    mass: float = 1.0

    def energy(self):
        return 0.5 * self.mass * (self.velocity * self.velocity).sum()

    @property
    def speed(self):
        return abs(self.velocity).max()


class Vec(NamedTuple):
    x: float
    y: float

    def __add__(self, other):
        if not isinstance(other, Vec):
            return NotImplemented
        return Vec(self.x + other.x, self.y + other.y)

    def __mul__(self, k):
        return Vec(self.x * k, self.y * k)

    def __rmul__(self, k):
        return self * k

    def __neg__(self):
        return Vec(-self.x, -self.y)

    def __eq__(self, other):
        return self.x == other.x

    __hash__ = tuple.__hash__

    def norm(self, order=2, *, scale=1.0):
        return (abs(self.x) ** order + abs(self.y) ** order) * scale

    @property
    def total(self):
        return self.x + self.y


Segment = collections.namedtuple("Segment", ["start", "stop"], defaults=[9])


class Color(Enum):
    RED = 1
    GREEN = 2
    CRIMSON = 1


class Mode(Enum):
    FAST = "fast"
    EXACT = "exact"


class Level(IntEnum):
    LOW = 1
    HIGH = 10


# Annotations


def annotated(x: np.ndarray, k: int, s: float = 2.0, *, flag: bool = True) -> np.ndarray:
    y: np.ndarray = x * s
    z: int
    z = k + 1
    return y * z if flag else y


def annotated_as_text(x: "jitcore.Tensor", k: "Optional[int]" = None) -> "jitcore.Tensor":
    return x if k is None else x * k


def annotated_by_comment(x, k, names):
    # type: (np.ndarray, int, List[str]) -> Tuple[np.ndarray, int]
    parts = []  # type: List[int]
    for name in names:
        parts.append(len(name) * k)
    return x * k, len(parts)


def annotated_per_argument(
    x,  # type: np.ndarray
    k=3,  # type: int
):
    # type: (...) -> np.ndarray
    return x + k


def annotated_generics(a: list[int], b: dict[str, float], c: tuple[int, ...], d: int | None):
    total: List[int] = []
    total.extend(a)
    known: Dict[str, float] = {}
    known.update(b)
    return total, known, c, d


def with_annotate(n):
    values = annotate(List[int], [])
    for i in range(n):
        values.append(i * i)
    return values


def with_jitcore_annotate(n):
    best = jitcore.annotate(Optional[int], None)
    for i in range(n):
        if best is None or i % 3 > best:
            best = i % 3
    return best


def final_constant(x):
    return x * SCALE + LIMITS[0]


# Numbers


def integer_arithmetic(a, b):
    return a + b, a - b, a * b, a / b, a // b, a % b, a**2, -a, +a, ~a, a & b, a | b, a ^ b


def shifts(a, b):
    return a << b, a >> b, a << 3 >> 1


def power(a, b):
    return a**b


def float_arithmetic(a, b):
    return a + b, a - b, a * b, a / b, a // b, a % b, a**b, -a, abs(a), divmod(a, b)


def complex_arithmetic(a, b):
    return a + b, a * b, a / b, -a, abs(a), a.real, a.imag, a.conjugate(), a == b, a**2


def bool_arithmetic(a, b):
    return a + b, a & b, a | b, a ^ b, not a, a and b, a or b, -a, a * 3


def conversions(a):
    return int(a), float(a), bool(a), str(a), complex(a)


def conversions_of_text(s):
    return int(s), float(s), bool(s), complex(s)


def conversions_of_arrays(x):
    return int(x.sum()), float(x[0]), bool(x[1] > 0), complex(x[2]), x[0].item(), x.tolist()


def number_methods(a, f):
    return a.bit_length(), f.is_integer(), f.hex(), a.real, f.imag, a.numerator


def big_integers(a):
    return a * a * a, 2**100, a << 70


def rounding(a):
    return round(a), round(a, 1), round(a, -1), round(a, None)


def number_bases(a):
    return hex(a), oct(a), bin(a), chr(a + 60), ord("a") + a, pow(a, 2), pow(a, 3, 5)


def mixed_comparisons(a, b):
    return a < b, a <= b, a == b, a != b, a > b, a >= b, a is b, a is not b


def numpy_scalars(x, i):
    v = x[i]
    return (
        v,
        v + 1,
        type(v) is np.float64,
        isinstance(v, float),
        np.float32(v) * 2,
        np.int8(100) * i,
    )


def strings_of_numbers(a, b, c):
    return str(a), repr(b), str(c), f"{a}", str(-0.0), str(1e22), repr(1.0)


# None, Optional, Union, Any


def optional_default(x, k: Optional[int] = None):
    if k is None:
        k = 3
    return x * k


def optional_early_return(x, k: Optional[float]):
    if k is None:
        return x
    return x * k


def optional_and_or(k: Optional[int], low: int):
    return (k is not None and k > low) or (k is None and low < 0)


def optional_assert(k: Optional[int]):
    assert k is not None, "k is needed"
    return k + 1


def optional_elif(a: Optional[int], b: Optional[int]):
    if a is None and b is None:
        return 0
    elif a is None:
        return b
    elif b is None:
        return a
    return a + b


def optional_ternary(a: Optional[float]):
    return 0.0 if a is None else a * 2


def optional_truth(a: Optional[int]):
    if a:
        return a
    return -1


def optional_in_loop(values):
    best: Optional[float] = None
    for value in values:
        if best is None or value > best:
            best = value
    return best


def optional_in_numeric_loop(x):
    best: Optional[int] = None
    for i in range(len(x)):
        if x[i] > 0.5:
            best = i
            break
    if best is None:
        return -1
    return best + 1


def optional_array(x, y: Optional[np.ndarray] = None):
    if y is not None:
        x = x + y
    return x


def union_refined(a: Union[int, str, float]):
    if isinstance(a, str):
        return a + "!"
    elif isinstance(a, int):
        return a + 1
    else:
        return a * 0.5


def union_of_branches(n):
    if n > 2:
        y: Union[int, str] = n
    else:
        y = "small"
    if isinstance(y, int):
        return y + 1
    return y.upper()


def any_argument(a: Any):
    if isinstance(a, list):
        return len(a)
    if isinstance(a, (int, float)):
        return a + 1
    if isinstance(a, tuple):
        return a[0]
    return None


def isinstance_many(a):
    return (
        isinstance(a, int),
        isinstance(a, (str, list)),
        isinstance(a, np.ndarray),
        isinstance(a, bool | float),
        type(a) is int,
        type(a).__name__,
    )


def container_refinement(a: Any):
    if jitcore.isinstance(a, List[int]):
        return sum(a)
    if jitcore.isinstance(a, Dict[str, int]):
        return len(a)
    if jitcore.isinstance(a, (Tuple[int, str], Optional[float])):
        return a
    return "other"


def a_variable_changes_its_type(x):
    y = 1
    y = x * y
    y = str(y.shape)
    return y


# Tuples


def tuple_operations(t):
    a, b, c = t
    first, *others = t
    return a, t[1], t[-1], t[1:], t[::-1], len(t), t + (4,), t * 2, others, first, (b, c) == t[1:]


def tuple_of_several_types(n):
    names = ("a", 2, None)
    for i in range(2):
        print(names[i - n])
    return names[n]


def tuple_dynamic_index(n):
    t = (1, 2, 3)
    total = 0
    for i in range(n):
        total += t[i % 3]
    return total


def tuple_membership(a):
    return a in (1, 2, 3), a not in (4, "x"), (1, 2).count(a), (5, a).index(a)


def tuple_comparisons(a, b):
    return (a, b) < (b, a), (a, b) == (a, b), (a,) != (b,), max((a, b), (b, a)), sorted((b, a))


def tuple_state_in_loop(n):
    state = (0, 1)
    for _ in range(n):
        state = (state[1], state[0] + state[1])
    return state


def nested_tuples(t):
    (a, (b, c)), d = t
    return a + b + c + d, ((a, b), (c, d)), t[0][1][0]


def tuple_of_arrays(x):
    pair = (x * 2, x.sum())
    y, s = pair
    return y - s, pair[0][1:]


def tuple_built_from_others(n, s):
    return tuple([n, n + 1]), tuple(range(3)), tuple(s), tuple(x * 2 for x in (1, 2))


# Named tuples


def named_tuple_made(a):
    p = Point(a)
    q = Point(y=a, x=3.0)
    return p, q, p.x + q.y, p[0], p == q, len(p)


def named_tuple_argument(p):
    x, y = p
    return p.x * y + p[1] * x, Point(p.y, p.x)


def named_tuple_methods(p):
    return p._replace(x=7.0), p._asdict(), p._fields, Point._make([1.0, 2.0])


def named_tuple_in_loop(n):
    p = Point(0.0, 1.0)
    for _ in range(n):
        p = Point(p.x + p.y, p.y * 0.5)
    return p


def named_tuple_of_arrays(x, n):
    p = Particle(x, x * 0.5)
    for _ in range(n):
        p = Particle(p.position + p.velocity, p.velocity * 0.9, p.mass)
    return p


def named_tuple_argument_of_arrays(p):
    return p.position.sum() + p.mass, p.energy(), p.speed


def named_tuple_operators(v, w):
    return v + w, v * 2.0, 3.0 * v, -v, v == w, v != w, v < w, v.norm(), w.norm(3, scale=2.0)


def named_tuple_added_to_others(v):
    return v + (1.0,)


def named_tuple_with_operators_in_loop(n):
    v = Vec(0.0, 1.0)
    step = Vec(0.5, -0.25)
    for i in range(n):
        v = v + step * float(i)
        if v.total > 4:
            v = -v
    return v


def collections_namedtuple(a):
    s = Segment(a)
    t = Segment(start=1, stop=a)
    return s, t, s.stop - t.start, s._fields


# Enums


def enum_compared(c):
    if c == Color.RED:
        return "red"
    if c is Color.GREEN:
        return "green"
    return "none"


def enum_attributes(c):
    return c.name, c.value, Color.GREEN.value + 1, Color.RED.name, Color.CRIMSON


def enum_made(v):
    return Color(v), Color["RED"], Mode("fast")


def enum_iterated(n):
    total = n
    for c in Color:
        total += c.value
    return total, [m.value for m in Mode], len(Color)


def enum_chooses(x, mode):
    if mode == Mode.FAST:
        return x * 2
    elif mode is Mode.EXACT:
        return x * 3
    return x


def enum_in_containers(c):
    return {c: 1, Color.GREEN: 2}, c in [Color.RED], c in Color, (c, Mode.FAST)


def int_enum(n):
    if n >= Level.HIGH:
        return Level.HIGH
    return Level.LOW + n


PROGRAMS: Table = {
    "annotations": [
        (annotated, [(X, 2), (X, 2, 3.0)]),
        (annotated_as_text, [(X,), (X, 3)]),
        (annotated_by_comment, [(X, 2, ["a", "bc"])]),
        (annotated_per_argument, [(X,), (X, 5)]),
        (annotated_generics, [([1], {"a": 2.0}, (1, 2), None)]),
    ],
    "`annotate`, `Final`": [
        (with_annotate, [(4,)]),
        (with_jitcore_annotate, [(5,), (0,)]),
        (final_constant, [(X,)]),
    ],
    "`int`, `float`, `bool`": [
        (integer_arithmetic, [(7, 3), (-7, 3), (7, 0)]),
        (shifts, [(5, 2), (-5, 1), (5, -1)]),
        (float_arithmetic, [(7.5, 2.0), (-7.5, 2.0), (1.0, 0.0)]),
        (bool_arithmetic, [(True, False), (True, True)]),
        (mixed_comparisons, [(1, 2.0), (2.0, 2.0), (3, 3)]),
        (numpy_scalars, [(X, 2)]),
    ],
    "`complex`": [(complex_arithmetic, [(1 + 2j, 3 - 1j), (0j, 1j), (1j, 0j)])],
    "integers of any size, powers": [
        (power, [(2, 10), (2, -1), (2.0, 0.5), (-8, 3), (0, -1), (3, 2.0)]),
        (big_integers, [(2**40,), (3,)]),
    ],
    "conversions": [
        (conversions, [(3,), (2.5,), (True,), (0.0,)]),
        (conversions_of_text, [("12",), ("x",)]),
        (conversions_of_arrays, [(X,)]),
    ],
    "methods and text of numbers": [
        (number_methods, [(10, 2.0)]),
        (number_bases, [(5,), (200,)]),
        (strings_of_numbers, [(1, 2.5, True), (1e300, 0.1, None)]),
    ],
    "`round`": [(rounding, [(2.5,), (3.14159,), (17,), (-0.5,)])],
    "`None` and `Optional`": [
        (optional_default, [(X,), (X, 2)]),
        (optional_early_return, [(X, None), (X, 2.0)]),
        (optional_and_or, [(None, 1), (3, 1), (None, -1)]),
        (optional_assert, [(3,), (None,)]),
        (optional_elif, [(None, None), (1, None), (None, 2), (1, 2)]),
        (optional_ternary, [(None,), (2.0,)]),
        (optional_truth, [(None,), (0,), (3,)]),
        (optional_in_loop, [([1.0, 3.0, 2.0],), ([],)]),
        (optional_in_numeric_loop, [(X,), (X - 5,)]),
        (optional_array, [(X,), (X, X)]),
    ],
    "`Union` and `Any`": [
        (union_refined, [(1,), ("a",), (2.0,)]),
        (union_of_branches, [(1,), (5,)]),
        (any_argument, [([1, 2],), (3,), ((4, 5),), ("x",)]),
        (a_variable_changes_its_type, [(X,)]),
    ],
    "`isinstance`, `type`": [
        (isinstance_many, [(1,), ("s",), (X,), (True,), ([1],)]),
        (container_refinement, [([1, 2],), ({"a": 1},), ((1, "a"),), (None,), (["a"],), ([],)]),
    ],
    "tuples": [
        (tuple_operations, [((1, 2, 3),)]),
        (tuple_membership, [(1,), (7,)]),
        (tuple_comparisons, [(1, 2), (2, 2)]),
        (tuple_state_in_loop, [(10,), (0,)]),
        (nested_tuples, [(((1, (2, 3)), 4),)]),
        (tuple_of_arrays, [(X,)]),
        (tuple_built_from_others, [(1, "abc")]),
    ],
    "tuples indexed by variables": [
        (tuple_dynamic_index, [(7,)]),
        (tuple_of_several_types, [(0,), (-1,), (3,)]),
    ],
    "named tuples": [
        (named_tuple_made, [(1.5,)]),
        (named_tuple_argument, [(Point(1.0, 2.0),)]),
        (named_tuple_methods, [(Point(1.0, 2.0),)]),
        (named_tuple_in_loop, [(5,)]),
        (named_tuple_of_arrays, [(X, 3)]),
        (named_tuple_argument_of_arrays, [(Particle(X, X * 2),)]),
        (named_tuple_operators, [(Vec(1.0, 2.0), Vec(1.0, 3.0))]),
        (named_tuple_added_to_others, [(Vec(1.0, 2.0),)]),
        (named_tuple_with_operators_in_loop, [(9,)]),
        (collections_namedtuple, [(4,)]),
    ],
    "enums": [
        (enum_compared, [(Color.RED,), (Color.GREEN,), (1,)]),
        (enum_attributes, [(Color.GREEN,)]),
        (enum_made, [(2,), (9,)]),
        (enum_iterated, [(1,)]),
        (enum_chooses, [(X, Mode.FAST), (X, Mode.EXACT), (X, "fast")]),
        (enum_in_containers, [(Color.RED,), (Color.GREEN,)]),
        (int_enum, [(20,), (3,)]),
    ],
}
