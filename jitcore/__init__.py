"""jitcore: put ``@script`` on a NumPy function and call it.

The undecorated function is the specification: values, dtypes, shapes, in-place effects and
exceptions stay what plain NumPy gives.
"""

import numpy as _numpy

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
from jitcore.script import ScriptFunction, last_executed_optimized_graph, script
from jitcore.strategy import fusion_strategy, set_fusion_strategy
from jitcore.strict import strict_fusion

__version__ = "0.1.0"

Tensor = _numpy.ndarray
"""An alias of ``numpy.ndarray`` for annotations."""

__all__ = [
    "CompilationError",
    "Error",
    "Explanation",
    "ScriptFunction",
    "SerializationError",
    "Tensor",
    "TracerWarning",
    "TracingCheckError",
    "UnsupportedError",
    "explain",
    "fusion_strategy",
    "last_executed_optimized_graph",
    "parse_graph",
    "script",
    "set_fusion_strategy",
    "set_numerics",
    "strict_fusion",
]
