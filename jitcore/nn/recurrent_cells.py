"""One step of a recurrent layer."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from jitcore.nn import functional as F
from jitcore.nn import init
from jitcore.nn.arrays import Array, DTypeLike
from jitcore.nn.functional.recurrent import gru_cell, lstm_cell, rnn_cell
from jitcore.nn.module import Module

__all__ = ["GRUCell", "LSTMCell", "RNNCell"]


class _Cell(Module):
    _gates: ClassVar[int]
    weight_ih: Array
    weight_hh: Array
    bias_ih: Array | None
    bias_hh: Array | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        *,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        of = np.float32 if dtype is None else dtype
        rows = self._gates * hidden_size
        self.register_parameter("weight_ih", np.empty((rows, input_size), of))
        self.register_parameter("weight_hh", np.empty((rows, hidden_size), of))
        self.register_parameter("bias_ih", np.empty(rows, of) if bias else None)
        self.register_parameter("bias_hh", np.empty(rows, of) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial values anew: uniform in ``±1 / sqrt(hidden_size)``."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0.0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _projected(self, input: Array) -> Array:
        if input.ndim not in (1, 2) or input.shape[-1] != self.input_size:
            raise ValueError(
                f"{self._get_name()}: expected input of shape (N, {self.input_size}) or "
                f"({self.input_size},), found {input.shape}"
            )
        return F.linear(input, self.weight_ih, self.bias_ih)

    def _state(self, state: Array | None, input: Array) -> Array:
        shape = (*input.shape[:-1], self.hidden_size)
        if state is None:
            return np.zeros(shape, input.dtype)
        if state.shape != shape:
            raise ValueError(
                f"{self._get_name()}: expected a state of shape {shape}, found {state.shape}"
            )
        return state

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        return text if self.bias else f"{text}, bias={self.bias}"


class RNNCell(_Cell):
    """``tanh(w_ih @ input + b_ih + w_hh @ hidden + b_hh)``.

    Parameters
    ----------
    input_size, hidden_size : int
    bias : bool
    nonlinearity : str
        ``"tanh"`` or ``"relu"``.
    dtype : dtype, optional
        float32 by default.
    """

    _gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        *,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, dtype=dtype)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"RNNCell: nonlinearity must be 'tanh' or 'relu', found {nonlinearity!r}"
            )
        self.nonlinearity = nonlinearity

    def forward(self, input: Array, hx: Array | None = None) -> Array:
        projected = self._projected(input)
        state = self._state(hx, input)
        return rnn_cell(projected, state, self.weight_hh, self.bias_hh, self.nonlinearity)

    def extra_repr(self) -> str:
        text = super().extra_repr()
        return text if self.nonlinearity == "tanh" else f"{text}, nonlinearity={self.nonlinearity}"


class LSTMCell(_Cell):
    """One step of ``LSTM``.

    Parameters
    ----------
    input_size, hidden_size : int
    bias : bool
    dtype : dtype, optional
        float32 by default.
    """

    _gates = 4

    def forward(self, input: Array, hx: tuple[Array, Array] | None = None) -> tuple[Array, Array]:
        projected = self._projected(input)
        hidden, cell = (None, None) if hx is None else hx
        return lstm_cell(
            projected,
            self._state(hidden, input),
            self._state(cell, input),
            self.weight_hh,
            self.bias_hh,
        )


class GRUCell(_Cell):
    """One step of ``GRU``; parameters as of ``LSTMCell``."""

    _gates = 3

    def forward(self, input: Array, hx: Array | None = None) -> Array:
        projected = self._projected(input)
        return gru_cell(projected, self._state(hx, input), self.weight_hh, self.bias_hh)
