"""The README's examples run, and its table of environment variables is complete."""

from __future__ import annotations

import ast
import re
from typing import Any

import pytest
from source_files import ROOT, package_files, parse

from checking import register_source

README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
VARIABLE = re.compile(r"JITCORE_[A-Z0-9_]+")


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_example_runs(number: int) -> None:
    source = EXAMPLES[number]
    namespace: dict[str, Any] = {"__name__": "readme"}
    exec(compile(source, register_source(source), "exec"), namespace)


def test_there_are_examples() -> None:
    assert EXAMPLES


def test_table_of_environment_variables_is_complete() -> None:
    listed = re.findall(r"^\| `(JITCORE_\w+)` \|", README, re.MULTILINE)
    read: set[str] = set()
    for path, _ in package_files():
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                read.update([node.value] if VARIABLE.fullmatch(node.value) else [])
    assert set(listed) == read
    assert len(listed) == len(set(listed))
