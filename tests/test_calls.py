"""Calls: arguments of every kind, captured names, threads, and bad input."""

# The functions under test are plain NumPy, as users write them.
# mypy: allow-untyped-defs, allow-untyped-calls

import copy
import pickle
import threading
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from jitcore import Error, script, strict_fusion

SCALE: Any = 3.0
TABLE: Any = np.arange(4.0)
OPTIONS = {"k": 2}


def same(f, *args, **kwargs):
    """The scripted function does what the plain one does; gives the result."""
    g = f if hasattr(f, "__wrapped_function__") else script(f)
    plain = g.__wrapped_function__
    try:
        expected = plain(*args, **kwargs)
    except Exception as error:
        for _ in range(2):
            with pytest.raises(type(error)) as caught:
                g(*args, **kwargs)
            assert str(caught.value) == str(error)
        return None
    for _ in range(2):
        result = g(*args, **kwargs)
        assert type(result) is type(expected)
        if isinstance(expected, np.ndarray):
            assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)
    return result


def poly(x, a=2.0, *, b=1):
    return x * a + b


def test_defaults_and_keywords():
    f = script(poly)
    x = np.arange(5.0)
    same(f, x)
    same(f, x, 3)
    same(f, x, b=4)
    same(f, a=1.5, x=x)


@pytest.mark.parametrize("args", [(), (1, 2, 3)])
def test_wrong_argument_counts(args):
    same(poly, *args)


def test_unknown_keyword():
    same(poly, 1.0, c=3)


def total(x, *rest):
    for one in rest:
        x = x + one
    return x


def test_variadic_parameters():
    f = script(total)
    same(f, np.ones(3))
    same(f, np.ones(3), 1, np.arange(3))
    same(f, np.ones(3), 1)


def test_a_global_number_that_changes():
    global SCALE

    def f(x):
        return x * SCALE + x

    g = script(f)
    x = np.arange(3.0)
    same(g, x)
    try:
        SCALE = 5
        same(g, x)
        SCALE = np.float32(2)
        same(g, x)
    finally:
        SCALE = 3.0
    same(g, x)


def test_a_module_that_a_global_no_longer_names():
    first, second = ModuleType("first"), ModuleType("second")
    vars(first)["k"], vars(second)["k"] = 2.0, 5.0
    holder: Any = first

    def scaled(x):
        return x * holder.k

    f = script(scaled)
    same(f, np.ones(3))
    holder = second
    same(f, np.ones(3))


def test_a_global_array_is_read_at_each_call():
    global TABLE

    def f(x):
        return x * TABLE + TABLE[1]

    g = script(f)
    x = np.arange(4.0)
    same(g, x)
    TABLE[1] = 7
    same(g, x)
    try:
        TABLE = np.arange(4)
        same(g, x)
    finally:
        TABLE = np.arange(4.0)


def test_a_closure():
    k = 2.0

    def f(x):
        return x * k + k

    g = script(f)
    same(g, np.arange(3.0))
    k = 4
    same(g, np.arange(3.0))


def test_a_redefined_helper():
    def plus(x):
        return x + 1

    def minus(x):
        return x - 1

    helper = plus

    def f(x):
        return helper(x) * 2

    g = script(f)
    same(g, np.arange(3.0))

    helper = minus
    same(g, np.arange(3.0))


def _field_of(a):
    records = np.zeros(len(a), [("a", a.dtype), ("b", "i1")])
    records["a"] = a
    return records["a"]


def chain(x, y):
    return (x + y) * x - y


class Doubling(np.ndarray):
    """An array whose multiplication is something else."""

    def __mul__(self, other):
        return np.ndarray.__mul__(self, other) * 2


ODD_ARRAYS = {
    "strided": lambda a: np.repeat(a, 2)[::2],
    "negative": lambda a: a[::-1].copy()[::-1],
    "byte-swapped": lambda a: a.astype(a.dtype.newbyteorder()),
    "misaligned": lambda a: np.frombuffer(b"\0" + a.tobytes(), a.dtype, offset=1),
    "object": lambda a: a.astype(object),
    "float16": lambda a: a.astype(np.float16),
    "longdouble": lambda a: a.astype(np.longdouble),
    "read-only": lambda a: np.broadcast_to(a, a.shape),
    "zero-stride": lambda a: np.broadcast_to(a[:1], a.shape),
    "empty": lambda a: a[:0],
    "one": lambda a: a[:1],
    "subclass": lambda a: a.view(Doubling),
    "masked": lambda a: np.ma.masked_array(a, a > 2),
    "field": lambda a: _field_of(a),
    "zero-dimensional": lambda a: np.array(a[1]),
    "scalar": lambda a: a[1],
    "python": lambda a: float(a[1]),
    "list": lambda a: a.tolist(),
    "string": lambda a: "a",
    "none": lambda a: None,
    "datetime": lambda a: a.astype("datetime64[s]"),
}


@pytest.mark.parametrize("first", ODD_ARRAYS)
def test_odd_arguments(first):
    a = np.arange(5.0)
    x = ODD_ARRAYS[first](a)
    f = script(chain)
    for args in ((x, x), (x, a), (a, x)):
        try:
            expected = chain(*args)
        except Exception as error:
            with pytest.raises(type(error)):
                f(*args)
            continue
        result = f(*args)
        assert type(result) is type(expected)
        np.testing.assert_array_equal(result, expected)


def write(x, y):
    x += y
    x[1:] = x[:-1] * 2
    return x


@pytest.mark.parametrize(
    "views",
    [
        lambda b: (b[:5], b[5:10]),
        lambda b: (b[:5], b[:5]),
        lambda b: (b[:5], b[1:6]),
        lambda b: (b[4::-1], b[:5]),
        lambda b: (b[:10:2], b[1:10:2]),
    ],
)
def test_arguments_that_overlap(views):
    f = script(write)
    for _ in range(2):
        one, two = np.arange(12.0), np.arange(12.0)
        expected, result = write(*views(one)), f(*views(two))
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(expected, result)


def test_the_argument_itself_comes_back():
    f = script(write)
    x = np.arange(4.0)
    assert f(x, np.ones(4)) is x
    assert f(x, np.ones(4)) is x


def test_read_only_targets():
    x = np.arange(4.0)
    x.setflags(write=False)
    same(write, x, np.ones(4))


def test_big_ints_run_in_python():
    def f(n):
        return n * n + 1

    same(f, 3)
    same(f, 2**62)
    same(f, 2**70)
    same(f, -(2**63))


def test_division_by_zero_is_pythons():
    def f(a, b):
        return a // b + a % b

    same(f, 7, 2)
    same(f, 7, 0)
    same(f, 7.5, 0.0)
    same(f, -7, 2)


def test_index_errors_are_numpys():
    def f(x, i):
        return x[i] * 2

    same(f, np.arange(3.0), 2)
    same(f, np.arange(3.0), -3)
    same(f, np.arange(3.0), 3)


def test_errors_after_writing_leave_what_was_written():
    def f(x, n):
        for i in range(n):
            x[i] = i
        return x

    g = script(f)
    one, two = np.zeros(3), np.zeros(3)
    for h, x in ((f, one), (g, two)):
        with pytest.raises(IndexError, match="index 3 is out of bounds for axis 0 with size 3"):
            h(x, 5)
    np.testing.assert_array_equal(one, two)


def test_shapes_that_do_not_broadcast():
    same(chain, np.ones(3), np.ones(4))


def test_errstate_raise_is_honoured():
    f = script(lambda_free_divide)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        f(np.ones(3), np.zeros(3))
    with np.errstate(divide="ignore"):
        assert np.isinf(f(np.ones(3), np.zeros(3))).all()


def lambda_free_divide(x, y):
    return x / y + x


def test_an_axis_is_compiled_in():
    def f(x, axis):
        return x.sum(axis=axis) * 2

    x = np.arange(12.0).reshape(3, 4)
    for axis in (0, 1, -1, None, (0, 1), 0, 2):
        same(f, x, axis)


def test_threads_share_one_function():
    f = script(chain)
    results: list[bool] = []

    def work(n):
        x = np.random.default_rng(n).random(n)
        results.extend(bool((f(x, x) == chain(x, x)).all()) for _ in range(50))

    threads = [threading.Thread(target=work, args=(5 + n % 3,)) for n in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(results) == 400 and all(results)


def test_script_is_idempotent_and_keeps_the_plain_function():
    f = script(chain)
    assert script(f) is f
    assert f.__wrapped__ is chain
    assert f.__name__ == "chain"


def test_methods():
    class Model:
        factor = 2.0

        @script
        def scaled(self, x):
            return x * self.factor + x

    np.testing.assert_array_equal(Model().scaled(np.ones(2)), [3.0, 3.0])


def test_a_method_is_bound_as_any_other():
    class Model:
        factor = 2.0

        @script
        def scaled(self, x):
            return x * self.factor

    model = Model()
    assert model.scaled.__self__ is model
    assert model.scaled.__name__ == "scaled"
    assert model.scaled == model.scaled


def test_keyword_only_parameters_are_not_positional():
    f = script(lambda x, *, k=1: x + k)
    assert f(3) == 4
    assert f(3, k=2) == 5
    same(f, 3, 2)


def test_a_tuple_is_one_argument_of_many():
    f = script(lambda *xs: len(xs))
    assert f(1, 2) == 2
    assert f((1, 2)) == 1
    assert f() == 0
    assert f(()) == 1


named = script(poly)
named.__qualname__ = "named"


def test_pickled_in_one_process_it_is_its_own_copy():
    assert pickle.loads(pickle.dumps(named)) is named
    assert copy.copy(named) is named
    assert copy.deepcopy([named]) == [named]


def folded_hash(data):
    result = 0xCBF29CE484222325
    for byte in data:
        result = ((result ^ int(byte)) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return result


def test_constants_of_more_than_64_bits():
    same(folded_hash, np.arange(20, dtype=np.uint8))
    for dtype in (np.int8, np.uint64, np.float32):
        same(lambda x: (x < 1000) & (x != 2**70), np.ones(3, dtype))


def stored(x, value):
    x[1:] = value
    return x


def filled(x, value):
    x.fill(value)
    return x


@pytest.mark.parametrize("put", [stored, filled])
@pytest.mark.parametrize("value", [2j, np.uint64(2**63), np.complex64(2)])
@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.complex64])
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_values_that_an_array_cannot_hold(put, value, dtype):
    same(put, np.zeros(3, dtype), value)


@pytest.mark.parametrize("extent", [True, 2.0, np.float32(2), np.array(2), np.int8(2), (2,), "2"])
def test_extents_are_integers(extent):
    same(lambda n: np.zeros((n, 2)), extent)
    same(lambda n: np.arange(6.0).reshape(n, -1), extent)


def test_an_axis_is_no_bool():
    same(lambda x, axis: x.sum(axis=axis), np.ones((2, 3)), True)


def narrow(x):
    edges = np.histogram_bin_edges(x.sum(dtype=np.int16) + x.cumsum(dtype="i2"))
    return edges, x.sum(dtype=np.int16)


def test_a_region_keeps_the_accumulators_dtype():
    x = np.full(40, 100, np.uint8)
    for _ in range(2):
        edges, total = script(narrow)(x)
        assert type(total) is np.int16
        assert total == narrow(x)[1]
        np.testing.assert_array_equal(edges, narrow(x)[0])


def test_strict_fusion_beside_calls_of_python():
    @script
    def fused(x):
        edges = np.histogram_bin_edges(x)
        with strict_fusion():
            return np.exp(edges * 2 + 1) - edges

    @script
    def unfused(x):
        edges = np.histogram_bin_edges(x)
        with strict_fusion():
            return np.concatenate((edges * 2 + 1, edges))

    x = np.arange(4.0)
    edges = np.histogram_bin_edges(x)
    np.testing.assert_allclose(fused(x), np.exp(edges * 2 + 1) - edges, rtol=1e-15)
    with pytest.raises(Error, match=r"np::concatenate_function at .*test_calls\.py"):
        unfused(x)


def in_place(x):
    x += 1


def into_another(x, y):
    y[:] = x + 1


def converted(x):
    return x * 0.5


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (in_place, (np.ones(1000),)),
        (into_another, (np.ones(1000), np.ones(1000))),
        (into_another, (np.ones(1000), np.ones(1000, np.float32))),
        (converted, (np.ones(1000, np.int32),)),
    ],
)
def test_one_operation_with_a_cast_or_a_store_needs_no_temporary(function, args):
    f = script(function)
    own = copy.deepcopy(args)
    np.testing.assert_array_equal(f(*args), function(*own))
    np.testing.assert_array_equal(args[-1], own[-1])
    assert "malloc" not in f.kernels[0].source
