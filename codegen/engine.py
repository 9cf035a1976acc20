"""The engine: LLVM IR text in, addresses of machine code out.

This module and ``emission`` alone import ``llvmlite``.  Object code is kept on disk (``cache``).
A thread beside the one that compiles writes it, too: who wants an address waits for that.
Text is parsed and verified before anything else sees it, and linked by LLVM's ORC layer, which
reports a missing symbol where its predecessor ended the process.
"""

from __future__ import annotations

import hashlib
import platform
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cache, cached_property, partial
from typing import Any, Final, Literal, Self

import llvmlite
import llvmlite.binding as llvm

from jitcore.codegen.cache import StoredObject, current
from jitcore.codegen.emission import (
    OF_REGISTERS,
    SPEED_LEVEL,
    TUNING,
    Effort,
    Emission,
    InvalidCode,
    optimize,
)
from jitcore.codegen.forks import hold_for_forks
from jitcore.codegen.linkers import Library, Linkers
from jitcore.codegen.printers.loop_metadata import MASKED, UNMASKED
from jitcore.ir.dataclass import dataclass

__all__ = [
    "CompiledModule",
    "Effort",
    "EngineError",
    "Source",
    "add_library",
    "add_maker",
    "add_symbol",
    "begin_module",
    "compile_module",
    "compile_source",
    "compiler_lock",
    "converts_float16",
    "cpu_identity",
    "cpu_name",
    "foresee",
    "has_feature",
    "library",
    "load_library",
    "load_objects",
    "load_stored",
    "require_symbols",
    "vector_bits",
]


class EngineError(RuntimeError):
    """LLVM refused a module: the IR is malformed, or a symbol it needs does not exist."""


CodeLevel = Literal["none", "best"]
"""How well machine code is chosen and scheduled."""


@dataclass(frozen=True, slots=True)
class Source:
    """LLVM IR without a target, and what is optimized in it: what machine code is made of."""

    text: str
    effort: Effort
    beside: tuple[tuple[str, Effort], ...] = ()

    def modules(self, name: str) -> Iterator[tuple[Any, Effort]]:
        """The modules of all parts, for this machine, each in a context of its own."""
        hints = (MASKED, MASKED if has_feature("avx512f") else UNMASKED)
        for text, effort in self._parts():
            yield _parse(text.replace(*hints), name, llvm.create_context()), effort

    def _parts(self) -> tuple[tuple[str, Effort], ...]:
        return ((self.text, self.effort), *self.beside)

    def key(self) -> str:
        """A hash of all that the object code depends on."""
        levels = (SPEED_LEVEL, _CODE_LEVELS)
        texts, efforts = zip((self.text, self.effort), *self.beside, strict=True)
        options = repr((_TARGET, efforts, *levels, *TUNING, *OF_REGISTERS))
        parts = (options, cpu_identity(), _target()[0], *texts)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


class CompiledModule:
    """Machine code that stays loaded as long as this object lives.

    Parameters
    ----------
    name : str
        For messages and for the debugger.
    code : function
        Gives relocatable object files for this machine, which may have to be written first.
    symbols : tuple of str
        The functions and global variables they define for others.
    required : tuple of str
        The functions and variables of others that they refer to.
    source : Source, optional
        What it was compiled from, where more than the object code is known.
    key : str, optional
        The name of the module's file in the cache on disk, where that is known.
    """

    def __init__(
        self,
        name: str,
        code: Callable[[], tuple[bytes, ...]],
        symbols: tuple[str, ...],
        required: tuple[str, ...] = (),
        source: Source | None = None,
        key: str | None = None,
    ) -> None:
        self.name = name
        self.symbols = symbols
        self._code = code
        self._required = required
        self._source = source
        self._key = key
        self._library: Library | None = None
        self._objects: tuple[bytes, ...] = ()
        self._waiting: list[Callable[[Self], None]] = []

    def __repr__(self) -> str:
        return f"<CompiledModule {self.name}: {', '.join(self.symbols)}>"

    def address(self, symbol: str) -> int:
        """The address of a function or a global variable; KeyError where there is none."""
        self.load()
        assert self._library is not None
        return self._library[symbol]

    def load(self) -> Self:
        """Load the code, where that has not been done; EngineError where there is none."""
        with _LOCK:
            if self._library is None:
                self._objects = self._objects or self._code()
                self._library = _link(self.name, self._objects, self.symbols, self._required)
                while self._waiting:
                    self._waiting.pop()(self)
        return self

    def when_loaded(self, work: Callable[[Self], None]) -> None:
        """Have something done before anybody gets an address."""
        with _LOCK:
            if self._library is None:
                self._waiting.append(work)
            else:
                work(self)

    @property
    def objects(self) -> tuple[bytes, ...]:
        """The relocatable object files."""
        return self.load()._objects

    @property
    def key(self) -> str | None:
        """The name of the module's file in the cache on disk; None where the text is not known."""
        if self._key is None and self._source is not None:
            self._key = self._source.key()
        return self._key

    def libraries(self) -> Iterator[tuple[str, str | None]]:
        """The symbols and the keys of all libraries below it, each after those it calls itself."""
        for symbol in self._required:
            below = _LIBRARIES.get(symbol)
            if below is not None:
                yield from below.libraries()
                yield symbol, below.key

    @cached_property
    def llvm(self) -> str:
        """The optimized module as LLVM IR text."""
        with _LOCK:
            return "\n".join(str(module) for module, _ in self._modules())

    @cached_property
    def assembly(self) -> str:
        """The machine code as assembly text."""
        with _LOCK:
            return "\n".join(machine.emit_assembly(module) for module, machine in self._modules())

    def _modules(self) -> list[tuple[Any, Any]]:
        """The optimized modules of all parts, and their machines."""
        source = self._known_source()
        try:
            return [*_optimized(source, self.name)]
        except InvalidCode:
            return [*_optimized(source, self.name, loops_only=True)]

    def _known_source(self) -> Source:
        if self._source is None:
            raise EngineError(f"{self.name} was loaded from object code, which has no IR")
        return self._source


def compile_module(
    llvm_text: str,
    *,
    name: str,
    effort: Effort = "loops",
    beside: Iterable[tuple[str, Effort]] = (),
) -> CompiledModule:
    """Compile a module for this machine.

    Parameters
    ----------
    llvm_text : str
        LLVM IR without a target.
    name : str
        For messages.
    effort : str
        What is optimized.
    beside : iterable of tuple of str, optional
        More texts of the module, with declarations of their own, and what is optimized in them.

    Raises
    ------
    EngineError
        When the text is malformed (the message has the line) or a symbol is not known.
    """
    return compile_source(Source(llvm_text, effort, tuple(beside)), name)


def begin_module(
    llvm_text: str,
    *,
    name: str,
    effort: Effort = "loops",
    beside: Iterable[tuple[str, Effort]] = (),
) -> CompiledModule:
    """Compile a module, see `compile_module`, but do not wait for its code.

    That is loaded when somebody asks for an address.
    """
    with _LOCK:
        source = Source(llvm_text, effort, tuple(beside))
        return _Compilation(source, name, is_foreseen=True).module()


def compile_source(source: Source, name: str) -> CompiledModule:
    """Compile a module for this machine, see `compile_module`, or take what was foreseen."""
    with _LOCK:
        begun = _FORESEEN.pop(source, None) or _Compilation(source, name)
        return begun.module().load()


def foresee(source: Source, name: str) -> None:
    """Have code of a module written while Python goes on: `compile_source` will be called soon."""
    with _LOCK:
        if source not in _FORESEEN:
            _FORESEEN[source] = _Compilation(source, name, is_foreseen=True)
            _target_machine()
            _LINKERS.begin()


class _Compilation:
    """A module whose code is in the cache on disk, or is written, beside where it is foreseen."""

    def __init__(self, source: Source, name: str, *, is_foreseen: bool = False) -> None:
        self._source = source
        self.name = name
        self._files = current()
        self._key = None if self._files is None else source.key()
        self._stored = None
        if self._files is not None and self._key is not None:
            self._stored = self._files.load(self._key)
        self._emissions: list[Emission] = []
        self._symbols: list[str] = []
        self._declared: list[str] = []
        if self._stored is None:
            self.begin_code(is_foreseen)

    def begin_code(self, is_foreseen: bool) -> None:
        """Have LLVM compile it."""
        external = llvm.Linkage.external
        for module, effort in self._source.modules(self.name):
            values = [*module.functions, *module.global_variables]
            self._declared += [one.name for one in values if one.is_declaration]
            defined = [one for one in values if not one.is_declaration]
            self._symbols += [one.name for one in defined if one.linkage == external]
            machine = partial(_target_machine, _code_level(effort))
            self._emissions.append(Emission(module, effort, machine))
            if is_foreseen:
                self._emissions[-1].begin()
        _foresee_libraries(self._declared)

    def module(self) -> CompiledModule:
        """The module, which has what it calls, and may have to wait for its own code."""
        if self._stored is not None:
            with suppress(EngineError):
                return self._made(self._stored.symbols, self._stored.required).load()
            self._stored = None
            self.begin_code(is_foreseen=False)
        required = tuple(
            symbol
            for symbol in dict.fromkeys(self._declared)
            if not symbol.startswith("llvm.") and symbol not in self._symbols
        )
        return self._made(tuple(self._symbols), required)

    def _made(self, symbols: tuple[str, ...], required: tuple[str, ...]) -> CompiledModule:
        require_symbols(required, self.name)
        code = partial(self._objects, symbols, required)
        return CompiledModule(self.name, code, symbols, required, self._source, self._key)

    def _objects(self, symbols: tuple[str, ...], required: tuple[str, ...]) -> tuple[bytes, ...]:
        """The code of all parts, the last first: the thread beside may be at the others."""
        if self._stored is not None:
            return self._stored.objects
        try:
            objects = tuple(one.code() for one in reversed(self._emissions))
        except InvalidCode:
            made = _optimized(self._source, self.name, loops_only=True)
            objects = tuple(machine.emit_object(module) for module, machine in made)[::-1]
        except RuntimeError as error:
            raise EngineError(f"internal error: no code of {self.name}: {error}") from error
        # Who is interrupted from here on finds the code when he asks again.
        self._stored = StoredObject(objects, symbols, required)
        # LLVM gets the modules back while `_LOCK` is held, for which a fork waits.
        self._emissions.clear()
        if self._files is not None and self._key is not None:
            self._files.store(self._key, self._stored)
        return objects


def _optimized(source: Source, name: str, *, loops_only: bool = False) -> Iterator[tuple[Any, Any]]:
    """The modules of all parts, optimized, each with the machine that its code is for."""
    for module, effort in source.modules(name):
        machine = _target_machine(_code_level(effort))
        optimize(module, "loops only" if loops_only and effort == "loops" else effort, machine)
        yield module, machine


def _foresee_libraries(symbols: Iterable[str]) -> None:
    """Begin the modules with functions that code calls, where there are known texts of them."""
    for symbol in symbols:
        text = None if symbol in _SYMBOLS else _SOURCES.get(symbol)
        if text is not None:
            foresee(text(), symbol)


def load_objects(
    objects: tuple[bytes, ...],
    symbols: tuple[str, ...],
    required: tuple[str, ...] = (),
    *,
    name: str,
) -> CompiledModule:
    """Load what ``CompiledModule.objects`` gave on a machine of the same identity."""
    with _LOCK:
        return CompiledModule(name, lambda: objects, symbols, required).load()


def load_stored(key: str, *, name: str) -> CompiledModule | None:
    """The module with this key from the cache on disk, or None where it is not there any more."""
    files = current()
    with _LOCK:
        stored = None if files is None else files.load(key)
        if stored is None:
            return None
        try:
            require_symbols(stored.required, name)
            known = (stored.symbols, stored.required)
            return CompiledModule(name, lambda: stored.objects, *known, key=key).load()
        except EngineError:
            return None


def add_library(symbol: str, text: Callable[[], str], effort: Effort = "loops") -> None:
    """Have a module compiled when code that calls a function of it is compiled.

    Parameters
    ----------
    symbol : str
        The function.  A module that has several is named for each of them.
    text : function
        Gives the module's LLVM IR.
    effort : str
        For loops that were written by hand ``"registers"`` is enough, and takes a quarter of the
        time.
    """
    source = cache(lambda: Source(text(), effort))
    add_maker(symbol, lambda: _provide(compile_source(source(), symbol)), source)


def library(symbol: str) -> CompiledModule:
    """The module with this function, which `add_library` has named."""
    with _LOCK:
        require_symbols((symbol,), symbol)
        return _LIBRARIES[symbol]


def load_library(symbol: str, key: str) -> None:
    """Make the function known from the cache on disk, if it is there and not known yet."""
    with _LOCK:
        if symbol not in _SYMBOLS:
            module = load_stored(key, name=symbol)
            if module is not None:
                _provide(module)


def _provide(module: CompiledModule) -> None:
    for symbol in module.symbols:
        _LIBRARIES[symbol] = module
        add_symbol(symbol, module.address(symbol))


def add_symbol(name: str, address: int) -> None:
    """Make a function of this process known to all code compiled from now on."""
    with _LOCK:
        _SYMBOLS[name] = address
        llvm.add_symbol(name, address)


def add_maker(
    symbol: str, make: Callable[[], object], source: Callable[[], Source] | None = None
) -> None:
    """Have ``make`` called, which adds a symbol, when code that needs it is compiled.

    ``source`` gives what it will compile, so that code of that is written beside what needs it.
    """
    with _LOCK:
        _MAKERS[symbol] = make
        if source is not None:
            _SOURCES[symbol] = source


def compiler_lock() -> AbstractContextManager[object]:
    """What is held while anything is compiled or made; who keeps what he makes has it first."""
    return _LOCK


def require_symbols(symbols: Iterable[str], name: str) -> None:
    """Raise EngineError where this process lacks a function that the module ``name`` calls."""
    with _LOCK:
        missing = [symbol for symbol in symbols if not _is_known(symbol)]
    if missing:
        raise EngineError(f"internal error: {name} calls unknown symbols: {', '.join(missing)}")


def _is_known(symbol: str) -> bool:
    if symbol in _MAKERS and symbol not in _SYMBOLS:
        _MAKERS[symbol]()
    if symbol.startswith("llvm.") or symbol in _SYMBOLS:
        return True
    return llvm.address_of_symbol(symbol) is not None


@cache
def cpu_identity() -> str:
    """What compiled code depends on besides its text: LLVM's version, the CPU, its features."""
    with _LOCK:
        version = ".".join(map(str, (*llvm.llvm_version_info, llvmlite.__version__)))
        return f"{version} {cpu_name()} {_host_features()}"


def has_feature(name: str) -> bool:
    """Whether this CPU has a feature by LLVM's name, such as ``"avx512f"``."""
    return bool(_features().get(name, False))


def converts_float16() -> bool:
    """Whether this CPU converts between float16 and float32; others would need a library."""
    return has_feature("f16c") or platform.machine() not in ("x86_64", "AMD64")


def vector_bits() -> int:
    """The size of this CPU's vector registers, in bits; at least 256, which is made of smaller."""
    return 512 if has_feature("avx512f") else 256


_LOCK = threading.RLock()
# No thread is inside LLVM while the process forks, so the child finds it whole.
hold_for_forks(_LOCK)
_SYMBOLS: dict[str, int] = {}
_MAKERS: dict[str, Callable[[], object]] = {}
_SOURCES: dict[str, Callable[[], Source]] = {}
_LINKERS: Final = Linkers()
_FORESEEN: dict[Source, _Compilation] = {}
_LIBRARIES: dict[str, CompiledModule] = {}
_STATE: dict[Any, Any] = {}
_TARGET: Final[dict[str, Any]] = {"reloc": "pic", "codemodel": "small"}
_CODE_LEVELS: Final = {"none": 0, "best": 3}
_POSITION = re.compile(r"<string>:(\d+):\d+: error: (.*)")


@cache
def _features() -> Any:
    """What the processor has, by LLVM's names; to ask takes half a millisecond."""
    with _LOCK:
        return llvm.get_host_cpu_features()


cpu_name: Final[Callable[[], str]] = cache(llvm.get_host_cpu_name)


@cache
def _host_features() -> str:
    """What the processor has, and what LLVM is told of it.

    Storing the elements of a vector one by one takes no longer than a scatter, and half the time
    where two or more of them are in one line of the cache.
    """
    features = _features()
    told = ["+prefer-no-scatter"] if features.get("avx512f") else []
    return ",".join([str(features.flatten()), *told])


def _target_machine(code: CodeLevel = "best", is_beside: bool = False) -> Any:
    """The target machine: this CPU with all of its features; ``code`` says what is optimized.

    The thread beside the one that compiles has its own (`Emission`).
    """
    if (code, is_beside) not in _STATE:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        target = llvm.Target.from_default_triple()
        _STATE[code, is_beside] = target.create_target_machine(
            cpu=cpu_name(),
            features=_host_features(),
            opt=_CODE_LEVELS[code],
            **_TARGET,
        )
    return _STATE[code, is_beside]


@cache
def _target() -> tuple[str, str]:
    """What modules say about this machine: its triple, and how data lies in memory."""
    machine = _target_machine()
    return machine.triple, str(machine.target_data)


def _code_level(effort: Effort) -> CodeLevel:
    return "none" if effort == "none" else "best"


def _parse(text: str, name: str, context: Any) -> Any:
    """The module of a text, for this machine; it ends with its context, which it keeps.

    Python's collector may end the two in any order, and a context takes its modules along.
    """
    try:
        module = llvm.parse_assembly(text, context)
        module._owned = True
        module.verify()
    except RuntimeError as error:
        raise EngineError(_describe(str(error), text, name)) from error
    module.name = name
    module.triple, module.data_layout = _target()
    return module


def _describe(message: str, text: str, name: str) -> str:
    """What LLVM says about a module, with the line it means."""
    match = _POSITION.search(message)
    if match is None:
        return f"internal error: invalid LLVM IR in {name}: {message.strip()}"
    number = int(match[1])
    lines = text.splitlines()
    line = lines[number - 1].strip() if number <= len(lines) else ""
    return f"internal error: invalid LLVM IR in {name}, line {number}: {match[2]}\n    {line}"


def _link(
    name: str, objects: Sequence[bytes], symbols: Sequence[str], required: Sequence[str]
) -> Library:
    """Load object code into the process; the result holds it there.

    To name all that it might refer to takes two thirds of the time.
    """
    builder = llvm.JITLibraryBuilder().add_current_process()
    for one in objects:
        builder.add_object_img(one)
    for symbol in symbols:
        builder.export_symbol(symbol)
    for symbol in required:
        if symbol in _SYMBOLS:
            builder.import_symbol(symbol, _SYMBOLS[symbol])
    try:
        _target_machine()
        return _LINKERS.link(builder)
    except RuntimeError as error:
        raise EngineError(
            f"internal error: cannot link {name}, some symbol it calls is unknown: {error}"
        ) from error
