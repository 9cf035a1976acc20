"""Lists that change after somebody has read them: no reader may believe the display."""
# The programs are what people write.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitcore
from checking import observed
from jitcore.ir.graph import Graph, Value
from jitcore.ir.parser import parse_graph
from jitcore.ir.specialize.lists.changing_lists import is_changing

READS = (
    "np.array(values).sum()",
    "np.asarray([values, values])",
    "np.full(3, 0).reshape(values[:1] + [3 // values[0]]) if values[0] else 0",
    "[v * 2 for v in values]",
    "total(values)",
    "list(zip(values, values))",
    "len(values) + sum(values)",
    "max(values), i in values",
)
WRITES = (
    "values.append(i)",
    "values.insert(0, i + 1)",
    "values[-1] += 1",
    "other.extend((i, 1))",
    "held['values'].append(i)",
    "grow(values, i)",
    "values[:1] = [3]",
)
PROGRAM = """
import numpy as np


def total(values):
    number = 0
    for value in values:
        number = number * 3 + value
    return number


def grow(values, i):
    values.append(i)


def program(n):
    values = [1, n]
    other = values
    held = {{"values": values}}
    found = []
    for i in range(n):
        found.append({read})
        {write}
        found.append(str(i))
    return found, values
"""


@pytest.mark.parametrize("write", WRITES)
def test_readers_see_what_is_written_later_in_a_loop(tmp_path: Path, write: str) -> None:
    for number, read in enumerate(READS):
        path = tmp_path / f"program{number}.py"
        path.write_text(PROGRAM.format(read=read, write=write))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        scripted = jitcore.script(module.program)
        for n in (0, 1, 4):
            assert observed(scripted, (n,)) == observed(module.program, (n,)), read


def reversed_axes(x):
    axes = [0, 1]
    axes.reverse()
    return np.transpose(x, axes)


def inner_list(n):
    rows = [[1, 2], [3, n]]
    rows[0].append(5)
    rows[1].append(n)
    return np.array(rows)


def visited(n):
    parts = []
    for row in [[1, n], [2, 3]]:
        row.append(n)
        parts.append(np.array(row).sum())
    return parts


@pytest.mark.parametrize(
    ("function", "argument"),
    [(reversed_axes, np.ones((2, 3))), (inner_list, 4), (visited, 4)],
)
def test_lists_that_change_before_they_are_read(function: Any, argument: Any) -> None:
    assert observed(jitcore.script(function), (argument,)) == observed(function, (argument,))


def test_what_counts_as_a_change() -> None:
    assert not is_changing(_display("%y : Any = np::array(%x)\n  %z : Any = prim::len(%x)"))
    nested = "%y : Any = prim::ListConstruct(%x)\n  %z : Any = prim::ListConstruct(%y, %y)\n  "
    assert not is_changing(_display(f"{nested}%w : Any = np::array(%z)"))
    assert is_changing(_display(f"{nested}%w : Any = prim::Call(%a, %z)"))
    assert is_changing(_display("%y : Any = np::array(%x)\n  %z : Any = prim::Call(%a, %x)"))
    assert not is_changing(_display("%y : Any = prim::iadd(%x, %a)"))


def _display(readers: str) -> Value:
    graph: Graph = parse_graph(
        f"graph(%a : int):\n  %x : List[int] = prim::ListConstruct(%a)\n  {readers}\n  return (%a)"
    )
    return graph.block.nodes[0].output
