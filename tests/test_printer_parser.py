"""The text of graphs: what is written reads back as the same, and errors point at the place."""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jitcore.ir.graph import Graph, SourceRange
from jitcore.ir.literals import UnresolvedObject, format_literal, parse_literal
from jitcore.ir.parser import ParseError, parse_graph
from jitcore.ir.scanner import Scanner
from jitcore.ir.type_syntax import parse_type
from jitcore.ir.types import (
    ANY,
    BOOL,
    FLOAT,
    INT,
    NONE,
    OBJECT,
    TENSOR,
    DictType,
    ListType,
    TensorType,
    TupleType,
    Type,
    UnionType,
    array_type,
    scalar_type,
)
from jitcore.ir.verifier import verify

TEXT = """\
graph(%x : Float32[n, 1024], %w : Float32[1024]):
  %2 : float = prim::Constant[value=1e-05]() # model.py:9:22
  %3 : Float32[n, 1] = np::mean[axis=1, keepdims=True](%x) # model.py:7:8
  %c : bool = prim::gt(%2, %2)
  %4 : Float32[*] = prim::If(%c)
    block0():
      %5 : Float32[] = np::add(%3, axis=%2)
      -> (%5)
    block1():
      -> (%x)
  %6 : int, %y : Any = prim::Loop(%2, %c, %2, %4)
    block0(%i : int, %p : int, %q : Any):
      %7 : Any = np::call[name="linalg.solve"](%q, %w) # a file.py:10:0
      -> (%c, %p, %7)
  %a : int, %b : Tuple[int, List[Array<>f4>[2]], Point(int)] = prim::Unpack[count=2](%4)
  np::store(%x, %w)
  %9 : Any = prim::FusionGroup_0(%x, %w)
  %10 : Any = prim::CallFunction[name="f"](%x, %w)
  %11 : Any = prim::FusionGroup_0(%x, %w)
  %12 : Any = prim::NativeGroup_0(%x)
  return (%9)
with prim::FusionGroup_0 = graph(%x : Float32[n]):
  %y : Any = prim::FusionGroup_1(%x)
  return (%y)
with function f = graph():
  return ()
with prim::NativeGroup_0 = graph(%z : Float32[n]):
  return (%z)
with prim::FusionGroup_1 = graph(%x : Float32[n]):
  return (%x)"""


def test_round_trip() -> None:
    graph = parse_graph(TEXT)
    assert str(graph) == TEXT
    groups = graph.find_all_nodes("prim::FusionGroup")
    assert graph.find_node("prim::FusionGroup") is groups[0]
    assert graph.find_node("prim::Nothing") is None
    assert len(groups) == 2
    assert groups[0].attributes["graph"] is groups[1].attributes["graph"]


def test_parsed_nodes() -> None:
    graph = parse_graph(TEXT)
    mean = graph.block.nodes[1]
    assert mean.kind == "np::mean"
    assert mean.attributes == {"axis": 1, "keepdims": True}
    assert mean.source == SourceRange("model.py", 7, 8)
    assert mean.output.type == array_type("f4", ("n", 1))
    assert graph.find_all_nodes("np::add")[0].keywords == ("axis",)
    assert [value.name for value in graph.inputs] == ["x", "w"]
    assert [param.name for param in graph.find_all_nodes("prim::Loop")[0].blocks[0].params] == [
        "i",
        "p",
        "q",
    ]


def test_only_the_base_name_of_a_file_is_printed() -> None:
    graph = Graph()
    source = SourceRange("/home/me/model.py", 3, 4)
    graph.block.append("np::sin", [graph.block.add_param(TENSOR, "x")], source=source)
    assert str(graph).split("\n")[1] == "  %0 : Any = np::sin(%x) # model.py:3:4"


def test_long_headers_wrap() -> None:
    graph = Graph()
    for number in range(9):
        graph.block.add_param(TENSOR, f"parameter{number}")
    text = str(graph)
    assert text.startswith("graph(%parameter0 : Tensor,\n      %parameter1 : Tensor,\n")
    assert str(parse_graph(text)) == text


def test_functions_of_one_name_are_told_apart() -> None:
    graph = Graph()
    for value in (1, 2):
        body = Graph("f")
        body.block.add_return(body.block.constant(value, INT))
        graph.block.append("prim::CallFunction", [], {"graph": body, "inlined": False})
    text = str(graph)
    assert 'CallFunction[name="f", inlined=False]()' in text
    assert "with function f_1 = graph():" in text
    assert str(parse_graph(text)) == text


def test_a_recursive_function_prints_once() -> None:
    body = Graph("f")
    body.block.append("prim::CallFunction", [], {"graph": body})
    text = str(body)
    assert text.count("with function f = ") == 1
    assert str(parse_graph(text)) == text


class Point(NamedTuple):
    x: int
    y: int


@pytest.mark.parametrize(
    "type_",
    [
        INT,
        NONE,
        OBJECT,
        ANY,
        TENSOR,
        TensorType(np.dtype("f4")),
        array_type("f4", ("n", 4, "s0")),
        array_type("bool", ()),
        scalar_type("c16"),
        array_type(">f4", (2,)),
        array_type("M8[ns]", (2,)),
        array_type("U5", ("n",)),
        TupleType(()),
        TupleType((INT, TupleType((FLOAT, TENSOR)))),
        UnionType((INT, NONE)),
        ListType(array_type("i8", (3,))),
        DictType(INT, ListType(BOOL)),
    ],
    ids=str,
)
def test_types(type_: Type) -> None:
    scanner = Scanner(str(type_))
    assert parse_type(scanner) == type_
    assert scanner.at_end


def test_named_tuples_keep_their_name() -> None:
    type_ = TupleType((INT, INT), Point)
    parsed = parse_type(Scanner(str(type_)))
    assert isinstance(parsed, TupleType)
    assert str(parsed) == str(type_) == "Point(int, int)"
    assert parsed == parse_type(Scanner(str(type_)))


def read(text: str) -> Any:
    scanner = Scanner(text)
    value = parse_literal(scanner)
    assert scanner.at_end
    return value


def assert_same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if isinstance(expected, np.ndarray | np.generic):
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        assert found.tobytes() == expected.tobytes()
    elif isinstance(expected, float) and math.isnan(expected):
        assert math.isnan(found)
        assert math.copysign(1, found) == math.copysign(1, expected)
    else:
        assert repr(found) == repr(expected)


VALUES: list[Any] = [
    0,
    -(10**3000),
    True,
    None,
    Ellipsis,
    1e-5,
    math.nan,
    -math.nan,
    -math.inf,
    -0.0,
    5e-324,
    complex(1, -0.0),
    complex(math.nan, math.inf),
    "",
    'quotes " and \\ and\nlines # no comment',
    "é\u2028\ud800😀",
    b"\x00\xff",
    (),
    (1,),
    (1, (2.0, "x"), None),
    [1, [2]],
    {"a": 1, 2: (3,)},
    {3},
    frozenset({1, 2}),
    slice(None, 2, 1),
    range(1, 7, 2),
    np.dtype("f4"),
    np.dtype(">i2"),
    np.dtype([("a", "<i4"), ("b", "<f8", (2,))]),
    np.dtype("M8[ns]"),
    np.float32(0.1),
    np.float16(np.nan),
    -np.float64(0),
    np.bool(True),
    np.uint64(2**64 - 1),
    np.complex64(1 + 0.1j),
    np.longdouble(1) / 3,
    np.datetime64("2020-01-01"),
    np.str_("text"),
    np.array([1, 2.5, np.nan, -0.0]),
    np.array(5),
    np.zeros((0, 3), np.int8),
    np.zeros(0, np.complex64),
    np.arange(100).reshape(4, 25),
    np.array([1, 2], ">i4"),
    np.array(["a", "bc"]),
    np.array([True, False]),
    np.arange(3, dtype=np.uint64) + 2**63,
    np.frombuffer(b"\x01\x00\x80\x7f\x00\x00\x00\x00", np.float32),
    np.mean,
    np.add,
    np.linalg.solve,
    np.float32,
    np,
    math,
    math.sqrt,
    len,
    ValueError,
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: format_literal(value)[:40])
def test_literals(value: Any) -> None:
    text = format_literal(value)
    assert "\n" not in text
    assert_same(read(text), value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.complex_numbers(),
        lambda inner: st.lists(inner).map(tuple) | st.lists(inner),
        max_leaves=8,
    )
)
def test_all_literals(value: Any) -> None:
    assert repr(read(format_literal(value))) == repr(value)


@given(st.floats(width=32))
def test_all_float32(value: float) -> None:
    scalar = np.float32(value)
    assert_same(read(format_literal(scalar)), scalar)


@pytest.mark.parametrize(
    "value", [eval, exec, open, test_literals, np.load, Point, lambda: 0], ids=format_literal
)
def test_other_objects_are_only_named(value: Any) -> None:
    text = format_literal(value)
    found = read(text)
    assert isinstance(found, UnresolvedObject)
    assert found == read(text)
    assert format_literal(found) == text


@pytest.mark.parametrize(
    ("old", "new", "line", "column", "expected"),
    [
        ("np::mean", "np:mean", 3, 24, "a node's kind"),
        ("prim::If(%c)", "prim::If(%d)", 5, 30, "a value that is defined here (%d is not)"),
        ("-> (%5)", "-> %5", 8, 10, "'('"),
        ("value=1e-05", "value=&", 2, 37, "a value"),
        ("Float32[n, 1024]", "Floatt", 1, 12, "a type"),
        ("%x : Float32[n, 1024]", "x : int", 1, 7, "a value such as %x or ')'"),
        ("%3 :", "%x :", 3, 3, "a name that no other value has (%x exists)"),
        ("axis=%2", "axis=%2, %3", 7, 45, "a keyword argument after a keyword argument"),
        ("block1", "block2", 9, 5, "'block1'"),
        ("  return (%9)\n", "", 21, 1, "a node or 'return'"),
        ("with function f ", "with function g ", 18, 15, "a body 'with function f = graph(' for"),
        ("Array<>f4>", "Array<%>", 15, 39, "a dtype such as '<>f4>'"),
        ("count=2]", "count=2", 15, 84, "']'"),
    ],
)
def test_errors(old: str, new: str, line: int, column: int, expected: str) -> None:
    assert old in TEXT
    with pytest.raises(ParseError) as caught:
        parse_graph(TEXT.replace(old, new, 1))
    error = caught.value
    assert (error.line, error.column) == (line, column)
    assert error.expected.startswith(expected)
    assert str(error).startswith(f"line {line}, column {column}: expected {expected}")
    assert str(error).endswith("\n" + " " * (column - 1) + "^")


def test_an_unused_body_is_an_error() -> None:
    with pytest.raises(ParseError, match="function f is not used"):
        parse_graph("graph():\n  return ()\nwith function f = graph():\n  return ()")


def test_the_end_of_the_text_is_named() -> None:
    with pytest.raises(ParseError, match="found the end of the text"):
        parse_graph("graph(%x : int):")


def linear(count: int) -> Graph:
    graph = Graph()
    x = graph.block.add_param(ANY, "x")
    value = x
    for _ in range(count):
        value = graph.block.append("prim::add", [value, x]).output
    graph.block.add_return(value)
    return graph


def test_long_graphs() -> None:
    text = str(linear(10_000))
    start = time.perf_counter()
    graph = parse_graph(text)
    # Far above what it takes, far below what quadratic time would.
    assert time.perf_counter() - start < 10
    assert str(graph) == text
    verify(graph)


def test_new_names_differ_from_parsed_ones() -> None:
    graph = parse_graph("graph(%x : int, %x.3 : int, %0 : int):\n  return (%x)")
    for _ in range(4):
        graph.block.append("prim::neg", [graph.inputs[0]], names=("x",))
        graph.block.append("prim::neg", [graph.inputs[0]])
    verify(graph)
