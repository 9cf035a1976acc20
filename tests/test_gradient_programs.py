# mypy: allow-untyped-defs, allow-untyped-calls
"""Gradients of programs: branches, loops, writes in place, containers and derivatives of them."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from gradient_checking import check_gradient, is_native

import jitcore

GENERATOR = np.random.default_rng(np.random.SeedSequence().entropy)


def normal(*shape: int) -> Any:
    return GENERATOR.normal(size=shape)


def branches(x, c):
    if c > 0:
        y = x * x
        z = np.sin(y)
    else:
        y = x * 3
        z = y
    return np.sum(z * y)


def branches_on_elements(x):
    total = x.sum()
    if total > 0:
        total = total * x[0]
    elif total < -2:
        total = total + x[1] * x[1]
    else:
        total = np.exp(total)
    return total


def elements(x, a):
    total = 0.0
    for i in range(len(x)):
        if x[i] > 0:
            total += x[i] ** 2 * a
        else:
            total -= np.sin(x[i]) * total
    return total


def recurrent(w, u, x):
    h = np.zeros(w.shape[0])
    for t in range(x.shape[0]):
        h = np.tanh(w @ h + u @ x[t])
    return np.sum(h**2)


def with_break(a):
    x = 1.0
    for _ in range(30):
        step = (x * x - a) / (2 * x)
        x = x - step
        if abs(step) < 1e-12:
            break
    return x


def endless(x):
    count = 0
    while np.sum(x * x) > 0.1:
        x = x * 0.5 + 0.01 * np.sin(x)
        count += 1
    return np.sum(x**3) * count + x[0]


def triangle(x):
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(i):
            d = x[i] - x[j]
            total += np.sqrt(d * d + 1) * total + d
    return total


def rectangle(x, y):
    total = 1.0
    for i in range(x.shape[0]):
        inner = 0.0
        for j in range(y.shape[0]):
            inner = np.sin(inner * y[j] + x[i]) * total
        total = total + inner * inner
    return total


def cholesky(a):
    n = a.shape[0]
    factor = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            s = a[i, j]
            for k in range(j):
                s -= factor[i, k] * factor[j, k]
            if i == j:
                factor[i, j] = np.sqrt(s)
            else:
                factor[i, j] = s / factor[j, j]
    return np.sum(np.sin(factor))


def stored(x):
    out = np.empty_like(x)
    out[0] = x[0]
    for i in range(1, len(x)):
        out[i] = out[i - 1] * x[i] + x[i]
    out[2:] *= 3
    part = out[::2]
    part += x[::2] * out[0]
    return np.sum(out**2)


def stencil(u, k):
    u = u.copy()
    for _ in range(4):
        u[1:-1] = u[1:-1] + k * (u[2:] - 2 * u[1:-1] + u[:-2]) * u[1:-1]
    return np.sum(u**2)


def overwritten(x):
    y = x * 2
    y += x
    y *= y
    y[1] = 5
    y[y > 3] = 0
    z = y.copy()
    z[np.array([0, 2, 2])] = x[:3]
    return np.sum(y * z)


def boundary(x):
    for _ in range(3):
        y = x * 0.9
        y[0] = 1.5
        x = y
    return np.sum(x**2)


def views(x):
    y = np.zeros((2, 3))
    flat = y.reshape(6)
    flat[2] = x[0]
    flat[3:] = x[:3]
    turned = y.T
    turned[0] *= x[1]
    return np.sum(y**3)


def matrices(a, x):
    for k in range(3):
        b = np.zeros_like(a)
        for i in range(a.shape[0]):
            b[i] = a[i] * x[k] + a[:, i]
        a = b @ a * 0.3
    return a.sum()


def several_rows(x):
    rows = []
    for i in range(4):
        rows.append(x * i)
    return np.sum(np.stack(rows) ** 2)


def skipped(x):
    total = 0.0
    for v in x:
        if v < 0:
            continue
        if v > 2:
            break
        total += v * v
    else:
        total *= 2
    return total


VECTORS = [branches_on_elements, triangle, stored, overwritten, boundary, views, skipped]


@pytest.mark.parametrize("function", [*VECTORS, endless, several_rows])
def test_programs_of_one_vector(function: Any) -> None:
    check_gradient(function, normal(6) + 0.3)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_branches(sign: float) -> None:
    check_gradient(branches, normal(3), sign, argnums=(0,))


def test_branches_that_elements_decide() -> None:
    for shift in (-2.0, -0.1, 2.0):
        check_gradient(branches_on_elements, normal(4) * 0.1 + shift)


def test_loops() -> None:
    check_gradient(elements, normal(7), 0.7)
    check_gradient(recurrent, normal(3, 3), normal(3, 2), normal(5, 2))
    check_gradient(with_break, 2.0)
    check_gradient(rectangle, normal(4), normal(3))
    check_gradient(stencil, normal(7), 0.1)
    check_gradient(matrices, normal(3, 3), normal(3))


def test_loops_over_arrays_of_any_shape_are_native() -> None:
    """What a loop keeps has extents that only exact shapes tell."""
    compiled = jitcore.grad(recurrent, argnums=(0, 1, 2))
    for size, width, count in [(3, 2, 5), (4, 3, 6), (5, 4, 7), (2, 1, 3), (3, 2, 5)]:
        args = normal(size, size), normal(size, width), normal(count, width)
        expected = compiled.__wrapped_function__(*args)
        for one, two in zip(compiled(*args), expected, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-12)
    assert is_native(compiled)


def test_loops_in_triangles() -> None:
    x = normal(4, 4)
    check_gradient(cholesky, x @ x.T + np.eye(4))


@pytest.mark.parametrize("count", [0, 1, 2, 9, 30])
def test_loops_of_any_length(count: int) -> None:
    """The tape of a loop in a triangle grows."""
    x = normal(count) * 0.1
    gradient = jitcore.grad(triangle)(x)
    interpreted = jitcore.grad(triangle).__wrapped_function__(x)
    np.testing.assert_allclose(gradient, interpreted, rtol=1e-9, atol=1e-12)


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def test_gradients_of_gradients() -> None:
    x = normal(5)
    hessian = jitcore.grad(lambda x, v: np.sum(jitcore_gradient(x) * v))
    columns = np.array([hessian(x, one) for one in np.eye(5)])
    wide = np.zeros((5, 5))
    for i in range(4):
        wide[i, i] += 1200 * x[i] ** 2 - 400 * x[i + 1] + 2
        wide[i + 1, i + 1] += 200
        wide[i, i + 1] = wide[i + 1, i] = -400 * x[i]
    np.testing.assert_allclose(columns, wide, rtol=1e-9, atol=1e-9)
    assert is_native(hessian)


jitcore_gradient = jitcore.grad(rosenbrock)


def test_third_derivatives_of_numbers() -> None:
    third = jitcore.grad(jitcore.grad(jitcore.grad(lambda x: x**3 * math.sin(x))))
    x = 0.7
    s, c = math.sin(x), math.cos(x)
    assert third(x) == pytest.approx(6 * s + 18 * x * c - 9 * x * x * s - x**3 * c)
    assert type(third(x)) is float


def descend(x, steps):
    for _ in range(steps):
        _, gradient = rosenbrock_with_gradient(x)
        x = x - 1e-4 * gradient
    return x


rosenbrock_with_gradient = jitcore.value_and_grad(rosenbrock)


def test_compiled_functions_call_gradients() -> None:
    x = normal(6)
    compiled = jitcore.script(descend)
    np.testing.assert_allclose(compiled(x, 20), descend(x, 20), rtol=1e-10)
    assert is_native(compiled)


def network(parameters, x, y):
    for layer in parameters["hidden"]:
        x = np.tanh(x @ layer["weight"] + layer["bias"])
    scores = x @ parameters["out"][0]
    if "bias" in parameters:
        scores = scores + parameters["bias"]
    return np.mean((scores - y) ** 2)


def test_parameters_in_dicts_and_lists() -> None:
    hidden = [{"weight": normal(3, 4), "bias": normal(4)}, {"weight": normal(4, 4), "bias": 0.5}]
    parameters = {"hidden": hidden, "out": (normal(4, 2),), "bias": normal(2)}
    x, y = normal(5, 3), normal(5, 2)
    compiled = jitcore.value_and_grad(network)
    for run in (compiled, compiled.__wrapped_function__):
        value, gradient = run(parameters, x, y)
        assert value == pytest.approx(network(parameters, x, y))
        assert gradient.keys() == parameters.keys()
        assert type(gradient["hidden"]) is list
        assert type(gradient["out"]) is tuple
        assert type(gradient["hidden"][1]["bias"]) is float
        for step in (1e-5, -1e-5):
            moved = {**parameters, "bias": parameters["bias"] + step}
            change = network(moved, x, y) - value
            assert change == pytest.approx(step * gradient["bias"].sum(), rel=1e-3, abs=1e-9)
        found = gradient["hidden"][0]["weight"]
        hidden[0]["weight"] += 1e-5 * found
        change = network(parameters, x, y) - value
        hidden[0]["weight"] -= 1e-5 * found
        assert change == pytest.approx(1e-5 * np.sum(found**2), rel=1e-3)


def test_keywords_defaults_and_what_goes_with_the_value() -> None:
    def scaled(x, k=2.0):
        return np.sum(x**2) * k, x * 2

    function = jitcore.value_and_grad(scaled, has_aux=True)
    (value, more), gradient = function(x=np.ones(2), k=3.0)
    assert (value, more.tolist(), gradient.tolist()) == (6.0, [2.0, 2.0], [6.0, 6.0])
    gradient, more = jitcore.grad(scaled, has_aux=True)(np.ones(2))
    assert (gradient.tolist(), more.tolist()) == ([4.0, 4.0], [2.0, 2.0])


def test_several_gradients_are_arrays_of_their_own() -> None:
    one, two = jitcore.grad(lambda x, y: np.sum(x + y), argnums=(0, 1))(np.ones(3), np.ones(3))
    one[0] = 7
    assert (one.tolist(), two.tolist()) == ([7, 1, 1], [1, 1, 1])


def test_gradients_are_pickled_as_their_functions() -> None:
    x = normal(4)
    compiled = pickle.loads(pickle.dumps(jitcore_gradient))
    np.testing.assert_array_equal(compiled(x), jitcore_gradient(x))
    with pytest.raises(jitcore.SerializationError, match="Derivative"):
        jitcore_gradient.save_to_buffer()


def test_arguments_in_containers_are_explained() -> None:
    compiled = jitcore.value_and_grad(lambda p, x: np.sum((x @ p["w"]) ** 2))
    arguments = {"w": normal(3, 2)}, normal(4, 3)
    assert "one native function" in str(compiled.explain(*arguments))
    assert "np::matmul" in str(compiled.graph_for(*arguments))


SCALE = np.arange(3.0)


def scaled_by_global(x):
    return np.sum(SCALE * x)


def test_globals_are_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    gradient = jitcore.grad(scaled_by_global)
    assert gradient(np.ones(3)).tolist() == SCALE.tolist()
    monkeypatch.setitem(globals(), "SCALE", np.array([5.0, 6.0, 7.0]))
    assert gradient(np.ones(3)).tolist() == [5.0, 6.0, 7.0]


def test_what_does_not_depend_on_an_argument_has_gradient_zero() -> None:
    x = np.ones(3, np.float32)
    gradient = jitcore.grad(lambda x: np.floor(x).sum() + np.argmax(x) * 1.0)(x)
    assert (gradient.dtype, gradient.tolist()) == (np.float32, [0, 0, 0])


def write_to_argument(x):
    x[0] = 3
    return x.sum()


def write_to_chosen(x):
    y = x * 2 if x[0] > 0 else x * 3
    y[0] = 1
    return y.sum()


def give_array(x):
    return x * 2


def give_int(x):
    return int(x[0])


def transform(x):
    return np.fft.fft(x).real.sum()


REFUSALS = [
    (write_to_argument, "'write_to_argument' writes to its argument x", "x[0] = 3"),
    (write_to_chosen, "an array is written in place that comes from", "y[0] = 1"),
    (give_array, "has to return one float to be differentiated; it returns Float64[2]", "x * 2"),
    (give_int, "has to return one float to be differentiated; it returns int", "int(x[0])"),
    (transform, "there is no gradient of", "np.fft.fft(x)"),
]


@pytest.mark.parametrize(("function", "message", "line"), REFUSALS)
def test_refusals_show_the_place(function: Any, message: str, line: str) -> None:
    gradient = jitcore.grad(function)
    with pytest.raises(jitcore.CompilationError) as raised:
        gradient(np.ones(2))
    text = str(raised.value)
    assert message in text
    assert line in text
    assert "^" in text


def element(x, i):
    return x[i] * np.sum(x)


def other_shape(x, i):
    return np.sum(x.reshape(i))


@pytest.mark.parametrize("function", [element, other_shape])
def test_exceptions_are_those_of_the_function(function: Any) -> None:
    x = normal(4)
    compiled = jitcore.grad(function)
    with pytest.raises((IndexError, ValueError)) as expected:
        function(x, 7)
    for _ in range(2):
        with pytest.raises(type(expected.value)):
            compiled(x, 7)
    assert jitcore.grad(element)(x, 2).shape == (4,)
    with pytest.raises(IndexError):
        jitcore.grad(lambda x: x[5] * 2.0)(x)


@pytest.mark.parametrize("argument", [3, np.arange(3), np.ones(3, bool), np.ones(2, complex)])
def test_gradients_are_with_respect_to_floats(argument: Any) -> None:
    with pytest.raises(jitcore.CompilationError, match="with respect to argument 0"):
        jitcore.grad(lambda x: np.sum(x * 1.0))(argument)


@pytest.mark.parametrize("argnums", [1, -2, (), (0, 0), 0.5])
def test_argnums_are_checked(argnums: Any) -> None:
    with pytest.raises(ValueError, match="argnums"):
        jitcore.grad(rosenbrock, argnums=argnums)


def test_numerics_and_errstate() -> None:
    x = normal(9)
    plain = jitcore.grad(rosenbrock)(x)
    np.testing.assert_allclose(jitcore.grad(rosenbrock, numerics="contract")(x), plain, rtol=1e-12)
    with np.errstate(all="raise"):
        np.testing.assert_allclose(jitcore.grad(rosenbrock)(x), plain, rtol=1e-12)


INTERPRETED = """
import numpy as np
import jitcore


def cube(x):
    return np.sum(x**3)


first = jitcore.grad(cube)
second = jitcore.grad(lambda x: np.sum(first(x) * x))
print(first(np.ones(2)), second(np.ones(2)), type(first).__name__)
"""


def test_without_compilation_the_interpreter_runs(tmp_path: Any) -> None:
    file = tmp_path / "program.py"
    file.write_text(INTERPRETED)
    done = subprocess.run(
        [sys.executable, str(file)],
        env={"JITCORE_JIT": "0", "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[3. 3.] [9. 9.] function\n"


def test_importing_jitcore_leaves_gradients_alone() -> None:
    program = "import jitcore, sys; print([m for m in sys.modules if 'gradients' in m])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
