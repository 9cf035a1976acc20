"""Splits a lowered function: loops over elements become kernels, the rest stays on the host.

The host part checks shapes, allocates, runs the program's own loops and branches, and launches.
What it may not do is read an element: memory belongs to the device.  A scalar that depends on
elements (a total, and what is computed of it) therefore stays on the device too.  Variables that
kernels leave have a slot in ``scratch``, a small array; what is computed of them is computed anew
in each kernel that reads it.  A single statement on such scalars is run by one thread, at the end
of the kernel before it where that makes a total.

Before::

    total = 0.0
    for k in range(n): total += x[k]
    for i in range(n): y[i] = x[i] / total

After (host)::

    scratch = jc_cuda_scratch(...)
    launch_0(x, n, scratch, blocks, threads)    # the total
    launch_1(x, n, y, scratch, blocks, threads)
    jc_cuda_free(scratch)
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace

import numpy as np

from jitcore.codegen.cuda.cudnn import CONVOLUTIONS
from jitcore.codegen.cuda.divided import Several, divided
from jitcore.codegen.cuda.epilogues import with_epilogues
from jitcore.codegen.cuda.failures import NO_FAILURE, Failures, ends_in_errors, may_share
from jitcore.codegen.cuda.fission import fission
from jitcore.codegen.cuda.host_part import (
    HOST_CALLS,
    before_returns,
    branches_on_elements,
    c_arguments,
    called_on_host,
    is_element,
    is_new_memory,
    moved_variables,
    on_host,
)
from jitcore.codegen.cuda.kernels import MAX_THREADS, Kernel, Launch, Mapped, by_first_thread
from jitcore.codegen.cuda.library_products import NO_LIBRARIES, Libraries
from jitcore.codegen.cuda.nests import check_nest, with_independence
from jitcore.codegen.cuda.one_pass import may_be_one_pass, scan_in_one_pass, zeros_for
from jitcore.codegen.cuda.products import as_nest, is_product, map_product, product_in
from jitcore.codegen.cuda.reductions import map_total, reductions_of, with_end
from jitcore.codegen.cuda.results import host_slots, with_device_scalars
from jitcore.codegen.cuda.scalars import COUNTERS, SLOT, DeviceScalars
from jitcore.codegen.cuda.scans import is_scan, scanned_variables, share_scan
from jitcore.codegen.cuda.schedule import is_by_columns, map_elements, map_nest
from jitcore.codegen.cuda.serial import (
    Exits,
    assigned_variables,
    may_run_in_order,
    reads_single,
    run_in_order,
)
from jitcore.codegen.cuda.siblings import with_siblings_merged
from jitcore.codegen.cuda.sums import with_atomic_sums
from jitcore.codegen.cuda.tuning import DEFAULT, Tuning
from jitcore.codegen.cuda.vendor import NOT_TAKEN
from jitcore.codegen.loop_passes.rewriting import numbered, with_blocks, with_expressions
from jitcore.codegen.loop_passes.traversal import (
    bound_names,
    calls_c,
    expressions,
    free_variables,
    loads,
    walk,
)
from jitcore.codegen.loops import (
    Assign,
    Call,
    Const,
    Do,
    Expr,
    For,
    Function,
    If,
    Let,
    Load,
    Return,
    Stmt,
    Store,
    Var,
    While,
)
from jitcore.codegen.lower import Lowered
from jitcore.codegen.lowering.arithmetic import FALSE, ONE, TRUE, ZERO, add, compare, integer
from jitcore.codegen.lowering.operands import NotNative
from jitcore.codegen.lowering.state import MAX_RANK, NULL, RESULTS
from jitcore.codegen.targets import FETCH
from jitcore.ir.dataclass import dataclass

__all__ = ["DeviceFunction", "split"]


@dataclass(frozen=True, slots=True)
class DeviceFunction:
    """A host function and the kernels it launches.

    Parameters
    ----------
    lowered : Lowered
        Its function is the host part.  Results that are NumPy scalars on a host are arrays of rank
        0 where they depend on elements.
    kernels : tuple of Kernel
    """

    lowered: Lowered
    kernels: tuple[Kernel, ...]


def split(
    lowered: Lowered, libraries: Libraries = NO_LIBRARIES, tuning: Tuning = DEFAULT
) -> DeviceFunction:
    """Split a function that was lowered for a device.

    Parameters
    ----------
    lowered : Lowered
    libraries : Libraries
        Who multiplies matrices.
    tuning : Tuning
        How kernels are launched.

    Raises
    ------
    NotNative
        The host would have to read an element, or threads cannot share a loop over elements.
    """
    splitter = _Splitter(lowered, libraries, tuning)
    body = splitter.body(lowered.function)
    made = replace(
        lowered,
        function=replace(lowered.function, body=body),
        result=with_device_scalars(lowered.result, splitter.device_slots),
        sites=tuple(splitter.sites),
        notes=(*lowered.notes, *splitter.notes()),
    )
    return DeviceFunction(made, tuple(splitter.kernels))


class _Splitter(DeviceScalars):
    """Walks the host's statements in order."""

    def __init__(self, lowered: Lowered, libraries: Libraries, tuning: Tuning) -> None:
        super().__init__(lowered)
        self._libraries, self._tuning = libraries, tuning
        self.kernels: list[Kernel] = []
        self.device_slots: set[int] = set()
        self._host_slots = host_slots(lowered.result)
        self._total: Mapped | None = None
        self._own_memory: set[str] = set()

    def body(self, function: Function) -> list[Stmt]:
        """The host function's statements."""
        statements = with_epilogues(function.body, self._libraries.leave)
        body = [*self.block(with_siblings_merged(statements)), *self._flush()]
        if self._size == COUNTERS:
            return body
        size = integer(SLOT * self._size)
        free = Do(Call("jc_cuda_free", (self._scratch,), "void", external=True))
        allocated = self._allocated(self._scratch, size, "jc_cuda_scratch")
        return [*allocated, *before_returns(body, free)]

    def notes(self) -> Iterator[str]:
        """For reports: how loops became threads."""
        yield from (f"{one.name}: {one.mapping}" for one in self.kernels)
        if self._tuning != DEFAULT:
            yield f"measured launch configuration: {self._tuning}"

    # The host's statements ----------------------------------------------------------------

    def block(self, statements: Sequence[Stmt]) -> list[Stmt]:
        """A block of the host, with launches in the place of loops over elements."""
        return [made for one in statements for made in self._statement(one)]

    def _statement(self, statement: Stmt) -> Iterator[Stmt]:
        match statement:
            case Let():
                yield from self._let(statement)
            case Assign():
                yield from self._assign(statement)
            case Store():
                yield from self._store(statement)
            case For() | While() | If() if self._is_of_host(statement):
                yield with_expressions(statement, on_host)
            case For() if (lowered := self._shared(statement)) is not None:
                yield from lowered
            case For() if may_run_in_order(statement):
                yield from self._in_order(statement)
            case For() | While() | If():
                yield from self._control(statement)
            case Return():
                yield from self._flush()
                yield statement
            case Do(call) if is_product(statement):
                yield from self._product(call, as_nest(call, set(self._names)))
            case Do(call):
                if call.name not in HOST_CALLS:
                    raise NotNative(f"the C function {call.name} on the device's memory")
                yield from self._flush()
                yield Do((yield from self._called(call)))
            case _:
                yield statement

    def _shared(self, loop: For) -> Iterator[Stmt] | None:
        """The launches in the place of a loop over elements; None where the host has to run it."""
        call = product_in(loop)
        if call is not None:
            return self._product(call, loop)
        if reductions_of(loop):
            return self._reduce(loop)
        if is_scan(loop) and not loop.parallel:
            return self._scan(loop)
        # Other loops may hold much work for all threads.
        is_for_kernels = reads_single(loop.body) or branches_on_elements(loop, self._is_of_device)
        own = with_independence(loop) if is_for_kernels else loop
        if own.parallel:
            return self._nest(own)
        summed = with_atomic_sums(loop)
        if not reads_single(loop.body) or not may_share(summed, self._own_memory):
            return None
        return self._until_failure(loop, summed) if ends_in_errors(loop) else self._added_up(summed)

    def _is_of_host(self, statement: Stmt) -> bool:
        """Whether a statement, with all that lies in it, has nothing to do with elements."""
        for one in walk([statement]):
            if is_product(one) or (isinstance(one, Store) and one.pointer != RESULTS):
                return False
            if isinstance(one, Assign) and one.var.name in self._slots:
                return False
            if any(map(self._is_of_device, expressions(one))):
                return False
        return True

    def _let(self, statement: Let) -> Iterator[Stmt]:
        var, value = statement.var, statement.value
        if is_new_memory(value, self._own_memory):
            self._own_memory.add(var.name)
        if isinstance(value, Call) and value.name in HOST_CALLS:
            yield Let(var, (yield from self._called(value)))
        elif isinstance(value, Call) and value.name in CONVOLUTIONS:
            yield from self._flush()
            yield Let(var, (yield from self._called(value)))
        elif isinstance(value, Call) and value.name == FETCH:
            yield Let(var, (yield from self._fetched(value.args[0])))
        elif not self._is_of_device(value):
            if calls_c(value) and any(arg.dtype == "ptr" for arg in c_arguments(value)):
                raise NotNative("a C function on the device's memory")
            if statement.mutable:
                self._initial[var.name] = value
            yield Let(var, on_host(value), statement.mutable)
        elif statement.mutable or any(map(is_element, loads(value))):
            # What is in memory may change later: the scalar is taken now.
            self._take(var, value)
        else:
            self._derived[var.name] = statement

    def _assign(self, statement: Assign) -> Iterator[Stmt]:
        if statement.var.name in self._slots or self._is_of_device(statement.value):
            self._move_to_device(statement.var)
            self._take(statement.var, statement.value)
        else:
            # What is to be launched reads the variable as it was.
            yield from self._flush()
            yield statement

    def _store(self, statement: Store) -> Iterator[Stmt]:
        if statement.pointer != RESULTS:
            self._add_single(statement)
        elif self._is_of_device(statement.value):
            yield from self._scalar_result(statement)
        else:
            yield statement

    def _scalar_result(self, statement: Store) -> Iterator[Stmt]:
        """A NumPy scalar that is on the device comes back as an array of rank 0."""
        dtype = np.dtype(statement.value.dtype)
        assert isinstance(statement.index, Const)
        slot = statement.index.value * dtype.itemsize // SLOT
        if slot in self._host_slots:
            value = yield from self._fetched(statement.value)
            yield replace(statement, value=value)
            return
        self.device_slots.add(slot)
        made = Var(numbered("scalar_object", self._names), "ptr")
        pointer = Var(numbered("scalar", self._names), "ptr")
        args = (integer(dtype.num), ZERO, ZERO, *([ONE] * MAX_RANK))
        yield Let(made, Call("jc_cuda_empty", args, "ptr", external=True))
        failed = self._site(MemoryError)
        yield If(compare("eq", made, NULL), [Return(failed)], unlikely=True)
        yield Let(pointer, Load(made, integer(2), "ptr"))
        self._single.append(Store(pointer, ZERO, self._inline(statement.value), "scalar"))
        yield Store(RESULTS, integer(slot), made, "results")

    def _control(self, statement: For | While | If) -> Iterator[Stmt]:
        """The program's own loops and branches, which the host runs."""
        for var in moved_variables(statement, self._is_of_device):
            self._move_to_device(var)
        yield from self._flush()
        match statement:
            case If():
                condition = yield from self._fetched(statement.condition)
                changed: For | While | If = replace(statement, condition=condition)
            case For():
                start = yield from self._fetched(statement.start)
                stop = yield from self._fetched(statement.stop)
                changed = replace(statement, start=start, stop=stop, parallel=False)
            case While():
                yield from self._while(statement)
                return
        outer, self._is_in_loop = self._is_in_loop, self._is_in_loop or isinstance(changed, For)
        yield with_blocks(changed, self._inner)
        self._is_in_loop = outer

    def _inner(self, block: Sequence[Stmt]) -> list[Stmt]:
        """A block whose scalars end with it."""
        before = dict(self._derived), self._initial
        # What a variable had outside it need not have here any more.
        self._initial = {}
        made = [*self.block(block), *self._flush()]
        self._derived, self._initial = before
        return made

    def _while(self, statement: While) -> Iterator[Stmt]:
        outer, self._is_in_loop = self._is_in_loop, True
        before = dict(self._derived), self._initial
        self._initial = {}
        head = [*self.block(statement.head), *self._flush()]
        fetched = self._fetched(statement.condition)
        condition: Expr = FALSE
        while True:
            try:
                head.append(next(fetched))
            except StopIteration as end:
                condition = end.value
                break
        yield While(head, condition, self._inner(statement.body))
        self._derived, self._initial = before
        self._is_in_loop = outer

    def _called(self, call: Call) -> Generator[Stmt, None, Call]:
        """A call of the host, whose arguments may depend on elements."""
        args: list[Expr] = []
        for arg in call.args:
            args.append((yield from self._fetched(arg)))
        return called_on_host(replace(call, args=tuple(args)))

    # Kernels ------------------------------------------------------------------------------

    def _nest(self, nest: For) -> Iterator[Stmt]:
        mapped = map_nest(nest, set(self._names), self._tuning)
        if mapped is None:
            yield from self._control(nest)
            return
        yield from self._flush()
        several = fission(nest, is_by_columns, self._names)
        several = several or divided(nest, is_by_columns, self._names)
        if several is None or any(map(self._is_of_device, several.needed())):
            yield from self._launch(mapped)
        elif several.pays == TRUE:
            yield from self._launch_all(several)
        else:
            launches = list(self._launch_all(several))
            yield If(several.pays, launches, list(self._launch(mapped)))

    def _launch_all(self, several: Several) -> Iterator[Stmt]:
        """Several kernels in the place of one."""
        yield from several.bindings
        for pointer, size in several.memory:
            yield from self._allocated(pointer, size)
        for one in several.nests:
            if isinstance(one, Several):
                yield from self._launch_all(one)
                continue
            nest, what = one
            mapped = map_nest(nest, set(self._names), self._tuning)
            assert mapped is not None
            yield from self._launch(replace(mapped, mapping=f"{mapped.mapping}, {what}"))
        for pointer, _ in several.memory:
            yield Do(Call("jc_cuda_free", (pointer,), "void", external=True))

    def _allocated(self, pointer: Var, size: Expr, by: str = "jc_cuda_malloc") -> Iterator[Stmt]:
        yield Let(pointer, Call(by, (size,), "ptr", external=True))
        failed = self._site(MemoryError)
        yield If(compare("eq", pointer, NULL), [Return(failed)], unlikely=True)

    def _reduce(self, loop: For) -> Iterator[Stmt]:
        """A total over elements, which goes to slots."""
        yield from self._flush()
        found = [one.var for one in reductions_of(loop)]
        initial = list(map(self._begun, found))
        yield from self._flush()
        names, threads = set(self._names), self._tuning.element_threads
        total = map_total(loop, initial, self._scratch, self._new_slots, names, threads)
        # What it reads of device scalars may change before it is launched.
        self._total = replace(total, body=[*self._bindings(total.body), *total.body])
        self._single += self._left(found)

    def _begun(self, var: Var) -> Expr:
        """What a variable is before a loop over elements changes it."""
        if var.name in self._slots:
            self._settle(var)
            return self._inline(var)
        if var.name not in self._initial:
            raise NotNative(f"the variable {var.name} moves to the device")
        return self._initial[var.name]

    def _left(self, found: Sequence[Var]) -> Iterator[Stmt]:
        """Give variables slots, and those what a kernel leaves of them."""
        for var in found:
            if var.name not in self._slots:
                self._slots[var.name] = self._new_slots(1)
            yield Store(self._scratch, self._place(var), var, self._scratch.name)

    def _scan(self, loop: For) -> Iterator[Stmt]:
        """A scan of all elements, by all blocks if there are many."""
        check_nest(loop)
        found = scanned_variables(loop)
        initial = list(map(self._begun, found))
        yield from self._flush()
        end = list(self._left(found))
        if may_be_one_pass(loop):
            memory = zeros_for(loop, Var(numbered("tiles", self._names), "ptr"))
            size = yield from self._fetched(memory.size)
            yield from self._allocated(memory.pointer, size, "jc_cuda_zeros")
            yield from self._launch(scan_in_one_pass(loop, initial, memory, end, set(self._names)))
            yield Do(Call("jc_cuda_free", (memory.pointer,), "void", external=True))
            return
        begin = [Let(*one, mutable=True) for one in zip(found, initial, strict=True)]
        body = [*begin, *share_scan(loop, set(self._names)), by_first_thread(end)]
        launch = Launch(ONE, integer(MAX_THREADS))
        yield from self._launch(Mapped(body, launch, "one block, scanning"))

    def _in_order(self, loop: For) -> Iterator[Stmt]:
        """A loop whose iterations follow one another, in a kernel of one block."""
        exits = Exits(self._scratch, lambda: self._new_slots(1))
        (taken,) = exits.taken([loop])
        assert isinstance(taken, For)
        body, threads = run_in_order(taken, self._names)
        found = assigned_variables(loop)
        initial = list(map(self._begun, found))
        yield from self._flush()
        begin = [Let(*one, mutable=True) for one in zip(found, initial, strict=True)]
        end = [by_first_thread([one]) for one in self._left(found)]
        statements = [*exits.begin(), *begin, *body, *end]
        each = "one thread" if threads == 1 else "one block"
        launch = Launch(ONE, integer(threads))
        yield from self._launch(Mapped(statements, launch, f"{each}, an iteration after the other"))
        if not exits.found:
            return
        status = yield from self._read(exits.status, "int64")
        for number, one in enumerate(exits.found):
            reached = compare("eq", status, integer(number + 1))
            yield If(reached, list(self._left_at(one)), unlikely=True)

    def _added_up(self, loop: For) -> Iterator[Stmt]:
        """A loop whose iterations add to the same integers."""
        check_nest(loop)
        yield from self._flush()
        yield from self._launch(map_elements(loop, set(self._names), self._tuning))

    def _until_failure(self, loop: For, shared: For) -> Iterator[Stmt]:
        """A loop as threads share it, each of which may meet an error; then the first of these."""
        failures = Failures(self._scratch, self._new_slots(1))
        self._single.append(failures.none())
        yield from self._flush()
        yield from self._launch(failures.map(shared, set(self._names), self._tuning))
        number = yield from self._read(failures.slot, "int64")
        again = replace(loop, start=number, stop=add(number, ONE))
        before = dict(self._derived)
        failed = list(self._in_order(again))
        self._derived = before
        yield If(compare("ne", number, integer(NO_FAILURE)), failed, unlikely=True)

    def _left_at(self, end: Sequence[tuple[Stmt, int]]) -> Iterator[Stmt]:
        """What the host does where a kernel has ended with an error."""
        for statement, slot in end:
            match statement:
                case Store():
                    yield replace(statement, value=(yield from self._read(slot, "int64")))
                case Do(call):
                    yield Do(called_on_host(call))
                case _:
                    yield statement

    def _flush(self) -> Iterator[Stmt]:
        """Launch what one thread has to do, in the kernel of a total if there is one."""
        total, self._total = self._total, None
        single, self._single = self._single, []
        if total is not None:
            yield from self._launch(with_end(total, single))
        elif single:
            yield from self._launch(Mapped(single, Launch(ONE, ONE), "one thread"))

    def _product(self, call: Call, nest: For) -> Iterator[Stmt]:
        """A product by the library, or by a kernel where the library does not take it.

        The nest is what a kernel has to do with the product's elements.
        """
        yield from self._flush()
        names = set(self._names) | bound_names([nest])
        asked, library = self._libraries.asked(call, nest)
        if asked is None or any(map(self._is_of_device, asked.args)):
            yield from self._launch(map_product(nest, names))
            return
        own = list(self._launch(map_product(nest, names, library)))
        status = Var(numbered("status", self._names), "int64")
        yield Let(status, asked)
        is_refused = compare("eq", status, integer(NOT_TAKEN))
        yield If(is_refused, own, [self._unless_done(status)], unlikely=True)

    def _launch(self, mapped: Mapped) -> Iterator[Stmt]:
        blocks = yield from self._fetched(mapped.launch.blocks)
        body = [*self._bindings(mapped.body), *mapped.body]
        params = free_variables(body)
        name = f"{self._name}_kernel{len(self.kernels)}"
        kernel = Kernel(name, params, body, mapped.launch, mapped.mapping)
        self.kernels.append(kernel)
        args = (*params, blocks, mapped.launch.threads)
        status = Var(numbered("status", self._names), "int64")
        yield Let(status, Call(kernel.launch_symbol, args, "int64", external=True))
        yield self._unless_done(status)
