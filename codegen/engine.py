"""The engine: LLVM IR text in, addresses of machine code out.

This module and ``emission`` alone import ``llvmlite``.  Object code is kept on disk (``cache``).
Text is parsed and verified before anything else sees it, and linked by LLVM's ORC layer, which
reports a missing symbol where its predecessor ended the process.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import os
import platform
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cache, cached_property, partial
from typing import Any, Final, Literal

import llvmlite
import llvmlite.binding as llvm
from llvmlite.binding.newpassmanagers import NewPassManager

from jitcore.codegen.cache import StoredObject, current
from jitcore.codegen.emission import Emission
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
    "compile_module",
    "compile_source",
    "compiler_lock",
    "converts_float16",
    "cpu_identity",
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


Effort = Literal["none", "code", "registers", "loops"]
"""What is optimized: nothing, machine code only, straight lines before that, or loops as well.

The last is LLVM's O3 pipeline.  To choose and schedule machine code well takes five to eight times
as long as to translate line by line, which does for what mostly calls other functions.
"""

CodeLevel = Literal["none", "best"]
"""How well machine code is chosen and scheduled."""


@dataclass(frozen=True, slots=True)
class Source:
    """LLVM IR without a target, and what is optimized in it: what machine code is made of."""

    text: str
    effort: Effort
    beside: tuple[tuple[str, Effort], ...] = ()

    def levels(self) -> list[CodeLevel]:
        """How well machine code of its parts is chosen, the least first."""
        known = {_code_level(effort) for _, effort in self._parts()}
        return [level for level in _CODE_LEVELS if level in known]

    def module(self, level: CodeLevel, name: str) -> Any:
        """The module of all parts of one level, for this machine, in a context of its own."""
        context = llvm.create_context()
        whole, *others = (
            _optimized(text, effort, name, context)
            for text, effort in self._parts()
            if _code_level(effort) == level
        )
        for part in others:
            whole.link_in(part)
        return whole

    def _parts(self) -> tuple[tuple[str, Effort], ...]:
        return ((self.text, self.effort), *self.beside)

    def key(self) -> str:
        """A hash of all that the object code depends on."""
        levels = (_SPEED_LEVEL, _CODE_LEVELS)
        texts, efforts = zip((self.text, self.effort), *self.beside, strict=True)
        options = repr((_TARGET, efforts, *levels, *_TUNING, *_OF_REGISTERS))
        parts = (options, cpu_identity(), _target_machine().triple, *texts)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


class CompiledModule:
    """Machine code that stays loaded as long as this object lives.

    Parameters
    ----------
    name : str
        For messages and for the debugger.
    objects : tuple of bytes
        Relocatable object files for this machine.
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
        objects: tuple[bytes, ...],
        symbols: tuple[str, ...],
        required: tuple[str, ...] = (),
        source: Source | None = None,
        key: str | None = None,
    ) -> None:
        self.name = name
        self.objects = objects
        self.symbols = symbols
        self._required = required
        self._source = source
        self._key = key
        self._library = _link(name, objects, symbols, required)

    def __repr__(self) -> str:
        return f"<CompiledModule {self.name}: {', '.join(self.symbols)}>"

    def address(self, symbol: str) -> int:
        """The address of a function or a global variable; KeyError where there is none."""
        address: int = self._library[symbol]
        return address

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
            modules = self._modules()
            return "\n".join(_target_machine(one).emit_assembly(module) for module, one in modules)

    def _modules(self) -> list[tuple[Any, CodeLevel]]:
        source = self._known_source()
        return [(source.module(level, self.name), level) for level in source.levels()]

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


def compile_source(source: Source, name: str) -> CompiledModule:
    """Compile a module for this machine, see `compile_module`, or take what was foreseen."""
    with _LOCK:
        begun = _FORESEEN.pop(source, None) or _Compilation(source, name)
        return begun.finish()


def foresee(source: Source, name: str) -> None:
    """Have code of a module written while Python goes on: `compile_source` will be called soon."""
    with _LOCK:
        if source not in _FORESEEN:
            _FORESEEN[source] = _Compilation(source, name, is_foreseen=True)


class _Compilation:
    """A module whose code is in the cache on disk, or is being written.

    A thread beside this one writes all of it where it is foreseen.  Otherwise this thread writes
    the last part, and does not wait for another to begin with it.
    """

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
        levels = self._source.levels()
        for level in levels:
            module = self._source.module(level, self.name)
            values = [*module.functions, *module.global_variables]
            declared = [value.name for value in values if value.is_declaration]
            defined = [value for value in values if not value.is_declaration]
            external = llvm.Linkage.external
            self._symbols += [value.name for value in defined if value.linkage == external]
            self._declared += declared
            self._emissions.append(Emission(module, partial(_target_machine, level)))
            if is_foreseen or level != levels[-1]:
                self._emissions[-1].begin()
            _foresee_libraries(declared)

    def finish(self) -> CompiledModule:
        if self._stored is not None:
            with suppress(EngineError):
                return self._loaded(self._stored)
            self.begin_code(is_foreseen=False)
        try:
            objects = self._objects()
        except RuntimeError as error:
            raise EngineError(f"internal error: no code of {self.name}: {error}") from error
        required = tuple(
            symbol
            for symbol in dict.fromkeys(self._declared)
            if not symbol.startswith("llvm.") and symbol not in self._symbols
        )
        made = StoredObject(objects, tuple(self._symbols), required)
        module = self._loaded(made)
        if self._files is not None and self._key is not None:
            self._files.store(self._key, made)
        return module

    def _objects(self) -> tuple[bytes, ...]:
        """The code of all parts, that of this thread first: the other may be at the rest."""
        last_first = [one.code() for one in reversed(self._emissions)]
        # LLVM gets the modules back while `_LOCK` is held, for which a fork waits.
        self._emissions.clear()
        return tuple(reversed(last_first))

    def _loaded(self, stored: StoredObject) -> CompiledModule:
        require_symbols(stored.required, self.name)
        return CompiledModule(
            self.name, stored.objects, stored.symbols, stored.required, self._source, self._key
        )


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
        return CompiledModule(name, objects, symbols, required)


def load_stored(key: str, *, name: str) -> CompiledModule | None:
    """The module with this key from the cache on disk, or None where it is not there any more."""
    files = current()
    with _LOCK:
        stored = None if files is None else files.load(key)
        if stored is None:
            return None
        try:
            require_symbols(stored.required, name)
            return CompiledModule(name, stored.objects, stored.symbols, stored.required, key=key)
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
        return f"{version} {llvm.get_host_cpu_name()} {_host_features()}"


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
os.register_at_fork(
    before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release
)
_SYMBOLS: dict[str, int] = {}
_MAKERS: dict[str, Callable[[], object]] = {}
_SOURCES: dict[str, Callable[[], Source]] = {}
_FORESEEN: dict[Source, _Compilation] = {}
_LIBRARIES: dict[str, CompiledModule] = {}
_SERIAL = itertools.count()
_STATE: dict[Any, Any] = {}
_TARGET: Final[dict[str, Any]] = {"reloc": "pic", "codemodel": "small"}
_CODE_LEVELS: Final = {"none": 0, "best": 3}
_SPEED_LEVEL: Final = 3
_TUNING: Final = (
    "loop_vectorization",
    "slp_vectorization",
    "loop_interleaving",
    "loop_unrolling",
)
_OF_REGISTERS: Final = (
    "sroa",
    "simplify_cfg",
    "loop_rotate",
    "instruction_combine",
    "simplify_cfg",
)
"""The passes that a module gets whose loops stay as they are."""

_POSITION = re.compile(r"<string>:(\d+):\d+: error: (.*)")


@cache
def _features() -> Any:
    """What the processor has, by LLVM's names; to ask takes half a millisecond."""
    with _LOCK:
        return llvm.get_host_cpu_features()


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
            cpu=llvm.get_host_cpu_name(),
            features=_host_features(),
            opt=_CODE_LEVELS[code],
            **_TARGET,
        )
    return _STATE[code, is_beside]


def _code_level(effort: Effort) -> CodeLevel:
    return "none" if effort == "none" else "best"


def _linker() -> Any:
    if "linker" not in _STATE:
        _target_machine()
        linker = llvm.create_lljit_compiler(use_jit_link=True, suppress_errors=True)
        # It must outlive every library, also while the interpreter ends.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(linker))
        _STATE["linker"] = linker
    return _STATE["linker"]


def _optimized(text: str, effort: Effort, name: str, context: Any) -> Any:
    """The module of a text, after the passes that are asked for."""
    known = text if has_feature("avx512f") else text.replace(MASKED, UNMASKED)
    module = _parse(known, name, context)
    if effort in ("registers", "loops"):
        _run_passes(module, _target_machine(), effort)
    return module


def _parse(text: str, name: str, context: Any) -> Any:
    """The module of a text, for this machine."""
    try:
        module = llvm.parse_assembly(text, context)
        module.verify()
    except RuntimeError as error:
        raise EngineError(_describe(str(error), text, name)) from error
    module.name = name
    machine = _target_machine()
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
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


def _run_passes(module: Any, machine: Any, effort: Effort) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=_SPEED_LEVEL)
    for option in _TUNING:
        setattr(options, option, True)
    builder = llvm.create_pass_builder(machine, options)
    if effort == "loops":
        passes = builder.getModulePassManager()
    else:
        passes = llvm.create_new_module_pass_manager()
        for name in _OF_REGISTERS:
            getattr(passes, f"add_{name}_pass")()
    passes.run(module, builder)
    # llvmlite's own class for it inherits a _dispose() that does nothing, before the real one.
    NewPassManager._dispose(passes)
    passes.detach()


def _link(
    name: str, objects: Sequence[bytes], symbols: Sequence[str], required: Sequence[str]
) -> Any:
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
        return builder.link(_linker(), f"jitcore.{next(_SERIAL)}")
    except RuntimeError as error:
        raise EngineError(
            f"internal error: cannot link {name}, some symbol it calls is unknown: {error}"
        ) from error
