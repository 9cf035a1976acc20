"""Random programs do the same compiled and plain."""

from __future__ import annotations

import pytest
from fuzz import failure_of

from programs import random_program

PROGRAMS = 500
PER_TEST = 10


@pytest.mark.parametrize("first", range(0, PROGRAMS, PER_TEST))
def test_random_programs(first: int) -> None:
    failures = []
    for seed in range(first, first + PER_TEST):
        failure = failure_of(random_program(seed))
        if failure is not None:
            failures.append(failure)
    if failures:
        text = "\n\n".join(failures)
        pytest.fail(f"{len(failures)} of {PER_TEST} programs differ\n\n{text}", pytrace=False)


def test_programs_are_what_their_seed_says() -> None:
    assert random_program(7).source == random_program(7).source
    assert random_program(7).source != random_program(8).source
