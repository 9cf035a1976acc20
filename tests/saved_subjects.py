"""Programs of many kinds that tests save, damage and load."""
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from jitcore import nn, script

__all__ = ["SUBJECTS"]

BASE = np.arange(12.0)
VIEWS = {"rows": BASE.reshape(3, 4)[1:], "every other": BASE[::2], "back": BASE[::-1]}


class Kind(enum.Enum):
    ADD = "add"
    SCALE = "scale"


class Interval(NamedTuple):
    low: float
    high: float = 1.0

    @property
    def width(self):
        return self.high - self.low


@dataclass
class Counter:
    step: int = 2
    seen: list[float] = field(default_factory=list)

    def count(self, x):
        self.seen.append(x)
        return len(self.seen) * self.step


@script
def arithmetic(x, k=2.0):
    """Numbers and loops."""
    total = 0.0
    for value in x:
        if value > 3:
            break
        total += value * k
    return total, np.where(x > 1, x, -x)


@script
def with_views(x):
    return x + VIEWS["every other"].sum() + VIEWS["back"][0] + VIEWS["rows"].mean()


@script
def with_classes(x, kind=Kind.ADD):
    counter = Counter(3)
    wide = Interval(0.5)
    if kind is Kind.ADD:
        return wide.width + counter.count(x) + counter.count(x)
    return Interval(x, x * 2), sorted([3, 1, 2], key=lambda i: -i)


@script
def with_errors(x, text):
    try:
        number = int(text)
    except ValueError as error:
        return str(error)
    with np.errstate(all="ignore"):
        return np.log(x) * number, f"{number:>4}", {"a": [1, 2.5], "b": {3, 4}}


class Model(nn.Module):
    scale: np.ndarray

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 3)
        self.norm = nn.BatchNorm1d(3)
        self.drop = nn.Dropout(0.5)
        self.calls = 0
        self.register_buffer("scale", np.full(3, 0.5, np.float32))

    def forward(self, x):
        self.calls += 1
        return self.drop(self.norm(self.first(x))) * self.scale


def model():
    nn.manual_seed(0)
    return script(Model())


SUBJECTS = {
    "arithmetic": arithmetic,
    "views": with_views,
    "classes": with_classes,
    "errors": with_errors,
    "model": model(),
}
