"""Compilation of loop-nest functions by Numba, from the source that ``numba_source`` prints."""

from __future__ import annotations

import itertools
import linecache
import weakref
from typing import Any

from jitcore.codegen.engine import CompiledModule, compile_module, require_symbols
from jitcore.codegen.loops import Function
from jitcore.codegen.printers.llvm_instructions import Instructions, memory_type
from jitcore.codegen.printers.numba_source import parameter_type, print_function, python_name

__all__ = ["compile_numba", "print_function"]

_SERIAL = itertools.count(1)


def compile_numba(function: Function, *, contract: bool = False) -> tuple[int, object, str]:
    """Compile a function with Numba.

    Parameters
    ----------
    function : Function
    contract : bool
        Allow a multiplication and an addition to become one fused operation.

    Returns
    -------
    address : int
        A C function with the parameters and the result the LLVM printer gives it.
    owner : object
        Keeps the machine code, and the source in ``linecache``, while it lives.
    source : str

    Raises
    ------
    EngineError
        When the function calls a C function that this process does not have.
    """
    import numba

    source = print_function(function)
    filename = _register(function.name, source)
    namespace: dict[str, Any] = {"__name__": "jitcore.kernel"}
    exec(compile(source, filename, "exec"), namespace)
    external = numba.types.ExternalFunction
    symbols = [value.symbol for value in namespace.values() if isinstance(value, external)]
    require_symbols(symbols, function.name)
    result = getattr(numba.types, parameter_type(function.result))
    signature = result(
        *(getattr(numba.types, parameter_type(param.dtype)) for param in function.params)
    )
    flags = {"contract"} if contract else set()
    compiler = numba.cfunc(signature, error_model="numpy", fastmath=flags)
    compiled: Any = compiler(namespace[python_name(function.name)].py_func)
    weakref.finalize(compiled, linecache.cache.pop, filename, None)
    if "float16" not in {function.result, *(param.dtype for param in function.params)}:
        return compiled.address, compiled, source
    module = _float16_entry(function, compiled.address)
    return module.address(function.name), (compiled, module), source


def _register(name: str, source: str) -> str:
    """Show the source to tracebacks and debuggers; gives its file name, which is new."""
    filename = f"<jitcore kernel {name}>"
    entry = (len(source), None, source.splitlines(True), filename)
    while linecache.cache.setdefault(filename, entry) is not entry:
        filename = f"<jitcore kernel {name} {next(_SERIAL)}>"
    return filename


def _float16_entry(function: Function, address: int) -> CompiledModule:
    """A C function with float16 parameters around one that takes their bits."""
    code = Instructions({})
    args = []
    for number, param in enumerate(function.params):
        is_half = param.dtype == "float16"
        operand = code.value(f"bitcast half %p{number} to i16") if is_half else f"%p{number}"
        args.append(f"{'i16' if is_half else memory_type(param.dtype)} {operand}")
    result = "i16" if function.result == "float16" else memory_type(function.result)
    call = f"call {result} inttoptr (i64 {address} to ptr)({', '.join(args)})"
    value = code.value(call)
    if function.result == "float16":
        value = code.value(f"bitcast i16 {value} to half")
    params = [f"{memory_type(param.dtype)} %p{n}" for n, param in enumerate(function.params)]
    result = memory_type(function.result)
    lines = [
        f"define {result} @{function.name}({', '.join(params)}) {{",
        *code.lines,
        f"  ret {result} {value}",
        "}",
    ]
    return compile_module("\n".join(lines), name=function.name)
