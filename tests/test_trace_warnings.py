# mypy: allow-untyped-defs, allow-untyped-calls
"""What a trace cannot follow: warnings at the user's lines, and checks that find the rest."""

import re
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import linalg

from jitcore import TracerWarning, TracingCheckError, nn, trace


def array(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape)


def warned(function, *examples, **options):
    """The messages of the warnings of a trace, and the lines of the function they point at."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trace(function, examples, **options)
    assert all(one.category is TracerWarning for one in caught)
    assert all(one.filename == __file__ for one in caught)
    first = function.__code__.co_firstlineno
    return [(str(one.message), one.lineno - first) for one in caught]


def test_conversions():
    def converting(x):
        int(x)
        y = x * 1
        if y:
            pass
        q = [x, x * 4]
        z = q[y]
        float(z)
        z.tolist()
        complex(z)
        for _ in np.ones((4, 4)):
            pass
        len(np.ones(3))
        return z + 4

    found = warned(converting, np.array(1))
    expected = [
        ("a Python integer", 1),
        ("a Python boolean", 3),
        ("a Python index", 6),
        ("a Python float", 7),
        ("a Python list", 8),
        ("a Python complex number", 9),
        ("Iterating over", 10),
        ("by len()", 12),
    ]
    assert [line for _, line in found] == [line for _, line in expected]
    for (message, _), (words, _) in zip(found, expected, strict=True):
        assert words in message
        assert "might cause the trace to be incorrect" in message


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * float(x.shape[0]),
        lambda x: sum(x[i] for i in range(x.shape[0])),
        lambda x: x if x.shape[0] > 2 else -x,
        lambda x: x if x.dtype == np.float64 else -x,
        lambda x: x if x.dtype.kind in "fc" else -x,
        lambda x: x * np.float32(x.sum()),
        lambda x: x + len(x),
        lambda x: x * (1 in x),
        lambda x: x * max(x.shape[0], 2),
        lambda x: x if np.allclose(x, 0) else -x,
        lambda x: np.stack([row * 2 for row in x]),
    ],
)
def test_python_values(function):
    with pytest.warns(TracerWarning):
        trace(function, array(3))


def test_libraries_convert_at_the_line_that_calls_them():
    def solved(x):
        return x @ linalg.inv(x)

    ((message, line), *_) = warned(solved, array(3, 3))
    assert "a NumPy array" in message
    assert line == 1


def test_each_line_warns_once():
    def looping(x):
        for _ in range(5):
            x = x + float(x[0])
        return x

    assert [line for _, line in warned(looping, array(3))] == [2]


def test_conversions_outside_a_trace_are_silent():
    traced = trace(lambda x: x * 2 + 1, array(3))
    assert float(traced(array(3))[0]) == array(3)[0] * 2 + 1


# Writes


def test_writes_to_views():
    def emptied(x):
        row = x.reshape(-1)
        row += -x.reshape(-1)
        return x

    ((message, line),) = warned(emptied, array(3, 4))
    assert "in-place write to a view" in message
    assert line == 2


def test_writes_to_subscripts_are_exact():
    def written(x):
        for i in range(3):
            x[i, :] = np.zeros(4)
            x[i, 1:] += i
        return x

    traced = trace(written, array(3, 4), check_inputs=[array(5, 4)])
    assert_array_equal(traced(array(5, 4)), written(array(5, 4)))


def test_views_of_what_the_function_made():
    def made(x):
        y = x.copy()
        row = y[0]
        row *= 2
        return y

    assert not warned(made, array(3, 4))


def test_what_the_trace_does_not_write():
    def noted(x, history):
        history.append(x)
        return x * 2

    messages = [message for message, _ in warned(noted, array(3), [array(3)])]
    assert any("changes 'history'" in message for message in messages)


LAST = None


def test_globals_that_are_assigned():
    def remembering(x):
        global LAST
        LAST = x * 2
        return x + 1

    ((message, _),) = warned(remembering, array(3), check_trace=False)
    assert "assigns 'LAST'" in message
    assert type(LAST) is np.ndarray


# Constants


def test_containers_from_outside_that_are_changed():
    seen: list[np.ndarray] = []
    counts: dict[str, Any] = {"calls": 0, "all": [0]}

    def noted(x):
        seen.append(x)
        counts["all"][0] += 1
        return x + len(counts)

    class Noting(nn.Module):
        def __init__(self):
            super().__init__()
            self.history: list[np.ndarray] = []
            self.last: dict[str, np.ndarray] = {}
            self.scales = [2.0, 3.0]

        def forward(self, x):
            self.history.append(x)
            self.last["x"] = x
            return x * self.scales[0]

    for subject, names in ((noted, ["counts", "seen"]), (Noting(), ["self.history", "self.last"])):
        with pytest.warns(TracerWarning) as caught:
            trace(subject, array(3), check_trace=False)
        texts = [str(one.message) for one in caught]
        found = [re.search(r"changes '([\w.]+)', a list or a dict", text) for text in texts]
        assert sorted(one[1] for one in found if one) == names
        assert all(one.filename == __file__ for one in caught)


def test_constants_that_come_from_inputs():
    def sharing(x):
        inside = x.__array_interface__ if hasattr(x, "__array_interface__") else None
        assert inside is None
        return x + np.asarray(memory[0])

    memory = [array(3)]
    trace(sharing, array(3))

    def leaking(x):
        return x + x._concrete

    ((message, line),) = warned(leaking, array(3))
    assert "shares memory with an input" in message
    assert line == 1


def test_outputs_that_are_constants():
    kept = [array(3)]
    ((message, _),) = warned(lambda x: (x, kept[0]), array(3))
    assert "becomes a constant" in message


# Checks


def test_results_that_do_not_match():
    def noisy(x):
        x[0] = np.random.rand(x.shape[1])
        return x

    messages = [message for message, _ in warned(noisy, array(3, 4))]
    assert "nondeterministic" in messages[0]
    assert "random.rand" in messages[0]
    assert (
        "Output nr 1. of the traced function does not match the corresponding output"
        in (messages[1])
    )
    assert "and 3 other places" in messages[1]
    assert "does not leave its argument 'x' as the Python function does" in messages[2]


def test_a_generator_without_a_seed():
    def noisy(x):
        return x + np.random.default_rng().random(3), x

    messages = [message for message, _ in warned(noisy, array(3))]
    assert "Output nr 1." in messages[-1]


def test_loops_over_a_shape():
    def loop_in_traced_fn(x):
        result = x[0]
        for i in range(x.shape[0]):
            result = result * x[i]
        return result

    others = [array(4, 5, 6), array(2, 3, 4)]
    with pytest.raises(TracingCheckError) as error, pytest.warns(TracerWarning, match="index"):
        trace(loop_in_traced_fn, array(3, 4, 5), check_inputs=others)
    text = str(error.value)
    assert "Graphs differed across invocations!" in text
    assert "Graph diff:" in text
    assert re.search(r"^\t\t\+ .*prim::mul\(%result", text, re.MULTILINE)
    assert "First diverging operator:" in text
    line = loop_in_traced_fn.__code__.co_firstlineno
    assert f"test_trace_warnings.py:{line + 3}:" in text or f"py:{line + 4}:" in text
    assert "return result" in text or "result = result * x[i]" in text


def test_branches():
    def branching(x):
        if x.sum() > 0:
            return x * 2
        return x - 1

    with pytest.warns(TracerWarning, match="a Python boolean"):
        trace(branching, array(3))
    with pytest.raises(TracingCheckError) as error, pytest.warns(TracerWarning):
        trace(branching, np.ones(3), check_inputs=[-np.ones(3)])
    text = str(error.value)
    first = branching.__code__.co_firstlineno
    assert f"Trace source location:\n  {__file__}:{first + 2}:19" in text
    assert "\n    return x * 2\n" in text
    assert f"Check source location:\n  {__file__}:{first + 3}:15" in text


def test_state_that_is_kept():
    cache: list[np.ndarray] = []

    def cached(x):
        if not cache:
            cache.append(np.negative(x))
        return x + cache[0]

    with (
        pytest.raises(TracingCheckError, match="Graphs differed across invocations!"),
        pytest.warns(TracerWarning, match="changes 'cache'"),
    ):
        trace(cached, array(3, 4), check_inputs=[array(3, 4)])


def test_constants_that_differ():
    def hidden(x):
        return x + x._concrete.copy()

    with pytest.raises(TracingCheckError, match="constants differed in value") as error:
        trace(hidden, array(3), check_inputs=[array(3) + 1])
    assert "return x + x._concrete.copy()" in str(error.value)


def test_numbers_that_differ():
    def scaled(x):
        return x * float(x[0])

    with pytest.raises(TracingCheckError) as error, pytest.warns(TracerWarning):
        trace(scaled, array(3), check_inputs=[array(3) + 1])
    assert "prim::Constant" in str(error.value)


def test_structures_that_differ():
    with pytest.raises(TracingCheckError, match="Graphs differed"):
        trace(lambda xs: xs[0] * 2, ([array(2)],), check_inputs=[([array(2), array(2)],)])


def test_a_check_that_is_left_out():
    calls = 0

    def counted(x):
        nonlocal calls
        calls += 1
        return x * 2

    trace(counted, array(3), check_trace=False)
    assert calls == 1
    trace(counted, array(3))
    assert calls == 3


def test_tolerance():
    def noisy(x):
        return x + np.random.rand(3)

    trace(noisy, array(3), check_tolerance=2.0)
    assert "tolerance of 1e-05" in warned(noisy, array(3))[-1][0]
