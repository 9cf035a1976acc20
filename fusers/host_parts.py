"""What of a program around regions on a device runs on the host, on copies of its arrays.

Between regions a program moves arrays about: it makes views, builds tuples, branches.  That needs
no element, and is done with the arrays on the device.  What does look at elements, or may do so,
becomes ``prim::HostGroup`` nodes: for each of them arrays go to the host, and results come back.
All else, numbers and texts among it, is Python's as anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from jitcore.fusers.native_nodes import is_only_constant
from jitcore.fusers.regions import form_region, is_inside
from jitcore.ir.graph import Block, Graph, Node, Value
from jitcore.ir.types import ANY, ListType, TensorType, TupleType, Type

__all__ = ["HOST_GROUP", "form_host_parts"]

HOST_GROUP = "prim::HostGroup"

_PLUMBING = frozenset(
    f"prim::{name}"
    for name in (
        *("Constant", "Uninitialized", "CheckBound", "require", "size", "getitem"),
        *("GetAttr", "SetAttr"),
        *("If", "Loop", "ListConstruct", "NativeGroup", "TupleConstruct", "Unpack"),
    )
)
"""What a host program does with arrays without a look at their elements."""

_VIEWS = frozenset(
    f"np::{name}"
    for name in ("view", "transpose", "reshape", "broadcast_to", "real", "imag", "diagonal")
)
"""Those that arrays on a device can make of themselves."""

_CHANGES_OF_FORM = frozenset({"resize", "setflags"})
"""Methods that change an array itself, of which it learns nothing where they change its copy."""


def form_host_parts(
    graph: Graph, is_of_device: Callable[[Node], bool], has_attribute: Callable[[str], bool]
) -> list[Node] | None:
    """Group what needs the host; None where all of the program has to be there.

    Given a graph in which regions are formed, ``is_of_device``, which says of a node that a library
    computes it on the device, and ``has_attribute``, which says whether arrays on a device have an
    attribute of NumPy's.  Returns the groups.  The whole is the host's where something that may
    keep arrays for later, such as an iterator, would be made of copies.
    """
    if any(map(_changes_form, graph.nodes())):
        return None
    parts = _Parts(is_of_device, has_attribute)
    return parts.formed(graph.block) if parts.can_form(graph.block) else None


class _Parts:
    """Forms groups, block by block."""

    def __init__(
        self, is_of_device: Callable[[Node], bool], has_attribute: Callable[[str], bool]
    ) -> None:
        self._is_of_device = is_of_device
        self._has_attribute = has_attribute

    def can_form(self, block: Block) -> bool:
        """Whether what is on the host and what is not can be told apart."""
        for item in self._items(block):
            if isinstance(item, list):
                if not _may_be_apart(item):
                    return False
            elif _visits_array(item) or not all(map(self.can_form, item.blocks)):
                return False
        return True

    def formed(self, block: Block) -> list[Node]:
        """The groups in a block, and in blocks inside it."""
        items = list(self._items(block))
        found: list[Node] = []
        block.nodes = []
        for item in items:
            if isinstance(item, list):
                found.append(form_region(block, item, HOST_GROUP))
                continue
            block.nodes.append(item)
            for inner in item.blocks:
                found += self.formed(inner)
        return found

    def _items(self, block: Block) -> Iterator[Node | list[Node]]:
        """The nodes that stay, and runs of those that need the host."""
        run: list[Node] = []
        for node in block.nodes:
            if is_only_constant(node):
                yield node
            elif not self._stays(node):
                run.append(node)
            else:
                if run:
                    yield run
                    run = []
                yield node
        if run:
            yield run

    def _stays(self, node: Node) -> bool:
        """Whether arrays on the device will do; for control flow, whether some of it is there."""
        if node.blocks and any(map(self._is_region, _inside(node))):
            return True
        return self._leaves(node) and all(map(self._leaves, _inside(node)))

    def _leaves(self, node: Node) -> bool:
        return self._leaves_elements(node) or self._is_of_device(node)

    def _leaves_elements(self, node: Node) -> bool:
        """Whether a node reads no element of an array on a device, and makes none."""
        if node.kind == "prim::GetAttr" and _may_be_array(node.inputs[0]):
            return self._has_attribute(node.attributes["name"])
        if node.kind in _PLUMBING or node.kind in _VIEWS:
            return not _reads_key(node)
        makes_arrays = any(map(_is_array, node.outputs)) or _is_numpy_s(node)
        return not (node.blocks or makes_arrays or any(map(_may_be_array, node.inputs)))

    def _is_region(self, node: Node) -> bool:
        return node.kind == "prim::NativeGroup" or self._is_of_device(node)


def _inside(node: Node) -> Iterator[Node]:
    for block in node.blocks:
        for one in block.nodes:
            yield one
            yield from _inside(one)


def _changes_form(node: Node) -> bool:
    if node.kind != "prim::CallMethod" or node.attributes["name"] not in _CHANGES_OF_FORM:
        return False
    return _may_be_array(node.inputs[0])


def _reads_key(node: Node) -> bool:
    """Whether a node looks up what may be an element of an array: a dict needs its value."""
    if node.kind != "prim::getitem" or node.inputs[0].type != ANY:
        return False
    return _may_be_array(node.inputs[1])


def _visits_array(node: Node) -> bool:
    """Whether a loop visits the elements of what may be an array."""
    if node.kind != "prim::For" or isinstance(node.inputs[0].type, ListType | TupleType):
        return False
    return _may_be_array(node.inputs[0])


def _may_be_apart(run: list[Node]) -> bool:
    """Whether what the nodes give others can be had from copies: numbers, and arrays of NumPy's."""
    inside = set(run)
    for node in run:
        leaves = any(not is_inside(use.user, inside) for one in node.outputs for use in one.uses)
        if leaves and not all(_can_come_back(node, value.type) for value in node.outputs):
            return False
    return True


def _can_come_back(node: Node, type_: Type) -> bool:
    return _is_numpy_s(node) if type_ == ANY else not isinstance(type_, ListType)


def _is_numpy_s(node: Node) -> bool:
    """Whether a node calls one of NumPy's functions on arrays, which give new arrays or views."""
    if node.kind != "np::call":
        return False
    found: object = np
    for part in node.attributes["name"].split("."):
        found = getattr(found, part, None)
    return isinstance(found, np.ufunc | type(np.sum))


def _is_array(value: Value) -> bool:
    return isinstance(value.type, TensorType)


def _may_be_array(value: Value) -> bool:
    """Whether a value is an array on a device, or may hold one."""
    if value.constant is not None or not _holds_arrays(value.type):
        return False
    node = value.node
    if node is None or node.blocks or node.kind in _PLUMBING or _is_numpy_s(node):
        return True
    return _is_array(value) or any(map(_may_be_array, node.inputs))


def _holds_arrays(type_: Type) -> bool:
    if isinstance(type_, TupleType):
        return any(map(_holds_arrays, type_.elements))
    return type_ == ANY or isinstance(type_, TensorType | ListType)
