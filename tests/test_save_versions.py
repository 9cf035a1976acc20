"""Archives of every version of the format load for ever: ``tests/saved`` has some of each.

Those of a new version are written by ``python tests/test_save_versions.py``, once.
"""
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from saved_subjects import SUBJECTS, Model
from saving import entries_of

import jitcore
from checking import observed
from jitcore import freeze
from jitcore.serialization.archive import FORMAT_VERSION
from jitcore.serialization.inspection import inspect_file

FOLDER = Path(__file__).parent / "saved"
VERSIONS = sorted(path.name for path in FOLDER.iterdir()) if FOLDER.exists() else []
CALLS: dict[str, list[tuple[Any, ...]]] = {
    "arithmetic": [(np.array([1.0, 2.0, 5.0, 1.0]),), (np.arange(3.0), 3.0)],
    "views": [(1.0,), (np.arange(3.0),)],
    "classes": [(2.0,), (1.5, "other")],
    "errors": [(np.array([0.5, 2.0]), "17"), (1.0, "x")],
}


def fixtures():
    """What is saved for a version, by name."""
    frozen = freeze(SUBJECTS["model"].eval())
    return {**SUBJECTS, "model": SUBJECTS["model"].train(), "frozen": frozen}


def test_this_version_has_its_archives():
    assert str(FORMAT_VERSION) in VERSIONS
    for version in VERSIONS:
        found = {path.stem for path in (FOLDER / version).glob("*.jit")}
        assert {*CALLS, "model", "frozen"} <= found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", CALLS)
def test_functions(version, name):
    loaded = jitcore.load(FOLDER / version / f"{name}.jit")
    plain = SUBJECTS[name].__wrapped__
    for args in CALLS[name]:
        assert observed(loaded, args) == observed(plain, args)
    assert "def " in loaded.code


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["model", "frozen"])
def test_modules(version, name):
    loaded = jitcore.load(FOLDER / version / f"{name}.jit")
    if name == "model":
        loaded.eval()
    model = Model().eval()
    weights = jitcore.load(FOLDER / version / "model.jit").state_dict()
    model.load_state_dict(weights)
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    np.testing.assert_allclose(loaded(x), model(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("version", VERSIONS)
def test_inspection(version):
    for path in (FOLDER / version).iterdir():
        assert f"format version {version}" in inspect_file(path)
        assert "program.json" in entries_of(path.read_bytes())


def test_archives_name_no_folders(tmp_path):
    here = str(Path(__file__).parent).encode()
    for name, one in fixtures().items():
        jitcore.save(one, tmp_path / name)
        for entry, data in entries_of((tmp_path / name).read_bytes()).items():
            assert here not in data, (name, entry)


if __name__ == "__main__":
    target = FOLDER / str(FORMAT_VERSION)
    target.mkdir(parents=True)
    for fixture, saved_object in fixtures().items():
        jitcore.save(saved_object, target / f"{fixture}.jit")
