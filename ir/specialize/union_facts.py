"""What tests have shown of values that may have several types.

``is_none : bool = prim::eq(%tag, 0)`` shows where it is true which alternative of a union a value
is, and where it is false which ones are left.  Branches on such tests, on ``not``, ``and`` and
``or`` of them, and what follows a branch that raises, know it: there a value that can be but one of
the alternatives is that one.
"""

from __future__ import annotations

from collections.abc import Mapping

from jitcore.ir.graph import Node, Value
from jitcore.ir.specialize.value_kinds import alternatives_of
from jitcore.ir.types import UnionType

__all__ = ["UnionFacts"]

_Possible = Mapping[Value, frozenset[int]]
"""For tags of unions the numbers of the alternatives that are left."""

_NOTHING: _Possible = {}


class UnionFacts:
    """Which alternatives of unions are possible at the place that is being typed."""

    def __init__(self) -> None:
        self._possible: _Possible = _NOTHING
        self._outer: list[_Possible] = []
        self._shown: dict[Value, tuple[_Possible, _Possible]] = {}

    def possible(self, union: Value) -> list[int]:
        """The numbers of the alternatives that a union may be here."""
        assert union.node is not None
        tag, *held = union.node.inputs
        return sorted(self._possible.get(tag, range(len(held))))

    def narrowed(self, value: Value) -> Value:
        """A value as the only alternative that it may be here, if there is but one."""
        if not isinstance(value.type, UnionType):
            return value
        numbers = self.possible(value)
        return alternatives_of(value)[numbers[0]] if len(numbers) == 1 else value

    def note_test(self, test: Value, union: Value, number: int) -> None:
        """Note that a value says whether a union is its alternative of this number."""
        assert union.node is not None
        tag = union.node.inputs[0]
        others = frozenset(self.possible(union)) - {number}
        self._shown[test] = ({tag: frozenset({number})}, {tag: others})

    def note_negation(self, result: Value, test: Value) -> None:
        """Note that a value is ``not`` of another."""
        if test in self._shown:
            self._shown[result] = self._shown[test][::-1]

    def note_branches(self, made: Node) -> None:
        """Note what the outputs of an ``If`` show: ``and`` and ``or`` are such nodes, too."""
        condition = made.inputs[0]
        for place, output in enumerate(made.outputs):
            then, orelse = (block.returns[place] for block in made.blocks)
            shown = (
                self._if_merged(condition, then, orelse, holds=True),
                self._if_merged(condition, then, orelse, holds=False),
            )
            if any(shown):
                self._shown[output] = shown

    def _if_merged(self, condition: Value, then: Value, orelse: Value, *, holds: bool) -> _Possible:
        """What follows where the output of an ``If`` is true, or where it is false."""
        excluded = not holds
        if orelse.constant_value is excluded:
            return self._both(self._if(condition, True), self._if(then, holds))
        if then.constant_value is excluded:
            return self._both(self._if(condition, False), self._if(orelse, holds))
        return _NOTHING

    def _if(self, test: Value, holds: bool) -> _Possible:
        if_true, if_false = self._shown.get(test, (_NOTHING, _NOTHING))
        return if_true if holds else if_false

    @staticmethod
    def _both(one: _Possible, two: _Possible) -> _Possible:
        common = {tag: one[tag] & two[tag] for tag in one.keys() & two.keys()}
        # Nothing is left in code that never runs.
        return {**one, **two, **{tag: left for tag, left in common.items() if left}}

    def assume(self, test: Value, *, holds: bool) -> None:
        """Go on where a test has come out like this."""
        self._possible = self._both(self._possible, self._if(test, holds))

    def open_scope(self) -> None:
        """Begin a block: what is assumed in it only holds there."""
        self._outer.append(self._possible)

    def close_scope(self) -> None:
        """Go back to the block around."""
        self._possible = self._outer.pop()
