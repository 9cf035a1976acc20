# mypy: allow-untyped-defs, allow-untyped-calls
"""freeze: programs that share, write or hand out what belongs to their modules."""

import copy
import re
from typing import Any

import numpy as np
import pytest
from script_modules import array, assert_same

from jitcore import Error, dump_alias_db, export, fork, freeze, interface, nn, script, wait


def attributes(module):
    """The dotted names of all attributes but those that every module has."""
    return {
        ".".join(filter(None, (path, name)))
        for path, one in module.named_modules()
        for name in vars(one)
        if name not in ("_registered", "_forward_hooks", "_forward_pre_hooks")
    }


def check(make, *args, preserved_attrs=None, calls=3):
    """Freeze what ``make`` gives, and compare calls with those of another one that is not."""
    plain, frozen = make().eval(), freeze(script(make().eval()), preserved_attrs)
    for _ in range(calls):
        assert_same(frozen(*copy.deepcopy(args)), plain(*copy.deepcopy(args)))
    return frozen


def applied(forward, **members):
    """A module with this ``forward``, and these attributes."""
    made = type("Apply", (nn.Module,), {"forward": forward})()
    for name, member in members.items():
        setattr(made, name, member)
    return made


# Tasks


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.count, self.scale, self.unread = 0, array(3), 5

    @export
    def advance(self, x):
        self.count += 1
        return x * self.scale + self.count

    def forward(self, x):
        return self.advance(x)


class Forks(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Counter()
        self.shift = 2.0

    def forward(self, x):
        first = wait(fork(self.inner.forward, x))
        second = wait(fork(self.inner, x))
        third = wait(fork(self.helper, x))
        return first + second * third + self.inner.count

    def helper(self, x):
        return self.inner.advance(x) * self.shift


def test_methods_that_tasks_run_find_their_attributes():
    frozen = check(Forks, array(3))
    assert {"inner.count", "inner.scale", "shift"} <= attributes(frozen)
    assert "method forward is used as a value" in dump_alias_db(frozen)


def test_what_a_task_assigns_is_seen_afterwards():
    plain, scripted = Forks(), script(Forks())
    for _ in range(3):
        assert_same(scripted(array(3)), plain(array(3)))
    assert scripted.inner.count == plain.inner.count == 9


# Objects and memory that attributes share


class Settings:
    def __init__(self, scale):
        self.scale = scale
        self.table = np.zeros(2)

    def advance(self):
        self.scale += 1


class Slots:
    __slots__ = ("scale",)

    def __init__(self, scale):
        self.scale = scale


def assigns(self, x):
    self.settings.scale += 1
    return x * self.settings.scale


def calls_a_method(self, x):
    self.settings.advance()
    return x * self.settings.scale


def writes_inside(self, x):
    self.settings.table[0] += 1
    return x + self.settings.table[0] + self.same[0]


@pytest.mark.parametrize("forward", [assigns, calls_a_method, writes_inside])
def test_objects_that_a_program_changes_stay(forward):
    def make():
        settings = Settings(2.0)
        return applied(forward, settings=settings, same=settings.table, apart=3)

    assert attributes(check(make, array(3))) == {"settings", "same"}


def test_objects_with_slots_and_in_containers():
    def forward(self, x):
        self.held[0].scale += 1
        return x * self.same.scale

    def make():
        slots = Slots(1.0)
        return applied(forward, held=[slots], same=slots)

    assert attributes(check(make, array(3))) == {"held", "same"}


def test_objects_that_nothing_changes_are_folded():
    frozen = check(lambda: applied(lambda self, x: x * self.s.scale, s=Settings(2.0)), array(3))
    assert attributes(frozen) == set()


def test_an_attribute_that_is_written_in_place_keeps_what_shares_its_memory():
    def forward(self, x):
        self.row += 1
        return self.table + x

    def make():
        table = array(2, 3)
        return applied(forward, table=table, row=table[0])

    assert attributes(check(make, array(3))) == {"table", "row"}


# Python that sees the module


def test_hooks_of_the_module_find_its_attributes():
    def hook(module, args):
        module.count += 1
        return (args[0] * module.scale,)

    def make():
        made = applied(lambda self, x: x + self.count, count=0, scale=2.0)
        made.register_forward_pre_hook(hook)
        return made

    frozen = check(make, array(3))
    assert frozen.count == 3
    assert "scale: its module has hooks" in dump_alias_db(frozen)


# Names that are preserved


class Versioned(nn.Module):
    version = 3

    def forward(self, x):
        return x * self.version


def test_attributes_of_the_class_can_be_preserved():
    frozen = check(Versioned, array(3), preserved_attrs=["version"])
    assert frozen.version == 3
    frozen.version = 5
    assert_same(frozen(array(3)), array(3) * 5)
    assert Versioned.version == 3


def test_one_name_is_no_list_of_names():
    wrong: Any
    for wrong in ("version", [3]):
        with pytest.raises(Error, match=re.escape(f"must be a list of names, found {wrong!r}")):
            freeze(script(Versioned().eval()), wrong)


def test_a_preserved_attribute_that_is_gone():
    frozen: Any = freeze(script(applied(lambda self, x: x * self.k, k=2.0).eval()), ["k"])
    for _ in range(2):
        frozen(array(3))
    del frozen.k
    for _ in range(2):
        with pytest.raises(AttributeError, match=r"the frozen module has no self\.k any more"):
            frozen(array(3))
    frozen.k = 3.0
    assert_same(frozen(array(3)), array(3) * 3.0)


@interface
class Maps(nn.Module):
    def forward(self, x):
        pass


class Adds(nn.Module):
    def forward(self, x):
        return x + 1


class Scales(nn.Module):
    def __init__(self):
        super().__init__()
        self.k = 3.0

    def forward(self, x):
        return x * self.k


class Replaceable(nn.Module):
    inner: Maps

    def __init__(self):
        super().__init__()
        inner: Any = Adds()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)


class Fixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Adds()

    def forward(self, x):
        return self.inner(x)


def test_a_preserved_module_with_an_interface_can_be_replaced():
    assert attributes(check(Replaceable, array(3))) == set()
    frozen = check(Replaceable, array(3), preserved_attrs=["inner"])
    frozen.inner = script(Scales().eval())
    assert_same(frozen(array(3)), array(3) * 3.0)
    frozen.inner.k = 4.0
    assert_same(frozen(array(3)), array(3) * 4.0)


def test_other_preserved_modules_cannot():
    frozen = check(Fixed, array(3), preserved_attrs=["inner"])
    with pytest.raises(AttributeError, match=r"cannot set 'inner' of module 'Fixed': freeze\(\)"):
        frozen.inner = Scales()
    frozen.inner = frozen.inner
    chain = freeze(script(nn.Sequential(nn.Linear(3, 3), nn.ReLU()).eval()), ["0"])
    with pytest.raises(AttributeError, match="annotate it with an interface"):
        chain[0] = nn.Tanh()


# Modes


def test_a_module_that_is_in_training_mode_keeps_it():
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.BatchNorm1d(3))
    scripted = script(model.eval())
    scripted[1].train()
    frozen = freeze(scripted)
    assert attributes(frozen) == {"1", "1.training"}
    ones = np.ones((500, 3), np.float32)
    assert len(np.unique(frozen(ones).round(4)[:, 0])) == 2
    assert frozen.eval() is frozen
    assert_same(frozen(ones), scripted.eval()(ones))
    with pytest.raises(AttributeError, match="cannot set 'training' of module 'Sequential'"):
        frozen.train()
