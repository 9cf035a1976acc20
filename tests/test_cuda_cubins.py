"""Machine code of kernels: what is loaded, and what happens where the driver refuses it."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cuda_machine import fake_machine

import jitcore
from jitcore.codegen.cuda import compiler, linking
from jitcore.codegen.cuda.driver import DriverError

X = np.arange(8, dtype=np.float32)


@dataclass
class Machine:
    """What its driver was asked to load, and the error with which it refuses machine code."""

    asked: list[bytes | str] = field(default_factory=list)
    refusal: int = 0


@pytest.fixture
def machine(monkeypatch):
    """A machine whose kernels have machine code, and what it is asked to load."""

    def compile_kernel(kernel, capability, *, contract):
        image = compiler.compile_kernel(kernel, capability, contract=contract)
        return replace(image, cubin=b"machine code")

    with fake_machine() as made:
        monkeypatch.setattr("jitcore.cuda.compile.compile_kernel", compile_kernel)
        load = made.load_module
        machine = Machine()

        def load_module(image, *, name):
            machine.asked.append(image)
            if isinstance(image, bytes) and machine.refusal:
                raise DriverError("no code for this GPU", machine.refusal)
            return load(image, name=name)

        monkeypatch.setattr(made, "load_module", load_module)
        yield machine


def call():
    twice = jitcore.script(lambda x: x * 2)
    found = twice(jitcore.to(X, "cuda"))
    np.testing.assert_array_equal(found.numpy(), X * 2)


def test_machine_code_is_loaded(machine):
    call()
    assert machine.asked == [b"machine code"]


def test_the_driver_compiles_what_it_has_no_code_for(machine):
    machine.refusal = 209
    call()
    assert machine.asked == [b"machine code", "no code"]


def test_other_errors_are_errors(machine):
    machine.refusal = 2
    with pytest.raises(DriverError, match="no code for this GPU"):
        call()


class Linker:
    """nvJitLink as far as it is asked: its machine code is the PTX with the architecture."""

    class nvJitLinkError(Exception):
        pass

    InputType = SimpleNamespace(PTX=1)

    def __init__(self, version=(13, 0)):
        self.linked = 0
        self.refuses = ""
        self.version = lambda: version

    def create(self, count, options):
        if self.refuses == "architecture":
            raise self.nvJitLinkError("unrecognized option")
        self.code = [one.encode() for one in options]
        return 1

    def add_data(self, handle, kind, code, size, name):
        assert (handle, kind, len(code)) == (1, self.InputType.PTX, size)
        self.code.append(code)

    def complete(self, handle):
        self.linked += 1
        if self.refuses == "code":
            raise self.nvJitLinkError("no")

    def get_linked_cubin_size(self, handle):
        return len(b" ".join(self.code))

    def get_linked_cubin(self, handle, target):
        target[:] = b" ".join(self.code)

    def get_error_log_size(self, handle):
        return 8

    def get_error_log(self, handle, target):
        target[:] = b"line 3\0\0"

    def destroy(self, handle):
        self.code = []


@pytest.fixture
def linker(monkeypatch, tmp_path):
    """A linker, and a folder for what it makes."""
    monkeypatch.setenv("JITCORE_CACHE", "1")
    monkeypatch.setenv("JITCORE_CACHE_DIR", str(tmp_path))
    made = Linker()
    monkeypatch.setattr(linking, "_linker", lambda: made)
    return made


def test_machine_code_is_linked_once(linker, monkeypatch):
    for _ in range(2):
        assert linking.to_cubin("ptx", "kernel", (9, 0)) == b"-arch=sm_90 ptx"
    assert linker.linked == 1
    # That of another device, of other code, and of another linker is other code.
    assert linking.to_cubin("ptx", "kernel", (8, 0)) == b"-arch=sm_80 ptx"
    assert linking.to_cubin("more", "kernel", (9, 0)) == b"-arch=sm_90 more"
    assert linker.linked == 3
    newer = Linker((13, 1))
    monkeypatch.setattr(linking, "_linker", lambda: newer)
    assert linking.to_cubin("ptx", "kernel", (9, 0)) == b"-arch=sm_90 ptx"
    assert newer.linked == 1


@pytest.mark.parametrize("damage", [lambda x: x[:-3], lambda x: x[:-1] + b"?", lambda x: b""])
def test_damaged_machine_code_is_linked_anew(linker, tmp_path, damage):
    wanted = linking.to_cubin("ptx", "kernel", (9, 0))
    (file,) = (one for one in tmp_path.rglob("*") if one.is_file())
    file.write_bytes(damage(file.read_bytes()))
    for _ in range(2):
        assert linking.to_cubin("ptx", "kernel", (9, 0)) == wanted
    assert linker.linked == 2


def test_other_processes_link_nothing_anew(linker, tmp_path):
    wanted = linking.to_cubin("ptx", "kernel", (9, 0))
    program = (
        "from types import SimpleNamespace\n"
        "from jitcore.codegen.cuda import linking\n"
        "linking._linker = lambda: SimpleNamespace(version=lambda: (13, 0))\n"
        "print(linking.to_cubin('ptx', 'kernel', (9, 0)))\n"
    )
    places = {"JITCORE_CACHE": "1", "JITCORE_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path), **places},
    )
    assert done.stdout == f"{wanted!r}\n", done.stderr


def test_what_the_linker_refuses(linker, tmp_path):
    linker.refuses = "code"
    with pytest.raises(DriverError, match="linking kernel: no\nline 3$"):
        linking.to_cubin("ptx", "kernel", (9, 0))
    linker.refuses = "architecture"
    with pytest.raises(DriverError, match=r"nvJitLink 13\.0 refuses -arch=sm_121 .*newer"):
        linking.to_cubin("ptx", "kernel", (12, 1))
    assert not [one for one in tmp_path.rglob("*") if one.is_file()]


def test_assembly_of_another_toolkit_is_other_code(linker, monkeypatch):
    compiled: list[str] = []
    kernel: Any = None

    def to_ptx(kernel, source, capability, contract):
        compiled.append(source)
        return "ptx", "entry"

    monkeypatch.setattr(compiler, "to_ptx", to_ptx)
    monkeypatch.setattr(compiler, "most_threads", lambda kernel: 256)
    for number, (version, toolkit) in enumerate([("1", (2,)), ("1", (3,)), ("2", (3,))], 1):
        monkeypatch.setattr(compiler, "_version", lambda version=version: version)
        monkeypatch.setattr(compiler, "_toolkit", lambda toolkit=toolkit: toolkit)
        for _ in range(2):
            assert compiler._stored_ptx(kernel, "source", (9, 0), False) == ("ptx", "entry")
        assert len(compiled) == number


def test_assembly_is_that_of_what_was_asked_for(linker, monkeypatch):
    compiled: list[tuple[Any, ...]] = []

    def to_ptx(*asked):
        compiled.append(asked)
        return f"ptx {len(compiled)}", "entry"

    monkeypatch.setattr(compiler, "to_ptx", to_ptx)
    monkeypatch.setattr(compiler, "most_threads", lambda kernel: kernel)
    monkeypatch.setattr(compiler, "_version", lambda: "1")
    monkeypatch.setattr(compiler, "_toolkit", tuple)
    ways: list[Any] = [
        (threads, source, capability, contract)
        for threads in (128, 256)
        for source in ("one", "another")
        for capability in ((8, 0), (9, 0))
        for contract in (False, True)
    ]
    for _ in range(2):
        texts = [compiler._stored_ptx(*way)[0] for way in ways]
        assert texts == [f"ptx {number}" for number in range(1, 17)]
    assert compiled == ways


def test_compiling_without_the_toolkit(monkeypatch):
    class DynamicLibNotFoundError(RuntimeError):
        pass

    def to_library(*args):
        raise DynamicLibNotFoundError("Failure finding nvvm")

    pathfinder = SimpleNamespace(DynamicLibNotFoundError=DynamicLibNotFoundError)
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", pathfinder)
    monkeypatch.setattr(compiler, "_version", lambda: "1")
    monkeypatch.setattr(compiler, "to_library", to_library)
    kernel: Any = None
    with pytest.raises(DriverError, match=r'pip install "jitcore\[cuda\]" \(Failure finding nvvm'):
        compiler.to_ptx(kernel, "source", (9, 0), False)


def test_what_tells_toolkits_apart(monkeypatch, tmp_path):
    file = tmp_path / "libdevice.10.bc"
    file.write_bytes(b"one")
    pathfinder = SimpleNamespace(find_bitcode_lib=lambda name: str(file))
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", pathfinder)
    first = compiler._toolkit.__wrapped__()
    assert compiler._toolkit.__wrapped__() == first
    file.write_bytes(b"another")
    assert compiler._toolkit.__wrapped__() != first
    file.unlink()
    assert compiler._toolkit.__wrapped__() == ()


def test_without_nvjitlink_there_is_no_machine_code(monkeypatch):
    def absent(_):
        raise ImportError

    monkeypatch.setattr("importlib.import_module", absent)
    assert linking.to_cubin("", "kernel", (9, 0)) is None
