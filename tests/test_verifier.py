"""The verifier finds what breaks a rule of the IR, and says which."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jitcore.ir.graph import Graph, Node, Use
from jitcore.ir.parser import parse_graph
from jitcore.ir.types import FLOAT, INT, Type
from jitcore.ir.verifier import VerificationError, verify

TEXT = """\
graph(%x : Any, %n : int, %t : bool):
  %a : int = prim::Constant[value=1]()
  %b : Any = prim::add(%x, %a) # f.py:3:4
  %c : Any = prim::If(%t)
    block0():
      %d : Any = prim::neg(%b)
      -> (%d)
    block1():
      -> (%x)
  %e : Any = prim::Loop(%n, %t, %c)
    block0(%i : int, %p : Any):
      %q : Any = prim::sub(%p, %i)
      -> (%t, %q)
  %g : Any = prim::For(%x, %e)
    block0(%item : Any, %r : Any):
      -> (%t, %item)
  %h : Any = np::sum(%g, axis=%a)
  %k : Any = prim::FusionGroup_0(%h)
  return (%k)
with prim::FusionGroup_0 = graph(%u : Any):
  %v : Any = np::sin(%u)
  return (%v)"""


def node_of(graph: Graph, kind: str) -> Node:
    return graph.find_all_nodes(kind)[0]


def test_a_good_graph() -> None:
    graph = parse_graph(TEXT)
    verify(graph)
    verify(graph.copy())


def use_before_definition(graph: Graph) -> None:
    nodes = graph.block.nodes
    nodes[0], nodes[1] = nodes[1], nodes[0]


def use_out_of_scope(graph: Graph) -> None:
    inner = node_of(graph, "prim::neg").output
    node_of(graph, "np::sum").set_input(0, inner)


def use_of_another_graph(graph: Graph) -> None:
    other = parse_graph(TEXT)
    node_of(graph, "np::sum").set_input(0, other.inputs[0])


def missing_use(graph: Graph) -> None:
    graph.inputs[0].uses.pop()


def extra_use(graph: Graph) -> None:
    graph.inputs[1].uses.append(Use(node_of(graph, "np::sum"), 0))


def same_name(graph: Graph) -> None:
    node_of(graph, "np::sum").output.name = "x"


def bad_name(graph: Graph) -> None:
    node_of(graph, "np::sum").output.name = "x y"


def bad_kind(graph: Graph) -> None:
    node_of(graph, "np::sum").kind = "sum"


def many_keywords(graph: Graph) -> None:
    node_of(graph, "np::sum").keywords = ("a", "axis", "out")


def keyword_twice(graph: Graph) -> None:
    node_of(graph, "np::sum").keywords = ("axis", "axis")


def one_branch(graph: Graph) -> None:
    block = node_of(graph, "prim::If").blocks.pop()
    block.drop_inputs()


def short_branch(graph: Graph) -> None:
    node_of(graph, "prim::If").blocks[1].drop_inputs()


def parameter_of_a_branch(graph: Graph) -> None:
    node_of(graph, "prim::If").blocks[0].add_param(INT)


def loop_without_condition(graph: Graph) -> None:
    node_of(graph, "prim::Loop").blocks[0].drop_inputs()


def loop_parameter(graph: Graph) -> None:
    node_of(graph, "prim::For").blocks[0].add_param(INT)


def loop_output(graph: Graph) -> None:
    node_of(graph, "prim::Loop").add_output(INT)


def constant_without_value(graph: Graph) -> None:
    node_of(graph, "prim::Constant").attributes.clear()


def blocks_of_an_op(graph: Graph) -> None:
    node_of(graph, "np::sum").add_block()


def group_output(graph: Graph) -> None:
    node_of(graph, "prim::FusionGroup").add_output(INT)


def group_input(graph: Graph) -> None:
    node_of(graph, "prim::FusionGroup").add_input(graph.inputs[0])


def in_the_group(graph: Graph) -> None:
    node_of(graph, "prim::FusionGroup").attributes["graph"].inputs[0].uses.clear()


def foreign_block(graph: Graph) -> None:
    node_of(graph, "np::sum").block = node_of(graph, "prim::If").blocks[0]


@pytest.mark.parametrize(
    ("breaks", "message"),
    [
        (use_before_definition, "input number 1 reads %a, which is not defined before"),
        (use_out_of_scope, "reads %d, which is defined in a block that has ended"),
        (use_of_another_graph, "reads %x, which is not defined before"),
        (missing_use, "%x is read 3 times but has 2 recorded uses"),
        (extra_use, "%n is read 1 times but has 2 recorded uses"),
        (same_name, "two values are called %x"),
        (bad_name, "'x y' is not a name"),
        (bad_kind, "a kind has the form namespace::name, not 'sum'"),
        (many_keywords, "3 keywords for only 2 inputs"),
        (keyword_twice, "a keyword is given twice"),
        (one_branch, "prim::If should have 2 blocks here, not 1"),
        (short_branch, "prim::If should have 1 returns in block1 here, not 0"),
        (parameter_of_a_branch, "prim::If should have 0 parameters in block0 here, not 1"),
        (loop_without_condition, "prim::Loop should have 2 returns in block0 here, not 0"),
        (loop_parameter, "prim::For should have 2 parameters in block0 here, not 3"),
        (loop_output, "prim::Loop should have 4 inputs here, not 3"),
        (constant_without_value, "prim::Constant needs the attribute value"),
        (blocks_of_an_op, "np::sum has no blocks, but here it has 1"),
        (group_output, "2 outputs of a graph that returns 1"),
        (group_input, "2 inputs for a graph that takes 1"),
        (in_the_group, "%u is read 1 times but has 0 recorded uses"),
        (foreign_block, "the node does not know the block it lies in"),
    ],
)
def test_errors(breaks: Callable[[Graph], None], message: str) -> None:
    graph = parse_graph(TEXT)
    breaks(graph)
    with pytest.raises(VerificationError) as caught:
        verify(graph)
    assert message in str(caught.value)


def test_the_error_shows_the_node_and_its_line() -> None:
    graph = parse_graph(TEXT)
    use_before_definition(graph)
    with pytest.raises(VerificationError, match=r"%b : Any = prim::add\(%x, %a\) # f.py:3:4"):
        verify(graph)


def test_types_are_compared() -> None:
    graph = parse_graph(TEXT)

    def same(node: Node) -> list[Type]:
        return [value.type for value in node.outputs]

    def different(node: Node) -> list[Type]:
        return [FLOAT] if node.kind == "prim::Constant" else same(node)

    verify(graph, same)
    with pytest.raises(VerificationError, match=r"should have the types \(float\), not \(int\)"):
        verify(graph, different)
