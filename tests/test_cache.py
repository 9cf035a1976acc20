"""The cache of object code on disk: always the right code, whatever the folder holds."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import get_args

import pytest
from source_files import ROOT

from jitcore.__main__ import main
from jitcore.codegen import engine
from jitcore.codegen.cache import ObjectCache, StoredObject, current, default_directory

UNARY = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
MODULE = StoredObject((b"\x7fELF\0code", b"more"), ("f", "table"), ("malloc",))
KEY = "ab" * 32


def add_constant(number: int) -> str:
    return f"define i64 @f(i64 %x) {{\n  %y = add i64 %x, {number}\n  ret i64 %y\n}}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of objects that this process uses during a test."""
    monkeypatch.setenv("JITCORE_CACHE", "1")
    monkeypatch.setenv("JITCORE_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("JITCORE_CACHE_SIZE", raising=False)
    return tmp_path / "objects"


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the modules that LLVM really compiles."""
    found: list[str] = []
    begin_code = engine._Compilation.begin_code

    def noted(compilation: engine._Compilation, is_foreseen: bool) -> None:
        found.append(compilation.name)
        begin_code(compilation, is_foreseen)

    monkeypatch.setattr(engine._Compilation, "begin_code", noted)
    return found


def added(number: int, name: str = "m") -> int:
    """What a module that adds a number gives for 1."""
    module = engine.compile_module(add_constant(number), name=name)
    return int(UNARY(module.address("f"))(1))


def test_files_keep_what_they_are_given() -> None:
    for module in (MODULE, StoredObject((), (), ())):
        assert StoredObject.from_bytes(module.to_bytes()) == module


def test_no_damage_goes_unseen(tmp_path: Path) -> None:
    files = ObjectCache(tmp_path / "objects", 2**20)
    files.store(KEY, MODULE)
    path = files.directory / f"{KEY}.object"
    contents = path.read_bytes()
    for length in range(len(contents)):
        path.write_bytes(contents[:length])
        assert files.load(KEY) is None
    for place in range(len(contents)):
        damaged = bytearray(contents)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        assert files.load(KEY) is None


@pytest.mark.parametrize("suffix", ["object", "plan"])
def test_what_belongs_under_another_name_is_not_read(tmp_path: Path, suffix: str) -> None:
    files, other = ObjectCache(tmp_path / "objects", 2**20), "cd" * 32
    files.store(KEY, MODULE)
    files.store_plan(KEY, MODULE.to_bytes())
    (files.directory / f"{KEY}.{suffix}").replace(files.directory / f"{other}.object")
    assert files.load(other) is None


def test_a_module_is_compiled_once(folder: Path, compilations: list[str]) -> None:
    assert [added(3, "first"), added(4, "second"), added(3, "third")] == [4, 5, 4]
    assert compilations == ["first", "second"]
    assert len(list(folder.iterdir())) == 2
    found = engine.compile_module(add_constant(3), name="shown")
    assert "add i64" in found.llvm
    assert found.assembly


def test_optimized_code_is_another(folder: Path, compilations: list[str]) -> None:
    for effort in get_args(engine.Effort):
        engine.compile_module(add_constant(3), name="m", effort=effort)
    assert len(compilations) == len(get_args(engine.Effort))


def test_libraries_are_compiled_when_code_needs_them(
    folder: Path, compilations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lower = "define i64 @jc_test_lower(i64 %x) {\n  %y = mul i64 %x, 5\n  ret i64 %y\n}\n"
    upper = calling("jc_test_lower", "jc_test_upper")
    texts = {"jc_test_lower": lower, "jc_test_upper": upper}
    written = []

    def text(symbol: str) -> str:
        written.append(symbol)
        return texts[symbol]

    for symbol in texts:
        engine.add_library(symbol, partial(text, symbol))
    assert added(1) == 2
    assert compilations == ["m"]
    module = engine.compile_module(calling("jc_test_upper", "f"), name="n")
    again = engine.compile_module(calling("jc_test_upper", "g"), name="o")
    assert [UNARY(module.address("f"))(2), UNARY(again.address("g"))(2)] == [12, 12]
    assert sorted(compilations) == ["jc_test_lower", "jc_test_upper", "m", "n", "o"]
    assert sorted(written) == sorted(texts)
    # Another process knows no makers, and finds them by their keys.
    libraries = list(module.libraries())
    assert [symbol for symbol, _ in libraries] == ["jc_test_lower", "jc_test_upper"]
    for table in ("_SYMBOLS", "_MAKERS", "_LIBRARIES"):
        monkeypatch.setattr(engine, table, dict[str, object]())
    for symbol, key in libraries:
        assert key is not None
        engine.load_library(symbol, key)
    assert module.key is not None
    loaded = engine.load_stored(module.key, name="n")
    assert loaded is not None and UNARY(loaded.address("f"))(3) == 17
    assert list(loaded.libraries()) == libraries
    assert engine.library("jc_test_upper").address("jc_test_upper")
    assert sorted(written) == sorted(texts)


def calling(callee: str, name: str) -> str:
    """A module with a function that gives one more than another one."""
    body = f"  %y = call i64 @{callee}(i64 %x)\n  %z = add i64 %y, 1\n  ret i64 %z\n"
    return f"declare i64 @{callee}(i64)\ndefine i64 @{name}(i64 %x) {{\n{body}}}\n"


def test_nothing_is_kept_without_a_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITCORE_CACHE", "0")
    assert added(3) == 4
    assert not folder.exists()


@pytest.mark.parametrize("what", ["cpu_identity", "TUNING", "_TARGET"])
def test_another_cpu_version_or_option_has_other_files(
    folder: Path, compilations: list[str], monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    assert added(3) == 4
    key = engine.Source(add_constant(3), "loops").key()
    if what == "cpu_identity":
        monkeypatch.setattr(engine, what, lambda: "22.1 another-cpu +avx")
    else:
        monkeypatch.setattr(engine, what, {"reloc": "static"} if what == "_TARGET" else ())
    assert engine.Source(add_constant(3), "loops").key() != key


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replace_by_another(path: Path) -> None:
    """A whole file, with a function of the same name, which does something else."""
    engine.compile_module(add_constant(7), name="other").load()
    (other,) = set(path.parent.iterdir()) - {path}
    other.replace(path)


def replace_by_link(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def store(path: Path, module: StoredObject) -> None:
    ObjectCache(path.parent, 2**20).store(path.stem, module)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-7]),
    "changed": lambda path: path.write_bytes(path.read_bytes()[:-1] + b"!"),
    "foreign": lambda path: path.write_bytes(b"#!/bin/sh\n" * 100),
    "not code": lambda path: store(path, StoredObject((b"junk",), ("f",), ())),
    "another module": lambda path: store(
        path, StoredObject((b"junk",), ("f",), ("no_such_function",))
    ),
    "another one's": replace_by_another,
    "a folder": replace_by_folder,
    "a link to itself": replace_by_link,
    "a pipe": replace_by_pipe,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_compiled_anew(
    folder: Path, compilations: list[str], damage: str
) -> None:
    assert added(3) == 4
    (path,) = folder.iterdir()
    good = path.read_bytes()
    DAMAGES[damage](path)
    assert added(3) == 4
    assert compilations.count("m") == 2
    if path.is_file():
        assert path.read_bytes() == good


def test_a_folder_that_cannot_be_made_or_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = folder.parent / "file"
    file.write_text("")
    monkeypatch.setenv("JITCORE_CACHE_DIR", str(file))
    assert added(3) == 4

    def refuse(*_: object) -> int:
        raise PermissionError

    monkeypatch.setenv("JITCORE_CACHE_DIR", str(folder.parent))
    monkeypatch.setattr(os, "open", refuse)
    assert added(3) == 4
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="modes of files are POSIX's")
@pytest.mark.parametrize("mode", [0o770, 0o777])
def test_a_folder_of_others_is_not_read(folder: Path, compilations: list[str], mode: int) -> None:
    assert added(3) == 4
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(mode)
    assert added(3) == 4
    assert len(compilations) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="modes of files are POSIX's")
def test_a_file_of_others_is_not_read(folder: Path, compilations: list[str]) -> None:
    assert added(3) == 4
    next(folder.iterdir()).chmod(0o666)
    assert added(3) == 4
    assert len(compilations) == 2


def test_the_oldest_go_where_there_are_too_many(tmp_path: Path) -> None:
    empty = ObjectCache(tmp_path / "one", 2**20)
    empty.store(KEY, MODULE)
    size = empty.size()
    files = ObjectCache(tmp_path / "objects", 10 * size)
    keys = [f"{number:02}" * 32 for number in range(11)]
    for age, key in enumerate(keys[:10]):
        files.store(key, MODULE)
        moment = time.time() - 7200 + age
        os.utime(files.directory / f"{key}.object", (moment, moment))
    assert files.load(keys[0]) == MODULE
    files.store(keys[10], MODULE)
    assert files.size() <= 10 * size
    left = [key for key in keys if files.load(key) is not None]
    assert left == [keys[0], *keys[-len(left) + 1 :]]
    assert len(left) >= 5


def test_what_killed_writers_leave_is_cleared(tmp_path: Path) -> None:
    files = ObjectCache(tmp_path / "objects", 1000)
    files.store(KEY, MODULE)
    (files.directory / f"{KEY}.1234.part").write_bytes(b"half")
    assert files.load(KEY) == MODULE
    assert files.clear() == 1
    assert list(files.directory.iterdir()) == []


def test_what_was_left_long_ago_goes_with_the_first_file_that_is_stored(tmp_path: Path) -> None:
    files = ObjectCache(tmp_path / "objects", 2**20)
    files.store(KEY, MODULE)
    old, new = (files.directory / f"{KEY}.{name}.part" for name in ("1234", "5678"))
    for path, age in ((old, 4000), (new, 10)):
        path.write_bytes(b"half")
        os.utime(path, (time.time() - age,) * 2)
    ObjectCache(files.directory, 2**20).store(KEY, MODULE)
    assert not old.exists()
    assert new.exists()


def test_files_are_read_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = ObjectCache(tmp_path / "objects", 2**20)
    files.store(KEY, MODULE)
    os.utime(files.directory / f"{KEY}.object", (0, 0))

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "utime", refuse)
    assert files.load(KEY) == MODULE


def test_threads_store_and_load_at_once(tmp_path: Path) -> None:
    files = ObjectCache(tmp_path / "objects", 2**20)
    modules = [StoredObject((bytes([n]) * 5000,), (f"f{n}",), ()) for n in range(4)]

    def work(number: int) -> bool:
        module = modules[number % 4]
        files.store(f"{number % 4:064}", module)
        return files.load(f"{number % 4:064}") == module

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(200)))
    assert len(list(files.directory.iterdir())) == 4


PROGRAM = """
import tempfile
from pathlib import Path
import numpy as np
from jitcore import script
SOURCE = '''
import numpy as np

def f(x, y, n):
    total = 0.0
    for i in range(n):
        total += np.sum(np.exp(-x * y + i))
    z = np.where(x > y, x, y) @ y
    x[1:] += z[:-1]
    return z, total, x.max(axis=0), np.cumsum(y, axis=1)
'''
path = Path(tempfile.mkdtemp()) / "program.py"
path.write_text(SOURCE)
names = {}
exec(compile(SOURCE, str(path), "exec"), names)
x = np.arange(16.0).reshape(4, 4)
print(repr(script(names["f"])(x, x + 1, 3)))
"""


def run_program(folder: Path, seed: int) -> str:
    environment = {
        **os.environ,
        "JITCORE_CACHE": "1",
        "JITCORE_CACHE_DIR": str(folder),
        "PYTHONHASHSEED": str(seed),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        check=True,
        cwd=ROOT,
        env=environment,
        text=True,
    )
    return done.stdout


def test_another_process_finds_what_one_has_compiled(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        outputs = set(pool.map(lambda seed: run_program(tmp_path, seed), (1, 2)))
    files = sorted((tmp_path / "objects").iterdir())
    outputs.add(run_program(tmp_path, 3))
    assert len(outputs) == 1
    assert files
    assert sorted((tmp_path / "objects").iterdir()) == files


def test_the_default_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JITCORE_CACHE_DIR", raising=False)
    monkeypatch.setenv("JITCORE_CACHE", "1")
    assert default_directory().name in ("jitcore", "Cache")
    if sys.platform not in ("darwin", "win32"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert default_directory() == tmp_path / "jitcore"
        monkeypatch.setenv("XDG_CACHE_HOME", "relative")
        assert default_directory().is_absolute()


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5"])
def test_a_wrong_limit_is_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("JITCORE_CACHE_SIZE", text)
    with pytest.raises(ValueError, match="JITCORE_CACHE_SIZE is a positive number of megabytes"):
        current()


def test_command_line(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert added(3) == 4
    assert main(["cache"]) == 0
    printed = capsys.readouterr().out
    assert str(folder) in printed
    assert "modules  1" in printed
    assert "at most 512 MB" in printed
    assert main(["cache", "clear"]) == 0
    assert "removed 1 modules" in capsys.readouterr().out
    assert list(folder.iterdir()) == []
    monkeypatch.setenv("JITCORE_CACHE", "0")
    assert main(["cache"]) == 0
    assert "there is no cache" in capsys.readouterr().out
