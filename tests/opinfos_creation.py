"""Samples of what makes arrays."""

from __future__ import annotations

from collections.abc import Iterator

from op_samples import OpInfo, row
from sample_arrays import DTYPES

__all__ = ["creation_rows"]

_SIZES = ((3,), (0,), (1,), (-1,))


def creation_rows() -> Iterator[OpInfo]:
    yield from _filled_rows()
    yield from _ranges_rows()
    yield from _places_rows()
    yield from _matrices_rows()


def _filled_rows() -> Iterator[OpInfo]:
    yield row(
        "np::empty", "np.empty((i, 2)).shape", "z = np.empty(i)\nz[:] = 1\nreturn z", numbers=_SIZES
    )
    yield row("np::empty_function", "np.empty((2, i), dtype=np.int8).dtype", numbers=_SIZES)
    for name in ("zeros", "ones"):
        yield row(
            f"np::{name}",
            f"np.{name}(i)",
            f"np.{name}((i, 2))",
            f"np.{name}((2, 3), int)",
            f"np.{name}(i, dtype=bool)",
            f"np.{name}((i,), np.complex64)",
            f"np.{name}((i, i), order='F')",
            numbers=_SIZES,
        )
    for name in ("zeros_like", "ones_like"):
        yield row(
            f"np::{name}",
            f"np.{name}(x)",
            f"np.{name}(x, dtype=np.float32)",
            f"np.{name}(x, shape=(2, 2))",
            f"np.{name}(s)",
            dtypes=DTYPES,
            layouts=True,
        )
    yield row(
        "np::empty_like",
        "np.empty_like(x).shape",
        "z = np.empty_like(x)\nz[...] = 3\nreturn z",
        layouts=True,
    )
    yield row("np::full", "np.full((2, 2), 7)", "np.full(3, 2.5) + v[:3]")
    yield row(
        "np::full_function",
        "np.full((2, i), 7)",
        "np.full(i, a)",
        "np.full(3, s)",
        "np.full((2, 2), 2.5, dtype=int)",
        "np.full(2, 300, np.int8)",
        "np.full((2, 4), v)",
        "np.full(2, flag)",
        "np.full(2, i, np.float32)",
        dtypes="?bfD",
    )
    yield row(
        "np::full_like",
        "np.full_like(x, 2)",
        "np.full_like(x, s)",
        "np.full_like(x, 2.5)",
        "np.full_like(x, a, dtype=np.float32)",
        dtypes="?bfD",
        layouts=True,
    )


def _ranges_rows() -> Iterator[OpInfo]:
    yield row("np::iota", "np.arange(7)", "np.arange(i) * 2", numbers=_SIZES)
    yield row(
        "np::arange",
        "np.arange(i)",
        "np.arange(i, 9)",
        "np.arange(9, i, -2)",
        "np.arange(2, i * 4, 3)",
        "np.arange(0.0, 1.0, 0.1)",
        "np.arange(5, dtype=np.float32)",
        "np.arange(i, dtype=np.int8)",
        "np.arange(0.5, i)",
        "np.arange(-1.7, 2)",
        "np.arange(3.0)",
        "np.arange(20, 1, i - 3)",
        "np.arange(np.int64(i))",
        "np.arange(np.int64(i), 9)",
        "np.arange(9, np.int64(i), np.int64(-2))",
        "np.arange(np.int32(i))",
        "np.arange(np.uint8(i), dtype=np.float32)",
        "np.arange(np.float64(i) / 2)",
        numbers=_SIZES,
    )
    yield row(
        "np::arange",
        "np.arange(0, a, b)",
        "np.arange(a, 2.5, b, dtype=float)",
        "np.arange(a)",
        numbers=(
            (2.5, 0.3),
            (-1.0, 0.5),
            (3.0, -0.7),
            (1.0, 0.0),
            (2.0, float("inf")),
            (0.5, float("nan")),
            (1e-320, 1e300),
            (-1e-320, 1e300),
        ),
    )
    yield row(
        "np::linspace",
        "np.linspace(0, 1, 5)",
        "np.linspace(-1.5, 2, 7)",
        "np.linspace(0.0, 1.0, i)",
        "np.linspace(0, 10, 4, endpoint=False)",
        "np.linspace(1, 1, 3)",
        "np.linspace(2, -3)",
        "np.linspace(0, i, 5)",
        "np.linspace(-1, 1, i, dtype=np.float32)",
        "np.linspace(-3.7, 12.2, 2 * i, dtype=int)",
        "np.linspace(np.float64(0.1), 0.9, 1000)",
        "np.linspace(0.0, 5e-324, 7)",
        "np.linspace(i, 1, -1)",
        numbers=_SIZES,
    )
    yield row(
        "np::linspace",
        "np.linspace(a, b, 7)",
        "np.linspace(a, b, 1)",
        numbers=(
            (0.25, 1.75),
            (1e308, -1e308),
            (float("inf"), 0.0),
            (0.0, float("nan")),
            (2.0, 2.0),
        ),
    )


def _places_rows() -> Iterator[OpInfo]:
    yield row(
        "np::indices",
        "np.indices((i,))",
        "np.indices((3, i))",
        "np.indices([i, 2, 3], dtype=np.float32)",
        "z, y = np.indices((4, i), np.int8)\nreturn z * 2 - y",
        "np.indices((2, 0, i), bool)",
        "np.indices(())",
        "np.indices((3, i), sparse=True)",
        numbers=_SIZES,
    )
    yield row(
        "np::unravel_index",
        "np.unravel_index(i, (3, 4))",
        "np.unravel_index(np.int8(i), (2, 1, 3))",
        "np.unravel_index(i, [4])",
        "np.unravel_index(i, (0, 2))",
        "np.unravel_index(i, (2, -3))",
        "np.unravel_index(i, (-2, -3))",
        "np.unravel_index(i, ())",
        "np.unravel_index(i, 4)",
        "np.unravel_index(i, (3, 4), order='F')",
        "np.unravel_index(np.full(2, i), (3, 4))",
        "np.unravel_index(float(i), (3, 4))",
        "z = np.zeros(2)\nz[0] = 1\nj, k = np.unravel_index(5 * i, (3, 4))\nz[1] = j\nreturn z, k",
        numbers=_SIZES,
    )
    yield row(
        "np::ravel_multi_index",
        "np.ravel_multi_index((i, 2), (4, 5))",
        "np.ravel_multi_index((np.int16(2), i, 0), (3, 4, 2))",
        "np.ravel_multi_index([i], [4])",
        "np.ravel_multi_index((i, 2, 1), (4, 5))",
        "np.ravel_multi_index((0, 1), (i, 2))",
        "np.ravel_multi_index((0, 1), (2, i))",
        "np.ravel_multi_index((i, 7), (4, 5), mode='clip')",
        "np.ravel_multi_index((np.full(2, i), 1), (4, 5))",
        "np.ravel_multi_index((), ())",
        numbers=_SIZES,
    )
    yield row(
        "prim::getitem",
        "np.mgrid[0:i]",
        "np.mgrid[1:i:2]",
        "np.mgrid[0:i, 2:5]",
        "np.mgrid[i:4, :3:2, -1:i]",
        "np.mgrid[0:i, 0.5:2]",
        "np.mgrid[5:i]",
        numbers=_SIZES,
    )


def _matrices_rows() -> Iterator[OpInfo]:
    yield row(
        "np::ndarray",
        "np.ndarray((2, i), dtype=np.int8).dtype",
        "np.ndarray(i).shape",
        "np.ndarray(shape=(i,), dtype=np.float32).shape",
        "np.ndarray((i, 2), order='F').strides",
        numbers=_SIZES,
    )
    yield row(
        "np::eye",
        "np.eye(i)",
        "np.eye(3, 4, k=1)",
        "np.eye(3, k=-1, dtype=int)",
        "np.eye(i, i + 1)",
        "np.eye(3, -i)",
        numbers=_SIZES,
    )
    yield row("np::identity", "np.identity(i)", "np.identity(3, dtype=np.float32)", numbers=_SIZES)
    for name in ("tril", "triu"):
        yield row(
            f"np::{name}",
            f"np.{name}(x)",
            f"np.{name}(x, k=1)",
            f"np.{name}(x, -1)",
            dtypes="?bfD",
            layouts=True,
        )
