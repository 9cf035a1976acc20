# mypy: allow-untyped-defs, allow-untyped-calls
"""Freezing as TorchScript's users know it: what is folded, what stays, and what is an error."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from script_modules import array

from jitcore import Error, dump_alias_db, export, freeze, nn, script


def has(module, path):
    """Whether a module still has an attribute."""
    place, _, name = path.rpartition(".")
    try:
        return name in vars(module.get_submodule(place))
    except AttributeError:
        return False


def frozen_and_expected(module, *args, preserved_attrs=None):
    """A frozen module, after its results were compared with those of a copy of the module."""
    plain = copy.deepcopy(module).eval()
    frozen = freeze(script(module.eval()), preserved_attrs)
    for _ in range(2):
        expected, found = plain(*copy.deepcopy(args)), frozen(*copy.deepcopy(args))
        if isinstance(expected, str | list | dict):
            assert found == expected
        else:
            assert_array_equal(found, expected)
    return frozen


class Everything(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = 1
        self.b = 1.2
        self.c = "hello"
        self.d = [1, 1]
        self.e = {"layer": [array(2)]}
        self.f = ([1, 2], 3.2, "4.4", array(1))
        self.t = array(2)
        self.ts = [array(2), array(3)]
        self.n = None

    def forward(self, x):
        return f"{self.a}{self.b}{self.c}{self.d}{self.e}{self.f}{self.t}{self.ts}{self.n}{x.shape}"


def test_attributes_of_all_kinds_are_folded():
    frozen = frozen_and_expected(Everything(), array(2))
    assert not any(has(frozen, name) for name in "abcdeftn")
    assert not has(frozen, "ts")
    assert not has(frozen, "training")


class Sum(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.a, self.b = a, b

    def forward(self, x):
        return self.a + self.b


class Sets(Sum):
    def forward(self, x):
        self.b = 30
        return self.a + self.b


def test_submodules_that_change_stay_without_the_rest():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.sub1, self.sub2 = Sum(11, 2), Sets(12, 2)
            self.a, self.b = 3, 4

        def helper(self, x):
            return self.sub1(x)

        def forward(self, x):
            self.b = 20
            return self.helper(x) + self.a + self.b + self.sub2(x)

    frozen = frozen_and_expected(Model(), array(2))
    assert [has(frozen, one) for one in ("sub1", "a", "b", "sub2", "sub2.b", "sub2.a")] == [
        False,
        False,
        True,
        True,
        True,
        False,
    ]
    with pytest.raises(AttributeError, match=r"freeze\(\) has made a constant of it"):
        frozen.helper(array(2))


class Modifies(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = array(1), array(1) + np.float32(1)

    def forward(self, x):
        return self.a + self.b

    @export
    def modify_a(self, x):
        self.a[0] += 10
        return self.b

    @export
    def modify_b(self, x):
        self.b[0] += 20
        return self.a


def test_methods_that_write_in_place():
    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.sub, self.b = Modifies(), array(1)

        def forward(self, x):
            return self.sub.modify_b(x) + self.b

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.sub1, self.sub2, self.a = Modifies(), Inner(), array(1)

        def forward(self, x):
            z = self.sub1.modify_a(x)
            return self.sub2(x) + z + self.a

    frozen = frozen_and_expected(Outer(), array(2))
    assert has(frozen, "sub1.a") and has(frozen, "sub2.sub.b")
    assert not has(frozen, "a") and not has(frozen, "sub2.b")
    assert dump_alias_db(frozen).startswith("sub1.a: it is written in place by ")


def test_modules_in_two_places_are_one():
    shared = Modifies()

    class Reads(nn.Module):
        def __init__(self):
            super().__init__()
            self.sub = shared

        def forward(self, x):
            return self.sub.a

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.sub1, self.sub2 = shared, Reads()

        def forward(self, x):
            z = self.sub1.modify_a(x)
            return self.sub2(x) + z

    frozen = frozen_and_expected(Model(), array(2))
    assert has(frozen, "sub1.a") and not has(frozen, "sub1.b")
    assert frozen.sub1 is frozen.sub2.sub


class Unused(Sum):
    def forward(self, x):
        return self.a


class Two(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.sub1, self.sub2 = kind(array(1), 2.2), kind(array(1), 2.2)

    def forward(self, x):
        return self.sub2(x) + self.sub1(x)


def test_preserved_modules_stay_whole():
    frozen = frozen_and_expected(Two(Unused), array(2), preserved_attrs=["sub1"])
    assert has(frozen, "sub1.a") and has(frozen, "sub1.b") and not has(frozen, "sub2")


def test_preserved_attributes_of_submodules():
    frozen = frozen_and_expected(Two(Sum), array(2), preserved_attrs=["sub1.a", "sub2.b"])
    assert has(frozen, "sub1.a") and not has(frozen, "sub1.b")
    assert has(frozen, "sub2.b") and not has(frozen, "sub2.a")
    before = frozen(array(2))
    frozen.sub1.a = frozen.sub1.a + 1
    assert_array_equal(frozen(array(2)), before + 1)


def test_preserved_methods_of_submodules():
    class Methods(nn.Module):
        def forward(self, x):
            return self.method_a(x) + self.method_b(x)

        def method_a(self, x):
            return x * x

        def method_b(self, x):
            return x + x

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.sub = Methods()

        def forward(self, x):
            return self.sub(x)

    frozen = frozen_and_expected(Model(), array(2), preserved_attrs=["sub.method_a"])
    assert has(frozen, "sub")
    assert_array_equal(frozen.sub.method_a(array(2)), array(2) * array(2))
    assert frozen.sub.method_a.graph.find_all_nodes("prim::mul")


def test_methods_count_only_where_they_are_preserved():
    frozen = freeze(script(Modifies().eval()), ["modify_a"])
    assert has(frozen, "a") and not has(frozen, "b")
    frozen.modify_a(array(2))
    assert_array_equal(frozen(array(2)), array(1) + np.float32(10) + array(1) + np.float32(1))
    assert not has(freeze(script(Modifies().eval())), "a")


def test_lists_and_dicts_of_a_frozen_module_are_its_own():
    class Holds(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = [1, 2]
            self.b = {"layer": "4", "inner": self.a}
            self.c = (self.a, {3})

        def forward(self, x):
            return f"{self.a}{self.b}{self.c}"

    scripted = script(Holds().eval())
    expected = scripted(1)
    frozen = freeze(scripted)
    scripted.a.append(5)
    scripted.b["layer"] = "9"
    scripted.c[1].add(7)
    assert frozen(1) == expected


def test_lists_that_change_stay_with_what_shares_them():
    class Appends(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = [11, 22]
            self.b = self.a
            self.other = [1]

        def forward(self, x):
            for i in range(3):
                self.a.append(i)
            return self.b + self.other

    module = Appends().eval()
    scripted = script(module)
    frozen = freeze(scripted)
    assert frozen(array(1)) == [11, 22, 0, 1, 2, 1]
    assert frozen(array(1)) == [11, 22, 0, 1, 2, 0, 1, 2, 1]
    assert scripted.a == [11, 22]
    assert has(frozen, "a") and has(frozen, "b") and not has(frozen, "other")


def test_arrays_in_containers_that_are_written():
    class InTuple(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = (array(6), "hi")

        def forward(self, x):
            if x[0] == 2.0:
                self.a[0][0] = 10
            return self.a[0].sum()

    class Aliased(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = array(6)
            self.b = self.a.reshape(2, 3)

        def forward(self, x):
            self.b[1] += 10
            return self.a.sum()

    frozen_and_expected(InTuple(), np.array([2.0]))
    # A deep copy of it would have two arrays.
    frozen, expected = freeze(script(Aliased().eval())), Aliased()
    for _ in range(2):
        assert_array_equal(frozen(array(1)), expected(array(1)))
    assert has(frozen, "a") and has(frozen, "b")


def test_modules_that_are_returned_stay():
    class Gives(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(1, 4, 3)

        def forward(self, x):
            return self.conv1

    frozen = freeze(script(Gives().eval()))
    assert has(frozen, "conv1.weight")
    assert frozen(1) is frozen.conv1
    assert frozen(1)(array(1, 1, 5, 5)).shape == (1, 4, 3, 3)


def test_branches_over_objects():
    class Value:
        def __init__(self, val):
            self.val = val

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.mod1, self.mod2 = Value(1), Value(2)

        def forward(self, cond):
            mod = self.mod1 if cond else self.mod2
            return mod.val

    frozen = freeze(script(Model().eval()))
    assert (frozen(True), frozen(False)) == (1, 2)


def test_tuples_between_modules_leave_nothing_behind():
    class Pair(nn.Module):
        def forward(self, x):
            return x + 1, x + 2

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.sub = Pair()

        def forward(self, x):
            y1, y2 = self.sub(x)
            return y1 + y2

    frozen = frozen_and_expected(Model(), array(2))
    kinds = {node.kind for node in frozen.graph.nodes()}
    assert not kinds & {"prim::TupleConstruct", "prim::Unpack"}


def test_methods_that_call_forward():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.bn = nn.Conv2d(3, 4, 3, stride=2), nn.BatchNorm2d(4, eps=0.001)

        def forward(self, x):
            return self.bn(self.conv(x))

        @export
        def make_prediction(self, x):
            return self.forward(x)

    model = Model().eval()
    frozen = freeze(script(model), preserved_attrs=["make_prediction"])
    assert "conv2d" in str(frozen.make_prediction.graph)
    assert "batch_norm" not in str(frozen.make_prediction.graph)
    x = array(4, 3, 6, 6)
    np.testing.assert_allclose(frozen.make_prediction(x), model(x), 1e-4, 1e-5)


def test_what_freeze_refuses():
    with pytest.raises(Error, match="expects a ScriptModule"):
        freeze(nn.Linear(2, 2).eval())
    with pytest.raises(Error, match="eval mode"):
        freeze(script(nn.Linear(2, 2)))
    for name in ("nothing", "nothing.weight", "weight.shape"):
        with pytest.raises(Error, match=f"Unknown name: {name}"):
            freeze(script(nn.Linear(2, 2).eval()), [name])
    with pytest.raises(AttributeError, match=r"freeze\(\) has made a constant of it"):
        _ = freeze(script(nn.Linear(2, 2).eval())).weight


def test_no_parameters_are_left():
    frozen = freeze(script(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).eval()))
    assert list(frozen.named_parameters()) == []
    assert list(frozen.named_buffers()) == []
    assert frozen.state_dict() == {}
    assert "prim::GetAttr[" not in str(frozen.graph)


def test_copies_of_frozen_modules():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.count = 0
            self.linear = nn.Linear(2, 2)

        def forward(self, x):
            self.count += 1
            return self.linear(x) + self.count

    frozen = freeze(script(Counts().eval()))
    first = frozen(array(3, 2))
    for one in (copy.deepcopy(frozen), copy.copy(frozen)):
        assert one.count == 1
        np.testing.assert_allclose(one(array(3, 2)), first + 1, 1e-6)
        assert (one.count, frozen.count) == (2, 1)
        assert list(one.parameters()) == []


def test_arithmetic_stays_as_script_was_told():
    scripted = script(nn.Linear(2, 2).eval(), numerics="contract")
    assert freeze(scripted).compiled_method("forward").numerics == "contract"
    assert freeze(script(nn.Linear(2, 2).eval())).compiled_method("forward").numerics is None
