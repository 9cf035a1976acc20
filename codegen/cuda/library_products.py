"""Which products go to NVIDIA's libraries: calls of the functions that ask those."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from jitcore.codegen.cuda.cublas import gemm_symbol
from jitcore.codegen.cuda.cublaslt import BIASED, biased_symbol
from jitcore.codegen.cuda.linear import stride_along
from jitcore.codegen.cuda.nests import chain, is_independent
from jitcore.codegen.cuda.products import MATMUL, PRODUCT, extents, factors_of, product_in
from jitcore.codegen.cuda.vendor import DTYPES
from jitcore.codegen.loop_passes.rewriting import replaced, simplified
from jitcore.codegen.loops import Binary, Call, Comment, Expr, For, Let, Load, Stmt, Store
from jitcore.codegen.lowering.arithmetic import ONE, ZERO
from jitcore.ir.dataclass import dataclass

__all__ = ["NO_LIBRARIES", "Libraries", "call_of_library", "call_with_bias"]


@dataclass(frozen=True, slots=True)
class Libraries:
    """Who multiplies matrices.

    Parameters
    ----------
    product : str
        The name of the cuBLAS for products; empty where there is none.
    with_bias : str
        That of the cuBLASLt for products with a bias.
    """

    product: str = ""
    with_bias: str = ""

    def leave(self, nest: For) -> bool:
        """Whether loops over a product's elements are to be one with it.

        They are not where a library multiplies, but cannot do what the loops do.
        """
        call = product_in(nest)
        assert call is not None
        if not self.product or factors_of(call) not in DTYPES:
            return True
        return bool(self.with_bias) and call_with_bias(nest) is not None

    def asked(self, call: Call, nest: For) -> tuple[Call | None, str]:
        """The call of a library for a product, or a nest that reads one, and the library's name."""
        if call.name.startswith(MATMUL):
            return (call_of_library(call) if self.product else None), self.product
        return (call_with_bias(nest) if self.with_bias else None), self.with_bias


NO_LIBRARIES = Libraries()


def call_of_library(call: Call) -> Call | None:
    """cuBLAS's function in the place of a product; None where it has none for the dtype."""
    dtype = factors_of(call)
    if dtype not in DTYPES:
        return None
    return replace(call, name=gemm_symbol(dtype), dtype="int64", external=True)


def call_with_bias(nest: For) -> Call | None:
    """cuBLASLt's function for loops that add one number to each column of a product.

    None of all other loops over a product's elements.
    """
    loops, body = chain(nest, is_independent)
    call = product_in(nest)
    if call is None or factors_of(call) not in BIASED or extents(call)[3] != ONE:
        return None
    if [loop.stop for loop in loops] != list(extents(call)[:2]):
        return None
    found = _sum_and_place(body)
    if found is None:
        return None
    bias, store = found
    rows, columns = (loop.var for loop in loops)
    along = [stride_along(bias.index, one.name) for one in (rows, columns)]
    steps = [stride_along(store.index, one.name) for one in (rows, columns)]
    if along != [ZERO, ONE] or bias.dtype != call.dtype or steps[0] is None or steps[1] is None:
        return None
    at_zero: Mapping[Expr, Expr] = {rows: ZERO, columns: ZERO}
    first, place = (simplified(replaced(x, at_zero.get)) for x in (bias.index, store.index))
    target = (store.pointer, place, ZERO, steps[0], steps[1])
    args = (*call.args[:10], *target, *extents(call), bias.pointer, first)
    return Call(biased_symbol(call.dtype), args, "int64", external=True)


def _sum_and_place(body: Sequence[Stmt]) -> tuple[Load, Store] | None:
    """What is added to a product's element, and where the sum goes, if the body does only that."""
    *lets, store = [one for one in body if not isinstance(one, Comment)]
    values: dict[Expr, Expr] = {}
    for one in lets:
        if not isinstance(one, Let):
            return None
        values[one.var] = replaced(one.value, values.get)
    if not isinstance(store, Store):
        return None
    match replaced(store.value, values.get):
        case Binary("add", Call(name=name), Load() as bias) if name.startswith(PRODUCT):
            return bias, store
        case Binary("add", Load() as bias, Call(name=name)) if name.startswith(PRODUCT):
            return bias, store
    return None
