"""CUDA devices: arrays on them, streams, and what there is.

Calls of compiled functions with arrays on a device run there; see `jitcore.to`.
"""

from __future__ import annotations

from jitcore.codegen.cuda import driver as _driver
from jitcore.codegen.cuda.driver import DriverError, Properties, is_available
from jitcore.cuda.array import Array, array, empty, from_numpy
from jitcore.cuda.pool import pools_of as _pools_of
from jitcore.cuda.streams import Event, Stream, synchronize
from jitcore.cuda.transfers import as_array
from jitcore.cuda.tuning import autotune

__all__ = [
    "Array",
    "DriverError",
    "Event",
    "Properties",
    "Stream",
    "array",
    "as_array",
    "autotune",
    "device_count",
    "device_properties",
    "driver_version",
    "empty",
    "empty_cache",
    "from_numpy",
    "is_available",
    "synchronize",
]


def device_count() -> int:
    """How many devices there are; 0 where there is no driver.

    Examples
    --------
    >>> import jitcore
    >>> jitcore.cuda.device_count() > 0 or not jitcore.cuda.is_available()
    True
    """
    return _driver.current().device_count() if is_available() else 0


def device_properties(number: int = 0) -> Properties:
    """Name, compute capability, memory and limits of a device.

    Raises
    ------
    DriverError
        There is none.
    """
    return _driver.current().properties(number)


def driver_version() -> int:
    """The newest CUDA that the driver knows: 13000 is 13.0.

    Raises
    ------
    DriverError
        There is no driver; the message says what to install.
    """
    return _driver.current().version()


def empty_cache(number: int = 0) -> None:
    """Give memory that jitcore's own arrays no longer use back to the driver."""
    for pool in _pools_of(number):
        pool.release()
