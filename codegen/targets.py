"""What code is lowered for: the processor that runs Python, or a device with many threads."""

from __future__ import annotations

from jitcore.ir.dataclass import dataclass

__all__ = ["CONVOLUTION", "CPU", "CUDA", "FETCH", "Target"]

FETCH = "cuda.fetch"
"""A call that gives the host a number that depends on elements, such as an extent."""

CONVOLUTION = "cuda.convolution_"
"""What the names of calls begin with that ask a library for a convolution; the dtype follows.

The arguments are `codegen.cuda.cudnn.CONVOLUTION_PARAMETERS`; it gives 0 where it is done, and 1
where the library does not take it."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where loops over elements run.

    Parameters
    ----------
    name : str
    is_device : bool
        The loops become kernels, whose threads share the iterations: loops say of all that is
        independent that it is, sums are left in the dtype of their elements, and nothing calls the
        processor's libraries.
    """

    name: str
    is_device: bool


CPU = Target("cpu", is_device=False)
CUDA = Target("cuda", is_device=True)
