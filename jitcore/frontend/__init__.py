"""From the source of a Python function to its generic graph."""

from jitcore.frontend.compile import compile_function, is_library
from jitcore.frontend.names import MISSING

__all__ = ["MISSING", "compile_function", "is_library"]
