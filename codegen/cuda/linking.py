"""Machine code of PTX, by NVIDIA's nvJitLink; what was made once is on disk.

Without it the driver would compile the PTX in every process that loads a kernel first.
"""

from __future__ import annotations

import hashlib
import importlib
from typing import Any

from jitcore.codegen.cache import StoredObject, current
from jitcore.codegen.cuda.driver import DriverError

__all__ = ["to_cubin"]


def to_cubin(ptx: str, name: str, capability: tuple[int, int]) -> bytes | None:
    """A cubin, the machine code for devices of a compute capability; None without nvJitLink.

    Parameters
    ----------
    ptx : str
    name : str
        For messages.
    capability : tuple of two int

    Raises
    ------
    DriverError
        The PTX is refused; the message has nvJitLink's own log.
    """
    linker = _linker()
    if linker is None:
        return None
    files = current()
    parts = ("cubin", linker.version(), capability, ptx)
    key = hashlib.sha256(repr(parts).encode()).hexdigest()
    stored = None if files is None else files.load(key)
    if stored is not None:
        return stored.objects[0]
    cubin = _linked(linker, ptx, name, capability)
    if files is not None:
        files.store(key, StoredObject((cubin,), (), ()))
    return cubin


def _linker() -> Any:
    """The bindings of nvJitLink, a dependency of numba-cuda; None where any part is missing."""
    try:
        linker = importlib.import_module("cuda.bindings.nvjitlink")
        linker.version()
    except (ImportError, RuntimeError):
        # The bindings say with a RuntimeError that they find no library.
        return None
    return linker


def _linked(linker: Any, ptx: str, name: str, capability: tuple[int, int]) -> bytes:
    options = [f"-arch=sm_{capability[0]}{capability[1]}"]
    try:
        handle = linker.create(len(options), options)
    except linker.nvJitLinkError as error:
        major, minor = linker.version()
        raise DriverError(
            f"linking {name}: nvJitLink {major}.{minor} refuses {options[0]} ({error}); "
            "the device needs a newer cuda-toolkit and nvidia-nvjitlink"
        ) from error
    try:
        code = ptx.encode()
        linker.add_data(handle, linker.InputType.PTX, code, len(code), name)
        linker.complete(handle)
        cubin = bytearray(linker.get_linked_cubin_size(handle))
        linker.get_linked_cubin(handle, cubin)
    except linker.nvJitLinkError as error:
        raise DriverError(f"linking {name}: {error}\n{_log(linker, handle)}") from error
    finally:
        linker.destroy(handle)
    return bytes(cubin)


def _log(linker: Any, handle: int) -> str:
    """What nvJitLink has to say about an error."""
    text = bytearray(linker.get_error_log_size(handle))
    linker.get_error_log(handle, text)
    return text.decode(errors="replace").strip("\0\n ")
