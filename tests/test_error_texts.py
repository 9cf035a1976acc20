"""What an exception says after a write, where NumPy itself can no longer be asked to raise it."""

# The functions under test are plain NumPy, as users write them.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checking import check
from jitcore import fusion_strategy, script


def in_place(mark, x, y):
    mark[0] = 1
    x += y


def in_place_of_part(mark, x, y):
    mark[0] = 1
    x[1:] *= y


def in_place_with_cast(mark, x, y):
    mark[0] = 1
    x -= y.astype(np.float32) + 1


def in_place_in_loop(mark, x, y):
    for _ in range(2):
        mark += 1
        x += y


def written_over(mark, x, y):
    mark[0] = 1
    x[1:] = x[1:] + y


def assigned(mark, x, y):
    mark[0] = 1
    x[...] = y


def out_of_place(mark, x, y):
    mark[0] = 1
    return x + y


def inside_of_in_place(mark, x, y):
    mark[0] = 1
    x += x * y


def output_argument(mark, x, y):
    mark[0] = 1
    np.maximum(x, y, out=x)


def in_a_region(mark, x, y):
    x += y
    return mark.flat[0]


def merged_in_a_region(mark, x, y):
    z = x * 2
    if mark[0] == 0:
        z = np.concatenate([x, x])
    z *= np.sqrt(y)
    return mark.flat[0]


def reshaped(mark, x, y):
    mark[0] = 1
    return x.reshape(5, 2) + y


def joined(mark, x, y):
    mark[0] = 1
    return np.concatenate([x, y])


def chosen(mark, x, y):
    mark[0] = 1
    return np.where(x > 0, x, y)


FUNCTIONS = [
    in_place,
    in_place_of_part,
    in_place_with_cast,
    in_place_in_loop,
    written_over,
    assigned,
    out_of_place,
    inside_of_in_place,
    output_argument,
    in_a_region,
    merged_in_a_region,
    reshaped,
    joined,
    chosen,
]
SHAPES = [
    ((2,), (3,)),
    ((2,), (3, 2)),
    ((2, 3), (2,)),
    ((2, 3), (4, 3)),
    ((2, 3), (4, 1, 3)),
    ((1, 3), (2, 3)),
    ((3, 2), (1, 2)),
]


def outcome(function: Callable[..., Any], shapes: Any) -> tuple[type | None, str, list[float]]:
    mark, x, y = np.zeros(2), np.ones(shapes[0]), np.full(shapes[1], 2.0)
    try:
        function(mark, x, y)
    except ValueError as error:
        return type(error), str(error), [*mark, *x.ravel()]
    return None, "", [*mark, *x.ravel()]


@pytest.mark.parametrize("kind", ["STATIC", "DYNAMIC"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_texts_are_those_of_numpy(function: Callable[..., Any], kind: Any) -> None:
    expected = [outcome(function, shapes) for shapes in SHAPES]
    assert any(text for _, text, _ in expected)
    compiled = script(function)
    with fusion_strategy([(kind, 10)]):
        assert [outcome(compiled, shapes) for shapes in SHAPES] == expected


def test_the_error_comes_from_compiled_code() -> None:
    compiled = script(in_place)
    with fusion_strategy([("DYNAMIC", 1)]):
        compiled(np.zeros(2), np.ones(4), np.ones(4))
        assert outcome(compiled, ((2,), (3,))) == outcome(in_place, ((2,), (3,)))
    assert [one.kind for one in compiled.specializations] == ["DYNAMIC"]


def updated(x, y, mask):
    x -= y
    return {"x": x}


def updated_by_mask(x, y, mask):
    x[mask] += y * 2
    return {"x": x}


def updated_by_places(x, y, mask):
    x[np.arange(2, 4)] *= y
    return {"x": x, "root": np.sqrt(x)}


def updated_in_native_code(x, y, mask):
    x[mask] -= np.where(y > 0, y, 1)
    return x


def updated_by_much(x, y, mask):
    x[mask] -= np.sin(
        (2 - (y + 1 - y * 2).astype(np.float16)[::-1][::-1].copy()).astype(np.float16)
    )
    return {"x": x}


@pytest.mark.parametrize("y_dtype", [np.float64, np.float32, np.int8])
@pytest.mark.parametrize("x_dtype", [np.float64, np.float32, np.int64, np.int8])
@pytest.mark.parametrize(
    "function",
    [updated, updated_by_mask, updated_by_places, updated_by_much, updated_in_native_code],
)
def test_updates_that_do_not_fit(function: Callable[..., Any], x_dtype: Any, y_dtype: Any) -> None:
    """NumPy names the target, too, and says first which dtypes do not go together."""
    compiled = script(function)
    mask = np.array([True, False, True, True, False])
    for extent in (5, 3, 1, 4, 2, 0):
        y = np.arange(1, extent + 1).astype(y_dtype)
        check(function, np.arange(5).astype(x_dtype), y, mask, script=lambda _: compiled)


def test_what_an_operation_had_computed_before_it_was_left_to_python_is_gone() -> None:
    def program(x, y):
        x += y
        return x

    graph = script(program).graph_for(np.arange(3), np.ones(3))
    assert [node.kind for node in graph.nodes()] == ["prim::iadd"]


def reshaped_after_a_write(mark, x, n):
    mark[0] = 1
    return x.reshape(n, -1), x.reshape(-1, 3), x.reshape(2, -1, 3)


def text_of_a_reshape(mark, x, n):
    try:
        return x.reshape(3, -1)
    except ValueError as error:
        return str(error)


def windowed(mark, x, n):
    return np.lib.stride_tricks.sliding_window_view(x, 1).max(axis=-1)


@pytest.mark.parametrize("function", [reshaped_after_a_write, text_of_a_reshape, windowed])
def test_texts_of_extents_that_do_not_fit(function: Callable[..., Any]) -> None:
    with fusion_strategy([("DYNAMIC", 10)]):
        compiled = script(function)
        for size in (18, 7, 1, 0):
            for n in (3, 1, 0, -1, -2):
                check(function, np.zeros(1), np.arange(float(size)), n, script=lambda _: compiled)


def product_after_a_write(x, n):
    x[0] = 1
    total = 1
    for _ in range(n):
        total *= 7
        x[1] += 1
    return total


def test_ints_that_are_too_large_after_a_write():
    """Python has ints of any size, but cannot begin anew: an error, and never another number."""
    compiled = script(product_after_a_write)
    for n in (0, 5, 22):
        check(product_after_a_write, np.zeros(2), n, script=lambda _: compiled)
    x = np.zeros(2)
    with pytest.raises(OverflowError, match=r"64 bits.*compute the int before the first write"):
        compiled(x, 40)
    assert list(x) == [1, 22]
