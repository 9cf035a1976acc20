"""The machine code of kernels, where numba-cuda is installed: ``make test-cuda``."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import importlib
import importlib.util
import itertools
import re
from typing import Any

import numpy as np
import pytest
from device_runs import compile_on_device
from scipy import special
from test_cuda_failures import PLACES, TABLE, looked_up, on_the_left
from test_cuda_programs import PROGRAMS, X, layer_norm, log_softmax, rms_norm, softmax, total
from test_cuda_serial import CASES as SERIAL
from test_cuda_sums import counted, of_int32

from jitcore.codegen.cuda.compiler import assembled, compile_kernel, to_library, to_ptx
from jitcore.codegen.cuda.driver import DriverError
from jitcore.codegen.cuda.linking import to_cubin
from jitcore.codegen.printers.numba_cuda import print_kernel

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None,
    reason="needs numba-cuda and the CUDA libraries, half a gigabyte: make test-cuda",
)

CAPABILITIES = [(8, 0), (9, 0)]

WIDE = np.ones((3, 4096), np.float32)
LONGEST = np.ones((2, 16384), np.float32)
ROWS = [
    (softmax, (X,), 1, 1),
    (softmax, (WIDE[:, :1000].copy(),), 1, 2),
    (softmax, (WIDE,), 1, 4),
    (log_softmax, (WIDE[:, :1000].copy(),), 1, 2),
    (rms_norm, (WIDE, WIDE[0]), 2, 4),
    (layer_norm, (WIDE[:, :256].copy(), WIDE[0, :256], WIDE[0, :256]), 3, 2),
]
"""Functions of rows, how many arrays they read along a row, and the vectors of a thread."""


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


@pytest.mark.parametrize(
    ("function", "args"), PROGRAMS, ids=[f"{f.__name__}{n}" for n, (f, _) in enumerate(PROGRAMS)]
)
def test_compiles_without_local_memory(function, args):
    kernels = compile_on_device(function, args)
    assert kernels
    for kernel in kernels:
        # Numba's part, which takes most of the time, is the same for all devices.
        library = to_library(kernel, print_kernel(kernel), CAPABILITIES[0], False)
        for capability in CAPABILITIES:
            text, _ = assembled(library, capability)
            assert f".target sm_{capability[0]}{capability[1]}" in text
            # Whatever is called must be there.
            assert not count(r"\.local\b|\.extern \.func", [text])


@pytest.mark.parametrize(
    "name", ["chain", "softmax", "log_softmax", "layer_norm", "rms_norm", "total", "standardize"]
)
def test_float32_programs_have_no_double_precision(name):
    function, args = case(name)
    assert not count(r"\.f64", ptx_of((function, args), (9, 0)))


def angles(x):
    return np.sin(x), np.cos(x), np.tan(x)


def complex_functions(x):
    return np.exp(x), np.abs(x)


def of_special(x):
    return special.gamma(x)


def of_two(x, y):
    return x**y, np.hypot(x, y)


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (angles, (WIDE,)),
        (of_special, (WIDE,)),
        (complex_functions, (WIDE.astype(np.complex64),)),
        (of_two, (WIDE, WIDE)),
    ],
)
def test_functions_of_float32_have_no_double_precision(function, args):
    texts = ptx_of((function, args), (9, 0))
    assert count(r"sqrt\.rn\.f32|fma\.rn\.f32", texts) > 20
    assert not count(r"\.f64|\.local\b|\.extern \.func", texts)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def test_cubes_of_halves_are_products():
    (text,) = ptx_of((cubes, (HALVES,)), (9, 0))
    assert count(r"ld\.global\.v4\.u32", [text]) == 2
    # Two vectors of eight and the elements that are left, as float32.
    assert count(r"mul\.rn\.f32", [text]) == 2 * 17
    assert not count(r"\bfma\.|\bdiv\.|\.f64|\.local\b", [text])


def cubes(x):
    return x**3


def test_exponentials_are_those_of_the_device():
    (text,) = ptx_of((gelu, (WIDE,)), (9, 0))
    # Two vectors, and the elements that are left.
    assert count(r"ex2\.approx", [text]) == count(r"rcp\.approx", [text]) == 2 * 4 + 1
    assert not count(r"\bdiv\.|\.f64|\.local\b|\.extern \.func", [text])


@pytest.mark.parametrize("capability", CAPABILITIES, ids=["sm_80", "sm_90"])
def test_machine_code_is_made_once(capability, tmp_path, monkeypatch):
    monkeypatch.setenv("JITCORE_CACHE", "1")
    monkeypatch.setenv("JITCORE_CACHE_DIR", str(tmp_path))
    (kernel,) = compile_on_device(*case("layer_norm"))
    image = compile_kernel(kernel, capability, contract=False)
    assert image.cubin is not None and image.cubin[:4] == b"\x7fELF"
    assert image.entry.encode() in image.cubin

    def again(*_):
        raise AssertionError("compiled once more")

    monkeypatch.setattr("jitcore.codegen.cuda.compiler.to_ptx", again)
    monkeypatch.setattr("jitcore.codegen.cuda.linking._linked", again)
    assert compile_kernel(kernel, capability, contract=False) == image


def test_refused_code_is_an_error_with_the_log():
    with pytest.raises(DriverError, match=r"linking broken.*\n.*syntax error"):
        to_cubin(".version 8.0\n.target sm_80\n.address_size 64\nnonsense;\n", "broken", (8, 0))


def test_elements_are_moved_by_16_bytes():
    (text,) = ptx_of(case("chain"), (9, 0))
    assert count(r"ld\.global\.v4\.f32", [text]) == 2
    assert count(r"st\.global\.v4\.f32", [text]) == 1
    (text,) = ptx_of(case("chain", 1), (9, 0))
    assert count(r"ld\.global\.v2\.f64", [text]) == 4


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_nothing_is_divided_before_elements_are_loaded(dtype, dynamic):
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    x = np.ones((512, 512), np.dtype(dtype))
    kernels = compile_on_device(squared, (x,), dynamic=dynamic)
    texts = [to_ptx(one, print_kernel(one), (9, 0), False)[0] for one in kernels]
    # Threads go on by the grid's size.
    step = (
        r"blocks, %nctaid\.x; mov\.u32 threads, %ntid\.x; mul\.wide\.u32 %rd\d+, blocks, threads;"
    )
    assert count(step, texts) == 2
    # To unroll the loop over vectors, the compiler would have to know how often it runs.
    assert len(texts) == 1 and not count(r"\b(div|rem)\.", texts)
    assert count(r"ld\.global\.v[24]", texts) == 2


def squared(x):
    return x * x + x


def of_rows(x, row):
    return x * row + 1


def of_columns(x):
    return x.sum(axis=0)


def every_second(x):
    return x[:, ::2] * 2


def of_neighbours(x):
    return x[:, 1:-3] - x[:, :-4]


@pytest.mark.parametrize("capability", CAPABILITIES, ids=["sm_80", "sm_90"])
def test_broadcasts_are_moved_by_vectors_without_a_division(capability):
    (text,) = ptx_of((of_rows, (WIDE, WIDE[0])), capability)
    assert count(r"ld\.global\.v4\.f32", [text]) == 4
    assert count(r"st\.global\.v4\.f32", [text]) == 2
    assert not count(r"\b(div|rem)\.|mul\.hi\.[su]64", [text])


def test_what_lies_between_vectors_is_loaded_beside_them():
    (text,) = ptx_of((of_neighbours, (WIDE,)), (9, 0))
    # Two vectors, and next to each its four neighbours; then the elements that are left.
    assert count(r"ld\.global\.v4\.f32", [text]) == count(r"st\.global\.v4\.f32", [text]) == 2
    assert count(r"ld\.global\.f32", [text]) == 2 * 4 + 2


def test_four_single_elements_are_on_their_way():
    (text,) = ptx_of((every_second, (WIDE,)), (9, 0))
    assert count(r"ld\.global\.f32", [text]) == 4 + 1


def test_eight_rows_of_a_column_are_on_their_way():
    parts, _ = ptx_of((of_columns, (np.ones((1 << 14, 64), np.float32),)), (9, 0))
    assert count(r"ld\.global\.f32", [parts]) == 8 + 1


def test_four_vectors_of_columns_are_on_their_way():
    parts, _ = ptx_of((of_columns, (np.ones((1 << 12, 1 << 12), np.float32),)), (9, 0))
    # And of a row that is left; by elements of eight rows, where they are not aligned.
    assert count(r"ld\.global\.v4\.f32", [parts]) == 4 + 1
    assert count(r"ld\.global\.f32", [parts]) == 8 + 1
    assert not count(r"\.f64|\.local\b|\b(div|rem)\.", [parts])


@pytest.mark.parametrize(("name", "number", "threads"), [("chain", 3, 256), ("softmax", 2, 96)])
def test_the_compiler_knows_how_many_threads_blocks_have(name, number, threads):
    (text,) = ptx_of(case(name, number), (9, 0))
    # Registers are shared out among them.
    assert count(rf"\.maxntid {threads}, 1, 1", [text]) == 1


def test_two_vectors_are_on_their_way():
    (text,) = ptx_of(case("chain", 3), (9, 0))
    assert count(r"ld\.global\.v4\.f32", [text]) == 4
    assert count(r"st\.global\.v4\.f32", [text]) == 2
    # All loads come before the first number is computed with.
    vectors, _, rest = text.rpartition("ld.global.v4.f32")
    assert "mul.rn.f32" not in vectors and "mul.rn.f32" in rest


def test_rows_are_one_kernel_with_shuffles():
    (text,) = ptx_of(case("softmax", 2), (9, 0))
    # Two reductions, each within warps and then among them.
    assert count(r"shfl\.sync\.bfly", [text]) == 20


def test_short_rows_are_those_of_single_warps():
    (text,) = ptx_of(case("softmax"), (9, 0))
    assert count(r"shfl\.sync\.bfly", [text]) == 10
    assert not count(r"bar\.sync", [text])


@pytest.mark.parametrize(("function", "args", "operands", "vectors"), ROWS)
def test_rows_are_read_and_written_once(function, args, operands, vectors):
    (text,) = ptx_of((function, args), (9, 0))
    # Whole vectors, or else, where a row does not begin at 16 bytes, each element.
    assert count(r"ld\.global\.v4\.f32", [text]) == vectors * operands
    assert count(r"ld\.global\.f32", [text]) == vectors * operands * 4
    assert count(r"st\.global\.v4\.f32", [text]) == vectors
    assert count(r"st\.global\.f32", [text]) == vectors * 4


@pytest.mark.parametrize(
    ("function", "args"),
    [
        *((softmax, (WIDE[:, :extent].copy(),)) for extent in (256, 4096)),
        (layer_norm, (WIDE, WIDE[0], WIDE[0])),
        (layer_norm, (LONGEST, LONGEST[0], LONGEST[0])),
        (softmax, (LONGEST.astype(np.float64),)),
    ],
)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_registers_hold_what_rows_need(function, args, dynamic):
    linker = importlib.import_module("cuda.bindings.nvjitlink")
    options = ["-arch=sm_90", "-verbose"]
    kernel = compile_on_device(function, args, dynamic=dynamic)[0]
    ptx, _ = to_ptx(kernel, print_kernel(kernel), (9, 0), False)
    handle = linker.create(len(options), options)
    linker.add_data(handle, linker.InputType.PTX, ptx.encode(), len(ptx), "kernel")
    linker.complete(handle)
    text = bytearray(linker.get_info_log_size(handle))
    linker.get_info_log(handle, text)
    linker.destroy(handle)
    assert re.search(rb"\b0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads", text)


def test_rows_that_are_read_once_have_two_vectors_on_their_way():
    (text,) = ptx_of((means, (WIDE,)), (9, 0))
    vectors, _, rest = text.rpartition("ld.global.v4.f32")
    assert count(r"ld\.global\.v4\.f32", [text]) == 2
    assert "add.rn.f32" not in vectors and "add.rn.f32" in rest
    assert not count(r"\b(div|rem)\.[su]", [vectors]) and not count(r"\.f64|\.local\b", [text])


def test_parts_of_few_long_rows_are_read_by_vectors():
    parts, whole = ptx_of((means, (np.ones((8, 1 << 20), np.float32),)), (9, 0))
    assert count(r"ld\.global\.v4\.f32", [parts]) and not count(r"ld\.global\.v4", [whole])
    assert not count(r"\.f64|\.local\b", [parts, whole])


def means(x):
    return x.mean(axis=1)


def test_totals_are_one_kernel_without_a_division_before_loads():
    (text,) = ptx_of((total, (np.ones(1 << 24, np.float32),)), (9, 0))
    before, _, joining = text.partition("atom.acq_rel.gpu.inc")
    assert count(r"ld\.global\.v4\.f32", [before]) == 2 and count(r"ld\.global", [joining])
    assert not count(r"\b(div|rem)\.", [before]) and not count(r"\.f64|\.local\b", [text])


def running_rows(x):
    return np.cumsum(x, axis=1)


def test_scans_of_rows_are_moved_by_vectors():
    (text,) = ptx_of((running_rows, (WIDE,)), (9, 0))
    assert count(r"ld\.global\.v4\.f32", [text]) == count(r"st\.global\.v4\.f32", [text]) == 1
    assert not count(r"\.f64|\.local\b|\b(div|rem)\.", [text])


def running(x):
    return np.cumsum(x)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_long_scans_read_once_and_wait_for_others_in_order(capability):
    (text,) = ptx_of((running, (np.ones(1 << 22, np.float32),)), capability)
    assert count(r"ld\.global\.v4\.f32", [text]) == count(r"st\.global\.v4\.f32", [text]) == 4
    # Sums lie in memory before the words that tell so, and are read after these.
    pattern = r"(?:ld|st)\.f32|st\.release\.gpu|ld\.acquire\.gpu"
    ordered = [one for one, _ in itertools.groupby(re.findall(pattern, text))]
    leaving, waiting = ["st.f32", "st.release.gpu"], ["ld.acquire.gpu", "ld.f32"]
    assert ordered == (leaving + waiting * 2 + leaving) * 2 + ["ld.f32"]
    assert not count(r"\.f64|\.local\b|\.extern \.func|\b(div|rem)\.", [text])


@pytest.mark.parametrize(("function", "make"), SERIAL)
def test_loops_in_order_compile(function, make):
    for kernel in compile_on_device(function, make()):
        (text,) = [to_ptx(kernel, print_kernel(kernel), (9, 0), False)[0]]
        assert not count(r"\.local\b|\.extern \.func", [text])
        # Threads wait for each other where there are several.
        is_shared = "one block, an iteration" in kernel.mapping
        assert not is_shared or count(r"bar\.sync|barrier\.sync", [text])


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("function", [looked_up, on_the_left])
def test_threads_note_the_first_iteration_that_fails(function, capability):
    keys = PLACES if function is looked_up else TABLE
    kernels = compile_on_device(function, (TABLE, keys))
    (shared,) = [one for one in kernels if one.mapping == "a thread per element"]
    (text,) = [to_ptx(shared, print_kernel(shared), capability, False)[0]]
    assert count(r"red\.relaxed\.gpu\.global\.min\.s64", [text])
    assert not count(r"\.local\b|\.extern \.func|bar\.sync", [text])


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize(("function", "bits"), [(counted, 64), (of_int32, 32)])
def test_integers_are_added_up_by_atomic_operations(function, bits, capability):
    values = () if function is counted else (PLACES.astype(np.int32),)
    kernels = compile_on_device(function, (np.abs(PLACES), *values))
    texts = [to_ptx(one, print_kernel(one), capability, False)[0] for one in kernels]
    assert count(rf"red\.relaxed\.gpu\.global\.add\.u{bits}", texts) == 1
    assert not count(r"\.local\b|\.extern \.func", texts)


def test_transposes_go_through_shared_memory():
    (text,) = ptx_of(case("plus_transposed"), (9, 0))
    # Each thread takes four elements of two arrays: by vectors in whole tiles, else singly.
    assert count(r"ld\.global\.v4\.f32", [text]) == 2
    assert count(r"st\.global\.v4\.f32", [text]) == 1
    assert count(r"ld\.global\.f32", [text]) == 8
    # Of them one array is transposed.
    assert count(r"st\.shared\.f32", [text]) == 2 * 4
    assert count(r"ld\.shared\.f32", [text]) == 2 * 4
    assert count(r"bar\.sync", [text]) == 2 * 2


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_transposes_of_halves_have_two_vectors_on_their_way(dtype):
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    x = np.ones((128, 128), np.dtype(dtype))
    (text,) = ptx_of((case("plus_transposed")[0], (x, x)), (9, 0))
    assert count(r"ld\.global\.v4\.u32", [text]) == 2 * 2
    assert count(r"st\.global\.v4\.u32", [text]) == 2
    assert not count(r"\.local\b|\.f64", [text])


def sum_of_products(x, y):
    return (x * y).sum()


def means_of_products(x, y):
    return (x * y).mean(axis=1)


@pytest.mark.parametrize(
    ("function", "args"),
    [case("broadcast"), (sum_of_products, (WIDE, WIDE)), (means_of_products, (WIDE, WIDE))],
)
def test_products_are_fused_only_where_that_is_allowed(function, args):
    strict, fused = (ptx_of((function, args), (9, 0), contract=one) for one in (False, True))
    assert not count(r"fma\.rn", strict)
    assert count(r"fma\.rn\.f32", fused)


def test_products_of_matrices_use_shared_memory():
    texts = ptx_of(case("np_matmul", 3), (9, 0))
    assert count(r"ld\.shared", texts) > 0
    assert count(r"fma\.rn\.f64", texts) >= 16


HALVES = np.ones((64, 1024), np.float16)


def polynomial(x, y):
    return (x * y + x) * x - y


def mean_of_columns(x):
    return x.mean(axis=0)


def product_of_rows(x):
    return x @ x.T


def with_bias(x, y, bias):
    return np.maximum(x @ y.T + bias, 0)


def test_halves_are_moved_by_16_bytes_and_never_converted():
    (text,) = ptx_of((polynomial, (HALVES, HALVES)), (9, 0))
    # Two vectors of two arrays; a vector is eight numbers.
    assert count(r"ld\.global\.v4\.u32", [text]) == 4
    assert count(r"st\.global\.v4\.u32", [text]) == 2
    assert count(r"mul\.rn\.f16", [text]) and not count(r"cvt\.\S*f16|\.f32|\.f64", [text])


@pytest.mark.parametrize("function", [softmax, mean_of_columns, product_of_rows])
def test_sums_of_halves_are_kept_in_float32(function):
    texts = ptx_of((function, (HALVES,)), (9, 0))
    assert count(r"(add|fma)\.rn\.f32", texts)
    assert not count(r"(add|fma)\.rn\.f16|\.f64|\.local\b", texts)


def test_rows_of_halves_are_read_once():
    (text,) = ptx_of((softmax, (HALVES,)), (9, 0))
    assert count(r"ld\.global\.v4\.u32", [text]) == 1
    assert count(r"st\.global\.v4\.u32", [text]) == 1


def bfloats():
    return np.ones((64, 1024), pytest.importorskip("ml_dtypes").bfloat16)


@pytest.mark.parametrize("capability", CAPABILITIES, ids=["sm_80", "sm_90"])
def test_bfloats_are_moved_by_16_bytes_and_rounded_by_one_instruction(capability):
    (text,) = ptx_of((polynomial, (bfloats(), bfloats())), capability)
    assert count(r"ld\.global\.v4\.u32", [text]) == 4
    assert count(r"st\.global\.v4\.u32", [text]) == 2
    # Four operations on two vectors of eight, and on the elements that are left.
    assert count(r"cvt\.rn\.bf16\.f32", [text]) == 4 * 17
    assert count(r"(mul|add|sub)\.rn\.f32", [text]) == 4 * 17
    assert not count(r"\.f64|\.f16\b|\.local\b", [text])


def test_older_devices_round_bfloats_by_words():
    (kernel,) = compile_on_device(polynomial, (bfloats(), bfloats()))
    source = print_kernel(kernel, capability=(7, 5))
    text, _ = to_ptx(kernel, source, (7, 5), False)
    assert ".target sm_75" in text and not count(r"\.bf16", [text])


@pytest.mark.parametrize(("capability", "has_instruction"), [((9, 0), True), ((7, 5), False)])
def test_the_greatest_of_a_row_is_one_instruction(capability, has_instruction):
    (kernel,) = compile_on_device(softmax, (X,))
    source = print_kernel(kernel, capability=capability)
    text, _ = to_ptx(kernel, source, capability, False)
    assert bool(count(r"max\.NaN\.f32", [text])) == has_instruction
    assert bool(count(r"setp\.nan\.f32", [text])) != has_instruction


def test_rows_of_bfloats_are_read_once():
    (text,) = ptx_of((softmax, (bfloats(),)), (9, 0))
    assert count(r"ld\.global\.v4\.u32", [text]) == 1
    assert count(r"st\.global\.v4\.u32", [text]) == 1


def test_products_of_bfloats_read_them_as_they_are():
    (text,) = ptx_of((product_of_rows, (bfloats(),)), (9, 0))
    assert count(r"fma\.rn\.f32", [text]) >= 16 and count(r"ld\.global\.u16", [text])
    assert not count(r"\.f64|\.local\b", [text])


def test_epilogues_are_in_the_kernel_of_the_product():
    square = np.ones((64, 64), np.float32)
    (text,) = ptx_of((with_bias, (square, square, square[0])), (9, 0))
    assert count(r"fma\.rn\.f32", [text]) >= 16 and count(r"bar\.sync", [text])
    # The sums never leave the registers.
    assert not count(r"\.local\b|\.f64", [text])
    assert count(r"st\.global\.f32", [text]) == 16
