"""Try many random programs: ``python tests/fuzz.py --count 5000 [--seed 1]``."""

from __future__ import annotations

import argparse
import multiprocessing
import random
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from program_shrinking import Lines, shrink

from checking import Tolerance, check_within, function_from_source
from jitcore.script import script as default_script
from programs import Program, random_program

__all__ = ["failure_of", "main"]

Script = Callable[..., Any]


def failure_of(program: Program, script: Script | None = None) -> str | None:
    """What is wrong with a program, made as small as possible, as text; None where it works."""
    error = _error_of(program, script)
    if error is None:
        return None

    def still_fails(lines: Lines) -> bool:
        found = _error_of(replace(program, lines=lines), script)
        return found is not None and type(found) is type(error)

    small = replace(program, lines=shrink(program.lines, still_fails))
    left = _error_of(small, script) or error
    shown = "\n".join(
        f"# {name} = {arg!r}" for name, arg in zip(small.parameters, small.args, strict=True)
    )
    return f"seed {program.seed}: {type(left).__name__}: {left}\n{shown}\n{small.source}"


def _error_of(program: Program, script: Script | None) -> Exception | None:
    tolerance = Tolerance()
    if program.scale is not None:
        tolerance = Tolerance(64, 10 * program.scale, single=_has_singles(program))
    try:
        function = function_from_source(program.source)
        check_within(function, program.args, script or default_script, tolerance)
    except SyntaxError:
        # Leaving a line out broke the program.
        return None
    except Exception as error:
        return error
    return None


def _has_singles(program: Program) -> bool:
    """Whether something may be computed in single precision; NumPy does so for small integers."""
    dtypes = [arg.dtype for arg in program.args if isinstance(arg, np.ndarray)]
    return "float32" in program.source or any(dtype != np.float64 for dtype in dtypes)


def _try(seed: int) -> str | None:
    return failure_of(random_program(seed))


def main() -> int:
    """Run the programs on all cores; the exit status is 1 where one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    options = parser.parse_args()
    print(f"{options.count} programs from seed {options.seed}", flush=True)
    failures = 0
    seeds = range(options.seed, options.seed + options.count)
    with multiprocessing.get_context("spawn").Pool() as pool:
        for number, failure in enumerate(pool.imap_unordered(_try, seeds, chunksize=10), 1):
            if failure is not None:
                failures += 1
                print(f"\n{failure}", flush=True)
            if number % 500 == 0:
                print(f"{number} done, {failures} failed", flush=True)
    print(f"{failures} of {options.count} programs failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
