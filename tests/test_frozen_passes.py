"""Passes over frozen graphs, text in and text out."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import pytest
from pass_checking import Pass, examples

import jitcore.nn
from jitcore.ir.graph import Capture, Constants, Graph
from jitcore.ir.interpreter import run
from jitcore.ir.parser import parse_graph
from jitcore.ir.passes.frozen.assume_batches import assume_batches
from jitcore.ir.passes.frozen.cancel_transposes import cancel_transposes
from jitcore.ir.passes.frozen.concat_linears import concat_linears
from jitcore.ir.passes.frozen.fold_constants import fold_constants
from jitcore.ir.passes.frozen.fold_conv_add import fold_conv_add
from jitcore.ir.passes.frozen.fold_conv_batch_norm import fold_conv_batch_norm
from jitcore.ir.passes.frozen.fold_conv_multiply import fold_conv_multiply
from jitcore.ir.passes.frozen.fold_linear_batch_norm import fold_linear_batch_norm
from jitcore.ir.passes.frozen.fold_ranks import fold_ranks
from jitcore.ir.passes.frozen.merge_views import merge_views
from jitcore.ir.passes.frozen.pack_weights import pack_weights
from jitcore.ir.passes.frozen.remove_dead_branches import remove_dead_branches
from jitcore.ir.passes.frozen.remove_dropout import remove_dropout
from jitcore.ir.passes.frozen.remove_in_place import remove_in_place
from jitcore.ir.passes.frozen.transpose_linears import transpose_linears
from jitcore.ir.passes.frozen.weigh_products import weigh_products
from jitcore.ir.types import TensorType
from jitcore.ir.verifier import verify


def pack_weights_16_wide(graph: Graph) -> bool:
    return pack_weights(graph, lambda columns, dtype: 16)


pack_weights_16_wide.__doc__ = pack_weights.__doc__

assert jitcore.nn, "it says what the functions of layers are"

PASSES: tuple[Pass, ...] = (
    assume_batches,
    remove_dropout,
    fold_ranks,
    remove_dead_branches,
    fold_conv_batch_norm,
    fold_conv_add,
    fold_conv_multiply,
    fold_linear_batch_norm,
    fold_constants,
    cancel_transposes,
    weigh_products,
    concat_linears,
    transpose_linears,
    remove_in_place,
    merge_views,
    pack_weights_16_wide,
)


def frozen_graph(text: str, seed: int = 0, **arrays: Any) -> Graph:
    """A graph whose inputs after the first are constant arrays, random where none are given.

    Those named ``%v`` are variances, which are positive.
    """
    graph = parse_graph(textwrap.dedent(text).strip())
    generator = np.random.default_rng(seed)
    for value in graph.inputs[1:]:
        if not isinstance(value.type, TensorType) or value.type.dims is None:
            continue
        array = arrays.get(value.name)
        if array is None:
            shape = [one for one in value.type.dims if isinstance(one, int)]
            array = generator.standard_normal(shape).astype(value.type.dtype)
            array = array * array + 0.5 if value.name == "v" else array
        graph.captures.append(
            Capture(
                value.name,
                lambda array=array: array,  # type: ignore[misc]
                array,
                value,
                container=Constants({value.name: array}),
                key=value.name,
            )
        )
    return graph


@pytest.mark.parametrize("function", PASSES)
def test_docstring(function: Pass) -> None:
    before, after = examples(function)
    graph = frozen_graph(before)
    expected = graph.copy()
    verify(graph)
    assert function(graph)
    verify(graph)
    assert str(graph) == after
    assert not function(graph)
    for argument in arguments(expected):
        found, wanted = run(graph, [argument]), run(expected, [argument])
        pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
        for one, other in pairs:
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def arguments(graph: Graph) -> list[Any]:
    """What a graph may be called with: an array whose symbols are 5, 6 and so on."""
    type_ = graph.inputs[0].type
    if not isinstance(type_, TensorType) or type_.dims is None:
        return [np.ones((2, 3, 5, 6), np.float32)]
    shape = [one if isinstance(one, int) else 5 + axis for axis, one in enumerate(type_.dims)]
    return [np.random.default_rng(1).standard_normal(shape).astype(np.float32)]
