"""Archives that are damaged, or made to get at something: they are refused and leave nothing."""
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import builtins
import contextlib
import io
import json
import os
import pickle
import random
import re
import sys
import zipfile
from typing import Any

import numpy as np
import pytest
from save_fuzzing import damaged_bytes, damaged_entries, outcome, paths_in, replaced
from saved_subjects import SUBJECTS
from saving import MANIFEST, entries_of, rebuilt, saved

import jitcore
from jitcore import SerializationError, script
from jitcore.freezing import optimizing

ARCHIVES = {name: saved(subject) for name, subject in SUBJECTS.items()}
INJECTION = "f():\n    pass\nimport builtins\nbuiltins.jitcore_was_here = True\ndef g"


@pytest.fixture(autouse=True)
def _leaves_nothing_behind(tmp_path, monkeypatch):
    """No file, no module and no name may be new after an archive was refused."""
    monkeypatch.chdir(tmp_path)
    modules = set(sys.modules)
    yield
    assert os.listdir(tmp_path) == []
    assert not hasattr(builtins, "jitcore_was_here")
    new = {name for name in set(sys.modules) - modules if not name.startswith("jitcore.")}
    assert not new & {"os", "model", "subprocess", "ctypes.util", "antigravity"}


def load(data):
    return jitcore.load(io.BytesIO(data))


def refused(data, message="."):
    with pytest.raises(SerializationError, match=message):
        load(data)


@script
def plain(x):
    return x


def with_graph(text):
    """An archive of a function of one parameter with this graph."""
    entries = entries_of(saved(plain))
    (name,) = (name for name in entries if name.endswith(".ir"))
    return rebuilt(entries | {name: text.encode()})


def with_program(name, change):
    """An archive whose table has been changed."""
    entries = entries_of(ARCHIVES[name])
    program = json.loads(entries["program.json"])
    change(program["objects"])
    return rebuilt(entries | {"program.json": json.dumps(program).encode()})


def graph_of(*lines, result="%x"):
    body = "".join(f"  {line}\n" for line in lines)
    return f"graph(%x : Tensor):\n{body}  return ({result})\n"


# Files


def test_other_files_are_refused():
    for data in (b"", b"PK", b"\x80\x04N.", pickle.dumps([1]), b"def f(x): return x", bytes(1000)):
        refused(data, "not an archive of jitcore")


def test_other_zip_files_are_refused():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("data.pkl", b"x")
    refused(file.getvalue(), "it has no manifest.json")
    entries = entries_of(ARCHIVES["arithmetic"])
    refused(rebuilt(entries, format="other"), "not an archive of jitcore")
    refused(rebuilt(entries, version="1"), "'version' that is no integer")


@pytest.mark.parametrize("name", ARCHIVES)
def test_truncated_archives_are_refused(name):
    data = ARCHIVES[name]
    for length in range(0, len(data) - 1, max(len(data) // 60, 1)):
        refused(data[:length])


def test_every_flipped_bit_of_an_entry_is_found():
    data = ARCHIVES["views"]
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        infos = [one for one in archive.infolist() if one.filename != MANIFEST]
    for info in infos:
        start = data.index(info.filename.encode(), info.header_offset) + len(info.filename)
        for at in range(start, start + info.file_size, max(info.file_size // 9, 1)):
            flipped = bytearray(data)
            flipped[at] ^= 1
            refused(bytes(flipped))


def test_compressed_entries_are_refused():
    """What is stored as it is cannot become larger than the file."""
    entries = entries_of(ARCHIVES["arithmetic"])
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
        archive.writestr("extra/bomb", bytes(10**7))
    refused(file.getvalue(), "compressed or encrypted")


def test_entries_that_overlap_are_refused():
    data = bytearray(ARCHIVES["arithmetic"])
    with zipfile.ZipFile(io.BytesIO(bytes(data))) as archive:
        largest = max(archive.infolist(), key=lambda info: info.file_size)
    # The central directory says that the entry is much larger than it is.
    at = data.rindex(largest.filename.encode()) - 46
    for offset in (20, 24):
        data[at + offset : at + offset + 4] = (2**30).to_bytes(4, "little")
    refused(bytes(data), "larger than the file|not an archive")


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "..\\x", "C:x", "a//b", "a\x00b"])
def test_names_that_leave_the_archive_are_refused(name):
    entries = entries_of(ARCHIVES["arithmetic"])
    refused(rebuilt(entries | {name: b"x"}))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_entries_are_those_of_the_manifest():
    entries = entries_of(ARCHIVES["arithmetic"])
    file = io.BytesIO(ARCHIVES["arithmetic"])
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("more.txt", "x")
    refused(file.getvalue(), "not those in its manifest")
    file = io.BytesIO(ARCHIVES["arithmetic"])
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("program.json", entries["program.json"])
    refused(file.getvalue(), "the same name")
    for name in entries:
        if not name.startswith("code/"):
            refused(without(entries, name))


def without(entries, name):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for one, data in entries.items():
            if one != name:
                archive.writestr(one, data)
    return file.getvalue()


def test_code_for_people_is_never_read():
    entries = entries_of(ARCHIVES["arithmetic"])
    code = next(name for name in entries if name.startswith("code/"))
    loaded = load(rebuilt(entries | {code: b"import antigravity"}))
    x = np.arange(3.0)
    np.testing.assert_array_equal(loaded(x)[1], SUBJECTS["arithmetic"](x)[1])
    assert "antigravity" not in sys.modules


# Graphs


HOSTILE_NODES = [
    "%1 : Any = prim::eval(%x)",
    "%1 : Any = prim::exec(%x)",
    "%1 : Any = prim::open(%x)",
    "%1 : Any = prim::__import__(%x)",
    "%1 : Any = prim::setattr(%x, %x, %x)",
    "%1 : Any = np::load(%x)",
    "%1 : Any = np::fromfile(%x)",
    '%1 : Any = np::call[name="load"](%x)',
    '%1 : Any = np::call[name="lib.npyio.load"](%x)',
    '%1 : Any = np::call[name="ctypeslib.ctypes.CDLL"](%x)',
    '%1 : Any = np::call[name="sum; import os"](%x)',
    '%1 : Any = np::call[name="__builtins__"](%x)',
    "%1 : Any = np::sum[axis=(0,), keepdims=False](%x)",
    '%1 : Any = np::view[index="5"](%x)',
    "%1 : Any = np::store(%x, %x)",
    '%1 : Any = np::empty[dtype=dtype("float64")](%x)',
    '%1 : Any = prim::require[exception="eval", message="1"](%x)',
    "%1 : Any = prim::type(%x, %x, %x)",
    '%1 : Any = prim::GetAttr[name="__globals__"](%x)',
    '%1 : Any = prim::GetAttr[name="__subclasses__"](%x)',
    '%1 : Any = prim::GetAttr[name="__array_interface__"](%x)',
    '%1 : Any = prim::GetAttr[name="ctypes"](%x)',
    '%1 : Any = prim::GetAttr[name="real\\nimport os"](%x)',
    '%1 : Any = prim::GetAttr[name="real.imag"](%x)',
    '%1 : Any = prim::GetAttr[name="class"](%x)',
    "%1 : Any = prim::GetAttr[name=3](%x)",
    "%1 : Any = prim::GetAttr(%x)",
    '%1 : Any = prim::CallMethod[name="tofile"](%x, %x)',
    '%1 : Any = prim::CallMethod[name="__reduce__"](%x)',
    '%1 : Any = prim::CallMethod[name="f(open"](%x)',
    'prim::SetAttr[name="__class__x"](%x)',
    'prim::SetAttr[name="__code__"](%x, %x)',
    "%1 : Any = prim::Constant[value=<function builtins.eval>]()",
    "%1 : Any = prim::Constant[value=<function numpy.genfromtxt>]()",
    "%1 : Any = prim::Constant[value=<module numpy>]()",
    '%1 : Any = prim::Constant[value=<module "os">]()',
    '%1 : Any = prim::Constant[value=<object "x #99">]()',
    '%1 : Any = prim::Constant[value=<object "x #-1">]()',
    "%1 : Any = prim::Constant[value=[1, 2]]()",
    "%1 : Any = prim::Constant[value=type(int)]()",
    '%1 : Any = prim::Constant[value=dtype("O")]()',
    '%1 : Any = prim::Constant[value=np.scalar("O", "AAAAAAAAAAA=")]()',
    "%1 : Any = prim::Constant[value=1e]()",
    "%1 : Any = prim::Constant[value=1, more=2]()",
    "%1 : Any = prim::Unpack[count=2](%x)",
    "%1 : Any = prim::Unpack[count=-1](%x)",
    '%1 : Any = prim::CallFunction[name="f"](%x)',
    "%1 : Any = prim::add(%x)",
    "%1 : Any = prim::add(%y, %x)",
    "%1 : Any = prim::add[starred=(5,)](%x, %x)",
    "%1 : Any = prim::Call()",
    "%1, %2 : Any = prim::add(%x, %x)",
    "%1 : Whatever = prim::add(%x, %x)",
    "%x : Any = prim::add(%x, %x)",
    "%1 : Any = os::system(%x)",
    "%1 : Any = nn::linear(%x, %x, packed=%x)",
    "%1 : Any = prim::NativeGroup_0(%x)",
]


@pytest.mark.parametrize("node", HOSTILE_NODES)
def test_hostile_nodes_are_refused(node):
    refused(with_graph(graph_of(node)))


def test_programs_that_call_themselves_are_refused():
    call = '%1 : Any = prim::CallFunction[name="f"](%x)'
    body = f"with function f = graph(%x : Tensor):\n  {call}\n  return (%1)\n"
    refused(with_graph(graph_of(call, result="%1") + body), "calls itself")


def test_programs_that_grow_when_they_are_inlined_are_refused():
    text = graph_of('%1 : Any = prim::CallFunction[name="f0"](%x)', result="%1")
    for number in range(60):
        call = f'prim::CallFunction[name="f{number + 1}"]'
        text += (
            f"with function f{number} = graph(%x : Tensor):\n"
            f"  %1 : Any = {call}(%x)\n  %2 : Any = {call}(%1)\n  return (%2)\n"
        )
    text += "with function f60 = graph(%x : Tensor):\n  return (%x)\n"
    refused(with_graph(text), "too large")


@pytest.mark.parametrize("depth", [100, 3000, 100_000])
def test_deep_nesting_is_no_crash(depth):
    texts = [
        graph_of(f"%1 : Any = prim::Constant[value={'(' * depth}{')' * depth}]()"),
        graph_of(f"%1 : {'List[' * depth}int{']' * depth} = prim::neg(%x)"),
        graph_of("%1 : Any = prim::neg(%x)", *["prim::If(%x)\n block0():\n"] * min(depth, 5000)),
    ]
    for text in texts:
        assert outcome(with_graph(text)) in ("refused", "loaded")


def test_deep_json_is_no_crash():
    entries = entries_of(ARCHIVES["arithmetic"])
    for depth in (1000, 100_000):
        text = b'{"root": 0, "objects": ' + b"[" * depth + b"]" * depth + b"}"
        refused(rebuilt(entries | {"program.json": text}))


# The table


def strings_in(program):
    for path in paths_in(program):
        value = program
        for key in path:
            value = value[key]
        if isinstance(value, str):
            yield path


@pytest.mark.parametrize("name", ARCHIVES)
def test_no_text_of_the_table_gets_into_code(name):
    """Each text in turn becomes one that would end a line of Python and begin others."""
    entries = entries_of(ARCHIVES[name])
    program = json.loads(entries["program.json"])
    for path in strings_in(program):
        changed = json.dumps(replaced(program, path, INJECTION)).encode()
        outcome(rebuilt(entries | {"program.json": changed}))
    assert not hasattr(builtins, "jitcore_was_here")


@pytest.mark.parametrize("name", ["arithmetic", "classes", "errors", "views"])
def test_wrong_types_in_the_table_are_refused_or_harmless(name):
    entries = entries_of(ARCHIVES[name])
    program = json.loads(entries["program.json"])
    for number, path in enumerate(paths_in(program)):
        strange: Any = [None, -1, 2**70, 1.5, "x", [], {}][number % 7]
        changed = json.dumps(replaced(program, path, strange)).encode()
        outcome(rebuilt(entries | {"program.json": changed}))


KNOWN = ["os.system", "builtins.eval", "numpy.load", "builtins.__import__", "subprocess.Popen"]


@pytest.mark.parametrize("name", KNOWN)
def test_objects_are_those_of_the_list(name):
    def change(objects):
        objects[0]["parameters"][1][2] = [len(objects)]
        objects.append({"kind": "known", "name": name})

    refused(with_program("arithmetic", change), "which a saved program cannot use")


def row_of(objects, kind):
    return next(row for row in objects if row["kind"] == kind)


def test_classes_are_what_a_program_can_have():
    def base(name):
        def change(objects):
            row = row_of(objects, "class")
            row["bases"], row["digest"] = [len(objects)], None
            objects.append({"kind": "known", "name": name})

        return change

    for name in ("builtins.type", "numpy.ndarray", "numpy.dtype", "builtins.sum"):
        refused(with_program("classes", base(name)), "a base class it cannot have")

    def method(name):
        def change(objects):
            row = row_of(objects, "class")
            row["digest"] = None
            row["members"][0][0] = name

        return change

    for name in ("__del__", "__array_interface__", "__init_subclass__", "__reduce__", "a b"):
        refused(with_program("classes", method(name)))

    def enum_base(objects):
        row = row_of(objects, "enum")
        row["base"], row["digest"] = "builtins.print", None

    refused(with_program("classes", enum_base), "is no enum")


def test_programs_in_a_circle_are_refused():
    def tuple_in_itself(objects):
        objects[0]["parameters"][1][2] = [len(objects)]
        objects.append({"kind": "tuple", "items": [len(objects)]})

    refused(with_program("arithmetic", tuple_in_itself), "contains itself")

    def model_in_itself(objects):
        layer = objects[0]
        register = next(
            reference for name, reference in layer["attributes"] if name == "_registered"
        )
        first = next(pair for pair in layer["attributes"] if pair[0] == "first")
        first[1] = 0
        assert objects[register]["kind"] == "register"

    refused(with_program("model", model_in_itself), "contains itself")


def test_lists_may_be_in_a_circle():
    def change(objects):
        objects[0]["parameters"][1][2] = [len(objects)]
        objects.append({"kind": "list", "items": [len(objects)]})

    loaded = load(with_program("arithmetic", change))
    (held,) = loaded.__wrapped__.__defaults__
    assert held[0] is held


def array_row(objects):
    return next(row for row in objects if row["kind"] == "array" and "strides" in row)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("offset", 96),
        ("offset", -8),
        ("offset", 2**62),
        ("strides", [2**40]),
        ("strides", [-8]),
        ("strides", []),
        ("shape", [10**9]),
        ("shape", [-1]),
        ("shape", [2**63]),
        ("dtype", "O"),
        ("dtype", "<f3"),
        ("dtype", [["a", "O"]]),
        ("dtype", [["a"]]),
        ("dtype", {"a": 1}),
        ("file", "program.json"),
        ("file", "../x"),
    ],
)
def test_views_stay_inside_their_memory(field, value):
    def change(objects):
        array_row(objects)[field] = value

    refused(with_program("views", change))


def test_arrays_are_plain_npy_files():
    entries = entries_of(ARCHIVES["views"])
    name = next(name for name in entries if name.endswith(".npy"))
    pickled = io.BytesIO()
    np.save(pickled, np.array([print], dtype=object), allow_pickle=True)
    huge = re.sub(rb"'shape': \(\d+,\)", b"'shape': (96000000000000,)", entries[name])
    assert huge != entries[name]
    bad = [pickled.getvalue(), huge, entries[name] + b"x", entries[name][:-1], b"\x93NUMPY", b""]
    for data in bad:
        refused(rebuilt(entries | {name: data}))


# While a program runs


@script
def by_dynamic_name(x, name):
    return getattr(x, name)


def test_names_that_are_made_while_a_program_runs_are_checked():
    loaded = load(saved(by_dynamic_name))
    assert loaded(2.5, "real") == 2.5
    with pytest.raises(jitcore.Error, match="leads out of the program"):
        loaded(2.5, "__class__"[:2] + "subclasshook__")
    with pytest.raises(AttributeError, match=re.escape("'float' object has no attribute 'no'")):
        loaded(2.5, "no")


# At random


def check_random(count, seed):
    loaded = 0
    for number in range(count):
        chance = random.Random(seed + number)
        data = ARCHIVES[chance.choice(list(ARCHIVES))]
        damage = chance.choice((damaged_bytes, damaged_entries))
        loaded += outcome(damage(data, chance)) == "loaded"
    # Most damage is found, and not all of it does harm.
    assert 0 < loaded < count / 4


def test_random_damage():
    check_random(400, 1)


@pytest.mark.slow
def test_much_random_damage():
    check_random(10_000, 10_000)


# Loading runs nothing


class Spy:
    """All that Python might call while an object is made, compared, hashed or asked."""

    def __eq__(self, other):
        return self.tell()

    def __hash__(self):
        return self.tell()

    def __getattr__(self, name):
        return self.tell()

    def __or__(self, other):
        return self.tell()

    def __len__(self):
        return self.tell()

    def __iter__(self):
        return self.tell()

    def __bool__(self):
        return self.tell()

    def __call__(self):
        return self.tell()

    def __repr__(self):
        return self.tell()

    def __init__(self):
        self.tell()

    def __enter__(self):
        return self.tell()

    def __instancecheck__(self, other):
        return self.tell()

    def tell(self):
        print("a program has run")
        raise RuntimeError("a program has run")


SPIES = [Spy.__new__(Spy)]


@script
def holds_spies(x, y=1):
    return SPIES, x


PLACES = {
    "key": {"kind": "dict", "items": [["$", "1"]]},
    "element": {"kind": "set", "items": ["$"]},
    "frozen element": {"kind": "frozenset", "items": ["$"]},
    "class of a tuple": {"kind": "tuple", "class": "$", "items": []},
    "class of an object": {"kind": "instance", "class": "$", "attributes": []},
    "class of a member": {"kind": "member", "class": "$", "name": "x"},
    "class of a layer": {"kind": "layer", "class": "$", "attributes": []},
    "base": {
        **{"kind": "class", "name": "C", "qualified": "C", "module": "m", "doc": None},
        **{"bases": ["$"], "dataclass": None, "members": []},
    },
    "base beside a parameter": {
        **{"kind": "class", "name": "C", "qualified": "C", "module": "m", "doc": None},
        **{"bases": ["$"], "parameters": ["T"], "slots": ["x"], "dataclass": None, "members": []},
    },
    "argument of a type": {"kind": "annotation", "origin": "union", "arguments": ["$", "$"]},
    "argument of a list": {"kind": "annotation", "origin": "list", "arguments": ["$"]},
    "method": {"kind": "method", "self": "$", "function": "$"},
    "default of a field": {
        **{"kind": "named tuple", "name": "N", "qualified": "N", "module": "m", "doc": None},
        **{"fields": ["a"], "defaults": [["a", "$"]], "members": []},
    },
    "value of a member": {
        **{"kind": "enum", "name": "E", "qualified": "E", "module": "m", "doc": None},
        **{"base": "enum.Enum", "values": [["a", "$"]], "members": []},
    },
}


@pytest.mark.parametrize("place", PLACES)
def test_nothing_of_a_class_runs_while_it_is_loaded(place, capsys):
    entries = entries_of(saved(holds_spies))
    program = json.loads(entries["program.json"])
    objects = program["objects"]
    spy = next(number for number, row in enumerate(objects) if row["kind"] == "instance")
    row_of(objects, "class")["digest"] = None
    for position in ("a default", "the root"):
        changed = json.loads(json.dumps(program))
        text = json.dumps(PLACES[place]).replace('"$"', str(spy))
        changed["objects"].append(json.loads(text))
        if position == "the root":
            changed["root"] = spy
        else:
            changed["objects"][0]["parameters"][1][2] = [len(objects)]
        data = rebuilt(entries | {"program.json": json.dumps(changed).encode()})
        capsys.readouterr()
        with contextlib.suppress(SerializationError):
            load(data)
        assert capsys.readouterr().out == ""


def test_frozen_modules_compute_nothing_while_they_are_loaded(monkeypatch):
    model = jitcore.freeze(script(jitcore.nn.Sequential(jitcore.nn.Linear(3, 3))).eval())
    data = saved(model)
    calls = []

    def optimize(graph, flag):
        calls.append(flag)
        return graph

    monkeypatch.setattr(optimizing, "STEPS", {"frozen": optimize})
    loaded = load(data)
    assert calls == []
    x = np.ones((2, 3), np.float32)
    np.testing.assert_allclose(loaded(x), model(x), rtol=1e-5, atol=1e-6)
    assert calls == [True]
