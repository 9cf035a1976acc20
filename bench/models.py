"""Models for the benchmark of layers, written once: both libraries of layers have the same names.

Each function takes the library, ``torch.nn`` or ``jitcore.nn``, and gives a model.  A forward pass
uses only methods that tensors and arrays share.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["MODELS", "ModelCase"]


def mlp(nn: Any) -> Any:
    """Three wide layers."""
    return nn.Sequential(
        nn.Linear(784, 1024),
        nn.ReLU(),
        nn.Linear(1024, 1024),
        nn.ReLU(),
        nn.Linear(1024, 10),
    )


def lenet(nn: Any) -> Any:
    """LeCun et al. (1998), with maxima and ReLU."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )


def _residual(nn: Any) -> Any:
    """A block that adds its input, or what a shortcut makes of it."""

    class Residual(nn.Module):  # type: ignore[misc]
        def __init__(self, body: Any, shortcut: Any, activation: Any) -> None:
            super().__init__()
            self.body = body
            self.shortcut = shortcut
            self.activation = activation

        def forward(self, x):  # type: ignore[no-untyped-def]
            return self.activation(self.body(x) + self.shortcut(x))

    return Residual


def _conv(nn: Any, inside: int, out: int, kernel: int, stride: int = 1, groups: int = 1) -> Any:
    """A convolution and its normalization."""
    return (
        nn.Conv2d(inside, out, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(out),
    )


def _resnet(nn: Any, depths: tuple[int, ...], bottleneck: bool) -> Any:
    """He et al., "Deep Residual Learning for Image Recognition" (2016)."""
    residual = _residual(nn)
    layers = [*_conv(nn, 3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inside = 64
    for stage, depth in enumerate(depths):
        width = 64 << stage
        out = width * (4 if bottleneck else 1)
        for number in range(depth):
            stride = 2 if stage and not number else 1
            if bottleneck:
                body = [
                    *(*_conv(nn, inside, width, 1), nn.ReLU()),
                    *(*_conv(nn, width, width, 3, stride), nn.ReLU()),
                    *_conv(nn, width, out, 1),
                ]
            else:
                body = [
                    *(*_conv(nn, inside, out, 3, stride), nn.ReLU()),
                    *_conv(nn, out, out, 3),
                ]
            changes = stride > 1 or inside != out
            shortcut = _conv(nn, inside, out, 1, stride) if changes else (nn.Identity(),)
            layers.append(residual(nn.Sequential(*body), nn.Sequential(*shortcut), nn.ReLU()))
            inside = out
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 1000))
    return nn.Sequential(*layers, *head)


def resnet18(nn: Any) -> Any:
    """Of basic blocks."""
    return _resnet(nn, (2, 2, 2, 2), bottleneck=False)


def resnet50(nn: Any) -> Any:
    """Of bottlenecks, with the stride in the middle."""
    return _resnet(nn, (3, 4, 6, 3), bottleneck=True)


def mobilenet_v2(nn: Any) -> Any:
    """Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks" (2018)."""
    residual = _residual(nn)
    layers: list[Any] = [*_conv(nn, 3, 32, 3, 2), nn.ReLU6()]
    inside = 32
    settings = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )
    for expansion, out, count, first_stride in settings:
        for number in range(count):
            stride = first_stride if number == 0 else 1
            wide = inside * expansion
            body = [*_conv(nn, inside, wide, 1), nn.ReLU6()] if expansion > 1 else []
            body += [*_conv(nn, wide, wide, 3, stride, wide), nn.ReLU6(), *_conv(nn, wide, out, 1)]
            block = nn.Sequential(*body)
            adds = stride == 1 and inside == out
            layers.append(residual(block, nn.Identity(), nn.Identity()) if adds else block)
            inside = out
    layers += [*_conv(nn, inside, 1280, 1), nn.ReLU6()]
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(1280, 1000)
    )


def lstm(nn: Any) -> Any:
    """Two recurrent layers, and a decision after the last step."""

    class Recurrent(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(128, 256, 2, batch_first=True)
            self.head = nn.Linear(256, 10)

        def forward(self, x):  # type: ignore[no-untyped-def]
            outputs, _ = self.lstm(x)
            return self.head(outputs[:, -1])

    return Recurrent()


def _encoder(nn: Any, depth: int, *, norm_first: bool, activation: str) -> Any:
    layer = nn.TransformerEncoderLayer(
        384, 6, 1536, 0.1, activation, batch_first=True, norm_first=norm_first
    )
    return nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)


def transformer(nn: Any) -> Any:
    """Six layers of Vaswani et al.'s encoder (2017), 384 wide."""
    return _encoder(nn, 6, norm_first=False, activation="relu")


def vit_small(nn: Any) -> Any:
    """ViT-S/16 of Dosovitskiy et al. (2021), which decides by the mean of all patches."""

    class VisionTransformer(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, 384, 16, 16)
            self.places = nn.Embedding(196, 384)
            self.encoder = _encoder(nn, 12, norm_first=True, activation="gelu")
            self.norm = nn.LayerNorm(384)
            self.head = nn.Linear(384, 1000)

        def forward(self, x):  # type: ignore[no-untyped-def]
            patches = self.patches(x).reshape(x.shape[0], 384, 196).swapaxes(1, 2)
            encoded = self.encoder(patches + self.places.weight)
            return self.head(self.norm(encoded).mean(1))

    return VisionTransformer()


@dataclass(frozen=True)
class ModelCase:
    """A model and the shape of one input, without the batch axis.

    PyTorch's counter of operations does not know recurrent layers; theirs are given.
    """

    name: str
    build: Callable[[Any], Any]
    shape: tuple[int, ...]
    recurrent_operations: int = 0


MODELS = (
    ModelCase("MLP", mlp, (784,)),
    ModelCase("LeNet", lenet, (1, 32, 32)),
    ModelCase("ResNet-18", resnet18, (3, 224, 224)),
    ModelCase("ResNet-50", resnet50, (3, 224, 224)),
    ModelCase("MobileNetV2", mobilenet_v2, (3, 224, 224)),
    ModelCase("LSTM", lstm, (64, 128), 2 * 64 * 1024 * (128 + 256 + 256 + 256)),
    ModelCase("transformer encoder", transformer, (128, 384)),
    ModelCase("ViT-small", vit_small, (3, 224, 224)),
)
