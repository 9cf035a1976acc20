"""Host programs: what they look like, their names and their constants."""

# The functions under test are plain NumPy, as users write them.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_checking import compiled_graph
from host_checking import (
    expected,
    graph_of,
    noting,
    same_as_graph,
    same_as_python,
    source_of,
)

from jitcore.codegen.host import build_host, print_host
from jitcore.ir.graph import Graph
from jitcore.ir.interpreter import run
from jitcore.ir.types import ANY, INT

# What it looks like


def test_expressions_are_written_as_the_user_wrote_them() -> None:
    def f(x, w, b):
        """Adds and multiplies."""
        t = np.tanh(x @ w + b) * -2
        return np.sum(t, axis=0, keepdims=True), t[1:-1, ::2], (t - b) ** 2

    assert source_of(f) == expected(
        '''
        def f(x, w, b):
            """Adds and multiplies."""
            t = np.tanh(x @ w + b) * -2
            return np.sum(t, axis=0, keepdims=True), t[1:-1, ::2], (t - b) ** 2
        '''
    )


def test_statements_are_written_as_the_user_wrote_them() -> None:
    def f(a, i, v, o):
        a[1:-1, i] = v
        a[i, 2] += v * 3
        del a[0]
        o.total += 1
        m, (p, *q) = v
        x, y = o.pair
        x += y * m(p, *q)
        np.copyto(a, x)
        return f"{x} and {y:.3f}"

    assert source_of(f) == expected(
        """
        def f(a, i, v, o):
            a[1:-1, i] = v
            a[i, 2] += v * 3
            del a[0]
            o.total += 1
            m, (p, *q) = v
            x, y = o.pair
            x += y * m(p, *q)
            np.copyto(a, x)
            return f'{x} and {y:.3f}'
        """
    )


def test_control_flow_is_written_as_the_user_wrote_it() -> None:
    def f(xs, n):
        best = 0
        for i, x in enumerate(xs):
            if x < 0:
                break
            best += x * i
        while n > best and best > 0:
            n -= 1
        if n is None:
            raise ValueError("nothing")
        if n == 1:
            return best
        elif n < -5:
            best = -best
        return best or n

    assert source_of(f) == expected(
        """
        def f(xs, n):
            best = 0
            for i, x in enumerate(xs):
                if x < 0:
                    break
                best += x * i
            while n > best and best > 0:
                n -= 1
            if n is None:
                raise ValueError('nothing')
            if n == 1:
                return best
            if n < -5:
                best = -best
            return best or n
        """
    )
    for xs in ([], [1, 2, 3], [2, -1, 7]):
        for n in (0, 1, -9, 20, None):
            same_as_python(f, xs, n)


def test_typed_graphs_are_written_in_the_operators_of_numpy() -> None:
    graph = graph_of(
        """
        graph(%x : Float32[n, 4], %v : Float32[4], %i : int):
          %c : Float32 = prim::Constant[value=np.float32(0.1)]()
          %1 : Float32[n, 4] = np::multiply(%x, %c)
          %2 : Float32[4] = np::view[index="$0, :"](%1, %i)
          np::store(%2, %v)
          %3 : int = prim::size[dim=0](%x)
          %4 : Float64 = np::cast[dtype=dtype("float64")](%3)
          %5 : Float64[n, 4] = np::cast[dtype=dtype("float64")](%1)
          %6 : Float64[n, 4] = np::divide(%5, %4)
          %7 : Float64[n] = np::sum[axis=(1,), keepdims=False](%6)
          return (%7)
        """
    )
    assert print_host(graph, name="f").source == expected(
        """
        def f(x, v, i):
            t1 = x * 0.1
            t1[i, :] = v
            t4 = np.float64(x.shape[0])
            return np.sum(t1.astype(np.float64) / t4, axis=(1,), keepdims=False)
        """
    )
    same_as_graph(graph, np.ones((3, 4), np.float32), np.arange(4, dtype=np.float32), 2)


def test_annotations_say_what_the_graph_knows() -> None:
    def f(x, len: int, mode: str):  # type: ignore[no-untyped-def]
        return x

    source = print_host(compiled_graph(f), annotate=True).source
    assert source.startswith("def f(x, len: int, mode: str)")
    graph = graph_of("graph(%x : Float32[*], %y : Float32[n, 4]):\n  return (%x)")
    source = print_host(graph, name="g", annotate=True).source
    assert source.startswith("def g(x: 'Float32[*]', y: Float32[n, 4]) -> 'Float32[*]':")
    ast.parse(source)


# Views, items and writes


@pytest.mark.parametrize(
    ("index", "type_", "view"),
    [
        ("1:-1, $0", "Float64[m]", lambda x, i: x[1:-1, i]),
        ("0, 1", "Float64[]", lambda x, i: x[0, 1, ...]),
        ("$0, None, ::-1", "Float64[1, m]", lambda x, i: x[i, None, ::-1]),
        ("$0", "Float64[m]", lambda x, i: x[i]),
        ("-1", "Float64[*]", lambda x, i: x[-1, ...]),
    ],
)
def test_a_view_is_a_view(index: str, type_: str, view: Callable[..., Any]) -> None:
    graph = graph_of(
        f"""
        graph(%x : Float64[n, m], %i : int):
          %v : {type_} = np::view[index="{index}"](%x, %i)
          return (%v)
        """
    )
    x = np.arange(12.0).reshape(3, 4)
    result = build_host(graph)(x, 1)
    assert isinstance(result, np.ndarray) and np.shares_memory(result, x)
    np.testing.assert_array_equal(result, view(x, 1), strict=True)


def test_an_item_is_a_scalar() -> None:
    graph = graph_of(
        """
        graph(%x : Float32[n, m], %z : Float32[], %i : int):
          %1 : Float32[] = np::view[index="$0, 1"](%x, %i)
          %2 : Float32 = np::item(%1)
          %3 : Float32 = np::item(%z)
          return (%2, %3)
        """
    )
    assert "return x[i, 1], z[()]" in print_host(graph).source
    one, two = build_host(graph)(np.ones((2, 2), np.float32), np.float32(3) * np.ones((), "f"), 0)
    assert type(one) is type(two) is np.float32


@pytest.mark.parametrize("type_", ["Float64", "Float64[]", "Float64[1]"])
def test_stores_into_one_element(type_: str) -> None:
    graph = graph_of(
        f"""
        graph(%x : Float64[n, m], %v : {type_}):
          %1 : Float64[] = np::view[index="0, 1"](%x)
          %2 : None = np::store(%1, %v)
          return (%2)
        """
    )
    value: Any = {"Float64": np.float64(5), "Float64[]": np.array(5.0)}.get(type_, np.array([5.0]))
    same_as_graph(graph, np.zeros((2, 2)), value)


def test_the_value_of_an_assignment_comes_first() -> None:
    graph = graph_of(
        """
        graph(%x : Float64[n], %i : int, %log : Any):
          %1 : Float64[] = np::view[index="$0"](%x, %i)
          %2 : Any = prim::Call(%log, %i)
          %3 : None = np::store(%1, %2)
          return (%3)
        """
    )
    for index in (0, 7):
        logged: list[Any] = []
        wanted: list[Any] = []
        for function, calls in ((build_host(graph), logged), (lambda *a: run(graph, a), wanted)):
            try:
                function(np.zeros(3), index, noting(calls))
            except IndexError as error:
                calls.append(str(error))
        assert logged == wanted


@pytest.mark.parametrize("number", [0, 300, -1, 2**40, 2**63, 2**64, -(2**63), 2**200, True])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64", "float32", "bool"])
def test_casts_of_python_numbers(number: int, dtype: str) -> None:
    graph = graph_of(
        f"""
        graph(%x : int):
          %1 : Any = np::cast[dtype=dtype("{dtype}")](%x)
          return (%1)
        """
    )
    same_as_graph(graph, number)


@pytest.mark.parametrize("dtype", ["int16", "uint64", "float16", "float32", "complex64", "bool"])
@pytest.mark.parametrize("value", [1.9, -1.9, 1e300, np.nan, np.inf, -0.0])
def test_casts_of_floats(value: float, dtype: str) -> None:
    text = 'graph(%x : {}):\n  %1 : Any = np::cast[dtype=dtype("{}")](%x)\n  return (%1)'
    with np.errstate(all="ignore"):
        same_as_graph(graph_of(text.format("float", dtype)), value)
        same_as_graph(graph_of(text.format("Float64", dtype)), np.float64(value))
        same_as_graph(graph_of(text.format("Float64[n]", dtype)), np.array([value]))


# Constants


CONSTANTS: list[Any] = [
    0, -1, 2**70, -(2**70), 10**5000, True, None, ..., 0.0, -0.0, 0.1, 1e-320, 1e300, np.inf,
    -np.inf, np.nan, -np.nan, 2j, -2j, complex(-0.0, 1.0), complex(1.0, -0.0),
    complex(np.nan, -np.inf), complex(0.0, -0.0), complex(-0.0, -0.0), 1 + 2j, "it's",
    'a "b"\n\\{x}', "\udc80\u202e",
    b"\x00'", (), (1,), (1, (2.5, None)), slice(1, None, -1), range(1, 9, 2), np.dtype("float32"),
    np.dtype(">f8"), np.float32(0.1), np.float16(0.1), np.float64(-0.0), np.float32(np.inf),
    np.float32(np.nan), np.int8(-128), np.uint64(2**64 - 1), np.bool(True), np.complex64(1 - 2j),
    np.longdouble(1) / 3, np.datetime64("2020-01-01"), int, np.float32, np.sum, len, ValueError,
]  # fmt: skip


@pytest.mark.parametrize("value", CONSTANTS, ids=lambda value: ascii(type(value).__name__))
def test_constants_are_exact(value: Any) -> None:
    graph = Graph("f")
    graph.block.add_return(graph.block.constant(value, ANY))
    found = build_host(graph)()
    assert type(found) is type(value)
    if isinstance(value, np.generic):
        assert found.dtype == value.dtype and found.tobytes() == value.tobytes()
    elif isinstance(value, float | complex):
        assert np.asarray(found).tobytes() == np.asarray(value).tobytes()
    else:
        assert found == value


@pytest.mark.parametrize(
    "kind", "add sub mul truediv floordiv mod pow matmul and_ lt eq is_ in_ getitem".split()
)
@pytest.mark.parametrize("left", [-1, 2, 1.5, -2j, "ab", (1, 2), None])
@pytest.mark.filterwarnings("error")
def test_operators_on_constants(kind: str, left: Any) -> None:
    """Neither precedence nor warnings of the compiler about literals get in the way."""
    for right in (-1, 2, 0.5, "a", (1, 2)):
        graph = Graph("f")
        one, two = (graph.block.constant(value, ANY) for value in (left, right))
        node = graph.block.append(f"prim::{kind}", [one, two])
        negative = graph.block.append("prim::neg", node.outputs)
        graph.block.add_return(negative.output)
        same_as_graph(graph)


def test_objects_are_named() -> None:
    class Table:
        def __call__(self, x: Any) -> Any:
            return x + 1

    table, array = Table(), np.arange(3)
    graph = Graph("f")
    block = graph.block
    callee, held = block.constant(table, ANY), block.constant(array, ANY)
    made = block.append("prim::Call", [callee, held])
    again = block.append("prim::Call", [block.constant(table, ANY), made.output])
    block.add_return(again.output)
    block.add_return(held)
    host = print_host(graph)
    assert host.source == "def f():\n    return c0(c0(c1)), c1\n"
    assert host.namespace["c0"] is table
    assert build_host(graph)()[1] is array


# Names


def test_names_of_variables_and_of_globals_do_not_meet() -> None:
    def f(np, len, range, c0):
        UNINITIALIZED = [np, len]
        for slice in c0:
            UNINITIALIZED.append(slice + np)
        return UNINITIALIZED

    same_as_python(f, 1, 2, 3, [4, 5])
    graph = graph_of(
        """
        graph(%np : Any, %len : int, %range : int, %operator : Any):
          %1 : int = prim::Constant[value=3]()
          %2 : bool = prim::Constant[value=True]()
          %3 : int = prim::len(%np)
          %4 : Any = np::sum(%np)
          %5 : Any = prim::Loop(%len, %2, %4)
            block0(%i : int, %s : Any):
              %6 : Any = prim::add(%s, %3)
              %7 : Any = prim::add(%6, %range)
              -> (%2, %7)
          %8 : Any = prim::iadd(%operator, %5)
          return (%8, %operator)
        """
    )
    same_as_graph(graph, [1, 2, 3], 3, 5, 1.0)


@pytest.mark.parametrize(
    "name", ["class", "None", "x y", "1x", "__debug__", "a'b\n", "ﬁ", "", "__builtins__", "é"]
)
def test_names_that_are_no_identifiers(name: str) -> None:
    graph = Graph(name)
    first, second = (graph.block.add_param(INT, "x") for _ in range(2))
    first.name = second.name = name
    total = graph.block.append("prim::sub", [first, second])
    total.output.name = name
    graph.block.add_return(total.output)
    assert build_host(graph)(5, 3) == 2


@pytest.mark.parametrize(
    "line",
    [
        "prim::GetAttr[name=\"x); print('!')\"](%x)",
        'prim::CallMethod[name="a b"](%x)',
        'prim::SetAttr[name="a = 1"](%x, %x)',
        'prim::GetAttr[name="lambda"](%x)',
    ],
)
def test_attribute_names_do_not_become_code(line: str) -> None:
    class Box:
        def __init__(self) -> None:
            self.asked: list[str] = []

        def __getattr__(self, name: str) -> Any:
            self.__dict__["asked"].append(name)
            return lambda: name

        def __repr__(self) -> str:
            return repr({name: value for name, value in vars(self).items() if value is not self})

    graph = graph_of(f"graph(%x : Any):\n  %1 : Any = {line}\n  return (%x)")
    boxes = [Box(), Box()]
    build_host(graph)(boxes[0])
    run(graph, [boxes[1]])
    assert repr(boxes[0]) == repr(boxes[1])


def test_names_of_arguments_do_not_become_code() -> None:
    graph = Graph("f")
    x = graph.block.add_param(ANY, "x")
    callee = graph.block.constant(dict, ANY)
    node = graph.block.append("prim::Call", [callee, x], keywords=["lambda"])
    graph.block.add_return(node.output)
    assert build_host(graph)(1) == {"lambda": 1}
    node.keywords = ("a=1, b",)
    with pytest.raises(ValueError, match="is no name of an argument"):
        build_host(graph)


def test_unknown_kinds_are_refused() -> None:
    graph = graph_of("graph(%x : Any):\n  %1 : Any = nn::unheard_of(%x)\n  return (%1)")
    with pytest.raises(NotImplementedError):
        build_host(graph)
    with pytest.raises(AttributeError):
        build_host(graph_of('graph():\n  %1 : Any = np::call[name="_core.x"]()\n  return (%1)'))


@pytest.mark.parametrize(
    "doc",
    ["One line.", 'Ends with "', "Two\n\n    lines\\n", 'Has """ quotes', "tab\t\r\n", "\\", ""],
)
def test_docstrings_are_kept(doc: str) -> None:
    graph = graph_of("graph(%x : Any):\n  return (%x)")
    graph.doc = doc
    assert build_host(graph, name="f").__doc__ == doc
