"""oneDNN in the place of the kernels of our own: groups, whole models, and what is kept."""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-incomplete-defs

from __future__ import annotations

import gc
import os
import random
import re
import textwrap
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from onednn_runs import activities, array, compare, compare_model, is_installed, needs_library
from pass_checking import examples

import jitcore
from jitcore import nn, optimize_for_inference, script
from jitcore.codegen.onednn import constants, functions
from jitcore.codegen.onednn import library as onednn_library
from jitcore.fusers import onednn as fuser
from jitcore.ir.activations import find_activations
from jitcore.ir.graph import Graph
from jitcore.ir.parser import parse_graph
from jitcore.nn import functional as F


@pytest.fixture
def enabled() -> Iterator[None]:
    jitcore.enable_onednn_fusion(True)
    yield
    jitcore.enable_onednn_fusion(False)


# Whether it is there ----------------------------------------------------------------------


def test_it_is_off_by_default() -> None:
    assert jitcore.onednn_fusion_enabled() is False


@pytest.mark.skipif(is_installed, reason="oneDNN is installed")
def test_without_the_library_enabling_says_what_to_install() -> None:
    with pytest.raises(RuntimeError, match=r"pip install \"jitcore\[onednn\]\""):
        jitcore.enable_onednn_fusion(True)
    assert jitcore.onednn_fusion_enabled() is False
    jitcore.enable_onednn_fusion(False)


def test_a_library_that_cannot_be_loaded(monkeypatch, tmp_path) -> None:
    broken = tmp_path / "libdnnl.so.3"
    broken.write_text("no library")
    monkeypatch.setattr(onednn_library, "find_library", lambda: str(broken))
    with pytest.raises(RuntimeError, match="oneDNN cannot be loaded"):
        jitcore.enable_onednn_fusion(True)
    assert jitcore.onednn_fusion_enabled() is False


@needs_library
def test_what_is_compiled_while_it_is_off_does_without_it() -> None:
    plain = script(F.conv2d)
    plain(array(1, 3, 8, 8), array(4, 3, 3, 3))
    assert "onednn" not in plain.kernels[0].source


# Groups, which need no library -----------------------------------------------------------


def test_the_example_of_groups() -> None:
    before, after = examples(fuser)
    graph = parse_graph(before)
    assert fuser.fuse_onednn_groups(graph)
    assert str(graph) == after


PRODUCT = (
    "nn::product[kernel=(), stride=(), padding=(), dilation=(), columns=4, low=-inf, high=inf]"
)


def groups_of(lines: str) -> list[list[str]]:
    """The kinds of nodes in each group of a graph with these nodes."""
    head = """
        graph(%x : Float32[5, 4], %p : Float32[1, 1, 4, 16], %y : Float32[5, 4]):
          %none : None = prim::Constant[value=None]()
          %one : Float32 = prim::Constant[value=np.float32(1.0)]()
    """
    text = textwrap.dedent(head).strip() + "\n" + textwrap.indent(textwrap.dedent(lines), "  ")
    graph = parse_graph(text.replace("PRODUCT", PRODUCT).rstrip())
    fuser.fuse_onednn_groups(graph)
    found = graph.find_all_nodes(fuser.KIND)
    insides = [[inner.kind for inner in node.attributes["graph"].nodes()] for node in found]
    return [[kind for kind in one if kind != "prim::Constant"] for one in insides]


def test_nothing_that_a_group_needs_depends_on_it() -> None:
    found = groups_of(
        """
        %a : Float32[5, 4] = PRODUCT(%x, %p, %none, %none)
        %b : Float32[5, 4] = np::exp(%a)
        %c : Float32[5, 4] = PRODUCT(%b, %p, %none, %none)
        %d : Float32[5, 4] = np::add(%a, %c)
        return (%d)
        """
    )
    assert found == [["nn::product"], ["nn::product", "np::add"]] or found == [
        ["nn::product", "np::add"],
        ["nn::product"],
    ]


def test_groups_begin_with_layers() -> None:
    assert groups_of(
        """
        %a : Float32[5, 4] = np::multiply(%x, %y)
        %b : Float32[5, 4] = PRODUCT(%a, %p, %none, %none)
        %c : Float32[5, 4] = np::subtract(%one, %b)
        return (%c)
        """
    ) == [["nn::product", "np::subtract"]]


def test_what_is_written_is_in_no_group() -> None:
    assert not groups_of(
        """
        %a : Float32[5, 4] = PRODUCT(%x, %p, %none, %none)
        %s : None = np::store(%x, %a)
        return (%a)
        """
    )


def typed_graph(function) -> Graph:
    """The graph of a function of one array, as passes find it."""
    compiled = script(function)
    compiled(array(3, 4))
    typed = compiled.specializations[-1].typed
    assert isinstance(typed, Graph)
    return typed


def test_activations_are_found() -> None:
    def sums(x):
        y = F.silu(x) + F.gelu(x)
        return y + F.hardswish(x) * F.sigmoid(y) + np.tanh(F.leaky_relu(y))

    graph = typed_graph(sums)
    names = [one.name for one in find_activations(graph.block.nodes).values()]
    assert sorted(names) == ["gelu", "hardswish", "leaky_relu", "sigmoid", "silu", "tanh"]


@pytest.mark.parametrize(
    "function, name",
    [
        (lambda x: F.elu(x, 0.5), "elu"),
        (F.selu, "elu"),
        (lambda x: F.celu(x, 2.0), "elu"),
        (lambda x: F.celu(x, -2.0), ""),
        (lambda x: F.elu(x, float("nan")), ""),
        (F.mish, "mish"),
        (F.logsigmoid, "logsigmoid"),
        (lambda x: F.softplus(x, 2.0), "softplus"),
        (lambda x: F.softplus(x, 1.0, 1.0), ""),
        (lambda x: F.softplus(x, -1.0), ""),
    ],
)
def test_activations_with_numbers_are_found(function, name) -> None:
    def applied(x):
        return function(x)

    graph = typed_graph(applied)
    found = find_activations(graph.block.nodes)
    last = graph.outputs[0].node
    assert last is not None
    assert [one.name for node, one in found.items() if node is last] == [name] * bool(name)


def test_an_activation_whose_parts_are_read_elsewhere_is_none() -> None:
    def both(x):
        y = np.maximum(0, x + 3)
        return x * np.minimum(6, y) / 6 + y

    graph = typed_graph(both)
    assert graph.find_all_nodes("np::divide")
    assert not find_activations(graph.block.nodes)


# Whole models -----------------------------------------------------------------------------


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 1, bias=False)

    def forward(self, x: Any) -> Any:
        y = np.maximum(self.norm(self.first(x)), 0)
        return np.maximum(self.second(y) + x, 0)


def network() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(3, 32, 7, 2, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(3, 2, 1)),
        *(Residual(32), Residual(32), nn.AvgPool2d(2)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)),
    )


def random_layers(chance: random.Random, channels: int) -> Iterator[nn.Module]:
    """Some layers, each of which takes what the one before gives."""
    for _ in range(chance.randint(2, 6)):
        kind = chance.choice(["convolution", "depthwise", "max", "mean", "activation"])
        if kind == "convolution":
            groups = chance.choice([1, 2]) if channels % 2 == 0 else 1
            after = chance.choice([2, 6, 16, 34])
            yield nn.Conv2d(
                channels,
                after,
                chance.choice([1, 2, 3]),
                stride=chance.choice([1, 2]),
                padding=chance.choice([0, 1, 2]),
                dilation=chance.choice([1, 2]),
                groups=groups,
                bias=chance.random() < 0.7,
            )
            channels = after
        elif kind == "depthwise":
            yield nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        elif kind == "activation":
            yield chance.choice(
                [nn.ReLU(), nn.ReLU6(), nn.SiLU(), nn.ELU(), nn.BatchNorm2d(channels)]
            )
        else:
            layer = nn.MaxPool2d if kind == "max" else nn.AvgPool2d
            size, stride, padding = (chance.choice(one) for one in ([2, 3], [1, 2], [0, 1]))
            yield layer(size, stride, padding, ceil_mode=chance.random() < 0.4)


@needs_library
@pytest.mark.parametrize("seed", range(16))
def test_random_networks(seed, enabled) -> None:
    chance = random.Random(seed)
    channels = chance.choice([3, 4, 16, 20])
    model = nn.Sequential(*random_layers(chance, channels)).eval()
    x = array(chance.choice([1, 2]), channels, 23, chance.choice([19, 26]))
    try:
        expected = model(x)
    except (ValueError, RuntimeError):
        pytest.skip("a window is larger than the image")
    for compiled in (script(model), optimize_for_inference(script(model))):
        np.testing.assert_allclose(compiled(x), expected, rtol=1e-4, atol=1e-4)


@needs_library
def test_formats_are_kept_between_layers(enabled) -> None:
    forward = compare_model(network(), array(1, 3, 40, 40), array(5, 3, 33, 47), atol=1e-4)
    images = activities(forward)[0].implementations
    kinds = [name.split()[0] for name in images.elements()]
    assert kinds.count("convolution") == 5
    assert kinds.count("pooling") == 2
    # The image, what comes out of the first layers, and the result.
    assert kinds.count("reorder") <= 3


@needs_library
def test_extents_that_only_calls_know(enabled) -> None:
    model = network().eval()
    ready: Any = optimize_for_inference(script(model))
    for size in range(17, 60, 3):
        x = array(1 + size % 3, 3, size, size + 4)
        np.testing.assert_allclose(ready(x), model(x), rtol=1e-4, atol=1e-5)
    specializations = ready.forward.specializations
    assert len(specializations) < 14
    assert all(one.left == 0 for one in activities(ready.forward))


@needs_library
def test_models_with_transposed_convolutions(enabled) -> None:
    model = nn.Sequential(
        *(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU6(), nn.MaxPool2d(2)),
        *(nn.ConvTranspose2d(8, 8, 2, 2), nn.ReLU(), nn.AvgPool2d(3, 2, 1)),
    )
    compare_model(model, array(2, 3, 12, 10))


@needs_library
def test_weights_that_change_between_calls(enabled) -> None:
    model: Any = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3)).eval()
    scripted, x = script(model), array(1, 3, 9, 9)
    compare(scripted.forward, model, x)
    model[0].weight *= 2
    compare(scripted.forward, model, x)
    scripted[2].weight = model[2].weight = array(4, 8, 3, 3)
    compare(scripted.forward, model, x)


# Numbers that are not finite --------------------------------------------------------------


@needs_library
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 3e38])
def test_numbers_that_onednn_would_lose(number, enabled) -> None:
    model = network().eval()
    ready: Any = optimize_for_inference(script(model))
    x = array(1, 3, 40, 40)
    expected = ready(x)
    group = activities(ready.forward)[0]
    calls, left = group.calls, group.left
    x[0, 1, 20, 20] = number
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(ready(x), model(x), rtol=1e-4, atol=1e-5)
    assert (group.calls, group.left) == (calls, left + 1)
    assert "NaN" in group.reason
    x[0, 1, 20, 20] = array(1, 3, 40, 40)[0, 1, 20, 20]
    np.testing.assert_array_equal(ready(x), expected)


@needs_library
def test_weights_that_are_not_finite(enabled) -> None:
    model: Any = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU()).eval()
    model[0].weight[2, 1, 0, 0] = np.nan
    ready: Any = optimize_for_inference(script(model))
    x = array(1, 3, 9, 9)
    np.testing.assert_allclose(ready(x), model(x), rtol=1e-5, atol=1e-5)
    assert activities(ready.forward)[0].left == 1


@needs_library
def test_results_that_overflow(enabled) -> None:
    layers = [nn.Conv2d(4, 4, 1) for _ in range(40)]
    model = nn.Sequential(*(one for layer in layers for one in (layer, nn.ReLU()))).eval()
    for layer in layers:
        layer.weight[:] = np.abs(layer.weight) * 40
    ready: Any = optimize_for_inference(script(model))
    x = np.abs(array(1, 4, 5, 5))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(ready(x), model(x), rtol=1e-4)
    assert activities(ready.forward)[0].left == 1


@needs_library
def test_many_layers_of_ordinary_numbers(enabled) -> None:
    layers = [layer for _ in range(40) for layer in (nn.Conv2d(16, 16, 3, padding=1), nn.ReLU())]
    compare_model(nn.Sequential(*layers), array(1, 16, 9, 9), atol=1e-4)


# What is kept -----------------------------------------------------------------------------


@needs_library
def test_the_number_of_threads(enabled) -> None:
    model = network().eval()
    ready: Any = optimize_for_inference(script(model))
    x = array(2, 3, 40, 40)
    expected, before = model(x), jitcore.get_num_threads()
    for count in (1, 2, 1):
        jitcore.set_num_threads(count)
        np.testing.assert_allclose(ready(x), expected, rtol=1e-4, atol=1e-5)
    jitcore.set_num_threads(before)
    symbols = re.findall(r"jc_onednn_[0-9a-f]{32}", ready.forward.kernels[0].source)
    assert len(functions._functions[symbols[0]].plans) == 2


@needs_library
def test_calls_from_several_threads(enabled) -> None:
    model = network().eval()
    ready: Any = optimize_for_inference(script(model))
    inputs = [array(1, 3, 40, 40) * k for k in range(1, 5)]
    expected = [model(x) for x in inputs]
    wrong: list[int] = []

    def run(number):
        for _ in range(20):
            if not np.allclose(ready(inputs[number]), expected[number], rtol=1e-4, atol=1e-4):
                wrong.append(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@needs_library
def test_what_is_made_of_a_model_goes_with_it(enabled) -> None:
    before = set(constants._constants)
    ready: Any = optimize_for_inference(script(nn.Sequential(nn.Conv2d(3, 9, 3)).eval()))
    ready(array(1, 3, 11, 13))
    symbols = re.findall(r"jc_onednn_[0-9a-f]{32}", ready.forward.kernels[0].source)
    function = functions._functions[symbols[0]]
    assert function.plans
    assert set(constants._constants) - before
    del ready
    gc.collect()
    assert not function.plans
    assert not set(constants._constants) - before


@needs_library
def test_empty_batches(enabled) -> None:
    model = nn.Sequential(nn.Linear(7, 33), nn.ReLU()).eval()
    ready: Any = optimize_for_inference(script(model))
    assert ready(array(0, 7)).shape == (0, 33)


@needs_library
def test_the_child_of_a_fork_uses_other_kernels(enabled) -> None:
    model = optimize_for_inference(script(nn.Sequential(nn.Conv2d(3, 8, 3)).eval()))
    x = array(1, 3, 20, 20)
    expected = model(x)
    child = os.fork()
    if child == 0:
        os._exit(0 if np.allclose(model(x), expected, rtol=1e-5, atol=1e-6) else 1)
    assert os.waitpid(child, 0)[1] == 0


@needs_library
def test_explain_says_who_computes_what(enabled) -> None:
    ready: Any = optimize_for_inference(script(network().eval()))
    x = array(1, 3, 40, 48)
    report = str(ready.forward.explain(x))
    assert re.search(r"oneDNN group 0: \d+ operations; it computed 1 call\n", report)
    assert "primitives: convolution " in report
    x[:] = np.nan
    report = str(ready.forward.explain(x))
    assert "1 call left to jitcore's own kernels" in report
    assert "NaN" in report
