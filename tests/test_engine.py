"""Compiling LLVM text: addresses, symbols, errors, lifetime, threads."""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import llvmlite.binding as llvm
import pytest

from jitcore.codegen import emission, engine
from jitcore.codegen.engine import (
    CompiledModule,
    Effort,
    EngineError,
    Source,
    add_library,
    add_symbol,
    begin_module,
    compile_module,
    compile_source,
    compiler_lock,
    cpu_identity,
    foresee,
    load_objects,
)
from jitcore.codegen.linkers import Linkers

UNARY = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


def called(module: CompiledModule, value: int) -> int:
    """What its function gives, whose code is there as long as the module is."""
    return int(UNARY(module.address("f"))(value))


def add_constant(value: int) -> str:
    return f"define i64 @f(i64 %x) {{\n  %y = add i64 %x, {value}\n  ret i64 %y\n}}\n"


@pytest.mark.parametrize("effort", get_args(Effort))
def test_addresses_and_texts(effort: Effort) -> None:
    module = compile_module(add_constant(3), name="three", effort=effort)
    assert UNARY(module.address("f"))(4) == 7
    assert "add i64" in module.llvm
    assert "f:" in module.assembly
    assert module.symbols == ("f",)
    with pytest.raises(KeyError):
        module.address("g")


def test_several_functions_and_variables() -> None:
    text = add_constant(1) + "@table = global [2 x i64] [i64 5, i64 6]\n"
    text += "define internal i64 @hidden(i64 %x) {\n  ret i64 %x\n}\n"
    module = compile_module(text, name="several")
    assert module.symbols == ("f", "table")
    assert (ctypes.c_int64 * 2).from_address(module.address("table"))[:] == [5, 6]


@pytest.mark.parametrize("effort", get_args(Effort))
def test_a_text_beside_another_calls_it(effort: Effort) -> None:
    caller = "declare i64 @f(i64)\ndefine i64 @twice(i64 %x) {\n"
    caller += "  %once = call i64 @f(i64 %x)\n  %y = call i64 @f(i64 %once)\n  ret i64 %y\n}\n"
    module = compile_module(add_constant(5), name="pair", beside=[(caller, effort)])
    assert sorted(module.symbols) == ["f", "twice"]
    assert len(module.objects) == 2
    again = load_objects(module.objects, module.symbols, name="pair")
    for loaded in (module, again):
        assert UNARY(loaded.address("twice"))(1) == 11
    assert "@twice" in module.llvm
    assert "twice:" in module.assembly


def test_object_code_loads_again() -> None:
    module = compile_module(add_constant(9), name="nine")
    again = load_objects(module.objects, module.symbols, name="nine")
    assert again.address("f") != module.address("f")
    assert UNARY(again.address("f"))(1) == 10
    with pytest.raises(EngineError, match="no IR"):
        _ = again.llvm


def test_code_stays_as_long_as_its_module() -> None:
    modules = [compile_module(add_constant(k), name=f"m{k}", effort="code") for k in range(40)]
    functions = [UNARY(module.address("f")) for module in modules]
    del modules[::2]
    gc.collect()
    assert [f(0) for f in functions[1::2]] == list(range(1, 40, 2))


def test_symbols_of_the_process_and_added_ones() -> None:
    triple = UNARY(lambda x: 3 * x)
    address = ctypes.cast(triple, ctypes.c_void_p).value
    assert address is not None
    add_symbol("jc_test_triple", address)
    text = """
declare i64 @jc_test_triple(i64)
declare i64 @labs(i64)
define i64 @f(i64 %x) {
  %a = call i64 @labs(i64 %x)
  %b = call i64 @jc_test_triple(i64 %a)
  ret i64 %b
}
"""
    assert called(compile_module(text, name="symbols"), -5) == 15


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no module", r"line 1: expected top-level entity\n    no module"),
        ("define i64 @f() {\n  ret i32 0\n}\n", r"line 2: .*i64'\n    ret i32 0"),
        (
            "define i64 @f(i1 %c) {\n  br i1 %c, label %a, label %b\na:\n  %x = add i64 1, 2\n"
            "  br label %b\nb:\n  ret i64 %x\n}\n",
            "does not dominate",
        ),
        (
            "declare void @jc_no_such()\ndefine void @f() {\n  call void @jc_no_such()\n"
            "  ret void\n}\n",
            "unknown symbols: jc_no_such",
        ),
        (
            "define half @f(fp128 %x) {\n  %y = fptrunc fp128 %x to half\n  ret half %y\n}\n",
            "some symbol it calls is unknown",
        ),
    ],
)
def test_bad_modules_raise(text: str, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        compile_module(text, name="bad")
    assert called(compile_module(add_constant(1), name="good"), 1) == 2


def test_threads_compile_at_the_same_time() -> None:
    def work(number: int) -> int:
        module = compile_module(add_constant(number), name=f"thread{number}")
        assert module.assembly
        return int(UNARY(module.address("f"))(1))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(24))) == [k + 1 for k in range(24)]


def test_the_optimizer_gives_its_memory_back() -> None:
    def compile_many() -> int:
        for number in range(150):
            compile_module(add_constant(number), name="short-lived")
        gc.collect()
        return resident_bytes()

    before = compile_many()
    assert compile_many() - before < 150 * 40_000


def resident_bytes() -> int:
    statm = Path("/proc/self/statm")
    if not statm.exists():
        pytest.skip("only Linux says how much memory a process uses")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_identity_names_the_cpu() -> None:
    assert len(cpu_identity().split()) == 3


def test_code_outlives_nothing_at_exit() -> None:
    """A module that is alive when the interpreter ends does no harm."""
    program = (
        "from jitcore.codegen.engine import compile_module\n"
        "class Holder: pass\n"
        "a = Holder()\n"
        "a.self = a\n"
        f"a.module = compile_module({add_constant(1)!r}, name='exit')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_parts_of_a_module_are_optimized_apart() -> None:
    three = "  %one = add i64 1, 2\n  %two = mul i64 %one, 0\n"
    beside = f"declare i64 @f(i64)\ndefine i64 @g(i64 %x) {{\n{three}  %y = call i64 @f(i64 %x)\n"
    parts: list[tuple[str, Effort]] = [(f"{beside}  ret i64 %y\n}}\n", "code")]
    module = compile_module(add_constant(3), name="pair", beside=parts)
    assert UNARY(module.address("g"))(4) == UNARY(module.address("f"))(4) == 7
    assert "mul i64 %one, 0" in module.llvm
    better = compile_module(add_constant(3), name="better", beside=[(parts[0][0], "registers")])
    assert "mul i64" not in better.llvm
    single = compile_module(add_constant(3), name="single")
    assert len({module.key, better.key, single.key}) == 3


@pytest.mark.parametrize("effort", get_args(Effort))
def test_code_is_written_beside(effort: Effort, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is foreseen is what is compiled otherwise, in whatever order it is asked for."""
    monkeypatch.setenv("JITCORE_CACHE", "0")
    sources = [Source(add_constant(number), effort) for number in range(40)]
    for number, source in enumerate(sources):
        foresee(source, f"foreseen{number}")
        foresee(source, "twice")
    for number in (*range(39, -1, -2), *range(0, 40, 2)):
        module = compile_source(sources[number], "asked for")
        assert called(module, 1) == number + 1
        name = f"foreseen{number}"
        assert module.objects == compile_source(sources[number], name).objects


@pytest.mark.parametrize("effort", get_args(Effort))
def test_begun_modules_are_loaded_when_an_address_is_asked_for(
    effort: Effort, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In whatever order, and no sooner than what was to be done before."""
    monkeypatch.setenv("JITCORE_CACHE", "0")
    begun, done = [], list[str]()
    for number in range(40):
        module = begin_module(add_constant(number), name=f"begun{number}", effort=effort)
        module.when_loaded(lambda one: done.append(one.name))
        begun.append(module)
    assert done == []
    for number in (*range(39, -1, -2), *range(0, 40, 2)):
        assert called(begun[number], 1) == number + 1
        assert done.pop() == f"begun{number}"
        begun[number].when_loaded(lambda one: done.append(f"{one.name} again"))
        assert done.pop() == f"begun{number} again"
        name = f"begun{number}"
        same = compile_module(add_constant(number), name=name, effort=effort)
        assert begun[number].objects == same.objects
    assert done == []


def test_begun_modules_that_nobody_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITCORE_CACHE", "0")
    for number in range(40):
        begin_module(add_constant(number), name="dropped")
    assert called(begin_module(add_constant(3), name="kept"), 1) == 4


def test_begun_modules_that_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITCORE_CACHE", "0")
    text = "define half @f(fp128 %x) {\n  %y = fptrunc fp128 %x to half\n  ret half %y\n}\n"
    module = begin_module(text, name="bad")
    for _ in range(2):
        with pytest.raises(EngineError, match="some symbol it calls is unknown"):
            module.address("f")


def test_parts_are_optimized_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITCORE_CACHE", "0")
    caller = "declare i64 @f(i64)\ndefine i64 @g(i64 %x) {\n  %y = call i64 @f(i64 %x)\n"
    parts: list[tuple[str, Effort]] = [(f"{caller}  ret i64 %y\n}}\n", "registers")]
    for number in range(20):
        text = add_constant(number)
        begun = begin_module(text, name="parts", beside=parts)
        assert UNARY(begun.address("g"))(1) == number + 1
        assert begun.objects == compile_module(text, name="parts", beside=parts).objects


def test_libraries_are_written_beside_what_calls_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITCORE_CACHE", "0")
    for number in range(20):
        name = f"jc_test_library{number}"
        text = add_constant(number).replace("@f", f"@{name}")
        add_library(name, lambda text=text: text, "registers")  # type: ignore[misc]
        caller = f"declare i64 @{name}(i64)\ndefine i64 @f(i64 %x) {{\n"
        caller += f"  %y = call i64 @{name}(i64 %x)\n  ret i64 %y\n}}\n"
        assert called(compile_module(caller, name="caller"), 1) == number + 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_the_child_of_a_fork_writes_what_was_foreseen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITCORE_CACHE", "0")
    sources = [Source(add_constant(number), "loops") for number in range(100, 130)]
    for source in sources:
        foresee(source, "foreseen")

    def are_right() -> bool:
        found = [called(compile_source(one, "asked for"), 1) for one in sources]
        return found == list(range(101, 131))

    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if are_right() else 1)
        finally:
            os._exit(2)
    assert are_right()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def all_foreseen(name: str) -> list[int]:
    """What functions of modules give that are foreseen, one of two parts, and then asked for."""
    caller = "declare i64 @f(i64)\ndefine i64 @g(i64 %x) {\n  %y = call i64 @f(i64 %x)\n"
    beside: tuple[tuple[str, Effort], ...] = ((f"{caller}  ret i64 %y\n}}\n", "none"),)
    sources = [Source(add_constant(number), "code", beside) for number in range(8)]
    for source in sources:
        foresee(source, name)
    modules = [compile_source(source, name) for source in sources]
    return [int(UNARY(module.address("g"))(1)) for module in modules]


def no_emission_beside(_: emission.Emission) -> None:
    raise AssertionError("written beside")


def test_who_asks_writes_where_llvmlite_does_not_tell_of_its_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JITCORE_CACHE", "0")
    assert emission._find_library(llvm.ffi.lib) is not None
    assert emission._find_library(SimpleNamespace()) is None
    another = importlib.import_module("numpy._core._multiarray_umath").__file__
    for name in (another, "no library"):
        assert emission._find_library(SimpleNamespace(_name=name)) is None
    monkeypatch.setattr(emission, "_library", None)
    monkeypatch.setattr(emission.Emission, "write_beside", no_emission_beside)
    assert all_foreseen("no library") == list(range(1, 9))


def test_who_asks_writes_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setenv("JITCORE_CACHE", "0")
    monkeypatch.setattr(emission, "_beside", emission._Beside())
    monkeypatch.setattr(threading.Thread, "start", start)
    assert all_foreseen("no thread") == list(range(1, 9))


def test_who_was_interrupted_may_ask_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setenv("JITCORE_CACHE", "0")
    monkeypatch.setattr(emission, "_beside", emission._Beside())
    monkeypatch.setattr(threading.Thread, "start", refuse)
    module = begin_module(add_constant(6), name="interrupted")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(emission, "optimize", interrupt)
        module.address("f")
    assert called(module, 1) == 7


def test_the_linker_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside, or by who needs it, whatever is foreseen before and after."""
    monkeypatch.setenv("JITCORE_CACHE", "0")
    monkeypatch.setattr(engine, "_LINKERS", Linkers())
    made: list[object] = []
    create = llvm.create_lljit_compiler

    def noted(**options: bool) -> object:
        made.append(create(**options))
        return made[-1]

    monkeypatch.setattr(llvm, "create_lljit_compiler", noted)
    for number in range(10):
        source = Source(add_constant(number), "none")
        foresee(source, "foreseen")
        assert called(compile_source(source, "asked for"), 1) == number + 1
    assert len(made) == 1


def test_modules_and_contexts_that_the_collector_ends_together() -> None:
    """In any order: a context that ends takes its modules along."""
    program = """
import gc
import llvmlite.binding as llvm
from jitcore.codegen import engine
text = "define i32 @f(i32 %x) {\\n  ret i32 %x\\n}\\n"
for number in range(100):
    module = engine._parse(text, "collected", llvm.create_context())
    context = module._context
    context.module = module
    del module, context
    gc.collect()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_nothing_is_begun_beside_while_the_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITCORE_CACHE", "0")
    beside = emission._Beside()
    monkeypatch.setattr(emission, "_beside", beside)
    monkeypatch.setattr(emission.Emission, "write_beside", no_emission_beside)
    beside.end()
    assert all_foreseen("ending") == list(range(1, 9))


def test_a_process_ends_while_code_is_written() -> None:
    """What began it was a thread that the interpreter does not wait for, or its last function."""
    program = (
        "import atexit, threading\n"
        "from jitcore.codegen.engine import Source, foresee\n"
        "lines = [f'  %a{k + 1} = add i64 %a{k}, {k}\\n' for k in range(2000)]\n"
        "text = 'define i64 @f(i64 %a0) {\\n' + ''.join(lines) + '  ret i64 %a2000\\n}\\n'\n"
        "def work(name):\n"
        "    for number in range(5):\n"
        "        foresee(Source(text + f'; {name} {number}', 'code'), 'ending')\n"
        "thread = threading.Thread(target=work, args=('thread',), daemon=True)\n"
        "thread.start()\n"
        "thread.join()\n"
        "atexit.register(work, 'end')\n"
    )
    environment = {**os.environ, "JITCORE_CACHE": "0"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")


def test_llvm_gets_modules_back_before_another_thread_may_fork(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JITCORE_CACHE", "0")
    create = llvm.create_context
    kind: Any = type(create())
    dispose = kind._dispose
    locked: list[bool] = []

    def noted() -> Any:
        context = create()
        context.is_given_back = True
        return context

    def note(self: Any) -> None:
        if hasattr(self, "is_given_back"):
            lock: Any = compiler_lock()
            locked.append(lock._is_owned())
        dispose(self)

    monkeypatch.setattr(llvm, "create_context", noted)
    monkeypatch.setattr(kind, "_dispose", note)
    for number in range(5):
        compile_module(add_constant(number), name="given back")
    assert locked == [True] * 5


def test_a_fork_waits_for_the_runtime() -> None:
    """Otherwise its child would wait for the thread that made it, which it has not."""
    program = (
        "import threading\n"
        "from jitcore.codegen.engine import compiler_lock\n"
        "from jitcore.codegen.runtime import functions\n"
        "add = functions.add_list_functions\n"
        "def check():\n"
        "    def ask():\n"
        "        is_free = compiler_lock().acquire(blocking=False)\n"
        "        print(is_free)\n"
        "        if is_free:\n"
        "            compiler_lock().release()\n"
        "    other = threading.Thread(target=ask)\n"
        "    other.start()\n"
        "    other.join()\n"
        "    add()\n"
        "functions.add_list_functions = check\n"
        "functions.ensure_runtime()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_code_that_the_passes_spoil_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    verify, verified = llvm.ModuleRef.verify, list[Any]()

    def find_fault(module: Any) -> None:
        verified.append(module)
        verify(module)
        if len(verified) == 2:  # the first time it was parsed
            raise RuntimeError("Instruction does not dominate all uses!")

    monkeypatch.setattr(llvm.ModuleRef, "verify", find_fault)
    monkeypatch.setattr(emission, "_library", None)
    assert called(compile_module(add_constant(41), name="spoilt"), 1) == 42
    assert len(verified) == 3


def test_code_that_the_passes_spoil_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    library = emission._library
    if library is None:
        pytest.skip("another version of llvmlite")
    monkeypatch.setattr(library, "verify", lambda *_: True)
    module = begin_module(add_constant(43), name="spoilt_beside", effort="loops", beside=[])
    assert called(module.load(), 1) == 44
