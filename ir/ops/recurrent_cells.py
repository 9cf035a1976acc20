"""What recurrent cells do with their gates: formulas for all that can be added and multiplied.

The functions of ``jitcore.nn.functional`` give them arrays, and the kernel of recurrent layers
gives them the loop IR's expressions for one element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["gru_state", "lstm_state"]

_Function = Callable[[Any], Any]


def lstm_state(
    gates: tuple[Any, Any, Any, Any], cell: Any, sigmoid: _Function, tanh: _Function
) -> tuple[Any, Any]:
    """The hidden state and the cell that follow.

    Hochreiter and Schmidhuber, "Long Short-Term Memory" (1997), with Gers et al.'s forget gate
    (2000).

    Parameters
    ----------
    gates : tuple of four
        Input gate, forget gate, cell and output gate, before their nonlinearities.
    cell
        The cell so far.
    sigmoid, tanh : function
    """
    write, keep, fresh, show = gates
    new_cell = sigmoid(keep) * cell + sigmoid(write) * tanh(fresh)
    return sigmoid(show) * tanh(new_cell), new_cell


def gru_state(
    projected: tuple[Any, Any, Any],
    recurrent: tuple[Any, Any, Any],
    hidden: Any,
    sigmoid: _Function,
    tanh: _Function,
) -> Any:
    """The hidden state that follows.

    Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder" (2014), with the reset
    gate after the product as in cuDNN and PyTorch.

    Parameters
    ----------
    projected, recurrent : tuple of three
        What the input and the state add to the reset gate, the update gate and the new state.
    hidden
        The state so far.
    sigmoid, tanh : function
    """
    reset = sigmoid(projected[0] + recurrent[0])
    update = sigmoid(projected[1] + recurrent[1])
    fresh = tanh(projected[2] + reset * recurrent[2])
    return fresh + update * (hidden - fresh)
