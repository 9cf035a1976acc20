"""Functions of NVIDIA's library for devices, run on the processor: ``make test-cuda``.

Its code is there as bitcode of LLVM.  The instructions of devices that it uses are replaced by
others; those that estimate give the number next to the right one, above or below.
"""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import ctypes
import importlib.metadata
import re
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest
from test_vecmath import ULP_LIMIT
from test_vecmath_float32 import FUNCTIONS, errors, points

from jitcore.codegen.loops import Call, Return
from jitcore.codegen.vecmath import function, libdevice, on_device


def _bitcode() -> Path | None:
    try:
        files = importlib.metadata.files("nvidia-nvvm") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((Path(str(one.locate())) for one in files if one.name == "libdevice.10.bc"), None)


BITCODE = _bitcode()

pytestmark = pytest.mark.skipif(BITCODE is None, reason="needs libdevice: make test-cuda")


def _symbol(name: str) -> str:
    """The function of the library that is one of vector math; empty where that does more."""
    (*before, last) = function(on_device(name, "float32"), "float32").body
    is_alone = not before and isinstance(last, Return) and isinstance(last.value, Call)
    return f"__nv_{last.value.name}" if is_alone else ""  # type: ignore[union-attr]


SYMBOLS = {name: symbol for name in libdevice.FUNCTIONS if (symbol := _symbol(name))}

EXACT = {
    "copysign.f32": "%r = call float @llvm.copysign.f32(float %x, float %y)",
    "fabs.f32": "%r = call float @llvm.fabs.f32(float %x)",
    "fma.rn.f": "%r = call float @llvm.fma.f32(float %x, float %y, float %z)",
    "mul.rn.f": "%r = fmul float %x, %y",
    "saturate.f": """%low = call float @llvm.maxnum.f32(float %x, float 0.0)
  %r = call float @llvm.minnum.f32(float %low, float 1.0)""",
    "trunc.f": "%r = call float @llvm.trunc.f32(float %x)",
    "fma.rm.f": """%sum = call double @llvm.fma.f64(double %a, double %b, double %c)
  %near = fptrunc double %sum to float
  %back = fpext float %near to double
  %is_above = fcmp ogt double %back, %sum
  %bits = bitcast float %near to i32
  %less = sub i32 %bits, 1
  %below = bitcast i32 %less to float
  %r = select i1 %is_above, float %below, float %near""",
}
"""What instructions give, of float32 ``x``, ``y`` and ``z`` that are ``a``, ``b`` and ``c``."""

ESTIMATES = {
    "div.approx.ftz.f": "fdiv double %a, %b",
    "ex2.approx.f32": "call double @llvm.exp2.f64(double %a)",
    "ex2.approx.ftz.f32": "call double @llvm.exp2.f64(double %a)",
    "lg2.approx.f": "call double @llvm.log2.f64(double %a)",
    "rcp.approx.ftz.f32": "fdiv double 1.0, %a",
    "rsqrt.approx.ftz.f": "fdiv double 1.0, %root",
}
"""The numbers that instructions estimate."""

ESTIMATED = """%root = call double @llvm.sqrt.f64(double %a)
  %exact = VALUE
  %rounded = fptrunc double %exact to float
  %size = call float @llvm.fabs.f32(float %rounded)
  %is_large = fcmp oge float %size, 0x3810000000000000
  %is_small = fcmp olt float %size, 0x3810000000000000
  %zero = call float @llvm.copysign.f32(float 0.0, float %rounded)
  %near = select i1 FLUSHES, float %zero, float %rounded
  %bits = bitcast float %near to i32
  %other = add i32 %bits, STEP
  %next = bitcast i32 %other to float
  %is_finite = fcmp olt float %size, 0x7FF0000000000000
  %may = and i1 %is_large, %is_finite
  %r = select i1 %may, float %next, float %near"""
"""Zero, infinities and powers of two of whole numbers are exact on devices."""

LOOP = """
define void @loop_NAME(ptr %x, ptr %y, i64 %count) {
entry:
  br label %next
next:
  %i = phi i64 [0, %entry], [%after, %next]
  %from = getelementptr float, ptr %x, i64 %i
  %to = getelementptr float, ptr %y, i64 %i
  %value = load float, ptr %from
  %result = call float @NAME(float %value)
  store float %result, ptr %to
  %after = add i64 %i, 1
  %more = icmp ult i64 %after, %count
  br i1 %more, label %next, label %end
end:
  ret void
}
"""


def _instruction(name: str, count: int, step: int) -> str:
    """What stands for an instruction of so many operands."""
    if name not in EXACT and name not in ESTIMATES:
        # Those that flush subnormal numbers are in branches that are never taken.
        return f"declare float @device.{name}({', '.join(['float'] * count)})\n"
    flushes = "%is_small" if ".ftz." in name else "false"
    text = ESTIMATED.replace("FLUSHES", flushes).replace("STEP", str(step))
    body = EXACT.get(name) or text.replace("VALUE", ESTIMATES[name])
    operands = "xyz"[:count]
    wide = "".join(
        f"  %{one} = fpext float %{x} to double\n" for one, x in zip("abc", operands, strict=False)
    )
    params = ", ".join(f"float %{x}" for x in operands)
    return f"define float @device.{name}({params}) {{\n{wide}  {body}\n  ret float %r\n}}\n"


def _called(text: str) -> list[str]:
    return re.findall(r"@([\w.]+)\(", text)


def _source(step: int) -> str:
    """The functions, and loops over arrays around them."""
    assert BITCODE is not None
    module = str(llvm.parse_bitcode(BITCODE.read_bytes()))
    blocks = re.findall(r"^define [^\n]*\{\n.*?^\}$", module, re.M | re.S)
    known = {_called(one)[0]: one for one in blocks}
    needed, queue = dict[str, str](), list(SYMBOLS.values())
    while queue:
        name = queue.pop()
        if name in known and name not in needed:
            needed[name] = known[name]
            queue += _called(known[name])
    body = re.sub(r" #\d+|, !srcloc !\d+", "", "\n".join(needed.values()))
    body = re.sub(r"call i32 @__nvvm_reflect\([^)]*\)", "add i32 0, 0", body)
    body = body.replace('asm "rcp.approx.ftz.f32 $0,$1;", "=f,f"', "@device.rcp.approx.ftz.f32")
    body = re.sub(r"@llvm\.(?:nvvm\.)?", "@device.", body)
    counts = {
        name: args.count("float")
        for name, args in re.findall(r"@device\.([\w.]+)\(([^)]*)\)", body)
    }
    made = "".join(_instruction(name, count, step) for name, count in counts.items())
    own = {one for one in _called(made) if one.startswith("llvm.")}
    operands = {"fma": 3, "copysign": 2, "maxnum": 2, "minnum": 2}
    declared = "".join(
        f"declare {type_} @{one}({', '.join([type_] * operands.get(one.split('.')[1], 1))})\n"
        for one in sorted(own)
        for type_ in ["double" if one.endswith("f64") else "float"]
    )
    loops = "".join(LOOP.replace("NAME", one) for one in SYMBOLS.values())
    return declared + made + body + loops


@pytest.fixture(scope="module", params=[0, 1, -1], ids=["right", "above", "below"])
def run(request):
    """Runs a function of the library, with estimates that are right or one unit off."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(_source(request.param))
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten()
    )
    options = llvm.create_pipeline_tuning_options(2)
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()

    def run(name, x):
        y = np.empty_like(x)
        loop = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
        address = engine.get_function_address(f"loop_{SYMBOLS[name]}")
        loop(address)(x.ctypes.data, y.ctypes.data, x.size)
        return y

    return run


@pytest.mark.parametrize("name", SYMBOLS)
def test_errors_are_below_four_ulp(name, run):
    for x in points():
        with np.errstate(all="ignore"):
            exact = FUNCTIONS[name](x.astype(np.float64))
            assert errors(run(name, x), exact).max() < ULP_LIMIT


@pytest.mark.parametrize("name", SYMBOLS)
def test_special_values_are_those_of_numpy(name, run):
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45], np.float32)
    with np.errstate(all="ignore"):
        wanted = FUNCTIONS[name](x)
    found = run(name, x)
    extreme = (wanted == 0) | ~np.isfinite(wanted)
    np.testing.assert_array_equal(found[extreme], wanted[extreme])
    signed = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found)[signed], np.signbit(wanted)[signed])
