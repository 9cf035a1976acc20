"""oneDNN in the place of the kernels of our own: where it is installed, the same results."""

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

import jitcore
from jitcore import nn, optimize_for_inference, script
from jitcore.codegen.onednn import constants, functions
from jitcore.codegen.onednn import library as onednn_library
from jitcore.codegen.onednn.memory import Execute
from jitcore.fusers import onednn as fuser
from jitcore.ir.activations import find_activations
from jitcore.ir.graph import Graph
from jitcore.ir.parser import parse_graph
from jitcore.nn import functional as F

is_installed = onednn_library.find_library() is not None
needs_library = pytest.mark.skipif(not is_installed, reason="oneDNN is not installed")


@pytest.fixture
def enabled() -> Iterator[None]:
    jitcore.enable_onednn_fusion(True)
    yield
    jitcore.enable_onednn_fusion(False)


def array(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def activities(compiled) -> list[functions.Activity]:
    """What the groups of a compiled function have done, the last made last."""
    symbols = re.findall(r"jc_onednn_[0-9a-f]{32}", compiled.kernels[-1].source)
    return [functions.activity(symbol) for symbol in dict.fromkeys(symbols)]


def implementations(compiled) -> list[str]:
    return [name for one in activities(compiled) for name in one.implementations.elements()]


def compare(compiled, plain, *args, rtol=1e-5, atol=1e-5) -> None:
    """The same numbers as NumPy's, and each group was oneDNN's."""
    expected = plain(*args)
    before = {id(one): one.calls for one in activities(compiled)} if compiled.kernels else {}
    result = compiled(*args)
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected, rtol=rtol, atol=atol)
    found = activities(compiled)
    assert found
    for one in found:
        assert one.calls > before.get(id(one), 0), one.reason


def compare_function(function, *args, **tolerances) -> None:
    compare(script(function), function, *args, **tolerances)


def compare_model(model, *inputs, rtol=1e-5, atol=1e-5):
    """Optimized for inference; gives what ran."""
    ready: Any = optimize_for_inference(script(model.eval()))
    for x in inputs:
        compare(ready.forward, model, x, rtol=rtol, atol=atol)
    return ready.forward


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
    _, _, rest = str(fuser.__doc__).partition("Before::\n\n")
    before, _, rest = rest.partition("After::\n\n")
    after, _, _ = rest.partition("\n\nA layer")
    graph = parse_graph(textwrap.dedent(before).strip())
    assert fuser.fuse_onednn_groups(graph)
    assert str(graph) == textwrap.dedent(after).strip()


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


# Layers -----------------------------------------------------------------------------------


@needs_library
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolutions(rank, groups, enabled) -> None:
    function = getattr(F, f"conv{rank}d")

    def followed(x, w, b, r):
        y = function(x, w, b, stride=2, padding=1, dilation=2, groups=groups) + r
        return np.maximum(y, 0)

    x, w, b = array(2, 4, *(9, 8, 7)[:rank]), array(8, 4 // groups, *(3,) * rank), array(8)
    r = array(*function(x, w, b, 2, 1, 2, groups).shape)
    compare_function(followed, x, w, b, r)


@needs_library
@pytest.mark.parametrize("padding", ["same", (0, 2)])
def test_frames(padding, enabled) -> None:
    def framed(x, w):
        return F.conv2d(x, w, None, 1, padding, (1, 2))

    compare_function(framed, array(1, 5, 9, 11), array(7, 5, 4, 3))


@needs_library
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_depthwise_convolutions(rank, enabled) -> None:
    model = nn.Sequential(
        getattr(nn, f"Conv{rank}d")(6, 6, 3, stride=2, padding=1, groups=6), nn.ReLU6()
    )
    compare_model(model, array(2, 6, *(9, 8, 7)[:rank]))


@needs_library
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(
    "stride, padding, more, is_whole",
    [(2, 1, 1, True), (3, 0, 0, True), (2, 0, 0, False), (1, 1, 0, False)],
)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_transposed_convolutions(rank, stride, padding, more, is_whole, groups, enabled) -> None:
    """Those whose phases have equally many pixels are one primitive, the others are phases."""
    function = getattr(F, f"conv_transpose{rank}d")

    def followed(x, w, b, r):
        return np.maximum(function(x, w, b, stride, padding, more, groups) + r, 0)

    x, w, b = array(2, 4, *(5, 4, 3)[:rank]), array(4, 6 // groups, *(3,) * rank), array(6)
    r = array(*function(x, w, b, stride, padding, more, groups).shape)
    compiled = script(followed)
    compare(compiled, followed, x, w, b, r)
    kinds = [one.split()[0] for one in implementations(compiled)]
    assert kinds.count("deconvolution") == (is_whole and groups == 1)


@needs_library
def test_what_follows_a_transposed_convolution_is_a_post_op(enabled) -> None:
    model = nn.Sequential(
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.ConvTranspose2d(32, 16, 2, 2)),
        *(nn.SiLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ConvTranspose2d(16, 3, 4, 2, 1)),
    )
    forward = compare_model(model, array(2, 16, 9, 8), array(1, 16, 5, 6))
    kinds = [one.split()[0] for one in implementations(forward)]
    assert kinds.count("deconvolution") == kinds.count("convolution") == 2
    # The image, and the result.
    assert kinds.count("reorder") <= 2


@needs_library
def test_transposed_convolutions_of_numbers_that_are_not_finite(enabled) -> None:
    model = nn.Sequential(nn.ConvTranspose2d(16, 8, 2, 2), nn.ReLU()).eval()
    ready: Any = optimize_for_inference(script(model))
    x = array(1, 16, 4, 5)
    x[0, 3, 2, 1] = np.nan
    np.testing.assert_allclose(ready(x), model(x), rtol=1e-5, atol=1e-5)
    (group,) = activities(ready.forward)
    assert (group.calls, group.left) == (0, 1)


@needs_library
@pytest.mark.parametrize(
    "pool",
    [
        nn.MaxPool2d(3, 2, 1),
        nn.MaxPool2d(2, dilation=2),
        nn.MaxPool2d(3, 2, ceil_mode=True),
        nn.AvgPool2d(3, 2, 1),
        nn.AvgPool2d(3, 2, 1, count_include_pad=False),
        nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
        nn.AvgPool2d(2, divisor_override=3),
        nn.AdaptiveAvgPool2d(4),
    ],
    ids=repr,
)
def test_pooling_after_a_convolution(pool, enabled) -> None:
    forward = compare_model(nn.Sequential(nn.Conv2d(3, 20, 3, padding=1), pool), array(2, 3, 12, 8))
    assert sum("pooling" in one for one in implementations(forward)) == 1


@needs_library
def test_a_mean_that_counts_some_of_what_lies_outside(enabled) -> None:
    model = nn.Sequential(nn.Conv2d(3, 20, 3, padding=1), nn.AvgPool2d(3, 2, 1, ceil_mode=True))
    ready: Any = optimize_for_inference(script(model.eval()))
    x = array(1, 3, 12, 12)
    np.testing.assert_allclose(ready(x), model(x), rtol=1e-5, atol=1e-5)
    assert "border" in activities(ready.forward)[0].reason


@needs_library
@pytest.mark.parametrize("rank", [1, 3])
def test_pooling_of_other_ranks(rank, enabled) -> None:
    model = nn.Sequential(
        getattr(nn, f"MaxPool{rank}d")(3, 2, 1), getattr(nn, f"AvgPool{rank}d")(2)
    )
    compare_model(model, array(2, 5, *(12, 9, 8)[:rank]))


@needs_library
def test_linear_layers(enabled) -> None:
    model = nn.Sequential(nn.Linear(7, 33), nn.ReLU(), nn.Linear(33, 5), nn.Tanh())
    forward = compare_model(model, *(array(rows, 7) for rows in (1, 5, 40)), array(2, 3, 7))
    assert all(one.startswith(("matmul", "reorder")) for one in implementations(forward))


@needs_library
def test_products_of_matrices(enabled) -> None:
    def product(x, y, b):
        return np.maximum(x @ y + b, 0)

    compare_function(product, array(70, 64), array(64, 80), array(80), atol=1e-4)
    compare_function(product, array(70, 64), array(80, 64).T, array(80), atol=1e-4)
    small = script(product)
    small(array(3, 4), array(4, 5), array(5))
    assert not activities(small)


@needs_library
@pytest.mark.parametrize(
    "activation",
    [
        *(nn.ReLU(), nn.ReLU6(), nn.LeakyReLU(0.1), nn.LeakyReLU(1.5), nn.Hardtanh(-0.5, 0.25)),
        *(nn.Tanh(), nn.Sigmoid(), nn.SiLU(), nn.Hardswish(), nn.Hardsigmoid()),
        *(nn.GELU(), nn.GELU("tanh"), nn.ELU(), nn.ELU(-0.7), nn.SELU(), nn.CELU(0.5)),
        *(nn.Mish(), nn.Softplus(), nn.Softplus(2.5, 30.0), nn.LogSigmoid()),
    ],
    ids=repr,
)
def test_activations_are_post_ops(activation, enabled) -> None:
    model = nn.Sequential(nn.Conv2d(16, 16, 3), activation, nn.Conv2d(16, 16, 1), activation)
    forward = compare_model(model, array(1, 16, 9, 9))
    kinds = [one.split()[0] for one in implementations(forward)]
    assert kinds.count("convolution") == 2
    assert set(kinds) <= {"convolution", "reorder"}


@needs_library
def test_operations_between_layers(enabled) -> None:
    def between(x, w, v, scale, other):
        y = F.conv2d(x, w) * np.float32(0.5)
        y = y * scale.reshape(-1, 1, 1) - other
        z = F.conv2d(np.minimum(np.float32(2) - y, other) + y, v)
        z = scale.reshape(-1, 1, 1) - np.maximum(z, scale.reshape(-1, 1, 1))
        return np.maximum(F.conv2d(z + z, v) * z, np.float32(-0.5))

    other, scale = array(2, 8, 6, 6), array(8)
    weights = (array(8, 4, 3, 3), array(8, 8, 1, 1))
    # Large terms cancel.
    compare_function(between, array(2, 4, 8, 8), *weights, scale, other, atol=1e-3)


@needs_library
def test_results_that_are_broadcast(enabled) -> None:
    first, second = nn.Linear(6, 5), nn.Linear(4, 5)

    class Broadcast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = first, second

        def forward(self, x: Any, y: Any) -> Any:
            return self.first(x) + self.second(y) * 2

    model = Broadcast().eval()
    ready: Any = optimize_for_inference(script(model))
    compare(ready.forward, model, array(3, 6), array(1, 4))
    compare(ready.forward, model, array(1, 6), array(3, 4))


@needs_library
def test_normalization_that_is_not_folded(enabled) -> None:
    norm = nn.BatchNorm2d(8)
    norm.running_mean = array(8)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), norm, nn.ReLU(), nn.Conv2d(8, 8, 3)).eval()
    compiled = script(model)
    compare(compiled.forward, model, array(2, 3, 9, 9))
    assert len(activities(compiled.forward)) == 1


@needs_library
def test_layers_in_loops(enabled) -> None:
    def repeated(x, w, count):
        total = x * 0
        for _ in range(count):
            x = np.maximum(F.conv2d(x, w, None, 1, 1), 0)
            total += x
        return total

    compare_function(repeated, array(1, 4, 6, 6), array(4, 4, 3, 3) / 9, 5)


@needs_library
def test_arrays_that_are_written_after_they_are_read(enabled) -> None:
    def update(x, w):
        y = F.conv2d(x, w, None, 1, 1)
        x[:] = 1
        return F.conv2d(y + x, w, None, 1, 1)

    compiled, w = script(update), array(4, 4, 3, 3)
    x, y = array(1, 4, 6, 6), array(1, 4, 6, 6)
    np.testing.assert_allclose(compiled(x, w), update(y, w), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(x, y)


@needs_library
def test_float64_is_computed_by_our_own_kernels(enabled) -> None:
    plain, x, w = script(F.conv2d), array(1, 3, 8, 8).astype(float), array(4, 3, 3, 3).astype(float)
    np.testing.assert_allclose(plain(x, w), F.conv2d(x, w), rtol=1e-12, atol=1e-12)
    assert not activities(plain)


# Residuals --------------------------------------------------------------------------------


def in_place_sums(compiled) -> int:
    """How many primitives write over memory of the plan that an earlier one has written."""
    symbols = dict.fromkeys(re.findall(r"jc_onednn_[0-9a-f]{32}", compiled.kernels[-1].source))
    written: set[Any] = set()
    count = 0
    for symbol in symbols:
        for plan in functions._functions[symbol].plans.values():
            assert not isinstance(plan, str)
            for step in plan.steps:
                if not isinstance(step, Execute):
                    continue
                result = step.arguments[onednn_library.RESULT][0]
                count += result in written
                written.add(result)
    return count


class Joined(nn.Module):
    """Two ways that are added; what is returned besides is read later than the sum is written."""

    def __init__(self, join) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(16, 16, 3, padding=1), nn.Conv2d(16, 16, 1)
        self.third, self.linear = nn.Conv2d(16, 16, 3, padding=1), nn.Linear(16, 16)
        self.join = join

    def forward(self, x: Any) -> Any:
        return self.join(self, x)


def joined_by_one(model, x):
    y = np.maximum(model.first(x), 0)
    return np.maximum(model.third(model.second(y)) + y, 0)


def joined_with_its_source(model, x):
    y = np.maximum(model.first(x), 0)
    return np.maximum(model.third(y) + y, 0)


def joined_and_read_again(model, x):
    y = np.maximum(model.first(x), 0)
    z = np.maximum(model.third(model.second(y)) + y, 0)
    return model.second(z + y)


def joined_and_returned(model, x):
    y = np.maximum(model.first(x), 0)
    return np.concatenate((y, np.maximum(model.third(model.second(y)) + y, 0)))


def joined_twice(model, x):
    y = np.maximum(model.first(x), 0)
    return (model.third(model.second(y)) + y) * y


def joined_with_what_is_given(model, x):
    return model.third(model.second(x)) + x


@needs_library
@pytest.mark.parametrize(
    "join, count",
    [
        (joined_by_one, 1),
        (joined_with_its_source, 0),
        (joined_and_read_again, 0),
        (joined_and_returned, 0),
        (joined_twice, 0),
    ],
)
def test_residuals_are_added_in_place(join, count, enabled) -> None:
    model = Joined(join)
    forward = compare_model(model, array(2, 16, 9, 9), atol=1e-4)
    assert in_place_sums(forward) == count


@needs_library
def test_what_is_given_is_not_written(enabled) -> None:
    model, x = Joined(joined_with_what_is_given), array(1, 16, 9, 9)
    forward = compare_model(model, x, atol=1e-4)
    forward(x)
    np.testing.assert_array_equal(x, array(1, 16, 9, 9))


@needs_library
def test_residuals_of_linear_maps_are_added_in_place(enabled) -> None:
    def join(model, x):
        y = np.maximum(model.linear(x), 0)
        return model.linear(np.maximum(model.linear(y), 0)) + y

    forward = compare_model(Joined(join), array(40, 16))
    assert in_place_sums(forward) == 1


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
