"""From the source of a Python function to its generic graph."""

from jitcore.frontend.compile import compile_function
from jitcore.frontend.libraries import is_library

__all__ = ["compile_function", "is_library"]
