"""Runs functions as device code without a GPU: on a `FakeDriver`, kernels in the simulator."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import copy
import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from cuda_machine import fake_machine
from fake_cuda import FakeDriver

import jitcore
from jitcore.codegen.cuda import driver, memory
from jitcore.codegen.cuda.calls import COUNTER_BYTES, Call, running
from jitcore.codegen.cuda.compiler import compiling_by
from jitcore.codegen.cuda.kernels import Kernel
from jitcore.codegen.cuda.tuning import DEFAULT, Tuning
from jitcore.codegen.entries.entry import bind
from jitcore.codegen.lower import NotNative
from jitcore.cuda.compile import DeviceCode, compile_device
from jitcore.execution.description_keys import dynamic_key
from jitcore.execution.signatures import describe_all, type_and_param
from jitcore.ir.specialize.specialize import specialize
from jitcore.pipeline import NativePlan, optimize

__all__ = [
    "DeviceRun",
    "NotOnDevice",
    "assert_same_bits",
    "check_bits",
    "compile_on_device",
    "run_on_device",
]


class NotOnDevice(Exception):
    """A function has no form for a device; says why."""


@dataclass(frozen=True, slots=True)
class DeviceRun:
    """What a call gave, its arguments afterwards, and its code."""

    result: Any
    args: tuple[Any, ...]
    code: DeviceCode


class _Block:
    """Memory of a temporary, in which nothing lies any more when it is free."""

    def __init__(self, fake: FakeDriver, address: int, size: int) -> None:
        self._fake, self._address, self._size = fake, address, size

    def __del__(self) -> None:
        ctypes.memset(self._fake.host_address(self._address, self._size), 0xFF, self._size)


class _Zeros(_Block):
    """Memory that has to be zeros when it is free."""

    def __del__(self) -> None:
        found = ctypes.string_at(self._fake.host_address(self._address, self._size), self._size)
        if any(found):
            self._fake.errors.append(AssertionError("memory that is not left zeros"))
        super().__del__()


class _Pool:
    """Allocates on a fake device."""

    def __init__(self, fake: FakeDriver) -> None:
        self._fake = fake

    def empty(self, dtype, shape, strides):
        address = self._fake.allocate(max(1, int(np.prod(shape))) * dtype.itemsize)
        return address, address

    def block(self, size):
        address = self._fake.allocate(size)
        return address, _Block(self._fake, address, size)

    def scratch(self, size):
        address, owner = self.block(size)
        self._fake.fill(address, 0, COUNTER_BYTES)
        return address, owner

    def zeros(self, size):
        address = self._fake.allocate(size)
        self._fake.fill(address, 0, size)
        return address, _Zeros(self._fake, address, size)


def _to_device(fake: FakeDriver, value: Any) -> Any:
    """The shadow of a copy on the device, which lies in its memory as the array in its own."""
    if not isinstance(value, np.ndarray):
        return copy.deepcopy(value)
    whole = value
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    if value.size == 0:
        return memory.make_shadow(value, 0, value.shape, value.strides, value.dtype)
    start = fake.allocate(whole.nbytes)
    fake.copy_to_device(start, whole.__array_interface__["data"][0], whole.nbytes)
    place = value.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    return memory.make_shadow(value, start + place, value.shape, value.strides, value.dtype)


def _to_host(fake: FakeDriver, value: Any) -> Any:
    """What lies on the device, as an array of the same strides."""
    if isinstance(value, (tuple, list)):
        return type(value)(_to_host(fake, one) for one in value)
    if not isinstance(value, np.ndarray) or value.size == 0:
        return value
    address = value.__array_interface__["data"][0]
    low = sum(min(0, s * (n - 1)) for s, n in zip(value.strides, value.shape, strict=True))
    high = sum(max(0, s * (n - 1)) for s, n in zip(value.strides, value.shape, strict=True))
    raw = np.empty(high - low + value.itemsize, np.uint8)
    fake.copy_to_host(raw.ctypes.data, address + low, raw.nbytes)
    made: Any = np.ndarray(value.shape, value.dtype, raw, -low, value.strides)
    return made.copy()


def _compiled(
    fake: FakeDriver,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    *,
    dynamic: bool,
    tuning: Tuning = DEFAULT,
) -> NativePlan:
    """Compile a function for the current driver."""
    script = jitcore.script(function)
    graph = script._executor.graph
    key = describe_all(args, frozenset())
    if dynamic:
        key = dynamic_key(key, frozenset())
    pairs = [type_and_param(one, value.name) for one, value in zip(key, graph.inputs, strict=True)]
    compile_function = script._executor.compile_function
    types = [type_ for type_, _ in pairs]
    typed = specialize(
        graph,
        types,
        {},
        compile_function,
        set(),
        layer_functions="device",
        is_native=True,
    )
    optimize(typed)
    try:
        params = [param for _, param in pairs]
        name = function.__name__
        plan = compile_device(typed, params, (), name=name, contract=False, tuning=tuning)
    except NotNative as reason:
        raise NotOnDevice(str(reason)) from None
    if plan is None:
        reasons = [node.host_reason for node in typed.nodes() if node.host_reason]
        raise NotOnDevice(", ".join(reasons) or "a part that is not native")
    return plan


def compile_on_device(
    function: Callable[..., Any], args: tuple[Any, ...], *, dynamic: bool = False
) -> list[Kernel]:
    """The kernels of a function for arguments like these."""
    fake = FakeDriver()
    found: list[Kernel] = []

    def compiler(kernel: Kernel, source: str, *_: Any) -> tuple[str, str]:
        found.append(kernel)
        fake.register(kernel.name, (), lambda *_: None)
        return "", kernel.name

    with driver.use(fake), compiling_by(compiler):
        _compiled(fake, function, args, dynamic=dynamic)
    return found


def run_on_device(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    *,
    dynamic: bool = False,
    tuning: Tuning = DEFAULT,
) -> DeviceRun:
    """Compile a function for arguments like these and call it with them.

    Raises
    ------
    NotOnDevice
        Some part has no form for devices.
    """
    with fake_machine() as fake:
        plan = _compiled(fake, function, args, dynamic=dynamic, tuning=tuning)

        def miss(*_):
            raise AssertionError("the entry did not take the call it was made for")

        def fail(status, payload, *_):
            if fake.errors:
                raise fake.errors[0]
            site = plan.kernel.lowered.sites[status - 1]
            if site.exception is None or site.exception is NotImplementedError:
                raise NotOnDevice(f"Python starts anew: {site.message}")
            raise site.exception(site.message)

        entry = bind(plan.address, function.__name__, miss, fail, owner=plan)
        assert isinstance(plan.kernel, DeviceCode)
        return DeviceRun(*_call(fake, entry, args), plan.kernel)


def _call(fake: FakeDriver, entry: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, Any]:
    """The result of a call, and its arguments afterwards."""
    shadows = [_to_device(fake, arg) for arg in args]
    result = None
    try:
        with running(Call(_Pool(fake), 0)):
            result = entry(*shadows)
        return _to_host(fake, result), tuple(_to_host(fake, one) for one in shadows)
    finally:
        # Whoever shows a traceback must not look into them.
        del shadows, result


def check_bits(
    function: Callable[..., Any], args: tuple[Any, ...], *, dynamic: bool, nan_signs: bool = True
) -> None:
    """Compare a function on a device with NumPy to the bit, its effects on arguments included.

    Parameters
    ----------
    function : callable
    args : tuple
    dynamic : bool
    nan_signs : bool
        Whether the signs of NaN count.
    """
    host = tuple(one.copy() for one in args)
    wanted = function(*host)
    run = run_on_device(function, args, dynamic=dynamic)
    assert_same_bits(run.result, wanted, nan_signs=nan_signs)
    assert_same_bits(run.args, host, nan_signs=nan_signs)


def assert_same_bits(found: Any, wanted: Any, *, nan_signs: bool = True) -> None:
    """Check that arrays, or tuples of them, are the same to the bit."""
    if isinstance(wanted, tuple):
        for one, other in zip(found, wanted, strict=True):
            assert_same_bits(one, other, nan_signs=nan_signs)
        return
    if wanted is None:
        assert found is None
        return
    wanted = np.asarray(wanted)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    # NumPy's functions for tests know no bfloat16; float64 has all of its numbers.
    exact = [one.astype(np.float64) for one in (found, wanted)]
    np.testing.assert_array_equal(exact[0], exact[1])
    signs = [np.signbit(one if nan_signs else np.nan_to_num(one)) for one in exact]
    np.testing.assert_array_equal(signs[0], signs[1], err_msg="signs")
