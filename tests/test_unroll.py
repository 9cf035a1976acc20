"""Loops of few iterations over arrays: which are unrolled."""

from __future__ import annotations

import pytest
from pass_checking import apply, check_unchanged

from jitcore.ir.passes.unroll import MAX_UNROLLED, unroll_array_loops

LOOP = """
    graph(%x : Float32[n], %k : int, %c : bool):
      %0 : int = prim::Constant[value=COUNT]()
      %1 : bool = prim::Constant[value=True]()
      %2 : bool = prim::Constant[value=False]()
      %z : Float32[n] = prim::Loop(TRIPS, START, %x)
        block0(%i : int, %a : Float32[n]):
          %b : Float32[n] = BODY
          -> (GO_ON, %b)
      return (%z)
"""
PARTS = {
    "COUNT": "3",
    "TRIPS": "%0",
    "START": "%1",
    "GO_ON": "%1",
    "BODY": "np::multiply(%a, %a)",
}


def loop_text(**parts: str) -> str:
    text = LOOP
    for name, part in (PARTS | parts).items():
        text = text.replace(name, part)
    return text


def test_unroll() -> None:
    result, changed = apply(unroll_array_loops, loop_text())
    assert changed
    assert result.count("np::multiply") == 3
    assert "prim::Loop" not in result


@pytest.mark.parametrize(
    "parts",
    [
        {"COUNT": str(MAX_UNROLLED + 1)},
        {"COUNT": "0"},
        {"TRIPS": "%k"},
        {"START": "%c"},
        {"GO_ON": "%c"},
        {"GO_ON": "%2"},
        {"BODY": "np::cumsum[axis=0](%a)"},
        {"BODY": 'np::call[name="copy"](%a)'},
    ],
)
def test_unroll_must_not_fire(parts: dict[str, str]) -> None:
    check_unchanged(unroll_array_loops, loop_text(**parts))


def test_unroll_reads_numbers_of_arrays_from_outside() -> None:
    text = """
        graph(%x : Float32[n], %c : Float32[3]):
          %0 : int = prim::Constant[value=3]()
          %1 : bool = prim::Constant[value=True]()
          %z : Float32[n] = prim::Loop(%0, %1, %x)
            block0(%i : int, %a : Float32[n]):
              %b : Float32[] = np::view[index="$0"](BASE, %i)
              %d : Float32 = np::item(%b)
              %e : Float32[n] = np::multiply(%a, %d)
              -> (%1, %e)
          return (%z)
        """
    result, changed = apply(unroll_array_loops, text.replace("BASE", "%c"))
    assert changed and result.count("np::item") == 3 and "prim::Loop" not in result
    check_unchanged(unroll_array_loops, text.replace("BASE", "%a"))


def test_unroll_leaves_loops_of_numbers() -> None:
    check_unchanged(
        unroll_array_loops,
        """
        graph(%x : Float32):
          %0 : int = prim::Constant[value=3]()
          %1 : bool = prim::Constant[value=True]()
          %z : Float32 = prim::Loop(%0, %1, %x)
            block0(%i : int, %a : Float32):
              %b : Float32 = np::multiply(%a, %a)
              -> (%1, %b)
          return (%z)
        """,
    )


NUMBERS = """
    graph(%x : Float32[n], %k : int):
      %0 : int = prim::Constant[value=3]()
      %1 : bool = prim::Constant[value=True]()
      %2 : int = prim::Constant[value=2]()
      %z : Float32[n] = prim::Loop(%0, %1, %x)
        block0(%i : int, %a : Float32[n]):
          %b : int = prim::mul(%i, FACTOR)
          %c : Float32 = np::cast[dtype=dtype("float32")](%b)
          %d : Float32[n] = np::divide(%a, %c)
          -> (%1, %d)
      return (%z)
"""


def test_unroll_knows_the_numbers_of_each_iteration() -> None:
    result, changed = apply(unroll_array_loops, NUMBERS.replace("FACTOR", "%2"))
    assert changed and "prim::mul" not in result and "np::cast" not in result
    for number in (0, 2, 4):
        assert f"value=np.float32({number}.0)" in result


def test_unroll_computes_other_numbers_in_each_iteration() -> None:
    result, changed = apply(unroll_array_loops, NUMBERS.replace("FACTOR", "%k"))
    assert changed and result.count("prim::mul") == 3 and result.count("np::cast") == 3


def test_unroll_leaves_numbers_that_raise_or_round_twice() -> None:
    text = NUMBERS.replace("prim::mul(%i, FACTOR)", "prim::floordiv(%2, %i)")
    result, changed = apply(unroll_array_loops, text)
    assert changed and result.count("prim::floordiv") == 1
    text = NUMBERS.replace("value=2", f"value={2**60 + 1}").replace("FACTOR", "%2")
    result, changed = apply(unroll_array_loops, text)
    assert changed and result.count("prim::mul") == 3


UPDATES = """
    graph(%x : Float32[n], %y : Float32[n]):
      %0 : int = prim::Constant[value=3]()
      %1 : bool = prim::Constant[value=True]()
      prim::Loop(%0, %1)
        block0(%i : int):
          %b : Float32[n] = np::multiply(%x, %y)
          TARGET
          -> (%1)
      return ()
"""


def test_unroll_updates_of_whole_arrays() -> None:
    store = "%c : None = np::store[in_place=True](%x, %b)"
    result, changed = apply(unroll_array_loops, UPDATES.replace("TARGET", store))
    assert changed and result.count("np::store") == 3 and "prim::Loop" not in result


def test_unroll_leaves_updates_of_parts() -> None:
    view = '%c : Float32[n] = np::view[index=":"](%x)\n          %d : None = np::store(%c, %b)'
    check_unchanged(unroll_array_loops, UPDATES.replace("TARGET", view))
