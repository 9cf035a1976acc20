"""Who may import whom, where imports stand, and how long files are."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from source_files import ROOT, benchmark_files, package_files, parse

MAY_IMPORT = {
    "jitcore.ir": {"jitcore.ir"},
    "jitcore.fusers": {"jitcore.fusers", "jitcore.ir"},
    "jitcore.codegen": {"jitcore.codegen", "jitcore.ir"},
    "jitcore": {"jitcore", "jitcore.ir", "jitcore.codegen", "jitcore.fusers"},
    # The benchmark uses what a user has: the public names.
    "bench": {"bench", "jitcore"},
}

# Imports inside functions, each with the reason it has to stand there.
ALLOWED_INSIDE_FUNCTIONS: dict[tuple[str, str], str] = {
    ("jitcore.ir.graph", "jitcore.ir.printer"): "str(graph) prints it, and printing reads graphs",
    ("jitcore.ir.graph", "jitcore.ir.html"): "a graph in a notebook draws itself, likewise",
    ("jitcore.codegen.printers.numba_cpu", "numba"): "importing Numba takes 0.2 s; few need it",
}

MAX_LINES = 600

SOURCES = [*package_files(), *benchmark_files()]
FILES = [pytest.param(path, module, id=module) for path, module in SOURCES]


def layer(module: str) -> str:
    """The folder a module of ours belongs to."""
    for package in ("jitcore.ir", "jitcore.fusers", "jitcore.codegen", "bench"):
        if module == package or module.startswith(f"{package}."):
            return package
    return "jitcore"


def imports(tree: ast.AST) -> Iterator[tuple[str, int, int]]:
    """Every import: the module's name, the level of a relative import, and the line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, 0, node.lineno
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "", node.level, node.lineno


@pytest.mark.parametrize(("path", "module"), FILES)
def test_imports_point_one_way(path: Path, module: str) -> None:
    allowed = MAY_IMPORT[layer(module)]
    for name, level, line in imports(parse(path)):
        assert level == 0, f"{path}:{line}: a relative import"
        ours = name.partition(".")[0] in ("jitcore", "bench")
        assert not ours or layer(name) in allowed, f"{path}:{line}: {module} imports {name}"


@pytest.mark.parametrize(("path", "module"), FILES)
def test_imports_stand_at_the_top(path: Path, module: str) -> None:
    for function in ast.walk(parse(path)):
        if not isinstance(function, ast.FunctionDef):
            continue
        for name, _, line in imports(function):
            reason = ALLOWED_INSIDE_FUNCTIONS.get((module, name))
            assert reason, f"{path}:{line}: {name} is imported inside {function.name}()"


@pytest.mark.parametrize("path", [pytest.param(p, id=str(p.relative_to(ROOT))) for p, _ in SOURCES])
def test_files_are_short(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines <= MAX_LINES, f"{path} has {lines} lines; split it by subject"
