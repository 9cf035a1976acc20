"""Saving and loading functions."""
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import io
import math
import os
import re
from typing import Any

import numpy as np
import pytest
from saving import entries_of, rebuilt, reloaded, run_in, saved

import jitcore
from jitcore import SerializationError, ignore, script, unused

WEIGHTS = np.array([1.0, -2.0, 0.5])
TABLE = {"half": 0.5, "double": 2.0}
LIMIT = 3


def helper(x):
    return np.sqrt(np.abs(x)) + np.linalg.norm(x)


@script
def scaled(x: Any, k: Any = 2.0, *, bias: int = 1) -> Any:
    """Scale it."""
    total = 0
    for i in range(LIMIT):
        if total > 2:
            break
        total += i
    return (x - x.mean()) * k * WEIGHTS + helper(x) + total + bias


@script
def element(x, i):
    return x[i] * 2


@script
def bounded(x, low, high):
    if low > high:
        raise ValueError(f"{low} is above {high}")
    return np.clip(x, low, high)


@script
def by_name(x, name):
    return x * TABLE[name]


def test_loaded_function_is_like_the_saved_one():
    loaded = reloaded(scaled)
    assert isinstance(loaded, jitcore.ScriptFunction)
    x = np.arange(3.0)
    for args, keywords in (((x,), {}), ((x, 3.0), {"bias": 4}), ((x[::-1], 2), {})):
        expected = scaled.__wrapped__(*args, **keywords)
        np.testing.assert_allclose(loaded(*args, **keywords), expected, rtol=1e-15)
    assert loaded.code == scaled.code
    assert str(loaded.graph) == str(scaled.graph)
    assert loaded.schema == scaled.schema
    assert (loaded.__name__, loaded.__doc__) == ("scaled", "Scale it.")
    assert str(loaded.graph_for(x)) == str(scaled.graph_for(x))
    assert len(loaded.kernels) == len(loaded.specializations) == 2


def test_what_native_code_gives_up_on_runs_as_in_python():
    loaded = reloaded(element)
    x = np.arange(4.0)
    assert loaded(x, -1) == 6.0
    with pytest.raises(IndexError, match=re.escape("index 4 is out of bounds for axis 0")):
        loaded(x, 4)
    loaded = reloaded(bounded)
    with pytest.raises(ValueError, match="3 is above 2"):
        loaded(x, 3, 2)
    assert reloaded(script(lambda n: n * n))(2**40) == 2**80
    with pytest.raises(TypeError, match=re.escape("element() missing 1 required positional")):
        reloaded(element)(x)


def test_plain_form_of_a_loaded_function():
    loaded = reloaded(scaled)
    x = np.arange(3.0)
    np.testing.assert_array_equal(loaded.__wrapped__(x, bias=2), scaled.__wrapped__(x, bias=2))


def test_captured_objects_are_the_archives_own():
    loaded = reloaded(by_name)
    TABLE["half"] = 0.25
    try:
        assert by_name(4.0, "half") == 1.0
        assert loaded(4.0, "half") == 2.0
    finally:
        TABLE["half"] = 0.5


def test_loaded_function_in_a_new_one():
    loaded = reloaded(scaled)

    @script
    def both(x):
        return loaded(x) + loaded(x * 2, bias=3)

    x = np.arange(3.0)
    expected = loaded.__wrapped__(x) + loaded.__wrapped__(x * 2, bias=3)
    np.testing.assert_allclose(both(x), expected)
    assert len(both.kernels) == 1
    again = reloaded(both)
    np.testing.assert_allclose(again(x), expected)


def test_saving_again_gives_the_same_bytes():
    for function in (scaled, element, bounded, by_name):
        data = saved(function)
        assert saved(function) == data
        assert saved(jitcore.load(io.BytesIO(data))) == data


def test_numerics_are_kept():
    strict, contract = script(helper, numerics="strict"), script(helper, numerics="contract")
    assert (reloaded(strict).numerics, reloaded(contract).numerics) == ("strict", "contract")
    assert reloaded(script(helper)).numerics is None


# Files


def test_files_and_file_objects(tmp_path):
    path = tmp_path / "scaled.jit"
    jitcore.save(scaled, path)
    with open(tmp_path / "other.jit", "wb") as opened:
        scaled.save(opened)
    assert path.read_bytes() == (tmp_path / "other.jit").read_bytes() == saved(scaled)
    x = np.arange(3.0)
    with open(path, "rb") as opened:
        for source in (path, str(path), opened):
            np.testing.assert_array_equal(jitcore.load(source)(x), scaled(x))
    assert sorted(os.listdir(tmp_path)) == ["other.jit", "scaled.jit"]


def test_extra_files():
    data = saved(scaled, {"labels.txt": "a\nb", "deep/er/raw.bin": b"\x00\xff"})
    wanted: dict[str, Any] = {"labels.txt": "", "missing": ""}
    jitcore.load(io.BytesIO(data), _extra_files=wanted)
    assert wanted == {"labels.txt": b"a\nb", "missing": b"", "deep/er/raw.bin": b"\x00\xff"}
    for name in ("../out", "/etc/passwd", "a\\b", "", "a//b", ".", "a/../b", "c:d", "a\nb"):
        with pytest.raises(SerializationError, match="is not a name for an entry"):
            saved(scaled, {name: "x"})
    with pytest.raises(SerializationError, match="neither str nor bytes"):
        saved(scaled, {"a": 3})  # type: ignore[dict-item]


def test_writing_is_atomic(tmp_path, monkeypatch):
    path = tmp_path / "f.jit"
    jitcore.save(element, path)
    before = path.read_bytes()

    def fail(*args):
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(SerializationError, match="cannot write .*no space left"):
        jitcore.save(scaled, path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["f.jit"]


def test_files_that_cannot_be_read_or_written(tmp_path):
    with pytest.raises(SerializationError, match="cannot read .*No such file"):
        jitcore.load(tmp_path / "missing.jit")
    with pytest.raises(SerializationError, match="cannot read"):
        jitcore.load(tmp_path)
    with pytest.raises(SerializationError, match="cannot write"):
        jitcore.save(scaled, tmp_path / "no" / "folder.jit")
    with pytest.raises(SerializationError, match="opened in binary mode"):
        jitcore.load(io.StringIO("text"))  # type: ignore[arg-type]
    with pytest.raises(SerializationError, match="opened in binary mode"):
        jitcore.save(scaled, 3)  # type: ignore[arg-type]
    with pytest.raises(jitcore.Error, match="map_location"):
        jitcore.load(io.BytesIO(saved(element)), map_location="cuda:7")
    assert jitcore.load(io.BytesIO(saved(element)), map_location="cpu")(np.ones(2), 0) == 2.0


# What cannot be saved


@ignore
def reported(x):
    print(x)
    return x


@unused
def never(x):
    raise AssertionError("unused functions are not called")


def calls_ignored(x):
    y = x + 1
    return reported(y)


def calls_unused(x, really):
    if really:
        return never(x)
    return x * 2


def test_ignored_functions_are_named_with_their_line():
    with pytest.raises(SerializationError) as caught:
        saved(script(calls_ignored))
    text = str(caught.value)
    assert "the function 'reported'" in text and "marked with ignore" in text
    line = calls_ignored.__code__.co_firstlineno + 2
    assert f"test_save.py:{line}:" in text
    assert "return reported(y)" in text and "^~~~~~~~" in text


def test_unused_functions_are_no_obstacle():
    loaded = reloaded(script(calls_unused))
    assert loaded(2, False) == 4
    with pytest.raises(jitcore.Error, match="marked as unused"):
        loaded(2, True)


class Opaque(io.StringIO):
    held = 1


OPAQUE: Any = Opaque()
STREAM = io.StringIO()
OBJECTS = np.array([{}, []], dtype=object)


def uses_library_class(x):
    return OPAQUE.held + x


def uses_stream(x):
    STREAM.write(str(x))
    return x


def uses_objects(x):
    return OBJECTS[0], x


def opens_files(x):
    return open(x).read()


def loads_files(x):
    return np.load(x)


def looks_inside(x):
    return x.__class__.__subclasses__()


def passes_modules_on(x):
    return [math, x]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (uses_library_class, "'OPAQUE': cannot save an object of the class 'Opaque': it is more"),
        (
            uses_stream,
            "'STREAM': cannot save an object of the class '_?StringIO'.*\n.*test_save.py",
        ),
        (uses_objects, "'OBJECTS': .*an array of Python objects cannot be saved"),
        (opens_files, "cannot save the function 'open'"),
        (loads_files, "must not call NumPy's 'load'\n.*test_save.py"),
        (looks_inside, "the attribute '__subclasses__' leads out of the program"),
        (passes_modules_on, "uses the module math as a value"),
    ],
)
def test_what_cannot_be_saved_is_named(function, message):
    with pytest.raises(SerializationError, match=message):
        saved(script(function))


def test_only_script_functions_and_modules_are_saved():
    for value in (helper, 3, np.arange(3), len):
        with pytest.raises(SerializationError, match="expects a script function or a script"):
            saved(value)


# Versions


def test_newer_archives_say_so():
    entries = entries_of(saved(scaled))
    with pytest.raises(SerializationError, match="version 99 of the format.*up to 1") as caught:
        jitcore.load(io.BytesIO(rebuilt(entries, version=99, written_by="jitcore 9.9")))
    assert "jitcore 9.9" in str(caught.value)


# Another process


PROGRAM = """
import enum
from typing import NamedTuple, Optional

import numpy as np
from jitcore import script

class Mode(enum.Enum):
    PLAIN = 1
    SQUARED = 2

class Point(NamedTuple):
    x: float
    y: float = 2.0

    def length(self):
        return (self.x * self.x + self.y * self.y) ** 0.5

WEIGHTS = np.linspace(0, 1, 5)

def kernel(x):
    return np.exp(-x * x)

@script
def program(x, mode: Optional[Mode] = None):
    total = 0.0
    for value in kernel(x) * WEIGHTS:
        if value > 0.5:
            continue
        total += value
    if mode is None:
        return total
    return Point(total, Point(3.0, 4.0).length()), sorted([3, 1, 2], key=lambda i: -i)
"""


REPORT = """
import numpy as np
x = np.linspace(-1, 1, 5)
print(program(x), tuple(program(x, 1)))
print(program.code)
print(program.graph)
print(program.kernels[0].lowered.function.name, len(program.kernels))
print("return np.exp(-x * x)" in str(program.explain(x)))
"""


def test_a_process_without_the_source(tmp_path):
    source = tmp_path / "model.py"
    source.write_text(PROGRAM, encoding="utf-8")
    save = "\nfrom model import program\nprogram.save('program.jit')\n"
    expected = run_in(tmp_path, save + REPORT)
    source.unlink()
    load = "\nimport jitcore\nprogram = jitcore.load('program.jit')\n"
    assert run_in(tmp_path, load + REPORT) == expected
    assert "return np.exp(-x * x)" in expected and expected.endswith("True\n")
