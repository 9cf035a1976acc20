"""Script functions and modules for ``pickle``: as archives, and what ``pickle`` itself knows."""

from __future__ import annotations

import hashlib
import weakref
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any

from jitcore.errors import SerializationError
from jitcore.script import ScriptFunction
from jitcore.serialization.places import is_known_by_name
from jitcore.serialization.storage import from_bytes, to_bytes

__all__ = ["reduced", "restored"]

MAX_KEPT = 128
"""How many functions a process keeps for when they are unpickled again."""

_kept: OrderedDict[Any, tuple[Callable[[], Any], tuple[Any, ...]]] = OrderedDict()
"""What gives the functions that were pickled or unpickled, with what archives do not hold."""

_lock = Lock()


def reduced(obj: Any) -> Any:
    """What ``__reduce__`` of a script function or module gives.

    Raises
    ------
    SerializationError
        The graphs need what cannot be saved, and the object is not known by its name either.
    """
    external: list[Any] = []
    try:
        data = to_bytes(obj, external=external, readable=False)
    except SerializationError:
        if not is_known_by_name(obj):
            raise
        return obj.__qualname__
    if not isinstance(obj, ScriptFunction):
        return from_bytes, (data, tuple(external))
    _keep(data, tuple(external), weakref.ref(obj))
    return restored, (data, tuple(external))


def restored(data: bytes, external: tuple[Any, ...]) -> Any:
    """The function of an archive; the same one each time, so that it is compiled once a process.

    Where the function itself was pickled in this process, it is that one, as with plain functions.
    """
    with _lock:
        give, _ = _kept.get(_key(data, external), (_nothing, ()))
    found = give()
    if found is None:
        found = from_bytes(data, external)
        _keep(data, external, lambda: found)
    return found


def _nothing() -> None:
    return None


def _keep(data: bytes, external: tuple[Any, ...], give: Callable[[], Any]) -> None:
    key = _key(data, external)
    with _lock:
        # The objects are kept as well: others could get their identities.
        _kept[key] = (give, external)
        _kept.move_to_end(key)
        while len(_kept) > MAX_KEPT:
            _kept.popitem(last=False)


def _key(data: bytes, external: tuple[Any, ...]) -> tuple[Any, ...]:
    return (hashlib.sha256(data).digest(), *map(id, external))
