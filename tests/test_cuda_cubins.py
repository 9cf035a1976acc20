"""Machine code of kernels: what is loaded, and what happens where the driver refuses it."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from dataclasses import dataclass, field, replace

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


def test_without_nvjitlink_there_is_no_machine_code(monkeypatch):
    def absent(_):
        raise ImportError

    monkeypatch.setattr("importlib.import_module", absent)
    assert linking.to_cubin("", "kernel", (9, 0)) is None
