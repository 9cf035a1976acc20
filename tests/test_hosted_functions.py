"""Functions that only NumPy computes, in programs whose other parts are native."""

# The functions under test are plain NumPy, as users write them.
# mypy: allow-untyped-defs, allow-untyped-calls

import numpy as np
import pytest

from jitcore import script
from jitcore.codegen.lowering.families import rule_of
from jitcore.execution.plans import HostPlan, NativePlan
from jitcore.ir.ops import TABLE


def weights(matrix, targets):
    found = []
    for target in targets:
        scaled = matrix @ matrix.T + np.eye(len(matrix)) * 2
        solved = np.linalg.solve(scaled, target * 2 - 1)
        folded = solved @ scaled + np.median(solved) * solved
        found.append((folded, np.linalg.det(scaled)))
    return found


def test_what_lies_between_them_is_native_at_once():
    scripted = script(weights)
    matrix, targets = np.arange(9.0).reshape(3, 3), list(np.eye(3))
    for (folded, det), (same, equal) in zip(
        scripted(matrix, targets), weights(matrix, targets), strict=True
    ):
        np.testing.assert_allclose(folded, same)
        assert det == pytest.approx(equal)
    (made,) = scripted.specializations
    assert isinstance(made.plan, HostPlan)
    plans = [one.plan for region in made.plan.regions.values() for one in region.specializations]
    assert plans and all(isinstance(plan, NativePlan) for plan in plans)


def window_medians(image, size):
    result = image.copy()
    for y in range(size, image.shape[0] - size):
        for x in range(size, image.shape[1] - size):
            result[y, x] = np.median(image[y - size : y + size + 1, x - size : x + size + 1])
    return result


def test_there_is_no_region_of_what_is_left():
    scripted = script(window_medians)
    image = np.random.default_rng(0).integers(0, 255, (9, 8)).astype(np.uint8)
    np.testing.assert_array_equal(scripted(image, 1), window_medians(image, 1))
    (made,) = scripted.specializations
    assert isinstance(made.plan, HostPlan)
    assert not made.plan.regions


def test_the_table_says_of_all_that_have_no_rule_for_lowering():
    hosted = {kind for kind, op in TABLE.items() if op.hosted}
    assert {"np::sort", "np::det"} <= hosted
    assert not any(map(rule_of, hosted))
