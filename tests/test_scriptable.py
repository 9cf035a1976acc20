"""What ``script`` takes besides functions: lists, dicts, objects, classes of script modules."""
# mypy: allow-untyped-defs, allow-untyped-calls

import copy
import dataclasses
import io
import pickle
from types import MethodType
from typing import Any

import numpy as np
import numpy.typing
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from saving import reloaded

import jitcore
from jitcore import (
    Attribute,
    CompilationError,
    ScriptModule,
    export,
    freeze,
    nn,
    script,
    script_if_tracing,
)

ROWS = np.arange(6, dtype=np.float32).reshape(3, 2)


# Values that are shared


class Counter:
    def __init__(self, start):
        self.count = start

    def add(self, step):
        self.count += step
        return self.count


@dataclasses.dataclass
class Limits:
    low: float
    high: float = 1.0


class Streams:
    def __init__(self):
        self.items = []

    def each(self):
        yield from self.items


@script
def counted(counter, names, totals):
    for name in names:
        totals[name] = counter.add(len(name))
    names.append("end")
    return counter


def test_containers_and_objects_stay_what_they_are():
    made: Any = Counter(2)
    counter, names, totals = script(made), script(["a", "bcd"]), script({"z": 0})
    assert counted(counter, names, totals) is counter
    assert (counter.count, names, totals) == (6, ["a", "bcd", "end"], {"z": 0, "a": 3, "bcd": 6})
    assert script(names) is names
    assert script(totals) is totals
    limits: Any = Limits(0.5)
    assert script(limits) is limits


def test_the_class_of_an_object_is_checked():
    streams: Any = Streams()
    with pytest.raises(CompilationError, match="'yield from' is not supported"):
        script(streams)

    class Derived(Streams):
        pass

    with pytest.raises(CompilationError, match="'yield from' is not supported"):
        script(Derived())  # type: ignore[call-overload]


@pytest.mark.parametrize("value", [3, 2.5, "text", (1, 2), np.ones(2), io.BytesIO()])
def test_what_is_nothing_to_compile(value):
    with pytest.raises(CompilationError, match=r"found .*\n.*@script on a function"):
        script(value)


@script_if_tracing
def halved(x=8):
    while x > 1:
        x = x / 2
    return x


def test_functions_for_traces_may_be_scripted():
    scripted = script(halved)
    assert isinstance(scripted, jitcore.ScriptFunction)
    assert scripted() == halved() == 1.0
    assert scripted(5) == halved(5)


def test_names_of_functions():
    assert (counted.name, counted.qualified_name) == ("counted", f"{__name__}.counted")
    written = counted.save_to_buffer({"note": "three"})
    notes = {"note": b""}
    assert jitcore.load(io.BytesIO(written), _extra_files=notes).name == "counted"
    assert notes["note"] == b"three"


Rows = np.typing.NDArray[np.float32]


@script
def schematic(
    x: Rows, steps: list[float], /, n: int = 3, *rest: Any, tiny: Rows = ROWS, **others: Any
) -> int:
    return n * 2


@script
def plain(x: Any, *, k: bool = True) -> Any:
    return x / 2 if k else x


def test_schemas():
    assert schematic.schema == (
        "schematic(Tensor x, List[float] steps, int n=3, Any *rest, Tensor tiny=..., "
        "Dict[str, Any] **others) -> int"
    )
    assert plain.schema == "plain(Any x, *, bool k=True) -> Any"
    assert script(nn.Linear(2, 2)).schema.partition(" ->")[0] == "forward(Tensor input)"
    assert reloaded(schematic).schema == schematic.schema


def test_modules_whose_base_is_not_initialized():
    class Early(nn.Module):
        def __init__(self):
            self.k = 1

    class EarlyScript(ScriptModule):
        def __init__(self):
            self.k = 1

        def forward(self, x):
            return x * self.k

    for early in (Early(), EarlyScript()):
        with pytest.raises(CompilationError, match=r"Early.*\nCall super\(\).__init__\(\)"):
            script(early)
    with pytest.raises(AttributeError, match=r"__init__ has not called super\(\).__init__"):
        EarlyScript()(1)


def test_classes_of_modules_are_no_modules():
    for class_ in (Holder, nn.Linear):
        with pytest.raises(
            CompilationError, match=f"the class of one\nMake .*script\\({class_.__name__}"
        ):
            script(class_)
    assert script(Shifted) is Shifted  # which compiles each of its modules


# Classes that derive from ScriptModule


def test_the_numerics_of_script_modules_are_not_ignored():
    with pytest.raises(CompilationError, match="Shifted numerics='contract': it is a script mod"):
        script(Shifted(2), numerics="contract")
    module = script(Holder(), numerics="contract")
    assert script(module, numerics="contract") is script(module) is module
    with pytest.raises(CompilationError, match="numerics='strict'"):
        script(module, numerics="strict")


def test_without_the_compiler_their_methods_are_plain(monkeypatch):
    module = Shifted(2)
    expected, loaded = module(ROWS), reloaded(module)
    monkeypatch.setenv("JITCORE_JIT", "0")
    plain = Shifted(2)
    assert isinstance(plain.forward, MethodType)
    assert_array_equal(expected_of(plain, ROWS), plain(ROWS))
    assert_array_equal(plain.backward(ROWS), ROWS - 1)
    assert plain.calls == 1
    assert_array_equal(loaded(ROWS), expected)


class Scaled(ScriptModule):
    calls: Any

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(np.full((width, width), 2, np.float32))
        self.inner = nn.Linear(width, width)
        self.calls = Attribute(0, int)

    def forward(self, x):
        self.calls += 1
        return self.inner(x @ self.weight)


class Shifted(Scaled):
    def forward(self, x):
        return super().forward(x) + 1

    @export
    def backward(self, y):
        return y - 1


class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Shifted(2)

    def forward(self, x):
        return self.part.backward(self.part(x))


def expected_of(module, x):
    return nn.functional.linear(x @ module.weight, module.inner.weight, module.inner.bias) + 1


def test_classes_of_script_modules():
    module = Shifted(2)
    assert isinstance(module, Shifted)
    assert module.original_name == "Shifted"
    assert script(module) is module
    assert_allclose(module(ROWS), expected_of(module, ROWS), rtol=1e-6)
    assert_array_equal(module.backward(ROWS), ROWS - 1)
    assert "nn::linear" in str(module.graph)
    assert module.calls == 1
    assert list(module.state_dict()) == ["weight", "inner.weight", "inner.bias"]
    holder = script(Holder())
    assert_allclose(holder(ROWS), expected_of(holder.part, ROWS) - 1, rtol=1e-6)


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, reloaded, lambda one: pickle.loads(pickle.dumps(one))]
)
def test_copies_of_such_modules(copied):
    module = Shifted(2)
    expected = module(ROWS)
    twin = copied(module)
    assert twin is not module
    assert isinstance(twin, ScriptModule)
    assert_array_equal(twin(ROWS), expected)
    assert_array_equal(twin.backward(ROWS), ROWS - 1)
    assert (module.calls, twin.calls) == (1, 2)


def test_such_modules_freeze():
    module = Shifted(2).eval()
    expected = module(ROWS)
    frozen = freeze(module)
    assert_allclose(frozen(ROWS), expected, rtol=1e-6)
    assert list(frozen.parameters()) == []


def test_layers_that_are_set_later_are_saved():
    module = Scaled(2)
    module.inner = nn.Linear(2, 2)
    assert_array_equal(reloaded(module)(ROWS), module(ROWS))


MADE: list[str] = []


class Registered(nn.Module):
    tag = 0

    def __init_subclass__(cls, tag=1, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.tag = tag
        MADE.append(cls.__name__)


class RegisteredScript(ScriptModule):
    tag = 0

    def __init_subclass__(cls, tag, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.tag = tag
        MADE.append(cls.__name__)


def test_init_subclass_runs_for_the_users_classes_only():
    MADE.clear()

    class Plain(Registered, tag=4):
        def forward(self, x):
            return x * self.tag, type(self).tag

    class Derived(RegisteredScript, tag=5):
        def forward(self, x):
            return x * self.tag, type(self).tag

    assert script(Plain())(2) == freeze(script(Plain().eval()))(2) == Plain()(2) == (8, 4)
    assert Derived()(2) == (10, 5)
    assert MADE == ["Plain", "Derived"]


class Adding:
    @classmethod
    def plus(cls, x):
        return x + 1

    def forward(self, x):
        return self.plus(x), self.__class__.plus(x)


class Doubling(Adding):
    @classmethod
    def plus(cls, x):
        return super().plus(x) * 2


@pytest.mark.parametrize("base", [nn.Module, ScriptModule])
def test_class_methods_of_modules(base):
    first = type("First", (Adding, base), {})
    second = type("Second", (Doubling, first), {})
    assert script(first())(1) == (2, 2)
    assert script(second())(1) == (4, 4)
