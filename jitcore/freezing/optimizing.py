"""``run_frozen_optimizations``: what becomes possible once the weights of a model are constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from jitcore.errors import Error
from jitcore.freezing.frozen_function import FrozenFunction
from jitcore.frontend.layers import script_state
from jitcore.ir import log
from jitcore.ir.graph import Graph
from jitcore.ir.passes.canonicalize import canonicalize
from jitcore.ir.passes.cse import common_subexpression_elimination
from jitcore.ir.passes.dce import dead_code_elimination
from jitcore.ir.passes.frozen.arrays import drop_unused_arrays
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
from jitcore.ir.passes.frozen.remove_dead_branches import remove_dead_branches
from jitcore.ir.passes.frozen.remove_dropout import remove_dropout
from jitcore.ir.passes.frozen.remove_in_place import remove_in_place
from jitcore.ir.passes.frozen.transpose_linears import transpose_linears
from jitcore.ir.passes.frozen.weigh_products import weigh_products
from jitcore.module import ScriptModule
from jitcore.nn.module import Module

__all__ = ["STEPS", "frozen_methods", "optimize_frozen_graph", "run_frozen_optimizations"]


def run_frozen_optimizations(
    mod: Module,
    optimize_numerics: bool = True,
    preserved_methods: Sequence[str] | None = None,
) -> None:
    """Optimize the methods of a frozen module in place; `freeze` does so by itself.

    Dropout goes, as do branches on constants and transposes that cancel, and what depends on
    constants only is computed.  The rest may change the last digits of results, and is done with
    ``optimize_numerics``: batch normalization and constants that are added to, subtracted from,
    or multiply or divide the results of a convolution go into its weights, as does batch
    normalization into those of a linear map; linear maps of one array become one; weights of
    linear maps are stored transposed.

    Parameters
    ----------
    mod : ScriptModule
        What `freeze` gave.
    optimize_numerics : bool
        Let passes change the last digits of results.
    preserved_methods : sequence of str, optional
        The methods besides ``forward`` to optimize.

    Raises
    ------
    Error
        The module is not frozen, or has no such frozen method.

    Examples
    --------
    >>> from jitcore import freeze, nn, run_frozen_optimizations, script
    >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).eval()
    >>> frozen = freeze(script(model), optimize_numerics=False)
    >>> "batch_norm" in str(frozen.graph)
    True
    >>> run_frozen_optimizations(frozen)
    >>> "batch_norm" in str(frozen.graph)
    False
    """
    for method in frozen_methods("run_frozen_optimizations", mod, preserved_methods):
        optimized = optimize_frozen_graph(method.graph, optimize_numerics)
        method.optimize(optimized, ("frozen", optimize_numerics))


def frozen_methods(caller: str, mod: Module, others: Sequence[str] | None) -> list[FrozenFunction]:
    """The frozen ``forward`` of a module, if it has one, and other frozen methods by name.

    Raises
    ------
    Error
        The module is not frozen, or has no such frozen method.
    """
    if not isinstance(mod, ScriptModule) or mod._frozen_reasons is None:
        raise Error(
            f"{caller} expects a frozen module, found {type(mod).__name__}; freeze() makes one"
        )
    found = []
    for path in dict.fromkeys(("forward", *(others or ()))):
        method = _frozen_method(mod, path)
        if method is not None:
            found.append(method)
        elif path != "forward":
            raise Error(f"{caller}: the frozen module has no method '{path}'")
    return found


def _frozen_method(root: ScriptModule, path: str) -> FrozenFunction | None:
    place, _, name = path.rpartition(".")
    try:
        owner = root.get_submodule(place)
    except AttributeError:
        return None
    method = (script_state(owner, "_compiled_methods") or {}).get(name)
    return method if isinstance(method, FrozenFunction) else None


def optimize_frozen_graph(graph: Graph, optimize_numerics: bool) -> Graph:
    """The graph of a frozen method, optimized.

    Parameters
    ----------
    graph : Graph
        It is changed.
    optimize_numerics : bool
        Let passes change the last digits of results.

    Returns
    -------
    Graph
        Where its inputs have a dtype and a rank, it is for such arrays only.
    """
    assume_batches(graph)
    remove_dropout(graph)
    remove_in_place(graph)
    _fold_all_constants(graph)
    merge_views(graph)
    if optimize_numerics:
        weigh_products(graph)
        _fold_into_weights(graph)
        concat_linears(graph)
        transpose_linears(graph)
    cancel_transposes(graph)
    common_subexpression_elimination(graph)
    dead_code_elimination(graph)
    drop_unused_arrays(graph)
    canonicalize(graph)
    log.graph_dump("frozen", f"{graph.name} optimized", lambda: str(graph))
    return graph


def _fold_all_constants(graph: Graph) -> None:
    while fold_ranks(graph) | fold_constants(graph) | remove_dead_branches(graph):
        dead_code_elimination(graph)


def _fold_into_weights(graph: Graph) -> None:
    while (
        fold_conv_batch_norm(graph)
        | fold_conv_add(graph)
        | fold_conv_multiply(graph)
        | fold_linear_batch_norm(graph)
    ):
        dead_code_elimination(graph)


STEPS: Mapping[str, Callable[[Graph, bool], Graph]] = {"frozen": optimize_frozen_graph}
"""What optimizes the graph of a frozen method, by the names that files have for it."""
