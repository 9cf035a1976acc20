"""Recurrent layers over whole sequences, one direction of one layer at a time."""

from __future__ import annotations

import numpy as np

from jitcore.ir.ops.recurrent_cells import gru_state, lstm_state
from jitcore.nn.arrays import Array
from jitcore.nn.functional.activation import sigmoid
from jitcore.nn.functional.linear import linear

__all__ = [
    "gru_cell",
    "gru_sequence",
    "gru_states",
    "lstm_cell",
    "lstm_sequence",
    "lstm_states",
    "rnn_cell",
    "rnn_sequence",
    "rnn_states",
]


def rnn_cell(
    projected: Array, hidden: Array, w_hh: Array, b_hh: Array | None, nonlinearity: str
) -> Array:
    """``nonlinearity(projected + w_hh @ hidden + b_hh)``.

    Parameters
    ----------
    projected : (N, H) array
        The input times its weights, with its bias.
    hidden : (N, H) array
    w_hh, b_hh : (H, H) array, (H,) array or None
    nonlinearity : str
        ``"tanh"`` or ``"relu"``.

    Returns
    -------
    (N, H) array
    """
    total = projected + linear(hidden, w_hh, b_hh)
    return np.tanh(total) if nonlinearity == "tanh" else np.maximum(total, 0)


def lstm_cell(
    projected: Array,
    hidden: Array,
    cell: Array,
    w_hh: Array,
    b_hh: Array | None,
    w_hr: Array | None = None,
) -> tuple[Array, Array]:
    """One step of a long short-term memory; with ``w_hr`` that has Sak et al.'s projection (2014).

    Parameters
    ----------
    projected : (N, 4 * H) array
        The input times its weights, with its bias: input gate, forget gate, cell, output gate.
    hidden : (N, P) array
        P is H without a projection.
    cell : (N, H) array
    w_hh, b_hh : (4 * H, P) array, (4 * H,) array or None
    w_hr : (P, H) array, optional

    Returns
    -------
    (N, P) array, (N, H) array
        The new hidden state and cell.
    """
    gates = projected + linear(hidden, w_hh, b_hh)
    width = cell.shape[-1]
    parts = (
        gates[..., :width],
        gates[..., width : 2 * width],
        gates[..., 2 * width : 3 * width],
        gates[..., 3 * width :],
    )
    new_hidden, new_cell = lstm_state(parts, cell, sigmoid, np.tanh)
    return (new_hidden if w_hr is None else linear(new_hidden, w_hr)), new_cell


def gru_cell(projected: Array, hidden: Array, w_hh: Array, b_hh: Array | None) -> Array:
    """One step of a gated recurrent unit.

    Parameters
    ----------
    projected : (N, 3 * H) array
        The input times its weights, with its bias: reset gate, update gate, new state.
    hidden : (N, H) array
    w_hh, b_hh : (3 * H, H) array, (3 * H,) array or None

    Returns
    -------
    (N, H) array
    """
    recurrent, width = linear(hidden, w_hh, b_hh), hidden.shape[-1]
    return gru_state(_thirds(projected, width), _thirds(recurrent, width), hidden, sigmoid, np.tanh)


def _thirds(gates: Array, width: int) -> tuple[Array, Array, Array]:
    return gates[..., :width], gates[..., width : 2 * width], gates[..., 2 * width :]


# All times --------------------------------------------------------------------------------


def rnn_states(
    projected: Array,
    hidden: Array,
    weight: Array,
    bias: Array | None = None,
    nonlinearity: str = "tanh",
    reverse: bool = False,
) -> Array:
    """``rnn_cell`` for all times.

    Parameters
    ----------
    projected : (T, N, H) array
        The input times its weights, with its bias.
    hidden : (N, H) array
        The states to start from.
    weight, bias : (H, H) array, (H,) array or None
    nonlinearity : str
    reverse : bool
        From the last time to the first.

    Returns
    -------
    (T, N, H) array
        The hidden state at all times.
    """
    steps = len(projected)
    states = np.empty((steps, hidden.shape[0], hidden.shape[1]), projected.dtype)
    for step in range(steps):
        time = steps - 1 - step if reverse else step
        hidden = rnn_cell(projected[time], hidden, weight, bias, nonlinearity)
        states[time] = hidden
    return states


def lstm_states(
    projected: Array,
    hidden: Array,
    cell: Array,
    weight: Array,
    bias: Array | None = None,
    reverse: bool = False,
) -> tuple[Array, Array]:
    """``lstm_cell`` for all times; see ``rnn_states``.

    Returns
    -------
    (T, N, H) array, (N, H) array
        The hidden state at all times, and the cell that was reached last.
    """
    steps = len(projected)
    states = np.empty((steps, hidden.shape[0], hidden.shape[1]), projected.dtype)
    for step in range(steps):
        time = steps - 1 - step if reverse else step
        hidden, cell = lstm_cell(projected[time], hidden, cell, weight, bias)
        states[time] = hidden
    return states, cell


def gru_states(
    projected: Array,
    hidden: Array,
    weight: Array,
    bias: Array | None = None,
    reverse: bool = False,
) -> Array:
    """``gru_cell`` for all times; see ``rnn_states``."""
    steps = len(projected)
    states = np.empty((steps, hidden.shape[0], hidden.shape[1]), projected.dtype)
    for step in range(steps):
        time = steps - 1 - step if reverse else step
        hidden = gru_cell(projected[time], hidden, weight, bias)
        states[time] = hidden
    return states


# Sequences --------------------------------------------------------------------------------


def rnn_sequence(
    input: Array,
    hidden: Array,
    w_ih: Array,
    w_hh: Array,
    b_ih: Array | None,
    b_hh: Array | None,
    nonlinearity: str = "tanh",
    reverse: bool = False,
) -> tuple[Array, Array]:
    """An Elman network over a sequence.

    Parameters
    ----------
    input : (T, N, I) array
        T is 1 or more.
    hidden : (N, H) array
    w_ih, w_hh, b_ih, b_hh : array or None
        (H, I), (H, H), (H,) and (H,).
    nonlinearity : str
    reverse : bool
        From the last time to the first.

    Returns
    -------
    (T, N, H) array, (N, H) array
        The hidden state at all times, and the one that was reached last.
    """
    states = rnn_states(linear(input, w_ih, b_ih), hidden, w_hh, b_hh, nonlinearity, reverse)
    return states, states[0 if reverse else -1]


def lstm_sequence(
    input: Array,
    hidden: Array,
    cell: Array,
    w_ih: Array,
    w_hh: Array,
    b_ih: Array | None,
    b_hh: Array | None,
    w_hr: Array | None = None,
    reverse: bool = False,
) -> tuple[Array, Array, Array]:
    """A long short-term memory over a sequence; see ``rnn_sequence``.

    Returns
    -------
    (T, N, P) array, (N, P) array, (N, H) array
        The hidden state at all times, and the state and cell that were reached last.
    """
    projected = linear(input, w_ih, b_ih)
    if w_hr is None:
        states, cell = lstm_states(projected, hidden, cell, w_hh, b_hh, reverse)
        return states, states[0 if reverse else -1], cell
    outputs = np.empty((len(input), *hidden.shape), input.dtype)
    for step in range(len(input)):
        time = len(input) - 1 - step if reverse else step
        hidden, cell = lstm_cell(projected[time], hidden, cell, w_hh, b_hh, w_hr)
        outputs[time] = hidden
    return outputs, hidden, cell


def gru_sequence(
    input: Array,
    hidden: Array,
    w_ih: Array,
    w_hh: Array,
    b_ih: Array | None,
    b_hh: Array | None,
    reverse: bool = False,
) -> tuple[Array, Array]:
    """Gated recurrent units over a sequence; see ``rnn_sequence``."""
    states = gru_states(linear(input, w_ih, b_ih), hidden, w_hh, b_hh, reverse)
    return states, states[0 if reverse else -1]
