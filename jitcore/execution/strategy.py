"""How many specializations a function may have, and of which kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = [
    "DEFAULT",
    "Strategy",
    "current",
    "fusion_strategy",
    "kind_of",
    "left_after",
    "set_fusion_strategy",
]

Strategy = list[tuple[str, int]]

DEFAULT: Strategy = [("STATIC", 2), ("DYNAMIC", 10)]
"""TorchScript's default."""

_process_wide: Strategy = list(DEFAULT)
_scoped: ContextVar[Strategy | None] = ContextVar("jitcore_fusion_strategy", default=None)


def _checked(strategy: Sequence[tuple[str, int]]) -> Strategy:
    checked: Strategy = []
    if isinstance(strategy, str) or not isinstance(strategy, Iterable):
        raise ValueError(f"a fusion strategy is a list of pairs (kind, depth); found {strategy!r}")
    for entry in strategy:
        if not isinstance(entry, (tuple, list)) or len(entry) != 2:
            raise ValueError(
                f"a fusion strategy is a list of pairs (kind, depth); found the entry {entry!r}"
            )
        kind, depth = entry
        if kind not in ("STATIC", "DYNAMIC"):
            raise ValueError(
                f"a fusion strategy's kinds are 'STATIC' and 'DYNAMIC'; found {kind!r}"
            )
        if isinstance(depth, bool) or not isinstance(depth, int) or depth < 0:
            raise ValueError(f"a fusion strategy's depth is an int of 0 or more; found {depth!r}")
        checked.append((kind, depth))
    return checked


def current() -> Strategy:
    """The strategy in force: the innermost ``fusion_strategy`` block's, or the process's."""
    scoped = _scoped.get()
    return _process_wide if scoped is None else scoped


def kind_of(strategy: Strategy, number: int) -> str | None:
    """The kind of specialization number ``number`` (from 0), or None where there is none left."""
    for kind, depth in strategy:
        if number < depth:
            return kind
        number -= depth
    return None


def left_after(strategy: Strategy, number: int) -> int:
    """How many specializations there may be besides the first ``number`` ones."""
    return sum(depth for _, depth in strategy) - number


def set_fusion_strategy(strategy: Sequence[tuple[str, int]]) -> Strategy:
    """Set the type and number of specializations that can occur.

    Parameters
    ----------
    strategy : list of (str, int)
        Pairs of a kind and a depth.  With ``[("STATIC", 2), ("DYNAMIC", 10)]`` the first two
        specializations of a function are compiled for exactly the shapes they were called with, and
        for the ints that its loops take shapes from; the next ten for all shapes of the same
        dtypes, ranks, contiguity and pattern of extents of 1, or for those with the same extents
        along axes where these have never been others, while others have changed.  There is
        always room left for the ones that are for all shapes.
        A call that fits none of the twelve runs the function unfused.

    Returns
    -------
    list of (str, int)
        The strategy before.

    Raises
    ------
    ValueError
        A kind is neither ``"STATIC"`` nor ``"DYNAMIC"``, or a depth is not an int of 0 or more.

    Examples
    --------
    >>> import jitcore
    >>> previous = jitcore.set_fusion_strategy([("DYNAMIC", 4)])
    >>> jitcore.set_fusion_strategy(previous)
    [('DYNAMIC', 4)]
    """
    global _process_wide
    checked = _checked(strategy)
    previous = _process_wide
    _process_wide = checked
    return previous


@contextmanager
def fusion_strategy(strategy: Sequence[tuple[str, int]]) -> Iterator[None]:
    """Use a fusion strategy inside a ``with`` block, in this thread only.

    Parameters
    ----------
    strategy : list of (str, int)
        As for `set_fusion_strategy`.
    """
    token = _scoped.set(_checked(strategy))
    try:
        yield
    finally:
        _scoped.reset(token)
