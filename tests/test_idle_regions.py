"""Regions that wait for types, and in which there turns out to be nothing native."""

# The functions under test are plain Python, as users write them.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from jitcore import script
from jitcore.execution import compilation
from jitcore.execution.executor import MAX_FRUITLESS, Executor
from jitcore.pipeline import HostPlan


def plan_of(scripted):
    (found,) = scripted.specializations
    assert isinstance(found.plan, HostPlan)
    return found.plan


def edit_distance(a, b):
    before = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        now = [i]
        for j, y in enumerate(b, 1):
            now.append(min(before[j] + 1, now[j - 1] + 1, before[j - 1] + (x != y)))
        before = now
    return before[-1]


def test_regions_of_single_numbers_are_given_up():
    scripted = script(edit_distance)
    words = list("kitten sitting"), list("sitting kitten")
    for _ in range(MAX_FRUITLESS + 1):  # one of the regions is called once in each call
        assert scripted(*words) == edit_distance(*words)
    assert not plan_of(scripted).regions


def test_one_thread_gives_regions_up(monkeypatch):
    taken_out, working, together = compilation.take_idle_regions_out, [], []

    def slowly(executor, plan):
        working.append(plan)
        time.sleep(0.02)  # so that others come by meanwhile
        together.append(sum(one is plan for one in working))
        taken_out(executor, plan)
        working[:] = [one for one in working if one is not plan]

    monkeypatch.setattr(compilation, "take_idle_regions_out", slowly)
    scripted = script(edit_distance)
    words = list("kitten sitting"), list("sitting kitten")
    expected = edit_distance(*words)

    def call(_):
        return [scripted(*words) for _ in range(MAX_FRUITLESS + 1)]

    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(call, range(4)):
            assert found == [expected] * (MAX_FRUITLESS + 1)
    assert set(together) == {1}


def scaled(parts, names):
    found = []
    for part, name in zip(parts, names, strict=True):
        found.append((name.upper(), part * 2 + part * 3 - 1))
    return found


def test_regions_of_arrays_stay():
    scripted = script(scaled)
    parts, names = [np.arange(5.0)] * 40, ["x"] * 40
    for _ in range(3):
        for (name, result), (same, expected) in zip(
            scripted(parts, names), scaled(parts, names), strict=True
        ):
            assert name == same
            np.testing.assert_array_equal(result, expected)
    assert plan_of(scripted).regions


def test_arrays_after_many_numbers():
    scripted = script(scaled)
    numbers, arrays = [3] * 40, [np.arange(5.0)] * 3
    assert scripted(numbers, ["x"] * 40) == scaled(numbers, ["x"] * 40)
    for (_, result), (_, expected) in zip(
        scripted(arrays, "abc"), scaled(arrays, "abc"), strict=True
    ):
        np.testing.assert_array_equal(result, expected)


def matches(x, names):
    table = np.zeros((4, 4), np.int64)
    for i in range(4):
        for j in range(4):
            if names[i].lower() == names[j]:
                table[i, j] = x[i, j] + x[j, i]
            else:
                table[i, j] = max(x[i, j], table[i - 1, j], table[i, j - 1])
    return table


def test_what_is_typed_in_a_region_that_is_given_up_is_a_smaller_one():
    scripted = script(matches)
    x, names = np.arange(16).reshape(4, 4), list("aBbA")
    for _ in range(4):
        np.testing.assert_array_equal(scripted(x, names), matches(x, names))
    plan = plan_of(scripted)
    assert plan.regions and not plan.idle
    assert not any(region.waits for region in plan.regions.values())


def farthest(x, y):
    ratio = (x * x + y * y + 1) / (x * x * y * y + 1) - (x - y) * (x + y) / (x * y + 2)
    return min([x, y], key=lambda value: str(-value)), ratio


def test_regions_are_not_specialized_for_functions_that_are_made_at_each_call():
    scripted = script(farthest)
    for x in range(8):
        assert scripted(float(x), 3) == farthest(float(x), 3)
    (region,) = plan_of(scripted).regions.values()
    assert len(region.specializations) == 1


def adaptive(step, end):
    time, taken = 0.0, []
    while time < end:
        error = np.abs(np.sin(step * 2.0 + time)) * step + np.cos(time * 3.0) ** 2 * step
        if error < 0.4:
            time += step
            taken.append(time)
        step *= min(max(0.4 / (error + 0.1), 0.5), 2.0)
    return np.array(taken)


def test_regions_that_no_entry_takes_for_long_are_not_looked_at_any_more(monkeypatch):
    scripted = script(adaptive)
    for _ in range(3):
        np.testing.assert_allclose(scripted(0.1, 9.0), adaptive(0.1, 9.0))
    asked = []
    specialization = Executor.specialization

    def noting(self, args):
        asked.append(self)
        return specialization(self, args)

    monkeypatch.setattr(Executor, "specialization", noting)
    np.testing.assert_allclose(scripted(0.1, 9.0), adaptive(0.1, 9.0))
    assert len(asked) <= 1


def two_sum(numbers, target):
    for i in range(len(numbers)):
        for j in range(i + 1, len(numbers)):
            if numbers[i] + numbers[j] == target:
                return i, j
    return None


def test_results_of_a_region_that_is_given_up_are_no_tuple():
    scripted = script(two_sum)
    for numbers in (list("314159"), list("271828")):  # texts are Python's
        for _ in range(2 * MAX_FRUITLESS):
            assert scripted(numbers, "59") == two_sum(numbers, "59")
    plan = plan_of(scripted)
    assert not plan.regions
    assert not plan.graph.find_all_nodes("prim::Unpack")


def joined(grid):
    parent: dict[tuple[int, int], tuple[int, int]] = {}

    def find(place):
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    for i in range(grid.shape[0]):
        for j in range(grid.shape[1]):
            if grid[i, j]:
                parent[(i, j)] = (i, j)
                if i > 0 and grid[i - 1, j]:
                    parent[find((i, j))] = find((i - 1, j))
                if j > 0 and grid[i, j - 1]:
                    parent[find((i, j))] = find((i, j - 1))
    return len({find(place) for place in parent})


def test_loops_that_read_dicts_are_no_regions(monkeypatch):
    scripted, grid = script(joined), np.random.default_rng(0).random((12, 12)) > 0.45
    for _ in range(3):
        assert scripted(grid) == joined(grid)
    asked = []
    run = Executor.run

    def noting(self, args, captured=()):
        asked.append(self.depth)
        return run(self, args, captured)

    monkeypatch.setattr(Executor, "run", noting)
    assert scripted(grid) == joined(grid)
    assert len(asked) <= 2, "regions inside regions look at the dict again and again"


def walked(step, end):
    time, places = 0.0, []
    while time < end:
        if step > 0.4:
            time = time + np.float64(step)
        places.append((time, str(step)))
        step *= 1.5
    return places


def test_numbers_of_several_types_are_python_s_in_loops_of_python():
    scripted = script(walked)
    for _ in range(3):
        found, expected = scripted(0.1, 9.0), walked(0.1, 9.0)
        assert found == expected
        assert [type(one) for one, _ in found] == [type(one) for one, _ in expected]
    assert {type(one) for one, _ in expected} == {float, np.float64}
    assert not plan_of(scripted).graph.find_all_nodes("prim::UnionConstruct")
