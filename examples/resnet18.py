"""Run an image through a ResNet-18 at every stage that jitcore has for models.

    python examples/resnet18.py --weights resnet18.safetensors --image photo.jpg

The model has PyTorch's names, so that the weights of ``torchvision.models.resnet18`` load by name
from an ``.npz`` or a ``.safetensors`` file.  Without a file they are random: the classes it then
prints mean nothing, but all stages have to agree on them.  Without an image it is the portrait of
Grace Hopper that matplotlib ships (``pip install "jitcore[demo]"``).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from jitcore import freeze, nn, optimize_for_inference, script
from jitcore.nn import functional as F

Array = np.ndarray[Any, Any]

MEAN = (0.485, 0.456, 0.406)
DEVIATION = (0.229, 0.224, 0.225)
"""Of the pixels that torchvision's weights were trained on."""


class BasicBlock(nn.Module):
    """Two convolutions beside a shortcut; He et al., "Deep Residual Learning" (2016)."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.downsample: nn.Sequential | None = None
        if stride != 1 or inside != outside:
            self.downsample = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, x: Array) -> Array:
        identity = x if self.downsample is None else self.downsample(x)
        result = self.relu(self.bn1(self.conv1(x)))
        result = self.bn2(self.conv2(result))
        return self.relu(result + identity)


class ResNet18(nn.Module):
    """The ResNet with 18 layers, for 1000 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = nn.Sequential(BasicBlock(64, 64, 1), BasicBlock(64, 64, 1))
        self.layer2 = nn.Sequential(BasicBlock(64, 128, 2), BasicBlock(128, 128, 1))
        self.layer3 = nn.Sequential(BasicBlock(128, 256, 2), BasicBlock(256, 256, 1))
        self.layer4 = nn.Sequential(BasicBlock(256, 512, 2), BasicBlock(512, 512, 1))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.flatten = nn.Flatten()
        self.fc = nn.Linear(512, 1000)

    def forward(self, x: Array) -> Array:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.flatten(self.avgpool(x)))  # type: ignore[no-any-return]


def read_image(path: Path | None) -> Array | None:
    """The pixels (height, width, 3) of a file, or of matplotlib's picture; None without that."""
    try:
        from matplotlib import cbook, image
    except ImportError:
        return None
    found = image.imread(path or cbook.get_sample_data("grace_hopper.jpg", asfileobj=False))
    # A PNG file has numbers from 0 to 1, any other file has bytes.
    pixels = found if found.dtype.kind == "f" else found / 255
    return np.asarray(pixels[..., :3], np.float32)


def prepared(pixels: Array, size: int = 224) -> Array:
    """A batch of one image as the network takes it: the middle square, scaled and normalized."""
    side = min(pixels.shape[:2])
    top, left = (pixels.shape[0] - side) // 2, (pixels.shape[1] - side) // 2
    square = pixels[top : top + side, left : left + side].transpose(2, 0, 1)[np.newaxis]
    scaled = F.interpolate(square, (size, size), mode="bilinear")
    mean, deviation = (np.array(one, np.float32).reshape(3, 1, 1) for one in (MEAN, DEVIATION))
    return np.ascontiguousarray((scaled - mean) / deviation)


def fastest(function: Callable[[], object], seconds: float = 2.0) -> float:
    """The shortest of some calls, in milliseconds."""
    function()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def run(model: nn.Module, images: Array, seconds: float = 2.0) -> dict[str, Array]:
    """The scores at each stage, with the time of a call."""
    scripted = script(model.eval())
    frozen = freeze(scripted)
    ready = optimize_for_inference(scripted)
    stages = {"NumPy": model, "scripted": scripted, "frozen": frozen, "for inference": ready}
    scores = {}
    for name, stage in stages.items():
        scores[name] = stage(images)
        milliseconds = fastest(lambda stage=stage: stage(images), seconds)  # type: ignore[misc]
        best = np.argsort(scores[name][0])[::-1][:3]
        print(f"{name:14} classes {', '.join(map(str, best))}; {milliseconds:7.1f} ms")
    return scores


def main() -> None:
    """Load what there is and run it."""
    parser = argparse.ArgumentParser(description="Run an image through a ResNet-18.")
    parser.add_argument("--weights", type=Path, help="an .npz or .safetensors file")
    parser.add_argument("--image", type=Path, help="a picture that matplotlib reads")
    options = parser.parse_args()
    pixels = read_image(options.image)
    if pixels is None:
        print('The picture comes with matplotlib: pip install "jitcore[demo]"')
        return
    nn.manual_seed(0)
    model = ResNet18()
    if options.weights is None:
        print("The weights are random, so the classes mean nothing.")
    else:
        model.load_state_dict(options.weights)
        print(f"The weights are those in {options.weights}.")
    run(model, prepared(pixels))


if __name__ == "__main__":
    main()
