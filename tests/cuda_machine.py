"""A machine with CUDA devices that are none: the fake driver, and the simulator as its compiler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cuda_simulator import add_kernel
from fake_cuda import FakeDriver

from jitcore.codegen.cuda import driver
from jitcore.codegen.cuda.compiler import compiling_by
from jitcore.codegen.cuda.kernels import Kernel
from jitcore.codegen.printers.numba_source import parameter_type, python_name

__all__ = ["fake_machine"]


@contextmanager
def fake_machine(devices: int = 1) -> Iterator[FakeDriver]:
    """Have compiled functions run on fake devices inside a ``with`` block."""
    fake = FakeDriver(devices=devices)

    def compiled(
        kernel: Kernel, source: str, capability: tuple[int, int], contract: bool
    ) -> tuple[str, str]:
        name = python_name(kernel.name)
        add_kernel(fake, name, source, tuple(parameter_type(one.dtype) for one in kernel.params))
        return "no code", name

    with driver.use(fake), compiling_by(compiled):
        yield fake
    assert not fake.errors, fake.errors
