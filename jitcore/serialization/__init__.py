"""Saving and loading programs as archives that hold no code."""

from jitcore.serialization.pickling import copied, reduced
from jitcore.serialization.storage import load, save, to_bytes

__all__ = ["copied", "load", "reduced", "save", "to_bytes"]
