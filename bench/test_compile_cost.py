"""The generated functions compute the same in every library, and their compilation is measured."""

from __future__ import annotations

import pytest

from bench.compile_cost import CompileRow, Task, measure, tasks
from bench.compile_subjects import fresh_function, masked, sines, time_loop


def test_each_part_of_the_first_call_is_measured() -> None:
    row = measure(Task("ten operations", "jitcore", fresh_function()), repeats=1, limit=60)
    assert row.failure == ""
    assert row.first_call is not None and row.second_call is not None
    assert row.ready is not None and row.process is not None
    assert row.second_call < row.first_call < row.process


def test_a_peer_that_fails_says_why() -> None:
    row = measure(Task("broken", "NumPy", "no_such_name\n"), repeats=1, limit=60)
    assert row == CompileRow(
        "broken", "NumPy", failure="NameError: name 'no_such_name' is not defined"
    )


def test_a_peer_that_takes_too_long_is_stopped() -> None:
    row = measure(Task("endless", "NumPy", "while True: pass\n"), repeats=1, limit=1)
    assert row.failure == "over 1 s"


def test_the_time_loop_is_measured_at_each_length() -> None:
    subjects = {task.subject for task in tasks(statements=[5, 10], nodes=[])}
    assert {"time loop, 5 stencils", "time loop, 10 stencils"} <= subjects


@pytest.mark.parametrize("statements", [1, 5])
def test_the_time_loop_has_a_statement_for_each_stencil(statements: int) -> None:
    assert time_loop(statements).count("[1:-1, 1:-1] = ") == statements
    assert time_loop(statements, for_jax=True).count(".at[1:-1, 1:-1].set(") == statements


@pytest.mark.parametrize("count", [1, 5])
def test_the_chain_of_sines_is_as_long_as_asked_for(count: int) -> None:
    assert sines(count).count("np.sin(") == sines(count, for_jax=True).count("jnp.sin(") == count


@pytest.mark.parametrize("count", [1, 5])
def test_there_are_as_many_updates_under_masks_as_asked_for(count: int) -> None:
    assert masked(count).count("] = x[") == count
    assert masked(count, for_jax=True).count("jnp.where(") == count
