"""Run one generated function in a process of its own, and say how long each part took.

    python -m bench.compile_child jitcore folder/subject.py --warm

Prints JSON.  Nothing but Python's own modules and NumPy is imported before the clock starts.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

Compile = Callable[[Callable[..., Any]], Callable[..., Any]]


def load(path: Path) -> ModuleType:
    """A file as a module that can be imported by name, which Numba's cache needs."""
    sys.path.insert(0, str(path.parent))
    return import_module(path.stem)


def compiler(peer: str) -> Compile:
    """What a peer makes of a function; imports it."""
    if peer == "jitcore":
        script: Compile = import_module("jitcore").script
        return script
    if peer == "Numba":
        numba = import_module("numba")
        return lambda function: _njit(numba, function)
    if peer == "JAX":
        jax = import_module("jax")
        return lambda function: _finished(jax, jax.jit(function))
    return lambda function: function


def _njit(numba: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    compiled: Callable[..., Any] = numba.njit(cache=function is not small)(function)
    return compiled


def _finished(jax: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: jax.block_until_ready(function(*arguments))


def small(x: Any) -> Any:
    """Compiled before the clock starts, so that once-per-process costs are not measured."""
    return x + x


def main() -> None:
    """Import, perhaps warm up, and call the subject twice."""
    parser = argparse.ArgumentParser()
    parser.add_argument("peer")
    parser.add_argument("path", type=Path)
    parser.add_argument("--warm", action="store_true")
    options = parser.parse_args()
    start = time.perf_counter()
    compiled = compiler(options.peer)
    module = load(options.path)
    first, second = module.arguments(), module.arguments()
    if options.warm:
        compiled(small)(first[0])
    ready = time.perf_counter()
    subject = compiled(module.subject)
    subject(*first)
    called = time.perf_counter()
    subject(*second)
    again = time.perf_counter()
    times = {"ready": ready - start, "first_call": called - ready, "second_call": again - called}
    print(json.dumps(times))


if __name__ == "__main__":
    main()
