"""The machine code of kernels, where numba-cuda is installed: ``make test-cuda``."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import importlib.util
import re
from typing import Any

import pytest
from device_runs import compile_on_device
from test_cuda_programs import PROGRAMS

from jitcore.codegen.cuda.compiler import to_ptx
from jitcore.codegen.printers.numba_cuda import print_kernel

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None,
    reason="needs numba-cuda and the CUDA libraries, half a gigabyte: make test-cuda",
)

CAPABILITIES = [(8, 0), (9, 0)]


def ptx_of(program, capability, *, contract=False):
    """The PTX of all kernels of a function, one text for each."""
    kernels = compile_on_device(*program)
    return [to_ptx(one, print_kernel(one), capability, contract)[0] for one in kernels]


def count(pattern, texts):
    """How often a pattern is in some texts."""
    return sum(len(re.findall(pattern, text)) for text in texts)


def case(name: str, number: int = 0) -> Any:
    """One of the programs, with its arguments."""
    return [one for one in PROGRAMS if one[0].__name__ == name][number]


@pytest.mark.parametrize("capability", CAPABILITIES, ids=["sm_80", "sm_90"])
@pytest.mark.parametrize(
    ("function", "args"), PROGRAMS, ids=[f"{f.__name__}{n}" for n, (f, _) in enumerate(PROGRAMS)]
)
def test_compiles_without_local_memory(function, args, capability):
    texts = ptx_of((function, args), capability)
    assert texts
    assert all(f".target sm_{capability[0]}{capability[1]}" in text for text in texts)
    assert not count(r"\.local\b", texts)
    # Whatever is called must be there.
    assert not count(r"\.extern \.func", texts)


@pytest.mark.parametrize(
    "name", ["chain", "softmax", "log_softmax", "layer_norm", "rms_norm", "total", "standardize"]
)
def test_float32_programs_have_no_double_precision(name):
    function, args = case(name)
    assert not count(r"\.f64", ptx_of((function, args), (9, 0)))


def test_elements_are_moved_by_16_bytes():
    (text,) = ptx_of(case("chain"), (9, 0))
    assert count(r"ld\.global\.v4\.f32", [text]) == 2
    assert count(r"st\.global\.v4\.f32", [text]) == 1
    (text,) = ptx_of(case("chain", 1), (9, 0))
    assert count(r"ld\.global\.v2\.f64", [text]) == 2


def test_rows_are_one_kernel_with_shuffles():
    (text,) = ptx_of(case("softmax", 2), (9, 0))
    # Two reductions, each within warps and then among them.
    assert count(r"shfl\.sync\.bfly", [text]) == 20
    assert count(r"ld\.global\.v4\.f32", [text]) == 3


def test_short_rows_are_those_of_single_warps():
    (text,) = ptx_of(case("softmax"), (9, 0))
    assert count(r"shfl\.sync\.bfly", [text]) == 10
    assert count(r"ld\.global\.v4\.f32", [text]) == 3
    assert not count(r"bar\.sync", [text])


def test_transposes_go_through_shared_memory():
    (text,) = ptx_of(case("plus_transposed"), (9, 0))
    # Each thread takes four elements of two arrays, and of them one array is transposed.
    assert count(r"ld\.global\.f32", [text]) == 8
    assert count(r"st\.shared\.f32", [text]) == 4
    assert count(r"ld\.shared\.f32", [text]) == 4
    assert count(r"bar\.sync", [text]) == 2


def test_products_are_fused_only_where_that_is_allowed():
    function, args = case("broadcast")
    strict, fused = (ptx_of((function, args), (9, 0), contract=one) for one in (False, True))
    assert not count(r"fma\.rn", strict)
    assert count(r"fma\.rn\.f32", fused)


def test_products_of_matrices_use_shared_memory():
    texts = ptx_of(case("np_matmul", 3), (9, 0))
    assert count(r"ld\.shared", texts) > 0
    assert count(r"fma\.rn\.f64", texts) >= 16
