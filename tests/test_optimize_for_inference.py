# mypy: allow-untyped-defs, allow-untyped-calls
"""optimize_for_inference: results stay, weights are packed, and it stays on this machine."""

import copy
import io
import pickle
from typing import Any

import numpy as np
import pytest
from script_modules import Residual, array, assert_same, assert_same_error, lenet, mlp

from jitcore import Error, SerializationError, export, freeze, nn, optimize_for_inference, script


def check(model, *args, rtol=1e-4):
    """Optimize a model and compare its results with the model's own."""
    ready = optimize_for_inference(script(copy.deepcopy(model)))
    expected = model.eval()(*args)
    for _ in range(3):
        found = ready(*args)
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol, 1e-5)
    return ready


def packed(module, method="forward"):
    """The functions of layers that have packed weights."""
    graph = getattr(module, method).graph
    return [node.kind[4:] for node in graph.nodes() if "packed" in node.keywords]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_convolutions(dtype):
    for rank, kind in ((1, nn.Conv1d), (2, nn.Conv2d), (3, nn.Conv3d)):
        x = array(2, 6, 7, 6, 5)[(slice(None), slice(None), *[slice(None)] * rank)]
        x = x.reshape(2, 6, *x.shape[2:])[(slice(None),) * (2 + rank) + (0,) * (3 - rank)]
        choices: tuple[dict[str, Any], ...] = (
            {},
            {"stride": 2, "padding": 1, "bias": False},
            {"groups": 2, "dilation": 2, "kernel_size": 2},
            {"groups": 6, "padding": "same"},
            {"kernel_size": 1},
        )
        for options in choices:
            layer = kind(6, 12, **{"kernel_size": 3, **options})
            model = nn.Sequential(layer, nn.ReLU()).to(np.dtype(dtype))
            ready = check(model, x.astype(dtype))
            assert packed(ready) == [f"conv{rank}d"]


def test_linear_maps():
    for shape in ((8,), (1, 8), (3, 8), (2, 3, 8), (0, 8)):
        ready = check(mlp(), array(*shape))
        assert packed(ready) and all("linear" in name for name in packed(ready))


def test_models():
    for model, x in (
        (lenet(), array(2, 1, 28, 28)),
        (Residual(3, 4, 2), array(2, 3, 8, 8)),
        (nn.TransformerEncoderLayer(8, 2, 16), array(4, 2, 8)),
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(True)), array(2, 3, 6, 6)),
    ):
        ready = check(model, x)
        assert "batch_norm" not in str(ready.graph)
        assert list(ready.parameters()) == []


def test_recurrent_layers_take_batches():
    for layer, x, loop in (
        (nn.LSTM(6, 5, 2, batch_first=True), array(3, 4, 6), "lstm_states"),
        (nn.GRU(6, 5), array(4, 3, 6), "gru_states"),
    ):
        ready = optimize_for_inference(script(copy.deepcopy(layer)))
        assert set(packed(ready)) == {"transposed_linear", loop}
        assert ready.graph.inputs[0].type.rank == 3
        expected, _ = layer.eval()(x)
        np.testing.assert_allclose(ready(x)[0], expected, 1e-4, 1e-5)
        np.testing.assert_allclose(ready(x[0])[0], layer(x[0])[0], 1e-4, 1e-5)


class LastState(nn.Module):
    def __init__(self):
        super().__init__()
        self.recurrent = nn.LSTM(6, 5, 2, batch_first=True)

    def forward(self, x):
        outputs, _ = self.recurrent(x)
        return outputs[:, -1]


def test_recurrent_layers_are_native_as_a_whole():
    """Their code has lists, which must be local when the frozen graph is compiled."""
    x = array(3, 4, 6)
    ready = check(LastState(), x)
    text = str(ready.graph_for(x))
    assert text.count("prim::NativeGroup_") == 2  # one, and what it is
    assert "prim::CallMethod" not in text


@pytest.mark.parametrize("channels", [1, 3, 17])
def test_windows_of_lines_of_every_length(channels):
    """Tiles of pixels begin and end anywhere on a line, and windows reach over its ends."""
    for width in (1, 5, 11, 12, 13, 23, 37):
        for kernel, stride, padding, dilation in (
            (1, 1, 0, 1),
            (3, 1, 1, 1),
            (5, 2, 3, 1),
            (2, 3, 1, 2),
        ):
            layer = nn.Conv2d(channels, 5, kernel, stride, padding, dilation)
            if (kernel - 1) * dilation < width + 2 * padding:
                check(nn.Sequential(layer), array(2, channels, 7, width))


def test_it_is_idempotent():
    ready = optimize_for_inference(script(nn.Sequential(nn.Linear(4, 3), nn.ReLU())))
    x = array(2, 4)
    before, text = ready(x), str(ready.graph)
    assert optimize_for_inference(ready) is ready
    assert str(ready.graph) == text
    np.testing.assert_array_equal(ready(x), before)


def test_frozen_modules_are_optimized_themselves():
    frozen = freeze(script(nn.Linear(4, 3).eval()), optimize_numerics=False)
    expected = frozen(array(2, 4))
    assert optimize_for_inference(frozen) is frozen
    assert packed(frozen) == ["transposed_linear"]
    np.testing.assert_allclose(frozen(array(2, 4)), expected, 1e-5, 1e-6)


class Methods(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    @export
    def other(self, x):
        return self.linear(x) * 2

    def forward(self, x):
        return self.linear(x)


def test_other_methods():
    module = Methods()
    ready = optimize_for_inference(script(module), ["other"])
    assert packed(ready) == packed(ready, "other") == ["transposed_linear"]
    np.testing.assert_allclose(ready.other(array(2, 4)), module.other(array(2, 4)), 1e-5)
    with pytest.raises(Error, match="no method 'nothing'"):
        optimize_for_inference(ready, ["nothing"])
    with pytest.raises(Error, match="Unknown name: nothing"):
        optimize_for_inference(script(Methods()), ["nothing"])


def test_modules_in_training_mode_are_put_into_eval_mode():
    scripted = script(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.9)))
    assert scripted.training
    ready = optimize_for_inference(scripted)
    assert not scripted.training
    np.testing.assert_array_equal(ready(array(2, 4)), ready(array(2, 4)))


def test_it_takes_script_modules_only():
    with pytest.raises(Error, match="optimize_for_inference expects a ScriptModule"):
        optimize_for_inference(nn.Linear(2, 2))


def test_it_stays_on_this_machine():
    ready = optimize_for_inference(script(nn.Linear(4, 3)))
    for attempt in (lambda: ready.save(io.BytesIO()), lambda: pickle.dumps(ready)):
        with pytest.raises(SerializationError, match=r"optimize_for_inference\(\) makes a module"):
            attempt()


def test_copies_are_as_ready():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval()
    ready, x = optimize_for_inference(script(model)), array(2, 3, 6, 6)
    for made in (copy.copy(ready), copy.deepcopy(ready)):
        assert "packed=" in str(made.graph)
        assert_same(made(x), ready(x))
        assert optimize_for_inference(made) is made


def test_errors_are_those_of_the_model():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(64, 5))
    ready = check(model, array(2, 3, 6, 6))
    for wrong in (array(2, 4, 6, 6), array(2, 3, 7, 6), array(2, 3, 2, 2), array(6, 6)):
        assert_same_error(ready, model, wrong, error=ValueError, match=":")
    with pytest.raises(TypeError, match="conv2d: the input is float64"):
        ready(array(2, 3, 6, 6).astype(np.float64))


def test_empty_batches_and_nans():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2))
    ready = check(model, array(0, 3, 6, 6))
    x = array(2, 3, 6, 6)
    x[1, 2, 3, 4] = np.nan
    np.testing.assert_allclose(ready(x), model(x), 1e-4, 1e-5)
