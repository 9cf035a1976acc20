"""The random numbers of initializers and dropout."""

from __future__ import annotations

import numpy as np

__all__ = ["generator", "manual_seed"]

_generator = np.random.default_rng()


def generator() -> np.random.Generator:
    """The generator that initializers and dropout draw from."""
    return _generator


def manual_seed(seed: int) -> np.random.Generator:
    """Start the generator of initializers and dropout anew.

    The numbers are NumPy's: the same seed gives other weights than in PyTorch, of the same
    distribution.

    Parameters
    ----------
    seed : int
        Not negative.

    Returns
    -------
    numpy.random.Generator
    """
    global _generator
    _generator = np.random.default_rng(seed)
    return _generator
