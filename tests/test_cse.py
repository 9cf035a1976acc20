"""Common subexpressions: what is computed once, and what is not the same."""

from __future__ import annotations

import numpy as np
import pytest
from pass_checking import check_pass, check_unchanged

from jitcore.ir.passes.cse import common_subexpression_elimination, constant_key


def test_cse_across_blocks() -> None:
    check_pass(
        common_subexpression_elimination,
        """
        graph(%x : Float32[n], %c : bool):
          %0 : Float32 = np::sum[axis=(0,), keepdims=False](%x)
          %a : Float32 = prim::If(%c)
            block0():
              %1 : Float32 = np::sum[axis=(0,), keepdims=False](%x)
              -> (%1)
            block1():
              %2 : Float32 = np::prod[axis=(0,), keepdims=False](%x)
              -> (%2)
          %3 : Float32 = np::prod[axis=(0,), keepdims=False](%x)
          %4 : Float32 = np::add(%a, %3)
          %5 : Float32 = np::add(%4, %0)
          return (%5)
        """,
        """
        graph(%x : Float32[n], %c : bool):
          %0 : Float32 = np::sum[axis=(0,), keepdims=False](%x)
          %a : Float32 = prim::If(%c)
            block0():
              -> (%0)
            block1():
              %2 : Float32 = np::prod[axis=(0,), keepdims=False](%x)
              -> (%2)
          %3 : Float32 = np::prod[axis=(0,), keepdims=False](%x)
          %4 : Float32 = np::add(%a, %3)
          %5 : Float32 = np::add(%4, %0)
          return (%5)
        """,
    )


def test_cse_of_views_in_spite_of_writes() -> None:
    check_pass(
        common_subexpression_elimination,
        """
        graph(%x : Float32[n], %y : Float32[s]):
          %a : Float32[s] = np::view[index="1:"](%x)
          np::store(%a, %y)
          %b : Float32[s] = np::view[index="1:"](%x)
          %c : Float32[s] = np::sin(%b)
          return (%c)
        """,
        """
        graph(%x : Float32[n], %y : Float32[s]):
          %a : Float32[s] = np::view[index="1:"](%x)
          np::store(%a, %y)
          %c : Float32[s] = np::sin(%a)
          return (%c)
        """,
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [("1", "1.0"), ("1", "True"), ("0.0", "-0.0"), ("0", "False"), ('"1"', "1"), ("(1,)", "[1]")],
)
def test_cse_keeps_constants_that_differ(first: str, second: str) -> None:
    check_unchanged(
        common_subexpression_elimination,
        f"""
        graph():
          %0 : float = prim::Constant[value={first}]()
          %1 : float = prim::Constant[value={second}]()
          %2 : Tuple[float, float] = prim::TupleConstruct(%0, %1)
          return (%2)
        """,
    )


@pytest.mark.parametrize("value", ["nan", "-0.0", "1", '"a"', "None", "np.float32(nan)"])
def test_cse_of_equal_constants(value: str) -> None:
    check_pass(
        common_subexpression_elimination,
        f"""
        graph():
          %0 : float = prim::Constant[value={value}]()
          %1 : float = prim::Constant[value={value}]()
          %2 : Tuple[float, float] = prim::TupleConstruct(%0, %1)
          return (%2)
        """,
        f"""
        graph():
          %0 : float = prim::Constant[value={value}]()
          %2 : Tuple[float, float] = prim::TupleConstruct(%0, %0)
          return (%2)
        """,
    )


@pytest.mark.parametrize(
    "text",
    [
        # Uninitialized memory, random numbers, calls.
        """
        graph(%n : int):
          %0 : Float32[m] = np::empty[dtype=dtype("float32")](%n)
          %1 : Float32[m] = np::empty[dtype=dtype("float32")](%n)
          %2 : Float32[m] = np::add(%0, %1)
          return (%2)
        """,
        """
        graph(%n : int):
          %0 : Any = np::call[name="random.rand"](%n)
          %1 : Any = np::call[name="random.rand"](%n)
          %2 : Any = prim::add(%0, %1)
          return (%2)
        """,
        # Two results must be two arrays.
        """
        graph(%x : Float32[n]):
          %0 : Float32[n] = np::sin(%x)
          %1 : Float32[n] = np::sin(%x)
          %2 : Tuple[Float32[n], Float32[n]] = prim::TupleConstruct(%0, %1)
          return (%2)
        """,
        # One of them is written.
        """
        graph(%x : Float32[n]):
          %0 : Float32[n] = np::sin(%x)
          %1 : Float32[n] = np::sin(%x)
          np::store(%0, %x)
          %2 : Float32[n] = np::add(%0, %1)
          return (%2)
        """,
        # A loop writes what it read before.
        """
        graph(%x : Float32[n], %y : Float32[n], %k : int, %t : bool):
          %0 : Float32 = np::sum[axis=(0,), keepdims=False](%x)
          %a : Float32 = prim::Loop(%k, %t, %0)
            block0(%i : int, %b : Float32):
              %1 : Float32 = np::sum[axis=(0,), keepdims=False](%x)
              np::store(%x, %y)
              -> (%t, %1)
          return (%a)
        """,
        # Identity is looked at.
        """
        graph(%x : Float32[n]):
          %0 : Float32[n] = np::view[index=":"](%x)
          %1 : Float32[n] = np::view[index=":"](%x)
          %2 : bool = prim::is_(%0, %1)
          return (%2)
        """,
        # Two iterators.
        """
        graph(%x : List[int]):
          %0 : Any = prim::zip(%x, %x)
          %1 : Any = prim::zip(%x, %x)
          %2 : Any = prim::tuple(%0)
          %3 : Any = prim::tuple(%1)
          %4 : Any = prim::TupleConstruct(%2, %3)
          return (%4)
        """,
    ],
)
def test_cse_must_not_fire(text: str) -> None:
    check_unchanged(common_subexpression_elimination, text)


def test_constant_key() -> None:
    nan = float("nan")
    assert constant_key(nan) == constant_key(nan) != constant_key(float("nan"))
    assert constant_key(np.float64(nan)) == constant_key(np.float64(nan))
    assert constant_key(np.float32(1)) != constant_key(np.float64(1))
    assert constant_key(np.array([0.0])) != constant_key(np.array([-0.0]))
    assert constant_key((1, 2)) != constant_key((1, 2.0))
    assert constant_key(np.dtype("f4")) != constant_key(np.dtype(">f4"))
