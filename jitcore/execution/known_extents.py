"""Which extents dynamic kernels know: those that were the same so far, while others changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jitcore.execution import strategy
from jitcore.execution.description_keys import (
    common_extents,
    dynamic_key,
    has_changed,
    short_extents,
)
from jitcore.execution.signatures import Description

__all__ = ["KnownExtents"]

_Key = tuple[Description, ...]


class KnownExtents:
    """What the specializations for one structure of arguments have in common.

    Parameters
    ----------
    exact : frozenset of int
        The numbers of the inputs all of whose extents every kernel knows.
    """

    def __init__(self, exact: frozenset[int]) -> None:
        self._exact = exact
        self._common: dict[_Key, _Key] = {}

    def note(self, form: _Key, descriptions: _Key, made: Sequence[_Key], count: int) -> _Key:
        """Note the extents of a call that something is compiled for.

        Gives what a dynamic kernel for it knows; nothing where there must be one for all shapes.
        Long extents are known once others have changed: until then it is not clear which will.

        Parameters
        ----------
        form : tuple
            The structure of the arguments.
        descriptions : tuple of Description
        made : sequence of tuple
            The keys of the dynamic kernels for that structure.
        count : int
            How many specializations there are for it.
        """
        before = self._common.get(form, descriptions)
        common = self._common[form] = tuple(map(common_extents, descriptions, before))
        left = strategy.left_after(strategy.current(), count)
        # Each of these may have to be made for all shapes later.
        waiting = {one for one in map(self.general, made) if one not in made}
        waiting.add(self.general(descriptions))
        if count == 0 or left <= len(waiting):
            return ()
        own = (one for number, one in enumerate(common) if number not in self._exact)
        return common if any(map(has_changed, own)) else tuple(map(short_extents, common))

    def general(self, key: _Key) -> _Key:
        """The key of the dynamic kernel for all shapes that takes these calls."""
        return dynamic_key(key, self._exact)

    def replaceable(self, descriptions: _Key, made: Iterable[_Key], count: int) -> _Key | None:
        """The key of a kernel that another one stands in for, once there is one for this call.

        None where the last specialization is not dynamic.  So what knows some extents never takes
        the place of what is for all shapes.
        """
        if strategy.kind_of(strategy.current(), count - 1) != "DYNAMIC":
            return None
        keys = set(made)
        generals = {key for key in keys if self.general(key) == key}
        generals.add(self.general(descriptions))
        return next((key for key in keys - generals if self.general(key) in generals), None)
