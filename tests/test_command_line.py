"""``python -m jitcore graph`` and ``ops``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from source_files import ROOT

from jitcore.__main__ import main
from jitcore.ir.ops import TABLE
from jitcore.ir.parser import parse_graph

PROGRAM = """
import numpy as np
from jitcore import script

def plain(x, y):
    return np.tanh(x) + y

@script
def compiled(x):
    return x * 2

class Layer:
    def apply(x):
        return np.exp(x)

number = 3
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "command_line_program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def search_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands put folders on the path and modules into the table of modules."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "command_line_program", raising=False)


@pytest.mark.parametrize("name", ["plain", "compiled", "Layer.apply"])
def test_graph_of_a_function_in_a_file(
    program: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["graph", f"{program}:{name}"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("graph(%x : Tensor")
    assert str(parse_graph(printed)).strip() == printed.strip()


def test_graph_of_a_function_in_a_module(
    program: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(program.parent)
    assert main(["graph", "command_line_program:plain"]) == 0
    assert "np::tanh" in capsys.readouterr().out


def test_graph_as_code(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", f"{program}:plain", "--code"]) == 0
    printed = capsys.readouterr().out
    assert "def plain(x, y" in printed
    compile(printed, "printed", "exec")


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("plain", "expected file.py:name or module:name; found 'plain'"),
        (":plain", "expected file.py:name or module:name; found ':plain'"),
        ("no_such_module_here:plain", "there is no module 'no_such_module_here'"),
        ("no_such_file.py:plain", "there is no file no_such_file.py"),
        ("PROGRAM:missing", "has no 'missing'"),
        ("PROGRAM:number", "'number' of"),
    ],
)
def test_graph_of_what_is_not_there(
    program: Path, where: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["graph", where.replace("PROGRAM", str(program))]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("jitcore: ")
    assert message in captured.err


def test_a_compilation_error_shows_the_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "command_line_program.py"
    path.write_text("def f(x):\n    class C: pass\n", encoding="utf-8")
    assert main(["graph", f"{path}:f"]) == 1
    assert "command_line_program.py:2" in capsys.readouterr().err


def test_ops_lists_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(TABLE)
    traits = {line.split()[0]: line.split()[1] for line in lines}
    assert traits["np::tanh"] == "elementwise"
    assert traits["np::transpose"] == "view"


@pytest.mark.parametrize("arguments", [[], ["unheard-of"]])
def test_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert "usage: python -m jitcore" in capsys.readouterr().err


def test_it_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "jitcore", "graph", "jitcore.demo:terrain"]
    ran = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert ran.stdout.startswith("graph(%z : Tensor")
