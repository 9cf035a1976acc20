"""What graphs capture of globals, closures and modules: constants, inputs, missing names."""

from __future__ import annotations

import enum
import types
from typing import Any, NamedTuple

import numpy as np
import pytest
from frontend_checking import build, build_text, define, paths
from numpy.testing import assert_array_equal

from jitcore.ir.classes import MISSING
from jitcore.ir.interpreter import run
from jitcore.ir.types import ANY, FLOAT, INT, OBJECT, STR, TENSOR, TupleType, scalar_type


class Color(enum.Enum):
    RED = 1


class Point(NamedTuple):
    x: float
    y: float


def test_captured_constants() -> None:
    module = types.ModuleType("settings")
    vars(module).update(scale=2.5, inner=types.ModuleType("settings.inner"))
    vars(module)["inner"].depth = 3
    graph = build_text(
        """
def f(x):
    return (settings.scale, settings.inner.depth, settings.scale, np.pi, Color.RED, title, pair,
            point, half, kind, None, ...)
""",
        settings=module,
        np=np,
        Color=Color,
        title="n",
        pair=(1, (2.0, "three")),
        point=Point(1.0, 2.0),
        half=np.float32(0.5),
        kind=np.dtype("f4"),
    )
    modules = "settings settings.scale settings.inner settings.inner.depth np"
    expected = f"{modules} Color Color.RED title pair point half kind"
    assert paths(graph) == expected.split()
    assert all(capture.input is None for capture in graph.captures)
    assert [value.name for value in graph.inputs] == ["x"]
    constants = graph.find_all_nodes("prim::Constant")
    types_ = {str(node.attributes["value"]): node.output.type for node in constants}
    assert types_["2.5"] == FLOAT
    assert types_["Color.RED"] == OBJECT
    assert types_["0.5"] == scalar_type(np.float32)
    assert types_["(1, (2.0, 'three'))"] == TupleType((INT, TupleType((FLOAT, STR))))
    # What is read again is what is there now.
    vars(module)["scale"] = 4.0
    scale = graph.captures[1]
    assert scale.read() == 4.0
    del vars(module)["scale"]
    with pytest.raises(AttributeError):
        scale.read()


def test_captured_objects_are_inputs() -> None:
    weights, table, settings = np.ones(3), {"k": 2}, types.SimpleNamespace(scale=3)
    holder = types.ModuleType("holder")
    vars(holder)["bias"] = np.zeros(3)
    graph = build_text(
        "def f(x):\n    return x * weights * table['k'] * weights + holder.bias + settings.scale\n",
        weights=weights,
        table=table,
        settings=settings,
        holder=holder,
    )
    assert [(v.name, v.type) for v in graph.inputs] == [
        ("x", TENSOR),
        ("weights", TENSOR),
        ("table", ANY),
        ("bias", TENSOR),
        ("settings", ANY),
    ]
    assert paths(graph) == ["weights", "table", "holder", "holder.bias", "settings"]
    assert [c.input for c in graph.captures if c.path != "holder"] == graph.inputs[1:]
    assert_array_equal(run(graph, [np.ones(3)]), np.full(3, 5.0))


def test_closures() -> None:
    scale = 2.0
    weights = np.arange(3.0)

    def function(x: Any) -> Any:
        return x * scale + weights

    graph = build(function)
    assert paths(graph) == ["scale", "weights"]
    assert_array_equal(run(graph, [weights]), function(weights))
    scale = 5.0
    assert graph.captures[0].read() == 5.0


def test_equal_names_of_different_modules_are_kept_apart() -> None:
    other = define("def g(x):\n    return x + k + w\n", "g", k=10, w=np.ones(1))
    graph = build_text("def f(x):\n    return g(x) * k * w\n", g=other, k=3, w=np.full(1, 2.0))
    assert [(c.path, c.input is None) for c in graph.captures if c.path in "kw"] == [
        ("k", True),
        ("w", False),
        ("k", True),
        ("w", False),
    ]
    assert_array_equal(run(graph, [1]), (1 + 10 + 1) * 3 * np.full(1, 2.0))


def test_missing_name_raises_when_it_is_reached() -> None:
    function = define("def f(x):\n    return x if x > 0 else absent\n")
    graph = build(function)
    assert run(graph, [1]) == 1
    with pytest.raises(NameError, match="^name 'absent' is not defined$") as error:
        run(graph, [-1])
    assert error.value.name == "absent"
    (capture,) = graph.captures
    assert capture.value is MISSING and capture.read() is MISSING
    function.__globals__["absent"] = 3
    assert capture.read() == 3


def test_empty_cell_raises_when_it_is_reached() -> None:
    def function(x: Any) -> Any:
        return x + later

    graph = build(function)
    with pytest.raises(NameError, match="^cannot access free variable 'later' where"):
        run(graph, [1])
    later = 3
    assert run(build(function), [1]) == 4


def test_missing_attribute_raises_when_it_is_reached() -> None:
    graph = build_text("def f(x):\n    return np.no_such_name(x)\n", np=np)
    with pytest.raises(AttributeError, match="no_such_name"):
        run(graph, [1])


def test_odd_objects_do_no_harm() -> None:
    class Unhashable:
        __hash__ = None  # type: ignore[assignment]

        def __getattr__(self, name: str) -> Any:
            raise OSError(name)

        def __call__(self, x: Any) -> Any:
            return x + 1

        def __eq__(self, other: object) -> Any:
            return np.ones(2)

    odd = Unhashable()
    text = "def f(x: odd[int]):\n    return odd(x), odd(i for i in x), values[0](x for x in x)\n"
    build_text(text, odd=odd, values=[len])
    graph = build_text("def f(x: odd[int]):\n    return odd(x)\n", odd=odd)
    assert run(graph, [1]) == 2
