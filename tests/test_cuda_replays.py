# mypy: allow-untyped-defs, allow-untyped-calls
"""Calls of models that are ready for inference, recorded as CUDA graphs on a fake device."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cuda_machine import fake_machine
from fake_cublas import FakeCublas
from fake_cuda import FakeDriver
from test_cuda_libraries import installed

import jitcore
from jitcore import nn, optimize_for_inference, script
from jitcore.codegen.cuda import cublas, driver
from jitcore.cuda import replays

RNG = np.random.default_rng(3)
X, OTHER = RNG.normal(size=(2, 4, 6)).astype(np.float32)


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    """A device with a cuBLAS, whose products take no time in the simulator."""
    library = cublas.Cublas(FakeCublas(), "cuBLAS (a fake)")
    with fake_machine() as made, cublas.use(library):
        yield made


class Normed(nn.Module):
    """Products with sums over rows between them: two kernels for each."""

    def __init__(self) -> None:
        super().__init__()
        rng = np.random.default_rng(1)
        self.first = nn.Parameter(rng.normal(size=(6, 8)).astype(np.float32))
        self.second = nn.Parameter(rng.normal(size=(8, 5)).astype(np.float32))
        self.third = nn.Parameter(rng.normal(size=(5, 3)).astype(np.float32))

    def body(self, x):
        for weight in (self.first, self.second, self.third):
            x = x @ weight
            x = x - x.mean(axis=1, keepdims=True)
        return x

    def forward(self, x: Any, *more: Any) -> Any:
        return self.body(x)


class Numbered(Normed):
    """Has arguments and results that are no arrays, and results in a tuple."""

    def forward(self, x: Any, factor: Any, both: Any) -> Any:
        y = self.body(x) * factor
        return (y, x.shape[0] + 1), y.T if both else None


class Writing(Normed):
    def forward(self, x):
        y = self.body(x)
        x += 1
        return y


class Returning(Normed):
    def forward(self, x):
        return self.body(x), x[1:]


class Waiting(Normed):
    def forward(self, x):
        y = self.body(x)
        if y.max() > 1:
            return y + 1
        return y


class Short(Normed):
    def forward(self, x):
        return x @ self.first


def ready(kind):
    """A model of a kind, prepared, with its weights on the device."""
    return optimize_for_inference(script(kind())).to("cuda")


def call(fake, model, *args):
    """What a call gives, and how many kernels were launched one by one."""
    fake.launches.clear()
    moved = [jitcore.to(one, "cuda") if isinstance(one, np.ndarray) else one for one in args]
    return model(*moved), len(fake.launches)


def check(found, wanted):
    if isinstance(wanted, tuple):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            check(one, other)
    elif isinstance(wanted, np.ndarray):
        assert found.shape == wanted.shape
        np.testing.assert_allclose(jitcore.to(found, "cpu"), wanted, rtol=1e-4, atol=1e-4)
    else:
        assert found == wanted and type(found) is type(wanted)


def test_a_call_that_comes_again_is_replayed(fake):
    model, plain = ready(Normed), Normed()
    results = []
    for number in range(5):
        found, launches = call(fake, model, X * number)
        assert (launches == 0) == (number > 1)
        results.append(found)
    # What was given away stays as it is.
    for number, found in enumerate(results):
        check(found, plain(X * number))
    assert "where calls are replays of CUDA graphs" in str(model.explain(jitcore.to(X, "cuda")))


def test_each_shape_has_a_recording(fake):
    model, plain = ready(Normed), Normed()
    for _ in range(3):
        for x in (X, X[:3].copy(), X[::-1]):
            found, launches = call(fake, model, x)
            check(found, plain(x))
    assert not launches


def test_strided_arguments(fake):
    model, plain = ready(Normed), Normed()
    whole = np.zeros((8, 12), np.float32)
    whole[::2, 1::2] = X
    moved = jitcore.to(whole, "cuda")
    for _ in range(3):
        found = model(moved[::2, 1::2])
        check(found, plain(X))
    moved[::2, 1::2] = jitcore.to(OTHER, "cuda")
    check(model(moved[::2, 1::2]), plain(OTHER))


def test_numbers_are_part_of_what_is_recorded(fake):
    model, plain = ready(Numbered), Numbered()
    for _ in range(4):
        for factor in (2.0, 3.0, 2):
            for both in (True, False):
                found, launches = call(fake, model, X, factor, both)
                check(found, plain(X, factor, both))
    assert not launches


@pytest.mark.parametrize("kind", [Writing, Returning, Waiting, Short])
def test_what_is_not_recorded(fake, kind):
    model, plain = ready(kind), kind()
    for _ in range(4):
        mine = X.copy()
        moved = jitcore.to(X, "cuda")
        fake.launches.clear()
        found = model(moved)
        check(found, plain(mine))
        check(moved, mine)
        assert not fake._graphs


def test_large_arrays_are_not_copied(fake, monkeypatch):
    monkeypatch.setattr(replays, "MOST_COPIED", 64)
    model = ready(Normed)
    for _ in range(4):
        assert call(fake, model, X)[1]


def test_only_models_that_are_ready_for_inference(fake):
    model = script(Normed()).to("cuda")
    for _ in range(4):
        assert call(fake, model, X)[1]


def test_weights_are_read_where_they_lie(fake):
    model: Any = script(Normed()).eval()
    frozen = optimize_for_inference(model)
    plain = Normed()
    for _ in range(3):
        found, launches = call(fake, frozen, X)
    check(found, plain(X))
    assert not launches


def test_attributes_that_stay_attributes(fake):
    class Scaled(Normed):
        def __init__(self) -> None:
            super().__init__()
            self.scale = 2.0

        def forward(self, x: Any, *more: Any) -> Any:
            return self.body(x) * self.scale

    frozen = jitcore.freeze(script(Scaled()).eval(), preserved_attrs=["scale"])
    model = optimize_for_inference(frozen)
    for scale in (2.0, 3.0):
        model.scale = scale
        for _ in range(3):
            check(model(jitcore.to(X, "cuda")), Normed()(X) * np.float32(scale))


def test_arrays_that_stay_attributes(fake):
    frozen = jitcore.freeze(script(Normed()).eval(), preserved_attrs=["third"])
    model, plain = optimize_for_inference(frozen), Normed()
    weight: Any = plain.third
    kept = [jitcore.to(weight * np.float32(factor), "cuda") for factor in (1, -2)]
    for _ in range(2):
        for factor, third in zip((1, -2), kept, strict=True):
            model.third = third
            for _ in range(3):
                found, launches = call(fake, model, X)
                check(found, plain(X) * np.float32(factor))
            assert not launches


def test_errors_that_are_asked_for(fake, monkeypatch):
    model = ready(Normed)
    for _ in range(3):
        call(fake, model, X)
    # What replays on the fake device would raise the error as well, which no other device does.
    monkeypatch.setattr(fake, "launch_graph", None)
    with np.errstate(invalid="raise"), pytest.raises(FloatingPointError):
        call(fake, model, np.full_like(X, np.inf))


def test_streams_have_recordings_of_their_own(fake):
    model, plain = ready(Normed), Normed()
    launched = []
    original = fake.launch_graph

    def launch_graph(graph, stream=0):
        launched.append(stream)
        original(graph, stream)

    fake.launch_graph = launch_graph
    x = jitcore.to(X, "cuda")
    for _ in range(3):
        check(model(x), plain(X))
        with jitcore.cuda.Stream() as stream:
            pass
    with stream:
        for _ in range(3):
            check(model(x), plain(X))
    assert launched == [0, stream.handle]


def test_a_driver_that_cannot_record(fake, monkeypatch):
    def refuse(stream):
        raise driver.DriverError("no capture today", 900)

    monkeypatch.setattr(fake, "begin_capture", refuse)
    model, plain = ready(Normed), Normed()
    for _ in range(4):
        found, launches = call(fake, model, X)
        check(found, plain(X))
        assert launches


@pytest.mark.parametrize("what", ["launch", "end_capture", "instantiate"])
def test_a_recording_that_fails_on_the_way(fake, monkeypatch, what):
    """The call is run as any other, and nothing of the recording is left."""
    begin = fake.begin_capture

    def refuse(*args):
        raise driver.DriverError("not in a capture", 901)

    def begin_capture(stream):
        begin(stream)
        if what == "launch":
            fake.fails_with = 901

    monkeypatch.setattr(fake, "begin_capture", begin_capture)
    if what != "launch":
        monkeypatch.setattr(fake, what, refuse)
    model, plain = ready(Normed), Normed()
    for number in range(4):
        found, launches = call(fake, model, X + number)
        check(found, plain(X + number))
        assert launches
    assert not fake._graphs or what == "instantiate"


def test_numbers_that_never_come_again_are_forgotten(fake, monkeypatch):
    monkeypatch.setattr(replays, "MOST_NOTED", 10)
    made = []
    note = replays.Replays.note

    def noted(self, *args):
        note(self, *args)
        made.append(len(self._seen))

    monkeypatch.setattr(replays.Replays, "note", noted)
    model, plain = ready(Numbered), Numbered()
    for number in range(25):
        factor = 1 + number / 7
        found, _ = call(fake, model, X, factor, False)
        check(found, plain(X, np.float32(factor), False))
    assert len(made) == 25 and max(made) == 10


def test_products_of_our_own_are_recorded(fake):
    made = FakeCublas(fails_with=15)
    with cublas.use(cublas.Cublas(made, "cuBLAS (a fake)")):
        model, plain = ready(Normed), Normed()
        for number in range(3):
            found, launches = call(fake, model, X + number)
            check(found, plain(X + number))
        assert not launches


def test_results_are_arrays_of_the_caller_s_library(fake, monkeypatch):
    library = installed("Torch", monkeypatch)
    model, plain = ready(Normed), Normed()
    for number in range(4):
        found = model(library.array(jitcore.to(X * number, "cuda")))
        assert type(found) is library.array
        check(found.held, plain(X * number))


def test_the_oldest_recording_goes_and_gives_back_its_memory(fake, monkeypatch):
    monkeypatch.setattr(replays, "MOST_RECORDINGS", 2)
    model, plain = ready(Normed), Normed()
    for _ in range(2):
        for rows in (1, 2, 3):
            for _ in range(3):
                found, launches = call(fake, model, X[:rows].copy())
                check(found, plain(X[:rows]))
            assert not launches and len(fake._graphs) <= 2
    del model, found
    gc.collect()
    assert not fake._graphs
