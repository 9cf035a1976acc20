"""Lowering of elementwise code, broadcasting, views, stores and new arrays, against NumPy."""

# The functions under test are plain NumPy, as users write them.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lowering import check, compile_graph, lowered, native, outcome, typed

from jitcore.codegen import lowering as lowering_rules
from jitcore.codegen.loops import For, Let, Load, Stmt
from jitcore.codegen.lower import NotNative
from jitcore.codegen.lowering import families

rng = np.random.default_rng(1)
X = rng.standard_normal((5, 7))
Y = rng.standard_normal((5, 7))
ROW = rng.standard_normal(7)
COLUMN = rng.standard_normal((5, 1))
INTEGERS = rng.integers(-9, 9, (5, 7))
CUBE = rng.standard_normal((3, 4, 5))
COMPLEX = X + 1j * Y


def arithmetic(x, y):
    return (x + y) * x - 2.5


def choices(x):
    return np.where(x > 0, np.sqrt(np.abs(x)), -x), x.astype(np.int32), x > 0.5, x * 2 == x


def parts(z):
    return z.real * 2, z.imag + z.real, np.conj(z) + 1, z == z, z + 1j


ELEMENTWISE: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (arithmetic, (X, Y)),
    (arithmetic, (X, ROW)),
    (arithmetic, (X, COLUMN)),
    (arithmetic, (COLUMN, ROW)),
    (arithmetic, (X[:, ::2], Y[:, ::2])),
    (arithmetic, (X[::-1, ::-1], Y)),
    (arithmetic, (X.T, Y.T)),
    (arithmetic, (X, Y.T.copy().T)),
    (arithmetic, (X, INTEGERS)),
    (arithmetic, (X, 3)),
    (arithmetic, (X.astype(np.float32), 3.5)),
    (arithmetic, (X, np.float32(1.5))),
    (arithmetic, (np.float32(1.5), 2)),
    (arithmetic, (CUBE, CUBE[0])),
    (arithmetic, (CUBE[:, :1], CUBE[:1])),
    (arithmetic, (np.zeros((0, 3)), np.zeros((0, 3)))),
    (arithmetic, (np.array(2.5), X)),
    (arithmetic, (X, ROW[:5])),
    (choices, (X,)),
    (choices, (INTEGERS.astype(np.int32),)),
    (parts, (COMPLEX,)),
    (parts, (COMPLEX.T.astype(np.complex64),)),
]


@pytest.mark.parametrize(("f", "args"), ELEMENTWISE)
def test_elementwise(f: Callable[..., Any], args: tuple[Any, ...]) -> None:
    check(f, *args)


def test_known_dims() -> None:
    check(arithmetic, X, Y, static=True)
    check(arithmetic, X, ROW, static=True)


def views(x):
    inner, column = x[1:-1, ::-1], x[2:, 1]
    return inner + 1, column * column, x[-1, 0], x[3] + x[0], x[None, :, 2:4] * 1.0


def view_by_numbers(x, i, j):
    return x[i] + 1, x[i:j] * 2, x[:j, i:] - 1, x[j:i:-1] + 0


def reshaped(x):
    return x.reshape(7, 5) + 0, x.T.reshape(5, 7) + 0, x.ravel() * 2, x.T + 0


def axes_without_length(x, row):
    # The new axis is walked together with the one before it, and not with the one after it.
    return x[:, None] + row, x[:, None, :, None] * row[:, None], (x[:, None] - row).sum(axis=1)


def stretched(row):
    return np.broadcast_to(row, (5, 7)) + 0, row[:, None] + row


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (views, (X,)),
        (views, (X.T.copy().T,)),
        (axes_without_length, (X, ROW)),
        (axes_without_length, (X[:, ::2], ROW[::2])),
        (views, (X[:2],)),
        *((view_by_numbers, (X, i, j)) for i, j in [(0, 3), (-2, 5), (4, -9), (9, 2), (-6, 1)]),
        (reshaped, (X,)),
        (stretched, (ROW,)),
    ],
)
def test_views(f: Callable[..., Any], args: tuple[Any, ...]) -> None:
    check(f, *args)


def test_reshape_to_another_size() -> None:
    def f(x, n):
        return x.reshape(n, 2) + 0

    check(f, X[:4], 14)
    check(f, X[:4], 9)


def shift_rows(x):
    x[1:] = x[:-1] * 2 + x[1:]
    x[0] = 5
    x[:, 0] += x[:, 1]


def reverse(x):
    x[:] = x[::-1]
    x *= 2


def store_into_copy(x):
    y = x.copy()
    y[0] = 9.0
    return y, x + 0


def store_rows(x):
    for i in range(1, x.shape[0]):
        x[i] = x[i - 1] * 0.5 + x[i]
        x[i, 1:] = x[i, :-1] + x[i, 1:]


def swap_and_store(x, y):
    a, b = x.copy(), y.copy()
    for _ in range(3):
        b[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1])
        a, b = b, a
    return a, b


def store_broadcast(x, row):
    x[:] = row
    x[1:3] = row[::-1] + 1


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (shift_rows, (X,)),
        (shift_rows, (X.T.copy().T,)),
        (reverse, (X,)),
        (reverse, (ROW,)),
        (store_into_copy, (X,)),
        (store_rows, (X,)),
        (swap_and_store, (X, Y)),
        (store_broadcast, (X, ROW)),
        (store_broadcast, (X, COLUMN)),
        (store_broadcast, (X, ROW[:5])),
    ],
)
def test_stores(f: Callable[..., Any], args: tuple[Any, ...]) -> None:
    check(f, *args)


def test_written_arguments_are_reported() -> None:
    def f(x, y):
        x[0] = y[0]
        return y

    made = lowered(typed(f, X, Y), X, Y)
    assert made.written == {0}


def creation(n):
    return (
        np.arange(n),
        np.zeros((n, 2)),
        np.full((2, n), 3.5),
        np.arange(2, n, 3),
        np.arange(n, 0, -2),
        np.ones(n, dtype=np.int8),
        np.arange(n) * 0.5 + 1,
    )


@pytest.mark.parametrize("n", [0, 1, 9])
def test_creation(n: int) -> None:
    check(creation, n)


def test_negative_dimensions() -> None:
    def f(n):
        return np.zeros(n)

    check(f, -1)


def test_results_share_no_object_unless_returned_twice() -> None:
    def f(x):
        y = x + 1
        return y, y, x

    y, again, x = native(f, ROW)
    assert y is again and x is ROW


def test_returned_view_is_not_native() -> None:
    def f(x):
        return x[1:]

    with pytest.raises(NotNative, match="a view is returned"):
        lowered(typed(f, ROW), ROW)


def test_unknown_kind_names_its_node() -> None:
    def f(x):
        return np.linalg.det(x)

    with pytest.raises(NotNative) as caught:
        lowered(typed(f, X[:, :5]), X[:, :5])
    assert caught.value.node is not None


def loops_in(statements: list[Stmt]) -> list[For]:
    found: list[For] = []
    for statement in statements:
        if isinstance(statement, For):
            found += [statement, *loops_in(statement.body)]
    return found


def test_contiguous_operands_make_one_flat_loop() -> None:
    made = lowered(typed(arithmetic, CUBE, CUBE, fuse=True), CUBE, CUBE)
    (loop,) = loops_in(made.function.body)
    assert loop.parallel
    loads = [s.value for s in loop.body if isinstance(s, Let) and isinstance(s.value, Load)]
    assert all(load.index == loop.var for load in loads) and len(loads) == 2


def test_broadcast_values_are_read_outside_of_the_inner_loop() -> None:
    made = lowered(typed(arithmetic, X, COLUMN, fuse=True), X, COLUMN)
    outer, _ = loops_in(made.function.body)
    read = [s.value.root for s in outer.body if isinstance(s, Let) and isinstance(s.value, Load)]
    assert read == ["y"]


def test_range_analysis_removes_the_checks_of_a_stencil() -> None:
    def f(x):
        total = 0.0
        for i in range(1, x.shape[0] - 1):
            total += x[i - 1] + x[i + 1]
        return total

    check(f, ROW)
    assert not lowered(typed(f, ROW), ROW).sites


def test_extents_that_only_the_run_knows() -> None:
    def f(x, i, j):
        return x[:i] + x[:j]

    for i, j in [(3, 3), (1, 4), (4, 1), (0, 1), (2, 3)]:
        check(f, ROW, i, j)


def test_memory_is_returned_on_every_path() -> None:
    def f(x, i):
        y = x * 2
        z = y + 1
        return y[i] + z[i]

    compiled = compile_graph(typed(f, ROW, 3), ROW, 3)
    assert compiled(ROW, 3) == f(ROW, 3)
    for _ in range(3):
        assert outcome(lambda: compiled(ROW, 9))[0] is IndexError


@pytest.mark.parametrize("path", sorted(Path(lowering_rules.__path__[0]).glob("*.py")))
def test_rules_are_found_in_their_files(path: Path) -> None:
    rules = getattr(import_module(f"jitcore.codegen.lowering.{path.stem}"), "RULES", {})
    assert {kind: families.rule_of(kind) for kind in rules} == rules
    assert set(families.FAMILIES.get(path.stem, "").split()) <= rules.keys()
