"""jitcore: put ``@script`` on a NumPy function and call it.

The undecorated function is the specification: values, dtypes, shapes, in-place effects and
exceptions stay what plain NumPy gives.
"""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Final

import numpy as _numpy

from jitcore.codegen.runtime.threads import get_num_threads, set_num_threads
from jitcore.config import set_numerics
from jitcore.devices import device, to
from jitcore.errors import (
    CompilationError,
    Error,
    SerializationError,
    TracerWarning,
    TracingCheckError,
    UnsupportedError,
)
from jitcore.execution.strategy import fusion_strategy, set_fusion_strategy
from jitcore.ir.parser import parse_graph
from jitcore.markers import (
    Attribute,
    annotate,
    export,
    ignore,
    interface,
    is_scripting,
    is_tracing,
    isinstance,
    script_if_tracing,
    unused,
)
from jitcore.reports.explain import Explanation, explain
from jitcore.script import ScriptFunction, last_executed_optimized_graph, script, warmup
from jitcore.strict import strict_fusion

__version__ = "0.1.0"

Tensor = _numpy.ndarray
"""An alias of ``numpy.ndarray`` for annotations."""

if _TYPE_CHECKING:
    from jitcore import cuda as cuda
    from jitcore import nn as nn
    from jitcore.codegen.onednn.switch import enable_onednn_fusion as enable_onednn_fusion
    from jitcore.codegen.onednn.switch import onednn_fusion_enabled as onednn_fusion_enabled
    from jitcore.freezing.freeze import dump_alias_db as dump_alias_db
    from jitcore.freezing.freeze import freeze as freeze
    from jitcore.freezing.inference import optimize_for_inference as optimize_for_inference
    from jitcore.freezing.optimizing import run_frozen_optimizations as run_frozen_optimizations
    from jitcore.futures import Future as Future
    from jitcore.futures import fork as fork
    from jitcore.futures import get_num_interop_threads as get_num_interop_threads
    from jitcore.futures import set_num_interop_threads as set_num_interop_threads
    from jitcore.futures import wait as wait
    from jitcore.gradients import grad as grad
    from jitcore.gradients import value_and_grad as value_and_grad
    from jitcore.module import ScriptModule as ScriptModule
    from jitcore.serialization import load as load
    from jitcore.serialization import save as save
    from jitcore.tracing.trace import trace as trace
    from jitcore.tracing.trace import trace_module as trace_module
else:
    _LATE = {
        "Future": "jitcore.futures",
        "ScriptModule": "jitcore.module",
        "dump_alias_db": "jitcore.freezing.freeze",
        "enable_onednn_fusion": "jitcore.codegen.onednn.switch",
        "fork": "jitcore.futures",
        "freeze": "jitcore.freezing.freeze",
        "get_num_interop_threads": "jitcore.futures",
        "grad": "jitcore.gradients",
        "load": "jitcore.serialization",
        "onednn_fusion_enabled": "jitcore.codegen.onednn.switch",
        "optimize_for_inference": "jitcore.freezing.inference",
        "run_frozen_optimizations": "jitcore.freezing.optimizing",
        "save": "jitcore.serialization",
        "set_num_interop_threads": "jitcore.futures",
        "trace": "jitcore.tracing.trace",
        "trace_module": "jitcore.tracing.trace",
        "value_and_grad": "jitcore.gradients",
        "wait": "jitcore.futures",
    }

    def __getattr__(name: str) -> object:
        """Names whose modules take time to import, which happens when they are first asked for."""
        if name in ("cuda", "nn"):
            return _importlib.import_module(f"jitcore.{name}")
        if name in _LATE:
            return getattr(_importlib.import_module(_LATE[name]), name)
        raise AttributeError(f"module 'jitcore' has no attribute {name!r}")


__all__ = [
    "Attribute",
    "CompilationError",
    "Error",
    "Explanation",
    "Final",
    "Future",
    "ScriptFunction",
    "ScriptModule",
    "SerializationError",
    "Tensor",
    "TracerWarning",
    "TracingCheckError",
    "UnsupportedError",
    "annotate",
    "device",
    "dump_alias_db",
    "enable_onednn_fusion",
    "explain",
    "export",
    "fork",
    "freeze",
    "fusion_strategy",
    "get_num_interop_threads",
    "get_num_threads",
    "ignore",
    "grad",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "last_executed_optimized_graph",
    "load",
    "onednn_fusion_enabled",
    "optimize_for_inference",
    "parse_graph",
    "run_frozen_optimizations",
    "save",
    "script",
    "script_if_tracing",
    "set_fusion_strategy",
    "set_num_interop_threads",
    "set_num_threads",
    "set_numerics",
    "strict_fusion",
    "to",
    "trace",
    "trace_module",
    "unused",
    "value_and_grad",
    "wait",
    "warmup",
]
