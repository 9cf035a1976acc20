"""The repository's own Python files, for tests that read the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

__all__ = ["FOLDERS", "ROOT", "benchmark_files", "package_files", "parse"]

ROOT = Path(__file__).resolve().parent.parent

FOLDERS = {
    "jitcore": "jitcore",
    "ir": "jitcore.ir",
    "codegen": "jitcore.codegen",
    "fusers": "jitcore.fusers",
}
"""The folders that hold the package, and what each is imported as."""


def package_files() -> Iterator[tuple[Path, str]]:
    """Every Python file of the package, once, with the module it is."""
    for folder, package in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            relative = path.relative_to(ROOT / folder)
            links = [ROOT / folder / part for part in relative.parts[:1]]
            if "__pycache__" in relative.parts or any(link.is_symlink() for link in links):
                continue
            parts = [package, *relative.with_suffix("").parts]
            yield path, ".".join(part for part in parts if part != "__init__")


def benchmark_files() -> Iterator[tuple[Path, str]]:
    """Every Python file of the benchmark, which is not part of the package."""
    for path in sorted((ROOT / "bench").glob("*.py")):
        yield path, f"bench.{path.stem}"


@cache
def parse(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))
