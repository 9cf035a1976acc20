"""What a first call imports: files for lists, objects and the like come with the first of these."""

from __future__ import annotations

import subprocess
import sys

import pytest

RARE = {
    "caught_errors",
    "characters",
    "drawing",
    "foreign_calls",
    "known_dicts",
    "known_lists",
    "list_states",
    "local_lists",
    "mixed_numbers",
    "raised_errors",
    "records",
    "shared_states",
}

PROGRAM = """
import linecache, sys
import numpy as np
import jitcore
source = {source!r}
linecache.cache["p.py"] = (len(source), None, source.splitlines(True), "p.py")
names = {{"np": np}}
exec(compile(source, "p.py", "exec"), names)
x = np.linspace(0.5, 2.5, 60)
assert np.array_equal(jitcore.script(names["f"])(x), names["f"](x))
own = [name for name in sys.modules if name.startswith("jitcore.ir.specialize.")]
print(*sorted({{name.rpartition(".")[2] for name in own}} & {rare!r}))
"""

SOURCES = {
    "loop": "def f(x):\n    s = 0.0\n    for v in x:\n        s += v * 2\n    return s\n",
    "arrays": "def f(x):\n    y = x[1:] - x[:-1]\n    return y / y.sum()\n",
}


def imported(source: str) -> set[str]:
    program = PROGRAM.format(source=source, rare=RARE)
    ran = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60
    )
    return set(ran.stdout.split())


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans on disk would spare the process all of it."""
    monkeypatch.setenv("JITCORE_CACHE", "0")


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_programs_of_numbers_and_arrays_import_none_of_it(name: str) -> None:
    assert imported(SOURCES[name]) == set()


def test_lists_import_their_files_only() -> None:
    source = (
        "def f(x):\n    y = []\n    for v in x:\n        y.append(v * 2)\n    return np.array(y)\n"
    )
    found = imported(source)
    assert {"list_states", "local_lists"} <= found
    assert found.isdisjoint({"characters", "drawing", "foreign_calls"})
