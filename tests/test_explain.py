"""``explain``: where the nodes went, what is assumed, why something was compiled again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitcore
from jitcore import script
from jitcore.execution.signatures import describe_all
from jitcore.ir.ops import TABLE
from jitcore.reports.differences import assumption, differences
from jitcore.reports.nodes import WIDTH, table, unfused_bytes, wrapped

HERE = Path(__file__).name
scale: Any = 2.5


@pytest.fixture(autouse=True)
def strategy() -> Iterator[None]:
    with jitcore.fusion_strategy([("STATIC", 1), ("DYNAMIC", 1)]):
        yield


def rows(report: object) -> list[list[str]]:
    """The words of each line of a report."""
    return [line.split() for line in str(report).splitlines()]


def line_of(report: object, beginning: str) -> str:
    """The one line that begins so."""
    (found,) = (line for line in str(report).splitlines() if line.strip().startswith(beginning))
    return found.strip()


def kinds_in(words: list[str]) -> set[str]:
    return {word.strip(",") for word in words}


# Where the nodes went


def test_a_group_lists_its_operations_by_line_of_source() -> None:
    @script
    def f(x: Any, y: Any) -> Any:
        total = x + y
        return np.tanh(total) * total

    report = f.explain(np.ones((3, 4)), np.ones(4))
    assert line_of(report, "fused group 0") == "fused group 0: 3 operations on 3 x 4 elements"
    first = f.__wrapped_function__.__code__.co_firstlineno
    assert [str(first + 2), "total", "=", "x", "+", "y", "add"] in rows(report)
    last = next(words for words in rows(report) if words[:1] == [str(first + 3)])
    assert {"tanh", "multiply"} <= kinds_in(last)
    assert "in no group" not in str(report)


def test_what_is_in_no_group_has_a_reason() -> None:
    @script
    def f(x: Any, k: Any) -> Any:
        return np.cumsum(x[1:], axis=0), k * 2

    report = f.explain(np.ones((3, 3)), 2.0)
    assert "one native function" in str(report)
    assert line_of(report, "np::view").endswith("its array is read in place")
    assert line_of(report, "np::cumsum").endswith("operation, reduction, scan or store")
    first = f.__wrapped_function__.__code__.co_firstlineno + 2
    assert line_of(report, "on single numbers") == f"on single numbers, {HERE}:{first}: mul"


def test_equal_refusals_share_a_row_that_names_their_lines() -> None:
    @script
    def f(x: Any) -> Any:
        a = x[1:]
        b = x[:-1]
        return a * b + 1

    report = f.explain(np.ones(5))
    first = f.__wrapped_function__.__code__.co_firstlineno + 2
    assert f"2 np::view  {HERE}:{first}-{first + 1}  a view" in str(report)


def test_a_scalar_that_widens_arrays_is_named() -> None:
    @script
    def f(x: Any, k: Any) -> Any:
        return (x + 1) * k

    x = np.ones(3, np.float32)
    report = f.explain(x, np.float64(2))
    assert report.result.dtype == np.float64
    assert "slower than it could be" in str(report)
    assert "float32 becomes float64, as it meets a NumPy scalar" in str(report)
    assert "slower" not in str(f.explain(x, 2.0))
    assert "slower" not in str(f.explain(x, np.ones(3)))


def test_loops_and_temporaries_are_listed() -> None:
    @script
    def f(x: Any) -> Any:
        x[1:-1] = x[2:] + x[:-2]
        return x

    report = str(f.explain(np.ones(6)))
    listed = report[report.index("loops and memory of f_") :].splitlines()
    assert any("temporary array" in line and "float64[4]" in line for line in listed)
    assert any(line.strip() == "one loop, for x" for line in listed)


def test_control_flow_is_compiled_as_such() -> None:
    @script
    def f(x: Any) -> Any:
        total = 0.0
        for i in range(3):
            total = total + float(x[i])
        return total

    report = f.explain(np.arange(3.0))
    assert report.result == 3.0
    assert line_of(report, "prim::Loop").endswith("control flow, compiled as such")
    assert "fused group" not in str(report)


def test_a_host_program_says_what_is_numpy_and_shows_its_regions() -> None:
    @script
    def f(x: Any) -> Any:
        y = np.sqrt(x * x + 1)
        return np.histogram_bin_edges(y, bins=2)

    x = np.arange(4.0)
    report = f.explain(x)
    edges = np.histogram_bin_edges(np.sqrt(x * x + 1), bins=2)
    np.testing.assert_array_equal(report.result, edges)
    assert "a host program, which runs in Python and NumPy, with 1 native region" in str(report)
    assert line_of(report, "np::call histogram_bin").startswith(
        f"np::call histogram_bin_edges  {HERE}:"
    )
    first = f.__wrapped_function__.__code__.co_firstlineno
    assert line_of(report, "native region 0") == f"native region 0, {HERE}:{first + 2}"
    assert "    fused group 0".lstrip() in str(report)
    assert str(report).index("native region 0") < str(report).index("one native function")


# What is assumed


def test_assumptions_of_arrays() -> None:
    def of(array: np.ndarray[Any, Any]) -> str:
        (description,) = describe_all((array,), frozenset())
        return assumption(description, "x")

    matrix = np.ones((3, 4), np.float32)
    assert of(matrix) == "Float32[3, 4], C-contiguous"
    assert of(matrix.T) == "Float32[4, 3], Fortran-contiguous"
    assert of(matrix[:, ::2]) == "Float32[3, 2], strided"


def test_assumptions_of_other_arguments() -> None:
    values: tuple[Any, ...] = (1, 2.0, np.float32(3), "edge", None, (4, True), [5], [], {6})
    found = [assumption(one, "x") for one in describe_all(values, frozenset({0}))]
    assert found == [
        "exactly 1",
        "any float",
        "any numpy.float32",
        "exactly 'edge'",
        "exactly None",
        "a tuple of (any int; any bool)",
        "any list of ints",
        "any empty list",
        "any object that compiled code leaves to Python",
    ]


def test_report_of_a_dynamic_specialization_names_its_symbols() -> None:
    @script
    def f(x: Any) -> Any:
        return x * 2 + 1

    with jitcore.fusion_strategy([("DYNAMIC", 1)]):
        report = f.explain(np.ones((3, 1)))
    assert "specialization 1, DYNAMIC, compiled for this call" in str(report)
    assert line_of(report, "x ") == "x   Float64[x0, 1], C-contiguous, x0 not 1".replace(
        "   ", "  "
    )


def test_report_names_captured_constants() -> None:
    @script
    def f(x: Any) -> Any:
        return np.exp(x * scale)

    report = f.explain(np.ones(3))
    assert line_of(report, "scale") == "scale  still 2.5"
    assert line_of(report, "np ").endswith("still the same module")


# Why something was compiled again


def compared(one: Any, two: Any) -> list[str]:
    assumed, given = (describe_all((value,), frozenset()) for value in (one, two))
    return differences(assumed, given, ["x"])


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        (np.ones(3), np.ones(3), []),
        (np.ones(3, "f4"), np.ones(3), ["x: Float64 instead of Float32"]),
        (np.ones(4), np.ones(3), ["x: shape (3,) instead of (4,)"]),
        (np.ones(4), np.ones((2, 2)), ["x: 2 axes instead of 1 axis"]),
        (np.ones(4), np.ones(8)[::2], ["x: strided instead of C-contiguous"]),
        (np.ones(4), 1.5, ["x: float instead of array"]),
        (1, 1.5, ["x: float instead of int"]),
        ("a", "b", ["x: 'b' instead of 'a'"]),
        ((1, 2), (1, 2, 3), ["x: 3 elements instead of 2"]),
        ((1, np.ones(2)), (1, np.ones(3)), ["x: element 1: shape (3,) instead of (2,)"]),
        (
            np.ones(4, "f4"),
            np.ones((2, 4)).T,
            [
                "x: Float64 instead of Float32, 2 axes instead of 1 axis, "
                "Fortran-contiguous instead of C-contiguous"
            ],
        ),
    ],
)
def test_differences(one: Any, two: Any, expected: list[str]) -> None:
    assert compared(one, two) == expected


def test_differences_from_a_dynamic_key() -> None:
    assumed = (("array", np.dtype("f8"), (None, 1), "C"),)
    (ones,) = describe_all((np.ones((1, 1)),), frozenset())
    (wide,) = describe_all((np.ones((5, 3)),), frozenset())
    assert differences(assumed, (ones,), "x") == ["x: axis 0 has the extent 1 instead of any other"]
    assert differences(assumed, (wide,), "x") == ["x: axis 1 has the extent 3 instead of 1"]


def test_first_call_second_call_other_dtype_and_fallback() -> None:
    @script
    def f(x: Any) -> Any:
        return x * 2 + 1

    x = np.ones(4, np.float32)
    first, second = f.explain(x), f.explain(x)
    assert "specialization 1, STATIC, compiled for this call in" in str(first)
    assert "specialization 1, STATIC, compiled earlier" in str(second)
    assert first.compilation_seconds > 0
    assert second.compilation_seconds == 0
    third = f.explain(np.ones(4))
    assert "specialization 2, DYNAMIC, compiled for this call in" in str(third)
    reason = "not specialization 1: x: Float64 instead of Float32"
    assert line_of(third, "not specialization") == reason
    last = f.explain(np.ones((1, 4)))
    assert "runs unfused, through NumPy: the fusion strategy" in str(last)
    assert "allows no further specialization" in " ".join(str(last).split())
    reason = "not specialization 2: x: 2 axes instead of 1 axis"
    assert line_of(last, "not specialization 2") == reason
    np.testing.assert_array_equal(last.result, np.full((1, 4), 3.0))


def test_a_changed_global_is_named() -> None:
    global scale

    @script
    def f(x: Any) -> Any:
        return x * scale + 1

    f(np.ones(3))
    try:
        scale = 4.0
        report = f.explain(np.ones(3))
    finally:
        scale = 2.5
    assert "The graph was built anew, as scale has changed." in str(report)
    np.testing.assert_array_equal(report.result, np.full(3, 5.0))


# What was measured


def test_bytes_and_time() -> None:
    @script
    def f(x: Any) -> Any:
        return x * 2 + 1, x

    x = np.ones(1000)
    report = f.explain(x)
    assert report.bytes_moved == 16000
    assert report.seconds > 0
    assert ", 16.0 kB of arguments and results, " in line_of(report, "this call:")
    assert line_of(report, "operation by operation").endswith("NumPy would move 32.0 kB")


def test_unfused_bytes_are_unknown_where_extents_are() -> None:
    @script
    def f(x: Any) -> Any:
        return x * 2 + 1

    with jitcore.fusion_strategy([("DYNAMIC", 1)]):
        f(np.ones(3))
    assert unfused_bytes(f.specializations[0].typed) is None


def test_errstate_is_mentioned() -> None:
    @script
    def f(x: Any) -> Any:
        return x * 2 + 1

    note = "np.errstate asks for more than warnings"
    with np.errstate(divide="raise"):
        assert note in str(f.explain(np.ones(3)))
    assert note not in str(f.explain(np.ones(3)))


def test_the_call_happens_once() -> None:
    @script
    def f(x: Any) -> Any:
        x += 1
        return x

    x = np.zeros(3)
    report = f.explain(x)
    assert report.result is x
    np.testing.assert_array_equal(x, np.ones(3))
    assert report.bytes_moved == 24


def test_the_function_form() -> None:
    @script
    def f(x: Any) -> Any:
        return x + 1

    report = jitcore.explain(f)(np.ones(2))
    assert repr(report) == str(report)
    assert str(report).startswith("test_the_function_form.<locals>.f(x: 'Any') -> 'Any'")


# Without a call


@script
def fibonacci(n: Any) -> Any:
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def test_without_arguments_it_reports_on_what_was_compiled_last() -> None:
    @script
    def f(x: Any, k: Any = 2) -> Any:
        x += 1
        return np.tanh(x) * k

    x = np.ones((2, 2))
    f(np.ones(3))
    f(x)
    for report in (f.explain(), jitcore.explain(f)()):
        assert report.result is None
        assert str(report).startswith("test_without_arguments_")
        assert line_of(report, "specialization") == "specialization 2, DYNAMIC, the last"
        assert line_of(report, "x").startswith("x   Float64[")
        assert "tanh" in str(report)
        assert line_of(report, "nothing was called").endswith("explain(x, k) calls, and times")
    np.testing.assert_array_equal(x, np.full((2, 2), 2.0))


def test_without_arguments_and_without_anything_compiled() -> None:
    @script
    def f(x: Any, *, k: Any) -> Any:
        return x * k

    with pytest.raises(TypeError, match=r"f has not been compiled .*, as in explain\(x, k\)"):
        f.explain()
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'k'"):
        f.explain(1.0)


def test_without_arguments_of_functions_that_need_none() -> None:
    @script
    def f(x: Any = 2.0, *more: Any, **named: Any) -> Any:
        return x * 3

    assert f.explain().result == 6.0


def test_without_arguments_of_recursive_functions_and_of_gradients() -> None:
    assert fibonacci(4) == 3
    assert "it calls itself" in str(fibonacci.explain())
    g = jitcore.grad(lambda x: np.sum(x * x))
    with pytest.raises(TypeError, match="has not been compiled"):
        g.explain()
    g(np.ones(3))
    assert "Float64[3]" in str(g.explain())


# How it is set


def test_table_wraps_its_last_column() -> None:
    reason = "it calls Python " * 12
    first, second, *more = table(["operation", "why"], [["np::call", reason]], indent=2)
    assert first == "  operation  why"
    assert second.startswith("  np::call   it calls Python")
    assert more
    assert all(line.startswith(" " * 13) for line in more)
    assert all(len(line) <= WIDTH for line in [first, second, *more])


def test_wrapped_keeps_short_text_on_one_line() -> None:
    assert list(wrapped("notes: ", "none")) == ["notes: none"]


def test_reports_are_narrow() -> None:
    @script
    def f(x: Any, y: Any) -> Any:
        alpha = (
            np.exp(-((x - y) ** 2) / 2) * np.sin(x) * np.cos(y) + np.log1p(np.abs(x * y)) - x / 3
        )
        return np.cumsum(alpha, axis=0), np.sort(alpha, axis=0)

    report = f.explain(np.ones((20, 3)), np.ones(3))
    assert max(map(len, str(report).splitlines())) <= WIDTH


# The command line's table of operations needs a line for each.


def test_every_op_is_documented() -> None:
    assert [kind for kind, op in TABLE.items() if not op.doc] == []
