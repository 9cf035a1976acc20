"""Who takes part: how each peer compiles a program, and what it wants for arguments."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numba

import jitcore
from bench.workloads import Arguments, Workload

__all__ = ["PEERS", "Peer", "limit_threads", "present", "versions"]

Call = Callable[[], Any]

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMEXPR_MAX_THREADS",
    "JITCORE_NUM_THREADS",
)

FAST_MATH = {"contract", "reassoc", "arcp", "nsz"}
"""What a careful author allows Numba: everything but wrong infinities and NaNs."""


@dataclass(frozen=True)
class Peer:
    """One way to run a program.

    Attributes
    ----------
    name : str
        As tables show it.
    library : str
        The package it needs.
    prepare : callable
        From a workload and NumPy arguments to a call without arguments, or None where the
        program has no natural form for this peer.
    """

    name: str
    library: str
    prepare: Callable[[Workload, Arguments], Call | None]

    @property
    def installed(self) -> bool:
        """Whether the package can be imported."""
        return find_spec(self.library) is not None


def limit_threads(count: int) -> None:
    """Give every peer, those imported later too, the same number of threads and processors.

    JAX has no setting: it takes as many threads as the process may use processors.
    """
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(count)))
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])
    jitcore.set_num_threads(count)
    # How many threads it starts was read at import.
    numba.config.reload_config()  # type: ignore[no-untyped-call]
    numba.set_num_threads(count)


def present(names: list[str] | None = None) -> tuple[list[Peer], list[Peer]]:
    """The peers that can run, of those named, and those that are not installed."""
    chosen = [peer for peer in PEERS if names is None or peer.name in names]
    return [peer for peer in chosen if peer.installed], [p for p in chosen if not p.installed]


def versions(peers: list[Peer]) -> dict[str, str]:
    """The version of every package that takes part, SciPy and llvmlite included."""
    libraries = {peer.library for peer in peers} | {"numpy", "scipy", "llvmlite"}
    return {
        name: jitcore.__version__ if name == "jitcore" else version(name)
        for name in sorted(libraries)
    }


def _bound(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Call:
    def call() -> Any:
        return function(*arguments)

    return call


def _form(module: str, workload: Workload) -> Callable[..., Any] | None:
    """A program's form in a module of forms, or the same source with another library in it."""
    forms = import_module(module)
    found: Callable[..., Any] | None = vars(forms).get(workload.name)
    programs: ModuleType | None = vars(forms).get("PROGRAMS")
    if found is None and programs is not None:
        found = vars(programs)[workload.name]
    return found


def _numpy(workload: Workload, arguments: Arguments) -> Call | None:
    return _bound(workload.function, arguments)


def _jitcore(numerics: str) -> Callable[[Workload, Arguments], Call | None]:
    def prepare(workload: Workload, arguments: Arguments) -> Call | None:
        return _bound(jitcore.script(workload.function, numerics=numerics), arguments)

    return prepare


def _numba(parallel: bool) -> Callable[[Workload, Arguments], Call | None]:
    def prepare(workload: Workload, arguments: Arguments) -> Call | None:
        form = _form("bench.numba_forms", workload)
        if form is None:
            return None
        compiled = numba.njit(form, error_model="numpy", fastmath=FAST_MATH, parallel=parallel)
        return _bound(compiled, arguments)

    return prepare


def _numexpr(workload: Workload, arguments: Arguments) -> Call | None:
    form = _form("bench.numexpr_forms", workload)
    return None if form is None else _bound(form, arguments)


def _torch(way: str) -> Callable[[Workload, Arguments], Call | None]:
    def prepare(workload: Workload, arguments: Arguments) -> Call | None:
        torch = import_module("torch")
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))
        torch.set_grad_enabled(False)
        form = _form("bench.torch_forms", workload)
        assert form is not None
        tensors = tuple(torch.from_numpy(array) for array in arguments)
        if way == "jit":
            form = torch.jit.trace(form, tensors, check_trace=False)
        elif way == "compile":
            torch.compiler.reset()
            form = torch.compile(form, dynamic=False)
        return _bound(form, tensors)

    return prepare


def _jax(workload: Workload, arguments: Arguments) -> Call | None:
    form = _form("bench.jax_forms", workload)
    jax = import_module("jax")
    compiled = jax.jit(form)
    arrays = tuple(jax.numpy.asarray(array) for array in arguments)

    def call() -> Any:
        return jax.block_until_ready(compiled(*arrays))

    return call


PEERS = (
    Peer("jitcore", "jitcore", _jitcore("strict")),
    Peer("jitcore contract", "jitcore", _jitcore("contract")),
    Peer("NumPy", "numpy", _numpy),
    Peer("Numba", "numba", _numba(parallel=False)),
    Peer("Numba parallel", "numba", _numba(parallel=True)),
    Peer("numexpr", "numexpr", _numexpr),
    Peer("PyTorch", "torch", _torch("eager")),
    Peer("torch.jit", "torch", _torch("jit")),
    Peer("torch.compile", "torch", _torch("compile")),
    Peer("JAX", "jax", _jax),
)
