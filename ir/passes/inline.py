"""Inlining: the calls of compiled functions become their bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from jitcore.ir import log
from jitcore.ir.graph import Block, Graph, Node, Value, copy_node

__all__ = ["inline"]

_KIND = "prim::CallFunction"


def _all(_: Node) -> bool:
    return True


def inline(graph: Graph, wanted: Callable[[Node], bool] = _all) -> bool:
    """Replace every ``prim::CallFunction`` by the body of its graph, whose own calls go as well.

    Before::

        graph(%x : Any):
          %y : Any = prim::CallFunction[name="f"](%x)
          %z : Any = np::sin(%y)
          return (%z)
        with function f = graph(%a : Any):
          %0 : Any = prim::add(%a, %a)
          return (%0)

    After::

        graph(%x : Any):
          %0 : Any = prim::add(%x, %x)
          %z : Any = np::sin(%0)
          return (%z)

    A call inside of the function that it calls stays, or the body would never end, and so do calls
    that are not ``wanted``.  Captures of the functions become captures of the graph.
    """
    return _Inliner(graph, wanted).block(graph.block, [graph])


class _Inliner:
    def __init__(self, graph: Graph, wanted: Callable[[Node], bool]) -> None:
        self.graph = graph
        self.wanted = wanted
        self._captures = {id(capture.read): capture for capture in graph.captures}

    def block(self, block: Block, active: Sequence[Graph]) -> bool:
        """Inline the calls in a block; ``active`` are the functions whose bodies we are in."""
        nodes, block.nodes = block.nodes, []
        return self._append(block, nodes, active)

    def _append(self, block: Block, nodes: Sequence[Node], active: Sequence[Graph]) -> bool:
        """Append nodes, and the bodies of functions in the place of their calls."""
        changed = False
        for node in nodes:
            callee = node.attributes.get("graph")
            is_call = node.kind == _KIND and isinstance(callee, Graph) and callee not in active
            if is_call and isinstance(callee, Graph) and self.wanted(node):
                self._append(block, self._expand(node, callee, block), [*active, callee])
                changed = True
                continue
            block.nodes.append(node)
            for inner in node.blocks:
                changed = self.block(inner, active) or changed
        return changed

    def _expand(self, node: Node, callee: Graph, block: Block) -> list[Node]:
        """Copies of the nodes of ``callee``, not yet listed by ``block``, instead of the call."""
        log.update("inline", lambda: f"inline {callee.name or 'a function'} at {node.source}")
        args = [*node.inputs, *self._captured(callee, len(node.inputs))]
        mapping = dict(zip(callee.inputs, args, strict=True))
        start = len(block.nodes)
        for original in callee.block.nodes:
            copy_node(original, block, mapping)
        copies = block.nodes[start:]
        del block.nodes[start:]
        for output, returned in zip(node.outputs, callee.outputs, strict=True):
            output.replace_all_uses_with(mapping.get(returned, returned))
        node.drop_inputs()
        node.block = None
        return copies

    def _captured(self, callee: Graph, given: int) -> list[Value]:
        """The graph's own inputs for the captures of ``callee``, where the call gives none."""
        is_given = given == len(callee.inputs)
        inputs: list[Value] = []
        for capture in callee.captures:
            if is_given and capture.input is not None:
                continue  # whoever calls has read it
            own = self._captures.get(id(capture.read))
            if own is None:
                own = replace(capture, input=None)
                if capture.input is not None:
                    own.input = self.graph.block.add_param(capture.input.type, capture.input.name)
                self._captures[id(capture.read)] = own
                self.graph.captures.append(own)
            if own.input is not None:
                inputs.append(own.input)
        return inputs
