"""Rows that stay in registers, so that several loops over them read memory once.

A softmax goes over its row three times.  Where each of these loops gives a thread the same
elements, the thread keeps them: the first loop reads them, all at once and before anything waits,
the others have them already, and what one loop writes only for the next never reaches memory.

Before, for the threads of a block::

    for k in block(n): total += x[k]
    for k in block(n): y[k] = x[k] / total

After, for rows of at most so many elements that each thread has two::

    x0 = x[thread]; x1 = x[thread + threads]
    total += x0; total += x1
    y[thread] = x0 / total; y[thread + threads] = x1 / total

Elements are taken by vectors of 16 bytes where all rows begin at multiples of that; this only shows
when the kernel runs.  Threads beyond the end of the row read its last elements, and neither write
nor join them.  What is longer than the registers of a block hold follows in an ordinary loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from jitcore.codegen.cuda.kernels import (
    LINE,
    MAX_THREADS,
    WARP,
    Team,
    ThreadFor,
    vector_width,
)
from jitcore.codegen.cuda.linear import depends_on
from jitcore.codegen.cuda.nests import extent_of
from jitcore.codegen.cuda.tuning import DEFAULT
from jitcore.codegen.cuda.vectors import Place, are_aligned, by_vectors, place_of, places_of
from jitcore.codegen.loop_passes.rewriting import numbered, replaced, with_expressions
from jitcore.codegen.loop_passes.traversal import (
    bound_names,
    loads_in,
    overlap,
    read_roots,
    variables,
    written_roots,
)
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Call,
    Comment,
    Const,
    Do,
    Expr,
    For,
    If,
    Let,
    Load,
    Stmt,
    Store,
    Var,
)
from jitcore.codegen.lowering.arithmetic import (
    ONE,
    TRUE,
    ZERO,
    add,
    both,
    compare,
    constant,
    integer,
    maximum,
    minimum,
    multiply,
    select,
    subtract,
)
from jitcore.ir.dataclass import dataclass

__all__ = ["ResidentRow", "resident_row"]

REGISTER_BYTES = 128
"""What a thread keeps of rows: 32 registers, of the 64 that threads of the largest blocks have."""

MOST_ELEMENTS = 16
"""A thread has no more elements of a row than this: each has code of its own."""

MOST_UNKNOWN = 8
"""The same for rows of any length, whose kernels have the ordinary loops, too."""


@dataclass(frozen=True, slots=True)
class _Accesses:
    """The places in memory that a loop walks element by element, and the roots of all it reads."""

    loads: dict[Place, str]
    stores: dict[Place, str]
    others: frozenset[str]

    @property
    def places(self) -> dict[Place, str]:
        return {**self.loads, **self.stores}


def resident_row(
    body: Sequence[Stmt],
    outer: set[str],
    team: Team,
    names: set[str],
    writes: Expr = TRUE,
    few_threads: int = DEFAULT.row_threads,
) -> ResidentRow | None:
    """What of a row can stay in registers; None where nothing of it is needed twice.

    Parameters
    ----------
    body : sequence of Stmt
        What is done with a row, loops that the team shares among it.
    outer : set of str
        The counters around it.
    team : Team
    names : set of str
        The names that are taken; gets the new ones.
    writes : Expr
        Which threads write.
    few_threads : int
        Of a block, whose threads get more elements before it gets more threads.
    """
    first = next((n for n, one in enumerate(body) if isinstance(one, For)), len(body))
    changing = bound_names(body[first:]) | {
        one.var.name for one in body[:first] if isinstance(one, Let) and one.mutable
    }
    accesses = {
        id(one): found
        for one in body
        if isinstance(one, For) and (found := _accesses(one, changing))
    }
    changing |= outer | bound_names(body)
    candidates = [one for one in body if isinstance(one, For) and id(one) in accesses]
    extents = [one.stop for one in candidates if not changing & set(variables(one.stop))]
    if not extents:
        return None
    extent = max(extents, key=extents.count)
    own = {id(one): accesses[id(one)] for one in candidates if one.stop == extent}
    counts = Counter(place for one in own.values() for place in one.places)
    loaded = {place for one in own.values() for place in one.loads}
    shared = [place for place, count in counts.items() if count > 1 and place in loaded]
    kept = {number: one for number, one in own.items() if one.places.keys() & set(shared)}
    places = [place for one in kept.values() for place in one.places]
    shape = _shape(extent, shared, places, team, few_threads)
    return None if shape is None else ResidentRow(body, kept, shared, shape, team, names, writes)


def _accesses(loop: For, changing: set[str]) -> _Accesses | None:
    """The accesses of a loop whose iterations are straight code; None for any other loop.

    Where a row begins may not depend on what is in ``changing``.
    """
    places = places_of(loop)
    used = {name for one in places for x in (one.pointer, one.offset) for name in variables(x)}
    if loop.start != ZERO or not places or used & (changing - {loop.var.name}):
        return None
    name = loop.var.name
    inner = {one.var.name for one in loop.body if isinstance(one, Let)}
    found: dict[Place, str] = {}
    others: set[str] = set()
    for load in loads_in(loop.body):
        place = place_of(load.pointer, load.index, load.dtype, name, inner)
        if place is not None:
            found[place] = load.root
        elif any(depends_on(x, one) for x in (load.pointer, load.index) for one in {name, *inner}):
            return None
        else:
            others.add(load.root)
    stores: dict[Place, str] = {}
    for store in loop.body:
        if isinstance(store, Store):
            place = place_of(store.pointer, store.index, store.value.dtype, name, inner)
            assert place is not None
            stores[place] = store.root
    return _Accesses(found, stores, frozenset(others))


@dataclass(frozen=True, slots=True)
class _Shape:
    """How a row is shared out.

    Parameters
    ----------
    extent : Expr
    width : int
        Elements of a vector.
    vectors : int
        Vectors of a thread.
    threads : Expr
        Of the team, for the launch.
    """

    extent: Expr
    width: int
    vectors: int
    threads: Expr

    @property
    def each(self) -> int:
        """Elements of a thread."""
        return self.width * self.vectors

    @property
    def capacity(self) -> int:
        """Elements of all threads, where that is known; else 0."""
        return self.each * self.threads.value if isinstance(self.threads, Const) else 0

    @property
    def is_whole(self) -> bool:
        """Whether registers are known to hold all of the row."""
        return isinstance(self.extent, Const) and self.extent.value <= self.capacity

    @property
    def is_exact(self) -> bool:
        """Whether all threads are known to have as many elements."""
        return isinstance(self.extent, Const) and self.extent.value >= self.capacity


def _shape(
    extent: Expr, shared: Sequence[Place], places: Sequence[Place], team: Team, few_threads: int
) -> _Shape | None:
    size = sum(max(one.itemsize, 4) for one in shared)
    if not size or (isinstance(extent, Const) and extent.value < 1):
        return None
    most = MOST_ELEMENTS if isinstance(extent, Const) else MOST_UNKNOWN
    elements = min(most, REGISTER_BYTES // size)
    width = vector_width(max(one.itemsize for one in places))
    while width > elements:
        width //= 2
    if isinstance(extent, Const):
        while extent.value % width:
            width //= 2
    if not width:
        return None
    most = elements // width
    # Each thread of the largest blocks has but 64 registers, of 4 bytes.
    most_threads = MAX_THREADS * 4 // max(4, *(one.itemsize for one in places))
    if team == LINE:
        assert isinstance(extent, Const)
        vectors = -(-extent.value // (width * WARP))
        return _Shape(extent, width, vectors, integer(WARP)) if vectors <= most else None
    if isinstance(extent, Const):
        whole = -(-extent.value // width)
        vectors = min(most, -(-whole // few_threads))
        threads = min(most_threads, -(-whole // vectors) + WARP - 1 & -WARP)
        return _Shape(extent, width, vectors, integer(threads))
    each = width * most
    needed = Binary("quot", add(maximum(extent, ZERO), integer(each - 1)), integer(each), "int64")
    warps = Binary("and", add(needed, integer(WARP - 1)), integer(-WARP), "int64")
    threads = minimum(maximum(warps, integer(WARP)), integer(most_threads))
    return _Shape(extent, width, most, threads)


class ResidentRow:
    """Writes the loops over a row of which each thread keeps its elements.

    Parameters are those of `resident_row`; and the loops' accesses by ``id``, what they share, and
    how the row is shared out.
    """

    def __init__(
        self,
        body: Sequence[Stmt],
        kept: dict[int, _Accesses],
        shared: Sequence[Place],
        shape: _Shape,
        team: Team,
        names: set[str],
        writes: Expr,
    ) -> None:
        self._body = body
        self._loops = kept
        self._shared = frozenset(shared)
        self._shape, self._team, self._names, self._writes = shape, team, names, writes
        self._roots = {place: root for one in kept.values() for place, root in one.places.items()}
        self._held: dict[Place, list[Var]] = {}
        self._aligned = Var(numbered("aligned", names), "bool")
        count = range(shape.vectors)
        self._firsts = [Var(numbered("first", names), "int64") for _ in count]
        self._clamped = [Var(numbered("own", names), "int64") for _ in count]
        self._are_real = [Var(numbered("is_real", names), "bool") for _ in count]

    def __contains__(self, statement: Stmt) -> bool:
        return id(statement) in self._loops

    @property
    def threads(self) -> Expr:
        """How many threads the team needs."""
        return self._shape.threads

    @property
    def is_whole(self) -> bool:
        """Whether registers are known to hold all of the row."""
        return self._shape.is_whole

    def begin(self) -> list[Stmt]:
        """Which elements a thread has; to be run for each row before its loops."""
        shape = self._shape
        if self._team == LINE:
            thread: Expr = Call("cuda.lane_in_warp", (), "int64")
            threads: Expr = integer(WARP)
        else:
            thread, threads = Call("cuda.thread", (), "int64"), self._threads_here()
        made: list[Stmt] = []
        for number, first in enumerate(self._firsts):
            vector = add(thread, multiply(threads, integer(number)))
            made.append(Let(first, multiply(vector, integer(shape.width))))
            if shape.is_exact:
                continue
            last = subtract(shape.extent, integer(shape.width))
            made.append(Let(self._clamped[number], minimum(first, last)))
            if isinstance(shape.extent, Const):
                made.append(Let(self._are_real[number], compare("lt", first, shape.extent)))
        if shape.width > 1:
            places = dict.fromkeys(p for one in self._loops.values() for p in one.places)
            is_aligned = are_aligned(list(places), shape.width)
            if not isinstance(shape.extent, Const):
                rest = Binary("and", shape.extent, integer(shape.width - 1), "int64")
                is_aligned = both(is_aligned, compare("eq", rest, ZERO))
            made.append(Let(self._aligned, is_aligned))
        return made

    def _threads_here(self) -> Expr:
        """How many threads the team has, in the kernel."""
        threads = self._shape.threads
        return threads if isinstance(threads, Const) else Call("cuda.threads", (), "int64")

    # What the loops do with memory --------------------------------------------------------

    def reads(self, loop: For) -> set[tuple[str, Place | None]]:
        """What a loop reads from memory: its root, and the place if each thread reads its own."""
        accesses = self._loops[id(loop)]
        found: set[tuple[str, Place | None]] = {(root, None) for root in accesses.others}
        for place, root in accesses.loads.items():
            if not self.is_whole:
                found.add((root, None))
            elif place not in self._held:
                found.add((root, place))
        return found

    def writes(self, loop: For) -> set[tuple[str, Place | None]]:
        """What a loop writes to memory: its root, and the place if each thread writes its own."""
        return {
            (root, place if self.is_whole else None)
            for place, root in self._loops[id(loop)].stores.items()
            if not (self.is_whole and self._is_overwritten(loop, place))
        }

    def forget(self, roots: set[str]) -> None:
        """Something writes to memory: what lies there has to be read again."""
        for place in list(self._held):
            if overlap({self._roots[place]}, roots):
                del self._held[place]

    def _is_overwritten(self, loop: For, place: Place) -> bool:
        """Whether a later loop writes the same elements before anything reads them from memory."""
        root = self._roots[place]
        position = next(n for n, one in enumerate(self._body) if one is loop)
        for later in self._body[position + 1 :]:
            accesses = self._loops.get(id(later))
            if accesses is None:
                used = read_roots([later]) | written_roots([later])
            else:
                used = {other for one, other in accesses.places.items() if one != place}
                used |= accesses.others
            if overlap({root}, used):
                return False
            if accesses is not None and place in accesses.stores:
                return True
        return False

    # The loops ----------------------------------------------------------------------------

    def loops(self, loop: For, shared: ThreadFor) -> list[Stmt]:
        """A loop's iterations, those of each of the thread's elements one after the other.

        Parameters
        ----------
        loop : For
            One of the row's.
        shared : ThreadFor
            The same, with the names of the parts of reductions.
        """
        accesses = self._loops[id(loop)]
        loads = [one for one in accesses.loads if one not in self._held]
        stores = [one for one in accesses.stores if one in self._shared]
        fresh = {place: self._variables(place) for place in loads}
        written = {place: self._variables(place) for place in stores}
        begin: list[Stmt] = [
            Let(var, constant(0, var.dtype), mutable=True)
            for group in (fresh, written)
            for one in group.values()
            for var in one
        ]
        copies = _Copies(loop, {**self._held, **fresh}, written, self._names)
        kept = {one: vars_ for one, vars_ in fresh.items() if one in self._shared}
        others = {one: vars_ for one, vars_ in fresh.items() if one not in self._shared}
        work = self._loaded(kept, range(self._shape.vectors))
        for number in range(self._shape.vectors):
            work += self._loaded(others, [number])
            work += self._copied(shared, copies, number)
        work += self._stored(loop, copies)
        if not isinstance(self._shape.extent, Const):
            work = [If(compare("gt", self._shape.extent, ZERO), work)]
        self._held.update(kept)
        self.forget(set(accesses.stores.values()))
        self._held.update(written)
        return [*begin, *work, *self._rest(shared)]

    def _variables(self, place: Place) -> list[Var]:
        name = place.pointer.name if isinstance(place.pointer, Var) else "memory"
        return [
            Var(numbered(f"{name}_kept", self._names), place.dtype) for _ in range(self._shape.each)
        ]

    def _of_vector(self, values: Sequence[Expr], number: int) -> Sequence[Expr]:
        width = self._shape.width
        return values[number * width : (number + 1) * width]

    def _first(self, number: int) -> Expr:
        """The first element of a vector; that of the row's last one beyond its end."""
        return self._firsts[number] if self._shape.is_exact else self._clamped[number]

    def _element(self, number: int, lane: int) -> Expr:
        """One of a vector's elements; the row's last beyond its end."""
        if isinstance(self._shape.extent, Const):
            return add(self._first(number), integer(lane))
        last = subtract(self._shape.extent, ONE)
        return minimum(add(self._firsts[number], integer(lane)), last)

    def _is_real(self, number: int, lane: int) -> Expr:
        """Whether an element is one of the row."""
        if self._shape.is_exact:
            return TRUE
        if isinstance(self._shape.extent, Const):
            # Whole vectors are in it or beyond its end.
            return self._are_real[number]
        return compare("lt", add(self._firsts[number], integer(lane)), self._shape.extent)

    def _loaded(self, fresh: dict[Place, list[Var]], numbers: Sequence[int]) -> list[Stmt]:
        """The loads of some vectors: every one is under way before the first is waited for."""
        singly: list[Stmt] = []
        whole: list[Stmt] = []
        for place, kept in fresh.items():
            root = self._roots[place]
            for number in numbers:
                own = self._of_vector(kept, number)
                for lane, var in enumerate(own):
                    index = add(place.offset, self._element(number, lane))
                    assert isinstance(var, Var)
                    singly.append(Assign(var, Load(place.pointer, index, place.dtype, root)))
                whole += self._vector_load(place, number, own)
        return self._by_alignment(whole, singly)

    def _vector_load(self, place: Place, number: int, own: Sequence[Expr]) -> Iterator[Stmt]:
        dtype = f"{place.dtype}x{self._shape.width}"
        lanes = Var(numbered("lanes", self._names), dtype)
        args = (place.pointer, add(place.offset, self._first(number)))
        yield Let(lanes, Call("cuda.load_vector", args, dtype))
        for lane, var in enumerate(own):
            assert isinstance(var, Var)
            value = Call("cuda.lane", (lanes, integer(lane)), place.dtype)
            yield Assign(var, value)

    def _by_alignment(self, whole: list[Stmt], singly: list[Stmt]) -> list[Stmt]:
        if not singly:
            return []
        return singly if self._shape.width == 1 else [If(self._aligned, whole, singly)]

    def _copied(self, shared: ThreadFor, copies: _Copies, number: int) -> Iterator[Stmt]:
        for lane in range(self._shape.width):
            element, is_real = self._element(number, lane), self._is_real(number, lane)
            yield from copies.of(shared, number * self._shape.width + lane, element, is_real)

    def _stored(self, loop: For, copies: _Copies) -> list[Stmt]:
        singly: list[Stmt] = []
        whole: list[Stmt] = []
        for place, root in self._loops[id(loop)].stores.items():
            if self._is_overwritten(loop, place):
                continue
            for number in range(self._shape.vectors):
                values = self._of_vector(copies.stored[place], number)
                for lane, value in enumerate(values):
                    index = add(place.offset, self._element(number, lane))
                    store = Store(place.pointer, index, value, root)
                    singly += self._where(self._is_real(number, lane), store)
                args = (place.pointer, add(place.offset, self._first(number)), *values)
                store_all = Do(Call("cuda.store_vector", args, "void"))
                whole += self._where(self._is_real(number, 0), store_all)
        return self._by_alignment(whole, singly)

    def _where(self, is_real: Expr, statement: Stmt) -> list[Stmt]:
        """A write by the threads that are to do it."""
        condition = both(is_real, self._writes)
        return [statement] if condition == TRUE else [If(condition, [statement])]

    def _rest(self, shared: ThreadFor) -> list[Stmt]:
        """The iterations beyond what registers hold."""
        if self.is_whole:
            return []
        held = multiply(self._threads_here(), integer(self._shape.each))
        counter = Var(numbered("beyond", self._names), "int64")
        place = add(counter, held)

        def change(x: Expr) -> Expr:
            return replaced(x, lambda one: place if one == shared.var else None)

        body = [with_expressions(one, change) for one in shared.body]
        beyond = maximum(subtract(extent_of(shared), held), ZERO)
        loop = ThreadFor(counter, ZERO, beyond, body, scope=shared.scope)
        return by_vectors(loop, self._names)[0]


class _Copies:
    """Copies of a loop's statements, one for each of a thread's elements.

    Parameters
    ----------
    loop : For
    known : dict of Place to list of Var
        What is in registers of each element.
    written : dict of Place to list of Var
        Where what is stored stays.
    names : set of str

    Attributes
    ----------
    stored : dict of Place to list of Expr
        What is to be stored of each element.
    """

    def __init__(
        self,
        loop: For,
        known: dict[Place, list[Var]],
        written: dict[Place, list[Var]],
        names: set[str],
    ) -> None:
        self._known, self._written, self._names = known, written, names
        self._inner = {one.var.name for one in loop.body if isinstance(one, Let)}
        self.stored: dict[Place, list[Expr]] = {}

    def of(self, loop: ThreadFor, position: int, element: Expr, is_real: Expr) -> Iterator[Stmt]:
        """The statements for the element that is the thread's ``position``-th."""
        name = loop.var.name
        renamed: dict[str, Expr] = {name: element}
        current: dict[Place, Expr] = {}

        def change(x: Expr) -> Expr | None:
            if isinstance(x, Var):
                return renamed.get(x.name)
            if isinstance(x, Load):
                place = place_of(x.pointer, x.index, x.dtype, name, self._inner)
                if place is not None:
                    return current.get(place, self._known[place][position])
            return None

        for statement in loop.body:
            match statement:
                case Let(var, value):
                    new = Var(numbered(f"{var.name}_{position}", self._names), var.dtype)
                    yield Let(new, replaced(value, change))
                    renamed[var.name] = new
                case Assign(var, value):
                    yield Assign(var, select(is_real, replaced(value, change), var))
                case Store(pointer, index, value):
                    place = place_of(pointer, index, value.dtype, name, self._inner)
                    assert place is not None
                    yield from self._store(place, position, replaced(value, change))
                    current[place] = self.stored[place][position]
                case Comment() if position == 0:
                    yield statement

    def _store(self, place: Place, position: int, value: Expr) -> Iterator[Stmt]:
        """Have what is to be stored in a variable."""
        if place in self._written:
            var = self._written[place][position]
            yield Assign(var, value)
        else:
            var = Var(numbered(f"stored_{position}", self._names), value.dtype)
            yield Let(var, value)
        self.stored.setdefault(place, [])[position:] = [var]
