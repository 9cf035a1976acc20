"""Which file has the rule for a kind of node: a family of rules is imported with its first node.

A program has nodes of a few families, and to import all of them takes longer than to lower it.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final

from jitcore.codegen.lowering.kinds import SCALARS
from jitcore.codegen.lowering.state import Rule
from jitcore.ir.ops import REDUCTIONS, SCANS

__all__ = ["FAMILIES", "NAMESPACES", "rule_of"]

FAMILIES: Final = {
    "attributes": "prim::AttributeNote prim::ElementsWrite",
    "control": "prim::If prim::Loop prim::Call prim::Raise prim::CheckBound",
    "draws": "prim::CallMethod",
    "elementwise": " ".join(SCALARS)
    + " np::from_int np::full np::iota np::empty np::copy np::rolled np::listed np::item",
    "factorizations": "np::solve np::inv np::cholesky",
    "groups": "prim::FusionGroup",
    "layer_rules": "prim::oneDNNFusionGroup",
    "lists": "prim::ListItems prim::ListLength prim::ListWrite prim::ListMake",
    "masks": "np::compress np::put_mask",
    "matmul": "np::matmul np::narrow_product",
    "movement": "np::concatenate np::gather np::scatter",
    "python_numbers": "prim::Constant prim::Uninitialized prim::range_length "
    "prim::add prim::sub prim::mul prim::truediv prim::floordiv prim::mod prim::pow "
    "prim::lshift prim::rshift prim::and_ prim::or_ prim::xor prim::neg prim::pos prim::invert "
    "prim::not_ prim::lt prim::le prim::gt prim::ge prim::eq prim::ne prim::bool prim::abs "
    "prim::float prim::int prim::round prim::complex prim::min prim::max",
    "reductions": " ".join(REDUCTIONS),
    "references": "prim::ListGet prim::ListMove prim::ListPut prim::ListRoom prim::ListView",
    "requirements": "prim::assume_equal prim::require prim::require_shape",
    "reshapes": "np::check_reshape np::ravel np::reshape np::set_shape",
    "scans": " ".join(SCANS),
    "shared_lists": "prim::ListMakeRows prim::ListMakeShared prim::ListMemo prim::ListTakeShared "
    "prim::ListWriteShared",
    "stores": "np::store",
    "structure": "prim::TupleConstruct prim::UnionConstruct prim::Unpack",
    "structured": "np::field np::record",
    "views": "np::view np::transpose np::diagonal np::sliding_window_view np::broadcast_to "
    "np::real np::imag prim::size prim::slice_length",
}
"""The kinds of nodes of each file, but for those of `NAMESPACES`."""

NAMESPACES: Final = {"math": "python_math", "nn": "layer_rules"}
"""Files with the rules for all kinds of a namespace that have one."""

_FAMILY_OF: Final = {kind: family for family, kinds in FAMILIES.items() for kind in kinds.split()}


@cache
def rule_of(kind: str) -> Rule | None:
    """How a kind of node lowers; a node that has no rule belongs to the host program."""
    family = _FAMILY_OF.get(kind) or NAMESPACES.get(kind.partition("::")[0])
    if family is None:
        return None
    rules: dict[str, Rule] = import_module(f"jitcore.codegen.lowering.{family}").RULES
    return rules.get(kind)
