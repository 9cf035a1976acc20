"""Saving and loading programs as archives that hold no code."""

from jitcore.serialization.pickling import reduced
from jitcore.serialization.storage import load, save, to_bytes

__all__ = ["load", "reduced", "save", "to_bytes"]
