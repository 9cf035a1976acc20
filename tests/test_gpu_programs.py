# mypy: allow-untyped-defs, allow-untyped-calls
"""On a GPU: the op matrix, random programs and test programs as NumPy has them; PyTorch's rows."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special
from test_cuda_ops import KINDS, first_samples
from test_cuda_programs import PROGRAMS, assert_same, layer_norm, log_softmax, softmax

import jitcore
from checking import Tolerance, compare, function_from_source, outcome_of
from jitcore import cuda, script
from jitcore.ir.bfloat16 import is_stored
from programs import Program, random_program

pytestmark = pytest.mark.gpu

RANDOM = 200
PER_TEST = 10


class Moved:
    """Arguments on the device, where what shares memory on the host does so, too."""

    def __init__(self, args: tuple[Any, ...]) -> None:
        self._whole: dict[int, tuple[Any, cuda.Array]] = {}
        self.args = tuple(map(self._moved, args))

    def _moved(self, value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        whole = value
        while isinstance(whole.base, np.ndarray):
            whole = whole.base
        _, held = self._whole.setdefault(id(whole), (whole, cuda.from_numpy(whole)))
        place = held.address + value.ctypes.data - whole.ctypes.data
        read_only = not value.flags.writeable
        form = value.shape, value.strides, value.dtype
        return cuda.Array(place, *form, held, read_only=read_only)

    def write_back(self) -> None:
        """Give the arguments on the host what those on the device have."""
        for host, held in self._whole.values():
            host[...] = held.numpy()


def on_device(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function compiled, with its arguments moved to the device and everything back."""
    compiled = script(function)

    def call(*args: Any) -> Any:
        given = Moved(args)
        try:
            return jitcore.to(compiled(*given.args), "cpu")
        finally:
            given.write_back()

    return call


def without_scalars(value: Any) -> Any:
    """NumPy's scalars as the arrays without axes that devices give in their place."""
    if isinstance(value, tuple | list):
        return type(value)(without_scalars(one) for one in value)
    return np.asarray(value) if isinstance(value, np.generic) else value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore")
def test_op_matrix(kind: str) -> None:
    for sample in first_samples(kind):
        function, args = function_from_source(sample.source, special=special), sample.calls[0]
        wanted = outcome_of(function, args)
        arrays = [one for one in args if isinstance(one, np.ndarray)]
        if wanted.error is not None or not all(is_stored(one.dtype) for one in arrays):
            continue
        found = outcome_of(on_device(function), args)
        assert found.error is None, (sample.source, found.error)
        assert_same(found.value, wanted.value)
        assert_same(found.args, wanted.args)


def check_program(program: Program) -> None:
    """Compare a random program on the device with the plain one."""
    function = function_from_source(program.source)
    tolerance = Tolerance()
    if program.scale is not None:
        tolerance = Tolerance(64, 10 * program.scale, single=True)
    wanted = outcome_of(function, program.args)
    compiled = on_device(function)
    for turn in ("first", "second"):
        found = outcome_of(compiled, program.args)
        what = f"seed {program.seed}, {turn} call\n{program.source}"
        assert type(found.error) is type(wanted.error), (what, found.error, wanted.error)
        for one, other in ((wanted.value, found.value), (wanted.args, found.args)):
            compare(without_scalars(one), without_scalars(other), tolerance, what)


@pytest.mark.parametrize("first", range(0, RANDOM, PER_TEST))
def test_random_programs(first: int) -> None:
    for seed in range(first, first + PER_TEST):
        check_program(random_program(seed))


@pytest.mark.parametrize(
    ("function", "args"), PROGRAMS, ids=[f"{f.__name__}{n}" for n, (f, _) in enumerate(PROGRAMS)]
)
def test_programs(function: Any, args: Any) -> None:
    wanted, found = outcome_of(function, args), outcome_of(on_device(function), args)
    assert found.error is None
    assert_same(found.value, wanted.value)
    assert_same(found.args, wanted.args)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(1000, 33), (64, 1000), (16, 4096), (3, 50000)])
def test_rows_are_those_of_torch(shape: tuple[int, int], dtype: str) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch is built without CUDA")
    functional = importlib.import_module("torch.nn.functional")
    rng = np.random.default_rng(0)
    x, weight, bias = (
        torch.from_numpy(rng.standard_normal(one).astype(dtype)).cuda()
        for one in (shape, shape[1:], shape[1:])
    )
    torch.testing.assert_close(script(softmax)(x), torch.softmax(x, 1))
    torch.testing.assert_close(script(log_softmax)(x), torch.log_softmax(x, 1))
    found = script(layer_norm)(x, weight, bias)
    torch.testing.assert_close(found, functional.layer_norm(x, shape[1:], weight, bias))
