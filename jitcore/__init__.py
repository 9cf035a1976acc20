"""jitcore: put ``@script`` on a NumPy function and call it.

The undecorated function is the specification: values, dtypes, shapes, in-place effects and
exceptions stay what plain NumPy gives.
"""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Final

import numpy as _numpy

from jitcore.codegen.threads import get_num_threads, set_num_threads
from jitcore.config import set_numerics
from jitcore.errors import (
    CompilationError,
    Error,
    SerializationError,
    TracerWarning,
    TracingCheckError,
    UnsupportedError,
)
from jitcore.explain import Explanation, explain
from jitcore.ir.parser import parse_graph
from jitcore.markers import (
    Attribute,
    annotate,
    export,
    ignore,
    interface,
    is_scripting,
    isinstance,
    unused,
)
from jitcore.script import ScriptFunction, last_executed_optimized_graph, script
from jitcore.strategy import fusion_strategy, set_fusion_strategy
from jitcore.strict import strict_fusion

__version__ = "0.1.0"

Tensor = _numpy.ndarray
"""An alias of ``numpy.ndarray`` for annotations."""

if _TYPE_CHECKING:
    from jitcore import nn as nn
    from jitcore.freezing import dump_alias_db as dump_alias_db
    from jitcore.freezing import freeze as freeze
    from jitcore.module import ScriptModule as ScriptModule
else:
    _WITH_LAYERS = {
        "ScriptModule": "jitcore.module",
        "dump_alias_db": "jitcore.freezing",
        "freeze": "jitcore.freezing",
    }

    def __getattr__(name: str) -> object:
        """``jitcore.nn`` and what needs it, which are imported when they are first asked for."""
        if name == "nn":
            return _importlib.import_module("jitcore.nn")
        if name in _WITH_LAYERS:
            return getattr(_importlib.import_module(_WITH_LAYERS[name]), name)
        raise AttributeError(f"module 'jitcore' has no attribute {name!r}")


__all__ = [
    "Attribute",
    "CompilationError",
    "Error",
    "Explanation",
    "Final",
    "ScriptFunction",
    "ScriptModule",
    "SerializationError",
    "Tensor",
    "TracerWarning",
    "TracingCheckError",
    "UnsupportedError",
    "annotate",
    "dump_alias_db",
    "explain",
    "export",
    "freeze",
    "fusion_strategy",
    "get_num_threads",
    "ignore",
    "interface",
    "is_scripting",
    "isinstance",
    "last_executed_optimized_graph",
    "parse_graph",
    "script",
    "set_fusion_strategy",
    "set_num_threads",
    "set_numerics",
    "strict_fusion",
    "unused",
]
