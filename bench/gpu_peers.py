"""The libraries that the benchmark on a GPU compares: how each takes arrays and compiles."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

import jitcore
from bench.translated import programs_with

__all__ = ["OURS", "PEERS", "Call", "Peer", "jax_form", "torch_form"]

OURS = "jitcore"

Call = Callable[[], Any]
Function = Callable[..., Any]


def _ready(_: Any) -> None:
    jitcore.cuda.synchronize()


def _to_numpy(result: Any) -> Any:
    return np.asarray(result.numpy())


def _default_stream() -> int:
    return 0


@dataclass(frozen=True)
class Peer:
    """A library, and one way to use it.

    Parameters
    ----------
    name : str
    module : str
    prepare : callable
        Compiles a program for some of our arrays, whose memory it shares; calls take no arguments.
    stream : callable
        The stream that the library's work goes to.
    numpy : callable
        A result as NumPy's array.
    wait : callable
        Waits for a result.
    has_events : bool
        Whether all work goes to that stream.
    """

    name: str
    module: str
    prepare: Callable[[Function, Sequence[Any]], Call]
    stream: Callable[[], int] = _default_stream
    numpy: Callable[[Any], Any] = _to_numpy
    wait: Callable[[Any], None] = _ready
    has_events: bool = True

    def versions(self) -> Iterator[tuple[str, str]]:
        """The library's version."""
        found = sys.modules.get(self.module)
        if found is not None:
            yield self.module, str(getattr(found, "__version__", "unknown"))


def _translated(function: Function, module: str, special: str) -> Function:
    """A program with another library in NumPy's place."""
    made = programs_with(import_module(module), import_module(special))
    found: Function = getattr(made, function.__name__)
    return found


def _jitcore(function: Function, arrays: Sequence[Any]) -> Call:
    compiled = jitcore.script(function)
    return lambda: compiled(*arrays)


def _tensors(arrays: Sequence[Any]) -> list[Any]:
    torch = import_module("torch")
    return [torch.from_dlpack(one) for one in arrays]


def _jitcore_with_torch(function: Function, arrays: Sequence[Any]) -> Call:
    compiled, tensors = jitcore.script(function), _tensors(arrays)
    return lambda: compiled(*tensors)


def torch_form(function: Function) -> Function:
    """A program for PyTorch: its own layers where it has them."""
    return _form(function, "bench.torch_forms")


def _form(function: Function, module: str) -> Function:
    forms = import_module(module)
    found: Function = getattr(forms, function.__name__, None) or getattr(
        forms.PROGRAMS, function.__name__
    )
    return found


def _torch(function: Function, arrays: Sequence[Any]) -> Call:
    torch: Any = import_module("torch")
    compiled, tensors = torch.compile(torch_form(function)), _tensors(arrays)

    def call() -> Any:
        with torch.inference_mode():
            return compiled(*tensors)

    return call


def _torch_stream() -> int:
    return int(import_module("torch").cuda.current_stream().cuda_stream)


def _torch_numpy(result: Any) -> Any:
    torch = import_module("torch")
    # PyTorch gives NumPy no bfloat16.
    return (result.float() if result.dtype == torch.bfloat16 else result).cpu().numpy()


def _cupy(function: Function, arrays: Sequence[Any]) -> Call:
    cupy = import_module("cupy")
    form = _translated(function, "cupy", "cupyx.scipy.special")
    own = [cupy.asarray(one) for one in arrays]
    fused = cupy.fuse(form)
    try:
        fused(*own)
    except Exception:  # of any class: what it cannot fuse, products among it, it runs one by one
        fused = form
    return lambda: fused(*own)


def _cupy_stream() -> int:
    return int(import_module("cupy").cuda.get_current_stream().ptr)


def _cupy_numpy(result: Any) -> Any:
    return result.get()


def jax_form(function: Function) -> Function:
    """A program for JAX."""
    return _form(function, "bench.jax_forms")


def _jax(function: Function, arrays: Sequence[Any]) -> Call:
    jax: Any = import_module("jax")
    compiled = jax.jit(jax_form(function))
    own = [jax.dlpack.from_dlpack(one) for one in arrays]
    return lambda: compiled(*own)


def _jax_wait(result: Any) -> None:
    result.block_until_ready()


PEERS = (
    Peer(OURS, "jitcore", _jitcore),
    Peer("jitcore with torch", "torch", _jitcore_with_torch, _torch_stream, _torch_numpy),
    Peer("torch.compile", "torch", _torch, _torch_stream, _torch_numpy),
    Peer("CuPy", "cupy", _cupy, _cupy_stream, _cupy_numpy),
    Peer("JAX", "jax", _jax, numpy=np.asarray, wait=_jax_wait, has_events=False),
)
