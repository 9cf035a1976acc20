"""``try`` and ``with`` in graphs: kinds, cells, text, and what stays native around them."""
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import re

import numpy as np
import pytest
from graph_checking import compiled_graph

import jitcore
from jitcore.ir.interpreter import run
from jitcore.ir.parser import parse_graph
from jitcore.ir.passes.dce import dead_code_elimination
from jitcore.ir.verifier import VerificationError, verify
from jitcore.pipeline import NativePlan


def safe_inverse(x):
    y = 0.0
    try:
        y = 5.0
        y = 1 / x
    except ZeroDivisionError:
        y = y + 1
    return y


def quiet(x):
    with np.errstate(divide="ignore"):
        y = 1 / x
    return y * 2


def loud(x, how):
    with np.errstate(divide=how):
        y = 1 / x
    return y * 2


def test_interpreter_runs_them() -> None:
    graph = compiled_graph(safe_inverse)
    assert run(graph, [2.0]) == 0.5
    assert run(graph, [0]) == 6.0
    x = np.array([0.0, 2.0])
    np.testing.assert_array_equal(run(compiled_graph(quiet), [x]), quiet(x))


def test_text_can_be_read_back() -> None:
    # Objects of Python are no text.
    text = re.sub(r"value=<[^>]*>", "value=None", str(compiled_graph(safe_inverse)))
    assert "prim::Try" in text
    again = parse_graph(text)
    verify(again)
    assert str(again) == text


def test_dead_code_in_try_goes_and_what_may_raise_stays() -> None:
    graph = compiled_graph(safe_inverse)
    dead_code_elimination(graph)
    verify(graph)
    assert graph.find_all_nodes("prim::Try")
    assert run(graph, [0]) == 6.0


@pytest.mark.parametrize(
    "text",
    [
        "graph(%x : int):\n  prim::Try(%x)\n    block0():\n      -> ()\n    block1(%e : Any):\n"
        "      -> ()\n  return (%x)\n",
        "graph(%x : int):\n  prim::Try()\n    block0():\n      -> ()\n  return (%x)\n",
        "graph(%x : int):\n  prim::With()\n    block0():\n      -> ()\n  return (%x)\n",
    ],
)
def test_verifier_refuses_wrong_forms(text: str) -> None:
    with pytest.raises(VerificationError):
        verify(parse_graph(text))


def test_silenced_warnings_cost_nothing() -> None:
    scripted = jitcore.script(quiet)
    x = np.array([0.0, 2.0])
    np.testing.assert_array_equal(scripted(x), quiet(x))
    (found,) = scripted.specializations
    assert isinstance(found.plan, NativePlan)


def test_errors_that_are_asked_for_are_raised() -> None:
    scripted = jitcore.script(loud)
    with pytest.raises(FloatingPointError):
        scripted(np.array([0.0, 2.0]), "raise")
    np.testing.assert_array_equal(scripted(np.array([1.0, 2.0]), "raise"), [2.0, 1.0])
    np.testing.assert_array_equal(scripted(np.array([0.0, 2.0]), "ignore"), [np.inf, 1.0])
