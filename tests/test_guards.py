"""The checks in front of native functions: which arguments and captures pass, and which miss."""

from __future__ import annotations

import ctypes
from collections import namedtuple
from types import CellType
from typing import Any

import numpy as np
import pytest
from native_functions import (
    COMPLEX_DTYPES,
    INTEGER,
    REAL_DTYPES,
    echo,
    float_param,
    missed,
)

from jitcore.codegen.entries.entry import ABSENT, CaptureGuard
from jitcore.codegen.entries.signature import (
    ArrayParam,
    ConstantParam,
    Layout,
    ScalarParam,
    TupleParam,
)

# Arrays


def test_arrays_give_data_and_symbolic_dims() -> None:
    function, _ = echo(float_param(None, 4), float_param())
    x, y = np.zeros((3, 4), np.float32), np.zeros((), np.float32)
    assert function(x, y) == (x.ctypes.data, 3, y.ctypes.data)


@pytest.mark.parametrize("dtype", REAL_DTYPES + COMPLEX_DTYPES, ids=str)
def test_array_dtypes(dtype: np.dtype[Any]) -> None:
    function, recorder = echo(ArrayParam(dtype, (None,)))
    x = np.zeros(3, dtype)
    assert function(x) == (x.ctypes.data, 3)
    for other in REAL_DTYPES + COMPLEX_DTYPES:
        assert missed(function, np.zeros(3, other)) == (other != dtype)
    if dtype.itemsize > 1:
        assert missed(function, np.zeros(3, dtype.newbyteorder()))
    assert all(args[0].dtype != dtype for args, _ in recorder.misses)


def test_both_names_of_one_dtype() -> None:
    for dtype, other in (("l", "q"), ("L", "Q")):
        function, _ = echo(ArrayParam(np.dtype(dtype), (None,)))
        assert not missed(function, np.zeros(3, other))


def test_native_dtypes_that_are_no_singletons() -> None:
    function, _ = echo(float_param(None))
    dtype = np.dtype(np.float32).newbyteorder().newbyteorder()
    assert not missed(function, np.zeros(3, dtype))


def test_dims() -> None:
    function, _ = echo(float_param(None, 4))
    hits = [(3, 4), (0, 4), (2, 4)]
    misses = [(1, 4), (3, 1), (3, 5), (3, 0), (4,), (), (3, 4, 1)]
    assert not any(missed(function, np.zeros(shape, np.float32)) for shape in hits)
    assert all(missed(function, np.zeros(shape, np.float32)) for shape in misses)
    ones, _ = echo(float_param(1, None))
    assert not missed(ones, np.zeros((1, 7), np.float32))
    assert missed(ones, np.zeros((2, 7), np.float32))


def test_contiguous_layouts() -> None:
    c, _ = echo(float_param(None, None))
    f, _ = echo(float_param(None, None, layout="F"))
    x = np.zeros((3, 4), np.float32)
    assert not missed(c, x) and missed(c, x.T) and missed(c, x[:, ::2]) and missed(c, x[::-1])
    assert missed(f, x) and not missed(f, x.T) and missed(f, x.T[::2])
    empty = np.zeros((8, 8), np.float32)[::2, 4:4]
    assert not missed(c, empty) and not missed(f, empty)
    column, _ = echo(float_param(None, 1))
    assert not missed(column, np.zeros((5, 5), np.float32)[:, :1].copy())
    one_by_one, _ = echo(float_param(1, 1))
    assert not missed(one_by_one, np.zeros((5, 5), np.float32)[2:3, 3:4])


def test_strides_are_in_elements() -> None:
    function, _ = echo(float_param(None, None, layout="strided"))
    x = np.zeros((6, 8), np.float32)
    views = [x, x.T, x[::2, ::3], x[::-1, ::-2], np.broadcast_to(x[0], (6, 8)), x[2:2]]
    for view in views:
        strides = tuple(stride // 4 for stride in view.strides)
        assert function(view) == (view.ctypes.data, *view.shape, *strides)


def test_strides_that_are_no_whole_elements() -> None:
    function, _ = echo(float_param(None, layout="strided"))
    records = np.zeros(5, [("a", np.float32), ("b", np.int8)])
    aligned = np.zeros(6, np.dtype([("a", np.float32), ("b", np.int16)], align=True))
    assert missed(function, records["a"])
    assert not missed(function, aligned["a"])
    doubles, _ = echo(ArrayParam(np.dtype(np.complex64), (None,), "strided"))
    halves = np.zeros(9, np.float32)
    pieces = np.lib.stride_tricks.as_strided(halves.view(np.float32)[:8].view("F"), (3,), (12,))
    assert missed(doubles, pieces)
    assert not missed(doubles, pieces[:0])
    one, _ = echo(ArrayParam(np.dtype(np.complex64), (1,), "strided"))
    assert not missed(one, pieces[:1])


def test_misaligned_subclass_and_foreign_objects() -> None:
    class Derived(np.ndarray[Any, Any]):
        pass

    function, recorder = echo(float_param(None))
    raw = np.zeros(17, np.uint8)
    strangers = [
        raw[1:].view(np.float32),
        np.zeros(4, np.float32).view(Derived),
        np.ma.zeros(4, np.float32),
        [1.0, 2.0],
        np.float32(1),
        None,
        1.5,
    ]
    assert all(missed(function, stranger) for stranger in strangers)
    assert all(a[0] is s for (a, _), s in zip(recorder.misses, strangers, strict=True))


def test_read_only() -> None:
    reading, _ = echo(float_param(None))
    writing, _ = echo(float_param(None, written=True))
    x = np.zeros(4, np.float32)
    x.flags.writeable = False
    assert not missed(reading, x) and missed(writing, x)
    assert not missed(writing, np.zeros(4, np.float32))


@pytest.mark.parametrize("layout", ["C", "strided"])
def test_overlap_of_written_arrays(layout: Layout) -> None:
    written = float_param(None, layout=layout, written=True)
    function, _ = echo(written, float_param(None, layout=layout))
    x = np.zeros(20, np.float32)
    assert not missed(function, x, x.copy())
    assert missed(function, x, x) and missed(function, x[1:], x[:-1])
    assert not missed(function, x[:10], x[10:]) and not missed(function, x[10:], x[:10])
    assert missed(function, x[:11], x[10:]) and missed(function, x, x[5:8])
    assert not missed(function, x, x[5:5]) and not missed(function, x[5:5], x)
    if layout == "strided":
        assert missed(function, x[::2], x[1::2])
        assert missed(function, x[9::-1], x[:10]) and not missed(function, x[9::-1], x[10:])
        assert not missed(function, x[9::-1], x[:9:-1]) and missed(function, x[:8:-1], x[:10])


def test_reading_twice_is_fine() -> None:
    function, _ = echo(float_param(None), float_param(None))
    x = np.zeros(4, np.float32)
    assert not missed(function, x, x)


def test_two_written_arrays_and_a_reader() -> None:
    written = float_param(None, None, written=True)
    function, _ = echo(float_param(None, layout="strided"), written, written)
    x = np.zeros((6, 4), np.float32)
    assert not missed(function, np.zeros(4, np.float32), x[:3], x[3:])
    assert missed(function, x[5], x[:3], x[3:])
    assert missed(function, np.zeros(4, np.float32), x[:4], x[3:])


def test_written_arrays_that_overlap_themselves() -> None:
    strided = np.lib.stride_tricks.as_strided
    one, _ = echo(float_param(None, layout="strided", written=True))
    two, _ = echo(float_param(None, None, layout="strided", written=True))
    x = np.zeros(64, np.float32)
    grid = x.reshape(8, 8)
    assert missed(one, strided(x, (4,), (0,)))
    assert not missed(one, x[::-3])
    views = [
        grid,
        grid.T,
        grid[::-1, ::2],
        grid.T[1:5, ::-1],
        grid[:0],
        strided(x, (4, 8), (32, 4)),
    ]
    assert not any(missed(two, view) for view in views)
    overlapping = [((5, 5), (4, 4)), ((5, 5), (0, 4)), ((5, 5), (16, 4)), ((5, 5), (4, -16))]
    bases = [x[30:]] * len(overlapping)
    assert all(missed(two, strided(b, *o)) for b, o in zip(bases, overlapping, strict=True))


# Scalars


NUMBERS = [
    True,
    3,
    2.5,
    1 + 2j,
    "3",
    None,
    np.float64(2.5),
    np.float32(2.5),
    np.int64(3),
    np.longlong(3),
    np.complex128(3),
    np.True_,
    np.zeros(()),
]


def test_int() -> None:
    function, _ = echo(INTEGER)
    for value in (0, 1, -1, 7, -300, 2**30 - 1, 2**30, -(2**30), 2**62, 2**63 - 1, -(2**63)):
        assert function(value) == (value,)
    assert missed(function, 2**63) and missed(function, -(2**63) - 1) and missed(function, 10**40)
    assert [value for value in NUMBERS if not missed(function, value)] == [3]


def test_float() -> None:
    function, _ = echo(ScalarParam("float", np.dtype(np.float64)))
    for value in (0.0, -0.0, 1.5, float("inf"), 5e-324):
        assert repr(function(value)) == repr((value,))
    hits = [value for value in NUMBERS if not missed(function, value)]
    assert [type(value) for value in hits] == [float]


def test_bool() -> None:
    function, _ = echo(ScalarParam("bool", np.dtype(np.bool_)))
    assert (function(True), function(False)) == ((1,), (0,))
    assert [value for value in NUMBERS if not missed(function, value)] == [True]


def test_complex() -> None:
    function, _ = echo(ScalarParam("complex", np.dtype(np.complex128)))
    assert function(1.5 - 2j) == (1.5, -2.0)
    hits = [value for value in NUMBERS if not missed(function, value)]
    assert [type(value) for value in hits] == [complex]


@pytest.mark.parametrize("dtype", REAL_DTYPES, ids=str)
def test_numpy_scalars(dtype: np.dtype[Any]) -> None:
    function, _ = echo(ScalarParam("numpy", dtype))
    values = np.array([0, 1], dtype) if dtype.kind == "b" else np.array([0, 3, 100], dtype)
    for value in values:
        assert function(value) == (value,)
    hits = [value for value in NUMBERS if not missed(function, value)]
    assert [type(value) for value in hits] in ([], [dtype.type])


@pytest.mark.parametrize("dtype", COMPLEX_DTYPES, ids=str)
def test_numpy_complex_scalars(dtype: np.dtype[Any]) -> None:
    function, _ = echo(ScalarParam("numpy", dtype))
    assert function(dtype.type(1.5 - 2j)) == (1.5, -2.0)
    assert missed(function, 1.5 - 2j)


# Constants and tuples


def test_constants_by_identity() -> None:
    marker = object()
    for value in (None, Ellipsis, marker, np.dtype(np.float32), np.float32, True, np.float64(1.0)):
        function, _ = echo(ConstantParam(value))
        assert function(value) == ()
        assert missed(function, 1.0) and missed(function, 1) and missed(function, object())


def test_constants_by_value() -> None:
    values: list[Any] = ["sum", "", 1000, 2**70, 2.5, -0.0, float("nan"), 1 + 2j, (), (0, "a")]
    values += [(1, (2.0, None)), (True, 1), 0, 1, 0.0, 1.0]
    functions = [echo(ConstantParam(value))[0] for value in values]
    for value, function in zip(values, functions, strict=True):
        equal = eval(repr(value), {"nan": float("nan")})
        assert not missed(function, equal)
        others = [v for v in [*values, True, False, None] if repr(v) != repr(value)]
        assert all(missed(function, other) for other in others)


def test_constants_of_subclasses_miss() -> None:
    class Text(str):
        pass

    class Pair(tuple[Any, ...]):
        pass

    text, _ = echo(ConstantParam("sum"))
    pair, _ = echo(ConstantParam((0, 1)))
    assert missed(text, Text("sum")) and missed(pair, Pair((0, 1)))


def test_tuples() -> None:
    function, _ = echo(TupleParam((INTEGER, TupleParam((float_param(None),)), ConstantParam("k"))))
    x = np.zeros(4, np.float32)
    assert function((7, (x,), "k")) == (7, x.ctypes.data, 4)
    point = namedtuple("point", "a b c")
    strangers: list[Any] = [(7, (x,)), (7, (x,), "k", 1), [7, (x,), "k"], (7, [x], "k")]
    strangers += [(7, (x, x), "k"), (7.0, (x,), "k"), (7, (x,), "l"), point(7, (x,), "k"), (), None]
    assert all(missed(function, stranger) for stranger in strangers)


# Captures


def test_globals() -> None:
    namespace: dict[str, Any] = {"scale": 2.5, "np": np}
    captures = [
        CaptureGuard(namespace, "np", np),
        CaptureGuard(np.__dict__, "exp", np.exp),
        CaptureGuard(namespace, "len", ABSENT),
        CaptureGuard(namespace, "nothing", None),
    ]
    function, recorder = echo(INTEGER, captures=captures)
    assert missed(function, 3)
    namespace["nothing"] = None
    assert function(3) == (3,)
    namespace["other"] = 1
    assert function(4) == (4,)
    namespace["np"] = ctypes
    assert missed(function, 4) and missed(function, 4)
    namespace["np"] = np
    assert function(5) == (5,)
    namespace["len"] = max
    assert missed(function, 5)
    del namespace["len"], namespace["np"]
    assert missed(function, 5)
    assert all(args in [(3,), (4,), (5,)] for args, _ in recorder.misses)


def test_captured_inputs() -> None:
    weights = np.zeros((2, 3), np.float32)
    namespace: dict[str, Any] = {"weights": weights, "count": 4}

    def outer() -> Any:
        bias = np.zeros(3, np.float32)

        def inner(replace: Any = None) -> Any:
            nonlocal bias
            if replace is not None:
                bias = replace
            return bias

        return inner

    inner = outer()
    (cell,) = inner.__closure__
    captures = [
        CaptureGuard(namespace, "weights", None, True),
        CaptureGuard(cell, None, None, True),
        CaptureGuard(namespace, "count", None, True),
    ]
    function, recorder = echo(
        INTEGER, float_param(None, 3), float_param(None), INTEGER, captures=captures
    )
    for _ in range(3):
        data = (weights.ctypes.data, 2, inner().ctypes.data, 3)
        assert function(1) == (1, *data, namespace["count"])
        namespace["count"] += 1
    namespace["weights"] = weights = np.ones((5, 3), np.float32)
    bias = inner(np.ones(7, np.float32))
    assert function(1) == (1, weights.ctypes.data, 5, bias.ctypes.data, 7, 7)
    namespace["weights"] = np.ones((5, 4), np.float32)
    assert missed(function, 1) and missed(function, 1)
    namespace["weights"] = weights
    del namespace["count"]
    assert missed(function, 1)
    namespace["count"] = 9
    assert function(2)[-1] == 9
    inner("text")
    assert missed(function, 2) and recorder.misses[-1] == ((2,), {})


def test_cells_by_identity() -> None:
    value = object()
    cell, empty_cell = CellType(value), CellType()
    captures = [CaptureGuard(cell, None, value), CaptureGuard(empty_cell, None, ABSENT)]
    function, _ = echo(captures=captures)
    assert function() == ()
    cell.cell_contents = 3
    assert missed(function)
    del cell.cell_contents
    assert missed(function)
    cell.cell_contents = value
    assert function() == ()
    empty_cell.cell_contents = None
    assert missed(function)


def test_captured_array_conflicts_with_a_written_one() -> None:
    x = np.zeros(8, np.float32)
    captures = [CaptureGuard({"x": x}, "x", x, True)]
    function, _ = echo(float_param(None, written=True), float_param(8), captures=captures)
    assert missed(function, x[:4]) and not missed(function, x.copy())
