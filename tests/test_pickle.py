"""Script functions and modules in ``pickle``, in other processes, in Dask and in Ray."""
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import concurrent.futures
import copy
import enum
import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
import textwrap
import weakref
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from saving import reloaded
from script_modules import array, assert_same, mlp

import jitcore
from jitcore import freeze, ignore, nn, script
from jitcore.serialization.storage import from_bytes, to_bytes

EXAMPLES = Path(__file__).parents[1] / "examples"
WEIGHTS = np.linspace(0, 1, 6)


class Mode(enum.Enum):
    PLAIN = 1
    DOUBLED = 2


class Pair(NamedTuple):
    low: float
    high: float


@ignore
def described(mode):
    return f"mode {mode.name}"


@script
def weighted(x, mode=Mode.PLAIN):
    y = np.exp(-x * x) * WEIGHTS
    if mode is Mode.DOUBLED:
        y = y * 2
    return y


@script
def extent(x, mode):
    text = described(mode)
    return Pair(x.min(), x.max()), text


def pickled_elsewhere(obj):
    """What a process that never had the object makes of its pickle."""
    external: list[object] = []
    data = to_bytes(obj, external=external, readable=False)
    return from_bytes(data, pickle.loads(pickle.dumps(external)))


def test_graphs_are_pickled_and_no_code():
    data = pickle.dumps(weighted)
    assert b"graphs/0_weighted.ir" in data
    for one in (b"def weighted", b"\x7fELF", b"co_code"):
        assert one not in data


def test_in_one_process_a_function_is_itself():
    assert pickle.loads(pickle.dumps(weighted)) is weighted
    assert copy.copy(weighted) is weighted
    assert copy.deepcopy([weighted])[0] is weighted


def test_unpickled_twice_it_is_compiled_once():
    def local(x):
        return np.sin(x) * 2

    data = pickle.dumps(script(local))
    gc.collect()
    first, second = pickle.loads(data), pickle.loads(data)
    assert first is second
    np.testing.assert_array_equal(first(WEIGHTS), local(WEIGHTS))


def test_pickling_keeps_nothing_alive():
    function = script(lambda x: x + 1)
    pickle.dumps(function)
    known = weakref.ref(function)
    del function
    gc.collect()
    assert known() is None


def test_classes_are_the_processs_own():
    loaded = pickled_elsewhere(extent)
    found, text = loaded(WEIGHTS, Mode.DOUBLED)
    assert type(found) is Pair and found == Pair(0.0, 1.0)
    assert text == "mode DOUBLED"
    loaded = pickled_elsewhere(weighted)
    for mode in Mode:
        np.testing.assert_array_equal(loaded(WEIGHTS, mode), weighted(WEIGHTS, mode))


@script
def joins(count):
    return ",".join(str(i) for i in range(count))


def test_what_has_no_graph_form_is_pickled_by_name():
    assert pickle.loads(pickle.dumps(joins)) is joins
    assert b"graphs/" not in pickle.dumps(joins)
    with pytest.raises(jitcore.SerializationError, match="generator that is passed on"):
        pickle.dumps(script(joins.__wrapped__.__globals__["local_joins"]()))


def local_joins():
    def local(count):
        return ",".join(str(i) for i in range(count))

    return local


def test_modules():
    model = script(mlp())
    x = array(4, 8)
    for one in (model, freeze(script(mlp()).eval())):
        loaded = pickle.loads(pickle.dumps(one))
        assert_same(loaded(x), one(x))
        assert list(loaded.state_dict()) == list(one.state_dict())
        assert not any(
            np.shares_memory(own, other)
            for own, other in zip(loaded.parameters(), one.parameters(), strict=True)
        )


def tied_model():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(3, 3)
            self.second = nn.Linear(3, 3)
            self.second.register_parameter("weight", self.first.weight)

        def forward(self, x):
            return self.second(self.first(x))

    return script(Tied())


def test_shared_weights_stay_shared():
    tied = tied_model()
    for made in (pickle.loads(pickle.dumps(tied)), copy.deepcopy(tied)):
        assert made.first.weight is made.second.weight
        made.first.weight += 1
        x = array(2, 3)
        expected = (x @ made.first.weight.T + made.first.bias) @ made.first.weight.T
        assert_same(made(x), expected + made.second.bias)


# Other processes


def test_spawned_processes():
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        found = pool.map(weighted, [WEIGHTS, WEIGHTS * 2])
        pairs = pool.starmap(extent, [(WEIGHTS, Mode.PLAIN)])
    for one, x in zip(found, (WEIGHTS, WEIGHTS * 2), strict=True):
        np.testing.assert_array_equal(one, weighted(x))
    assert pairs == [(Pair(0.0, 1.0), "mode PLAIN")]


def test_executors():
    context = multiprocessing.get_context("spawn")
    inputs = [WEIGHTS * k for k in range(4)]
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        found = list(pool.map(weighted, inputs))
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        same = list(threads.map(weighted, inputs))
    for one, other, x in zip(found, same, inputs, strict=True):
        np.testing.assert_array_equal(one, weighted(x))
        np.testing.assert_array_equal(other, weighted(x))


PROGRAM = """
import sys
import cloudpickle
import numpy as np
from jitcore import nn, script

@script
def f(x):
    return np.tanh(x) * k + sorted([2, 1], key=lambda i: i)[0]

k = 3.0

class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(np.full(3, 2.0))

    def forward(self, x):
        return x * self.factor if self.training else x

sys.stdout.buffer.write(cloudpickle.dumps((f, script(Scale()))))
"""

LOADER = """
import pickle, sys
import numpy as np
f, model = pickle.load(sys.stdin.buffer)
x = np.linspace(-1, 1, 3)
assert np.array_equal(f(x), np.tanh(x) * 3.0 + 1)
assert np.array_equal(model(x), x * 2)
assert np.array_equal(model.eval()(x), x)
print(type(f).__name__)
"""


def run(text, given=b""):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", textwrap.dedent(text)]
    ran = subprocess.run(command, input=given, env=environment, capture_output=True)
    assert ran.returncode == 0, ran.stderr.decode()
    return ran.stdout


def test_cloudpickle_from_a_program_that_is_no_module(tmp_path):
    pytest.importorskip("cloudpickle")
    source = tmp_path / "program.py"
    source.write_text(PROGRAM, encoding="utf-8")
    data = run(f"import runpy; runpy.run_path({str(source)!r}, run_name='__main__')")
    source.unlink()
    assert run(LOADER, data).split() == [b"LoadedFunction"]


# Clusters


@pytest.mark.slow
def test_dask_cluster_of_two_workers():
    pytest.importorskip("distributed")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ran = subprocess.run(
        [sys.executable, str(EXAMPLES / "dask_blocks.py")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    assert "2 workers" in ran.stdout and "as NumPy" in ran.stdout


def test_dask_infers_meta():
    dask_array = pytest.importorskip("dask.array")
    blocks = dask_array.from_array(np.arange(12.0).reshape(4, 3), chunks=(2, 3))
    made = blocks.map_blocks(script(lambda x: (x * 2).astype(np.float32)))
    assert made.dtype == np.float32
    found = made.compute(scheduler="threads")
    np.testing.assert_array_equal(found, np.arange(12.0, dtype=np.float32).reshape(4, 3) * 2)


RAY = """
import numpy as np
import ray
from jitcore import script

@script
def f(x):
    return np.exp(-x) * 2

ray.init(num_cpus=2, include_dashboard=False, configure_logging=False)
task = ray.remote(lambda x: f(x))
x = np.linspace(0, 1, 5)
found = ray.get([task.remote(x + k) for k in range(3)])
assert all(np.array_equal(one, f(x + k)) for k, one in enumerate(found))
print("ray has computed", len(found))
ray.shutdown()
"""


@pytest.mark.slow
def test_ray_tasks(tmp_path):
    pytest.importorskip("ray")
    source = tmp_path / "program.py"
    source.write_text(RAY, encoding="utf-8")
    output = run(f"import runpy; runpy.run_path({str(source)!r}, run_name='__main__')")
    assert b"ray has computed 3" in output


class Modal(nn.Module):
    def forward(self, x):
        return x + 1 if self.training else x * 10


class Around(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x) * 2


@pytest.mark.parametrize("copied", [lambda one: pickle.loads(pickle.dumps(one)), reloaded])
def test_modes_of_unpickled_layers_in_scripted_modules(copied):
    x = array(3)
    eager, scripted = Around(Modal()), script(Around(copied(script(Modal()))))
    for training in (True, False, True, False):
        eager.train(training)
        scripted.train(training)
        assert_same(scripted(x), eager(x))
    assert_same(freeze(scripted)(x), eager(x))
    whole = copied(script(Around(Modal()))).eval()
    assert_same(freeze(whole)(x), eager(x))
