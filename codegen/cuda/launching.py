"""LLVM code that launches kernels: one function for each, without a word of Python on the way.

A launch function has the kernel's parameters, the number of blocks and that of threads, and gives
the driver's status.  What it calls, and with which handle, lies in variables of its module, which
``fill`` writes once the kernels are loaded; the text itself holds no address and can be cached.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from jitcore.codegen.cuda.kernels import Kernel
from jitcore.codegen.engine import CompiledModule
from jitcore.codegen.printers.llvm_instructions import memory_type

__all__ = ["fill", "launching_text"]

_HEADER = """\
@jc_cuda_stream = external global ptr
declare void @jc_cuda_enter(ptr)
declare ptr @jc_cuda_pause()
@cuda_launch = global ptr null
"""


def launching_text(kernels: Sequence[Kernel]) -> str:
    """The definitions of the launch functions of some kernels."""
    return "\n".join([_HEADER, *map(_definition, kernels)])


def _handle(kernel: Kernel) -> str:
    return f"handle_{kernel.name}"


def _definition(kernel: Kernel) -> str:
    types = [memory_type(param.dtype) for param in kernel.params]
    count = len(types)
    own = (f"{type_} %p{number}" for number, type_ in enumerate(types))
    params = ", ".join([*own, "i64 %blocks", "i64 %threads"])
    lines = [
        f"@{_handle(kernel)} = global ptr null",
        f"define i64 @{kernel.launch_symbol}({params}) {{",
        f"  %places = alloca [{max(count, 1)} x ptr]",
    ]
    for number, type_ in enumerate(types):
        lines += [
            f"  %place{number} = alloca {type_}, align 8",
            f"  store {type_} %p{number}, ptr %place{number}",
            f"  %slot{number} = getelementptr ptr, ptr %places, i64 {number}",
            f"  store ptr %place{number}, ptr %slot{number}",
        ]
    lines += [
        "  %launch = load ptr, ptr @cuda_launch",
        f"  %function = load ptr, ptr @{_handle(kernel)}",
        "  %stream = load ptr, ptr @jc_cuda_stream",
        "  %grid = trunc i64 %blocks to i32",
        "  %block = trunc i64 %threads to i32",
        # Python might run in the driver: tools hook into it, and tests have one of their own.
        "  %record = call ptr @jc_cuda_pause()",
        "  %code = call i32 %launch(ptr %function, i32 %grid, i32 1, i32 1, i32 %block, i32 1, "
        "i32 1, i32 0, ptr %stream, ptr %places, ptr null)",
        "  call void @jc_cuda_enter(ptr %record)",
        "  %status = zext i32 %code to i64",
        "  ret i64 %status",
        "}",
        "",
    ]
    return "\n".join(lines)


def fill(module: CompiledModule, launch: int, handles: Sequence[tuple[Kernel, int]]) -> None:
    """Tell a module's launch functions the address of the driver's, and their kernels' handles."""
    words = [("cuda_launch", launch), *((_handle(kernel), value) for kernel, value in handles)]
    for symbol, value in words:
        ctypes.c_uint64.from_address(module.address(symbol)).value = value
