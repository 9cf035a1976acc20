"""Lists that several names and lists refer to, in machine code: lists of lists above all."""
# mypy: allow-untyped-defs, allow-untyped-calls, allow-incomplete-defs

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from shared_list_programs import PROGRAMS, cube_of_flags, same, triangle, weighted_graph

from checking import outcome
from jitcore import script
from jitcore.pipeline import NativePlan


def is_native(scripted) -> bool:
    return all(isinstance(one.plan, NativePlan) for one in scripted.specializations)


@pytest.mark.parametrize(
    ("function", "calls"), PROGRAMS, ids=[function.__name__ for function, _ in PROGRAMS]
)
def test_programs(function, calls) -> None:
    scripted = script(function)
    for arguments in calls:
        assert outcome(scripted, arguments) == outcome(function, arguments)
    assert is_native(scripted)


def test_results_are_one_object_where_python_has_one() -> None:
    table, _ = script(same)(3)
    assert table[0] is table[1] is table[2]
    graph, _, first = script(weighted_graph)(3)
    assert graph[0] is first
    cube = script(cube_of_flags)(3)
    assert cube[0][0] is cube[2][2]


def rows_of_two_types(n):
    rows: list[Any] = [[0] * n for _ in range(n)]
    rows[0][0] = 0.5
    return rows


def caught(n):
    rows = [[0] * n for _ in range(2)]
    try:
        rows[0][n] = 1
    except IndexError:
        rows[1].append(7)
    return rows


def kept_by_python(n):
    rows = [[0] * n for _ in range(2)]
    return rows, {"rows": rows}, str(rows[0])


@pytest.mark.parametrize("function", [rows_of_two_types, kept_by_python])
def test_what_stays_python(function) -> None:
    scripted = script(function)
    assert outcome(scripted, (2,)) == outcome(function, (2,))
    assert not is_native(scripted)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_errors_that_are_caught(count) -> None:
    scripted = script(caught)
    assert outcome(scripted, (count,)) == outcome(caught, (count,))
    assert is_native(scripted)


def written_first(x, i):
    rows = [[1], [2]]
    x[0] = 5.0
    rows[0][i] = 3
    return rows


def unpacked_late(x, n):
    rows = [[0] * n for _ in range(2)]
    x[0] = 5.0
    one, two = rows[1]
    return one + two


@pytest.mark.parametrize("function", [written_first, unpacked_late])
@pytest.mark.parametrize("number", [0, 2, 7])
def test_errors_after_writes(function, number) -> None:
    given, wanted = (np.zeros(2), number), (np.zeros(2), number)
    assert outcome(script(function), given) == outcome(function, wanted)


def test_dropped_lists_do_not_stay() -> None:
    scripted = script(triangle)
    scripted(40)
    tracemalloc.start()
    for _ in range(50):
        scripted(40)
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(500):
        scripted(40)
    assert tracemalloc.get_traced_memory()[0] - before < 10_000
    tracemalloc.stop()


def test_calls_that_have_more_to_do_again_are_compiled_again() -> None:
    def first(rows, n):
        found = 0.0
        for _ in range(n):
            for row in rows:
                for item in row:
                    found += item
        return rows[0][0] if found >= 0.0 else found

    compiled, rows = script(first), [[1.5] * 500 for _ in range(20)]
    # Python gives the object in the list, and compiled code a new one.
    little = [compiled(rows, 0) is rows[0][0] for _ in range(150)]
    assert sum(little) > 100
    much = [compiled(rows, 4) is rows[0][0] for _ in range(150)]
    assert not any(much[-20:])


def with_an_int_of_many_bits(n):
    rows = [1, 2**70]
    print(rows)
    rows.append(n)
    return [rows, rows]


def test_lists_of_ints_of_more_than_64_bits_stay_pythons(capsys):
    assert script(with_an_int_of_many_bits)(3) == with_an_int_of_many_bits(3)
    first, second = capsys.readouterr().out.splitlines()
    assert first == second
