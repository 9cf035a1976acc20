"""The wheel holds the whole package, and works from anywhere."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from source_files import FOLDERS, ROOT, package_files

import jitcore

NOT_SOURCE = shutil.ignore_patterns(
    ".git",
    ".venv*",
    ".*_cache",
    ".hypothesis",
    "__pycache__",
    "build",
    "dist",
    "*.egg-info",
    "tests",
)


def project() -> dict[str, Any]:
    """The contents of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_packages_are_the_folders_with_python_files() -> None:
    found = {
        module if path.name == "__init__.py" else module.rpartition(".")[0]
        for path, module in package_files()
    }
    assert sorted(found) == project()["tool"]["setuptools"]["packages"]


def test_folders_are_mapped() -> None:
    mapped = project()["tool"]["setuptools"]["package-dir"]
    assert mapped == {package: folder for folder, package in FOLDERS.items()}


def test_every_package_has_an_init() -> None:
    folders = {path.parent for path, _ in package_files()}
    missing = [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()]
    assert not missing


def test_links_lead_to_the_folders() -> None:
    for name in FOLDERS:
        if name != "jitcore":
            link = ROOT / "jitcore" / name
            assert link.is_symlink()
            assert link.readlink() == Path("..") / name


def test_every_module_imports() -> None:
    for module in pkgutil.walk_packages(jitcore.__path__, "jitcore."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def pinned(constraints: str) -> set[str]:
    """The distributions in a constraints file."""
    lines = (ROOT / constraints).read_text(encoding="utf-8").splitlines()
    return {line.partition("==")[0].lower() for line in lines if line and not line.startswith("#")}


def named(requirements: list[str]) -> set[str]:
    """The distributions that requirements name, except ourselves."""
    names = {re.split(r"\[|[=>]=", one)[0].lower() for one in requirements}
    return {name for name in names if not name.startswith("jitcore")}


def test_constraints_pin_what_the_project_names() -> None:
    table = project()["project"]
    for extra, requirements in table["optional-dependencies"].items():
        file = "bench/constraints.txt" if extra == "bench" else "constraints.txt"
        assert named([*table["dependencies"], *requirements]) <= pinned(file), extra


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this is no checkout")
def test_no_source_is_ignored_by_git() -> None:
    """A clone has all that is here."""
    paths = [str(path) for path, _ in package_files()]
    found = subprocess.run(
        ["git", "check-ignore", "--no-index", "--stdin"],
        cwd=ROOT,
        input="\n".join(paths),
        capture_output=True,
        text=True,
    )
    assert (found.returncode, found.stdout) == (1, ""), found.stderr


PROGRAM = """\
import numpy as np
import jitcore
from jitcore import script


@script
def f(x):
    y = np.exp(x - x.max())
    return y / y.sum(), np.sort(x)


x = np.arange(5.0)
for found, expected in zip(f(x), f.__wrapped__(x)):
    np.testing.assert_allclose(found, expected)
assert f.explain(x).result[0].shape == (5,)
print(jitcore.__file__, jitcore.ir.__file__, sep="\\n")
"""


@pytest.mark.slow
def test_wheel_from_a_clean_copy(tmp_path: Path) -> None:
    copy, target, empty = tmp_path / "copy", tmp_path / "site", tmp_path / "empty"
    empty.mkdir()
    shutil.copytree(ROOT, copy, symlinks=True, ignore=NOT_SOURCE)
    build = "from setuptools import build_meta; print(build_meta.build_wheel('.'))"
    built = subprocess.run(
        [sys.executable, "-c", build], cwd=copy, check=True, capture_output=True, text=True
    )
    with zipfile.ZipFile(copy / built.stdout.splitlines()[-1]) as wheel:
        held = {name for name in wheel.namelist() if ".dist-info/" not in name}
        wheel.extractall(target)
    expected = {str(Path(*_installed_as(path))) for path, _ in package_files()}
    assert held == expected | {"jitcore/py.typed"}
    (empty / "program.py").write_text(PROGRAM, encoding="utf-8")
    places = _run_installed(target, empty, "program.py").split()
    assert all(place.startswith(str(target)) for place in places)
    assert "prim::CallMethod" in _run_installed(
        target, empty, "-m", "jitcore", "graph", "program.py:f"
    )


def _run_installed(target: Path, folder: Path, *args: str) -> str:
    """What Python prints in a folder, with the wheel before all else that is installed."""
    environment = {**os.environ, "PYTHONPATH": str(target)}
    command = [sys.executable, "-P", *args]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def _installed_as(path: Path) -> tuple[str, ...]:
    parts = path.relative_to(ROOT).parts
    return parts if parts[0] == "jitcore" else ("jitcore", *parts)
