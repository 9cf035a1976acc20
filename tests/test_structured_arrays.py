# mypy: allow-untyped-defs, allow-untyped-calls
"""Structured arrays: fields, records, and what is written to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from draw_checking import is_native

from checking import check
from jitcore import parse_graph, script
from jitcore.ir.scanner import Scanner
from jitcore.ir.structured import VoidType
from jitcore.ir.type_syntax import parse_type
from jitcore.ir.types import TensorType

FIELDS = [("x", "f8"), ("v", "f4"), ("n", "i4"), ("flag", "?"), ("p", "f8", (3,)), ("k", "i8")]
DTYPES = {
    "packed": np.dtype(FIELDS),
    "aligned": np.dtype(FIELDS, align=True),
    "gaps": np.dtype(
        {
            "names": ["x", "v", "n", "flag", "p", "k"],
            "formats": ["f8", "f4", "i4", "?", ("f8", (3,)), "i8"],
            "offsets": [40, 0, 4, 9, 48, 24],
            "itemsize": 80,
        }
    ),
    "shorts": np.dtype(
        [("k", "i2"), ("x", "f4"), ("v", "f2"), ("flag", "?"), ("n", "u4"), ("p", "f4", (2,))]
    ),
    "doubles": np.dtype([(name, "f8") for name in ("x", "v", "n", "k", "flag")] + [("p", "f8", 2)]),
}


def records(dtype: np.dtype[Any], shape: Any, seed: int = 0) -> Any:
    random = np.random.default_rng(seed)
    made = np.zeros(shape, dtype)
    for name in dtype.names or ():
        made[name] = random.integers(-9, 10, made[name].shape)
        if made[name].dtype.kind == "f":
            made[name] += random.integers(0, 8, made[name].shape) / 8
    return made


def layouts(dtype: np.dtype[Any]) -> dict[str, Any]:
    base = records(dtype, 24)
    shifted = np.zeros(8 * dtype.itemsize + 1, np.uint8)[1:].view(dtype)
    shifted[:] = base[:8]
    fixed = base.copy()
    fixed.flags.writeable = False
    return {
        "contiguous": base,
        "strided": base[::3],
        "reversed": base[::-1],
        "single": base[:1],
        "empty": base[:0],
        "matrix": records(dtype, (4, 5)),
        "columns": records(dtype, (4, 5)).T,
        "planes": records(dtype, (3, 4, 2))[::2, 1:, ::-1],
        "broadcast": np.broadcast_to(base[:3], (4, 3)),
        "shifted": shifted,
        "fixed": fixed,
    }


def read(a, i):
    return a["x"] * 2 + a["v"], a["n"].sum(), a["p"].max(), (a["flag"] != 0) & (a["k"] > i)


def written(a, i):
    a["x"] += a["v"] * 0.5
    a["v"] = a["x"]
    a["k"] = i
    a["p"] *= 2
    a["flag"] = a["x"] > 0


def parts(a, i):
    b = a[1:]
    b["x"] = b["v"] + a["x"][1:]
    a[:-1]["k"] = a["k"][1:]
    return a["p"][..., 0] - a["x"], b["p"].shape, len(a), a.shape, a.dtype, a.itemsize


def shifted(a, i):
    a["x"][1:] = a["x"][:-1] + a["v"][1:]
    a["p"][:, 0] = a["p"][:, 1]
    a["v"][::-1] = a["v"]


def masked(a, i):
    a["x"][a["v"] > 0] *= -1
    return a["x"][a["k"] > i], a["p"][a["flag"] != 0]


def stepped(a, i):
    total = 0.0
    for j in range(len(a)):
        one = a[j]
        one["x"] += one["v"]
        if one["k"] > i:
            one["n"] += 1
            one["p"][0] = one["x"]
        total += one["x"] * a[j]["k"] + a["p"][j, 1] + one[0]
    return total


def visited(a, i):
    total = 0
    for place, one in enumerate(a):
        total += one["x"] * place
        one["flag"] = place % 2 == 0
        one["p"] = place
    for one, other in zip(a, a[::-1], strict=False):
        total += one["v"] * other["x"]
    return total, a["flag"].sum()


def chosen(a, i):
    best = 0
    for j in range(1, a.shape[0]):
        if a["x"][j] > a["x"][best]:
            best = j
    return best, a[best]["k"], a[-1]["x"], a[i]["n"]


def whole_records(a, i):
    a[0] = a[i]
    a[1], a[2] = a[2], a[1]
    a[3], first = a[0], a[3]
    return first["x"]


def returned(a, i):
    a["x"] += 1
    return a, a["v"], a[i], a[1:]


def sorted_records(a, i):
    b = np.sort(a, order="x")
    c = a.copy()
    c["x"] -= b["x"]
    return b, c, a[a["k"] > 0], a[["x", "k"]], a == c


ANY_RANK = [read, written, returned]
NATIVE = [read, written, parts, shifted, masked, stepped, visited, chosen]


CASES = [
    *((function, name) for function in (read, stepped) for name in DTYPES),
    *((function, "packed") for function in (written, parts, shifted, masked, visited)),
    *((function, "aligned") for function in (written, parts, chosen, returned)),
    *((function, "doubles") for function in (whole_records, sorted_records)),
    *((function, "shorts") for function in (written, whole_records)),
]


@pytest.mark.parametrize(("function", "name"), CASES)
def test_programs(function: Callable[..., Any], name: str) -> None:
    scripted: list[Any] = []

    def once(plain):
        # One function for all layouts, which meets new ones again and again.
        if not scripted:
            scripted.append(script(plain))
        return scripted[0]

    for layout, a in layouts(DTYPES[name]).items():
        if a.ndim == 1 or function in ANY_RANK:
            if not (layout == "broadcast" and function is not read):
                check(function, a, 2, script=once, reduction=True)
        for i in (0, 100):
            if a.ndim == 1:
                check(function, a, i, script=once, reduction=True)


@pytest.mark.parametrize("function", NATIVE)
def test_fields_are_native(function: Callable[..., Any]) -> None:
    args = records(DTYPES["packed"], 12), 2
    compiled = check(function, *args, reduction=True, interpreter=True)
    assert is_native(compiled)


@pytest.mark.parametrize("name", ["packed", "aligned"])
def test_arrays_that_overlap(name: str) -> None:
    def add(a, b, x):
        a["x"] += b["x"][::-1] + x
        b["v"] = a["x"]
        return a["k"] + x

    base = records(DTYPES[name], 20)
    check(add, base, base, base["x"])
    check(add, base[:10], base[10:], base["v"][:10])
    check(add, base[:10], base[5:15], base["p"][:10, 1])
    check(add, base[::2], base[1::2], np.arange(10.0))


def test_fields_without_elements() -> None:
    dtype = np.dtype([("x", "f8"), ("v", "f4"), ("n", "i4"), ("flag", "?"), ("p", "f8", 0)])
    dtype = np.dtype([*dtype.descr, ("k", "i8")])

    def summed(a, i):
        a["p"] *= 2
        return a["p"].sum(axis=-1) + i, a["p"].shape, a["x"] + a["k"]

    for shape in (5, (4, 3), 0):
        check(summed, records(dtype, shape), 2)


def test_records_that_run_into_each_other() -> None:
    def shift(a):
        a["x"] = a["k"] + 1
        return a["k"].sum()

    dtype = np.dtype([("x", "i8"), ("k", "i8")])
    memory = np.arange(20)
    close = np.ndarray((8,), dtype, memory, 0, (8,))
    assert close.base is memory
    check(shift, close)
    check(shift, np.ndarray((8,), dtype, memory, 0, (16,)))


@pytest.mark.parametrize("name", ["packed", "aligned"])
def test_writes_that_numpy_refuses(name: str) -> None:
    def given(a, v):
        a["x"] = v
        return a

    a = records(DTYPES[name], 6)
    for value in (np.ones(5), "text", [1.0] * 6, 1j, np.ones((6, 1)), np.ones(1), a):
        check(given, a, value)

    def record(a, v):
        a[1] = v
        return a

    for value in ((1, 2, 3, True, [1, 2, 3], 5), (1, 2), 7, a[2], a["x"][0], a[:1]):
        check(record, a, value)


def test_fields_that_are_not_there() -> None:
    def unknown(a):
        return a["nothing"]

    def of_record(a):
        return a[0]["nothing"]

    def by_number(a):
        return a[0][9]

    a = records(DTYPES["packed"], 3)
    for function in (unknown, of_record, by_number):
        check(function, a)


def first_of(a, i):
    return a["x"][i] + a[i]["v"]


def test_dtypes_of_other_kinds() -> None:
    """Text, dates, objects, nested records, swapped bytes, titles and fields that overlap."""
    formats: list[Any] = [
        [("x", "f8"), ("v", "f4"), ("name", "U3"), ("when", "M8[s]")],
        [("x", ">f8"), ("v", "f4")],
        [("x", "f8"), ("v", "O")],
        [("x", "f8"), ("v", [("a", "f4"), ("b", "i4")])],
        [(("a title", "x"), "f8"), ("v", "f4")],
        {"names": ["x", "v"], "formats": ["f8", "f4"], "offsets": [0, 4]},
        [("x", "c16"), ("v", "i1")],
        [("x", "f2"), ("v", "?")],
    ]
    for one in formats:
        dtype = np.dtype(one)
        a = np.zeros(5, dtype)
        a["x"] = np.arange(5)
        if dtype["v"].kind in "if":
            a["v"] = np.arange(5)[::-1]
        if dtype["v"].kind == "O":
            a["v"] = 2
        check(first_of, a, 3)
        check(first_of, a, 9)
        check(first_of, a.view(np.recarray), 1)


def test_records_of_records_and_dates_beside_numbers() -> None:
    def counted(a):
        total = 0.0
        for j in range(len(a)):
            if a["name"][j] == "b":
                total += a["x"][j]
        return total, a["when"].max(), a["inner"]["b"] * 2

    dtype = np.dtype([("x", "f8"), ("name", "U2"), ("when", "M8[D]"), ("inner", [("b", "i4")])])
    a = np.zeros(4, dtype)
    a["x"], a["name"] = np.arange(4), ["a", "b", "c", "b"]
    a["when"], a["inner"]["b"] = np.datetime64("2020-01-01") + np.arange(4), np.arange(4)
    check(counted, a)


def test_equal_dtypes_are_one() -> None:
    compiled = script(first_of)
    one = records(np.dtype([("x", "f8"), ("v", "f8")]), 5)
    for names in ("xv", "xv", "vx", "xw", "xv"):
        other = one.view(np.dtype([(name, "f8") for name in names]))
        for _ in range(3):
            if "v" in names:
                assert compiled(other, 2) == first_of(other, 2)
                continue
            with pytest.raises(ValueError, match="no field of name v"):
                compiled(other, 2)


def test_arrays_that_the_function_makes() -> None:
    def made(n):
        a = np.zeros(n, dtype=[("x", "f8"), ("n", "i4")])
        a["x"] = np.arange(n) / 4
        for i in range(n):
            a["n"][i] = i % 3
            a[i]["x"] -= a["n"][i]
        b = np.empty((2, n), a.dtype)
        b[0] = a
        b[1]["x"], b[1]["n"] = 1.0, 2
        return a, b, b["x"].sum()

    for n in (0, 1, 12):
        check(made, n)


def test_branches_and_loops_that_choose_records() -> None:
    def choosing(a, b, flag):
        c = a if flag else b
        best = a[0]
        for one in c:
            if one["x"] > best["x"]:
                best = one
        best["k"] = 77
        view = c["x"]
        for _ in range(2):
            view = view[1:]
        other = a["x"] if flag else b["x"]
        other[0] = 5
        return best["x"], view.sum(), (c["v"] @ c["v"]), np.sort(c["x"]), c["x"].argmax()

    for name in ("packed", "aligned"):
        a, b = records(DTYPES[name], 7), records(DTYPES[name], 9, 1)
        check(choosing, a, b, True, reduction=True)
        check(choosing, a, b, False, reduction=True)


def test_an_error_after_a_write() -> None:
    def late(a, i):
        a["x"] = 1
        a["p"][i] = 2
        a[i]["k"] = 3

    for name in ("packed", "aligned"):
        check(late, records(DTYPES[name], 5), 4)
        check(late, records(DTYPES[name], 5), 5)


def test_lists_of_structured_arrays() -> None:
    def total(many):
        found = 0.0
        for one in many:
            found += one["x"].sum()
        return found, [one["x"] for one in many], many[0]

    check(total, [records(DTYPES["aligned"], 4), records(DTYPES["aligned"], 3)])

    def kept(a):
        fields = [a["x"], a["v"]]
        fields.append(a["p"][:, 0])
        fields[0][0] = 9
        return fields

    check(kept, records(DTYPES["packed"], 5))
    check(kept, records(DTYPES["doubles"], 5))


def test_graphs_can_be_read_back() -> None:
    for dtype in DTYPES.values():
        for type_ in (TensorType(dtype, ("n", 3)), VoidType(dtype)):
            assert parse_type(Scanner(str(type_))) == type_
    compiled = check(stepped, records(DTYPES["packed"], 12), 2, reduction=True)
    graph = compiled.graph_for(records(DTYPES["packed"], 12), 2)
    assert str(parse_graph(str(graph))) == str(graph)
