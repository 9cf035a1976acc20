"""Compiles printed kernels to PTX, by numba.cuda; what was compiled once is on disk.

PTX is the assembly language of devices; ``linking`` makes the machine code of one.
"""

from __future__ import annotations

import hashlib
import importlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from jitcore.codegen.cache import StoredObject, current
from jitcore.codegen.cuda.driver import DriverError
from jitcore.codegen.cuda.kernels import Kernel, most_threads
from jitcore.codegen.cuda.linking import to_cubin
from jitcore.codegen.printers.numba_cuda import print_kernel
from jitcore.codegen.printers.numba_source import parameter_type, python_name
from jitcore.ir.dataclass import dataclass

__all__ = [
    "CompileKernel",
    "Image",
    "assembled",
    "compile_kernel",
    "compiling_by",
    "to_library",
    "to_ptx",
]

_ENTRY = re.compile(r"\.visible \.entry ([^\s(]+)")
_INSTALL = (
    "compiling for CUDA needs numba-cuda and the CUDA toolkit's libraries; install them with "
    'pip install "jitcore[cuda]"'
)

_HEADER = """\
{name}: a kernel that jitcore made, as source for numba.cuda: {mapping}.

Addresses are int64: a pointer to the first element for each array."""


@dataclass(frozen=True, slots=True)
class Image:
    """A compiled kernel.

    Parameters
    ----------
    source : str
        For numba.cuda.
    ptx : str
    entry : str
        The kernel's symbol in it.
    cubin : bytes or None
        Its machine code; None where the driver has to make that.
    """

    source: str
    ptx: str
    entry: str
    cubin: bytes | None = None


CompileKernel = Callable[[Kernel, str, tuple[int, int], bool], tuple[str, str]]
"""Makes PTX, and says the kernel's symbol in it: of the kernel, its source, a compute capability,
and whether a multiplication and an addition may become one fused operation."""


def compile_kernel(kernel: Kernel, capability: tuple[int, int], *, contract: bool) -> Image:
    """Compile a kernel for devices of a compute capability.

    Raises
    ------
    DriverError
        Where numba-cuda or what it needs is missing; the message says what to install.
    """
    header = _HEADER.format(name=kernel.name, mapping=kernel.mapping)
    source = print_kernel(kernel, header=header, capability=capability)
    if _compilers:
        return Image(source, *_compilers[-1](kernel, source, capability, contract))
    ptx, entry = _stored_ptx(kernel, source, capability, contract)
    return Image(source, ptx, entry, to_cubin(ptx, kernel.name, capability))


def _stored_ptx(
    kernel: Kernel, source: str, capability: tuple[int, int], contract: bool
) -> tuple[str, str]:
    """PTX from the disk where it is there, and the kernel's symbol."""
    files = current()
    if files is None:
        return to_ptx(kernel, source, capability, contract)
    parts = (_version(), _toolkit(), capability, contract, most_threads(kernel), source)
    key = hashlib.sha256(repr(parts).encode()).hexdigest()
    stored = files.load(key)
    if stored is None:
        ptx, entry = to_ptx(kernel, source, capability, contract)
        stored = StoredObject((ptx.encode(),), (entry,), ())
        files.store(key, stored)
    return stored.objects[0].decode(), stored.symbols[0]


_compilers: list[CompileKernel] = []


@contextmanager
def compiling_by(compiler: CompileKernel) -> Iterator[None]:
    """Have another compiler make the images, without the disk; for tests."""
    _compilers.append(compiler)
    try:
        yield
    finally:
        _compilers.pop()


def _version() -> str:
    try:
        version: str = importlib.import_module("numba_cuda").__version__
    except ImportError as error:
        raise DriverError(_INSTALL) from error
    return version


@cache
def _toolkit() -> tuple[object, ...]:
    """What tells one installed toolkit from another: its libdevice, a file beside NVVM.

    PTX of a toolkit that is newer than the driver is of no use after an older one was installed.
    """
    try:
        place = importlib.import_module("cuda.pathfinder").find_bitcode_lib("device")
        found = Path(place).stat()
    except (ImportError, RuntimeError, OSError):
        # NVVM may lie where only Numba looks for it.
        return ()
    return place, found.st_size, found.st_mtime_ns


def to_ptx(
    kernel: Kernel, source: str, capability: tuple[int, int], contract: bool
) -> tuple[str, str]:
    """PTX of a kernel's source, and the kernel's symbol."""
    _version()
    missing: Any = importlib.import_module("cuda.pathfinder").DynamicLibNotFoundError
    try:
        return assembled(to_library(kernel, source, capability, contract), capability)
    except missing as error:
        # numba-cuda alone brings none of them.
        raise DriverError(f"{_INSTALL} ({error})") from error


def to_library(kernel: Kernel, source: str, capability: tuple[int, int], contract: bool) -> Any:
    """What Numba makes of a kernel's source: LLVM's code, from which NVVM makes PTX."""
    compiler: Any = importlib.import_module("numba.cuda.compiler")
    types: Any = importlib.import_module("numba").types
    name = python_name(kernel.name)
    namespace: dict[str, Any] = {"__name__": "jitcore.kernel"}
    filename = f"<jitcore kernel {kernel.name}>"
    with _compiling_for(capability):
        exec(compile(source, filename, "exec"), namespace)
        function = namespace[name].py_func
        signature = types.void(
            *(getattr(types, parameter_type(param.dtype)) for param in kernel.params)
        )
        library, _ = compiler._compile_pyfunc_with_fixup(
            function,
            signature,
            debug=None,
            lineinfo=False,
            device=False,
            fastmath=False,
            cc=capability,
            opt=None,
            abi="numba",
            abi_info=None,
            forceinline=False,
            # Otherwise a kernel might take more registers than such a block has.
            launch_bounds=most_threads(kernel),
            lto=False,
        )
    # The public functions have no option for this, which NVVM allows by default.
    library._nvvm_options["fma"] = int(contract)
    return library


def assembled(library: Any, capability: tuple[int, int]) -> tuple[str, str]:
    """PTX of what Numba has made, for devices of a compute capability; and the kernel's symbol."""
    with _compiling_for(capability):
        ptx: str = library.get_asm_str(cc=capability)
    entry = _ENTRY.search(ptx)
    assert entry is not None
    return ptx, entry[1]


@contextmanager
def _compiling_for(capability: tuple[int, int]) -> Iterator[None]:
    """Have numba.cuda compile device functions for a device that need not be there.

    It asks the current device for its compute capability, in this one place, also when kernels
    are compiled for another one.
    """
    dispatcher: Any = importlib.import_module("numba.cuda.dispatcher")
    original = dispatcher.get_current_device
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=capability)
    try:
        yield
    finally:
        dispatcher.get_current_device = original
