"""Samples of the op table as device code, in the simulator, against NumPy."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from device_runs import NotOnDevice, run_on_device
from op_samples import Sample, samples
from scipy import special
from test_cuda_programs import assert_same

from checking import function_from_source
from opinfos import OPINFOS

KINDS = sorted(kind for kind in OPINFOS if not kind.startswith("nn::"))
AT_ONCE = 2
"""Samples of each row."""


def first_samples(kind: str) -> list[Sample]:
    """Some samples of a kind whose calls have arrays."""
    found = (sample for info in OPINFOS[kind] for sample in samples(info))
    return list(islice((one for one in found if _has_array(one)), AT_ONCE))


def _has_array(sample: Sample) -> bool:
    return any(isinstance(arg, np.ndarray) for arg in sample.calls[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore")
def test_same_as_numpy_where_it_is_device_code(kind: str) -> None:
    for sample in first_samples(kind):
        function = function_from_source(sample.source, special=special)
        args = sample.calls[0]
        host = tuple(arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args)
        try:
            with np.errstate(all="ignore"):
                expected = function(*host)
        except Exception:  # What NumPy refuses has no result to compare with.
            continue
        try:
            run = run_on_device(function, args)
        except NotOnDevice:
            continue
        assert_same(run.result, expected)
        assert_same(run.args, host)


def test_rows_that_have_device_code() -> None:
    for kind in ("np::add", "np::exp", "np::sum", "np::where", "np::cumsum", "np::matmul"):
        found = [one for info in OPINFOS[kind] for one in samples(info) if _has_array(one)]
        sample = next(one for one in found if one.label.endswith("of float64"))
        run_on_device(function_from_source(sample.source, special=special), sample.calls[0])
