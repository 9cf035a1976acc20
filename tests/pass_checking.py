"""Passes of the IR, text in and text out."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any

from jitcore.ir.graph import Graph
from jitcore.ir.parser import parse_graph
from jitcore.ir.verifier import verify

__all__ = ["Pass", "apply", "check_pass", "check_unchanged", "examples"]

Pass = Callable[[Graph], bool]


def examples(documented: Any) -> tuple[str, str]:
    """The texts under ``Before`` and ``After`` in a docstring."""
    doc = inspect.getdoc(documented)
    assert doc is not None
    parts = re.split(r"^(?:Before|After)[^\n]*::\n\n", doc, flags=re.MULTILINE)[1:]
    before, after = (re.split(r"^(?=\S)", part, flags=re.MULTILINE)[0] for part in parts)
    return textwrap.dedent(before).strip(), textwrap.dedent(after).strip()


def apply(function: Pass, text: str) -> tuple[str, bool]:
    """What a pass makes of a graph, which is valid before and after, and what the pass says."""
    graph = parse_graph(textwrap.dedent(text).strip())
    verify(graph)
    changed = function(graph)
    verify(graph)
    return str(graph), changed


def check_pass(function: Pass, before: str, after: str) -> None:
    result, changed = apply(function, before)
    assert result == textwrap.dedent(after).strip()
    assert changed


def check_unchanged(function: Pass, text: str) -> None:
    result, changed = apply(function, text)
    assert result == textwrap.dedent(text).strip()
    assert not changed
