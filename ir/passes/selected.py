"""Selected elements, where they are: updates and reductions under a mask, nothing compressed."""

from __future__ import annotations

from jitcore.ir import log
from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.graph import Graph, Node
from jitcore.ir.passes.selected_reductions import (
    SelectedReduction,
    reductions_of_selected,
    replaced_together,
)
from jitcore.ir.passes.selection import Selection, element_type, is_scalar
from jitcore.ir.shapes import known_dims

__all__ = ["compute_selected_in_place"]


def compute_selected_in_place(graph: Graph) -> bool:
    """Compute cheap expressions of ``x[mask]`` at all elements, and choose afterwards.

    Before::

        graph(%x : Float32[n], %y : Float32[n], %m : Bool[n]):
          %0 : Float32[a] = np::compress(%y, %m)
          %1 : Float32[b] = np::compress(%x, %m)
          %2 : Float32[c] = np::add(%0, %1)
          np::put_mask(%x, %m, %2)
          return (%x)

    After::

        graph(%x : Float32[n], %y : Float32[n], %m : Bool[n]):
          %5 : Float32[n] = np::add(%y, %x)
          %6 : Float32[n] = np::where(%m, %5, %x)
          np::store(%x, %6)
          return (%x)

    Only for code that cannot warn: NumPy would warn of what happens at elements nobody selected.
    A single number for all selected elements is chosen in the same way.  In a reduction, what
    changes nothing stands for the elements that are not selected.
    """
    updates = graph.find_all_nodes("np::put_mask")
    reductions = reductions_of_selected(graph)
    if not updates and not reductions:
        return False
    analysis = AliasAnalysis(graph, distinct_inputs=True)
    # The analysis knows the nodes there are now, so all is planned before anything is changed.
    possible: list[_Update | SelectedReduction] = [
        one for one in (_Update(analysis, node) for node in updates) if one.is_possible()
    ]
    possible += replaced_together(SelectedReduction(analysis, *one) for one in reductions)
    for one in possible:
        one.rewrite()
    return bool(possible)


class _Update(Selection):
    """One write to the elements under a mask."""

    def __init__(self, analysis: AliasAnalysis, update: Node) -> None:
        self.target, mask, self.value = update.inputs
        super().__init__(analysis, update, self.target, mask)

    def is_possible(self) -> bool:
        """Whether the value is computed from elements of the same places."""
        if self.dims is None or known_dims(self.mask) != self.dims:
            return False
        if self.mask is not self.target and self.analysis.may_alias(self.mask, self.target):
            return False
        if self.dims and is_scalar(self.value.type):
            return self.value.type == element_type(self.target)
        self.store = self._store_before()
        if self.store is not None:
            self.value = self.store.inputs[1]
        return self.is_selected(self.value)

    def _store_before(self) -> Node | None:
        """What ``x[mask] += y`` writes to the selected elements before they go back."""
        writers = self.analysis.writers(self.value)
        if len(writers) != 1 or writers[0].kind != "np::store":
            return None
        (store,) = writers
        if store.block is not self.block or store.inputs[0] is not self.value:
            return None
        position = self.block.nodes.index(store)
        users = [use.user for use in self.value.uses if use.user not in (store, self.user)]
        known = all(user in self.block.nodes[:position] for user in users)
        return store if known else None

    def rewrite(self) -> None:
        """Write all elements, those that are not selected as they are."""
        log.update("selected", lambda: f"compute {self.user!r} at all elements")
        operands = [self.mask, self.at_all(self.value), self.target]
        chosen = self.user.value_before("np::where", operands, self.target.type)
        self.user.value_before("np::store", [self.target, chosen], self.user.output.type)
        self.remove([self.user, self.store])
