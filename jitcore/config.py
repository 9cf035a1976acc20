"""Settings of the process: environment variables and the numerics mode."""

from __future__ import annotations

import os

__all__ = ["checked_numerics", "enabled", "engine", "numerics", "set_numerics"]

_ENGINES = ("llvm", "numba")
_MODES = ("strict", "contract")
_numerics = "strict"


def enabled() -> bool:
    """Whether functions are compiled at all: ``JITCORE_JIT=0`` turns that off."""
    return os.environ.get("JITCORE_JIT", "1") != "0"


def engine() -> str:
    """What compiles kernels: ``JITCORE_ENGINE``, ``llvm`` or ``numba``.

    Raises
    ------
    ValueError
        The variable names another one.
    """
    name = os.environ.get("JITCORE_ENGINE", _ENGINES[0])
    if name not in _ENGINES:
        raise ValueError(f"JITCORE_ENGINE is one of {', '.join(_ENGINES)}; found {name!r}")
    return name


def checked_numerics(mode: str) -> str:
    """The mode, if there is such a one.

    Raises
    ------
    ValueError
        There is not.
    """
    if mode not in _MODES:
        raise ValueError(f"numerics is one of {', '.join(map(repr, _MODES))}; found {mode!r}")
    return mode


def numerics() -> str:
    """The numerics mode in force."""
    return _numerics


def set_numerics(mode: str) -> str:
    """Set the numerics of functions compiled from now on.

    Parameters
    ----------
    mode : {"strict", "contract"}
        ``"strict"``: NumPy's arithmetic, bit for bit.  ``"contract"``: a multiplication and the
        addition that follows may be one fused operation with one rounding.

    Returns
    -------
    str
        The mode before.

    Raises
    ------
    ValueError
        There is no such mode.

    Examples
    --------
    >>> import jitcore
    >>> jitcore.set_numerics("contract")
    'strict'
    >>> jitcore.set_numerics("strict")
    'contract'
    """
    global _numerics
    previous, _numerics = _numerics, checked_numerics(mode)
    return previous
