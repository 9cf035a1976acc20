"""Graphs and kernels of small functions are those in ``tests/golden``.

A change of what is generated shows as a difference of these files, to be read in a review.
``pytest tests/test_golden.py --update-golden`` writes them anew.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import golden_functions as functions
import numpy as np
import pytest

from jitcore import fusion_strategy, script
from jitcore.codegen.printers.llvm import print_module
from jitcore.pipeline import NativePlan

FOLDER = Path(__file__).parent / "golden"

FLOATS = np.ones((6, 8), np.float32)
DOUBLES = np.ones((6, 8))
LINE = np.ones(64)

# The arguments, and the kind of specialization.
CASES: list[tuple[Callable[..., Any], tuple[Any, ...], Any]] = [
    (functions.chain, (FLOATS, FLOATS), "STATIC"),
    (functions.broadcast, (DOUBLES, np.ones(8), np.ones((6, 1))), "DYNAMIC"),
    (functions.choice, (FLOATS, 2.0), "STATIC"),
    (functions.mixed_dtypes, (np.ones(9, np.int16), np.ones(9, np.int32)), "DYNAMIC"),
    (functions.strided, (DOUBLES[:, ::-1],), "DYNAMIC"),
    (functions.store_in_place, (np.ones(64), np.ones(64)), "STATIC"),
    (functions.reduction, (FLOATS, FLOATS), "DYNAMIC"),
    (functions.softmax, (FLOATS,), "STATIC"),
    (functions.layer_norm, (FLOATS, FLOATS[0], FLOATS[1]), "STATIC"),
    (functions.heat, (LINE, 3), "STATIC"),
    (functions.complex_power, (np.ones(9, np.complex64),), "DYNAMIC"),
    (functions.floor_division, (np.arange(9), np.int64(4)), "DYNAMIC"),
    (functions.newton, (2.0,), "STATIC"),
    (functions.two_results, (LINE,), "DYNAMIC"),
]


def generated(function: Callable[..., Any], args: tuple[Any, ...], kind: Any) -> str:
    """The text of a golden file."""
    compiled = script(function)
    with fusion_strategy([(kind, 1)]):
        fused = str(compiled.graph_for(*args))
    (made,) = compiled.specializations
    plan = made.plan
    assert isinstance(plan, NativePlan), "the function is to be native as a whole"
    loops = plan.kernel.lowered.function
    parts = {
        "graph": str(made.typed),
        "graph with fused groups": fused,
        "loops, as source for Numba": kernels(SOURCE, plan.kernel.source),
        "loops, as LLVM code before optimization": kernels(LLVM, print_module([loops])),
    }
    text = "\n\n".join(f"=== {title} ===\n{part}" for title, part in parts.items())
    # A number at the end tells kernels of one name apart.
    return text.replace(loops.name, function.__name__) + "\n"


SOURCE = re.compile(r"^@njit.*\ndef (\w+)\(.*\n(?:(?:    .*)?\n)*", re.MULTILINE)
LLVM = re.compile(r"^define .*@(\w+)\(.*\n(?:.*\n)*?}\n", re.MULTILINE)
VECTOR_MATH = re.compile(r"jcm_\w+|\w+_float(32|64)|\w+_u?int\d+")


def kernels(definition: re.Pattern[str], text: str) -> str:
    """The definitions of functions, but for those of vector math, which has its own tests."""
    found = [
        match[0].rstrip()
        for match in definition.finditer(text)
        if not VECTOR_MATH.fullmatch(match[1])
    ]
    assert found
    return "\n\n".join(found)


@pytest.mark.parametrize(("function", "args", "kind"), CASES)
def test_golden(
    function: Callable[..., Any], args: tuple[Any, ...], kind: Any, pytestconfig: pytest.Config
) -> None:
    path = FOLDER / f"{function.__name__}.txt"
    found = generated(function, args, kind)
    if pytestconfig.getoption("--update-golden"):
        path.write_text(found, encoding="utf-8")
    expected = path.read_text(encoding="utf-8") if path.exists() else ""
    if found != expected:
        changes = difflib.unified_diff(
            expected.splitlines(), found.splitlines(), f"golden/{path.name}", "generated now", n=3
        )
        listed = "\n".join(line.rstrip("\n") for line in changes)
        hint = "If this is meant, write it with: pytest tests/test_golden.py --update-golden"
        pytest.fail(f"{path.name} differs\n{listed}\n\n{hint}", pytrace=False)


def test_every_file_has_a_function() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == {case[0].__name__ for case in CASES}


def test_files_are_the_same_on_all_machines() -> None:
    """No address, no processor and no path is in them."""
    for path in FOLDER.iterdir():
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"inttoptr \(i64 [1-9]|target-cpu|x86|/|\\\\|numpy [0-9]", strip(text))


def strip(text: str) -> str:
    """The text without division signs and the comments that quote source."""
    without_comments = re.sub(r"[#;].*", "", text)
    return without_comments.replace(" / ", " ")
