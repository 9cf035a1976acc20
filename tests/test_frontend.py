"""The generic graphs that the front end makes: kinds, names, control flow, calls, types."""

from __future__ import annotations

import math
import types
from typing import Any

import numpy as np
import pytest
from frontend_checking import build, build_text, define, kinds, paths
from numpy.testing import assert_array_equal

from jitcore.ir.graph import Graph, Node
from jitcore.ir.interpreter import run
from jitcore.ir.types import (
    ANY,
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    NONE,
    STR,
    TENSOR,
    DictType,
    ListType,
    TupleType,
)


def only(graph: Graph, kind: str) -> Node:
    (node,) = graph.find_all_nodes(kind)
    return node


# Parameters


def test_parameters_and_annotations() -> None:
    graph = build_text(
        """
def f(a, b: int, /, c: float = 1.0, *rest: int, d: "bool", e: complex, g: str, h: None,
      i: np.ndarray, j: tuple[int, "float"], k: list[int], m: dict[str, np.ndarray],
      n: int | None, o: tuple[int, ...], p: object, q: T.List[float], r: NDArray[np.float32],
      s: unknown, t: T.Optional[int], u: T.Tuple[()], v: NDArray, w: Rows, x: "Rows"):
    "doc"
""",
        np=np,
        T=__import__("typing"),
        NDArray=np.typing.NDArray,
        Rows=np.typing.NDArray[np.float32],
    )
    expected = {
        "a": TENSOR,
        "b": INT,
        "c": FLOAT,
        "rest": ANY,
        "d": BOOL,
        "e": COMPLEX,
        "g": STR,
        "h": NONE,
        "i": TENSOR,
        "j": TupleType((INT, FLOAT)),
        "k": ListType(INT),
        "m": DictType(STR, TENSOR),
        "n": ANY,
        "o": ANY,
        "p": ANY,
        "q": ListType(FLOAT),
        "r": TENSOR,
        "s": ANY,
        "t": ANY,
        "u": TupleType(()),
        "v": TENSOR,
        "w": TENSOR,
        "x": TENSOR,
    }
    assert {value.name: value.type for value in graph.inputs} == expected
    assert graph.captures == []
    assert graph.doc == "doc"
    assert len(graph.outputs) == 1


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("def f(a, b):  # type: (int, float) -> float", [INT, FLOAT]),
        ("def f(a, b):\n    # type: (int, Tensor) -> float", [INT, TENSOR]),
        ("def f(\n    a,\n    b,\n):\n    # type: (...) -> float", [TENSOR, TENSOR]),
        (
            "def f(\n    a,  # type: int\n    b,  # type: List[float]  # why\n):\n"
            "    # type: (...) -> float",
            [INT, ListType(FLOAT)],
        ),
        (
            "def f(\n    a: int,  # type: ignore\n    b,  # text\n):\n    # type: (...) -> float",
            [INT, TENSOR],
        ),
        ("def f(a, b):  # type: int", [TENSOR, TENSOR]),
        ("def f(a, b):  # type: (int +) -> int", [TENSOR, TENSOR]),
    ],
)
def test_type_comments(header: str, expected: list[Any]) -> None:
    graph = build_text(f"{header}\n    return a", Tensor=np.ndarray, List=list)
    assert [value.type for value in graph.inputs] == expected


def test_lambda_has_source() -> None:
    first, second = (lambda x: x + 1, lambda x: x * 2)
    assert kinds(build(first)) == ["prim::Constant", "prim::add"]
    assert kinds(build(second)) == ["prim::Constant", "prim::mul"]


def test_method_mangles_private_names() -> None:
    class Counter:
        def __init__(self) -> None:
            self.__count = 4

        def more(self, __by: int) -> int:
            return self.__count + __by

    assert run(build(Counter.more), [Counter(), 3]) == 7


# Places and names


def test_nodes_have_the_lines_and_columns_of_the_file() -> None:
    def indented(x: Any) -> Any:
        return x + np.sin(x)

    source = only(build(indented), "np::sin").source
    assert source is not None
    line = indented.__code__.co_firstlineno + 1
    assert (source.file, source.line, source.column) == (__file__, line, 19)
    assert (source.end_line, source.end_column) == (line, 28)


def test_values_are_called_like_the_variables() -> None:
    graph = build_text(
        """
def f(x):
    y = x + 1
    y = y * 2
    for i, (j, *k) in x:
        y = y - i
    return y
"""
    )
    assert only(graph, "prim::add").output.name == "y"
    assert only(graph, "prim::mul").output.name == "y.1"
    assert only(graph, "prim::For").output.name.startswith("y.")
    unpack_names = [v.name for node in graph.find_all_nodes("prim::Unpack") for v in node.outputs]
    assert {"i", "j", "k"} <= set(unpack_names)


# Control flow


def test_return_moves_the_rest_into_the_other_arm() -> None:
    graph = build_text(
        """
def f(x):
    if x > 0:
        return x
    y = x * 2
    return y
"""
    )
    node = only(graph, "prim::If")
    assert [len(block.nodes) for block in node.blocks] == [0, 2]
    assert graph.outputs == node.outputs


def test_raise_keeps_the_code_after_it_flat() -> None:
    graph = build_text(
        """
def f(x):
    if x < 0:
        raise ValueError("negative")
    return x * 2
"""
    )
    assert only(graph, "prim::If").outputs == []
    assert only(graph, "prim::mul").block is graph.block


def test_loop_carries_only_what_is_read_again() -> None:
    graph = build_text(
        """
def f(x, n):
    total = 0
    for i in range(n):
        part = x[i] * 2
        other = part + 1
        total += other
    return total
"""
    )
    loop = only(graph, "prim::For")
    assert [value.name for value in loop.blocks[0].params] == ["i", "total.1"]
    assert "prim::CheckBound" not in kinds(graph)
    assert "prim::Uninitialized" not in kinds(graph)


def test_while_is_a_loop_of_torchscript() -> None:
    graph = build_text("def f(n):\n    while n > 3:\n        n = n - 1\n    return n\n")
    loop = only(graph, "prim::Loop")
    limit = loop.inputs[0].constant
    assert limit is not None and limit.attributes["value"] == 2**63 - 1
    assert loop.inputs[1].node is not None and loop.inputs[1].node.kind == "prim::bool"
    assert len(graph.find_all_nodes("prim::gt")) == 2


def test_check_bound_only_where_a_variable_may_be_unbound() -> None:
    text = "def f(x):\n    if x:\n        y = 1\n    else:\n        {}\n    return y + y\n"
    assert "prim::CheckBound" not in kinds(build_text(text.format("y = 2")))
    assert "prim::CheckBound" not in kinds(build_text(text.format("raise KeyError(x)")))
    assert "prim::CheckBound" not in kinds(build_text(text.format("return 0")))
    assert len(build_text(text.format("pass")).find_all_nodes("prim::CheckBound")) == 1


def test_truth_of_a_condition_is_tested_once() -> None:
    class Counting:
        count = 0

        def __bool__(self) -> bool:
            Counting.count += 1
            return True

    text = "def f(a, b):\n    if a and not (b or a):\n        return 1\n    return 2\n"
    function = define(text)
    assert run(build(function), [Counting(), Counting()]) == 2
    ours, Counting.count = Counting.count, 0
    assert function(Counting(), Counting()) == 2
    assert ours == Counting.count


def test_deep_expressions() -> None:
    terms = " + ".join(["x"] * 2000)
    assert run(build_text(f"def f(x):\n    return {terms}\n"), [1]) == 2000


def test_deep_loops_stay_cheap() -> None:
    lines = ["def f(n):", "    t = 0"]
    lines += ["    " * (depth + 1) + "for a in range(n):" for depth in range(14)]
    lines += ["    " * 15 + "t = t + a", "    return t"]
    assert run(build_text("\n".join(lines)), [1]) == 0


# Statements


def test_augmented_subscript_evaluates_its_parts_once() -> None:
    graph = build_text("def f(x, i):\n    x[i + 1] += 2\n    x.real -= 1\n")
    getitem, setitem = only(graph, "prim::getitem"), only(graph, "prim::setitem")
    assert setitem.inputs[:2] == getitem.inputs
    assert only(graph, "prim::iadd").inputs[0] is getitem.output
    assert setitem.inputs[2] is only(graph, "prim::iadd").output
    assert only(graph, "prim::SetAttr").inputs[1] is only(graph, "prim::isub").output


def test_attributes_of_nodes() -> None:
    graph = build_text("def f(x):\n    a, *b = x\n    del x[0]\n    x.t = a\n    return x[1:]\n")
    unpack = only(graph, "prim::Unpack")
    assert unpack.attributes == {"count": 2, "star": 1}
    assert only(graph, "prim::SetAttr").attributes == {"name": "t"}
    assert len(only(graph, "prim::slice").inputs) == 3
    assert len(only(graph, "prim::delitem").inputs) == 2


def test_swap_makes_no_tuple() -> None:
    assert kinds(build_text("def f(a, b):\n    a, b = b, a\n    return a\n")) == []


def test_strict_fusion_marks_its_nodes() -> None:
    strict = types.SimpleNamespace(__jitcore_scope__="strict_fusion")
    graph = build_text(
        """
def f(x):
    y = x + 1
    with strict():
        if y > 2:
            return y * 3
        z = y / 4
    return z - 5
""",
        strict=strict,
    )
    scopes = {node.kind: node.attributes.get("scope") for node in graph.nodes()}
    assert scopes["prim::mul"] == scopes["prim::truediv"] == scopes["prim::If"] == "strict_fusion"
    assert scopes["prim::add"] is None
    assert scopes["prim::sub"] is None


# Calls


def test_calls_of_known_functions() -> None:
    graph = build_text(
        """
def f(x):
    a = np.mean(x, axis=0)
    b = lstsq(x, a)
    c = np.add.at(x, a, a)
    d = math.sqrt(2.0)
    e = len(x)
    g = x.sum(axis=1, keepdims=True)
    h = print(x)
    k = np.fft.fft(x)
    return np.random.permutation(x)
""",
        np=np,
        math=math,
        lstsq=np.linalg.lstsq,
    )
    mean = only(graph, "np::mean")
    assert (len(mean.inputs), mean.keywords) == (2, ("axis",))
    names = [node.attributes["name"] for node in graph.find_all_nodes("np::call")]
    assert names == ["linalg.lstsq", "fft.fft", "random.permutation"]
    assert only(graph, "np::add_at")
    assert only(graph, "math::sqrt") and only(graph, "prim::len")
    method = only(graph, "prim::CallMethod")
    assert (method.attributes["name"], method.keywords) == ("sum", ("axis", "keepdims"))
    callee = only(graph, "prim::Call").inputs[0].constant
    assert callee is not None and callee.attributes["value"] is print
    assert paths(graph) == ["np", "lstsq", "math"]


def test_starred_arguments_are_numbered_by_input() -> None:
    graph = build_text(
        "def f(x, g):\n    return g(1, *x), x.m(*x, 2), np.maximum(*x), max(*x, key=g)\n", np=np
    )
    starred = [node.attributes["starred"] for node in graph.nodes() if "starred" in node.attributes]
    assert starred == [(2,), (1,), (0,), (0,)]


def test_called_function_gets_all_parameters() -> None:
    weights = np.arange(3.0)
    graph = build_text(
        """
def inner(x):
    return x * weights

def middle(a, b=2, *rest, c, d=weights):
    return inner(a) + b + len(rest) + c + d

def f(x):
    return middle(x, c=3), middle(x, 4, 5, 6, c=7, d=8)
""",
        weights=weights,
    )
    first, second = graph.find_all_nodes("prim::CallFunction")
    assert first.attributes["graph"] is second.attributes["graph"]
    middle = first.attributes["graph"]
    assert [value.name for value in middle.inputs] == ["a", "b", "rest", "c", "d", "weights"]
    assert len(first.inputs) == len(second.inputs) == 6
    assert [value.name for value in graph.inputs] == ["x", "d", "weights"]
    assert sorted(paths(graph)) == ["inner", "middle", "middle.__kwdefaults__['d']", "weights"]
    x = np.ones(3)
    expected = (x * weights + 2 + 0 + 3 + weights, x * weights + 4 + 2 + 7 + 8)
    assert_array_equal(run(graph, [x]), expected)


def test_arguments_that_do_not_fit_raise_as_in_python() -> None:
    function = define("def g(a):\n    return a\n\ndef f(x):\n    return g(x, 1)\n")
    with pytest.raises(TypeError) as expected:
        function(1)
    with pytest.raises(TypeError) as found:
        run(build(function), [1])
    assert str(found.value) == str(expected.value)


def test_compiled_functions_are_unwrapped() -> None:
    helper = define("def helper(x):\n    return x + 1\n", "helper")
    wrapper = types.SimpleNamespace(__wrapped_function__=helper)
    graph = build_text("def f(x):\n    return wrapped(x)\n", wrapped=wrapper)
    assert kinds(graph) == ["prim::CallFunction"]
    assert graph.captures[0].value is wrapper
    assert run(graph, [1]) == 2


def test_library_functions_are_called_as_they_are() -> None:
    import textwrap

    graph = build_text("def f(x):\n    return textwrap.dedent(x)\n", textwrap=textwrap)
    assert kinds(graph) == ["prim::Constant", "prim::Call"]
    assert paths(graph) == ["textwrap", "textwrap.dedent"]


def test_functions_without_source_are_called_as_they_are() -> None:
    namespace: dict[str, Any] = {}
    exec("def hidden(x):\n    return x + 1\n", namespace)
    graph = build_text("def f(x):\n    return hidden(x)\n", hidden=namespace["hidden"])
    assert kinds(graph) == ["prim::Constant", "prim::Call"]


# Whole programs


def _softmax(x: Any, axis: int = -1) -> Any:
    shifted = x - x.max(axis=axis, keepdims=True)
    e = np.exp(shifted)
    return e / np.sum(e, axis=axis, keepdims=True)


def _jacobi(steps: int, x: Any) -> Any:
    for _ in range(1, steps):
        x[1:-1] = 0.5 * (x[:-2] + x[2:])
    return x


def _mandelbrot(c: Any, limit: int) -> Any:
    z = np.zeros_like(c)
    counts = np.zeros(c.shape, dtype=np.int64)
    for n in range(limit):
        inside = np.abs(z) <= 2
        if not inside.any():
            break
        z[inside] = z[inside] ** 2 + c[inside]
        counts[inside] = n
    return counts


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (_softmax, [np.array([[1.0, 2.0], [3.0, 5.0]]), -1]),
        (_jacobi, [4, np.arange(6.0)]),
        (_mandelbrot, [np.array([0.1 + 0.2j, 2.0 + 1j]), 5]),
    ],
    ids=["softmax", "jacobi", "mandelbrot"],
)
def test_numpy_programs(function: Any, args: list[Any]) -> None:
    ours = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
    assert_array_equal(run(build(function), ours), function(*args))
