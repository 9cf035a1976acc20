"""Activations as layers; ``functional`` says what each computes."""

from __future__ import annotations

import numpy as np

from jitcore.nn import functional as F
from jitcore.nn import init as initial
from jitcore.nn.arrays import Array, DTypeLike
from jitcore.nn.module import Module

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SELU",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


def _listed(text: str, inplace: bool) -> str:
    """The options, and ``inplace=True`` where that is one of them."""
    return ", ".join(part for part in (text, "inplace=True" if inplace else "") if part)


class _Inplace(Module):
    """An activation whose one option is to write into its input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return _listed("", self.inplace)


class ReLU(_Inplace):
    """``max(input, 0)``."""

    def forward(self, input: Array) -> Array:
        return F.relu(input, self.inplace)


class SELU(_Inplace):
    """``functional.selu``."""

    def forward(self, input: Array) -> Array:
        return F.selu(input, self.inplace)


class SiLU(_Inplace):
    """``input * sigmoid(input)``."""

    def forward(self, input: Array) -> Array:
        return F.silu(input, self.inplace)


class Mish(_Inplace):
    """``input * tanh(softplus(input))``."""

    def forward(self, input: Array) -> Array:
        return F.mish(input, self.inplace)


class Hardswish(_Inplace):
    """``input * hardsigmoid(input)``."""

    def forward(self, input: Array) -> Array:
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Hardsigmoid(_Inplace):
    """``(input + 3) / 6`` limited to 0 and 1."""

    def forward(self, input: Array) -> Array:
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Sigmoid(Module):
    """``1 / (1 + exp(-input))``."""

    def forward(self, input: Array) -> Array:
        return F.sigmoid(input)


class LogSigmoid(Module):
    """``log(sigmoid(input))``."""

    def forward(self, input: Array) -> Array:
        return F.logsigmoid(input)


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, input: Array) -> Array:
        return F.tanh(input)


class Tanhshrink(Module):
    """``input - tanh(input)``."""

    def forward(self, input: Array) -> Array:
        return F.tanhshrink(input)


class Softsign(Module):
    """``input / (1 + abs(input))``."""

    def forward(self, input: Array) -> Array:
        return F.softsign(input)


class Threshold(Module):
    """``input`` where it is above ``threshold``, ``value`` elsewhere."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Array) -> Array:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return _listed(f"threshold={self.threshold}, value={self.value}", self.inplace)


class Hardtanh(Module):
    """``input`` limited to ``min_val`` and ``max_val``."""

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        if min_val >= max_val:
            raise ValueError(
                f"{self._get_name()}: min_val must be below max_val, found {min_val} and {max_val}"
            )
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace

    def forward(self, input: Array) -> Array:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return _listed(f"min_val={self.min_val}, max_val={self.max_val}", self.inplace)


class ReLU6(Hardtanh):
    """``min(max(input, 0), 6)``."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return _listed("", self.inplace)


class LeakyReLU(Module):
    """``input`` where it is positive, ``negative_slope * input`` elsewhere."""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Array) -> Array:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return _listed(f"negative_slope={self.negative_slope}", self.inplace)


class PReLU(Module):
    """``LeakyReLU`` with slopes that are parameters.

    Parameters
    ----------
    num_parameters : int
        1, or the number of channels.
    init : float
    dtype : dtype, optional
        float32 by default.

    Attributes
    ----------
    weight : (num_parameters,) array
    """

    weight: Array

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, *, dtype: DTypeLike | None = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        of = np.float32 if dtype is None else dtype
        self.register_parameter("weight", np.empty(num_parameters, of))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set all slopes to ``init``."""
        initial.constant_(self.weight, self.init)

    def forward(self, input: Array) -> Array:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class RReLU(Module):
    """``LeakyReLU`` with random slopes in training, and their mean otherwise."""

    def __init__(
        self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
    ) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Array) -> Array:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return _listed(f"lower={self.lower}, upper={self.upper}", self.inplace)


class _Exponential(Module):
    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def extra_repr(self) -> str:
        return _listed(f"alpha={self.alpha}", self.inplace)


class ELU(_Exponential):
    """``input`` where it is positive, ``alpha * (exp(input) - 1)`` elsewhere."""

    def forward(self, input: Array) -> Array:
        return F.elu(input, self.alpha, self.inplace)


class CELU(_Exponential):
    """``input`` where it is positive, ``alpha * (exp(input / alpha) - 1)`` elsewhere."""

    def forward(self, input: Array) -> Array:
        return F.celu(input, self.alpha, self.inplace)


class GELU(Module):
    """``input`` times the normal distribution's probability of less than it.

    Parameters
    ----------
    approximate : str
        ``"none"`` or ``"tanh"``.
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Array) -> Array:
        return F.gelu(input, self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Softplus(Module):
    """``log(1 + exp(beta * input)) / beta``."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Array) -> Array:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class Hardshrink(Module):
    """Zero where the magnitude is at most ``lambd``."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Array) -> Array:
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Softshrink(Module):
    """``input`` moved toward zero by ``lambd``."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Array) -> Array:
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class GLU(Module):
    """The first half along an axis, times ``sigmoid`` of the second half."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Array) -> Array:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class _AlongAxis(Module):
    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_AlongAxis):
    """``exp(input)`` divided by its sum along an axis."""

    def forward(self, input: Array) -> Array:
        return F.softmax(input, self.dim)


class Softmin(_AlongAxis):
    """``softmax(-input)``."""

    def forward(self, input: Array) -> Array:
        return F.softmin(input, self.dim)


class LogSoftmax(_AlongAxis):
    """``log(softmax(input))``."""

    def forward(self, input: Array) -> Array:
        return F.log_softmax(input, self.dim)


class Softmax2d(Module):
    """``softmax`` over the channels of (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Array) -> Array:
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: expected input with 3 or 4 axes, found {input.shape}")
        return F.softmax(input, -3)
