"""From a typed graph to a native function that launches kernels: the pipeline's device branch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace

from jitcore.codegen.cuda import cublas, cublaslt, cudnn, driver
from jitcore.codegen.cuda.callbacks import definitions, is_callback
from jitcore.codegen.cuda.compiler import Image, compile_kernel
from jitcore.codegen.cuda.direct_runtime import ensure_direct
from jitcore.codegen.cuda.kernels import Kernel as DeviceKernel
from jitcore.codegen.cuda.launching import fill, launching_text
from jitcore.codegen.cuda.library_products import NO_LIBRARIES, Libraries
from jitcore.codegen.cuda.products import is_product
from jitcore.codegen.cuda.split import split
from jitcore.codegen.cuda.tuning import DEFAULT, Tuning
from jitcore.codegen.engine import compile_module
from jitcore.codegen.entries.entry import CaptureGuard, Entry
from jitcore.codegen.entries.signature import Layout, Param
from jitcore.codegen.loop_passes.traversal import walk
from jitcore.codegen.lower import Lowered, lower
from jitcore.codegen.printers.llvm import print_declaration, print_module
from jitcore.codegen.targets import CUDA
from jitcore.ir import log
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Graph
from jitcore.ir.passes.library_convolutions import LIBRARY_CONVOLUTION
from jitcore.pipeline import Kernel, NativePlan, compile_native

__all__ = ["DeviceCode", "compile_device"]


_FOREIGN_CODE = frozenset({200, 209, 222})
"""The driver's errors for machine code that it does not know: CUDA_ERROR_INVALID_IMAGE,
CUDA_ERROR_NO_BINARY_FOR_GPU and CUDA_ERROR_UNSUPPORTED_PTX_VERSION."""


@dataclass(slots=True, repr=False)
class DeviceCode(Kernel):
    """A native function and the kernels it launches.

    Parameters
    ----------
    images : tuple of Image
        One for each kernel, in the order of their names.
    modules : tuple of int
        The driver's modules, which stay loaded as long as this object lives.
    calls : tuple of str
        The functions that the native function calls, but for kernels' and LLVM's own.
    """

    images: tuple[Image, ...] = ()
    modules: tuple[int, ...] = ()
    calls: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """The kernels as numba.cuda source, each of which can be pasted into a file and run."""
        return "\n\n".join(image.source for image in self.images)

    @property
    def ptx(self) -> str:
        """The kernels in the device's assembly language."""
        return "\n".join(image.ptx for image in self.images)


def compile_device(
    graph: Graph,
    params: Sequence[Param | None],
    captures: Sequence[CaptureGuard],
    *,
    name: str,
    contract: bool,
    tuning: Tuning = DEFAULT,
) -> NativePlan | None:
    """Compile a typed graph for the thread's current device; None where parts are not native.

    The entry takes shadows (`codegen.cuda.memory`) in the place of arrays, inside a running call.

    Raises
    ------
    NotNative
        All nodes are native, but what the graph does with their results has no form for a device.
    DriverError
        There is no device, or what compiles for it is missing.
    """
    ensure_direct()
    return compile_native(
        graph, params, captures, name=name, contract=contract, backend=_Cuda(tuning)
    )


@dataclass(slots=True)
class _Cuda:
    """What the pipeline asks of a backend, for one function."""

    tuning: Tuning
    target = CUDA
    kernels: tuple[DeviceKernel, ...] = field(default=())

    def convolves(self) -> bool:
        """Whether there is a cuDNN."""
        return cudnn.available() is not None

    def lower(self, graph: Graph, layouts: Sequence[Layout | None], name: str) -> Lowered:
        """The host part; notes the kernels."""
        lowered = lower(graph, layouts, name=name, target=CUDA)
        products = any(map(is_product, walk(lowered.function.body)))
        libraries = self._libraries() if products else NO_LIBRARIES
        made = split(lowered, libraries, self.tuning)
        self.kernels = made.kernels
        product_notes = _product_notes(libraries) if products else ()
        notes = (*made.lowered.notes, *product_notes, *_convolution_notes(graph))
        return replace(made.lowered, notes=notes)

    @staticmethod
    def _libraries() -> Libraries:
        """The libraries for matrix products."""
        found = (cublas.available(), cublaslt.available())
        return Libraries(*("" if one is None else one.name for one in found))

    def compile(self, lowered: Lowered, entry: Entry, name: str, contract: bool) -> Kernel:
        """Machine code for host and device."""
        current = driver.current()
        capability = current.properties().compute_capability
        launches = {kernel.launch_symbol for kernel in self.kernels}
        host, calls = list[str](), list[str]()
        for line in print_module([lowered.function], contract).splitlines():
            declared = _declared(line) if line.startswith("declare") else ""
            if declared and declared not in launches and not declared.startswith("llvm."):
                calls.append(declared)
            if not is_callback(declared) and declared not in launches:
                host.append(line)
        callbacks = definitions(list(filter(is_callback, calls)))
        text = "\n".join([*host, launching_text(self.kernels), callbacks])
        guarded = print_declaration(lowered.function) + entry.text
        log.dump(name, text + guarded, ".ll")
        images, modules, handles = [], [], []
        for kernel in self.kernels:
            image = compile_kernel(kernel, capability, contract=contract)
            log.dump(kernel.name, image.ptx, ".ptx")
            modules.append(_loaded(current, image, kernel.name))
            handles.append((kernel, current.function(modules[-1], image.entry)))
            images.append(image)
        module = compile_module(text, name=name, beside=[(guarded, "code")])
        entry.fill(module)
        fill(module, current.launch_address, handles)
        return DeviceCode(name, lowered, module, None, tuple(images), tuple(modules), tuple(calls))


def _product_notes(libraries: Libraries) -> Iterator[str]:
    """For reports: who multiplies matrices, and who does what follows."""
    if not libraries.product:
        yield "no cuBLAS is found: kernels multiply matrices, and do what follows where they can"
        return
    yield f"{libraries.product} multiplies matrices, and kernels those that it does not take"
    if libraries.with_bias:
        yield (
            f"{libraries.with_bias} also adds a bias; activations are kernels of their own, since "
            "its ReLU need not keep NaN, and its GELU is an approximation"
        )


def _convolution_notes(graph: Graph) -> Iterator[str]:
    """For reports: who computes convolutions."""
    library = cudnn.available() if graph.find_all_nodes(LIBRARY_CONVOLUTION) else None
    if library is not None:
        yield f"{library.name} computes convolutions, and kernels those that it does not take"


def _loaded(current: driver.Driver, image: Image, name: str) -> int:
    """The module of a kernel; an older driver than its machine code is for compiles the PTX."""
    if image.cubin is not None:
        try:
            return current.load_module(image.cubin, name=name)
        except driver.DriverError as error:
            if error.code not in _FOREIGN_CODE:
                raise
            log.debug("cuda", f"{name}: {error}; the driver compiles the PTX")
    return current.load_module(image.ptx, name=name)


def _declared(line: str) -> str:
    return line.partition("@")[2].partition("(")[0]
