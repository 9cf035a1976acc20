"""Samples of what arrays are made of, cut from and put together with."""

from __future__ import annotations

from collections.abc import Iterator

from op_samples import OpInfo, row
from sample_arrays import DTYPES

__all__ = ["creation_rows", "indexing_rows", "shapes_rows"]


def indexing_rows() -> Iterator[OpInfo]:
    yield row(
        "prim::getitem",
        "x[0]",
        "x[-1, 1]",
        "x[1:, ::-2]",
        "x[..., 0]",
        "x[None, :, 1]",
        "x[i]",
        "x[i, j]",
        "x[7]",
        "x[:, j:]",
        "x[0, 0, 0]",
        "x[i:j]",
        "x[s > 100]",
        "v[()]",
        "v[...]",
        "x[flag]",
        "x[-2:, :-1]",
        "x[5:2]",
        "x[::i]",
        dtypes="?bD",
        layouts=True,
    )
    yield row(
        "prim::setitem",
        "x[0] = v",
        "x[1:, 1] = s",
        "x[...] = 2",
        "x[0, 0] = s",
        "x[:, ::2] = y[:, 1::2]",
        "x[1:] = x[:-1]",
        "x[::-1] = x",
        "x[:] = x[:, ::-1]",
        "x[i] = 7",
        "x[5] = 1",
        "x[0] = 2.5",
        "x[1] = flag",
        "x[:2, :2] = x[:2, :2].T",
        "x[0] = v[:, None]",
        "x[0] += v",
        "x[1, :] = x.sum()",
        "x[:, 1] = np.int64(7)",
        "x[0] = np.float64(2.5)",
        "x[mask] += 1",
        "x[places] += 1",
        dtypes="?bflD",
        layouts=True,
    )
    yield row("np::view", "x[1:]", "x[i]", "x[:, -1]", "x[::2, ::-1].T", layouts=True)
    yield row("np::item", "x[0, 0]", "v[i]", "x.item(0)", "s.item()", dtypes=DTYPES)
    yield row(
        "np::gather",
        "x[places]",
        "x[:, places]",
        "x[places, places]",
        "x[places[:, None], 1]",
        "x[places, :2]",
        "x[places, None]",
        "x[places > 5]",
        "x[0, :, None][places]",
        "x[places + 9]",
        "x[[0, 1]]",
        "x[None, places, :, 0]",
        dtypes="?lD",
        layouts=True,
    )
    yield row(
        "np::scatter",
        "x[places] = 1",
        "x[places, places] = s",
        "x[:, places] = v",
        "x[places] = x[:1]",
        "x[places + 9] = 0",
        dtypes="lf",
        layouts=True,
    )
    yield row("np::store", "x[:] = y", "x[1:] = x[:-1] + 1", dtypes="lD", layouts=True)
    yield row(
        "np::compress",
        "x[mask]",
        "x[x > 0]",
        "v[v == v]",
        "x[v > 0]",
        "x[mask, None]",
        "x[mask[:, 0]]",
        dtypes="?lf",
        layouts=True,
    )
    yield row(
        "np::put_mask",
        "x[mask] = 0",
        "x[x < 0] = -x[x < 0]",
        "x[mask] = v[:2]",
        "x[mask[:, 0]] = v",
        dtypes="blf",
        layouts=True,
    )
    yield row("np::where", "np.where(mask, x, y)", dtypes=DTYPES, layouts=True, mixed=True)
    yield row(
        "np::where",
        "np.where(x, 1, y)",
        "np.where(mask, x, 2.5)",
        "np.where(x > 0, s, t)",
        "np.where(mask)",
        "np.where(flag, x, y)",
        "np.where(mask, 1, 2)",
        "np.where(mask, 1, 0.5)",
        dtypes="?bfD",
    )
    yield row(
        "np::clip",
        "np.clip(x, 1, 3)",
        "np.clip(x, 0.5, None)",
        "x.clip(-1, y)",
        "np.clip(x, s, t)",
        "np.clip(s, 1, 2)",
        "np.clip(x, 3, 1)",
        "x.clip(max=2)",
        "np.clip(x, 0, 1000)",
        dtypes="?bBifdD",
        layouts=True,
    )


def shapes_rows() -> Iterator[OpInfo]:
    every = {"dtypes": "?D", "layouts": True}
    yield row("np::transpose", "np.transpose(x)", "np.transpose(x, (1, 0))", "x.T", **every)
    yield row(
        "np::transpose_method",
        "x.transpose()",
        "x.transpose(1, 0)",
        "x.transpose((1, 0))",
        "x.transpose(0, 0)",
        **every,
    )
    yield row("np::swapaxes", "np.swapaxes(x, 0, 1)", "x.swapaxes(0, -1)", **every)
    yield row(
        "np::moveaxis", "np.moveaxis(x, 0, -1)", "np.moveaxis(x[None], (0, 1), (1, 2))", **every
    )
    yield row("np::check_reshape", "x.reshape(len(x), -1)", layouts=True)
    yield row(
        "np::reshape",
        "x.reshape(-1)",
        "x.reshape(2, -1)",
        "x.reshape((4, 3))",
        "x.reshape(len(x), -1, 1)",
        "x.reshape(5, 5)",
        "x.reshape(x.shape)",
        "x.reshape(-1, x.shape[-1])",
        **every,
    )
    yield row(
        "np::reshape_function",
        "np.reshape(x, -1)",
        "np.reshape(x, (6, 2))",
        "np.reshape(x, (2, 6), order='F')",
        **every,
    )
    yield row("np::ravel", "np.ravel(x)", "x.ravel()", "x.ravel('F')", **every)
    yield row("np::flatten", "x.flatten()", "x.flatten('F')", **every)
    yield row("np::expand_dims", "np.expand_dims(x, 0)", "np.expand_dims(x, (0, -1))", **every)
    yield row("np::squeeze", "np.squeeze(x)", "x[:1].squeeze(0)", "np.squeeze(x, axis=0)", **every)
    yield row("np::flip", "np.flip(x)", "np.flip(x, 0)", "np.flip(x, (0, 1))", **every)
    yield row(
        "np::rot90", "np.rot90(x)", "np.rot90(x, 2)", "np.rot90(x, -1, (1, 0)) != 0",
        "np.rot90(x, 4)", "np.rot90(x, axes=(0, 0))", "np.rot90(v)", "np.rot90(x, i)", **every,
    )  # fmt: skip
    yield row(
        "np::unstack", "np.unstack(x)", "z, y, w = np.unstack(x)\nreturn z | y",
        "np.unstack(x, axis=1)", "np.unstack(x, axis=2)", **every,
    )  # fmt: skip
    yield row(
        "np::matrix_transpose", "np.matrix_transpose(x)", "x[None].mT", "np.matrix_transpose(v)",
        **every,
    )  # fmt: skip
    for name in ("shape", "ndim", "size"):
        yield row(f"np::{name}", f"np.{name}(x)", f"np.{name}(s)", f"np.{name}(a)", **every)
    yield row("np::size", "np.size(x, 0)", "np.size(x, axis=4)", "np.size([1, 2])", **every)
    yield row(
        "np::conj_method", "x.conj()", "x.conjugate() == 1", "s.conj()", dtypes="?lfdFD",
        layouts=True,
    )  # fmt: skip
    yield row("np::flipud", "np.flipud(x)", **every)
    yield row("np::fliplr", "np.fliplr(x)", **every)
    yield row("np::broadcast_to", "np.broadcast_to(v, (2, 4)) + 1", **every)
    yield row(
        "np::broadcast_to_function",
        "np.broadcast_to(x, (2, 3, 4))",
        "np.broadcast_to(s, (2, 2))",
        "np.broadcast_to(x, x.shape)",
        "np.broadcast_to(x, (7, 7))",
        **every,
    )
    yield row("np::listed", "np.array(list(v))", "np.sum([k for k in range(i)])", "np.array(v[:0])")
    yield row(
        "np::copy", "x.copy()", "np.copy(x)", "np.copy(x, 'F')", "np.copy(a=x)", "np.copy([i, j])",
        "np.copy(s)", "np.copy(x, order='C', subok=True)", **every,
    )  # fmt: skip
    yield row("np::concatenate", "np.concatenate((x, y))", **every)
    yield row(
        "np::concatenate_function",
        "np.concatenate([x, y], axis=-1)",
        "np.concatenate((x, y), axis=None)",
        "np.concatenate((x, v))",
        "np.concat([v, w, v])",
        dtypes="?bfD",
        mixed=True,
        layouts=True,
    )
    yield row(
        "np::stack",
        "np.stack([x, y])",
        "np.stack((x, y), axis=-1)",
        "np.stack([x, v])",
        "np.stack([s, t])",
        dtypes="?bfD",
        mixed=True,
        layouts=True,
    )
    for name in ("vstack", "hstack", "dstack", "column_stack"):
        yield row(
            f"np::{name}",
            f"np.{name}((x, y))",
            f"np.{name}([v, w])",
            dtypes="?D",
            mixed=True,
            layouts=True,
        )
    yield row(
        "np::append", "np.append(x, y)", "np.append(x, y, axis=0)", "np.append(v, 1)",
        "np.append(v, [a, i])", "np.append(x, v)", "np.append(x, v, axis=0)", "np.append(s, t)",
        "np.append([1, 2], x)", dtypes="?bfD", mixed=True, layouts=True,
    )  # fmt: skip
    yield row(
        "np::stack", "np.stack([s, a])", "np.stack([x, y], dtype=np.float32)",
        "np.stack([v, w[:2]])", "np.stack([x, y], dtype=np.int8)", "np.stack(x)", dtypes="bld",
    )  # fmt: skip
    yield row(
        "np::hstack", "np.hstack([s, v, a])", "np.hstack([x, y], dtype=np.float32)",
        "np.hstack([v, x])", dtypes="bld",
    )  # fmt: skip
    yield row(
        "np::concatenate_function", "np.concatenate([x, y], dtype=np.float32)",
        "np.concatenate([v, [1, 2]])", "np.concatenate([x, y], dtype=np.int8)",
        "np.concatenate([v, 1])", "np.concatenate(x)", "np.concatenate([])", dtypes="bld",
    )  # fmt: skip
    yield row(
        "np::roll", "np.roll(x, i)", "np.roll(x, j, axis=1)", "np.roll(x, (1, 2), (0, 0))",
        "np.roll(x, 1, (0, 1))", "np.roll(x, (i, j), axis=(0, 1))", "np.roll(x, 1, 3)", **every,
    )  # fmt: skip
    yield row(
        "np::roll",
        "np.roll(x, 1)",
        "np.roll(v, -2)",
        "np.roll(x, 1, axis=0)",
        "np.roll(x, -9, axis=-1)",
        "np.roll(x, (1, 2), axis=(0, 1))",
        "np.roll(x, i, axis=1)",
        "np.roll(x, 0, axis=0)",
        **every,
    )


def creation_rows() -> Iterator[OpInfo]:
    sizes = ((3,), (0,), (1,), (-1,))
    yield row(
        "np::empty", "np.empty((i, 2)).shape", "z = np.empty(i)\nz[:] = 1\nreturn z", numbers=sizes
    )
    yield row("np::empty_function", "np.empty((2, i), dtype=np.int8).dtype", numbers=sizes)
    for name in ("zeros", "ones"):
        yield row(
            f"np::{name}",
            f"np.{name}(i)",
            f"np.{name}((i, 2))",
            f"np.{name}((2, 3), int)",
            f"np.{name}(i, dtype=bool)",
            f"np.{name}((i,), np.complex64)",
            f"np.{name}((i, i), order='F')",
            numbers=sizes,
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
    yield row("np::iota", "np.arange(7)", "np.arange(i) * 2", numbers=sizes)
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
        numbers=sizes,
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
        numbers=sizes,
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
    yield row(
        "prim::getitem",
        "np.mgrid[0:i]",
        "np.mgrid[1:i:2]",
        "np.mgrid[0:i, 2:5]",
        "np.mgrid[i:4, :3:2, -1:i]",
        "np.mgrid[0:i, 0.5:2]",
        "np.mgrid[5:i]",
        numbers=sizes,
    )
    yield row(
        "np::ndarray",
        "np.ndarray((2, i), dtype=np.int8).dtype",
        "np.ndarray(i).shape",
        "np.ndarray(shape=(i,), dtype=np.float32).shape",
        "np.ndarray((i, 2), order='F').strides",
        numbers=sizes,
    )
    yield row(
        "np::eye",
        "np.eye(i)",
        "np.eye(3, 4, k=1)",
        "np.eye(3, k=-1, dtype=int)",
        "np.eye(i, i + 1)",
        "np.eye(3, -i)",
        numbers=sizes,
    )
    yield row("np::identity", "np.identity(i)", "np.identity(3, dtype=np.float32)", numbers=sizes)
    for name in ("tril", "triu"):
        yield row(
            f"np::{name}",
            f"np.{name}(x)",
            f"np.{name}(x, k=1)",
            f"np.{name}(x, -1)",
            dtypes="?bfD",
            layouts=True,
        )
