# mypy: allow-untyped-defs, allow-untyped-calls
"""What native code calls for memory of a device, and the shadows of arrays."""

from __future__ import annotations

import ctypes
import functools
import gc
import itertools
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cuda_machine import fake_machine
from fake_cuda import FakeDriver

import jitcore
from jitcore import cuda
from jitcore.codegen.cuda import calls, driver, memory
from jitcore.codegen.cuda.callbacks import definitions
from jitcore.codegen.cuda.calls import COUNTER_BYTES, Call, running
from jitcore.codegen.cuda.direct_runtime import ensure_direct
from jitcore.codegen.cuda.memory import array_of, array_strides, make_shadow
from jitcore.codegen.engine import compile_module
from jitcore.codegen.entries.array_orders import order_number
from jitcore.cuda import libraries

F32 = np.dtype(np.float32)


class Owner:
    """What owns some memory, and says when it goes."""


class Allocator:
    """Memory of the fake driver, which is never given back."""

    def __init__(self, used: FakeDriver) -> None:
        self._driver = used
        self.owners: weakref.WeakSet[Owner] = weakref.WeakSet()
        self.fails: BaseException | None = None

    def empty(self, dtype: Any, shape: Any, strides: Any) -> tuple[int, Any]:
        return self.block(int(np.prod(shape)) * dtype.itemsize)

    def block(self, size: int) -> tuple[int, Any]:
        if self.fails is not None:
            raise self.fails
        owner = Owner()
        self.owners.add(owner)
        return self._driver.allocate(size), owner

    def scratch(self, size: int) -> tuple[int, Any]:
        address, owner = self.block(size)
        self._driver.fill(address, 0, COUNTER_BYTES)
        return address, owner

    def zeros(self, size: int) -> tuple[int, Any]:
        address, owner = self.block(size)
        self._driver.fill(address, 0, size)
        return address, owner


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    with driver.use(FakeDriver()) as made:
        assert isinstance(made, FakeDriver)
        yield made


@functools.cache
def native(name: str) -> Any:
    """What native code calls under a name."""
    result, *parameters = SIGNATURES[name]
    types = ", ".join(f"{one} %a{n}" for n, one in enumerate(parameters))
    keeps = "" if result == "void" else "%r = "
    text = f"""{definitions([name])}
define {result} @ask_{name}({types}) {{
  {keeps}call {result} @{name}({types})
  ret {result}{" %r" if keeps else ""}
}}
"""
    ensure_direct()
    module = compile_module(text, name=f"ask_{name}")
    prototype = ctypes.CFUNCTYPE(C_TYPES[result], *(C_TYPES[one] for one in parameters))
    function = prototype(module.address(f"ask_{name}"))
    function.module = module  # type: ignore[attr-defined]
    return function


C_TYPES: dict[str, Any] = {
    "ptr": ctypes.c_void_p,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "void": None,
}
SIGNATURES = {
    "jc_cuda_empty": ("ptr", *["i64"] * 11),
    "jc_cuda_malloc": ("ptr", "i64"),
    "jc_cuda_free": ("void", "ptr"),
    "jc_cuda_read": ("i32", "ptr", "ptr", "i64"),
}


def empty(dtype: np.dtype[Any], order: int, shape: tuple[int, ...]) -> Any:
    """The array that native code gets from ``jc_cuda_empty``; it owns the one reference."""
    dims = [*shape, *[1] * (8 - len(shape))]
    address = native("jc_cuda_empty")(dtype.num, order, len(shape), *dims)
    if address is None:
        return None
    made = ctypes.cast(address, ctypes.py_object).value
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(made))
    return made


@pytest.mark.parametrize("shape", [(), (3,), (0,), (2, 3), (2, 0, 4), (2, 3, 4)])
def test_new_arrays_have_the_order_that_was_asked_for(fake: FakeDriver, shape: Any) -> None:
    for axes in itertools.permutations(range(len(shape))):
        order = order_number(axes, F32.itemsize)
        with running(Call(Allocator(fake), 0)):
            made = empty(F32, order, shape)
        wanted = np.empty([shape[axis] for axis in axes], F32).transpose(np.argsort(axes))
        assert (made.shape, made.dtype) == (shape, F32)
        if made.size:
            assert made.strides == wanted.strides
        assert made.flags.c_contiguous == wanted.flags.c_contiguous
        assert made.flags.f_contiguous == wanted.flags.f_contiguous


def test_strides_of_fortran_order() -> None:
    assert array_strides(1, (2, 3, 4), 8) == (8, 16, 48)
    assert array_strides(0, (2, 3), 8) is None


def test_a_shadow_keeps_its_array() -> None:
    owner = Owner()
    alive = weakref.ref(owner)
    shadow = make_shadow(owner, 1 << 20, (2, 3), None, F32)
    assert array_of(shadow) is owner and type(shadow) is np.ndarray
    assert shadow.__array_interface__["data"] == (1 << 20, False)
    del owner
    gc.collect()
    assert alive() is not None
    memory.release_array(shadow)
    assert alive() is None and array_of(shadow) is None
    assert not make_shadow(None, 0, (0,), None, F32, True).flags.writeable


def test_arrays_that_native_code_drops_go_at_once(fake: FakeDriver) -> None:
    allocator = Allocator(fake)
    with running(Call(allocator, 0)):
        made = empty(F32, 0, (4,))
        assert len(allocator.owners) == 1
        del made
        assert not allocator.owners


def test_temporaries(fake: FakeDriver) -> None:
    allocator = Allocator(fake)
    call = Call(allocator, 0)
    with running(call):
        first, second = native("jc_cuda_malloc")(8), native("jc_cuda_malloc")(0)
        assert first and second and first != second
        native("jc_cuda_free")(first)
        native("jc_cuda_free")(None)
        assert len(allocator.owners) == 1
    del call
    assert not allocator.owners


def test_failures_are_kept_for_the_caller(fake: FakeDriver) -> None:
    allocator = Allocator(fake)
    allocator.fails = MemoryError("no more")
    for ask in (lambda: empty(F32, 0, (2,)), lambda: native("jc_cuda_malloc")(4)):
        call = Call(allocator, 0)
        with running(call):
            assert ask() is None
        assert call.error is allocator.fails
    call = Call(allocator, 0)
    host = np.zeros(1)
    with running(call):
        assert native("jc_cuda_read")(host.ctypes.data, 1 << 40, 8) == 1
    assert isinstance(call.error, driver.DriverError)


def test_reading(fake: FakeDriver) -> None:
    host, there = np.arange(3.0), np.zeros(3)
    address = fake.allocate(24)
    fake.copy_to_device(address, host.ctypes.data, 24)
    with running(Call(Allocator(fake), 0)):
        assert native("jc_cuda_read")(there.ctypes.data, address, 24) == 0
    np.testing.assert_array_equal(there, host)


def stream_now() -> int:
    return calls.STREAM.value


def test_calls_nest(fake: FakeDriver) -> None:
    with running(Call(Allocator(fake), 5)):
        with running(Call(Allocator(fake), 6)):
            assert stream_now() == 6
        assert stream_now() == 5
    assert stream_now() == 0


def test_a_call_that_waits_lets_others_run_and_has_its_stream_afterwards(fake: FakeDriver) -> None:
    entered, left = threading.Event(), threading.Event()
    seen: list[int] = []

    def wait_for_other(target: int, source: int, size: int, stream: int = 0) -> None:
        entered.set()
        assert left.wait(10)

    fake.copy_to_host = wait_for_other  # type: ignore[method-assign]

    def other() -> None:
        assert entered.wait(10)
        with running(Call(Allocator(fake), 9)):
            seen.append(stream_now())
        left.set()

    thread = threading.Thread(target=other)
    thread.start()
    with running(Call(Allocator(fake), 4)):
        assert native("jc_cuda_read")(0, 0, 8) == 0
        seen.append(stream_now())
    thread.join()
    assert seen == [9, 4]


def test_one_call_at_a_time(fake: FakeDriver) -> None:
    began = threading.Event()

    def other() -> None:
        began.set()
        with running(Call(Allocator(fake), 7)):
            pass

    with running(Call(Allocator(fake), 4)):
        thread = threading.Thread(target=other)
        thread.start()
        assert began.wait(10)
        thread.join(0.05)
        assert thread.is_alive() and stream_now() == 4
    thread.join(10)
    assert not thread.is_alive()


# Interrupts ------------------------------------------------------------------------------

FILES = ("callbacks.py", "calls.py", "memory.py", "test_cuda_memory.py")


class Interrupter:
    """Raises KeyboardInterrupt before one of the instructions of what native code calls."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, frame: Any, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.endswith(FILES):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self


def asked(call: Call, number: int, ask: Any) -> tuple[Any, bool]:
    """What native code gets, and whether an interrupt came at an instruction of this number."""
    interrupter = Interrupter(number)
    begun = False
    with running(call):
        sys.settrace(interrupter)
        try:
            begun = True
            found = ask()
        finally:
            sys.settrace(None)
    assert begun
    return found, interrupter.left <= 0


def is_free() -> bool:
    """Whether a call may run in another thread."""
    done: list[int] = []

    def other() -> None:
        with running(Call(None, 3)):  # type: ignore[arg-type]
            done.append(stream_now())

    thread = threading.Thread(target=other)
    thread.start()
    thread.join(2)
    return done == [3]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", ["jc_cuda_malloc", "jc_cuda_empty", "jc_cuda_read"])
def test_interrupts_leave_an_answer(
    name: str, fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    host, there = np.arange(3.0), np.zeros(3)
    address = fake.allocate(24)
    fake.copy_to_device(address, host.ctypes.data, 24)
    args = {
        "jc_cuda_malloc": (16,),
        "jc_cuda_empty": (F32.num, 0, 2, 3, 4, *[1] * 6),
        "jc_cuda_read": (there.ctypes.data, address, 24),
    }[name]
    failed = {"jc_cuda_read": 1}.get(name)
    function = native(name)
    number = 0
    came = True
    while came:
        number += 1
        allocator = Allocator(fake)
        call = Call(allocator, 5)
        there[:] = 0
        found, came = asked(call, number, functools.partial(function, *args))
        if isinstance(call.error, KeyboardInterrupt):
            assert came and found == failed
        else:
            assert call.error is None
            assert (found == 0 and there.any()) if name == "jc_cuda_read" else found
        assert is_free() and stream_now() == 0
    assert number > 20


def test_an_interrupted_call_raises_and_the_next_one_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    # Where the host waits for a number a call is none of those that do without Python.
    compiled = jitcore.script(lambda x: np.ones(int(x.sum())) + x[1])
    with fake_machine():
        x = cuda.from_numpy(np.arange(4.0))
        compiled(x)
        allocate = libraries._Own.empty

        def unanswered(*args: Any) -> Any:
            calls.INTERRUPTS.value = 1
            return allocate(*args)

        def interrupted(*args: Any) -> Any:
            raise KeyboardInterrupt

        for one in (unanswered, interrupted):
            monkeypatch.setattr(libraries._Own, "empty", one)
            with pytest.raises(KeyboardInterrupt):
                compiled(x)
            assert is_free()
        monkeypatch.setattr(libraries._Own, "empty", allocate)
        assert compiled(x).numpy().tolist() == [2.0] * 6
