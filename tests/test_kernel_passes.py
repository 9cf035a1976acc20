"""How layers become kernels: text in, text out."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
from pass_checking import Pass, check_pass, check_unchanged, examples

import jitcore.nn
from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.graph import Graph
from jitcore.ir.interpreter import run
from jitcore.ir.parser import parse_graph
from jitcore.ir.passes.channels_last import keep_channels_last
from jitcore.ir.passes.dce import dead_code_elimination
from jitcore.ir.passes.epilogues import fuse_epilogues
from jitcore.ir.passes.expand_layers import expand_layers
from jitcore.ir.passes.library_convolutions import use_library_convolutions
from jitcore.ir.passes.plain_linears import use_plain_linears
from jitcore.ir.passes.plain_windows import use_plain_windows
from jitcore.ir.passes.transposed_convolutions import expand_transposed
from jitcore.ir.passes.transposed_products import transpose_after_products
from jitcore.ir.types import BOOL
from jitcore.ir.verifier import verify
from jitcore.nn import functional as F

assert jitcore.nn, "it says what the functions of layers are"


@pytest.mark.parametrize(
    "function",
    [
        expand_layers,
        expand_transposed,
        keep_channels_last,
        transpose_after_products,
        fuse_epilogues,
        use_library_convolutions,
        use_plain_linears,
        use_plain_windows,
    ],
)
def test_docstring(function: Pass) -> None:
    before, after = examples(function)
    check_pass(function, before, after)


def parsed(text: str) -> Graph:
    graph = parse_graph(textwrap.dedent(text).strip())
    verify(graph)
    return graph


def kinds(graph: Graph) -> list[str]:
    return [node.kind for node in graph.nodes() if node.kind != "prim::Constant"]


def array(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    rng = np.random.default_rng(sum(shape))
    return rng.standard_normal(shape).astype(np.float32)


CHAIN = """
    graph(%x : Float32[2, 4, 9, 8], %w : Float32[6, 4, 3, 3], %d : Float32[6, 1, 3, 3],
          %b : Float32[6], %s : Float32[6, 1, 1]):
      %0 : None = prim::Constant[value=None]()
      %1 : Float32 = prim::Constant[value=np.float32(0.0)]()
      %2 : Float32 = prim::Constant[value=np.float32(0.5)]()
      %3 : Float32[2, 6, 9, 8] = nn::conv2d[stride=(1, 1), padding=(1, 1), dilation=(1, 1), \
groups=1](%x, %w, %b)
      %4 : Float32[2, 6, 9, 8] = np::multiply(%3, %s)
      %5 : Float32[2, 6, 9, 8] = nn::conv2d[stride=(1, 1), padding=(1, 1), dilation=(1, 1), \
groups=6](%4, %d, %0)
      %6 : Float32[2, 6, 9, 8] = np::maximum(%5, %1)
      %7 : Float32[2, 6, 5, 4] = nn::avg_pool2d[kernel_size=(2, 2), stride=(2, 2), \
padding=(1, 0), ceil_mode=False, count_include_pad=False](%6)
      %8 : Float32[2, 6, 5, 4] = np::minimum(%7, %2)
      %9 : Float32[2, 6] = np::mean[axis=(2, 3), keepdims=False](%8)
      return (%9, %7)
"""


@pytest.mark.parametrize("groups", [1, 2])
def test_a_transposed_product_is_what_its_phases_are(groups: int) -> None:
    graph = parsed(
        f"""
        graph(%x : Float32[2, 5, 6, 4], %w : Float32[4, 3, 4, 3], %b : Float32[{3 * groups}]):
          %0 : Float32[2, 11, 18, {3 * groups}] = nn::transposed_product[stride=(2, 3), \
padding=(1, 0), output_padding=(1, 0), groups={groups}, dilation=(1, 1)](%x, %w, %b)
          return (%0)
        """
    )
    inputs = [array(2, 5, 6, 4), array(4, 3, 4, 3), array(3 * groups)]
    expected = run(graph.copy(), inputs)
    assert expand_transposed(graph)
    verify(graph)
    np.testing.assert_allclose(run(graph, inputs), expected, rtol=1e-5, atol=1e-5)
    x, w, b = inputs
    images = x.transpose(0, 3, 1, 2)
    direct = F.conv_transpose2d(images, w, b, (2, 3), (1, 0), (1, 0), groups)
    np.testing.assert_allclose(expected, direct.transpose(0, 2, 3, 1), rtol=1e-5, atol=1e-5)


def test_a_chain_of_layers_changes_the_layout_at_its_ends() -> None:
    graph = parsed(CHAIN)
    inputs = [array(2, 4, 9, 8), array(6, 4, 3, 3), array(6, 1, 3, 3), array(6), array(6, 1, 1)]
    expected = run(graph.copy(), inputs)
    assert expand_layers(graph) and keep_channels_last(graph)
    dead_code_elimination(graph)
    fuse_epilogues(graph)
    verify(graph)
    found = kinds(graph)
    # Those of the image, of the depthwise weights, and of the second result.
    assert found.count("np::copy") == 3
    assert "np::mean" in found
    assert "np::maximum" not in found
    for one, two in zip(run(graph, inputs), expected, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "following",
    [
        "%3 : Float32[5, 16] = np::multiply(%2, %r)",
        "%3 : Float32[5, 16] = np::add(%2, %b)",
        "%3 : Float32[5, 16] = np::maximum(%2, %r)",
        "%3 : Float32[5, 16] = np::maximum(%2, %nan)",
        # The residual is written afterwards.
        "%3 : Float32[5, 16] = np::add(%2, %r)\n          %4 : None = np::store(%r, %3)",
    ],
)
def test_what_is_no_epilogue(following: str) -> None:
    check_unchanged(
        fuse_epilogues,
        f"""
        graph(%x : Float32[5, 8], %p : Float32[1, 1, 8, 16], %r : Float32[5, 16], %b : Float32[16]):
          %0 : None = prim::Constant[value=None]()
          %nan : Float32 = prim::Constant[value=np.float32(nan)]()
          %2 : Float32[5, 16] = nn::product[kernel=(), stride=(), padding=(), dilation=(), \
columns=16, low=-inf, high=inf](%x, %p, %0, %0)
          {following}
          return (%3)
        """,
    )


def test_a_result_that_is_read_twice_is_no_place_for_an_epilogue() -> None:
    check_unchanged(
        fuse_epilogues,
        """
        graph(%x : Float32[5, 8], %p : Float32[1, 1, 8, 16], %r : Float32[5, 16]):
          %0 : None = prim::Constant[value=None]()
          %2 : Float32[5, 16] = nn::product[kernel=(), stride=(), padding=(), dilation=(), \
columns=16, low=-inf, high=inf](%x, %p, %0, %0)
          %3 : Float32[5, 16] = np::add(%2, %r)
          return (%3, %2)
        """,
    )


def test_a_second_limit_on_the_wrong_side_of_the_first() -> None:
    graph = parsed(
        """
        graph(%x : Float32[5, 8], %p : Float32[1, 1, 8, 16]):
          %0 : None = prim::Constant[value=None]()
          %1 : Float32 = prim::Constant[value=np.float32(1.0)]()
          %2 : Float32 = prim::Constant[value=np.float32(2.0)]()
          %3 : Float32[5, 16] = nn::product[kernel=(), stride=(), padding=(), dilation=(), \
columns=16, low=-inf, high=inf](%x, %p, %0, %0)
          %4 : Float32[5, 16] = np::minimum(%3, %1)
          %5 : Float32[5, 16] = np::maximum(%4, %2)
          return (%5)
        """
    )
    assert fuse_epilogues(graph)
    assert kinds(graph) == ["nn::product", "np::maximum"]


def test_images_that_are_written_keep_their_layout() -> None:
    check_unchanged(
        keep_channels_last,
        """
        graph(%x : Float32[2, 7, 7, 8]):
          %0 : Float32 = prim::Constant[value=np.float32(0.0)]()
          %1 : Float32[2, 8, 7, 7] = np::transpose[axes=(0, 3, 1, 2)](%x)
          %2 : Float32[2, 8, 7, 7] = np::copy[order="C"](%1)
          %3 : None = np::store(%2, %0)
          %4 : Float32[2, 8, 7, 7] = np::maximum(%2, %0)
          return (%4, %2)
        """,
    )


@pytest.mark.parametrize(
    "operand",
    ["%other : Float32[2, 8, 7, 7]", "%other : Float32[7, 7]", "%other : Float32[1, 1, 7, 1]"],
)
def test_an_operand_without_a_channels_last_form(operand: str) -> None:
    check_unchanged(
        keep_channels_last,
        f"""
        graph(%x : Float32[2, 7, 7, 8], {operand}):
          %1 : Float32[2, 8, 7, 7] = np::transpose[axes=(0, 3, 1, 2)](%x)
          %2 : Float32[2, 8, 7, 7] = np::copy[order="C"](%1)
          %4 : Float32[2, 8, 7, 7] = np::add(%2, %other)
          return (%4)
        """,
    )


def test_transposes_stay_before_products_that_others_read() -> None:
    text = """
        graph(%x : Float32[2, 5, 8], %p : Float32[1, 1, 8, 16]):
          %0 : None = prim::Constant[value=None]()
          %1 : Float32[5, 2, 8] = np::transpose[axes=(1, 0, 2)](%x)
          %2 : Float32[5, 2, 16] = nn::product[kernel=(), stride=(), padding=(), dilation=(), \
columns=16, low=-inf, high=inf](%1, %p, %0, %0)
          %3 : Float32[5, 16] = np::view[index=":, 0, :"](%2)
          %4 : Float32[5, 16] = np::exp(%3)
          return (%4)
    """
    check_unchanged(transpose_after_products, text)


def test_transposes_of_the_terms_stay_before_products() -> None:
    text = """
        graph(%x : Float32[8, 5], %p : Float32[1, 1, 8, 16], %q : Float32[1, 1, 16, 16]):
          %0 : None = prim::Constant[value=None]()
          %1 : Float32[5, 8] = np::transpose[axes=(1, 0)](%x)
          %2 : Float32[5, 16] = nn::product[kernel=(), stride=(), padding=(), dilation=(), \
columns=16, low=-inf, high=inf](%1, %p, %0, %0)
          %3 : Float32[5, 16] = nn::product[kernel=(), stride=(), padding=(), dilation=(), \
columns=16, low=-inf, high=inf](%2, %q, %0, %0)
          return (%3)
    """
    check_unchanged(transpose_after_products, text)


def _conv(stride: int, padding: str, dilation: int, groups: int) -> str:
    return (
        f"nn::conv2d[stride=({stride}, {stride}), padding={padding}, "
        f"dilation=({dilation}, {dilation}), groups={groups}]"
    )


SAME = '"same"'
_POOL = "kernel_size=(3, 2), stride=({0}, {0}), padding=({1}, {1}), ceil_mode=False"


@pytest.mark.parametrize(
    "node",
    [
        f"Float32[2, 6, 9, 8] = {_conv(1, '(1, 1)', 1, 1)}(%x, %w, %b)",
        f"Float32[2, 6, 4, 3] = {_conv(2, '(0, 0)', 1, 1)}(%x, %w, %none)",
        f"Float32[2, 6, 9, 8] = {_conv(1, SAME, 2, 1)}(%x, %w, %b)",
        f"Float32[2, 6, 7, 6] = {_conv(1, '(0, 0)', 1, 2)}(%x, %g, %b)",
        f"Float32[2, 4, 4, 4] = nn::max_pool2d[{_POOL.format(2, 0)}, dilation=(1, 1)](%x)",
        f"Float32[2, 4, 7, 8] = nn::max_pool2d[{_POOL.format(1, 1)}, dilation=(2, 2)](%x)",
        f"Float32[2, 4, 5, 5] = nn::avg_pool2d[{_POOL.format(2, 1)}, count_include_pad=True](%x)",
        "Float32[2, 4, 3, 2] = nn::adaptive_avg_pool2d[output_size=(3, 2)](%x)",
    ],
)
def test_windows_without_kernels(node: str) -> None:
    graph = parsed(
        f"""
        graph(%x : Float32[2, 4, 9, 8], %w : Float32[6, 4, 3, 3], %g : Float32[6, 2, 3, 3],
              %b : Float32[6]):
          %none : None = prim::Constant[value=None]()
          %r : {node}
          return (%r)
        """
    )
    inputs = [array(2, 4, 9, 8), array(6, 4, 3, 3), array(6, 2, 3, 3), array(6)]
    expected = run(graph.copy(), inputs)
    assert use_plain_windows(graph)
    verify(graph)
    assert not any(kind.startswith("nn::") for kind in kinds(graph))
    found = run(graph, inputs)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("dims", "image"),
    [("2, 4, 9, 8", (2, 4, 9, 8)), ("n, c, h, w", (3, 4, 7, 6)), ("n, 4, 5, w", (1, 4, 5, 4))],
)
@pytest.mark.parametrize(
    ("weight", "bias", "attributes"),
    [
        ("6, 4, 3, 3", "b", "stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1"),
        ("6, 2, 3, 3", "none", "stride=(2, 3), padding=(1, 2), dilation=(2, 1), groups=2"),
    ],
)
def test_a_library_is_asked(
    dims: str, image: tuple[int, ...], weight: str, bias: str, attributes: str
) -> None:
    graph = parsed(
        f"""
        graph(%x : Float32[{dims}], %w : Float32[{weight}], %b : Float32[6]):
          %none : None = prim::Constant[value=None]()
          %r : Float32[p, 6, q, s] = nn::conv2d[{attributes}](%x, %w, %{bias})
          return (%r)
        """
    )
    inputs = [array(*image), array(*map(int, weight.split(", "))), array(6)]
    expected = run(graph.copy(), inputs)
    assert use_library_convolutions(graph)
    verify(graph)
    np.testing.assert_allclose(run(graph, inputs), expected, rtol=1e-5, atol=1e-5)
    (asked,) = graph.find_all_nodes("nn::library_convolution")
    (choice,) = graph.find_all_nodes("prim::If")
    assert choice.inputs == [asked.output]
    analysis = AliasAnalysis(graph)
    assert analysis.writes(asked) == analysis.points_to(asked.inputs[2])
    assert not analysis.may_alias(*asked.inputs[1:])
    # What the library does not take.
    choice.set_input(0, choice.value_before("prim::Constant", [], BOOL, {"value": False}))
    np.testing.assert_allclose(run(graph, inputs), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("image", "weight", "padding"),
    [
        ("Float32[2, 4, 8, 8]", "Float32[n, 4, 3, 3]", "(1, 1)"),
        ("Float32[2, 4, 8, 8]", "Float32[6, 4, 3, 2]", '"same"'),
        ("Float32[4, 8, 8]", "Float32[6, 4, 3, 3]", "(1, 1)"),
        ("Float32[2, 4, 8, 8]", "Float32[6, 4, 0, 3]", "(1, 1)"),
    ],
)
def test_convolutions_that_no_library_takes_stay(image: str, weight: str, padding: str) -> None:
    check_unchanged(
        use_library_convolutions,
        f"""
        graph(%x : {image}, %w : {weight}, %b : None):
          %0 : Float32[...] = nn::conv2d[stride=(1, 1), padding={padding}, dilation=(1, 1), \
groups=1](%x, %w, %b)
          return (%0)
        """,
    )


@pytest.mark.parametrize(
    "node",
    [
        "nn::avg_pool2d[kernel_size=(2, 2), stride=(2, 2), padding=(1, 1), ceil_mode=False, "
        "count_include_pad=False](%x)",
        "nn::max_pool2d[kernel_size=(2, 2), stride=(2, 2), padding=(1, 1), ceil_mode=True, "
        "dilation=(1, 1)](%x)",
    ],
)
def test_windows_that_are_not_all_alike_stay(node: str) -> None:
    check_unchanged(
        use_plain_windows,
        f"""
        graph(%x : Float32[2, 4, 8, 8]):
          %0 : Float32[2, 4, 5, 5] = {node}
          return (%0)
        """,
    )
