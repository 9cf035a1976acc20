"""Plans: what calls of one specialization run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from jitcore.codegen.engine import CompiledModule
from jitcore.codegen.entries.entry import Entry, ReleaseGil
from jitcore.codegen.entries.error_sites import ErrorSite
from jitcore.codegen.entries.signature import Signature
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Graph, Node

if TYPE_CHECKING:
    from jitcore.codegen.lower import Lowered
    from jitcore.execution.host_entries import HostEntry
    from jitcore.fusers.groups import Decision

__all__ = ["HostPlan", "Kernel", "NativePlan", "StoredPlan"]

_HEADER = """\
{name}: a native function that jitcore made, as source for Numba.

Addresses are int64: a pointer to the first element for each array, and for the results."""


@dataclass(slots=True, repr=False)
class Kernel:
    """One compiled native function, and the forms it had on the way.

    Parameters
    ----------
    name : str
    lowered : Lowered
        Its loop nests and what is known of them.
    module : CompiledModule
        The machine code.
    owner : object
        What keeps code alive that Numba compiled.
    """

    name: str
    lowered: Lowered
    module: CompiledModule
    owner: object = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    @property
    def source(self) -> str:
        """The kernel as Numba source, which can be pasted into a file and run."""
        function = self.lowered.function
        printer = import_module("jitcore.codegen.printers.numba_cpu")
        text: str = printer.print_function(function, header=_HEADER.format(name=function.name))
        return text

    @property
    def llvm(self) -> str:
        """The optimized LLVM code."""
        return self.module.llvm

    @property
    def assembly(self) -> str:
        """The machine code as assembly text."""
        return self.module.assembly


@dataclass(slots=True)
class NativePlan:
    """A graph compiled to one native function behind a guarded entry."""

    graph: Graph
    kernel: Kernel
    entry: Entry
    signature: Signature
    decisions: list[Decision] = field(default_factory=list)
    release_gil: ReleaseGil = "never"

    @property
    def address(self) -> int:
        """Of the entry."""
        return self.kernel.module.address(self.entry.symbol)

    @property
    def sites(self) -> tuple[ErrorSite, ...]:
        """Where the function gives up."""
        return self.kernel.lowered.sites


class StoredPlan(NativePlan):
    """Machine code from another process: ready to be called, and made again to be looked at.

    Parameters
    ----------
    module : CompiledModule
    entry : Entry
    signature : Signature
    sites : tuple of ErrorSite
    """

    __slots__ = ("_module", "_sites", "remake")

    def __init__(
        self,
        module: CompiledModule,
        entry: Entry,
        signature: Signature,
        sites: tuple[ErrorSite, ...],
    ) -> None:
        self.entry = entry
        self.signature = signature
        self._module = module
        self._sites = sites
        self.remake: Callable[[], NativePlan]

    def __getattr__(self, name: str) -> Any:
        """The graph, the kernel and the decisions, which a call does not need."""
        if name not in ("graph", "kernel", "decisions", "release_gil"):
            raise AttributeError(name)
        made = self.remake()
        self.graph, self.kernel, self.decisions = made.graph, made.kernel, made.decisions
        self.release_gil = made.release_gil
        return getattr(self, name)

    @property
    def address(self) -> int:
        """Of the entry."""
        return self._module.address(self.entry.symbol)

    @property
    def sites(self) -> tuple[ErrorSite, ...]:
        """Where the function gives up."""
        return self._sites


@dataclass(slots=True)
class HostPlan:
    """A graph compiled to a Python program that calls native regions.

    Parameters
    ----------
    graph : Graph
    run : callable
    regions : dict from Node to callable
    idle : set
        Regions that turned out to be of no use.
    given_up : set of Node
        What was in such regions.
    reason : str
        Why the whole has no form for a device, where that is the reason.
    library_calls : tuple of str
        The functions that a device's library computes.
    host_parts : dict from Node to callable
        What of a device's program runs on the host, on copies.
    refusal : str
        Why lists, texts and objects that compiled code might have taken are Python's.
    calls : dict
        How many calls with arguments of these classes came past all entries.
    entries : list of HostEntry
        Entries that call the program.
    fruitless : bool or None
        Whether the regions have nothing to do with arrays; None where nobody has looked.
    is_plain : bool
        Whether the plain function itself runs, which takes nothing for granted.
    methods : frozenset of str
        The names of methods that it calls by their compiled forms.
    """

    graph: Graph
    run: Callable[..., Any]
    regions: dict[Node, Any] = field(default_factory=dict)
    idle: set[Any] = field(default_factory=set)
    reason: str = ""
    library_calls: tuple[str, ...] = ()
    host_parts: dict[Node, Callable[..., Any]] = field(default_factory=dict)
    refusal: str = ""
    calls: dict[tuple[type, ...], int] = field(default_factory=dict)
    entries: list[HostEntry] = field(default_factory=list)
    fruitless: bool | None = None
    is_plain: bool = False
    methods: frozenset[str] = frozenset()
    given_up: set[Node] = field(default_factory=set)
