# mypy: allow-untyped-defs, allow-untyped-calls
"""Plans on disk: another process runs what one has compiled, and only where it is the same."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import textwrap
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from source_files import ROOT

from checking import function_from_source, outcome_of
from jitcore import script, set_numerics
from jitcore.codegen.cache import current
from jitcore.execution import stored_plans
from jitcore.execution.executor import StoredSpecialization
from jitcore.execution.plans import NativePlan
from jitcore.ir.fingerprint import NoFingerprint, exact_text

HELPER = "def helper(x):\n    return x * 2.0\n"
PROGRAMS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "elementwise": ("return np.exp(-x * y) + x", (np.arange(4.0), np.ones(4))),
    "views and writes": ("x[1:] += y[:-1]\n    return x[::2]", (np.arange(5.0), np.ones(5))),
    "reductions": ("return x.sum(axis=0), (x @ y.T).max()", (np.ones((3, 4)), np.eye(3, 4))),
    "an axis": ("return np.cumsum(x, axis=y)", (np.ones((3, 4)), 1)),
    "extents": (
        "z = np.zeros(9)\n    for i in range(3):\n        z[1:y] += x[: y - 1] + i\n    return z",
        (np.arange(9.0), 7),
    ),
    "a tuple": ("return x[0] + x[1][0], y is None", ((np.ones(3), (2.5,)), None)),
    "constants": ("return x.astype(np.float32), 'text', None, y", (np.arange(3), 2)),
    "scalars": ("return x // y, x % y, x**2", (np.float32(7.5), np.float32(2))),
    "a loop": ("while x < y:\n        x = x * 2 + 1\n    return x", (3, 1000)),
    "a helper": ("return helper(x) + y", (np.arange(3.0), 1.0)),
    "an error": ("return x[y]", (np.arange(3.0), 5)),
    "an error after a write": ("x[0] = 1.5\n    return x[y]", (np.zeros(3), 5)),
    "complex": ("return (x * y).real, abs(x)", (np.ones(3) * 1j, np.ones(3) + 2j)),
    "mixed dtypes": ("return x + y, x > y", (np.arange(3, dtype="int16"), np.float32(1.5))),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own; the package's sources may change while the test runs."""
    monkeypatch.setenv("JITCORE_CACHE", "1")
    monkeypatch.setenv("JITCORE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(stored_plans, "_installed", lambda: "installed")
    monkeypatch.setattr(stored_plans, "_imported_sources", dict)
    monkeypatch.setattr(stored_plans, "_FOUND_STATES", {})
    return tmp_path / "objects"


def plain(body: str, **names: Any) -> Callable[..., Any]:
    return function_from_source(f"{HELPER}\n\ndef f(x, y):\n    {body}\n", **names)


def copied(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(one.copy() if getattr(one, "base", 1) is None else one for one in arguments)


def is_stored(function: Any) -> bool:
    return [type(one) for one in function.specializations] == [StoredSpecialization]


def compiled(function: Callable[..., Any], *arguments: Any) -> Any:
    scripted = script(function)
    outcome_of(scripted, copied(arguments))
    return scripted


def same(first: Any, second: Any) -> bool:
    if isinstance(first, tuple):
        return type(first) is type(second) and all(map(same, first, second))
    if isinstance(first, np.ndarray | np.generic):
        kept = type(first) is type(second) and first.dtype == second.dtype
        return kept and bool(np.array_equal(first, second))
    return type(first) is type(second) and bool(first == second)


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_effects_and_errors(name: str) -> None:
    body, arguments = PROGRAMS[name]
    function = plain(body)
    first = compiled(function, *arguments)
    assert not is_stored(first)
    again = script(plain(body))
    for _ in range(2):
        given, expected_given = copied(arguments), copied(arguments)
        expected, found = outcome_of(function, expected_given), outcome_of(again, given)
        assert type(expected.error) is type(found.error)
        assert str(expected.error) == str(found.error)
        assert same(expected.value, found.value)
        assert same(expected_given, given)
    assert is_stored(again) == isinstance(first.specializations[0].plan, NativePlan)


def test_what_is_shown_is_what_was_compiled() -> None:
    body, arguments = PROGRAMS["an axis"]
    first, second = compiled(plain(body), *arguments), compiled(plain(body), *arguments)
    assert is_stored(second)
    for show in (
        lambda f: str(f.specializations[0].typed),
        lambda f: str(f.graph_for(*arguments)),
        lambda f: f.kernels[0].source,
        lambda f: f.kernels[0].llvm,
        lambda f: f.kernels[0].assembly,
        lambda f: f.specializations[0].plan.signature,
        lambda f: [line for line in str(f.explain(*arguments)).splitlines() if "  " in line][:9],
    ):
        shown = [re.sub(r"<program \d+>", "", str(show(one))) for one in (first, second)]
        assert shown[0] == shown[1]
    assert is_stored(second)


def test_errors_name_the_line_of_this_process() -> None:
    body, arguments = PROGRAMS["an error after a write"]
    compiled(plain(body), *arguments)
    function = plain(body)
    again = script(function)
    with pytest.raises(IndexError) as caught:
        again(*copied(arguments))
    assert is_stored(again)
    places = traceback.extract_tb(caught.value.__traceback__)
    assert places[-1].filename == function.__code__.co_filename
    assert places[-1].lineno == 7


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ("return np.exp(-x * y) - x", {}),
        ("return np.exp(-x * y) + x * k", {"k": 2.0}),
        ("return np.exp(-x * y) + x * k", {"k": 3.0}),
        ("return np.exp(-x * y) + x * k", {"k": 3}),
        ("return np.exp(-x * y) + x * k", {"k": np.float32(3)}),
        ("return np.exp(-x * y) + x * k", {"k": np.arange(4.0)}),
        ("return np.exp(-x * y) + k(x)", {"k": lambda x: x * 2}),
    ],
)
def test_another_program_has_another_plan(change: str, names: dict[str, Any]) -> None:
    arguments = PROGRAMS["elementwise"][1]
    compiled(plain("return np.exp(-x * y) + x"), *arguments)
    for value in (1.0, 2, np.float32(3), np.arange(4.0) + 1):
        compiled(plain("return np.exp(-x * y) + x * k", k=value), *arguments)
    function = plain(change, **names)
    scripted = script(function)
    np.testing.assert_allclose(scripted(*arguments), function(*arguments))


def test_a_helper_that_changes() -> None:
    def program(factor: float) -> Callable[..., Any]:
        source = f"def helper(x):\n    return x * {factor}\n\ndef f(x):\n    return helper(x)\n"
        return function_from_source(source)

    for factor in (2.0, 3.0, 2.0):
        assert compiled(program(factor), np.ones(3))(np.ones(3)).tolist() == [factor] * 3


@pytest.mark.parametrize(
    "other",
    [
        np.ones(4, np.float32),
        np.ones(5),
        np.ones((2, 2)),
        np.ones(8)[::2],
        np.float64(1),
        1.0,
        np.arange(4),
        np.arange(4, dtype="q"),
    ],
)
def test_other_arguments_have_another_plan(other: Any) -> None:
    function = plain("return x * 2 + y")
    compiled(function, np.ones(4), 1)
    again = compiled(function, other, 1)
    assert not is_stored(again)
    assert same(again(other, 1), function(other, 1))
    assert is_stored(compiled(function, other, 1))


def test_dtypes_of_one_size_are_told_apart() -> None:
    assert exact_text(np.dtype("q")) != exact_text(np.dtype("l"))
    assert exact_text(np.longlong(1)) != exact_text(np.int64(1))


def test_settings_are_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    function, arguments = plain("return x * y + x"), (np.ones(4), np.ones(4))
    compiled(function, *arguments)
    before = set_numerics("contract")
    try:
        assert not is_stored(compiled(function, *arguments))
    finally:
        set_numerics(before)
    monkeypatch.setenv("JITCORE_SOMETHING", "1")
    assert not is_stored(compiled(function, *arguments))
    monkeypatch.delenv("JITCORE_SOMETHING")
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Nehalem")
    assert not is_stored(compiled(function, *arguments))
    monkeypatch.delenv("OPENBLAS_CORETYPE")
    monkeypatch.setattr(stored_plans, "_installed", lambda: "another version")
    assert not is_stored(compiled(function, *arguments))
    monkeypatch.setattr(stored_plans, "_installed", lambda: "installed")
    assert is_stored(compiled(function, *arguments))
    monkeypatch.setenv("JITCORE_LOG", "fusion")
    assert not is_stored(compiled(function, *arguments))
    monkeypatch.setenv("JITCORE_LOG", "")
    monkeypatch.setenv("JITCORE_CACHE", "0")
    assert not is_stored(compiled(function, *arguments))


def test_another_place_of_the_package_has_other_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    here = stored_plans._installed()
    monkeypatch.setattr(stored_plans, "_FOLDER", f"elsewhere{os.sep}")
    assert stored_plans._installed.__wrapped__() != here


def test_a_source_of_the_package_that_changes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    function, arguments = plain("return x * y + x"), (np.ones(4), np.ones(4))
    monkeypatch.setattr(stored_plans, "_imported_sources", lambda: None)
    compiled(function, *arguments)
    assert not is_stored(compiled(function, *arguments))
    path = tmp_path / "imported.py"
    path.write_text("x = 1")
    monkeypatch.setattr(stored_plans, "_FOLDER", f"{tmp_path}{os.sep}")
    monkeypatch.setattr(stored_plans, "_IMPORTED", time.time_ns())
    state = stored_plans._state(str(path))
    assert state == (path.stat().st_mtime_ns, 5)
    monkeypatch.setattr(stored_plans, "_imported_sources", lambda: {path.name: state})
    compiled(function, *arguments)
    assert is_stored(compiled(function, *arguments))
    path.write_text("x = 12")
    # This process goes on with what it has found.
    assert is_stored(compiled(function, *arguments))
    # Another process has imported what is there now, which this one may have imported as it was.
    monkeypatch.setattr(stored_plans, "_FOUND_STATES", {})
    assert not is_stored(compiled(function, *arguments))
    monkeypatch.setattr(stored_plans, "_IMPORTED", time.time_ns())
    assert not is_stored(compiled(function, *arguments))
    monkeypatch.setattr(stored_plans, "_FOUND_STATES", {})
    path.unlink()
    assert not is_stored(compiled(function, *arguments))


def test_sources_are_asked_for_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    paths = [tmp_path / f"imported_{number}.py" for number in range(3)]
    for path in paths:
        path.write_text("x = 1")
    monkeypatch.setattr(stored_plans, "_FOLDER", f"{tmp_path}{os.sep}")
    monkeypatch.setattr(stored_plans, "_IMPORTED", time.time_ns())
    states = {path.name: stored_plans._state(str(path)) for path in paths}
    programs = [plain(f"return x * y + {number}") for number in range(3)]
    for number, function in enumerate(programs):
        sources = dict([*states.items()][: 3 - number])
        monkeypatch.setattr(stored_plans, "_imported_sources", lambda known=sources: known)
        compiled(function, np.ones(4), np.ones(4))
    asked, state = list[str](), stored_plans._state

    def ask(path: str) -> tuple[int, int] | None:
        asked.append(path)
        return state(path)

    monkeypatch.setattr(stored_plans, "_state", ask)
    # The second plan has fewer sources than the first, and the last one more than the second.
    for function in (programs[1], programs[2], programs[0]):
        assert is_stored(compiled(function, np.ones(4), np.ones(4)))
    assert asked == [str(path) for path in paths]


def test_sources_that_are_imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(stored_plans, "_IMPORTED", time.time_ns())
    found = stored_plans._imported_sources()
    assert found is not None
    assert {"__init__.py", str(Path("ir", "graph.py"))} <= set(found)
    assert all(
        (Path(stored_plans._FOLDER) / name).stat().st_size == found[name][1] for name in found
    )
    path = tmp_path / "later.py"
    path.write_text("x = 1")
    # Its contents are as old as it says, but they are not there for so long.
    os.utime(path, (1.0, 1.0))
    later = ModuleType("jitcore.imported_later")
    later.__file__ = str(path)
    monkeypatch.setitem(sys.modules, later.__name__, later)
    monkeypatch.setattr(stored_plans, "_IMPORTED", path.stat().st_ctime_ns - 1)
    assert stored_plans._imported_sources() is None
    monkeypatch.setattr(stored_plans, "_IMPORTED", time.time_ns())
    found = stored_plans._imported_sources()
    assert found is not None and found[str(path)] == (10**9, 5)


def test_other_threads_may_import_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    interval, done = sys.getswitchinterval(), threading.Event()

    def import_others() -> None:
        for number in itertools.count():
            if done.is_set():
                break
            sys.modules[f"other_{number}"] = sys
            sys.modules.pop(f"other_{number - 100}", None)
        for name in [name for name in sys.modules if name.startswith("other_")]:
            del sys.modules[name]

    thread = threading.Thread(target=import_others)
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        for _ in range(300):
            stored_plans._imported_sources()
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(interval)


def test_objects_of_the_program_have_no_plan(folder: Path) -> None:
    class Thing:
        factor = 2.0

    compiled(plain("return x * y.factor"), np.ones(3), Thing())
    assert not list(folder.glob("*.plan"))
    objects: list[object] = [Thing, Thing(), plain, np.zeros(3), {}, lambda: 1, sys]
    for value in objects:
        with pytest.raises(NoFingerprint):
            exact_text(value)
    values = (1, True, 1.0, "1", None, (1,), [1], np.float32(1), np.dtype("f4"), np.exp, len, ...)
    assert len(set(map(exact_text, values))) == len(values)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-7]),
    "changed": lambda path: path.write_bytes(path.read_bytes()[:-1] + b"!"),
    "foreign": lambda path: path.write_bytes(b"#!/bin/sh\n" * 100),
    "no plan": lambda path: _cache().store_plan(path.stem, b"no pickle"),
    "another object": lambda path: _cache().store_plan(path.stem, b"N."),
    "without its module": lambda path: _cache().clear(),
    "written by others": lambda path: path.chmod(0o666),
}


def _cache() -> Any:
    return current()


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_made_anew(folder: Path, damage: str) -> None:
    function, arguments = plain("return x * y + x"), (np.ones(4), np.ones(4))
    compiled(function, *arguments)
    (path,) = folder.glob("*.plan")
    contents = path.read_bytes()
    DAMAGES[damage](path)
    if not path.exists():
        path.write_bytes(contents)
    again = compiled(function, *arguments)
    assert not is_stored(again)
    assert again(*arguments).tolist() == [2.0] * 4
    assert is_stored(compiled(function, *arguments))


PROCESS = """
import sys
import numpy as np
from jitcore import script
import subject
print(script(subject.f)(np.arange(4.0)).tolist())
compiler = ("jitcore.execution.compilation", "jitcore.codegen.lower", "jitcore.codegen.onednn")
print(any(name.startswith(compiler) for name in sys.modules))
"""


MAKERS = """
import importlib
import pkgutil
from jitcore.execution import stored_plans
from jitcore.codegen import engine
for name in stored_plans._MAKERS:
    importlib.import_module(name)
known = set(engine._MAKERS)
for folder in ("kernels", "lowering", "runtime"):
    package = importlib.import_module(f"jitcore.codegen.{folder}")
    for one in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        importlib.import_module(one.name)
print(sorted(set(engine._MAKERS) - known), len(known) > 100)
"""


def test_all_makers_of_functions_are_known() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", MAKERS]
    done = subprocess.run(command, capture_output=True, check=True, env=environment, text=True)
    assert done.stdout == "[] True\n"


def test_another_process_does_without_the_compiler(tmp_path: Path) -> None:
    def printed(line: str) -> str:
        path = tmp_path / "subject.py"
        path.write_text(f"import numpy as np\n\ndef f(x):\n    return {line}\n")
        environment = {**os.environ, "JITCORE_CACHE_DIR": str(tmp_path / "cache")}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(tmp_path)])
        # Two texts of one second and one size have the same file of bytecode.
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        command = [sys.executable, "-c", textwrap.dedent(PROCESS)]
        done = subprocess.run(command, capture_output=True, check=True, env=environment, text=True)
        return done.stdout

    for line, result in (
        ("x * 2", "[0.0, 2.0, 4.0, 6.0]"),
        ("x * 3", "[0.0, 3.0, 6.0, 9.0]"),
        ("np.outer(x, np.ones(300)) @ np.ones(300)", "[0.0, 300.0, 600.0, 900.0]"),
        ("x + 0 * np.cos(np.arange(1000.0)).max()", "[0.0, 1.0, 2.0, 3.0]"),
        ("x + np.ones((40, 9))[np.arange(40.0) > 7].sum(axis=1)[:4]", "[9.0, 10.0, 11.0, 12.0]"),
    ):
        assert printed(line) == f"{result}\nTrue\n"
        assert printed(line) == f"{result}\nFalse\n"
