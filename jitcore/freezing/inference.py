"""``optimize_for_inference``: a frozen model made ready for this machine."""

from __future__ import annotations

from collections.abc import Sequence

from jitcore.codegen.kernels.tiles import panel_width
from jitcore.errors import Error
from jitcore.freezing.freeze import freeze
from jitcore.freezing.optimizing import frozen_methods, optimize_frozen_graph
from jitcore.ir.graph import Graph
from jitcore.ir.passes.canonicalize import canonicalize
from jitcore.ir.passes.frozen.arrays import drop_unused_arrays
from jitcore.ir.passes.frozen.pack_weights import pack_weights
from jitcore.module import ScriptModule
from jitcore.nn.module import Module

__all__ = ["optimize_for_inference"]


def optimize_for_inference(mod: Module, other_methods: Sequence[str] | None = None) -> ScriptModule:
    """Make a model ready for inference on this machine.

    It is frozen if it is not yet, with all of `run_frozen_optimizations`, and the weights of
    convolutions and linear maps are packed as this machine's kernels read them.  What follows a
    convolution or a linear map is done where its results are written, and images stay in the
    kernels' layout between them.

    Parameters
    ----------
    mod : ScriptModule
        A frozen one is changed itself; any other is put into eval mode and frozen, which makes a
        new one.
    other_methods : sequence of str, optional
        The methods besides ``forward`` to keep and to optimize.

    Returns
    -------
    ScriptModule
        It can be neither saved nor pickled: save the module that it was made of.  Optimizing it
        once more changes nothing.

    Raises
    ------
    Error
        It is no script module, or has no such method.

    Examples
    --------
    >>> import numpy as np
    >>> from jitcore import nn, optimize_for_inference, script
    >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
    >>> ready = optimize_for_inference(script(model))
    >>> "batch_norm" in str(ready.graph), "packed=" in str(ready.graph)
    (False, True)
    >>> ready(np.ones((1, 3, 6, 6), np.float32)).shape
    (1, 8, 4, 4)
    """
    if not isinstance(mod, ScriptModule):
        raise Error(
            "optimize_for_inference expects a ScriptModule as input, found "
            f"{type(mod).__name__}; use jitcore.script() to script a module"
        )
    if mod._frozen_reasons is None:
        mod = freeze(mod.eval(), list(other_methods or ()))
    for method in frozen_methods("optimize_for_inference", mod, other_methods):
        if not method.is_for_this_machine:
            method.prepare(_prepared(method.graph))
    return mod


def _prepared(graph: Graph) -> Graph:
    """The graph of a frozen method as this machine runs it best."""
    optimize_frozen_graph(graph, optimize_numerics=True)
    pack_weights(graph, panel_width)
    drop_unused_arrays(graph)
    canonicalize(graph)
    return graph
