"""The interpreter against Python and NumPy themselves."""

from __future__ import annotations

import math
import operator
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitcore.ir import reference
from jitcore.ir.graph import Capture, Graph
from jitcore.ir.interpreter import UNINITIALIZED, evaluate, numpy_function, run
from jitcore.ir.parser import parse_graph
from jitcore.ir.types import ANY


def run_text(text: str, *args: Any) -> Any:
    return run(parse_graph(textwrap.dedent(text).strip()), args)


def run_node(line: str, *args: Any) -> Any:
    """Run one node whose operands are ``%0``, ``%1`` … and whose output is ``%r``."""
    params = ", ".join(f"%{number} : Any" for number in range(len(args)))
    return run_text(f"graph({params}):\n  %r : Any = {line}\n  return (%r)", *args)


def same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if isinstance(expected, np.ndarray | np.generic):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected, strict=True)
    else:
        assert found == expected


BINARY = "add sub mul truediv floordiv mod pow matmul lshift rshift and_ or_ xor".split()
COMPARISONS = "eq ne lt le gt ge".split()


@pytest.mark.parametrize("name", [*BINARY, *COMPARISONS])
@pytest.mark.parametrize("right", [3, np.int32(3), np.arange(1, 4)], ids=["int", "int32", "array"])
def test_binary_operators(name: str, right: Any) -> None:
    left = np.arange(3, 6)
    function: Callable[..., Any] = getattr(operator, name)
    if name == "matmul" and np.ndim(right) == 0:
        pytest.skip("NumPy has no such product")
    same(run_node(f"prim::{name}(%0, %1)", left, right), function(left, right))


@pytest.mark.parametrize("name", [name for name in BINARY if name not in ("matmul", "truediv")])
def test_augmented_operators_write_in_place(name: str) -> None:
    kind = f"i{name.rstrip('_')}"
    found, expected = np.arange(3, 6), np.arange(3, 6)
    result = run_node(f"prim::{kind}(%0, %1)", found, 2)
    assert result is found
    same(found, getattr(operator, kind)(expected, 2))
    same(run_node(f"prim::{kind}(%0, %1)", 7, 2), getattr(operator, kind)(7, 2))


@pytest.mark.parametrize("name", ["neg", "pos", "invert"])
def test_unary_operators(name: str) -> None:
    x = np.arange(3)
    same(run_node(f"prim::{name}(%0)", x), getattr(operator, name)(x))


@pytest.mark.parametrize(
    ("line", "args", "expected"),
    [
        ("prim::not_(%0)", ([],), True),
        ("prim::is_(%0, %1)", (None, None), True),
        ("prim::isnot(%0, %1)", (None, None), False),
        ("prim::in_(%0, %1)", (1, (1, 2)), True),
        ("prim::notin(%0, %1)", (1, (1, 2)), False),
        ("prim::bool(%0)", ((),), False),
        ("prim::len(%0)", ((1, 2),), 2),
        ("prim::abs(%0)", (-2,), 2),
        ("prim::divmod(%0, %1)", (7, -2), (-4, -1)),
        ("prim::range(%0, %1)", (1, 4), range(1, 4)),
        ("prim::min(%0, %1)", (1, 2), 1),
        ("prim::round(%0, %1)", (1.25, 1), 1.2),
        ("prim::isinstance(%0, %1)", (1, int), True),
        ("math::hypot(%0, %1)", (3, 4), 5.0),
        ("prim::TupleConstruct(%0, %1)", (1, 2), (1, 2)),
        ("prim::ListConstruct(%0, %1)", (1, 2), [1, 2]),
        ("prim::SetConstruct(%0, %1)", (1, 1), {1}),
        ("prim::DictConstruct(%0, %1)", ("a", 1), {"a": 1}),
        ("prim::slice(%0, %1, %2)", (1, None, 2), slice(1, None, 2)),
        ("prim::getitem(%0, %1)", ("abc", slice(1, None)), "bc"),
        ('prim::GetAttr[name="real"](%0)', (1 + 2j,), 1.0),
        ('prim::CallMethod[name="replace"](%0, %1, %2)', ("abc", "b", "x"), "axc"),
        ("prim::Call(%0, %1, base=%2)", (int, "11", 2), 3),
        ("prim::Call[starred=(1,)](%0, %1, %2)", (max, (1, 5), 3), 5),
        ("prim::Call(%0, **=%1)", (dict, {"a": 1}), {"a": 1}),
        ("prim::FormatString(%0, %1)", ("x = ", "3"), "x = 3"),
        ("prim::size[dim=1](%0)", (np.zeros((2, 3)),), 3),
        ("np::item(%0)", (np.array(2.5),), np.float64(2.5)),
        ("np::add(%0, %1)", (np.float32(1), 2), np.float32(3)),
        ("np::sum(%0, axis=%1)", (np.ones((2, 3)), 0), np.full(3, 2.0)),
        ("np::sum[axis=(0, 1), keepdims=False](%0)", (np.ones((2, 3)),), np.float64(6)),
        ('np::call[name="linalg.det"](%0)', (np.eye(2),), np.float64(1)),
        ('np::call[name="full"](%0, %1)', (2, 7), np.full(2, 7)),
    ],
)
def test_single_nodes(line: str, args: tuple[Any, ...], expected: Any) -> None:
    same(run_node(line, *args), expected)


def test_typed_kinds() -> None:
    x = np.arange(12.0).reshape(3, 4)
    same(run_node('np::view[index="1:-1, $0"](%0, %1)', x, 2), x[1:-1, 2])
    same(run_node('np::view[index="::-1, None, $0:$1"](%0, %1, %2)', x, 1, 3), x[::-1, None, 1:3])
    same(run_node('np::cast[dtype=dtype("int8")](%0)', x), x.astype("int8"))
    same(run_node('np::cast[dtype=dtype("float32")](%0)', 3), np.float32(3))
    same(run_node("np::transpose[axes=(1, 0)](%0)", x), x.T)
    same(run_node("np::reshape(%0, %1, %2)", x, 2, 6), x.reshape(2, 6))
    same(run_node("np::broadcast_to(%0, %1, %2)", x[0], 2, 4), np.broadcast_to(x[0], (2, 4)))
    same(
        run_node(
            'np::gather[index="$0, :, $1"](%0, %1, %2)',
            x.reshape(3, 2, 2),
            np.array([0, 2]),
            np.array([1, 0]),
        ),
        x.reshape(3, 2, 2)[[0, 2], :, [1, 0]],
    )
    same(run_node("np::compress(%0, %1)", x, x > 3), x[x > 3])
    same(run_node("np::copy(%0)", x.T), x.T.copy())
    same(run_node("np::matmul(%0, %1)", x, x.T), x @ x.T)
    text = """
    graph(%k : int, %v : Float32):
      %a : Float32[k, 2] = np::full[dtype=dtype("float32")](%v, %k, %k)
      %b : Int64[k] = np::iota[dtype=dtype("int64")](%k, %k, %k)
      %c : Float32[m, 2] = np::concatenate[axis=0](%a, %a, %a)
      %i : Int64 = np::argmax[axis=(0,), keepdims=False](%b)
      %e : Float32[k] = np::empty[dtype=dtype("float32")](%k)
      return (%a, %b, %c, %i, %e)
    """
    a, b, c, i, e = run_text(text, 2, np.float32(1.5))
    same(a, np.full((2, 2), 1.5, np.float32))
    same(b, np.arange(2, 6, 2))
    same(c, np.concatenate([a, a, a]))
    same(i, np.int64(1))
    assert e.shape == (2,)
    assert e.dtype == np.float32


def test_writes() -> None:
    x, expected = np.arange(6), np.arange(6)
    text = """
    graph(%x : Any, %m : Any, %i : Any, %v : Any):
      %a : Any = np::view[index="::2"](%x)
      np::store(%a, %v)
      np::put_mask(%x, %m, %v)
      np::scatter[index="$0"](%x, %i, %v)
      return (%x)
    """
    mask, index = np.array([True] + [False] * 5), np.array([5])
    assert run_text(text, x, mask, index, 9) is x
    expected[::2] = 9
    expected[mask] = 9
    expected[index] = 9
    same(x, expected)


def test_views_share_memory() -> None:
    x = np.arange(4.0)
    view = run_node('np::view[index="2"](%0)', x)
    assert isinstance(view, np.ndarray)
    assert view.shape == ()
    x[2] = 7
    assert view[()] == 7


COLLATZ = """
graph(%n : Any):
  %m : int = prim::Constant[value=9223372036854775807]()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %three : int = prim::Constant[value=3]()
  %c : Any = prim::ne(%n, %one)
  %a : Any, %b : Any = prim::Loop(%m, %c, %n, %zero)
    block0(%i : int, %p : Any, %q : Any):
      %r : Any = prim::mod(%p, %two)
      %s : Any = prim::If(%r)
        block0():
          %t : Any = prim::mul(%p, %three)
          %u : Any = prim::add(%t, %one)
          -> (%u)
        block1():
          %v : Any = prim::floordiv(%p, %two)
          -> (%v)
      %w : Any = prim::add(%q, %one)
      %x : Any = prim::ne(%s, %one)
      -> (%x, %s, %w)
  return (%b)"""


@pytest.mark.parametrize("number", [1, 6, 27])
def test_loops_and_branches(number: int) -> None:
    def collatz(n: int) -> int:
        steps = 0
        while n != 1:
            n = 3 * n + 1 if n % 2 else n // 2
            steps += 1
        return steps

    assert run_text(COLLATZ, number) == collatz(number)


def test_for_iterates_over_anything_and_stops() -> None:
    text = """
    graph(%x : Any, %limit : Any):
      %zero : int = prim::Constant[value=0]()
      %a : Any = prim::For(%x, %zero)
        block0(%item : Any, %p : Any):
          %q : Any = prim::add(%p, %item)
          %go : Any = prim::lt(%q, %limit)
          -> (%go, %q)
      return (%a)
    """
    numbers = iter([1, 2, 3, 4])
    assert run_text(text, numbers, 3) == 3
    assert list(numbers) == [3, 4]
    assert run_text(text, {"a": 1}.values(), 3) == 1
    assert run_text(text, (), 3) == 0


def test_trip_count_limits_a_loop() -> None:
    text = """
    graph(%n : int, %t : bool):
      %a : int = prim::Loop(%n, %t, %n)
        block0(%i : int, %p : int):
          %q : int = prim::add(%p, %i)
          -> (%t, %q)
      return (%a)
    """
    assert run_text(text, 4, True) == 4 + 0 + 1 + 2 + 3
    assert run_text(text, 4, False) == 4


def unpack_two(x: Any) -> Any:
    a, b = x
    return a, b


def unpack_star(x: Any) -> Any:
    a, *b, c = x
    return a, b, c


@pytest.mark.parametrize(
    "x",
    [(1, 2), "ab", np.arange(2), [1], (1, 2, 3), (), 5, None, np.array(1), {1: 2}],
    ids=repr,
)
@pytest.mark.parametrize(
    ("function", "attributes"), [(unpack_two, {"count": 2}), (unpack_star, {"count": 3, "star": 1})]
)
def test_unpack_like_python(
    function: Callable[..., Any], attributes: dict[str, int], x: Any
) -> None:
    if hasattr(x, "__next__"):
        items = list(x)
        first, second = iter(items), iter(items)
    else:
        first = second = x
    try:
        expected = function(first)
    except (TypeError, ValueError) as error:
        with pytest.raises(type(error)) as caught:
            reference.unpack(second, **attributes)
        assert str(caught.value) == str(error)
    else:
        assert repr(reference.unpack(second, **attributes)) == repr(expected)


def test_variables_without_a_value() -> None:
    text = """
    graph(%c : Any):
      %v : Any = prim::Uninitialized[name="y"]()
      %y : Any = prim::CheckBound[name="y"](%v, %c)
      return (%y)
    """

    def python(c: bool) -> Any:
        if c:
            y = 1
        return y

    with pytest.raises(UnboundLocalError) as expected:
        python(False)
    with pytest.raises(UnboundLocalError) as caught:
        run_text(text, False)
    assert str(caught.value) == str(expected.value)
    assert run_text(text, True) is UNINITIALIZED


def test_raise() -> None:
    text = "graph(%e : Any, %c : Any):\n  prim::Raise(%e{})\n  return (%e)"
    error, cause = ValueError("wrong"), KeyError("why")
    with pytest.raises(ValueError, match="wrong") as caught:
        run_text(text.format(""), error, cause)
    assert caught.value is error
    with pytest.raises(ValueError, match="wrong") as caught:
        run_text(text.format(", %c"), error, cause)
    assert caught.value.__cause__ is cause


def test_functions_and_groups() -> None:
    text = """
    graph(%x : Any):
      %a : Any, %b : Any = prim::FusionGroup_0(%x, %x)
      %c : Any = prim::CallFunction[name="f"](%b)
      return (%a, %c)
    with prim::FusionGroup_0 = graph(%p : Any, %q : Any):
      %0 : Any = np::add(%p, %q)
      %1 : Any = np::sin(%0)
      return (%0, %1)
    with function f = graph(%p : Any):
      %0 : Any = np::cos(%p)
      return (%0)
    """
    x = np.linspace(0, 1, 5)
    a, c = run_text(text, x)
    same(a, x + x)
    same(c, np.cos(np.sin(x + x)))


def test_captures_are_read_when_they_are_not_given() -> None:
    graph = Graph()
    held = [1]
    captured = graph.block.add_param(ANY, "held")
    graph.captures.append(Capture("held", lambda: held[0], 1, captured))
    graph.block.add_return(captured)
    assert run(graph, []) == 1
    held[0] = 2
    assert run(graph, []) == 2
    assert run(graph, [5]) == 5


def test_the_number_of_arguments_is_checked() -> None:
    with pytest.raises(TypeError, match="graph takes 1 arguments, not 2"):
        run_text("graph(%x : Any):\n  return (%x)", 1, 2)


def test_unknown_kinds() -> None:
    with pytest.raises(NotImplementedError, match="does not know the kind other::thing"):
        run_node("other::thing(%0)", 1)


def test_numpy_functions_are_public() -> None:
    assert numpy_function("linalg.solve") is np.linalg.solve
    with pytest.raises(AttributeError, match="no public function"):
        numpy_function("_core.multiarray")


def test_evaluate_one_node() -> None:
    graph = parse_graph("graph(%x : Any):\n  %r : Any = math::sqrt(%x)\n  return (%r)")
    assert evaluate(graph.block.nodes[0], [2.0]) == math.sqrt(2.0)


def test_long_graphs() -> None:
    graph = Graph()
    one = graph.block.add_param(ANY, "one")
    value = one
    for _ in range(10_000):
        value = graph.block.append("prim::add", [value, one]).output
    graph.block.add_return(value)
    assert run(graph, [1]) == 10_001


def test_argument_positions_over_all_axes() -> None:
    x = np.array([[3, 1], [2, 9]])
    same(reference.argmax(x, axis=(0, 1), keepdims=False), np.argmax(x))
    same(reference.argmin(x, axis=(0, 1), keepdims=True), np.argmin(x, keepdims=True))
    same(reference.argmin(x, axis=(1,), keepdims=True), np.argmin(x, 1, keepdims=True))
    same(reference.argmin(x, 0), np.argmin(x, 0))


@pytest.mark.parametrize("text", ["1:2:3:4", "x", "$a", "1.5"])
def test_bad_index_texts(text: str) -> None:
    with pytest.raises(ValueError, match="the index"):
        reference.parse_index(text)


def test_a_single_value_is_unpacked() -> None:
    same(run_node("prim::Unpack[count=1](%0)", [3]), 3)
