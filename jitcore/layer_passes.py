"""What the pipeline does about layers before anything else is fused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from jitcore.codegen.entries.entry import CaptureGuard
from jitcore.codegen.onednn.constants import note_constant
from jitcore.fusers.groups import Decision
from jitcore.fusers.onednn import fuse_onednn_groups, whole_deconvolutions
from jitcore.ir.graph import Constants, Graph
from jitcore.ir.passes.channels_last import keep_channels_last
from jitcore.ir.passes.cse import common_subexpression_elimination
from jitcore.ir.passes.dce import dead_code_elimination
from jitcore.ir.passes.epilogues import fuse_epilogues
from jitcore.ir.passes.expand_layers import expand_layers
from jitcore.ir.passes.library_convolutions import has_convolutions, use_library_convolutions
from jitcore.ir.passes.plain_linears import use_plain_linears
from jitcore.ir.passes.plain_windows import use_plain_windows
from jitcore.ir.passes.transposed_convolutions import expand_transposed
from jitcore.ir.passes.transposed_products import transpose_after_products

__all__ = ["fuse_for_onednn", "use_layer_forms"]

if TYPE_CHECKING:
    from jitcore.pipeline import Backend


def use_layer_forms(graph: Graph, backend: Backend, *, by_onednn: bool) -> None:
    """Give layers the form that the backend computes."""
    if backend.target.is_device:
        _use_plain_layers(graph, backend)
    else:
        _use_kernels(graph, by_onednn=by_onednn)


def _use_kernels(graph: Graph, *, by_onednn: bool) -> None:
    """Hand-made kernels in the place of layers, and all there is to gain around them."""
    if not expand_layers(graph):
        return
    expand_transposed(graph, whole_deconvolutions(graph) if by_onednn else ())
    keep_channels_last(graph)
    transpose_after_products(graph)
    common_subexpression_elimination(graph)
    dead_code_elimination(graph)
    fuse_epilogues(graph)


def _use_plain_layers(graph: Graph, backend: Backend) -> None:
    """Products and reductions of windows, and convolutions of a library where there is one."""
    use_plain_linears(graph)
    if has_convolutions(graph) and backend.convolves():
        use_library_convolutions(graph)
    use_plain_windows(graph)


def fuse_for_onednn(
    graph: Graph, captures: Sequence[CaptureGuard], decisions: list[Decision]
) -> None:
    """Groups of what oneDNN computes; the captures hold its constants."""
    fuse_onednn_groups(graph, decisions)
    expand_transposed(graph)
    _note_constants(captures)


def _note_constants(captures: Sequence[CaptureGuard]) -> None:
    """Tell of the arrays that frozen modules hold, of which other formats may be kept."""
    for capture in captures:
        if isinstance(capture.container, Constants) and capture.is_input and capture.key:
            value = capture.container.get(capture.key)
            if isinstance(value, np.ndarray):
                note_constant(value)
