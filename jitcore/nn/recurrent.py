"""Recurrent layers."""

from __future__ import annotations

import math
import numbers
import warnings
from typing import ClassVar

import numpy as np

from jitcore.nn import functional as F
from jitcore.nn import init
from jitcore.nn.arrays import Array, DTypeLike
from jitcore.nn.functional.recurrent import gru_sequence, lstm_sequence, rnn_sequence
from jitcore.nn.module import Module

__all__ = ["GRU", "LSTM", "RNN"]

_Weights = list[Array | None]
_LayerWeights = tuple[Array, Array, Array | None, Array | None, Array | None]


class _Recurrent(Module):
    """What recurrent layers share: options, weights, and the walk through the layers.

    The parameters are those of ``LSTM``.
    """

    _gates: ClassVar[int]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        *,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        name = self._get_name()
        if not isinstance(dropout, numbers.Number) or not 0 <= dropout <= 1:
            raise ValueError(f"{name}: dropout must be from 0 to 1, found {dropout!r}")
        if hidden_size <= 0 or num_layers <= 0:
            raise ValueError(f"{name}: hidden_size and num_layers must be positive")
        if not 0 <= proj_size < hidden_size:
            raise ValueError(
                f"{name}: proj_size must be less than hidden_size {hidden_size}, found {proj_size}"
            )
        if dropout > 0 and num_layers == 1:
            warnings.warn(f"{name}: dropout is between layers, and there is only one", stacklevel=3)
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        # What ends the names of the weights: one for each direction of each layer.
        ways = ("", "_reverse") if bidirectional else ("",)
        self._suffixes = tuple(f"_l{layer}{way}" for layer in range(num_layers) for way in ways)
        self._add_weights(np.float32 if dtype is None else dtype)
        self.reset_parameters()

    def _add_weights(self, of: DTypeLike) -> None:
        rows = self._gates * self.hidden_size
        width = self.proj_size or self.hidden_size
        directions = 2 if self.bidirectional else 1
        for number, suffix in enumerate(self._suffixes):
            inputs = self.input_size if number < directions else width * directions
            self.register_parameter(f"weight_ih{suffix}", np.empty((rows, inputs), of))
            self.register_parameter(f"weight_hh{suffix}", np.empty((rows, width), of))
            if self.bias:
                self.register_parameter(f"bias_ih{suffix}", np.empty(rows, of))
                self.register_parameter(f"bias_hh{suffix}", np.empty(rows, of))
            if self.proj_size:
                shape = (self.proj_size, self.hidden_size)
                self.register_parameter(f"weight_hr{suffix}", np.empty(shape, of))

    def reset_parameters(self) -> None:
        """Draw the initial values anew: uniform in ``±1 / sqrt(hidden_size)``."""
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    @property
    def all_weights(self) -> list[_Weights]:
        """The weights of each direction of each layer."""
        names = ["weight_ih", "weight_hh"]
        names += ["bias_ih", "bias_hh"] if self.bias else []
        names += ["weight_hr"] if self.proj_size else []
        return [[getattr(self, name + suffix) for name in names] for suffix in self._suffixes]

    def _ordered(self, input: Array) -> tuple[Array, bool]:
        """The input as (T, N, I), and whether it has a batch axis."""
        if input.ndim not in (2, 3) or input.shape[-1] != self.input_size:
            form = "(N, T, {0}) or (T, {0})" if self.batch_first else "(T, N, {0}) or (T, {0})"
            raise ValueError(
                f"{self._get_name()}: expected input of shape {form.format(self.input_size)}, "
                f"found {input.shape}"
            )
        if input.shape[1 if self.batch_first and input.ndim == 3 else 0] == 0:
            raise ValueError(
                f"{self._get_name()}: expected one step or more, found input of shape {input.shape}"
            )
        if input.ndim == 2:
            return input[:, np.newaxis], False
        return (input.swapaxes(0, 1) if self.batch_first else input), True

    def _initial(self, state: Array | None, input: Array, width: int, what: str) -> Array:
        """A state for each direction of each layer, zeros by default: (layers, N, width)."""
        shape = (len(self._suffixes), input.shape[1], width)
        if state is None:
            return np.zeros(shape, input.dtype)
        with_batch = state[:, np.newaxis] if state.ndim == 2 else state
        if with_batch.shape != shape:
            raise ValueError(
                f"{self._get_name()}: expected {what} of shape {shape}, found {state.shape}"
            )
        return with_batch

    def _layers(
        self, input: Array, states: tuple[Array, ...]
    ) -> tuple[Array, tuple[tuple[Array, ...], ...]]:
        """Run all layers; give the output and the last states of each direction of each."""
        directions = 2 if self.bidirectional else 1
        sequence = result = input
        last: tuple[tuple[Array, ...], ...] = ()
        for number, suffix in enumerate(self._suffixes):
            reverse = number % directions == 1
            if number > 0 and not reverse:
                sequence = F.dropout(result, self.dropout, self.training)
            weights = (
                getattr(self, f"weight_ih{suffix}"),
                getattr(self, f"weight_hh{suffix}"),
                getattr(self, f"bias_ih{suffix}") if self.bias else None,
                getattr(self, f"bias_hh{suffix}") if self.bias else None,
                getattr(self, f"weight_hr{suffix}") if self.proj_size else None,
            )
            state = tuple(one[number] for one in states)
            reached = self._run(sequence, state, weights, reverse)
            last = (*last, reached[1:])
            result = np.concatenate((result, reached[0]), axis=-1) if reverse else reached[0]
        return result, last

    def _run(
        self, input: Array, state: tuple[Array, ...], weights: _LayerWeights, reverse: bool
    ) -> tuple[Array, ...]:
        """One direction of one layer."""
        raise NotImplementedError

    def _given(self, sequence: Array, batched: bool) -> Array:
        """(T, N, H) in the form of the input."""
        if not batched:
            return sequence[:, 0]
        return sequence.swapaxes(0, 1) if self.batch_first else sequence

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.proj_size:
            text += f", proj_size={self.proj_size}"
        if self.num_layers != 1:
            text += f", num_layers={self.num_layers}"
        if not self.bias:
            text += f", bias={self.bias}"
        if self.batch_first:
            text += f", batch_first={self.batch_first}"
        if self.dropout != 0:
            text += f", dropout={self.dropout}"
        if self.bidirectional:
            text += f", bidirectional={self.bidirectional}"
        return text


class _OneState(_Recurrent):
    """A recurrent layer with a hidden state and nothing besides."""

    def forward(self, input: Array, hx: Array | None = None) -> tuple[Array, Array]:
        """Run through a sequence.

        Parameters
        ----------
        input : (T, N, I), (N, T, I) with ``batch_first``, or (T, I) array
        hx : (layers * directions, N, H) or (layers * directions, H) array, optional
            The states to start from.

        Returns
        -------
        (T, N, directions * H) array, (layers * directions, N, H) array
            The last layer's states at all times, and all layers' last states.
        """
        ordered, batched = self._ordered(input)
        state = self._initial(hx, ordered, self.hidden_size, "hx")
        output, last = self._layers(ordered, (state,))
        hidden = np.stack([reached[0] for reached in last])
        return self._given(output, batched), hidden if batched else hidden[:, 0]


class RNN(_OneState):
    """An Elman network: ``tanh(w_ih @ input + b_ih + w_hh @ hidden + b_hh)``.

    Parameters
    ----------
    input_size, hidden_size, num_layers : int
    nonlinearity : str
        ``"tanh"`` or ``"relu"``.
    bias, batch_first, dropout, bidirectional, dtype
        As in ``LSTM``.
    """

    _gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        dtype: DTypeLike | None = None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"RNN: nonlinearity must be 'tanh' or 'relu', found {nonlinearity!r}")
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            dtype=dtype,
        )
        self.nonlinearity = nonlinearity

    def _run(
        self, input: Array, state: tuple[Array, ...], weights: _LayerWeights, reverse: bool
    ) -> tuple[Array, ...]:
        return rnn_sequence(input, state[0], *weights[:4], self.nonlinearity, reverse)


class GRU(_OneState):
    """Gated recurrent units; parameters as of ``LSTM``, without ``proj_size``."""

    _gates = 3

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            dtype=dtype,
        )

    def _run(
        self, input: Array, state: tuple[Array, ...], weights: _LayerWeights, reverse: bool
    ) -> tuple[Array, ...]:
        return gru_sequence(input, state[0], *weights[:4], reverse)


class LSTM(_Recurrent):
    """Long short-term memory.

    Parameters
    ----------
    input_size, hidden_size : int
    num_layers : int
    bias : bool
    batch_first : bool
        Input and output are (N, T, ...) rather than (T, N, ...).
    dropout : float
        The probability of dropping what goes from one layer to the next, in training.
    bidirectional : bool
        Also go from the last time to the first, and put both results side by side.
    proj_size : int
        The extent that hidden states are projected to; 0 is no projection.
    dtype : dtype, optional
        float32 by default.

    Attributes
    ----------
    weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0 : array
        (4 * H, I), (4 * H, P), (4 * H,) and (4 * H,): input gate, forget gate, cell and output
        gate below one another.  Other layers end with their number, and with ``_reverse``.
    weight_hr_l0 : (P, H) array
        With ``proj_size``.
    """

    _gates = 4

    def forward(
        self, input: Array, hx: tuple[Array, Array] | None = None
    ) -> tuple[Array, tuple[Array, Array]]:
        """Run through a sequence.

        Parameters
        ----------
        input : (T, N, I), (N, T, I) with ``batch_first``, or (T, I) array
        hx : two arrays, optional
            The hidden states (layers * directions, N, P) and cells (layers * directions, N, H) to
            start from.

        Returns
        -------
        (T, N, directions * P) array, and a pair as ``hx``
            The last layer's hidden states at all times, and all layers' last states.
        """
        ordered, batched = self._ordered(input)
        start_hidden, start_cell = (None, None) if hx is None else hx
        width = self.proj_size or self.hidden_size
        hidden = self._initial(start_hidden, ordered, width, "the hidden state")
        cell = self._initial(start_cell, ordered, self.hidden_size, "the cell")
        output, last = self._layers(ordered, (hidden, cell))
        hidden = np.stack([reached[0] for reached in last])
        cell = np.stack([reached[1] for reached in last])
        if not batched:
            hidden, cell = hidden[:, 0], cell[:, 0]
        return self._given(output, batched), (hidden, cell)

    def _run(
        self, input: Array, state: tuple[Array, ...], weights: _LayerWeights, reverse: bool
    ) -> tuple[Array, ...]:
        hidden, cell = state
        return lstm_sequence(input, hidden, cell, *weights, reverse)
