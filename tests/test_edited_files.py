"""No other code runs in a function's place where its file was edited since it was imported."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import pytest

from jitcore import CompilationError, script
from jitcore.frontend import written

SOURCE = """
def make():
    add = lambda x, y: x + y
    take = lambda x, y: x - y
    return add, take


def twice(x):
    return helper(x) * 2


def helper(x):
    return x + 1
"""


def imported(path: Path) -> ModuleType:
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_files_written_by_the_program_itself(tmp_path: Path) -> None:
    module = imported(tmp_path / "made.py")
    add, take = module.make()
    assert (script(add)(5, 3), script(take)(5, 3), script(module.twice)(5)) == (8, 2, 12)


def test_what_is_appended_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "appended.py"
    module = imported(path)
    path.write_text(SOURCE + "\n\ndef more(x):\n    return x\n")
    assert script(module.make()[1])(5, 3) == 2
    assert script(module.twice)(5) == 12


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def make():", "\ndef make():"),
        ("    add = lambda x, y: x + y\n", ""),
        ("x - y", "x * y"),
        ("x - y", "y - x"),
    ],
)
def test_another_lambda_in_its_place(tmp_path: Path, old: str, new: str) -> None:
    path = tmp_path / "lambdas.py"
    _, take = imported(path).make()
    path.write_text(SOURCE.replace(old, new, 1))
    with pytest.raises(CompilationError, match="'make.<locals>.<lambda>' is no longer at"):
        script(take)(5, 3)


@pytest.mark.parametrize("new", ["x - 1", "x + 1.0", "x + True", "(x, 1)"])
def test_another_body(tmp_path: Path, new: str) -> None:
    path = tmp_path / "bodies.py"
    module = imported(path)
    path.write_text(SOURCE.replace("x + 1", new))
    with pytest.raises(CompilationError, match="'helper' is no longer at"):
        script(module.helper)(5)


def test_a_called_function_that_was_edited(tmp_path: Path) -> None:
    path = tmp_path / "called.py"
    module = imported(path)
    path.write_text(SOURCE.replace("x + 1", "x - 1"))
    with pytest.raises(
        CompilationError, match="'helper' is no longer at (.|\n)* called from 'twice'"
    ):
        script(module.twice)


def test_files_older_than_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "old.py"
    path.write_text(SOURCE)
    assert not written.is_older_than_process(str(path))
    assert written.is_older_than_process("<cell 1>")
    os.utime(path, (0, 0))
    assert not written.is_older_than_process(str(path))
    monkeypatch.setattr(written, "_STARTED", path.stat().st_ctime + 60)
    assert written.is_older_than_process(str(path))
