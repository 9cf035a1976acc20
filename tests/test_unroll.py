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
