"""Variables that functions share: cells, and variables from outside of the compiled function.

A nested function that is called is compiled with the code around it, so its variables are values.
Where it is passed on or stored it is a Python function, which sees all changes of the variables
around it.  Such variables are held by cells, as in Python, where they change after the function is
made; and so are those that ``nonlocal`` lets a nested function assign.  Where all of these
functions are only called, a list with one element is the cell: compiled code can see through that.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import CellType

from jitcore.frontend.bindings import (
    assignment_counts,
    declared_names,
    nonlocal_names,
    parameter_names,
)
from jitcore.frontend.builder import Builder
from jitcore.frontend.callees import Compiler, FunctionPlace, LocalScope
from jitcore.frontend.environment import Reach
from jitcore.frontend.names import Resolver, Static, variable_key
from jitcore.frontend.source import FunctionSource
from jitcore.frontend.syntax import statements_in
from jitcore.ir import reference
from jitcore.ir.classes import MISSING
from jitcore.ir.graph import Graph, Value
from jitcore.ir.types import BOOL

__all__ = ["Cells"]


class Cells(Builder):
    """Assigns and deletes variables, wherever they are held."""

    locals: frozenset[str]

    def __init__(
        self,
        source: FunctionSource,
        graph: Graph,
        resolver: Resolver,
        compiler: Compiler,
        scope: LocalScope,
    ) -> None:
        super().__init__(source, graph)
        self.resolver = resolver
        self.compiler = compiler
        self.place: FunctionPlace = (source.file, source.node.lineno, source.node.col_offset)
        self.cell_variables: dict[str, Value] = {}
        self.in_cells: frozenset[str] = frozenset()
        self.list_cells: frozenset[str] = frozenset()
        self._scope = scope
        self._own: frozenset[str] = frozenset()
        self._outside: frozenset[str] = frozenset()

    def _declare(self, body: list[ast.stmt], scope: LocalScope) -> Counter[str]:
        """Find out which variables are whose; gives how often the function assigns its own."""
        counts = assignment_counts(body)
        declared_global = declared_names(body, ast.Global)
        declared = declared_global | declared_names(body, ast.Nonlocal)
        for name in declared:
            counts.pop(name, None)
        counts.update(parameter_names(self.source.node.args))
        self._own = frozenset(counts)
        self._outside = frozenset(declared - (set(scope.variables) - declared_global))
        self.locals = self._own | frozenset(scope.variables)
        for node in statements_in([self.source.node]):
            if isinstance(node, ast.Global | ast.Nonlocal):
                for name in node.names:
                    if isinstance(node, ast.Global) or name not in self.locals:
                        self.compiler.note_stored(self.resolver.place_of(name))
        shared = nonlocal_names(body) & self._own
        asked = {name for name in self._own if self.compiler.needs_cell(self.place, name)}
        self.in_cells = frozenset(shared | asked)
        return counts

    def make_cells(self, scope: LocalScope) -> None:
        """Make the cells of the function's own variables, before anything is assigned."""
        own_lists = set()
        for name in sorted(self.in_cells):
            if self.compiler.needs_cell(self.place, name):
                self.cell_variables[name] = self.call(CellType)
            else:
                missing = self.constant(MISSING)
                self.cell_variables[name] = self.value("prim::ListConstruct", missing)
                own_lists.add(name)
        self.list_cells = frozenset(own_lists) | scope.list_cells

    @contextmanager
    def comprehension_cells(self, names: Sequence[str]) -> Iterator[None]:
        """Hold the variables of a comprehension as its own, in cells where that is needed."""
        before, lists, own = self.cell_variables, self.list_cells, self._own
        self.list_cells = lists - frozenset(names)
        self.cell_variables = {n: cell for n, cell in before.items() if n not in names}
        self._own = own | frozenset(names)
        for name in dict.fromkeys(names):
            if self.compiler.needs_cell(self.place, name):
                self.cell_variables[name] = self.call(CellType)
        yield
        self.cell_variables, self.list_cells, self._own = before, lists, own

    def owner_of(self, name: str) -> FunctionPlace:
        """The function that a variable belongs to."""
        return self.place if name in self._own else self._scope.owners.get(name, self.place)

    def read_cell(self, name: str) -> Value:
        """The value that a cell holds, or Python's error where it holds none."""
        if name in self.list_cells:
            return self._read_list_cell(name)
        known = (self.constant(name), self.constant(name in self._own))
        return self.call(reference.read_cell, self.cell_variables[name], *known)

    def _read_list_cell(self, name: str) -> Value:
        value = self.value("prim::getitem", self.cell_variables[name], self.constant(0))
        is_bound = self.node("prim::isnot", (value, self.constant(MISSING)), outputs=(BOOL,)).output

        def fail() -> list[Value]:
            kind = UnboundLocalError if name in self._own else NameError
            self.raise_exception(kind, reference.unbound_message(name, name in self._own))
            self.environment.reach = Reach.RAISED
            return [self.uninitialized(name)]

        return self.branch(is_bound, lambda: [value], fail)[0]

    def _write_list_cell(self, name: str, value: Value) -> None:
        cell = self.cell_variables[name]
        self.node("prim::setitem", (cell, self.constant(0), value), outputs=())

    def bind(self, name: str, value: Value) -> None:
        """Assign a variable; a value without a name of its own takes the variable's."""
        if name in self.list_cells:
            self._write_list_cell(name, value)
        elif name in self.cell_variables:
            cell = self.cell_variables[name]
            self.node("prim::SetAttr", (cell, value), {"name": "cell_contents"}, outputs=())
        elif name in self._outside:
            self.call(self.resolver.writer(name), value)
        else:
            super().bind(name, value)

    def unbind(self, name: str) -> None:
        """Delete a variable."""
        if name in self.list_cells:
            self._write_list_cell(name, self.constant(MISSING))
        elif name in self.cell_variables:
            cell = self.cell_variables[name]
            self.call(delattr, cell, self.constant("cell_contents"))
        elif name in self._outside:
            self.call(self.resolver.deleter(name))
        else:
            super().unbind(name)

    # Variables from outside

    def is_changing(self, name: str) -> bool:
        """Whether a name from outside may stand for something else while the function runs."""
        return self.compiler.is_dynamic(self.resolver.place_of(name))

    def is_reassigned(self, static: Static) -> bool:
        """Whether a global of another module may change while the function runs."""
        if static.container is None or static.name is None:
            return False
        return self.compiler.is_dynamic(variable_key(static.container, static.name))
