"""Linear and bilinear maps."""

from __future__ import annotations

import numpy as np

from jitcore.nn.arrays import Array
from jitcore.nn.functional.checks import check_dtype

__all__ = ["bilinear", "linear", "matmul", "transposed_linear"]


def linear(input: Array, weight: Array, bias: Array | None = None) -> Array:
    """``input @ weight.T + bias``.

    Parameters
    ----------
    input : (..., in) array
    weight : (out, in) or (in,) array
        Of the input's dtype.
    bias : (out,) array, optional

    Returns
    -------
    (..., out) array

    Raises
    ------
    ValueError
        The last axis of the input does not fit.
    TypeError
        The dtypes differ.
    """
    check_dtype("linear", input, weight)
    check_dtype("linear", input, bias, "bias")
    if input.ndim == 0 or input.shape[-1] != weight.shape[-1]:
        raise ValueError(
            f"linear: expected {weight.shape[-1]} features on the last axis, found input of shape "
            f"{input.shape}"
        )
    result = np.matmul(input, weight.T)
    return result if bias is None else result + bias


def transposed_linear(input: Array, weight: Array, bias: Array | None = None) -> Array:
    """``input @ weight + bias``: ``linear`` with its weights as the product reads them.

    Frozen models call it; see ``linear`` for the rest.

    Parameters
    ----------
    input : (..., in) array
    weight : (in, out) array
    bias : (out,) array, optional

    Returns
    -------
    (..., out) array
    """
    check_dtype("linear", input, weight)
    check_dtype("linear", input, bias, "bias")
    if input.ndim == 0 or input.shape[-1] != weight.shape[0]:
        raise ValueError(
            f"linear: expected {weight.shape[0]} features on the last axis, found input of shape "
            f"{input.shape}"
        )
    result = np.matmul(input, weight)
    return result if bias is None else result + bias


def matmul(input: Array, weight: Array) -> Array:
    """``input @ weight``, where frozen models have constant weights."""
    return np.matmul(input, weight)


def bilinear(input1: Array, input2: Array, weight: Array, bias: Array | None = None) -> Array:
    """``input1 @ weight[k] @ input2`` for every output feature ``k``, plus bias.

    Parameters
    ----------
    input1 : (..., in1) array
    input2 : (..., in2) array
    weight : (out, in1, in2) array
    bias : (out,) array, optional

    Returns
    -------
    (..., out) array
    """
    check_dtype("bilinear", input1, weight)
    check_dtype("bilinear", input2, weight)
    check_dtype("bilinear", input1, bias, "bias")
    wrong = input1.shape[:-1] != input2.shape[:-1]
    if wrong or (input1.shape[-1], input2.shape[-1]) != weight.shape[1:]:
        raise ValueError(
            f"bilinear: expected inputs of shapes (..., {weight.shape[1]}) and "
            f"(..., {weight.shape[2]}), found {input1.shape} and {input2.shape}"
        )
    out, first, second = weight.shape
    products = np.matmul(input1, weight.transpose(1, 0, 2).reshape(first, out * second))
    products = products.reshape(*input1.shape[:-1], out, second)
    result = np.matmul(products, input2[..., np.newaxis])[..., 0]
    return result if bias is None else result + bias
