"""The printer for CUDA: kernels as readable Python source for ``numba.cuda``.

The source imports Numba and the primitives it uses, and can be pasted into a file and run on a
machine with a GPU.  Addresses are ``int64``, as in the source for the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from jitcore.codegen import vecmath
from jitcore.codegen.cuda.kernels import Kernel, Scope, ThreadFor
from jitcore.codegen.cuda.products import SUMS
from jitcore.codegen.loop_passes.traversal import walk
from jitcore.codegen.loops import Call, Continue, For, Function, Return
from jitcore.codegen.lowering.arithmetic import ZERO
from jitcore.codegen.printers.numba_source import (
    FunctionPrinter,
    SourceModule,
    python_name,
)

__all__ = ["print_kernel"]

_SHARES: dict[Scope, tuple[str, str]] = {
    "grid": ("cuda.grid(1)", "cuda.gridsize(1)"),
    "blocks": ("int64(cuda.blockIdx.x)", "int64(cuda.gridDim.x)"),
    "block": ("int64(cuda.threadIdx.x)", "int64(cuda.blockDim.x)"),
    "warp": ("int64(cuda.threadIdx.x & 31)", "32"),
    "parts": ("int64(cuda.threadIdx.x >> 5)", "int64(cuda.blockDim.x >> 5)"),
}
"""The first iteration of a thread, and how far it is to its next one."""

_STEPS: dict[Scope, tuple[str, str]] = {
    "grid": ("grid_step", "{}()"),
    "block": ("block_step", "{}()"),
    "parts": ("block_step", "{}() >> 5"),
}
"""Primitives for how far that is where the compiler is not to know."""

_PREFIX = "cuda."
_OTHER_FORMS = {
    **{name: name for name in ("fabs", "negative", "rint", "trunc")},
    **{name: name for name in ("maximum", "maximum_half", "minimum", "minimum_half")},
    **{name: name for name in ("accumulate_add", "accumulate_mul", "accumulate_sub")},
    "accumulate_min": "minimum",
    "accumulate_max": "maximum",
}
_SINCE_80 = {"accumulate_min": "least", "accumulate_max": "greatest", "bfloat": "bfloat"}
"""Primitives that are an instruction from compute capability 8.0 on."""

_EXCHANGED = frozenset({"int32", "int64", "float16", "float32", "float64"})
"""What threads tell each other as it is; a float16 is a float32 then."""

_SCANS = ("before_", "next_tile", "of_last_")
"""What the names of the primitives for scans begin with."""

_PLACES = {"before_tiles": 2, "of_last_tile": 1}
"""How many of the last arguments are no values of the dtype."""

_VECTORS_OF = {"float16": "halves", "bfloat16": "bfloats"}
"""What vectors of dtypes are called whose numbers are float32 in the source."""

_SPELLED = {
    "is_first": "(cuda.threadIdx.x == 0)",
    "is_in_first_warp": "(cuda.threadIdx.x < 32)",
    "is_first_lane": "((cuda.threadIdx.x & 31) == 0)",
    "lane_in_warp": "int64(cuda.threadIdx.x & 31)",
    "warp": "int64(cuda.threadIdx.x >> 5)",
    "thread": "int64(cuda.threadIdx.x)",
    "threads": "int64(cuda.blockDim.x)",
    "block": "int64(cuda.blockIdx.x)",
    "blocks": "int64(cuda.gridDim.x)",
    "barrier": "cuda.syncthreads()",
}


def print_kernel(kernel: Kernel, *, header: str = "", capability: tuple[int, int] = (8, 0)) -> str:
    """Print a kernel, and the vector math it calls, as Python source for ``numba.cuda``.

    Parameters
    ----------
    kernel : Kernel
    header : str
        Lines for a comment at the top.
    capability : tuple of two int
        The compute capability of the devices it is for.

    Returns
    -------
    str
        Source that defines the kernel under its name and runs nothing when it is imported.

    Raises
    ------
    KeyError
        When the kernel calls vector math that does not exist.
    ValueError
        When a primitive does not exist for a dtype.
    """
    module = _Module(capability)
    function = Function(kernel.name, kernel.params, kernel.body, "void")
    module.add(function, python_name(kernel.name), is_entry=True)
    return module.text(header)


class _Module(SourceModule):
    """The source of a kernel: device functions, and ``cuda`` itself."""

    def __init__(self, capability: tuple[int, int]) -> None:
        super().__init__(_KernelPrinter, "@cuda.jit(device=True)", "cuda")
        self.is_80 = capability >= (8, 0)
        self._device: set[str] = set()
        self._products: set[str] = set()
        self._calls_libdevice = False

    def primitive(self, name: str) -> str:
        """Import a primitive; some have another form on devices."""
        other = _OTHER_FORMS.get(name)
        if self.is_80:
            other = _SINCE_80.get(name, other)
        return super().primitive(name) if other is None else self.device_primitive(other)

    def device_primitive(self, name: str) -> str:
        """Import a primitive that only devices have."""
        self._device.add(name)
        return name

    def external(self, name: str, result: str, params: Sequence[str]) -> str:
        """Import what has C's functions on devices; gives the name of one in the source."""
        self._calls_libdevice = True
        return f"libdevice.{name}"

    def product(self, dtype: str) -> str:
        """Import the product of matrices of a dtype."""
        name = f"sums_of_{_VECTORS_OF.get(dtype, 'floats')}"
        self._products.add(name)
        return name

    def imports(self) -> list[tuple[str, Sequence[str]]]:
        """The modules of primitives, and what is imported from each."""
        found = super().imports()
        if self._calls_libdevice:
            found.insert(0, ("numba.cuda", ["libdevice"]))
        scans = {name for name in self._device if name.startswith(_SCANS)}
        if self._device - scans:
            found.append(("jitcore.codegen.cuda.primitives", sorted(self._device - scans)))
        if scans:
            found.append(("jitcore.codegen.cuda.scan_primitives", sorted(scans)))
        if self._products:
            found.append(("jitcore.codegen.cuda.matmul", sorted(self._products)))
        return found


class _KernelPrinter(FunctionPrinter):
    """Prints a kernel, or a function that it calls."""

    _module: _Module

    def __init__(self, module: SourceModule, function: Function, name: str, is_entry: bool) -> None:
        super().__init__(module, function, name, is_entry)
        self._statements[ThreadFor] = self._for

    def _return(self, statement: Return) -> None:
        if self._is_entry:
            # What a kernel has to say it has written to memory.
            self._writer.line("return")
        else:
            super()._return(statement)

    def decorator(self) -> str:
        return "@cuda.jit" if self._is_entry else self._module.decorator

    def _for(self, statement: For) -> None:
        if not isinstance(statement, ThreadFor):
            super()._for(statement)
            return
        first, step = _SHARES[statement.scope]
        skips = any(isinstance(one, Continue) for one in walk(statement.body))
        if statement.scope in _STEPS and not skips:
            primitive, text = _STEPS[statement.scope]
            step = text.format(self._module.device_primitive(primitive))
        if statement.scope != "grid":
            self._module.type("int64")
        if statement.start != ZERO:
            first = f"{self._operand(statement.start)} + {first}"
        stop = self._expression(statement.stop)
        outer = self._visible
        self._visible = dict(outer)
        name = self._bind(statement.var)
        if skips:
            self._block(f"for {name} in range({first}, {stop}, {step}):", statement.body)
        else:
            # Numba's range would begin with a division.
            self._writer.line(f"{name} = {first}")
            with self._writer.block(f"while {name} < {stop}:"):
                self._append(statement.body)
                self._writer.line(f"{name} += {step}")
        self._visible = outer

    def _call(self, expression: Call) -> str:
        name = expression.name.removeprefix(_PREFIX)
        if name == expression.name:
            own = vecmath.on_device(name, expression.dtype)
            return super()._call(replace(expression, name=own))
        if name in _SPELLED:
            if "int64" in _SPELLED[name]:
                self._module.type("int64")
            return _SPELLED[name]
        if expression.name.startswith(SUMS):
            dtype = expression.name.removeprefix(SUMS)
            function, own = self._module.product(dtype), self._convert_to(dtype)
            return f"{function}({self._list(expression.args)}, {own})"
        if name in ("load_vector", "store_vector", "lane"):
            return self._vector(name, expression)
        if name in ("is_last_block", "next_tile", "note_least"):
            function = self._module.device_primitive(name)
            return f"{function}({self._list(expression.args)})"
        if name == "add_to":
            places, added = self._list(expression.args[:2]), expression.args[2]
            value = f"{self._convert_to(added.dtype)}({self._expression(added)})"
            return f"{self._module.device_primitive(name)}({places}, {value})"
        if name in ("shared", "taken", "put"):
            return self._shared(name, expression)
        if name == "of_last_thread":
            value, own = self._list(expression.args), self._convert_to(expression.dtype)
            return f"{self._module.device_primitive(name)}({value}, {own})"
        return self._exchange(name, expression)

    def _exchange(self, name: str, expression: Call) -> str:
        """What threads tell each other: signed words and floats; other values travel as such."""
        dtype = expression.dtype
        team, _, op = name.partition("_")
        count = len(expression.args) - _PLACES.get(name.rpartition("_")[0], 0)
        values = [self._expression(x) for x in expression.args[:count]]
        places = [self._expression(x) for x in expression.args[count:]]
        if self._module.is_80 and team not in ("before", "of") and dtype in ("float16", "float32"):
            name = f"{team}_{_SINCE_80.get(f'accumulate_{op}', op)}"
        function = self._module.device_primitive(name)
        own = self._convert_to(dtype)
        if dtype in _EXCHANGED:
            return f"{function}({', '.join([*values, *places, own])})"
        word = self._module.type("int32" if np.dtype(dtype).itemsize < 4 else "int64")
        # With the highest bit turned over, the order of uint64 is that of signed words.
        is_turned = dtype == "uint64" and name.endswith(("min", "max"))
        turned = f" ^ {own}({1 << 63})" if is_turned else ""
        words = [f"{word}({x}{turned})" for x in values]
        return f"{own}({function}({', '.join([*words, *places, word])})){turned}"

    def _shared(self, name: str, expression: Call) -> str:
        """An array in shared memory, one of its elements, or a new value for that."""
        if name == "shared":
            dtype = self._convert_to(expression.dtype.split("x")[0])
            return f"cuda.shared.array(({self._list(expression.args)}), {dtype})"
        array, row, column, *values = expression.args
        places = (f"{self._module.type('uint32')}({self._expression(x)})" for x in (row, column))
        element = f"{self._expression(array)}[{', '.join(places)}]"
        return f"{element} = {self._list(values)}" if values else element

    def _vector(self, name: str, expression: Call) -> str:
        first, second, *others = expression.args
        if name == "lane":
            return f"{self._expression(first)}[{self._expression(second)}]"
        places = self._list((first, second))
        if name == "store_vector":
            stored = _VECTORS_OF.get(others[0].dtype)
            function = self._module.device_primitive(f"store_{stored}" if stored else name)
            return f"{function}({places}, ({self._list(others)}))"
        dtype, _, width = expression.dtype.rpartition("x")
        if dtype in _VECTORS_OF:
            function = self._module.device_primitive(f"load_{_VECTORS_OF[dtype]}")
            return f"{function}({places}, {width})"
        function = self._module.device_primitive(name)
        return f"{function}({places}, {self._convert_to(dtype)}, {width})"
