"""What DLPack says of arrays on a device, both ways: memory, versions, copies, elements."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cuda_machine import fake_machine
from fake_cuda import FakeDriver

from jitcore import cuda
from jitcore.cuda import dlpack

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    with fake_machine(devices=2) as made:
        yield made


@pytest.mark.parametrize("versioned", [False, True])
def test_dlpack_keeps_the_memory(fake: FakeDriver, versioned: bool) -> None:
    array = cuda.from_numpy(X.T)
    capsules = [array.__dlpack__(max_version=(1, 0) if versioned else None)]
    address = array.address
    before = len(dlpack._exported)
    del array
    gc.collect()
    assert len(dlpack._exported) == before

    class Once:
        def __dlpack__(self, **keywords: Any) -> Any:
            return capsules[0]

    assert dlpack.read(Once(), 0) == (address, (4, 3), X.T.strides, X.dtype, False)
    # What a consumer does: it takes what the capsule holds, and says when it is done.
    taken, _, _, _ = list(dlpack._exported.values())[-1]
    used = b"used_dltensor_versioned" if versioned else b"used_dltensor"
    ctypes.pythonapi.PyCapsule_SetName(ctypes.py_object(capsules.pop()), used)
    gc.collect()
    assert len(dlpack._exported) == before
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(taken.deleter)(ctypes.addressof(taken))
    assert len(dlpack._exported) == before - 1


def test_dlpack_of_a_version_to_come(fake: FakeDriver) -> None:
    before = len(dlpack._exported)
    array = cuda.from_numpy(X)

    class Newer:
        def __dlpack__(self, **keywords: Any) -> Any:
            capsule = array.__dlpack__(max_version=(1, 0))
            managed, *_ = list(dlpack._exported.values())[-1]
            managed.major = 2
            return capsule

    with pytest.raises(BufferError, match=r"Newer came by DLPack 2\.0, .* no more than 1\.x"):
        dlpack.read(Newer(), 0)
    gc.collect()
    assert len(dlpack._exported) == before


@pytest.mark.parametrize("versioned", [False, True])
def test_where_elements_begin_and_whether_they_are_written(
    fake: FakeDriver, versioned: bool
) -> None:
    array = cuda.from_numpy(X)
    given = np.broadcast_to(array, (2, 3, 4)) if versioned else array

    class Shifted:
        def __dlpack__(self, **keywords: Any) -> Any:
            capsule = given.__dlpack__(max_version=(1, 0) if versioned else None)
            managed, *_ = list(dlpack._exported.values())[-1]
            managed.tensor.data -= 8
            managed.tensor.byte_offset = 8
            return capsule

    start, shape, _, _, read_only = dlpack.read(Shifted(), 0)
    assert (start, shape, read_only) == (array.address, given.shape, versioned)


def test_dlpack_of_a_copy(fake: FakeDriver) -> None:
    array = cuda.from_numpy(X)

    class Copied:
        def __dlpack__(self, **keywords: Any) -> Any:
            capsule = array.__dlpack__(max_version=(1, 0))
            managed, *_ = list(dlpack._exported.values())[-1]
            managed.flags = 2
            return capsule

    with pytest.raises(BufferError, match="Copied came as a copy"):
        dlpack.read(Copied(), 0)


@pytest.mark.parametrize(("bits", "lanes"), [(4, 1), (32, 4)])
def test_elements_that_numpy_has_not(fake: FakeDriver, bits: int, lanes: int) -> None:
    array = cuda.from_numpy(X)

    class Packed:
        def __dlpack__(self, **keywords: Any) -> Any:
            capsule = array.__dlpack__()
            managed, *_ = list(dlpack._exported.values())[-1]
            managed.tensor.bits, managed.tensor.lanes = bits, lanes
            return capsule

    with pytest.raises(TypeError, match="Packed has elements that NumPy has no dtype for"):
        dlpack.read(Packed(), 0)


def test_a_capsule_that_nobody_takes(fake: FakeDriver) -> None:
    before = len(dlpack._exported)
    capsule = cuda.from_numpy(X).__dlpack__()
    assert len(dlpack._exported) == before + 1
    del capsule
    gc.collect()
    assert len(dlpack._exported) == before


def test_dlpack_of_what_is_read_only(fake: FakeDriver) -> None:
    view = np.broadcast_to(cuda.from_numpy(X), (2, 3, 4))
    with pytest.raises(BufferError, match="DLPack 1.0"):
        view.__dlpack__()
    assert view.__dlpack__(max_version=(1, 0)) is not None
    with pytest.raises(BufferError, match="without a copy"):
        view.__dlpack__(copy=True)
    array = cuda.from_numpy(X)
    with pytest.raises(BufferError, match="where they lie"):
        array.__dlpack__(dl_device=(1, 0))
    assert array.__dlpack__(dl_device=(2, 0)) is not None
